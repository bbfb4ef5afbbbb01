"""Branch and bound of whole maps, from any p to any q: exact, never below the truth, not to be forged; and mixed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipcert
from lipcert import Ball, Box, Certificate, Everywhere, FileFormatError, MethodError, Network
from lipcert.bounds import directions, map_bounds, preactivations, slopes
from lipcert.bounds.interval import Interval
from lipcert.bounds.operator_norms import hard, largest_eigenvalues, matrix_norms, positive_norms, spectral_norms
from lipcert.budget import Budget
from lipcert.jobs import local
from lipcert.method.bracket import Bracket
from lipcert.method.branching import branch
from lipcert.method.signs import SignSearch, search_signs
from lipcert.method.signs.program import Answer, Program
from lipcert.method.signs.quick import Maps
from lipcert.method.signs.realise import Realise
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import prove_interval, prove_linear, prove_mixed, prove_product
from lipcert.proof.leaves import BY_INTERVALS, BY_LINES, Empty, leaf_bounds
from lipcert.proof.nogoods import Signs
from lipcert.proof.tree import Tree
from lipcert.proof.verify import verify
from lipcert.rounding import Array
from lipcert.search.progress import CLOSED
from lipcert.search.settings import Settings
from lipcert.witness import evaluate, search, steepness
from lipcert.witness.directions import jacobian, operator_norms
from tests.constants import set_constant
from tests.enumeration import exact_constant, operator
from tests.lift_tools import deep_net
from tests.reader_tools import data_file
from tests.strategies import branched_networks, small_cases
from tests.trees import tree_of

PAIRS = [Norm(p, q) for p in ("inf", "2", "1") for q in ("inf", "2", "1")]
Case = tuple[Network, Box, Array]


def named(norm: Norm) -> str:
    return norm.words


def truth_of(net: Network, box: Box, norm: Norm) -> float:
    return exact_constant(net, box, np.eye(net.outputs), norm)


@pytest.mark.parametrize("norm", PAIRS, ids=named)
def test_signs_and_cells_are_exact(norm: Norm) -> None:
    """Both alone, against all patterns; a file of the proof is checked again."""
    for sizes, radius, seed in (((3, 5, 4, 3), 1.0, 1), ((4, 6, 2), 2.0, 2)):
        net, box = deep_net(*sizes, seed=seed), Box(np.zeros(sizes[0]), radius)
        problem, truth = Problem.of(net, box, "all", norm), truth_of(net, box, norm)
        bracket = Bracket(Settings(gap=CLOSED))
        by_signs = search_signs(problem, bracket, Budget.of_work(10.0))
        by_cells = branch(problem, bracket, Budget.of_work(20.0), local())
        assert by_signs.closed
        assert by_cells.closed
        assert truth * (1 - 1e-6) <= bracket.lower <= truth * (1 + 1e-9)
        for certificate in (by_signs.certificate, by_cells.certificate):
            assert truth * (1 - 1e-12) <= certificate.upper <= truth * (1 + 2e-6)
            found = verify(certificate, net)
            assert found.proved
            assert found.upper == pytest.approx(certificate.upper, rel=1e-10)


@given(small_cases(max_depth=3, max_neurons=6), st.sampled_from(PAIRS))
@settings(max_examples=15, deadline=None)
def test_exact_is_not_below_the_truth(case: Case, norm: Norm) -> None:
    net, box, _ = case
    truth = truth_of(net, box, norm)
    result = lipcert.bound(net, box, output="all", norm=norm.p, output_norm=norm.out, method="exact", work=0.3)
    assert result.lower is not None
    assert result.lower <= truth * (1 + 1e-7) + 1e-12
    assert result.upper >= truth * (1 - 1e-7)
    assert verify(result.certificate, net).proved


@given(branched_networks(max_neurons=7), st.sampled_from(PAIRS), st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_cells_are_bounded_above_all_their_jacobians(case: Case, norm: Norm, seed: int) -> None:
    """Any slopes within the bounds: open ones, and those that are known."""
    net, box, _ = case
    problem, rng = Problem.of(net, box, "all", norm), np.random.default_rng(seed)
    cells = []
    for s in slopes(problem):
        fixed = rng.uniform(size=(5, len(s.lo))) < 0.5
        at = rng.uniform(s.lo, s.hi, size=fixed.shape)
        cells.append(Interval(np.where(fixed, at, s.lo), np.where(fixed, at, s.hi)))
    found = map_bounds(net, cells, norm)
    for _ in range(6):
        inside = [np.where(rng.uniform(size=s.lo.shape) < 0.5, s.lo, s.hi) for s in cells]
        rows = np.stack([net.chain_rule(inside, e) for e in np.eye(net.outputs)], axis=1)
        values = np.array([operator(J, norm) for J in rows])
        assert np.all(found.upper >= values * (1 - 1e-12))
    alone = [map_bounds(net, [s.rows(slice(k, k + 1)) for s in cells], norm).upper[0] for k in range(5)]
    np.testing.assert_allclose(found.upper, alone, rtol=1e-9)
    known = [Interval(s.lo, s.lo) for s in cells]
    rows = np.stack([net.chain_rule([s.lo for s in known], e) for e in np.eye(net.outputs)], axis=1)
    exactly = [operator(J, norm) for J in rows]
    np.testing.assert_allclose(map_bounds(net, known, norm).upper, exactly, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("norm", PAIRS, ids=named)
def test_norms_of_stacks(norm: Norm) -> None:
    """Of matrices of all shapes and sizes, and of all within a radius."""
    rng = np.random.default_rng(0)
    assert norm.out is not None
    for shape in ((1, 4), (3, 3), (5, 2), (2, 12), (8, 3)):
        M = rng.normal(size=(4, *shape)) * np.array([1.0, 1e-150, 1e150, 1.0])[:, None, None]
        M[3, -1] = M[3, 0]
        R = 0.1 * np.abs(M) * rng.uniform(size=M.shape)
        exact = np.array([operator(J / np.abs(J).max(), norm) * np.abs(J).max() for J in M])
        found = matrix_norms(M, np.zeros_like(M), norm.p, norm.out)
        assert np.all(found >= exact)
        assert np.all(found <= exact * (1 + 1e-12))
        wide = matrix_norms(M, R, norm.p, norm.out)
        for _ in range(10):
            J = M + R * rng.uniform(-1, 1, size=M.shape)
            top = np.abs(J).max(axis=(1, 2))
            assert all(operator(j / t, norm) * t <= w for j, t, w in zip(J, top, wide, strict=True))
    unknown = np.array([[[np.inf, 1.0]], [[np.nan, 1.0]], [[0.0, 0.0]]])
    with np.errstate(all="ignore"):
        found = matrix_norms(unknown, np.zeros_like(unknown), norm.p, norm.out)
    assert list(found[:2]) == [np.inf, np.inf]
    assert found[2] <= 1e-300


def test_eigenvalues_are_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong eigenvectors give a worse bound, or none, never a wrong one."""
    rng = np.random.default_rng(1)
    S = rng.normal(size=(6, 4, 4))
    S = S + np.swapaxes(S, 1, 2)
    top = np.linalg.eigvalsh(S)[:, -1]
    R = np.abs(rng.normal(size=S.shape))
    length = np.linalg.norm(R, 2, axis=(1, 2))
    for wrong in (
        np.eye(4),
        np.linalg.qr(rng.normal(size=(4, 4)))[0],
        np.ones((4, 4)),
        np.zeros((4, 4)),
        0.9 * np.eye(4),
    ):
        monkeypatch.setattr(
            "lipcert.bounds.operator_norms._vectors", lambda S, wrong=wrong: np.broadcast_to(wrong, S.shape)
        )
        assert np.all(largest_eigenvalues(S, np.zeros_like(S)) >= np.maximum(top, 0.0))
    assert np.all(positive_norms(R) >= length * (1 - 1e-15))
    assert np.all(positive_norms(R) <= length * 1.01)
    assert np.all(spectral_norms(np.zeros_like(R), R) >= length * (1 - 1e-15))


def test_directions() -> None:
    rows = directions(Norm("2", "inf"), 3)
    assert rows is not None
    assert np.array_equal(rows, np.eye(3))
    signs = directions(Norm("2", "1"), 3)
    assert signs is not None
    assert len(np.unique(signs, axis=0)) == 4
    assert directions(Norm("2", "2"), 2) is None
    assert directions(Norm("2", "1"), 9) is None
    assert directions(Norm("2", "2"), 1) is not None


def test_balls_and_the_whole_space() -> None:
    """Bounds above what points show, closed, and verified."""
    net = deep_net(3, 5, 4, 2, seed=4)
    ball, everything = Ball(np.zeros(3), 0.7), Everywhere()
    for region, norm in ((ball, Norm("2", "2")), (ball, Norm("inf", "1")), (everything, Norm("2", "2"))):
        result = lipcert.bound(net, region, output="all", norm=norm.p, output_norm=norm.out, method="exact", work=20.0)
        assert result.gap is not None
        assert result.gap <= 2e-6
        assert verify(result.certificate, net).proved
    truth = truth_of(net, Box(np.zeros(3), 1e3), Norm("2", "2"))
    assert result.upper == pytest.approx(truth, rel=1e-5)


def test_leaky_and_smooth_networks() -> None:
    leaky, box = deep_net(3, 4, 4, 2, seed=5, activation=lipcert.Activation("leaky_relu", 0.2)), Box(np.zeros(3), 1.0)
    for norm in (Norm("2", "2"), Norm("inf", "1"), Norm("inf", "2")):
        result = lipcert.bound(leaky, box, output="all", norm=norm.p, output_norm=norm.out, method="exact", work=10.0)
        assert result.upper == pytest.approx(truth_of(leaky, box, norm), rel=2e-6)
    smooth, small = deep_net(2, 4, 2, seed=6, activation="tanh"), Box(np.zeros(2), 0.5)
    result = lipcert.bound(smooth, small, output="all", norm="2", method="exact", work=10.0, gap=0.05)
    assert result.gap is not None
    assert result.gap <= 0.05
    points = np.random.default_rng(0).uniform(small.lo, small.hi, size=(500, 2))
    assert steepness(Problem.of(smooth, small, "all", "2"), points).max() <= result.upper
    assert verify(result.certificate, smooth).proved


def test_relaxed_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves with multipliers of the whole map's relaxation."""
    for name, value in (("RELAX_OPEN", 1), ("CELLS_GROWTH", 60.0), ("RELAX_SHARE", np.inf), ("EXCESS_FIRST", 60.0)):
        set_constant(monkeypatch, name, value)
    net, box = deep_net(9, 6, 3, seed=4), Box(np.zeros(9), 0.7)
    for norm in (Norm("2", "2"), Norm("inf", "1")):
        problem, bracket = Problem.of(net, box, "all", norm), Bracket()
        bracket.improve(search(problem, Budget.of_work(0.1)))
        proof = branch(problem, bracket, Budget.of_work(5.0), local()).certificate
        assert isinstance(proof.proof, Tree)
        assert proof.proof.relaxed
        assert proof.upper >= truth_of(net, box, norm) * (1 - 1e-9)
        assert verify(proof, net).proved


def test_lying_searches_prove_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that refuse everything, points outside, costs that are nonsense."""
    net, box, norm = deep_net(3, 4, 4, 2, seed=7), Box(np.zeros(3), 1.0), Norm("2", "2")
    problem, truth = Problem.of(net, box, "all", norm), truth_of(net, box, norm)
    rng = np.random.default_rng(2)

    def refuse(self: Program, *_: object) -> Answer:
        y, t = rng.normal(size=self.system.neurons), np.abs(rng.normal(size=self.system.neurons))
        return Answer(None, np.zeros(0, dtype=bool), y, t, 1)

    def nowhere(*_: object) -> tuple[Array | None, None]:
        return np.full(3, 1e3), None

    def nonsense(signs: Signs) -> Array:
        return np.where(signs == 0, rng.uniform(size=signs.shape), -1.0)

    honest = Maps.bounds
    monkeypatch.setattr(Program, "ask", refuse)
    monkeypatch.setattr(Realise, "point", nowhere)
    monkeypatch.setattr(Maps, "constants", lambda _, signs: np.full(len(signs), 1e9))
    monkeypatch.setattr(Maps, "bounds", lambda self, signs: (honest(self, signs)[0], nonsense(signs)))
    found = search_signs(problem, Bracket(), Budget.of_work(0.2))
    assert found.certificate.upper >= truth
    assert verify(found.certificate, net).proved


@pytest.fixture(scope="module")
def kept() -> tuple[Network, Certificate, Certificate]:
    net, box = deep_net(3, 5, 4, 3, seed=1), Box(np.zeros(3), 1.0)
    problem, bracket = Problem.of(net, box, "all", "2", "2"), Bracket()
    search = SignSearch(problem, bracket)
    search.run(Budget.of_work(10.0))
    cells = branch(problem, bracket, Budget.of_work(20.0), local())
    return net, search.certificate(), cells.certificate


def test_files_cannot_be_forged(kept: tuple[Network, Certificate, Certificate], tmp_path: Path) -> None:
    net, *both = kept
    for certificate in both:
        file = tmp_path / "proof.npz"
        certificate.save(file)
        assert verify(file, net).proved
        with np.load(file) as data:
            arrays = {name: data[name] for name in data.files}
        forged = [
            arrays | {"upper": arrays["upper"] * 0.999},
            arrays | {"norm": np.array("inf")},  # the same tree proves a larger number there
            arrays | {"output_norm": np.array("1")},
            arrays | {"splits": arrays["splits"][:-2]},
            arrays | {"c": np.eye(3)[:2]},
            arrays | {"c": 0.5 * np.eye(3)},
            {name: value for name, value in arrays.items() if name != "output_norm"},
        ]
        for wrong in forged:
            np.savez(file, **wrong)
            try:
                assert not verify(file, net).proved
            except FileFormatError:
                continue


def test_forged_trees_prove_no_less_than_the_truth() -> None:
    net, box = deep_net(3, 4, 2, seed=3), Box(np.zeros(3), 1.0)
    for norm in PAIRS:
        problem, truth = Problem.of(net, box, "all", norm), truth_of(net, box, norm)
        assert tree_of(net, (None,), (BY_LINES,)).check(problem) >= truth
        assert tree_of(net, (None,), (BY_INTERVALS,)).check(problem) == np.inf
        assert tree_of(net, (None,), (Empty({"half-spaces": np.ones(net.neurons)}),)).check(problem) == np.inf
        root = leaf_bounds(problem, np.zeros(0, dtype=np.int64), np.zeros((1, 0), dtype=np.int8))
        assert root[0] >= truth


def test_witnesses_are_the_steepest() -> None:
    """Where norms are enumerated, a point's value is the norm of its Jacobian."""
    net = deep_net(5, 8, 4, seed=9)
    points = np.random.default_rng(0).normal(size=(4, 5))
    for norm in PAIRS:
        problem = Problem.of(net, Everywhere(), "all", norm)
        exact = np.array([operator(jacobian(problem, x[None]), norm) for x in points])
        np.testing.assert_allclose(steepness(problem, points), exact, rtol=1e-9)
        np.testing.assert_allclose([evaluate(problem, x) for x in points], exact, rtol=1e-9)
        wide = np.random.default_rng(1).normal(size=(2, 9, 14))
        assert np.all(operator_norms(wide, norm) <= matrix_norms(wide, 0 * wide, norm.p, str(norm.out)) * (1 + 1e-12))


@given(branched_networks(max_neurons=8), st.sampled_from(PAIRS))
@settings(max_examples=15, deadline=None)
def test_mixed_is_not_below_the_truth(case: Case, norm: Norm) -> None:
    net, box, _ = case
    assert prove_mixed(Problem.of(net, box, "all", norm)).upper >= truth_of(net, box, norm) * (1 - 1e-9)


def test_mixed_is_worth_it() -> None:
    """Wide layers with open signs: intervals lose the width in each."""
    net, region = deep_net(10, 40, 40, 40, 4, seed=1), Everywhere()
    for norm in (Norm("2", "2"), Norm("inf", "2"), Norm("inf", "inf")):
        problem = Problem.of(net, region, "all", norm)
        mixed = prove_mixed(problem)
        assert mixed.upper < 0.5 * prove_interval(problem).upper
        assert mixed.upper <= prove_product(problem).upper * (1 + 1e-9) or norm.p == "inf"
        assert verify(mixed, net).proved
    short = lipcert.bound(net, region, output="all", norm="2", method="mixed", work=0.2, lower=False)
    assert short.method == "mixed"


def test_affine_maps_and_closed_neurons_are_exact_with_linear() -> None:
    rng = np.random.default_rng(3)
    A = rng.normal(size=(3, 5))
    affine, box = Network.from_weights([A]), Box(np.zeros(5), 1.0)
    on = Network.from_weights([rng.normal(size=(4, 5)), rng.normal(size=(3, 4))], [np.full(4, 1e3), np.zeros(3)])
    assert not np.any([z.lo < 0 for z in preactivations(Problem.of(on, box, 0))])
    for norm in PAIRS:
        for net in (affine, on):
            J = jacobian(Problem.of(net, box, "all", norm), np.zeros((1, 5)))
            assert prove_linear(Problem.of(net, box, "all", norm)).upper == pytest.approx(operator(J, norm), rel=1e-12)


def test_what_is_refused() -> None:
    wide = deep_net(13, 4, 3)
    with pytest.raises(MethodError, match=r"inf to 2 of 13 inputs.*use auto"):
        lipcert.bound(wide, Box(np.zeros(13), 1.0), output="all", norm="inf", output_norm="2", method="exact")
    many = deep_net(3, 4, 9)
    with pytest.raises(MethodError, match=r"2 to 1 of 9 outputs.*use auto"):
        lipcert.bound(many, Box(np.zeros(3), 1.0), output="all", norm="2", output_norm="1", method="exact")
    assert hard("1", "1", 99, 99) is None
    assert hard("2", "2", 99, 99) is None
    result = lipcert.bound(many, Box(np.zeros(3), 1.0), output="all", norm="2", output_norm="1", work=0.5)
    assert math.isfinite(result.upper)
    assert verify(result.certificate, many).proved


def test_a_published_exact_constant() -> None:
    net = lipcert.load(data_file("nets/exlipbab_abalone_9-16-16-1.npz"))
    result = lipcert.bound(net, Everywhere(), output="all", norm="2", method="exact", work=10.0)
    assert result.upper == pytest.approx(11.1216, rel=1e-5)
    assert verify(result.certificate, net).proved


def test_searches_go_on_where_they_were(kept: tuple[Network, Certificate, Certificate]) -> None:
    """The same work in pieces ends with the same constant."""
    net, certificate, _ = kept
    problem, bracket = Problem.of(net, Box(np.zeros(3), 1.0), "all", "2", "2"), Bracket()
    bracket.improve(search(problem, Budget.of_work(0.1)))
    pieces = SignSearch(problem, bracket)
    for _ in range(200):
        if pieces.done:
            break
        pieces.run(Budget.of_work(0.02))
    assert pieces.certificate().upper == pytest.approx(certificate.upper, rel=2e-6)


def test_smooth_maps_on_balls_are_decided() -> None:
    net, ball = deep_net(2, 4, 2, activation="tanh"), Ball(np.zeros(2), 0.5)
    result = lipcert.bound(net, ball, output="all", norm="2", method="exact", gap=0.02, work=10.0)
    assert result.gap is not None
    assert result.gap <= 0.02
    problem = Problem.of(net, ball, "all", "2", "2")
    seen = steepness(problem, ball.project(np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 2))))
    assert seen.max() <= result.upper * (1 + 1e-12)
    assert verify(result.certificate, net).proved
