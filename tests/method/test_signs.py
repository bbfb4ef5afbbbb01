"""Branching over signs: answers are exact, a refusal is a proof whatever the solver says, trees cannot be forged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lipcert import Activation, Ball, Box, Certificate, Everywhere, FileFormatError, MethodError, Network
from lipcert.bounds import linear_bounds, preactivations
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.signs import SignSearch, refusal, search_signs
from lipcert.method.signs.program import Answer, Program
from lipcert.method.signs.quick import Quick
from lipcert.method.signs.realise import Realise
from lipcert.problem.blocks import Block
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.proof import tree as proof_tree
from lipcert.proof.file import load_certificate
from lipcert.proof.leaves import Kind, Leaves, leaf_bounds, leaf_slopes
from lipcert.proof.nogoods import Nogoods, Signs, System, gathered
from lipcert.proof.tree import LEAF, NO_TREE, Tree
from lipcert.proof.verify import verify
from lipcert.rounding import Array
from lipcert.search.loop import SearchOutcome
from lipcert.search.progress import CLOSED
from lipcert.search.settings import Settings
from lipcert.witness import Witness
from tests.enumeration import exact_constant
from tests.lift_tools import deep_net
from tests.strategies import branched_networks, small_cases
from tests.trees import mended, signs_of

Case = tuple[Network, Box, Array]
NORMS = tuple(Norm(p) for p in ("inf", "2", "1"))
CASES = [  # sizes, radius of the box
    ((3, 6, 1), 0.4),
    ((4, 7, 1), 5.0),
    ((3, 5, 4, 1), 0.3),
    ((3, 4, 4, 1), 2.0),
    ((2, 4, 3, 3, 1), 0.5),
    ((12, 4, 2, 1), 0.5),
]
ONE = np.ones(1)


def solved(problem: Problem, work: float = 10.0, gap: float = CLOSED) -> tuple[SearchOutcome, Bracket]:
    bracket = Bracket(Settings(gap=gap))
    return search_signs(problem, bracket, Budget.of_work(work)), bracket


def patterns_of(outcome: SearchOutcome) -> Tree:
    proof = outcome.certificate.proof
    assert isinstance(proof, Tree)
    return proof


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("sizes", "radius"), CASES)
def test_answers_are_exact(sizes: tuple[int, ...], radius: float, norm: Norm) -> None:
    net, box = deep_net(*sizes, seed=1), Box(np.zeros(sizes[0]), radius)
    problem = Problem.of(net, box, norm=norm)
    truth = exact_constant(net, box, ONE, norm)
    outcome, bracket = solved(problem)
    assert outcome.closed
    assert bracket.lower <= truth * (1 + 1e-9)
    assert truth * (1 - 1e-9) <= outcome.certificate.upper <= truth * (1 + 2e-6)
    found = verify(outcome.certificate, net)
    assert found.proved
    assert found.upper == pytest.approx(outcome.certificate.upper, rel=1e-10)


@given(small_cases(max_depth=3, max_neurons=7, kinds=("relu", "identity")), st.sampled_from(NORMS))
@settings(max_examples=20, deadline=None)
def test_no_bound_below_the_truth(case: Case, norm: Norm) -> None:
    """Copies of neurons and flat boxes have patterns without interior: they may stay in the bound, never below it."""
    net, box, c = case
    truth = exact_constant(net, box, c, norm)
    outcome, bracket = solved(Problem.of(net, box, c, norm), 2.0)
    assert bracket.lower <= truth * (1 + 1e-7) + 1e-12
    assert outcome.certificate.upper >= truth * (1 - 1e-7)
    assert verify(outcome.certificate, net).proved


@given(branched_networks(max_neurons=7, kinds=("relu", "identity")), st.sampled_from(NORMS))
@settings(max_examples=20, deadline=None)
def test_no_bound_below_the_truth_with_branches(case: Case, norm: Norm) -> None:
    net, box, c = case
    truth = exact_constant(net, box, c, norm)
    outcome, bracket = solved(Problem.of(net, box, c, norm), 2.0)
    assert bracket.lower <= truth * (1 + 1e-7) + 1e-12
    assert outcome.certificate.upper >= truth * (1 - 1e-7)


@given(branched_networks(max_neurons=8, kinds=("relu", "identity")), st.sampled_from(NORMS), st.integers(0, 2**32 - 1))
@settings(max_examples=16, deadline=None)
def test_a_leaf_is_bounded_in_company_as_alone(case: Case, norm: Norm, seed: int) -> None:
    """And as `linear_bounds` does, which looks at all entries of the gradient; and about as the search thinks."""
    net, box, c = case
    problem = Problem.of(net, box, c, norm)
    system = System.of(problem)
    assert system is not None
    neurons = np.flatnonzero(system.open)
    signs = np.random.default_rng(seed).choice([-1, 0, 0, 1], size=(7, len(neurons))).astype(np.int8)
    together = leaf_bounds(problem, neurons, signs)
    alone = np.concatenate([leaf_bounds(problem, neurons, row[None]) for row in signs])
    assert together == pytest.approx(alone, rel=1e-12, abs=1e-150)
    full = linear_bounds(net, leaf_slopes(problem, neurons, signs), norm, c).upper
    assert together == pytest.approx(full, rel=1e-9, abs=1e-150)
    assert Quick(problem, system).bounds(signs)[0] == pytest.approx(together, rel=1e-6, abs=1e-12)


def test_the_gap_is_kept_and_little_work_gives_a_bound() -> None:
    net, box = deep_net(4, 8, 6, 1, seed=3), Box(np.zeros(4), 1.0)
    exact = solved(Problem.of(net, box))[0]
    loose, bracket = solved(Problem.of(net, box), gap=0.2)
    assert loose.closed
    assert bracket.lower * 1.2 >= loose.certificate.upper >= exact.certificate.upper * (1 - 1e-9)
    assert loose.state.nodes < exact.state.nodes
    nothing, _ = solved(Problem.of(net, box), 0.0)
    assert not nothing.closed
    assert nothing.certificate.upper >= loose.certificate.upper
    assert patterns_of(nothing).count == 1


def test_the_same_work_gives_the_same_answer_and_a_search_goes_on() -> None:
    net, box = deep_net(5, 9, 8, 1, seed=4), Box(np.zeros(5), 1.0)
    one, other = (solved(Problem.of(net, box), 0.02)[0] for _ in range(2))
    assert one.certificate.upper == other.certificate.upper
    assert np.array_equal(patterns_of(one).where, patterns_of(other).where)
    problem, bracket, budget = Problem.of(net, box), Bracket(Settings()), Budget.of_work(20.0)
    search = SignSearch(problem, bracket)
    uppers = []
    for _ in range(4):
        search.run(budget.upto(0.01))
        uppers.append(search.certificate().upper)
    search.run(budget)
    uppers.append(search.certificate().upper)
    assert uppers == sorted(uppers, reverse=True)
    assert search.done
    assert uppers[-1] <= bracket.lower * (1 + 1e-6)


def test_a_turn_on_a_ball_of_many_inputs_keeps_to_its_work() -> None:
    """One program with all its tangents takes ten times as much; cut short, it goes on in the next turn."""
    problem = Problem.of(deep_net(200, 60, 60, 1, seed=1), Ball(np.zeros(200), 2.0))
    search, budget = SignSearch(problem, Bracket(Settings())), Budget.of_work(10.0)
    for _ in range(3):
        before = budget.spent().counted
        search.run(budget.upto(0.05))
        assert budget.spent().counted - before <= 0.1
    assert search.programs > 0
    program = search.program
    assert program is not None
    short = program.ask(np.zeros(len(program.open), dtype=np.int8), 1)
    assert short.pivots <= 1
    assert program.ask(np.zeros(len(program.open), dtype=np.int8)).point is not None


def test_an_interruption_leaves_a_bound_and_can_be_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    net, box = deep_net(4, 8, 6, 1, seed=3), Box(np.zeros(4), 1.0)
    truth = solved(Problem.of(net, box))[0].certificate.upper
    ask, left = Program.ask, [5]

    def impatient(self: Program, signs: Signs, most: int) -> Answer:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return ask(self, signs, most)

    monkeypatch.setattr(Program, "ask", impatient)
    search = SignSearch(Problem.of(net, box), Bracket(Settings()))
    search.run(Budget.of_work(10.0))
    assert search.interrupted
    assert search.certificate().upper >= truth * (1 - 1e-9)
    search.run(Budget.of_work(10.0))
    assert search.done
    assert search.certificate().upper == pytest.approx(truth, rel=2e-6)


# --- Lying solvers ----------------------------------------------------------------------------------------------------


def _noise(self: Program, signs: Signs, most: int) -> Answer:  # noqa: ARG001
    """Impossible, says the solver, and gives any multipliers."""
    rng = np.random.default_rng(list((signs + 1).tobytes()))
    count = self.system.neurons
    return Answer(None, np.zeros(0, dtype=bool), rng.normal(size=count), np.abs(rng.normal(size=count)), 1)


def _silence(self: Program, signs: Signs, most: int) -> Answer:  # noqa: ARG001
    return Answer(None, np.zeros(0, dtype=bool), None, None, 1)


def _not_numbers(self: Program, signs: Signs, most: int) -> Answer:  # noqa: ARG001
    count = self.system.neurons
    return Answer(None, np.zeros(0, dtype=bool), np.full(count, np.nan), np.full(count, -np.inf), 1)


def _always_possible(self: Program, signs: Signs, most: int) -> Answer:  # noqa: ARG001
    """Points far outside, and against nothing: every pattern is thought to be possible."""
    far = np.full(len(self.center), 1e6)
    return Answer(far, np.zeros(2 * len(self.open), dtype=bool), None, None, 1)


@pytest.mark.parametrize("lie", [_noise, _silence, _not_numbers, _always_possible])
def test_a_lying_solver_proves_nothing_wrong(lie: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Program, "ask", lie)
    for seed in range(2):
        net, box = deep_net(3, 5, 4, 1, seed=seed), Box(np.zeros(3), 0.7)
        truth = exact_constant(net, box, ONE)
        outcome, bracket = solved(Problem.of(net, box), 2.0)
        assert outcome.certificate.upper >= truth * (1 - 1e-9)
        assert bracket.lower <= truth * (1 + 1e-9)
        assert verify(outcome.certificate, net).proved


def test_wrong_points_and_multipliers_of_whole_patterns_prove_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def lie(self: Realise, signs: Signs, budget: Budget) -> tuple[Array | None, tuple[Array, Array] | None]:  # noqa: ARG001
        rng = np.random.default_rng(int(np.flatnonzero(signs > 0).sum()))
        count = len(self.quick.bias)
        return rng.normal(size=len(self.center)), (rng.normal(size=count), np.abs(rng.normal(size=count)))

    monkeypatch.setattr(Realise, "point", lie)
    net, box = deep_net(3, 5, 4, 1, seed=1), Box(np.zeros(3), 0.7)
    truth = exact_constant(net, box, ONE)
    outcome, bracket = solved(Problem.of(net, box), 2.0)
    assert outcome.certificate.upper >= truth * (1 - 1e-9)
    assert bracket.lower <= truth * (1 + 1e-9)


def signs_at(problem: Problem, system: System, points: Array) -> Signs:
    z = np.concatenate(problem.network.preactivations(points), axis=1)
    return np.where(z > 0, 1, -1).astype(np.int8) * system.open


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.3))
@settings(max_examples=26, deadline=None)
def test_what_is_refused_no_point_has(seed: int, noise: float) -> None:
    """Multipliers of a solver, changed by noise: they refuse what is impossible, or nothing."""
    rng = np.random.default_rng(seed)
    net = deep_net(2, 4, 3, 1, seed=seed % 50)
    problem = Problem.of(net, Box(np.zeros(2), 0.8))
    system = System.of(problem)
    assert system is not None
    count = int(system.open.sum())
    if not count:
        return
    program = Program(system)
    signs = np.where(rng.uniform(size=count) < 0.7, rng.choice([-1, 1], size=count), 0).astype(np.int8)
    answer = program.ask(signs)
    if answer.y is None or answer.t is None:
        return
    literals = np.zeros((50, system.neurons), dtype=np.int8)
    literals[:, system.open] = np.where(rng.uniform(size=(50, count)) < 0.3, 0, signs)
    literals[0, system.open] = signs
    size = noise * np.abs(answer.y).max() * (np.arange(50) > 0)[:, None]
    y = answer.y + size * rng.normal(size=literals.shape)
    t = np.maximum(answer.t + size * rng.normal(size=literals.shape), 0.0)
    proved = gathered(y, t, literals).proved(system)
    assert proved[0]
    points = signs_at(problem, system, rng.uniform(-0.8, 0.8, size=(3000, 2)))
    for own in literals[proved]:
        assert not np.any(np.all((points == own) | (own == 0), axis=1))


def test_slack_is_paid_for() -> None:
    """z may be off by the slack: what is impossible without it is possible with it."""
    relu = Activation("relu")
    weight = np.array([[1.0], [1.0]])  # z_1 = x - 0.1, z_2 = x + 0.1: never the first on and the second off
    out = Block(((1, np.array([[1.0, 1.0]])),), np.zeros(1))
    literals = np.array([[1, -1]], dtype=np.int8)
    y, t = np.array([[1.0, -1.0]]), np.zeros((1, 2))
    for slack, impossible in ((None, True), (np.full(2, 0.05), True), (np.full(2, 0.11), False)):
        block = Block(((0, weight),), np.array([-0.1, 0.1]), relu, slack)
        problem = Problem.of(Network.from_blocks([block, out]), Box(np.zeros(1), 1.0))
        system = System.of(problem)
        assert system is not None
        assert any(bool(gathered(way * y, t, literals).proved(system)[0]) for way in (1.0, -1.0)) == impossible


# --- Forged trees -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def case() -> tuple[Network, Problem, SearchOutcome, float]:
    net, box = deep_net(3, 6, 5, 1, seed=2), Box(np.zeros(3), 0.8)
    problem = Problem.of(net, box)
    outcome, _ = solved(problem)
    proof = patterns_of(outcome)
    assert proof.leaves is not None
    assert proof.leaves.nogoods.count > 1
    assert len(proof.leaves.nogoods.literals) > 2
    return net, problem, outcome, exact_constant(net, box, ONE)


Solved = tuple[Network, Problem, SearchOutcome, float]


def test_a_file_is_read_back_and_verified(case: Solved, tmp_path: Path) -> None:
    net, _, outcome, truth = case
    outcome.certificate.save(tmp_path / "signs.npz")
    found = verify(tmp_path / "signs.npz", net)
    assert found.proved
    assert truth * (1 - 1e-9) <= found.upper <= truth * (1 + 2e-6)
    read = load_certificate(tmp_path / "signs.npz")
    assert isinstance(read.proof, Tree)
    assert np.array_equal(read.proof.where, patterns_of(outcome).where)
    assert not verify(read, deep_net(3, 6, 5, 1, seed=9)).proved


def _forgeries(proof: Tree) -> dict[str, Tree]:
    where, table = proof.where, proof.leaves
    assert table is not None
    n, first = table.nogoods, int(np.flatnonzero(table.kinds == Kind.NOGOOD)[0])
    splits = np.flatnonzero(where >= 0)

    def with_splits(where: NDArray[np.int64]) -> Tree:
        return replace(proof, where=where, value=np.zeros(len(where)))

    def moved(node: int, value: int) -> Tree:
        other = where.copy()
        other[node] = value
        return with_splits(other)

    def refused(value: int) -> Tree:
        other = table.refused.copy()
        other[0] = value
        return replace(proof, leaves=replace(table, refused=other))

    def with_kind(kind: int) -> Tree:
        other = table.kinds.copy()
        other[first] = kind
        return replace(proof, leaves=replace(table, kinds=other))

    def with_nogoods(**changes: Any) -> Tree:
        return replace(proof, leaves=replace(table, nogoods=replace(n, **changes)))

    def with_numbers(numbers: Array) -> Tree:
        return with_nogoods(numbers=numbers)

    fewer = n.literals[n.literals[:, 0] != table.refused[0]]
    root = Leaves.under_signs(np.array([0]), replace(n, count=1, literals=fewer[:0]))
    return {
        "no nodes": NO_TREE,
        "too short": with_splits(where[:-1]),
        "too long": with_splits(np.append(where, where[-1])),
        "a split too many": with_splits(np.concatenate([where[:1], where])),
        "another nogood": refused((int(table.refused[0]) + 1) % n.count),
        "no such nogood": refused(10**15),
        "a negative number": refused(-1),
        "an unknown kind": with_kind(6),
        "a kind without its proof": with_kind(Kind.RELAXED),
        "no such block": moved(int(splits[0]), 10**6),
        "no such neuron": moved(int(splits[0]), 10**12),
        "a negative split": moved(int(splits[0]), -2),
        "the same split twice": moved(int(splits[1]), int(where[splits[0]])),
        "a leaf more": moved(int(splits[-1]), LEAF),
        "a literal less": with_nogoods(literals=fewer),
        "other signs": with_nogoods(literals=n.literals * np.array([1, 1, -1])),
        "signs that are none": with_nogoods(literals=n.literals * np.array([1, 1, 0])),
        "no such literal": with_nogoods(literals=n.literals + np.array([0, 10**9, 0])),
        "multipliers that are none": with_numbers(n.numbers * np.nan),
        "infinite multipliers": with_numbers(n.numbers * np.inf),
        "huge multipliers": with_numbers(np.full(len(n.numbers), 1e300)),
        "negative multipliers": with_numbers(-n.numbers),
        "no multipliers": with_numbers(n.numbers * 0.0),
        "fewer multipliers": with_numbers(n.numbers[:-1]),
        "rows of others": with_nogoods(rows=n.rows[::-1] * np.array([1, -1])),
        "a root that is refused": Tree(np.array([LEAF]), np.zeros(1), None, root),
    }


def test_forged_trees_prove_nothing_wrong(case: Solved, tmp_path: Path) -> None:
    net, problem, outcome, truth = case
    proof, file = patterns_of(outcome), tmp_path / "forged.npz"
    harmless = {"another nogood"}  # it may be contained in the path as well
    for name, forged in _forgeries(proof).items():
        with np.errstate(all="ignore"):
            upper = forged.check(problem)
        assert upper >= truth * (1 - 1e-9), name
        assert name in harmless or upper == np.inf, name
        replace(outcome.certificate, proof=forged).save(file)
        try:
            found = verify(file, net)
        except FileFormatError:
            continue
        assert not found.proved or name in harmless, name


def test_a_file_changed_by_accident_or_of_odd_types_is_refused(case: Solved, tmp_path: Path) -> None:
    net, _, outcome, _ = case
    file, arrays = tmp_path / "odd.npz", dict[str, Any](outcome.certificate.arrays())
    np.savez(file, **(arrays | {"nogood_numbers": arrays["nogood_numbers"] * 2}))
    assert not verify(file, net).proved  # without its digest
    odd: list[dict[str, Any]] = [
        {"splits": np.zeros((3, 2), dtype=np.int64)},
        {"splits": arrays["splits"].astype(np.float64)},
        {"splits": np.full(3, 2**62)},
        {"leaf_nogoods": np.full(len(arrays["leaf_nogoods"]), 2**62)},
        {"leaf_nogoods": arrays["leaf_nogoods"][:-1]},
        {"leaf_kinds": np.full(len(arrays["leaf_kinds"]), 6)},
        {"nogood_literals": np.zeros((2, 2), dtype=np.int64)},
        {"nogood_rows": np.zeros((2, 3), dtype=np.int64)},
        {"nogood_numbers": np.zeros(3)},
    ]
    for change in odd:
        changed = mended(arrays | change)
        np.savez(file, **changed)
        with pytest.raises(FileFormatError):
            verify(file, net)
    del changed["nogood_rows"]
    np.savez(file, **changed)
    with pytest.raises(FileFormatError, match="missing"):
        verify(file, net)


def test_a_tree_is_about_boxes_relus_and_all_inputs(case: Solved) -> None:
    net, problem, outcome, _ = case
    proof = patterns_of(outcome)
    smooth = deep_net(3, 6, 5, 1, seed=2, activation="tanh")
    leaky = deep_net(3, 6, 5, 1, seed=2, activation=Activation("leaky_relu", 0.1))
    affine = Network.from_weights([np.ones((1, 3))])
    others = [
        Problem.of(net, Everywhere()),
        Problem.of(net, problem.region, norm="1").case(None, 1),
        *(Problem.of(other, problem.region) for other in (smooth, leaky, affine)),
    ]
    for other in others:
        assert refusal(other) is not None
        assert proof.check(other) == np.inf
        with pytest.raises(MethodError):
            SignSearch(other, Bracket())
    huge = Network.from_weights([np.full((3, 2), 1e200), np.full((1, 3), 1e200)], [np.zeros(3), np.zeros(1)])
    refused = Nogoods(1, np.array([[0, 0, 1]]), np.array([[0, 0]]), np.ones(1))
    tree = signs_of(huge, [(1, 0), (0, 0), (-1, 0)], refused)
    certificate = Certificate.of(Problem.of(huge, Box(np.zeros(2), 1.0)), tree, 1.0)
    assert verify(certificate, huge).upper == np.inf


def test_nothing_open_is_exact_at_once() -> None:
    net = Network.from_weights([np.eye(2), np.array([[3.0, -4.0]])], [np.full(2, 9.0), np.zeros(1)])
    for norm, value in (("inf", 7.0), ("2", 5.0), ("1", 4.0)):
        outcome, bracket = solved(Problem.of(net, Box(np.zeros(2), 1.0), norm=norm))
        assert outcome.closed
        assert outcome.certificate.upper == pytest.approx(value)
        assert bracket.lower == pytest.approx(value)


def test_known_bounds_and_witnesses_are_used_and_the_price_is_counted() -> None:
    net, box = deep_net(3, 6, 5, 1, seed=2), Box(np.zeros(3), 0.8)
    problem = Problem.of(net, box)
    known = preactivations(problem)
    again = problem.on(box, known)
    first, bracket = solved(again)
    assert bracket.witness is not None
    informed = Bracket(Settings())
    informed.improve(Witness(bracket.witness.point, bracket.witness.value, "known"))
    second = search_signs(problem, informed, Budget.of_work(10.0), original=problem)
    assert second.closed
    assert second.state.nodes <= first.state.nodes
    priced = search_signs(problem, informed, Budget.of_work(10.0), price=1.0)
    assert not priced.closed
    assert priced.state.upper == pytest.approx(second.certificate.upper + 1.0, rel=1e-5)


@given(st.integers(0, 2**32 - 1), st.sampled_from(("inf", "2", "1")))
@settings(max_examples=5, deadline=None)
def test_balls_are_searched_with_their_tangents(seed: int, norm: str) -> None:
    """Patterns that only the corners of the box have are refused; no bound is below what a point of the ball shows."""
    rng = np.random.default_rng(seed)
    net = deep_net(3, 6, 5, 1, seed=int(rng.integers(1000)))
    ball = Ball(rng.normal(size=3), 0.8)
    problem = Problem.of(net, ball, 0, norm)
    bracket = Bracket()
    outcome = search_signs(problem, bracket, Budget.of_work(5.0))
    draws = rng.normal(size=(2000, 3))
    lengths = np.linalg.norm(draws, axis=1, keepdims=True)
    points = ball.center + 0.8 * draws / lengths * rng.uniform(size=(2000, 1)) ** (1 / 3)
    seen = problem.norm.dual.of(net.gradient(points, np.ones(1))).max()
    assert outcome.certificate.upper >= seen * (1 - 1e-9)
    assert bracket.witness is None or ball.contains(bracket.witness.point)
    assert outcome.certificate.upper <= bracket.lower * (1 + 1e-5) + 1e-140
    assert verify(outcome.certificate, net).proved


@pytest.mark.parametrize("scale", [1e-200, 1e-165, 1.0, 1e150])
def test_signs_of_a_point_in_a_ball_are_never_refused(scale: float) -> None:
    """Whatever the multipliers are, and however small the weights: their squares are zero in floating point."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        net = Network.from_weights(
            [scale * rng.normal(size=(4, 3)), np.ones((1, 4))], [0.1 * scale * rng.normal(size=4), np.zeros(1)]
        )
        ball = Ball(0.1 * rng.normal(size=3), 1.0)
        system = System.of(Problem.of(net, ball, 0, "2"))
        assert system is not None
        point = ball.project(ball.center + rng.normal(size=3))
        signs = np.where(net.preactivations(point[None, :])[0][0] > 0, 1, -1).astype(np.int8)
        y = rng.normal(size=(50, 4)) * rng.integers(0, 2, size=(50, 4))
        t = np.asarray(np.abs(rng.normal(size=(50, 4))) * rng.integers(0, 2, size=(50, 1)), dtype=np.float64)
        literals = np.broadcast_to(np.where(system.open, signs, 0).astype(np.int8), (50, 4))
        assert system.largest(y, t, literals)[0].min() >= 0
        along = signs * np.eye(4)  # one neuron at a time, with both signs
        for way in (along, -along):
            assert system.largest(way, np.zeros((4, 4)), literals[:4])[0].min() >= 0


def test_every_leaf_counts_however_they_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.of(deep_net(3, 6, 5, 1, seed=4), Box(np.zeros(3), 0.8))
    proof = patterns_of(solved(problem)[0])
    assert proof.count > 2
    together = proof.check(problem)
    monkeypatch.setattr(proof_tree, "_PATHS_AT_ONCE", 1)
    assert proof.check(problem) == pytest.approx(together, rel=1e-12)
