"""Whole maps without signs: rows that hold, bounds of slopes and below, plans of large networks, forgeries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipcert
from lipcert import Box, Certificate, Everywhere, MethodError, Network
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.planning import plan_whole
from lipcert.method.solving import CutRounds
from lipcert.method.table import named
from lipcert.method.tight import Tight
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.proof import Multipliers
from lipcert.proof.cases import Cases
from lipcert.proof.multipliers import prove
from lipcert.relaxation.specification import UNSIGNED, Specification, build
from lipcert.rounding import Array
from lipcert.solver.rank_two import Options, solve_rank_two
from tests.constants import set_constant
from tests.enumeration import exact_constant
from tests.lift_tools import Keeping, deep_net, objective, task_of, true_points, violations
from tests.one_layer_tools import with_specification
from tests.strategies import branched_networks, small_cases

WITHOUT_SIGNS = Specification("tight", UNSIGNED, values=False)
ENDS = [Norm("2", "2"), Norm("inf", "2"), Norm("2", "1"), Norm("inf", "1")]
Case = tuple[Network, Box, Array]


def words(norm: Norm) -> str:
    return norm.words


def map_of(net: Network, region: Box | Everywhere, norm: Norm) -> Problem:
    return Problem.of(net, region, "all", norm)


def solved(problem: Problem, specification: Specification = WITHOUT_SIGNS) -> float:
    relaxation = build(problem, specification)
    if relaxation.problem.size < 3:
        return prove(relaxation, np.ones(relaxation.problem.rows)).upper
    return prove(relaxation, solve_rank_two(relaxation.problem, Options()).y).upper


def truth_of(net: Network, box: Box, norm: Norm) -> float:
    return exact_constant(net, box, np.eye(net.outputs), norm)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "tanh"])
@pytest.mark.parametrize("norm", ENDS, ids=words)
def test_rows_hold_and_the_objective_is_the_derivative(norm: Norm, activation: str) -> None:
    net, box = deep_net(3, 5, 4, 4, 3, seed=3, activation=activation), Box(np.zeros(3), 0.8)
    problem = map_of(net, box, norm)
    relaxation = build(problem, WITHOUT_SIGNS)
    assert not any(name.startswith(("v", "w", "x")) for name in relaxation.space.slices)
    Y, value = true_points(relaxation, problem, 300)
    assert violations(relaxation, Y) <= 1e-12
    least = objective(relaxation, Y) + relaxation.offset
    bounds = [relaxation.finish(float(max(number, 0.0))) for number in least]
    assert np.all(np.array(bounds) >= value * (1 - 1e-9))


@settings(max_examples=10)
@given(small_cases(kinds=("relu", "leaky_relu")), st.sampled_from(ENDS))
def test_never_below_the_truth(case: Case, norm: Norm) -> None:
    net, box, _ = case
    assert solved(map_of(net, box, norm)) >= truth_of(net, box, norm) * (1 - 1e-9)


@settings(max_examples=5)
@given(branched_networks())
def test_networks_with_branches(case: Case) -> None:
    net, box, _ = case
    assert solved(map_of(net, box, Norm("2", "2"))) >= truth_of(net, box, Norm("2", "2")) * (1 - 1e-9)


@pytest.mark.parametrize("norm", ENDS, ids=words)
def test_signs_add_nothing(norm: Norm) -> None:
    """The same bound as the lift with signs, from half the order; from 2 to 2 that of slopes."""
    net, box = deep_net(4, 6, 6, 3, seed=1), Box(np.zeros(4), 0.6)
    problem = map_of(net, box, norm)
    plain, signed = solved(problem), solved(problem, Specification("tight", "backward", values=False))
    assert plain == pytest.approx(signed, rel=1e-5)
    if norm == Norm("2", "2"):
        slopes = lipcert.bound(net, box, output="all", norm=norm, method="slopes", work=5.0, lower=False).upper
        assert plain == pytest.approx(slopes, rel=1e-5)


def test_certificates(tmp_path: Path) -> None:
    """Stored, rebuilt from the network; of another question, or with other numbers, it proves nothing too small."""
    net, box, norm = deep_net(4, 6, 6, 3, seed=1), Box(np.zeros(4), 0.6), Norm("2", "2")
    task = task_of(map_of(net, box, norm), WITHOUT_SIGNS)
    bracket = Keeping()
    CutRounds().advance(task, bracket, Budget.of_work(1.0))
    truth = truth_of(net, box, norm)
    assert all(certificate.upper >= truth * (1 - 1e-9) for certificate in bracket.certificates)
    kept = bracket.certificate
    assert isinstance(kept, Certificate)
    assert isinstance(kept.proof, Multipliers)
    assert len(kept.proof.specification.cuts)
    kept.save(tmp_path / "map.npz")
    answer = lipcert.verify(tmp_path / "map.npz", net)
    assert answer.proved
    assert answer.upper == pytest.approx(kept.upper, rel=1e-9)
    for form in ("backward", "forward", "both"):
        assert lipcert.verify(with_specification(kept, form=form), net).upper >= truth
    assert not lipcert.verify(replace(kept, claim=0.9 * kept.upper), net).proved
    y = solve_rank_two(task.relaxation.problem, Options()).y
    rng = np.random.default_rng(0)
    for lie in (np.zeros_like(y), -y, rng.normal(size=y.shape), np.full_like(y, np.nan), 0.5 * y):
        assert task.prove(lie).upper >= truth * (1 - 1e-9)
    one = Problem.of(net, box, 0, "2")
    with pytest.raises(MethodError, match="without signs is for whole maps"):
        lipcert.verify(Certificate.of(one, kept.proof, kept.upper), net)


def test_large_networks_are_planned_without_signs() -> None:
    """Where the whole lift is too large tight still has its cuts, and says so; the bound is below that of slopes."""
    net, box, norm = deep_net(4, 6, 6, 3, seed=1), Box(np.zeros(4), 0.6), Norm("2", "2")
    problem = map_of(net, box, norm)
    first, last = plan_whole(problem, Budget.of_work(30.0), "tight")
    assert (first.signs, last.whole) == (False, True)
    assert first.order < last.order / 2
    assert [step.signs for step in plan_whole(problem, Budget.of_work(30.0), "tight", first.order)] == [False]
    slopes = lipcert.bound(net, box, output="all", norm=norm, method="slopes", work=5.0, lower=False).upper
    bracket = Bracket()
    Tight(slopes=False, most=first.order).run(problem, bracket, Budget.of_work(3.0))
    found = bracket.certificate
    assert found is not None
    assert found.method == "tight"
    assert truth_of(net, box, norm) <= found.upper < 0.99 * slopes
    assert any("the lift without signs takes its place" in note for note in bracket.notes)
    assert lipcert.verify(found, net).proved
    assert plan_whole(problem, Budget.of_work(30.0), "tight", first.order - 1) == []


def test_cases_of_large_networks_are_bounded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """From inf to inf each output is a case; where its lift is too large, parts of the network bound it."""
    net, box, norm = deep_net(3, 6, 6, 2, seed=4), Box(np.zeros(3), 0.4), Norm("inf", "inf")
    set_constant(monkeypatch, "LARGEST_ORDER", 16)
    problem, bracket = map_of(net, box, norm), Keeping()
    budget = Budget.of_work(4.0)
    for name in ("interval", "mixed"):
        named(name).run(problem, bracket, budget)
    cheap = bracket.upper
    Tight(slopes=False, parts=True).run(problem, bracket, budget)
    found = bracket.certificate
    assert isinstance(found, Certificate)
    assert isinstance(found.proof, Cases)
    assert all(case.proof.specification.reduction is not None for case in found.proof.cases)
    assert truth_of(net, box, norm) <= found.upper < cheap
    answer = lipcert.verify(found, net)
    assert answer.proved
    assert answer.upper == pytest.approx(found.upper, rel=1e-9)
