"""Parts of a network: sound against enumeration, exact where nothing is lost, stored, verified, forged."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import lipcert
from lipcert import Box, Everywhere, Network
from lipcert.bounds.gains import gains, mixed_gradient_bounds
from lipcert.bounds.gradients import gradient_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import preactivation_bounds
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.engines import RelaxationEngine, engines_for
from lipcert.method.planning import plan, plan_whole
from lipcert.method.relaxed import Relaxed
from lipcert.method.table import METHODS
from lipcert.method.tight import Tight
from lipcert.problem.problem import Problem
from lipcert.proof import prove_interval
from lipcert.proof.arithmetic import prove_mixed
from lipcert.proof.multipliers import prove
from lipcert.relaxation.reduction import Reduction, chords, everything, gains_of, reduction_from, share_of
from lipcert.relaxation.specification import Specification, build
from lipcert.rounding import Array
from lipcert.solver.rank_two import Options, solve_rank_two
from tests.constants import set_constant
from tests.enumeration import exact_constant
from tests.lift_tools import deep_net, task_of
from tests.one_layer_tools import with_specification
from tests.strategies import small_cases

Case = tuple[Network, Box, Array]


def some_part(net: Network, rng: np.random.Generator) -> Reduction:
    """A cut, with or without signs and a random choice of neurons."""
    cut = int(rng.integers(net.depth))
    whole = everything(cut, net.shape)
    share = rng.choice([1.0, 0.7])
    masks = [rng.uniform(size=m.shape) < share for m in (whole.inputs, *whole.neurons)]
    return Reduction(cut, masks[0], tuple(masks[1:]), bool(rng.integers(2)))


def of_part(part: Reduction, method: str = "tight") -> Specification:
    return Specification(method, "backward", values=False, reduction=part.table)


def solved(net: Network, box: Box, c: Array, part: Reduction) -> float:
    relaxation = build(Problem.of(net, box, c), of_part(part))
    rows = relaxation.problem.rows
    y = solve_rank_two(relaxation.problem, Options()).y if relaxation.problem.size > 3 else np.ones(rows)
    return prove(relaxation, y).upper


@settings(max_examples=25)
@given(small_cases(kinds=("relu",)))
def test_no_part_is_below_the_exact_constant(case: Case) -> None:
    net, box, c = case
    exact, rng = exact_constant(net, box, c), np.random.default_rng(net.neurons)
    assert prove_mixed(Problem.of(net, box, c)).upper >= exact * (1 - 1e-9)
    assert (
        prove_mixed(Problem.of(net, box, c)).upper
        <= prove_interval(Problem.of(net, box, c)).upper * (1 + 1e-9) + 1e-300
    )
    for _ in range(3):
        assert solved(net, box, c, some_part(net, rng)) >= exact * (1 - 1e-9)


@pytest.mark.parametrize("sizes", [(3, 4, 4, 2), (3, 4, 3, 4, 2), (4, 3, 3, 3, 3, 2)])
def test_deep_networks(sizes: tuple[int, ...]) -> None:
    """Every cut of depth 2 to 4; without a cut the part loses nothing against the lift without x."""
    net, box, c = deep_net(*sizes, seed=1), Box(np.zeros(sizes[0]), 0.7), np.array([1.0, -1.0])
    exact, rng = exact_constant(net, box, c), np.random.default_rng(0)
    for cut in range(net.depth):
        whole = everything(cut, net.shape)
        few = tuple(rng.uniform(size=m.shape) < 0.6 for m in whole.neurons)
        for part in (whole, replace(whole, euclid=True), replace(whole, neurons=few)):
            assert solved(net, box, c, part) >= exact * (1 - 1e-9)
    no_cut = everything(0, net.shape)
    assert solved(net, box, c, no_cut) <= prove_interval(Problem.of(net, box, c)).upper * (1 + 1e-6)


def test_gains_hold_at_true_points() -> None:
    net, box = deep_net(5, 7, 6, 5, 1, seed=4), Box(np.zeros(5), 0.5)
    known = gains(net, preactivation_bounds(net, box))
    x = np.random.default_rng(0).uniform(box.lo, box.hi, size=(2000, 5))
    J = np.broadcast_to(np.eye(5), (2000, 5, 5))
    for i, z in enumerate(net.preactivations(x)):
        J = np.asarray(net.affines[i].weight) @ J
        assert np.all(np.abs(J).sum(axis=2) <= known.before[i] * (1 + 1e-9))
        J = J * (z > 0)[:, :, None]
        assert np.all(np.abs(J).sum(axis=2) <= known.after[i + 1] * (1 + 1e-9))
        t = np.where(x > 0, 1.0, -1.0)
        assert np.all(np.linalg.norm(np.einsum("kij,kj->ki", J, t), axis=1) <= known.reach[i + 1] * (1 + 1e-9))


def test_chords_are_above_the_absolute_value() -> None:
    rng = np.random.default_rng(0)
    lo, width, weights = rng.normal(size=500), rng.exponential(size=500), rng.exponential(size=500)
    g = Interval(lo, lo + width)
    a, b = chords(g, weights)
    for share in np.linspace(0, 1, 21):
        G = lo + share * width
        assert np.all(weights * np.abs(G) <= (a * G + b) * (1 + 1e-12) + 1e-15)
    known = (lo >= 0) | (lo + width <= 0)
    assert np.all(b[known] == 0)


@pytest.mark.parametrize("euclid", [False, True])
def test_certificates_of_parts(euclid: bool, tmp_path: Path) -> None:
    """Stored with the part, rebuilt from the whole network; a forged cut or another part proves nothing too small."""
    net, box, c = deep_net(4, 5, 5, 4, 2, seed=2), Box(np.zeros(4), 0.6), np.array([1.0, -1.0])
    whole = everything(1, net.shape)
    part = replace(whole, neurons=(whole.neurons[0], np.arange(4) < 3), euclid=euclid)
    task = task_of(Problem.of(net, box, c), of_part(part))
    y = solve_rank_two(task.relaxation.problem, Options()).y
    kept = task.prove(y)
    kept.save(tmp_path / "part.npz")
    answer = lipcert.verify(tmp_path / "part.npz", net)
    assert answer.proved
    assert answer.upper == pytest.approx(kept.upper, rel=1e-9)
    exact = exact_constant(net, box, c)
    for cut in range(net.depth):
        forged = with_specification(kept, reduction=everything(cut, net.shape).table)
        assert lipcert.verify(forged, net).upper >= exact
    for table in (part.table[:-1], np.r_[7, part.table[1:]], np.r_[part.table[:-1], 2], np.zeros(0, dtype=np.int64)):
        assert not lipcert.verify(with_specification(kept, reduction=table), net).proved
    assert not lipcert.verify(replace(kept, claim=0.9 * kept.upper), net).proved
    rng = np.random.default_rng(0)
    for lie in (np.zeros_like(y), -y, rng.normal(size=y.shape), np.full_like(y, np.nan), 0.5 * y):
        assert task.prove(lie).upper >= exact * (1 - 1e-9)


def test_tables() -> None:
    part = everything(1, (3, 4, 5, 2))
    again = reduction_from(part.table, (3, 4, 5, 2))
    assert again is not None
    assert np.array_equal(again.table, part.table)
    assert reduction_from(part.table, (3, 4, 6, 2)) is None


def test_mixed_by_name(tmp_path: Path) -> None:
    net = deep_net(6, 30, 30, 30, 2, seed=5)
    result = lipcert.bound(net, Everywhere(), output=0, method="mixed", work=2.0)
    assert result.method == "mixed"
    assert result.upper < 0.8 * prove_interval(Problem.of(net, Everywhere(), 0)).upper
    result.certificate.save(tmp_path / "mixed.npz")
    assert lipcert.verify(tmp_path / "mixed.npz", net).proved


def test_plans_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cheap steps first, none beyond the largest order, the whole network last and only where it fits."""
    net, box, c = deep_net(20, 40, 40, 40, 1), Box(np.zeros(20), 0.3), np.ones(1)
    problem = Problem.of(net, box, c)
    gains_of.keep(problem, gains(net, preactivation_bounds(net, box)))  # what pays for parts
    assert [step.whole for step in plan_whole(problem, Budget.of_work(60.0), "tight")] == [True]
    set_constant(monkeypatch, "LARGEST_ORDER", 130)
    steps = plan(problem, Budget.of_work(60.0))
    assert len(steps) >= 2
    assert all(step.reduction is not None and 1 < step.order <= 130 for step in steps)
    assert [s.operations for s in steps] == sorted(s.operations for s in steps)
    mixed = prove_mixed(problem).upper

    def enough(progress: lipcert.Progress) -> None:
        if progress.upper < mixed:
            raise KeyboardInterrupt

    bracket = Bracket(on_progress=enough)
    with contextlib.suppress(KeyboardInterrupt):
        Tight(slopes=False, parts=True).run(problem, bracket, Budget.of_work(600.0))
    assert bracket.certificate is not None
    assert bracket.certificate.method == "tight"
    assert bracket.upper < mixed
    assert lipcert.verify(bracket.certificate, net).proved


def test_parts_have_the_name_of_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is a backward lift, whatever was meant for the whole, and tight only where cuts are."""
    net, box = deep_net(20, 40, 40, 40, 1), Box(np.zeros(20), 0.3)
    problem = Problem.of(net, box)
    gains_of.keep(problem, gains(net, preactivation_bounds(net, box)))
    names: list[str] = []

    def built(*arguments: Any) -> None:
        names.append(arguments[1].method)
        raise ValueError("seen")

    set_constant(monkeypatch, "LARGEST_ORDER", 130)
    monkeypatch.setattr("lipcert.method.relaxed.build", built)
    methods = (Relaxed("forward", "", parts=True), Relaxed("backward", "", parts=True), Tight(slopes=False, parts=True))
    for method, name in zip(methods, ("backward", "backward", "tight"), strict=True):
        names.clear()
        method.run(problem, Bracket(), Budget.of_work(60.0))
        assert set(names) == {name}
    monkeypatch.undo()
    part = of_part(everything(0, net.shape), "backward")
    task = task_of(Problem.of(net, box), part)
    assert task.prove(np.zeros(task.relaxation.problem.rows)).method == "backward"


@pytest.mark.parametrize("shape", [(20, 40, 1), (20, 40, 40, 40, 1)])
def test_a_method_that_is_asked_for_by_name_is_about_the_whole_network(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: parts take its place in auto alone."""
    net, box = deep_net(*shape), Box(np.zeros(20), 0.3)
    problem = Problem.of(net, box)
    gains_of.keep(problem, gains(net, preactivation_bounds(net, box)))
    seen: list[bool] = []

    def built(*arguments: Any) -> None:
        seen.append(arguments[1].reduction is None)
        raise ValueError("seen")

    set_constant(monkeypatch, "LARGEST_ORDER", 30)
    set_constant(monkeypatch, "ITERATIONS", 1e6)  # so that no time is long enough for the whole
    monkeypatch.setattr("lipcert.method.relaxed.build", built)
    methods = [m for m in METHODS if isinstance(m, Relaxed) and m.refusal(problem) is None]
    assert any(m.name == "hr2" for m in methods) == (len(shape) == 3)
    for method in (Tight(slopes=False) if m.name == "tight" else m for m in methods):
        bracket = Bracket()
        seen.clear()
        method.run(problem, bracket, Budget.of_work(3.0))
        assert seen == [True], method.name
        assert not any("left out" in note for note in bracket.notes), method.name
    engines = engines_for(problem, Bracket(), Budget.of_work(3.0), ThreadPoolExecutor(1))
    relaxed = [e.method for e in engines if isinstance(e, RelaxationEngine) and isinstance(e.method, Relaxed)]
    assert relaxed
    assert all(method.parts or method.most == 30 for method in relaxed)
    assert any(method.parts for method in relaxed)


def test_neurons_without_a_gradient_leave_the_euclidean_bounds_too() -> None:
    """They are constants in the matrix, so that its vectors are not the gradient: only intervals hold them."""
    net, box = deep_net(3, 6, 6, 6, 1, seed=3), Box(np.zeros(3), 1.0)
    pre = preactivation_bounds(net, box)
    for size, bounds in ((1.0, mixed_gradient_bounds), (1e-202, gradient_bounds)):
        c = np.array([size])
        share = share_of(Problem.of(net, box, c), everything(0, net.shape))
        for mine, wanted in zip(share.gradients, bounds(net, pre, c), strict=True):
            assert np.array_equal(mine.lo, wanted.lo)
            assert np.array_equal(mine.hi, wanted.hi)
