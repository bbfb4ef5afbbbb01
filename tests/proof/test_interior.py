"""Patterns without interior on bounded regions are refused exactly, by both checkers, and no others are."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Ball, Box, Certificate, Everywhere, Network, Polytope, bound, verify
from lipcert.bounds.propagation import root_bounds
from lipcert.budget import Budget
from lipcert.jobs import local
from lipcert.method.bracket import Bracket
from lipcert.method.branching import branch
from lipcert.method.halfspaces import prepared
from lipcert.method.signs import search_signs
from lipcert.method.signs.learnt import Learnt
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof.balls.check import check_with_balls
from lipcert.proof.balls.interior import no_interior as flat_in_fractions
from lipcert.proof.file import load_certificate
from lipcert.proof.interior import has_interior, known_signs, no_interior, row_count
from lipcert.proof.leaves import BY_LINES, ROWS, Empty
from lipcert.proof.nogoods import Signs, System
from lipcert.proof.sharpened import Within
from lipcert.proof.tree import Tree
from lipcert.rounding import Array
from lipcert.search.progress import CLOSED
from lipcert.search.settings import Settings
from tests.enumeration import exact_constant
from tests.trees import leaves_of, tree_of

EXACT = find_spec("flint") is not None
ONE = np.ones(1)


def without_biases(*shape: int, seed: int = 0) -> Network:
    rng = np.random.RandomState(seed)
    weights = [rng.randn(b, a) for a, b in pairwise(shape)]
    return Network.from_weights(weights, [np.zeros(b) for b in shape[1:]])


def regions(n: int) -> list[Region]:
    box = Box(np.zeros(n), 1.0)
    cut = prepared(Polytope(box, [np.ones(n)], [0.5]), Budget.of_work(1.0))
    return [box, Ball(np.zeros(n), 1.0), cut, Box(np.full(n, 0.5), 0.5)]


@pytest.mark.parametrize("shape", [(2, 8, 1), (2, 8, 8, 1)])
@pytest.mark.parametrize("place", range(3))
def test_kinks_that_meet_in_the_center_leave_no_gap(shape: tuple[int, ...], place: int) -> None:
    """All cells are cones, so that the constant is that of the whole space."""
    net = without_biases(*shape)
    found = bound(net, regions(2)[place], output=0, work=4.0)
    truth = exact_constant(net, Box(np.zeros(2), 1.0), ONE)
    assert found.lower is not None
    assert truth * (1 - 1e-9) <= found.upper <= found.lower * (1 + 2e-6)
    assert verify(found.certificate, net).proved


def by_signs(problem: Problem) -> Certificate:
    return search_signs(problem, Bracket(Settings(gap=CLOSED)), Budget.of_work(3.0)).certificate


def by_cells(problem: Problem) -> Certificate:
    return branch(problem, Bracket(Settings(gap=CLOSED)), Budget.of_work(3.0), local()).certificate


@pytest.mark.parametrize("search", [by_signs, by_cells])
@pytest.mark.parametrize("place", range(4))
def test_files_of_both_searches_pass_both_checkers(place: int, search: object, tmp_path: Path) -> None:
    net, region = without_biases(2, 6, 1, seed=3), regions(2)[place]
    certificate = (by_signs if search is by_signs else by_cells)(Problem.of(net, region))
    proof = certificate.proof
    assert isinstance(proof, Tree)
    assert proof.leaves is not None
    if proof.method == "signs":
        assert proof.leaves.nogoods.named(net.neurons, 1 if place == 2 else 0)
    else:
        assert any(isinstance(leaf, Empty) and ROWS in leaf.multipliers for leaf in leaves_of(proof))
    certificate.save(tmp_path / "proof.npz")
    again = load_certificate(tmp_path / "proof.npz")
    assert verify(again, net).proved
    if EXACT:
        assert check_with_balls(again, net) <= certificate.upper
    if place < 3:
        assert certificate.upper <= exact_constant(net, Box(np.zeros(2), 1.0), ONE) * (1 + 2e-6)


def test_rounded_coefficients_of_the_open_neurons_do_not_matter() -> None:
    """Weights of inputs put a layer in front, which the network of the open neurons multiplies in, with rounding."""
    net = without_biases(2, 8, 1)
    found = bound(net, Box(np.zeros(2), 1.0), output=0, input_weights=[3.0, 0.7], work=2.0)
    assert found.lower is not None
    assert isinstance(found.certificate.proof, Within)
    assert found.upper <= found.lower * (1 + 2e-6)
    assert verify(found.certificate, net).proved
    if EXACT:
        assert check_with_balls(found.certificate, net) <= found.upper * (1 + 1e-9)


@st.composite
def meeting_kinks(draw: st.DrawFn) -> tuple[Network, Array]:
    """A network with small whole numbers as weights, whose kinks mostly pass through one point of {-1, 0, 1}^n."""
    inputs = draw(st.integers(1, 3))
    widths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    point = value = rng.integers(-1, 2, size=inputs).astype(np.float64)
    weights, biases = [], []
    for a, b in pairwise([inputs, *widths, 1]):
        weights.append(rng.integers(-2, 3, size=(b, a)).astype(np.float64))
        through = rng.uniform(size=b) < 0.8
        biases.append(np.where(through, -(weights[-1] @ value), rng.integers(-1, 2, size=b)))
        value = np.maximum(weights[-1] @ value + biases[-1], 0.0)
    return Network.from_weights(weights, biases), point


@given(meeting_kinks(), st.sampled_from(("inf", "2", "1")))
@settings(max_examples=8, deadline=None)
def test_no_region_is_above_one_that_contains_it(case: tuple[Network, Array], p: str) -> None:
    """And no bound is below the truth; kinks meet in the center, in corners, or on sides."""
    net, _ = case
    n = net.inputs
    small, large = Box(np.zeros(n), 1.0), Box(np.zeros(n), 2.0)
    chain: list[Region] = [Everywhere(), large, small, Box(np.full(n, 0.5), 0.5)]
    uppers = []
    for region in chain:
        found = bound(net, region, norm=p, output=0, work=0.5)
        assert verify(found.certificate, net).proved
        uppers.append(found.upper)
        if isinstance(region, Box):
            truth = exact_constant(net, region, ONE, Norm(p))
            assert found.lower is not None
            assert found.lower <= truth * (1 + 1e-7) + 1e-9
            assert found.upper >= truth * (1 - 1e-7) - 1e-9
    for outer, inner in pairwise(uppers):
        assert inner <= outer * (1 + 3e-6) + 1e-9


@given(meeting_kinks(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_what_is_refused_has_no_point_inside_and_both_checkers_agree(case: tuple[Network, Array], seed: int) -> None:
    """Random rows and the signs of a random point, which is well inside of its own cell: nothing refuses that."""
    net, _ = case
    rng, box = np.random.default_rng(seed), Box(np.zeros(net.inputs), 1.0)
    x = rng.uniform(-1.0, 1.0, size=net.inputs)
    z = np.concatenate([row[0] for row in net.preactivations(x[None, :])])
    signs = np.where(z >= 0, 1, -1).astype(np.int8)
    inside = bool(np.all(np.abs(z) > 1e-9))
    flipped = np.where(rng.uniform(size=len(z)) < 0.4, -signs, signs).astype(np.int8)
    for own in (signs, flipped):
        for _ in range(20):
            count = int(rng.integers(1, net.inputs + 2))
            rows = rng.permutation(row_count(net, box))[:count].astype(np.int64)
            found = no_interior(net, box, own, rows)
            assert not (found and inside and own is signs)
            if EXACT:
                assert flat_in_fractions(net, box, own, rows) == found


def test_rows_are_exact_where_floats_are_not() -> None:
    """Three kinks through the point (1/3, 1/3), which is no float; one of them moved by one float leaves a triangle."""
    rows = np.array([[1.0, 2.0], [2.0, 1.0], [-1.0, -1.0]])
    meeting, open_ = np.array([-1.0, -1.0, 2 / 3]), np.array([-1.0, -1.0, np.nextafter(2 / 3, 1.0)])
    box, signs = Box(np.zeros(2), 1.0), np.ones(3, dtype=np.int8)
    names = np.arange(3)
    below = Network.from_weights([rows, np.ones((1, 3))], [meeting, np.zeros(1)])  # the float 2/3 is below the number
    above = Network.from_weights([rows, np.ones((1, 3))], [open_, np.zeros(1)])
    thirds = Network.from_weights([rows * [[1.0], [1.0], [3.0]], np.ones((1, 3))], [[-1.0, -1.0, 2.0], np.zeros(1)])
    assert [no_interior(net, box, signs, names) for net in (below, thirds, above)] == [True, True, False]
    if EXACT:
        assert [flat_in_fractions(net, box, signs, names) for net in (below, thirds, above)] == [True, True, False]


def test_a_region_without_interior_refuses_nothing() -> None:
    """There every pattern is without interior, and what is bounded are the gradients that the slopes allow."""
    net = without_biases(2, 8, 1)
    flat: list[Region] = [
        Box([0.0, 0.0], [1.0, 0.0]),
        Ball([0.0, 0.0], 0.0),
        Polytope(Box([0.0, 0.0], 1.0), np.eye(2)[:1], [0.0]),
    ]
    line = Polytope(Box([0.0, 0.0], 1.0), [[1.0, 1.0], [-1.0, -1.0]], [0.0, 0.0])
    for region in [*flat[:2], line, Box([1.0, 1.0], 1e-17)]:
        assert not has_interior(region)
    assert not has_interior(flat[2])  # no point inside is known
    assert all(has_interior(region) for region in regions(2))
    assert not has_interior(Polytope(line.base, line.A, line.b, inside=np.zeros(2)))
    point = bound(net, Box([0.0, 0.0], [1.0, 0.0]), output=0, work=0.5)
    problem = Problem.of(net, Box([0.0, 0.0], [1.0, 0.0]))
    system = System.of(problem)
    assert system is not None
    assert not any(system.flat(np.array(rows), np.ones(8, dtype=np.int8)) for rows in ([0, 1, 2], [10, 12], [11, 13]))
    assert point.upper >= exact_constant(net, Box(np.zeros(2), 1.0), ONE) * (1 - 1e-9)


def test_forged_rows_prove_nothing() -> None:
    net, box = without_biases(2, 5, 1), Box(np.zeros(2), 1.0)
    cell, bounds = root_bounds(Problem.of(net, box))
    forged = [
        [],
        [0],
        [0, 1, 2],
        [0, 0, 1],
        [-1, 2],
        [5, 7],
        [9],
        [2.0**63, 1.0],
        [np.nan],
        [np.inf, 0],
        [0.5, 1],
        [5, 6, 7, 8],
    ]
    for rows in forged:
        leaf = Empty({ROWS: np.array(rows, dtype=np.float64)})
        assert not leaf.shows(net, cell, bounds), rows
        assert tree_of(net, (None,), (leaf,)).check(Problem.of(net, box)) >= tree_of(net, (None,), (BY_LINES,)).check(
            Problem.of(net, box)
        )
    assert not np.any(known_signs(bounds.pre))
    assert not no_interior(net, Everywhere(), np.ones(5, dtype=np.int8), np.arange(3))


def test_a_solver_that_lies_teaches_nothing_false(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the multipliers are, what is learnt is proved; so the bound is never below the truth."""
    rng = np.random.default_rng(0)
    told = Learnt.learn

    def lie(self: Learnt, y: Array, t: Array, signs: Signs) -> int:
        return told(self, rng.normal(size=y.shape) * rng.integers(0, 2, size=y.shape), np.abs(t), signs)

    monkeypatch.setattr(Learnt, "learn", lie)
    for seed in range(4):
        net, box = without_biases(2, 5, 1, seed=seed), Box(np.zeros(2), 1.0)
        certificate = by_signs(Problem.of(net, box))
        assert certificate.upper >= exact_constant(net, box, ONE) * (1 - 1e-9)
        assert verify(certificate, net).proved
