"""The problems of tests/problems.py have the values that they say, from where they say."""

from __future__ import annotations

import numpy as np
import pytest

from lipcert import Box
from lipcert.paper.published import published
from tests.enumeration import exact_constant
from tests.problems import AFFINE, CLOSED, ENUMERATED, PUBLISHED, Cell, Known


@pytest.mark.parametrize("known", [k for k in CLOSED if k is not AFFINE], ids=str)
def test_closed_forms_are_enumerated(known: Known) -> None:
    assert exact_constant(*known.case, known.norm) == known.value


def test_an_affine_function_has_one_gradient() -> None:
    points = np.random.default_rng(0).normal(size=(5, 2))
    assert np.all(AFFINE.norm.dual.of(AFFINE.network.gradient(points, AFFINE.c)) == AFFINE.value)


@pytest.mark.parametrize("known", ENUMERATED, ids=str)
def test_enumerated_constants(known: Known) -> None:
    """Also sampled gradients, by other code: never above, and not far below."""
    net, box, c = known.case
    assert exact_constant(net, box, c, known.norm) == pytest.approx(known.value, rel=1e-12)
    points = np.random.default_rng(1).uniform(box.lo, box.hi, size=(4000, box.size))
    sampled = known.norm.dual.of(net.gradient(points, c)).max()
    assert 0.5 * known.value <= sampled <= known.value * (1 + 1e-12)


@pytest.mark.parametrize("cell", PUBLISHED, ids=str)
def test_published_values_are_those_of_the_files(cell: Cell) -> None:
    """Whether they come out again is for the tests of each method."""
    found = published(cell.layers, cell.place, cell.size, cell.sparsity, cell.method)
    assert found.of(cell.seed) == cell.value


def test_names_are_names() -> None:
    everything = [*CLOSED, *ENUMERATED]
    assert len({str(k) for k in [*everything, *PUBLISHED]}) == len(everything) + len(PUBLISHED)
    assert all(k.source for k in everything)
    assert all(isinstance(k.region, Box) for k in ENUMERATED)
