"""Entries of the Jacobian: enclosures against enumeration, gradients at points, and what closed forms say."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Ball, Box, Everywhere, InputError, Network, Polytope, SoundnessError, Status, jacobian
from lipcert.bounds.jacobian import entries_at
from lipcert.proof.cells import Cells, Index
from lipcert.proof.jacobian import Bounded, EntryQuestion
from lipcert.rounding import Array
from lipcert.search.jacobian import search as searching
from lipcert.search.jacobian.result import Jacobian
from lipcert.search.scores import NEVER
from tests.enumeration import exact_ranges
from tests.problems import ABSOLUTE, AFTER_THE_STEP, CANCELLED, DEAD, DEAD_DEEP, MIRRORED, net_of
from tests.strategies import SMOOTH, branched_networks, convolutional_networks, small_cases

PLAIN = 1e-9  # what plain floating point may be off by, against the largest entry


def jacobians(net: Network, points: Array) -> Array:
    """In plain floating point: (points, scores, inputs)."""
    rows = [np.broadcast_to(net.gradient(points, e), (len(points), net.inputs)) for e in np.eye(net.outputs)]
    return np.stack(rows, axis=1)


def contains(found: Jacobian, J: Array) -> bool:
    room = PLAIN * (1e-3 + np.abs(J).max())
    return bool(np.all((found.lower - room <= J) & (found.upper + room >= J)))


def check_against_pieces(net: Network, box: Box, found: Jacobian) -> None:
    """What is proved contains the exact ranges, what was seen is inside them."""
    low, high = exact_ranges(net, box)
    room = PLAIN * (1e-3 + np.abs(high).max() + np.abs(low).max())
    assert np.all(found.lower <= low + room)
    assert np.all(high - room <= found.upper)
    assert np.all(found.seen_most <= high + room)
    assert np.all(low - room <= found.seen_least)
    close = found.goal.gap or 0.0
    if found.status is Status.DONE and close:
        assert found.upper == pytest.approx(high, abs=room + 2 * close * np.abs(high).max())
        assert found.lower == pytest.approx(low, abs=room + 2 * close * np.abs(low).max())
    assert found.certificate.verify(net).proved


@given(small_cases(max_depth=3, max_neurons=8))
@settings(max_examples=25, deadline=None)
def test_chains_against_all_pieces(case: tuple[Network, Box, Array]) -> None:
    net, box, _ = case
    check_against_pieces(net, box, jacobian(net, box, gap=1e-7, work=0.05))


@given(branched_networks(max_blocks=4, max_neurons=8))
@settings(max_examples=20, deadline=None)
def test_branches_against_all_pieces(case: tuple[Network, Box, Array]) -> None:
    net, box, _ = case
    check_against_pieces(net, box, jacobian(net, box, gap=1e-7, work=0.05))


@given(small_cases(max_depth=3, max_neurons=8, kinds=(*SMOOTH, "relu")), st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_smooth_activations_against_gradients(case: tuple[Network, Box, Array], seed: int) -> None:
    net, box, _ = case
    found = jacobian(net, box, gap=0.05, work=0.02)
    points = np.random.default_rng(seed).uniform(box.lo, box.hi, size=(200, box.size))
    assert contains(found, jacobians(net, points))
    assert found.certificate.verify(net).proved


@given(convolutional_networks(), st.integers(0, 1000))
@settings(max_examples=5, deadline=None)
def test_convolutions(pair: tuple[Network, Network], seed: int) -> None:
    """The same entries whether a convolution is kept as its kernel or as a matrix."""
    kept, written = pair
    box = Box(np.zeros(kept.inputs), 0.1)
    points = np.random.default_rng(seed).uniform(box.lo, box.hi, size=(50, box.size))
    both = [jacobian(net, box, inputs=range(min(3, net.inputs)), max_cells=1) for net in pair]
    for found in both:
        assert contains(found, jacobians(written, points)[:, :, : len(found.inputs)])
    assert both[0].upper == pytest.approx(both[1].upper, abs=1e-6 * (1 + np.abs(both[1].upper).max()))


def test_finite_differences() -> None:
    net, box, h = net_of(3, 8, 6, 2, kind="tanh", seed=4), Box(np.full(3, 0.1), 0.2), 1e-6
    found = jacobian(net, box, gap=0.05, work=0.2)
    points = np.random.default_rng(0).uniform(box.lo + h, box.hi - h, size=(40, 3))
    for j in range(3):
        step = h * np.eye(3)[j]
        slope = (net.forward(points + step) - net.forward(points - step)) / (2 * h)
        assert np.all(slope <= found.upper[:, j] + 1e-7)
        assert np.all(found.lower[:, j] - 1e-7 <= slope)


def test_automatic_differentiation() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 7), torch.nn.ReLU(), torch.nn.Linear(7, 2)).double()
    found = jacobian(module, Box(np.zeros(3), 0.5), gap=1e-6, work=1.0)
    assert found.status is Status.DONE
    for x in torch.rand(30, 3, dtype=torch.float64) - 0.5:
        assert contains(found, torch.autograd.functional.jacobian(module, x).numpy())
    for i, j in np.ndindex(2, 3):
        at = torch.tensor(found.points[found.most_at[i, j]])
        value = torch.autograd.functional.jacobian(module, at)[i, j].item()
        assert value == pytest.approx(found.upper[i, j], rel=1e-5)


@pytest.mark.parametrize(
    ("known", "low", "high", "verdict"),
    [
        (ABSOLUTE, -1.0, 1.0, "both"),
        (AFTER_THE_STEP, 0.0, 0.0, "zero"),
        (MIRRORED, -1.0, -1.0, "decreasing"),
        (CANCELLED, 0.0, 0.0, "zero"),
        (DEAD, 0.0, 0.0, "zero"),
        (DEAD_DEEP, 0.0, 0.0, "zero"),
    ],
    ids=str,
)
def test_closed_forms(known: Any, low: float, high: float, verdict: str) -> None:
    net, box = known.pair
    found = jacobian(net, box, gap=1e-6, work=1.0)
    assert found.lower == pytest.approx(low, abs=1e-12)
    assert found.upper == pytest.approx(high, abs=1e-12)
    if verdict != "zero" or (
        known is not CANCELLED and known is not AFTER_THE_STEP
    ):  # terms that cancel leave rounding
        assert np.all(found.verdicts == verdict)


def test_signs_need_no_rounding() -> None:
    """Positive weights: increasing, with zero itself as the lower end; an input that nothing reads is zero."""
    rng = np.random.default_rng(1)
    weights = [rng.uniform(0.1, 1.0, size=(6, 3)), rng.uniform(0.1, 1.0, size=(2, 6))]
    weights[0][:, 1] = 0.0
    found = jacobian(Network.from_weights(weights, [rng.normal(size=6), np.zeros(2)]), Box(np.zeros(3), 1.0))
    assert found.status is Status.DONE
    assert found.cells == 1
    assert np.all(found.verdicts == ["increasing", "zero", "increasing"])
    assert np.all(found.lower >= 0)
    assert not found.upper[:, 1].any()
    assert not found.seen_most[:, 1].any()


@pytest.mark.parametrize("region", [Ball(np.full(2, 0.2), 0.8), Everywhere()], ids=repr)
def test_balls_and_the_whole_space(region: Ball | Everywhere) -> None:
    net = net_of(2, 9, 4, 2, seed=7)
    found = jacobian(net, region, gap=1e-6, work=0.5)
    rng = np.random.default_rng(3)
    points = region.project(0.2 + rng.normal(size=(2000, 2)) * (1.0 if isinstance(region, Ball) else 30.0))
    assert found.cells > 1
    assert contains(found, jacobians(net, points))
    assert region.contains(found.points)
    assert found.certificate.verify(net).proved


def test_balls_are_smaller_than_boxes() -> None:
    net, center = net_of(3, 10, 1, seed=2), np.zeros(3)
    ball, box = (jacobian(net, region, max_cells=1) for region in (Ball(center, 0.3), Box(center, 0.3)))
    assert np.sum(ball.upper - ball.lower) < np.sum(box.upper - box.lower)


def test_chosen_entries_are_those_of_all() -> None:
    net, box = net_of(4, 8, 8, 3, seed=5), Box(np.zeros(4), 0.3)
    every = jacobian(net, box, max_cells=1)
    some = jacobian(net, box, outputs=[2, 0], inputs=[3, 1], max_cells=1)
    assert some.lower == pytest.approx(every.lower[np.ix_([2, 0], [3, 1])], rel=1e-12)
    assert some.upper == pytest.approx(every.upper[np.ix_([2, 0], [3, 1])], rel=1e-12)
    assert some.scores.tolist() == [2, 0]
    assert some.inputs.tolist() == [3, 1]
    for i, j in np.ndindex(2, 2):
        at = entries_at(net, some.points[some.most_at[i, j]][None], some.scores)
        assert at.lo[0, i, some.inputs[j]] == some.seen_most[i, j]


def test_more_work_never_loosens() -> None:
    net, box = net_of(3, 12, 12, 2, seed=6), Box(np.zeros(3), 0.7)
    found = [jacobian(net, box, gap=1e-3, work=work) for work in (1e-6, 0.01, 0.05)]
    assert found[0].cells == 1
    assert found[0].status is Status.WORK_LIMIT
    assert found[2].cells > found[1].cells > 1
    for less, more in itertools.pairwise(found):
        assert np.all(less.lower <= more.lower)
        assert np.all(more.upper <= less.upper)
        assert np.all(less.seen_most <= more.seen_most)
        assert np.all(more.seen_least <= less.seen_least)


def test_the_same_work_gives_the_same_answer() -> None:
    net, box = net_of(3, 8, 8, 2, seed=1), Box(np.zeros(3), 0.5)
    a, b = (jacobian(net, box, gap=1e-4, work=0.02) for _ in range(2))
    assert np.array_equal(a.upper, b.upper)
    assert np.array_equal(a.splits.where, b.splits.where)


def test_interrupted() -> None:
    net, box, seen = net_of(3, 12, 12, 2, seed=6), Box(np.zeros(3), 0.7), []

    def stop(progress: Any) -> None:
        seen.append(progress)
        if len(seen) == 4:
            raise KeyboardInterrupt

    found = jacobian(net, box, gap=1e-6, on_progress=stop)
    assert found.status is Status.INTERRUPTED
    assert found.cells == seen[-1].cells > 1
    check_against_samples(net, box, found)


def check_against_samples(net: Network, box: Box, found: Jacobian) -> None:
    points = np.random.default_rng(0).uniform(box.lo, box.hi, size=(2000, box.size))
    assert contains(found, jacobians(net, points))
    assert found.certificate.verify(net).proved


def test_hints_that_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever cells are split, what is proved is true."""
    net, box, rng = net_of(3, 6, 5, 2, seed=9), Box(np.zeros(3), 0.7), np.random.default_rng(0)

    def lies(_: EntryQuestion, cells: Cells, found: Bounded) -> Index:
        free = np.concatenate([np.ones((len(cells), 3), dtype=bool), found.signs == 0], axis=1)
        return np.where(rng.random(len(cells)) < 0.1, NEVER, (free * rng.random(free.shape)).argmax(axis=1))

    monkeypatch.setattr(searching, "choices", lies)
    found = jacobian(net, box, gap=1e-6, work=0.1)
    assert found.cells > 10
    check_against_pieces(net, box, found)


def test_points_beyond_the_enclosure_are_a_bug() -> None:
    found = jacobian(net_of(2, 4, 1), Box(np.zeros(2), 0.5))
    values: dict[str, Any] = found.arrays() | {"upper": found.seen_most - 1.0}
    more = {name: getattr(found, name) for name in ("region", "splits", "goal", "status", "seconds", "network")}
    with pytest.raises(SoundnessError, match="d score 0 / d input 0"):
        Jacobian(**values, **more)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"gap": 0.0}, "gap must be"),
        ({"gap": -1.0}, "gap must be"),
        ({"gap": float("nan")}, "gap must be"),
        ({"gap": True}, "gap must be"),
        ({"outputs": [2]}, "outputs: there is no 2"),
        ({"inputs": [-1]}, "inputs: there is no -1"),
        ({"inputs": []}, "inputs must be a list"),
        ({"inputs": "01"}, "inputs must be a list"),
        ({"inputs": [1, 1]}, "given twice"),
        ({"inputs": [0.5]}, "there is no 0.5"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"work": float("inf")}, "work must be"),
        ({"max_cells": 0}, "max_cells must be"),
        ({"region": Box(np.zeros(3), 1.0)}, "3 coordinates"),
        ({"region": 0.5}, "a region is"),
        ({"region": Polytope(Box(np.zeros(2), 1.0), [[1.0, 1.0]], [0.5])}, "leave the half-spaces out"),
        ({"net": "missing.onnx"}, "no such file"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_refused(wrong: dict[str, Any], words: str) -> None:
    question: dict[str, Any] = {"net": net_of(2, 4, 2), "region": Box(np.zeros(2), 1.0)}
    with pytest.raises(InputError, match=words):
        jacobian(**(question | wrong))


def test_numbers_of_all_sizes() -> None:
    """Weights that nearly overflow beside others that nearly vanish: no warning, and true all the same."""
    net = net_of(2, 5, 4, 2, seed=1)
    for large, small in ((1e150, 1e-150), (1e-160, 1e-160), (1e160, 1e160)):
        first, second, last = (np.asarray(b.terms[0][1]) for b in net.blocks)
        scaled = Network.from_weights([first * large, second, last * small], [b.bias for b in net.blocks])
        found = jacobian(scaled, Box(np.zeros(2), 0.5), gap=1e-3, work=0.01)
        points = np.random.default_rng(0).uniform(-0.5, 0.5, size=(100, 2))
        with np.errstate(all="ignore"):
            J = jacobians(scaled, points)
        J = J[np.all(np.isfinite(J), axis=(1, 2))]
        with np.errstate(all="ignore"):
            assert len(J) == 0 or contains(found, J)
        verified = found.certificate.verify(scaled)
        assert verified.proved or not np.all(np.isfinite(found.upper))


def test_affine_networks() -> None:
    W = np.array([[1.0, -2.0], [0.0, 4.0]])
    found = jacobian(Network.from_weights([W]), Everywhere(), gap=1e-9)
    assert found.status is Status.DONE
    assert found.lower == pytest.approx(W, abs=1e-12)
    assert found.upper == pytest.approx(W, abs=1e-12)
    assert found.verdicts.tolist() == [["increasing", "decreasing"], ["zero", "increasing"]]
    assert found.certificate.verify(Network.from_weights([W])).proved
