"""Cells of few inputs and of the whole space: linear leaves, kinks that neurons share, patterns that no input has."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipcert
from lipcert import Box, Everywhere, Network, Status
from lipcert.bounds import Cell, Interval, Split, bounds_of, halves, slope_bounds, whole
from lipcert.budget import Budget
from lipcert.jobs import local, processes
from lipcert.method.bracket import Bracket
from lipcert.method.branching import CellSearch
from lipcert.method.branching import refute as refuting
from lipcert.method.branching import search as searching
from lipcert.method.branching.judge import judge, judge_together
from lipcert.method.branching.node import Node
from lipcert.method.branching.realise import REALISE_SECONDS, realise
from lipcert.method.branching.refute import Refusals, refute
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.proof.file import load_certificate
from lipcert.proof.interior import covers, no_interior_unbounded
from lipcert.proof.leaves import BASIS, BY_INTERVALS, BY_LINES, COEFFICIENTS, Empty, Leaf, check_leaves, prove_nowhere
from lipcert.proof.tree import Tree
from lipcert.proof.verify import verify
from lipcert.rounding import Array
from lipcert.search.settings import Settings
from tests.enumeration import exact_constant
from tests.lift_tools import deep_net
from tests.trees import leaves_of, tree_of


def signed(net: Network, x: Array) -> Cell:
    """The cell of the whole space with the signs of a point."""
    z = net.preactivations(x[None, :])
    return Cell(Everywhere(), tuple(np.where(row[0] > 0, 1, -1).astype(np.int8) for row in z))


def scaled_net(*sizes: int, seed: int, bias: float = 1.0, kind: str = "relu", alpha: float = 0.0) -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
    biases = [bias * rng.normal(size=out) for out, _ in pairs]
    return Network.from_weights([rng.normal(size=pair) for pair in pairs], biases, lipcert.Activation(kind, alpha))


@pytest.mark.parametrize("bias", [1.0, 0.0])
@pytest.mark.parametrize(("sizes", "alpha"), [((2, 5, 4, 1), 0.0), ((3, 5, 4, 1), 0.0), ((2, 4, 3, 1), 0.2)])
def test_the_whole_space_is_exact(sizes: tuple[int, ...], alpha: float, bias: float) -> None:
    """Also without biases, where every pattern is a cone and a refused one has no interior only."""
    net = scaled_net(*sizes, seed=sum(sizes), bias=bias, kind="leaky_relu" if alpha else "relu", alpha=alpha)
    result = lipcert.bound(net, Everywhere(), output=0, method="exact", norm="2", work=20.0)
    largest = max(exact_constant(net, Box(np.zeros(sizes[0]), radius), np.ones(1), Norm("2")) for radius in (1.0, 1e3))
    assert result.status is Status.DONE
    assert largest * (1 - 1e-6) <= result.upper <= largest * (1 + 2e-6)
    assert verify(result.certificate, net).proved


@given(st.integers(0, 10_000), st.integers(1, 4), st.booleans())
@settings(max_examples=36, deadline=None)
def test_a_pattern_that_a_point_has_is_never_refused(seed: int, inputs: int, flat: bool) -> None:
    """Not by the program, not by random numbers, not by the program's numbers of another cell."""
    rng = np.random.default_rng(seed)
    net = scaled_net(inputs, int(rng.integers(inputs, inputs + 4)), 3, 1, seed=seed, bias=0.0 if flat else 1.0)
    points = rng.normal(size=(6, inputs)) * 10.0 ** rng.integers(-2, 3)
    here = signed(net, points[0])
    bounds = bounds_of(net, [here])
    assert refute(net, here, bounds, Budget.unlimited()) is None
    for k in range(6):
        c = rng.normal(size=net.neurons) * rng.integers(0, 2, size=net.neurons)
        basis = rng.permutation(net.shape[1])[: inputs if k % 2 else 0]
        assert prove_nowhere(net, here, bounds, c, basis) is None
    flipped = Cell(here.region, tuple(s * rng.choice([-1, 1], size=s.shape).astype(np.int8) for s in here.signs))
    other = refute(net, flipped, bounds_of(net, [flipped]), Budget.unlimited())
    if other is not None:
        assert not np.array_equal(np.concatenate(flipped.signs), np.concatenate(here.signs))
        assert not other.shows(net, here, bounds)


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_a_refusal_closes_other_cells_and_never_one_with_a_point(seed: int) -> None:
    """Cells with some signs left open, too: a proof is kept for exactly the cells that it is a proof of."""
    rng = np.random.default_rng(seed)
    net = scaled_net(2, int(rng.integers(4, 7)), 3, 1, seed=seed)
    refusals, cells = Refusals(net), []
    for _ in range(12):
        signs = tuple(rng.choice([-1, 0, 1], p=[0.45, 0.1, 0.45], size=b.width).astype(np.int8) for b in net.hidden)
        cells.append(Cell(Everywhere(), signs))
    nodes = [_node(net, cell) for cell in cells]
    proofs = [proof for node in nodes[:6] if (proof := refusals.look(node, Budget.unlimited())) is not None]
    for node, found in zip(nodes, refusals.of(nodes), strict=True):
        shown = [proof for proof in proofs if proof.shows(net, node.cell, node.alone)]
        assert found is None or found.shows(net, node.cell, node.alone)
        assert found is not None or not shown
    there = [_node(net, signed(net, point)) for point in rng.normal(size=(40, 2)) * 10.0 ** rng.integers(-1, 3)]
    assert refusals.of(there) == [None] * len(there)


def _node(net: Network, cell: Cell) -> Node:
    """An open cell as far as refusals look at it."""
    nothing = np.zeros(net.neurons)
    open_ = sum(int(np.sum(s == 0)) for s in cell.signs)
    return Node(cell, bounds_of(net, [cell]), 1.0, 1.0, BY_LINES, open_, nothing > 0, nothing, np.zeros(0))


def test_a_neuron_of_tiny_weight_does_not_keep_a_cell_open() -> None:
    """Its coefficient is so small that the check pays for underflow, not for rounding."""
    signs = (np.array([1, 1, -1], dtype=np.int8), np.array([1, 1], dtype=np.int8), np.array([1], dtype=np.int8))
    first = np.array([[1.0, 0.3], [-1.0, 0.2], [0.1, 1.0]])
    layers = [first, np.array([[1.0, 0.5, 0.2], [1e-35, 2e-35, 1e-35]]), np.array([[1.0, 1e-6]]), np.ones((1, 1))]
    biases = [np.array([-1.0, -1.0, 1.0]), np.array([0.1, -1e-36]), np.array([0.1]), np.zeros(1)]
    net = Network.from_weights(layers, biases)
    cell = Cell(Everywhere(), signs)
    found = refute(net, cell, bounds_of(net, [cell]), Budget.unlimited())
    assert found is not None
    assert found.shows(net, cell, bounds_of(net, [cell]))


def test_numbers_that_do_not_fit_prove_nothing() -> None:
    net = scaled_net(2, 4, 3, 1, seed=0)
    cell = signed(net, np.array([0.3, -0.2]))
    bounds = bounds_of(net, [cell])
    pre, c = bounds.pre, np.zeros(net.neurons)
    for wrong in (np.array([0]), np.array([0, 0]), np.array([0, 9]), np.array([-1, 2])):
        assert not no_interior_unbounded(net, pre, c, wrong.astype(np.int64))
    assert not no_interior_unbounded(net, pre, c[:-1], np.zeros(0, dtype=np.int64))
    assert not no_interior_unbounded(net, pre, c, np.zeros(0, dtype=np.int64))  # nothing at all
    assert not no_interior_unbounded(net, pre, np.full(net.neurons, np.nan), np.array([0, 1]))
    for numbers in ({}, {COEFFICIENTS: c}, {COEFFICIENTS: c, BASIS: np.array([np.inf, 0.0])}):
        assert not Empty(numbers).shows(net, cell, bounds)


def test_a_neuron_that_is_always_zero_refuses_nothing() -> None:
    """Both of its signs hold everywhere: a hyperplane it is not."""
    net = Network.from_weights([np.array([[0.0], [1.0]]), np.ones((2, 2)), np.ones((1, 2))])
    for split in (Split(1, 0), Split(2, 0)):
        for cell in halves(whole(net, Everywhere()), split):
            bounds = bounds_of(net, [cell])
            for first in (-1.0, 1.0):
                c = np.array([first, 0.0, 0.0, 0.0])
                assert not no_interior_unbounded(net, bounds.pre, c, np.zeros(0, dtype=np.int64))
                assert not no_interior_unbounded(net, bounds.pre, c, np.array([1]))
            if split.layer == 1:
                assert refute(net, cell, bounds, Budget.unlimited()) is None


def test_what_the_refusal_covers() -> None:
    assert covers(deep_net(2, 3, 1))
    assert not covers(deep_net(2, 3, 1, activation="tanh"))
    assert not covers(scaled_net(2, 3, 1, seed=0, kind="leaky_relu", alpha=2.0))


def test_a_lying_program_refuses_nothing_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.optimize

    honest, rng = scipy.optimize.linprog, np.random.default_rng(0)

    def lie(*arguments: Any, **more: Any) -> Any:
        answer = honest(*arguments, **more)
        if answer.x is not None:
            answer.x = answer.x * rng.choice([0.0, 1.0, -1.0, 2.0], size=answer.x.shape) + rng.normal(
                size=answer.x.shape
            )
        return answer

    monkeypatch.setattr(scipy.optimize, "linprog", lie)
    net = scaled_net(2, 5, 4, 1, seed=3)
    result = lipcert.bound(net, Everywhere(), output=0, method="exact", work=5.0)
    truth = exact_constant(net, Box(np.zeros(2), 1e3), np.ones(1))
    assert result.upper >= truth * (1 - 1e-9)
    assert verify(result.certificate, net).proved


def test_a_gap_that_is_left_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without proofs that patterns are impossible, some cells cannot be decided."""
    monkeypatch.setattr(refuting, "covers", lambda _: False)
    seen = set()
    for seed in range(4):
        net = scaled_net(2, 5, 4, 1, seed=seed)
        result = lipcert.bound(net, Everywhere(), output=0, method="exact", work=20.0)
        assert result.gap is not None
        assert (result.status is Status.DONE) == (result.gap <= 1e-6)
        seen.add(result.status)
        if result.status is Status.OPEN:
            assert result.to_dict()["status"] == "open"
            assert any("left with a gap" in note for note in result.notes)
    assert seen == {Status.DONE, Status.OPEN}


def doubled(seed: int) -> Network:
    """|z| and max: every neuron beside its opposite or its equal."""
    rng = np.random.default_rng(seed)
    first, shift = rng.normal(size=(3, 2)), rng.normal(size=3)
    second, more = rng.normal(size=(2, 7)), rng.normal(size=2)
    return Network.from_weights(
        [np.vstack([first, -first, first[:1]]), np.vstack([second, -second]), rng.normal(size=(1, 4))],
        [np.concatenate([shift, -shift, shift[:1]]), np.concatenate([more, -more]), np.zeros(1)],
    )


@pytest.mark.parametrize("seed", range(4))
def test_neurons_with_the_same_kink_share_their_signs(seed: int) -> None:
    net, box = doubled(seed), Box(np.zeros(2), 1.0)
    root = whole(net, box)
    known = bounds_of(net, [root]).pre
    for sign, cell in zip((-1, 1), halves(root, Split(1, 0)), strict=True):
        bounds = bounds_of(net, [cell], known)
        if bounds.empty[0]:
            continue
        z = bounds.pre[0]
        own, opposite, equal = (Interval(z.lo[0, k], z.hi[0, k]) for k in (0, 3, 6))
        assert own == equal
        assert (own.lo, own.hi) == (-opposite.hi, -opposite.lo)
        assert (own.lo >= 0) if sign > 0 else (own.hi <= 0)
        slopes = slope_bounds(net, bounds.pre)[0]
        assert np.array_equal(slopes.lo[0, [0, 3, 6]], slopes.hi[0, [0, 3, 6]])
    result = lipcert.bound(net, box, output=0, method="exact", work=20.0)
    truth = exact_constant(net, box, np.ones(1))
    assert truth * (1 - 1e-9) <= result.upper <= truth * (1 + 2e-6)


def test_leaves_by_lines_are_kept_and_checked(tmp_path: Path) -> None:
    net, box = deep_net(3, 6, 5, 4, 1, seed=4), Box(np.zeros(3), 0.5)
    problem = Problem.of(net, box)
    splits = (Split(0, 1, 0.1), None, Split(2, 0), None, None)
    cells = [*halves(whole(net, box), Split(0, 1, 0.1))]
    ends = [cells[0], *halves(cells[1], Split(2, 0))]
    judged = judge(problem, ends)
    lines = tree_of(net, splits, (BY_LINES,) * 3)
    assert lines.check(problem) <= tree_of(net, splits, (BY_INTERVALS,) * 3).check(problem)
    assert lines.check(problem) == pytest.approx(judged.uppers.max(), rel=0.2)
    certificate = lipcert.Certificate.of(problem, lines, lines.check(problem))
    certificate.save(tmp_path / "proof.npz")
    read = load_certificate(tmp_path / "proof.npz").proof
    assert isinstance(read, Tree)
    assert leaves_of(read) == leaves_of(lines)
    assert verify(tmp_path / "proof.npz", net).proved
    truth = exact_constant(net, box, np.ones(1))
    with np.load(tmp_path / "proof.npz") as data:
        arrays = {name: data[name] for name in data.files}
    for kind in range(7):  # whatever a file calls its leaves, they prove what is true
        forged = dict(arrays, leaf_kinds=np.full(3, kind))
        np.savez(tmp_path / "forged.npz", **forged)
        assert not verify(tmp_path / "forged.npz", net).proved or kind == 3
    mixed = check_leaves(problem, ends, judged.bounds, [BY_LINES, BY_INTERVALS, Empty({})])
    assert np.all(np.isfinite(mixed))
    assert mixed.max() >= truth * (1 - 1e-9)


class _Broken(Executor):
    workers = 2

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        raise RuntimeError("gone")


def test_cells_are_judged_in_other_processes_too() -> None:
    net, box = deep_net(3, 6, 5, 1, seed=1), Box(np.zeros(3), 1.0)
    problem, root = Problem.of(net, box), whole(net, box)
    cells = [half for k in range(40) for half in halves(root, Split(0, k % 3, 0.02 * k - 0.4))]
    alone = bounds_of(net, [root]).pre
    known = tuple(Interval(np.repeat(z.lo, 80, axis=0), np.repeat(z.hi, 80, axis=0)) for z in alone)
    serial = judge(problem, cells, known)
    with processes(2) as executor:
        found = judge_together(problem, cells, known, executor)
    for answer in (found, judge_together(problem, cells, known, _Broken())):
        np.testing.assert_allclose(answer.uppers, serial.uppers, rtol=1e-9)
        np.testing.assert_array_equal(answer.count, serial.count)
        assert answer.half(79).cell is cells[79]


def test_a_cell_whose_linear_program_had_no_time_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not be given up because a slice of `auto` ended: a longer one decides it."""

    def hurried(problem: Problem, node: Node, refusals: Refusals, budget: Budget) -> tuple[Array | None, Leaf | None]:
        return (None, None) if budget.left() < REALISE_SECONDS else realise(problem, node, refusals, budget)

    monkeypatch.setattr(searching, "realise", hurried)
    net = scaled_net(2, 5, 4, 1, seed=0)
    search = CellSearch(Problem.of(net, Everywhere(), 0, "inf"), Bracket(Settings()), local())
    while not search.waits:
        search.run(Budget.of_seconds(0.5 * REALISE_SECONDS))
        assert not search.stuck
    assert search.state.open == len(search.late)
    search.run(Budget.of_seconds(30.0 * REALISE_SECONDS))
    assert search.outcome().closed
    assert (search.done, search.stuck) == (True, [])


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_box_is_not_cut_to_nothing_where_kinks_meet(seed: int) -> None:
    """A cut beside the point closes one half and leaves the other as bad as it was; signs are what helps there."""
    rng = np.random.default_rng(seed)
    lines, point = rng.normal(size=(6, 2)), np.array([0.31, -0.17])
    weights = [lines, rng.normal(size=(8, 6)), rng.normal(size=(1, 8))]
    net = Network.from_weights(weights, [-lines @ point, np.zeros(8), np.zeros(1)])
    search = CellSearch(Problem.of(net, Box(np.zeros(2), 1.0), 0, "inf"), Bracket(Settings()), local())
    search.run(Budget.of_work(0.5))
    boxes = [node.cell.region for _, node in search.queue.above(search.threshold)]
    assert min(float((box.hi - box.lo).min()) for box in boxes if isinstance(box, Box)) > 1e-6
