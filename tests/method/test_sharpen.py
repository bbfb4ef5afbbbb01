"""Sharper pre-activation bounds: true whatever the solver says, and proofs with them are proofs about the problem."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from lipcert import Activation, Ball, Box, Everywhere, FileFormatError, Network
from lipcert.bounds import Interval, preactivations
from lipcert.bounds.collapse import collapse
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.engines import RelaxationEngine, Sharpening, SignEngine, engines_for
from lipcert.method.relaxed import RELAXED
from lipcert.method.sharpen import _Reach, gain, sharpen
from lipcert.problem.blocks import Block
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate, Multipliers, Proof, Sharpened, prove_within
from lipcert.proof.arithmetic import prove_linear
from lipcert.proof.balls import check_with_balls
from lipcert.proof.cases import Cases
from lipcert.proof.file import load_certificate
from lipcert.proof.sharpened import Sharper
from lipcert.proof.verify import verify
from lipcert.rounding import Array
from lipcert.search.settings import Settings
from tests.constants import set_constant
from tests.enumeration import exact_constant
from tests.lift_tools import deep_net
from tests.rational import exact_pass, inside
from tests.relaxation.test_lifts_branches import proved
from tests.strategies import branched_networks

Case = tuple[Network, Box, Array]
NORMS = tuple(Norm(p) for p in ("inf", "2", "1"))
ONE = np.ones(1)
FREE = next(method for method in RELAXED if method.name == "backward-free")


@pytest.fixture(params=["collapsed", "whole"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the network of the open neurons always, or never."""
    _choose(monkeypatch, request.param)


def _choose(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    limit = np.inf if which == "collapsed" else -1.0
    for name in ("COLLAPSE_SHARE", "COLLAPSE_TRIED"):
        set_constant(monkeypatch, name, limit)
    set_constant(monkeypatch, "COLLAPSE_PRICE", np.inf)


def sharper_of(certificate: Certificate) -> Sharper:
    assert isinstance(certificate.proof, Sharpened)
    return certificate.proof.sharper


def inner_of(certificate: Certificate) -> Proof:
    assert isinstance(certificate.proof, Sharpened)
    return certificate.proof.inner


def sharpened(net: Network, box: Box | Ball, norm: str = "inf") -> tuple[Problem, Problem]:
    problem = Problem.of(net, box, norm=norm)
    found = sharpen(problem, Budget.of_work(10.0))
    assert found is not None
    return problem, found


def points(box: Box, count: int) -> Array:
    rng = np.random.default_rng(count)
    corners = np.where(rng.integers(0, 2, size=(count, box.size)), box.lo, box.hi)
    return np.concatenate([corners, rng.uniform(box.lo, box.hi, size=(count, box.size))])


@pytest.mark.parametrize("which", ["collapsed", "whole"])
@given(branched_networks(max_neurons=12))
@settings(max_examples=16, deadline=None)
def test_bounds_contain_every_value_exactly(which: str, case: Case) -> None:
    net, box, c = case
    with pytest.MonkeyPatch.context() as patch:
        _choose(patch, which)
        problem = Problem.of(net, box, c)
        found = sharpen(problem, Budget.of_work(1.0))
    if found is None:
        return
    for old, new in zip(preactivations(problem), preactivations(found), strict=True):
        assert np.all((old.lo <= new.lo) & (new.lo <= new.hi) & (new.hi <= old.hi))
    for x in points(box, 3):
        for z, interval in zip(exact_pass(net, x, c)[0], preactivations(found), strict=True):
            assert inside(z, interval)


def random_sharper(net: Network, seed: int, size: float) -> Sharper:
    """Any multipliers, for all neurons and both sides."""
    rng = np.random.default_rng(seed)
    targets: list[tuple[int, int, int]] = []
    rows: list[tuple[int, int]] = []
    start = 0
    for i, block in enumerate(net.hidden, start=1):
        for k in range(block.width):
            for side in (1, -1):
                rows += [(len(targets), row) for row in range(2 * start) if rng.random() < 0.5]
                targets.append((i, k, side))
        start += block.width
    at = np.array(rows, dtype=np.int64).reshape(-1, 2)
    numbers = size * rng.normal(size=len(at))
    numbers[at[:, 1] % 2 == 1] = np.abs(numbers[at[:, 1] % 2 == 1])
    return Sharper(np.array(targets, dtype=np.int64), at, numbers)


@given(
    branched_networks(max_neurons=10, kinds=("relu", "identity")),
    st.integers(0, 2**32 - 1),
    st.sampled_from((1e-3, 0.3, 1.0, 1e8, 1e200, 1e308)),
)
@settings(max_examples=16, deadline=None)
def test_any_multipliers_give_bounds(case: Case, seed: int, size: float) -> None:
    net, box, c = case
    problem = Problem.of(net, box, c)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        _choose(patch, "whole")
        found = random_sharper(net, seed, size).of(problem)
    if found is None:
        assert net.depth < 2
        return
    for x in points(box, 2):
        for z, interval in zip(exact_pass(net, x, c)[0], preactivations(found), strict=True):
            assert inside(z, interval)


@pytest.mark.usefixtures("either")
def test_bounds_are_those_of_the_triangles() -> None:
    """Of the second block, whose neurons before it have bounds that nothing can sharpen."""
    net, box = deep_net(3, 6, 5, 1, seed=1), Box(np.zeros(3), 1.0)
    problem, found = sharpened(net, box)
    (W, V), (a, b) = ([block.terms[0][1] for block in net.hidden], [block.bias for block in net.hidden])
    lo, hi = preactivations(problem)[0]
    slope = np.where(lo < 0, np.maximum(hi, 0) / (hi - lo), 1.0)
    ends = [
        *zip(box.lo, box.hi, strict=True),
        *((max(float(e), 0.0), max(float(h), 0.0)) for e, h in zip(lo, hi, strict=True)),
    ]
    rows = np.block([[W, -np.eye(6)], [-slope[:, None] * W, np.eye(6)]])
    right = np.concatenate([-a, slope * (a - np.minimum(lo, 0.0))])
    z, old = preactivations(found)[1], preactivations(problem)[1]
    for k in np.flatnonzero((old.lo < 0) & (old.hi > 0)):
        for side, end in ((1, z.hi[k]), (-1, -z.lo[k])):
            best = -linprog(-side * np.concatenate([np.zeros(3), V[k]]), rows, right, bounds=ends).fun + side * b[k]
            assert best * (1 - 1e-9) - 1e-9 <= end <= best + 2e-3 * (old.hi[k] - old.lo[k])
    assert gain(problem, found) > 0.01


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("sizes", [(3, 4, 4, 1), (2, 4, 4, 3, 1)])
def test_certificates_are_about_the_problem(sizes: tuple[int, ...], norm: Norm, tmp_path: Path) -> None:
    net, box = deep_net(*sizes, seed=3), Box(np.zeros(sizes[0]), 1.0)
    problem, found = sharpened(net, box, norm.p)
    truth, file = exact_constant(net, box, ONE, norm), tmp_path / "certificate.npz"
    small = collapse(found)
    linear = prove_linear(found) if small is None else prove_within(found, prove_linear(small.problem))
    bracket = Bracket(Settings())
    signs = SignEngine(found, bracket)
    signs.advance(Budget.of_work(5.0))
    assert bracket.certificate is not None
    assert bracket.certificate.upper == pytest.approx(truth, rel=2e-6)
    assert prove_linear(problem).upper >= linear.upper * (1 - 1e-9)
    for certificate in (linear, bracket.certificate, proved(found, "backward")):
        assert isinstance(certificate.proof, Sharpened)
        assert certificate.upper >= truth * (1 - 1e-7)
        certificate.save(file)
        again = verify(file, net)
        assert again.proved
        assert again.upper == pytest.approx(certificate.upper, rel=1e-9)


@pytest.mark.usefixtures("either")
def test_a_relaxation_with_sharper_bounds_in_exact_arithmetic() -> None:
    pytest.importorskip("flint")
    net, box = deep_net(3, 5, 4, 1, seed=3), Box(np.zeros(3), 1.0)
    _, found = sharpened(net, box)
    certificate = proved(found, "backward")
    assert check_with_balls(certificate, net) == pytest.approx(certificate.upper, rel=1e-6)
    forged = replace(sharper_of(certificate), targets=np.zeros((1, 3), dtype=np.int64))
    assert check_with_balls(replace(certificate, proof=forged.around(inner_of(certificate))), net) == np.inf


def test_slack_is_paid_for() -> None:
    """With slack z may be anything near the sum of its block: the bounds contain the values for any such errors."""
    rng = np.random.default_rng(5)
    relu = Activation("relu")
    slacks = [np.full(4, 0.1), np.full(3, 0.2), np.full(3, 0.05)]
    first = Block(((0, rng.normal(size=(4, 2))),), rng.normal(size=4) / 3, relu, slacks[0])
    second = Block(((0, rng.normal(size=(3, 2))), (1, rng.normal(size=(3, 4)))), rng.normal(size=3), relu, slacks[1])
    third = Block(((1, rng.normal(size=(3, 4))), (2, rng.normal(size=(3, 3)))), rng.normal(size=3), relu, slacks[2])
    net = Network.from_blocks([first, second, third, Block(((3, np.ones((1, 3))),), np.zeros(1))])
    box = Box(np.zeros(2), 1.0)
    with pytest.MonkeyPatch.context() as patch:
        _choose(patch, "whole")
        _, found = sharpened(net, box)
    xs = [points(box, 3000)]
    for block, z in zip(net.hidden, preactivations(found), strict=True):
        true = block(xs) + rng.choice([-1.0, 1.0], size=(6000, block.width)) * block.doubt
        assert np.all((z.lo <= true + 1e-12) & (true - 1e-12 <= z.hi))
        xs.append(np.maximum(true, 0.0))


def _lies(self: _Reach, neuron: int, side: int) -> tuple[Array, Array]:
    rng = np.random.default_rng([neuron, side + 1])
    count = self.system.neurons
    y = rng.normal(size=count) * rng.choice([1e-3, 1.0, np.nan, 1e300], p=[0.5, 0.3, 0.1, 0.1])
    return y, np.abs(rng.normal(size=count))


@pytest.mark.usefixtures("either")
def test_a_lying_solver_proves_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Reach, "largest", _lies)
    for seed in range(4):
        net, box = deep_net(3, 5, 4, 3, 1, seed=seed), Box(np.zeros(3), 0.7)
        found = sharpen(Problem.of(net, box), Budget.of_work(1.0))
        if found is None:
            continue
        for z, interval in zip(net.preactivations(points(box, 500)), preactivations(found), strict=True):
            assert np.all((interval.lo - 1e-12 <= z) & (z <= interval.hi + 1e-12))
        assert verify(prove_linear(found), net).proved


@pytest.fixture(scope="module")
def kept() -> tuple[Network, Certificate, float]:
    net, box = deep_net(3, 5, 4, 3, 1, seed=2), Box(np.zeros(3), 1.0)
    return net, prove_linear(sharpened(net, box)[1]), exact_constant(net, box, ONE)


def test_forged_multipliers_prove_nothing(kept: tuple[Network, Certificate, float], tmp_path: Path) -> None:
    net, certificate, truth = kept
    sharper, file = sharper_of(certificate), tmp_path / "forged.npz"
    targets, rows, numbers = sharper.targets, sharper.rows, sharper.numbers

    def at(table: Array | Any, place: tuple[int, int], value: int) -> Any:
        other = table.copy()
        other[place] = value
        return other

    t = int(np.flatnonzero(rows[:, 1] % 2 == 1)[0])
    first = int(np.flatnonzero(targets[rows[:, 0], 0] == 2)[0])
    forgeries = {
        "nan": replace(sharper, numbers=np.where(np.arange(len(numbers)) == 0, np.nan, numbers)),
        "infinite": replace(sharper, numbers=np.where(np.arange(len(numbers)) == 0, np.inf, numbers)),
        "a negative t": replace(sharper, numbers=np.where(np.arange(len(numbers)) == t, -1.0, numbers)),
        "no such block": replace(sharper, targets=at(targets, (0, 0), 9)),
        "block zero": replace(sharper, targets=at(targets, (0, 0), 0)),
        "no such neuron": replace(sharper, targets=at(targets, (0, 1), 10**12)),
        "no such side": replace(sharper, targets=at(targets, (0, 2), 0)),
        "two sides": replace(sharper, targets=at(targets, (0, 2), 2)),
        "a later neuron": replace(sharper, rows=at(rows, (first, 1), 2 * 5)),
        "no such row": replace(sharper, rows=at(rows, (0, 1), 10**12)),
        "a negative row": replace(sharper, rows=at(rows, (0, 1), -1)),
        "no such target": replace(sharper, rows=at(rows, (0, 0), len(targets))),
        "too many targets": replace(sharper, targets=np.concatenate([targets] * 9)),
        "targets too narrow": replace(sharper, targets=targets[:, :2]),
        "rows too narrow": replace(sharper, rows=rows[:, :1]),
        "numbers too few": replace(sharper, numbers=numbers[:-1]),
    }
    for name, forged in forgeries.items():
        changed = replace(certificate, proof=Sharpened(inner_of(certificate), forged))
        changed.save(file)
        try:
            found = verify(file, net)
        except FileFormatError:
            continue
        assert not found.proved, name
        assert found.upper == np.inf, name
    for size in (0.0, 0.5, 2.0, 1e300):  # other multipliers: other bounds, all of them true
        changed = replace(certificate, proof=Sharpened(inner_of(certificate), replace(sharper, numbers=size * numbers)))
        assert verify(changed, net).upper >= truth * (1 - 1e-9)


def test_files_of_odd_types_are_refused(kept: tuple[Network, Certificate, float], tmp_path: Path) -> None:
    net, certificate, _ = kept
    arrays, file = dict[str, Any](certificate.arrays()), tmp_path / "odd.npz"
    odd: list[dict[str, Any]] = [
        {"sharpened_targets": arrays["sharpened_targets"].astype(np.float64)},
        {"sharpened_rows": arrays["sharpened_rows"].astype(np.float64)},
        {"sharpened_numbers": arrays["sharpened_numbers"][:, None]},
        {"sharpened_targets": np.array(3)},
    ]
    for change in odd:
        np.savez(file, **(arrays | change))
        with pytest.raises(FileFormatError):
            verify(file, net)
    for name in ("sharpened_targets", "sharpened_rows", "sharpened_numbers"):
        np.savez(file, **{k: v for k, v in arrays.items() if k != name})
        with pytest.raises(FileFormatError):
            verify(file, net)
    np.savez(file, **arrays)
    assert isinstance(load_certificate(file).proof, Sharpened)


def test_the_same_work_gives_the_same_bounds_and_less_gives_less() -> None:
    net, box = deep_net(4, 12, 12, 12, 1, seed=4), Box(np.zeros(4), 1.0)
    one, other = (sharpen(Problem.of(net, box), Budget.of_work(10.0)) for _ in range(2))
    assert one is not None
    assert other is not None
    for a, b in zip(preactivations(one), preactivations(other), strict=True):
        assert np.array_equal(a, b)
    assert sharpen(Problem.of(net, box), Budget.of_work(0.0)) is None
    problem = Problem.of(net, box)
    little = sharpen(problem, Budget.of_work(0.003))
    assert little is not None
    assert 0.0 < gain(problem, little) < gain(problem, one)


def test_what_is_not_covered() -> None:
    chain, work = deep_net(3, 6, 5, 1), Budget.of_work(1.0)
    assert sharpen(Problem.of(chain, Everywhere()), work) is None
    assert sharpen(Problem.of(deep_net(3, 6, 1), Box(np.zeros(3), 1.0)), work) is None
    assert sharpen(Problem.of(deep_net(3, 6, 5, 1, activation="tanh"), Box(np.zeros(3), 1.0)), work) is None
    problem = Problem.of(chain, Box(np.zeros(3), 1.0))
    early = problem.on(problem.region, preactivations(problem), looser=True)
    assert sharpen(early, work) is None
    assert gain(problem, problem) == 0.0
    nothing = Sharper(np.zeros((0, 3), dtype=np.int64), np.zeros((0, 2), dtype=np.int64), np.zeros(0))
    assert Sharpened(prove_linear(problem).proof, nothing).check(Problem.of(chain, Everywhere())) == np.inf


def test_a_ball_and_leaky_neurons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Balls by their boxes; open leaky ReLUs once they are collapsed."""
    _choose(monkeypatch, "collapsed")
    net, ball = deep_net(3, 6, 5, 1, seed=1, activation=Activation("leaky_relu", 0.1)), Ball(np.zeros(3), 1.0)
    problem, found = sharpened(net, ball, "2")
    assert gain(problem, found) > 0.0
    x = np.random.default_rng(0).normal(size=(500, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for z, interval in zip(net.preactivations(x), preactivations(found), strict=True):
        assert np.all((interval.lo - 1e-12 <= z) & (z <= interval.hi + 1e-12))
    assert verify(prove_linear(found), net).proved
    _choose(monkeypatch, "whole")
    assert sharpen(Problem.of(net, ball, norm="2"), Budget.of_work(1.0)) is None


def test_engines_of_auto_begin_anew_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are worth it, once for all of them; the bound of an engine without them is no better."""
    net, box = deep_net(6, 9, 9, 1, seed=1), Box(np.zeros(6), 1.0)
    problem = Problem.of(net, box)
    uppers: list[float] = []
    for worth, kind in ((0.0, Sharpened), (2.0, Multipliers)):
        set_constant(monkeypatch, "SHARPEN_WORTH", worth)
        bracket = Bracket(Settings(lower=False))
        engines = engines_for(problem, bracket, Budget.of_work(5.0), ThreadPoolExecutor(1))
        sharpening = engines[0]
        assert isinstance(sharpening, Sharpening)
        relaxed = next(engine for engine in engines if engine.name == "tight")
        assert isinstance(relaxed, RelaxationEngine)
        relaxed.advance(Budget.of_work(0.05))
        relaxed.ended, relaxed.slices = True, 3
        sharpening.advance(Budget.of_work(5.0))
        assert sharpening.ended
        used = kind is Sharpened
        assert (relaxed.problem is not problem) == used
        assert (relaxed.ended, relaxed.slices) == ((False, 0) if used else (True, 3))
        relaxed.bracket = alone = Bracket(Settings(lower=False))
        relaxed.method.run(relaxed.problem, alone, Budget.of_work(5.0))
        certificate = alone.certificate
        assert certificate is not None
        assert isinstance(certificate.proof, kind)
        assert verify(certificate, net).proved
        uppers.append(alone.upper)
    assert uppers[0] <= uppers[1] * (1 + 1e-3)


def test_a_slice_that_is_too_short_for_all_programs_is_followed_by_a_longer_one() -> None:
    problem, bracket = Problem.of(deep_net(6, 9, 9, 1, seed=1), Box(np.zeros(6), 1.0)), Bracket(Settings())
    sharpening = Sharpening(problem, bracket)
    sharpening.advance(Budget.of_work(1e-4))
    ended = [sharpening.ended]
    assert sharpening.least(Budget.of_work(1.0)) > 1e-4
    assert sharpening.ahead(Budget.of_work(1.0)) > 0.0, "nothing was tried"
    sharpening.advance(Budget.of_work(5.0))
    assert [*ended, sharpening.ended] == [False, True]
    assert sharpening.ahead(Budget.of_work(1.0)) == 0.0


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(("norm", "outputs"), [("1", 1), ("inf", 3), ("1", 3)])
def test_certificates_of_a_case_verify_by_themselves(norm: str, outputs: int) -> None:
    """Bounds that a checker needs multipliers for are shared with a part of a proof about all cases alone."""
    net, box = deep_net(3, 8, 8, outputs, seed=2), Box(np.zeros(3), 0.6)
    problem = Problem.of(net, box, None if outputs == 1 else "all", norm)
    found = sharpen(problem, Budget.of_work(10.0))
    assert found is not None
    at = (0 if norm == "inf" else None, 1 if norm == "1" else None)
    alone, part = found.case(*at), found.case(*at, part=True)
    assert prove_linear(alone).verify(net).proved
    assert gain(alone, part) > 0
    assert prove_linear(found.along(np.ones(outputs))).verify(net).proved
    bracket = Bracket(Settings(lower=False))
    FREE.run(found, bracket, Budget.of_work(10.0))
    assert bracket.certificate is not None
    assert isinstance(inner_of(bracket.certificate), Cases)
    assert verify(bracket.certificate, net).proved


def test_narrow_intervals_stay_in_order() -> None:
    """A box without width: every bound is sharp already."""
    net = deep_net(3, 6, 5, 1, seed=1)
    box = Box.from_bounds(np.full(3, 0.3), np.full(3, 0.3))
    found = sharpen(Problem.of(net, box), Budget.of_work(1.0))
    assert found is None or all(np.all(z.lo <= z.hi) for z in preactivations(found))
    assert isinstance(preactivations(Problem.of(net, box))[0], Interval)
