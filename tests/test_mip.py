"""The mixed-integer witness: its optimum is the enumerated constant, its rows hold, its claims prove nothing."""

from __future__ import annotations

import _thread
import itertools
import threading
from dataclasses import replace
from typing import Any

import highspy
import numpy as np
import pytest

from lipcert import Activation, Box, Everywhere, MethodError, Network, Progress, Status, bound
from lipcert.budget import Budget
from lipcert.method.mip import search as mip_search
from lipcert.method.mip.formulation import check_mip, formulate
from lipcert.paper.networks import paper_network, paper_region
from lipcert.problem.norms import INF, Norm
from lipcert.problem.problem import Problem
from lipcert.rounding import Array
from lipcert.solver import ConicStatus
from lipcert.solver.mixed_integer import MixedIntegerProblem, MixedIntegerSolution, solve_mixed_integer
from tests.enumeration import exact_constant
from tests.problems import AFFINE, AT_A_POINT, CANCELLED, DEAD
from tests.strategies import convolutional

L1 = Norm("1")


def random_case(seed: int) -> tuple[Network, Box, Array]:
    """Depths 1 to 3, ReLU and leaky ReLU (also one that is steeper below zero), boxes of radius 0.1, 1 and 10."""
    rng = np.random.default_rng(seed)
    depth = 1 + seed % 3
    sizes = [int(rng.integers(1, 5)), *rng.integers(1, 8 // depth + 1, size=depth), 2]
    weights = [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in itertools.pairwise(sizes)]
    biases = [rng.normal(size=m) / 2 for m in sizes[1:]]
    activation = (Activation("relu"), Activation("relu"), Activation("leaky_relu", 0.2), Activation("leaky_relu", 1.5))
    net = Network.from_weights(weights, biases, activation[seed % 4])
    return net, Box(rng.normal(size=sizes[0]), (0.1, 1.0, 10.0)[seed // 3 % 3]), rng.normal(size=2)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_the_optimum_is_the_enumerated_constant(first: int) -> None:
    for seed in range(first, first + 10):
        net, box, c = random_case(seed)
        norm = L1 if seed % 5 == 4 else INF
        program = formulate(Problem.of(net, box, c, norm)).problem
        found, exact = solve_mixed_integer(program, Budget.unlimited()), exact_constant(net, box, c, norm)
        assert found.status is ConicStatus.OPTIMAL
        assert found.value == pytest.approx(exact, rel=1e-5, abs=1e-9), seed
        assert found.bound == pytest.approx(exact, rel=1e-5, abs=1e-9), seed


@pytest.mark.parametrize("norm", [INF, L1], ids=str)
def test_rows_hold_at_true_points(norm: Norm) -> None:
    """Up to the rounding of both sides; the objective there is the gradient's norm."""
    for seed in range(12):
        net, box, c = random_case(seed)
        formulation = formulate(Problem.of(net, box, c, norm))
        points = np.random.default_rng(seed).uniform(box.lo, box.hi, size=(500, box.size))
        values, p = formulation.assignment(points), formulation.problem
        rows, slack = values @ p.A.T, 1e-12 * (1 + np.abs(values) @ abs(p.A).T)
        assert np.all(rows <= p.row_hi + slack)
        assert np.all(rows >= p.row_lo - slack)
        assert np.all(values <= p.hi + 1e-12 * (1 + np.abs(p.hi)))
        assert np.all(values >= p.lo - 1e-12 * (1 + np.abs(p.lo)))
        assert np.all(np.isin(values[:, p.integer], (0.0, 1.0)))
        assert values @ p.cost == pytest.approx(norm.dual.of(net.gradient(points, c)), rel=1e-12)
        assert np.allclose(formulation.point(values[0]), points[0])
        on = np.concatenate([z[0] > 0 for z in net.preactivations(points[:1])])
        assert np.array_equal(formulation.pattern(values[0]), on)


def test_a_convolution_has_the_program_of_its_matrix() -> None:
    kept, written = convolutional(2)
    box = Box(np.zeros(kept.inputs), 1.0)
    one, two = (formulate(Problem.of(net, box)).problem for net in (kept, written))
    assert abs(one.A - two.A).max() < 1e-12
    assert np.allclose(one.row_hi, two.row_hi)


def test_bound_keeps_the_claim_apart() -> None:
    net, box = paper_network(10, 20, 0, 2), paper_region(10, 0, "local")
    result = bound(net, box, method="mip", work=30.0)
    cheap = bound(net, box, method="mixed", lower=False)
    assert result.claim is not None
    assert result.upper == cheap.upper
    assert result.method == cheap.method
    assert result.lower is not None
    assert result.claim.value == pytest.approx(result.lower, rel=1e-6)
    assert result.claim.bound < 0.99 * result.upper
    assert "not certified" in str(result.claim)
    assert result.to_dict()["claim"]["status"] == "optimal"
    assert cheap.to_dict()["claim"] is None


def test_without_lower_bound_there_is_a_claim_only() -> None:
    net, box, c = random_case(7)
    result = bound(net, box, output=c, method="mip", lower=False)
    assert result.lower is None
    assert result.claim is not None
    assert result.claim.value == pytest.approx(exact_constant(net, box, c), rel=1e-5)


@pytest.mark.parametrize(("value", "limit"), [(1e-3, 2e-3), (1e6, 1e6), (np.nan, np.nan)])
def test_a_lying_solver_changes_nothing_that_is_proved(
    value: float, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, box, c = random_case(4)
    honest = bound(net, box, output=c, method="mip", work=5.0)

    def lie(problem: MixedIntegerProblem, _: Budget, **__: object) -> MixedIntegerSolution:
        nonsense = np.random.default_rng(0).normal(size=len(problem.cost))
        return MixedIntegerSolution(ConicStatus.OPTIMAL, nonsense, value, limit, 1, 0.0)

    monkeypatch.setattr(mip_search, "solve_mixed_integer", lie)
    result = bound(net, box, output=c, method="mip", work=5.0)
    assert result.upper == honest.upper
    assert result.lower is not None
    assert result.lower <= exact_constant(net, box, c) * (1 + 1e-9)
    assert result.claim is None
    assert "contradicts what is proved" in result.notes[-1]


def test_at_a_kink_the_claim_may_exceed_the_constant_and_the_witness_does_not() -> None:
    """LCEP allows both slopes at 0, its optimum is 1."""
    result = bound(*CANCELLED.pair, method="mip", work=2.0)
    assert result.claim is not None
    assert result.claim.value == pytest.approx(1.0)
    assert result.lower == pytest.approx(CANCELLED.value, abs=1e-12)
    assert result.upper >= 1.0


def test_small_cases() -> None:
    for known in (DEAD, AT_A_POINT, replace(AFFINE, region=Box(np.zeros(2), 1.0))):
        claim = bound(*known.pair, output=known.c, method="mip", work=60.0).claim
        assert claim is not None
        assert [claim.value, claim.bound] == pytest.approx([known.value, known.value])
    huge = Network.from_weights([np.full((2, 2), 1e300)] * 2 + [np.ones((1, 2))])
    result = bound(huge, Box(np.zeros(2), 1.0), method="mip", lower=False)
    assert result.claim is None
    assert "not finite" in result.notes[-1]


def test_the_time_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    net, box = paper_network(80, 80, 0), paper_region(80, 0, "global")
    given: list[float] = []

    def noted(problem: MixedIntegerProblem, budget: Budget, **more: Any) -> MixedIntegerSolution:
        given.append(budget.left())
        return solve_mixed_integer(problem, budget, **more)

    monkeypatch.setattr(mip_search, "solve_mixed_integer", noted)
    result = bound(net, box, method="mip", time_limit=1.0)
    assert len(given) == 1
    assert given[0] < 1.0  # what was left of it; an optimum would take hours
    assert result.status is Status.TIME_LIMIT
    assert result.claim is not None
    assert result.claim.status == "time limit"


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    net, box = paper_network(80, 80, 0), paper_region(80, 0, "global")
    senders: list[threading.Thread] = []
    cancel, cancelled = highspy.Highs.cancelSolve, threading.Event()

    def interrupt(progress: Progress) -> None:
        """From another thread, as Ctrl-C comes: while this one waits for the solver."""
        if not senders and progress.stage.startswith("mip: nothing above"):  # the solver is at work
            senders.append(threading.Thread(target=_thread.interrupt_main))
            senders[0].start()

    def noted(highs: highspy.Highs) -> None:
        cancelled.set()
        cancel(highs)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(highspy.Highs, "cancelSolve", noted)
    result = bound(net, box, method="mip", time_limit=120.0, on_progress=interrupt)
    senders[0].join()
    assert cancelled.is_set()  # the solver did not go on to its limit
    assert result.status is Status.INTERRUPTED
    assert result.lower is not None
    assert not [t for t in threading.enumerate() if "_work" in t.name]  # nothing goes on in the background


def test_what_has_no_linear_form_is_refused() -> None:
    net, box, _ = random_case(0)
    with pytest.raises(MethodError, match="norm 2 is not linear"):
        check_mip(Problem.of(net, box, output=0, norm="2"))
    with pytest.raises(MethodError, match="needs a box"):
        bound(net, Everywhere(), output=0, method="mip")
    smooth = Network.from_weights([np.eye(2), np.ones((1, 2))], activation="tanh")
    with pytest.raises(MethodError, match="this network has tanh"):
        bound(smooth, Box(np.zeros(2), 1.0), method="mip")
    with pytest.raises(MethodError, match="no literal form"):
        bound(net, box, output=0, method="mip", literal=True)
