"""lower <= exact <= interval <= product, on 200 random networks of depths 1 to 4, against exhaustive enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from lipcert import Box, Network
from lipcert.problem.norms import INF
from lipcert.problem.problem import Problem
from lipcert.proof import prove_interval, prove_product
from lipcert.rounding import Array
from lipcert.witness import search
from tests.enumeration import exact_constant
from tests.strategies import small_cases


@settings(max_examples=200)
@given(small_cases())
def test_bracket_contains_the_exact_constant(case: tuple[Network, Box, Array]) -> None:
    net, box, c = case
    exact = exact_constant(net, box, c)
    witness = search(net, box, c, INF, seconds=0.2, seed=0, samples=500)
    interval = prove_interval(Problem.of(net, box, c)).upper
    product = prove_product(Problem.of(net, box, c)).upper
    slack = 1e-9 * exact + 1e-12
    assert witness.value <= exact + slack
    assert exact <= interval + slack
    assert interval <= product * (1 + 1e-12) + 1e-300
    assert witness.value <= interval
    assert box.contains(witness.point)


def test_enumeration_knows_closed_forms() -> None:
    """The oracle itself: |x| has slope 1; relu(x) - relu(x - 1) has slope 1 on [-1, 2] and 0 on [2, 3]."""
    c = np.ones(1)
    absolute = Network.from_weights([[[1.0], [-1.0]], [[1.0, 1.0]]])
    assert exact_constant(absolute, Box([0.0], 1.0), c) == 1.0
    step = Network.from_weights([[[1.0], [1.0]], [[1.0, -1.0]]], [[0.0, -1.0], [0.0]])
    assert exact_constant(step, Box([0.5], 1.5), c) == 1.0
    assert exact_constant(step, Box([2.5], 0.5), c) == 0.0
    cancelled = Network.from_weights([[[1.0], [-1.0], [1.0]], [[-1.0, 1.0, 1.0]]], [[0.0, 0.0, 10.0], [0.0]])
    assert exact_constant(cancelled, Box([0.0], 1.0), c) == 0.0


def test_lower_bound_is_not_fooled_by_a_kink() -> None:
    """x - relu(x) + relu(-x) = 0, though the formal gradient at 0 is 1."""
    net = Network.from_weights([[[1.0], [-1.0], [1.0]], [[-1.0, 1.0, 1.0]]], [[0.0, 0.0, 10.0], [0.0]])
    for box in (Box([0.0], 0.0), Box([0.0], 1.0)):
        assert search(net, box, np.ones(1), INF, seconds=0.2, seed=0).value == pytest.approx(0.0, abs=1e-12)
