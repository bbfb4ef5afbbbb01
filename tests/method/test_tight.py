"""Cuts and exclusions: valid at true points, tight on small networks, certified, never fooled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipcert
from lipcert import Box, Everywhere, Network
from lipcert.budget import Budget
from lipcert.errors import FileFormatError
from lipcert.method.resume import ResumeState
from lipcert.method.solving import CutRounds, Task
from lipcert.method.tight import Tight
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate
from lipcert.proof.file import load_certificate
from lipcert.proof.multipliers import prove
from lipcert.proof.verify import verify
from lipcert.relaxation.cuts import NO_CUTS, Cuts, separate, valid_table, with_cuts
from lipcert.relaxation.exclusions import excluded_pairs
from lipcert.relaxation.specification import LIFTS
from lipcert.rounding import Array
from lipcert.solver import Status
from tests.enumeration import exact_constant
from tests.lift_tools import Keeping, built, deep_net, true_points, violations
from tests.one_layer_tools import proof_of, with_specification
from tests.problems import ONE_LAYER, PAPER, TWO_LAYERS, Known
from tests.strategies import small_cases

Case = tuple[Network, Box, Array]


def tightened(net: Network, region: Box | Everywhere, c: Array, work: float = 20.0) -> list[Certificate]:
    bracket = Keeping()
    CutRounds().advance(Task.of(Problem.of(net, region, c), "tight"), bracket, Budget.of_work(work))
    return bracket.certificates


def test_rounds_go_on_where_they_were() -> None:
    """After a stop in the middle the next call solves with the cuts that were found, not without any."""
    known = PAPER[3]
    task = Task.of(Problem.of(known.make(), known.region), "tight")
    first, second, all_of_it = Keeping(), Keeping(), Budget.of_work(100.0)
    whole, parts = CutRounds(), CutRounds()
    assert whole.advance(task, Keeping(), all_of_it) is Status.OPTIMAL
    assert parts.advance(task, first, Budget.of_work(all_of_it.now() / 2)) is Status.TIME_LIMIT
    assert len(parts.cuts) > 0
    rest = Budget.of_work(100.0)
    assert parts.advance(task, second, rest) is Status.OPTIMAL
    assert rest.now() < all_of_it.now()
    assert parts.best == pytest.approx(whole.best, rel=1e-3)
    assert all(c.upper >= known.value for c in first.certificates + second.certificates)


def test_turns_of_tight_keep_what_belongs_to_the_same_relaxation() -> None:
    known = PAPER[3]
    problem, state = Problem.of(known.make(), known.region), ResumeState()
    method, bracket = Tight(slopes=False, state=state), Keeping()
    assert state.least(Budget.of_work(1.0)) is None
    method.run(problem, bracket, Budget.of_work(0.45))
    (kept,) = state.steps.values()
    rounds = kept.solves[CutRounds]
    assert isinstance(rounds, CutRounds)
    assert len(rounds.cuts) > 0
    least = state.least(Budget.of_work(1.0))
    assert least is not None
    assert least > 0
    bracket.certificates.clear()
    method.run(problem, bracket, Budget.of_work(5.0))
    assert len(proof_of(bracket.certificates[0]).specification.cuts) > 0, "not from the beginning"
    assert kept.solves[CutRounds] is rounds
    assert state.steps == {True: kept}
    assert not state.of_task(Task.of(Problem.of(known.make(), Box(np.zeros(10), 0.1)), "tight")).solves
    assert Tight().state is None, "the method of the table begins anew for every caller"


def random_cuts(size: int, names: list[tuple[int, int]], seed: int) -> Cuts:
    """Any pairs, triples and products with factors, sensible or not."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(size):
        entries = [names[i] for i in rng.integers(len(names), size=3)]
        signs = rng.choice([-1, 1], size=3)
        row = [n for e, s in zip(entries, signs, strict=True) for n in (*e, s)]
        match rng.integers(3):
            case 0:
                row[6:] = [-1, -1, 0]
            case 1:
                row[5:] = [int(rng.integers(1, 5)), -2, -1, 0]
        rows.append(row)
    return Cuts(np.array(rows, dtype=np.int64))


@settings(max_examples=13)
@given(small_cases(kinds=("relu", "leaky_relu", "tanh")), st.sampled_from(("tight", *LIFTS)))
def test_all_cuts_and_exclusions_hold_at_true_points(case: Case, method: str) -> None:
    net, box, c = case
    if net.depth == 1:
        return
    problem = Problem.of(net, box, c)
    relaxation = built(problem, method)
    names = [
        (number, place)
        for number, (name, part) in enumerate(relaxation.space.slices.items())
        for place in relaxation.blocks.get(name, (np.arange(part.stop - part.start), 0))[0]
    ]
    cuts = random_cuts(300, names, 0)
    assert valid_table(cuts.table)
    cut = with_cuts(relaxation, cuts)
    assert violations(cut, true_points(cut, problem, 1000)[0]) <= 1e-9


@settings(max_examples=28)
@given(small_cases(max_depth=1, kinds=("relu",)))
def test_excluded_signs_never_occur(case: Case) -> None:
    net, box, _ = case
    A, b = np.asarray(net.affines[0].weight), net.affines[0].bias
    j, k, kind = excluded_pairs(A, b, box)
    x = np.random.default_rng(0).uniform(box.lo, box.hi, size=(3000, box.size))
    z = x @ A.T + b
    signs = np.array([(1, 1), (1, -1), (-1, 1), (-1, -1)])[kind]
    for one, two, (p, q) in zip(j, k, signs, strict=True):
        assert not np.any((p * z[:, one] > 0) & (q * z[:, two] > 0))


def test_exclusions_are_found_where_they_are() -> None:
    """z_1 = x, z_2 = -x - 0.1: never positive together; z_3 = x is positive with z_1."""
    A, b = np.array([[1.0], [-1.0], [1.0]]), np.array([0.0, -0.1, 0.0])
    found = {tuple(int(n) for n in row) for row in zip(*excluded_pairs(A, b, Box([0.0], 1.0)), strict=True)}
    assert (0, 1, 0) in found
    assert (1, 2, 0) in found
    assert not any(row[:2] == (0, 2) and row[2] == 0 for row in found)


@settings(max_examples=21)
@given(small_cases())
def test_tight_is_at_least_the_exact_constant(case: Case) -> None:
    net, box, c = case
    certificates = tightened(net, box, c, 10.0)
    exact = exact_constant(net, box, c)
    assert all(exact <= k.upper * (1 + 1e-9) + 1e-12 for k in certificates)


@pytest.mark.parametrize("known", PAPER, ids=str)
def test_tight_is_exact_on_the_papers_small_networks(known: Known) -> None:
    """(10,10), s = 20: cuts and exclusions close the gap that HR-2 leaves."""
    best = min(k.upper for k in tightened(*known.case))
    assert known.value * (1 - 1e-9) <= best <= known.value * (1 + 1e-4)


@pytest.mark.parametrize("known", [ONE_LAYER, TWO_LAYERS], ids=str)
def test_certificates_with_cuts_verify_and_forgeries_do_not(known: Known, tmp_path: Path) -> None:
    net, box = known.pair
    certificates = tightened(net, box, np.ones(1))
    best = min(certificates, key=lambda k: k.upper)
    assert len(proof_of(best).specification.cuts)
    best.save(tmp_path / "proof.npz")
    answer = lipcert.verify(tmp_path / "proof.npz", net)
    assert answer.proved
    assert answer.upper == pytest.approx(best.upper, rel=1e-9)
    rng = np.random.default_rng(0)
    read = load_certificate(tmp_path / "proof.npz")
    for _ in range(60):
        table = proof_of(read).specification.cuts.table.copy()
        table[rng.integers(len(table)), rng.integers(8)] += rng.integers(-2, 3)
        forged = with_specification(read, cuts=Cuts(table))
        if valid_table(table):
            assert lipcert.verify(forged, net).upper >= known.value * (1 - 1e-9)
        else:
            forged.save(tmp_path / "forged.npz")
            with pytest.raises(FileFormatError, match="cuts"):
                load_certificate(tmp_path / "forged.npz")


def test_separation_finds_the_worst_first_and_nothing_twice() -> None:
    net, box = ONE_LAYER.pair
    relaxation = built(Problem.of(net, box), "tight")
    rng = np.random.default_rng(0)
    R = rng.normal(size=(relaxation.space.size, 4))
    X = (R / np.linalg.norm(R, axis=1, keepdims=True)) @ (R / np.linalg.norm(R, axis=1, keepdims=True)).T
    few, many = separate(relaxation, X, NO_CUTS, 20), separate(relaxation, X, NO_CUTS, 200)
    assert len(few) == 40  # twenty pairs and twenty triples; one hidden layer has no factors
    assert len(many) > len(few)
    assert {r.tobytes() for r in few.table} <= {r.tobytes() for r in many.table}
    again = separate(relaxation, X, few, 20)
    assert not {r.tobytes() for r in few.table} & {r.tobytes() for r in again.table}


def test_lying_multipliers_on_cuts() -> None:
    net, box = ONE_LAYER.pair
    relaxation = built(Problem.of(net, box), "tight")
    X = np.eye(relaxation.space.size) * 0.0 - 1.0
    cut = with_cuts(relaxation, separate(relaxation, X, NO_CUTS, 100))
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.1, 10.0):
        assert prove(cut, scale * rng.normal(size=cut.problem.rows)).upper >= ONE_LAYER.value


def test_auto_uses_it() -> None:
    """Or it is exact."""
    net, box = deep_net(4, 5, 4, 2), Box(np.zeros(4), 0.5)
    plain = lipcert.bound(net, box, output="all", method="backward", work=60.0, lower=False)
    auto = lipcert.bound(net, box, output="all", work=5.0, lower=False)
    assert auto.method in ("tight", "signs", "tree")
    assert auto.upper < plain.upper


def test_auto_is_no_worse_than_a_relaxation() -> None:
    net, box = deep_net(8, 10, 8, 1), Box(np.zeros(8), 0.3)
    plain = lipcert.bound(net, box, method="backward", work=60.0, lower=False)
    auto = lipcert.bound(net, box, work=5.0)
    assert auto.upper <= plain.upper * (1 + 1e-6)
    assert auto.lower is not None
    assert auto.lower <= auto.upper


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_certificates_of_tight_without_values_verify(activation: str, tmp_path: Path) -> None:
    """A box that reaches every sign pattern, or a smooth first layer: no x, and the checker finds that out."""
    net, box = deep_net(4, 4, 3, 1, activation=activation), Box(np.zeros(4), 50.0)
    best = min(tightened(net, box, np.ones(1), 3.0), key=lambda k: k.upper)
    assert "w" not in proof_of(best).shift
    best.save(tmp_path / "proof.npz")
    answer = lipcert.verify(tmp_path / "proof.npz", net)
    assert answer.proved
    assert answer.upper == pytest.approx(best.upper, rel=1e-9)


def test_a_table_that_is_none_proves_nothing() -> None:
    """(1 + 3t)(1 - 3t) >= 0 is false; with t^2 = 1 it would prove any bound. Files are refused, so are objects."""
    net, box, c = deep_net(2, 3, 1, seed=1), Box(np.zeros(2), 1.0), np.ones(1)
    task = Task.of(Problem.of(net, box, c), "tight")
    relaxation = task.relaxation
    t = list(relaxation.space.slices).index("t")
    cuts = Cuts(np.array([[t, 0, 3, t, 0, -3, -1, -1, 0]], dtype=np.int64))
    worse = with_cuts(relaxation, cuts)
    y = {f.name: np.zeros(f.total) for f in worse.families}
    y["cuts"][0], y["t^2 = 1"][0], y["1 = 1"][0] = 100.0, -900.0, 100.0
    certificate = task.cut(cuts).prove(worse.unpack(y))
    assert certificate.upper < exact_constant(net, box, c)
    assert not verify(certificate, net).proved
