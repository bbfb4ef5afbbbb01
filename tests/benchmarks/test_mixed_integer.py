"""The mixed-integer program of `benchmarks`: its optimum is the enumerated constant, and its rows hold."""

from __future__ import annotations

import _thread
import itertools
import threading
from dataclasses import replace

import highspy
import numpy as np
import pytest
from benchmarks._highs import Event, solve_mixed_integer
from benchmarks._mixed_integer_program import check_linear, formulate

from lipcert import Activation, Box, Everywhere, MethodError, Network, bound
from lipcert.budget import Budget
from lipcert.paper.entries import paper_network, paper_region
from lipcert.problem.norms import INF, Norm
from lipcert.problem.problem import Problem
from lipcert.rounding import Array
from lipcert.solver import ConicStatus
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


def test_at_a_kink_the_optimum_may_exceed_the_constant() -> None:
    """LCEP allows both slopes at 0, its optimum is 1."""
    program = formulate(Problem.of(*CANCELLED.pair)).problem
    assert solve_mixed_integer(program, Budget.of_work(2.0)).value == pytest.approx(1.0)
    assert bound(*CANCELLED.pair, work=2.0).upper >= CANCELLED.value


def test_small_cases() -> None:
    for known in (DEAD, AT_A_POINT, replace(AFFINE, region=Box(np.zeros(2), 1.0))):
        found = solve_mixed_integer(formulate(Problem.of(*known.pair, known.c)).problem, Budget.of_work(60.0))
        assert [found.value, found.bound] == pytest.approx([known.value, known.value])
    huge = Network.from_weights([np.full((2, 2), 1e300)] * 2 + [np.ones((1, 2))])
    with pytest.raises(MethodError, match="not finite"):
        formulate(Problem.of(huge, Box(np.zeros(2), 1.0)))


def test_a_start_is_the_first_solution() -> None:
    """With nothing but the time to read it, the solver has the value of the point that it was given."""
    net, box, c = random_case(8)
    formulation = formulate(Problem.of(net, box, c))
    start = formulation.assignment(box.center[None, :])[0]
    found = solve_mixed_integer(formulation.problem, Budget.unlimited(), start=start)
    assert found.value >= start @ formulation.problem.cost - 1e-9


def test_the_time_limit_is_kept() -> None:
    """An optimum would take hours."""
    program = formulate(Problem.of(paper_network(80, 80, 0), paper_region(80, 0, "global"))).problem
    found = solve_mixed_integer(program, Budget.of_seconds(1.0))
    assert found.status is ConicStatus.TIME_LIMIT
    assert found.value < found.bound


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = formulate(Problem.of(paper_network(80, 80, 0), paper_region(80, 0, "global"))).problem
    senders: list[threading.Thread] = []
    cancel, cancelled = highspy.Highs.cancelSolve, threading.Event()

    def interrupt(event: Event) -> None:
        """From another thread, as Ctrl-C comes: while this one waits for the solver."""
        if not senders and np.isfinite(event.bound):  # the solver is at work
            senders.append(threading.Thread(target=_thread.interrupt_main))
            senders[0].start()

    def noted(highs: highspy.Highs) -> None:
        cancelled.set()
        cancel(highs)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(highspy.Highs, "cancelSolve", noted)
    found = solve_mixed_integer(program, Budget.of_seconds(120.0), on_event=interrupt)
    senders[0].join()
    assert cancelled.is_set()  # the solver did not go on to its limit
    assert found.status is ConicStatus.INTERRUPTED
    assert np.isfinite(found.bound)
    assert not [t for t in threading.enumerate() if "_work" in t.name]  # nothing goes on in the background


def test_what_has_no_linear_form_is_refused() -> None:
    net, box, _ = random_case(0)
    with pytest.raises(MethodError, match="norm 2 is not linear"):
        check_linear(Problem.of(net, box, output=0, norm="2"))
    with pytest.raises(MethodError, match="needs a box"):
        formulate(Problem.of(net, Everywhere(), output=0))
    smooth = Network.from_weights([np.eye(2), np.ones((1, 2))], activation="tanh")
    with pytest.raises(MethodError, match="this network has tanh"):
        formulate(Problem.of(smooth, Box(np.zeros(2), 1.0)))
    with pytest.raises(MethodError, match="for one output"):
        check_linear(Problem.of(net, box, output="all"))


def test_the_method_is_no_longer_in_the_product() -> None:
    """The key of its optimum stays in the JSON of a bound, for programs that read it."""
    net, box, c = random_case(1)
    with pytest.raises(MethodError, match=r"unknown method 'mip' .*benchmarks/mixed_integer\.py"):
        bound(net, box, output=c, method="mip")
    assert bound(net, box, output=c, method="linear", lower=False).to_dict()["claim"] is None
