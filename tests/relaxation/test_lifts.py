"""The lifts: rows that hold at true points, bounds against enumeration, certificates, lies, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import lipcert
from lipcert import Activation, Affine, Box, Everywhere, Network
from lipcert.bounds.gains import gains
from lipcert.bounds.propagation import preactivation_bounds
from lipcert.budget import Budget
from lipcert.errors import MethodError
from lipcert.method.bracket import Bracket
from lipcert.method.solving import Task
from lipcert.method.tight import Tight
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof import prove_interval
from lipcert.proof.multipliers import prove
from lipcert.relaxation.reduction import gains_of
from lipcert.relaxation.specification import LIFTS, check_relaxation
from lipcert.rounding import Array
from lipcert.solver.rank_two import Options, solve_rank_two
from tests.constants import set_constant
from tests.enumeration import exact_constant
from tests.lift_tools import built, deep_net, objective, sampled, true_points, violations
from tests.strategies import SMOOTH, small_cases

Case = tuple[Network, Box, Array]
ANY = ("relu", "leaky_relu", *SMOOTH)


@settings(max_examples=30)
@given(small_cases(kinds=ANY), st.sampled_from(LIFTS))
def test_rows_hold_at_true_points(case: Case, name: str) -> None:
    """All rows of a lift at 2,000 points, every activation in any order."""
    net, box, c = case
    problem = Problem.of(net, box, c)
    relaxation = built(problem, name, wide=True)
    Y, value = true_points(relaxation, problem, 2000)
    assert violations(relaxation, Y) <= 1e-9
    assert np.all(objective(relaxation, Y) + relaxation.offset >= value - 1e-9 * (1 + np.abs(value)))


@settings(max_examples=18)
@given(small_cases(max_neurons=8), st.sampled_from(LIFTS))
def test_between_exact_and_interval(case: Case, name: str) -> None:
    """ReLU and leaky ReLU, depths 1 to 4; the lifts that name the gradient are never looser than intervals."""
    net, box, c = case
    relaxation = built(Problem.of(net, box, c), name)
    upper = prove(relaxation, solve_rank_two(relaxation.problem, Options()).y).upper
    assert exact_constant(net, box, c) <= upper * (1 + 1e-9) + 1e-12
    if not name.startswith("forward"):
        assert upper <= prove_interval(Problem.of(net, box, c)).upper * (1 + 1e-3) + 1e-9


@settings(max_examples=6)
@given(small_cases(kinds=SMOOTH), st.sampled_from(LIFTS))
def test_smooth_activations_are_above_every_sample(case: Case, name: str) -> None:
    net, box, c = case
    seen = np.abs(net.gradient(sampled(box, 600)[0], c)).sum(axis=1).max()
    relaxation = built(Problem.of(net, box, c), name)
    upper = prove(relaxation, solve_rank_two(relaxation.problem, Options()).y).upper
    assert seen <= upper * (1 + 1e-9) + 1e-12


@settings(max_examples=6)
@given(small_cases(), st.sampled_from(LIFTS))
def test_lies_never_prove_too_much(case: Case, name: str) -> None:
    net, box, c = case
    relaxation = built(Problem.of(net, box, c), name)
    exact = exact_constant(net, box, c)
    rng = np.random.default_rng(0)
    rows = relaxation.problem.rows
    honest = solve_rank_two(relaxation.problem, Options()).y
    for y in (
        np.zeros(rows),
        rng.normal(size=rows),
        np.full(rows, np.nan),
        -honest,
        honest * (1 + 0.01 * rng.normal(size=rows)),
        np.full(rows, np.inf),
    ):
        assert prove(relaxation, y).upper >= exact * (1 - 1e-9)


@pytest.mark.parametrize("region", [Box(np.zeros(5), 0.3), Everywhere()], ids=["box", "everywhere"])
@pytest.mark.parametrize("method", LIFTS)
def test_certificates_verify(method: str, region: Region, tmp_path: Path) -> None:
    f = Activation("leaky_relu", 0.1) if method.startswith("both") else "relu"
    net, c = deep_net(5, 5, 4, 2, activation=f), np.array([1.0, -1.0])
    task = Task.of(Problem.of(net, region, c), method)
    kept = task.prove(solve_rank_two(task.relaxation.problem, Options()).y)
    assert kept.method == method
    kept.save(tmp_path / "proof.npz")
    answer = lipcert.verify(tmp_path / "proof.npz", net)
    assert answer.proved
    assert answer.upper == pytest.approx(kept.upper, rel=1e-9)


@pytest.mark.parametrize("method", ["backward", "both-free"])
def test_bound_takes_the_name(method: str) -> None:
    result = lipcert.bound(deep_net(5, 6, 6, 2), Box(np.zeros(5), 0.3), output=(0, 1), method=method, work=1.0)
    assert result.method in (method, "interval")
    assert result.lower is not None
    assert result.lower <= result.upper


def test_tighter_than_intervals_on_a_deep_network() -> None:
    net, box = deep_net(6, 8, 8, 8, 1), Box(np.zeros(6), 0.1)
    result = lipcert.bound(net, box, method="tight", work=5.0)
    interval = prove_interval(Problem.of(net, box)).upper
    assert result.method in ("tight", "tree")
    assert result.upper < 0.9 * interval


def value(net: Network, region: Region, name: str) -> float:
    return solve_rank_two(built(Problem.of(net, region), name).problem, Options()).dual


def test_agrees_with_hr2_on_one_hidden_layer() -> None:
    """For one hidden layer all lifts are hr2, chords included."""
    net, box = deep_net(8, 10, 1, seed=3), Box(np.zeros(8), 0.4)
    known = solve_rank_two(built(Problem.of(net, box), "hr2").problem, Options()).dual
    for name in ("backward", "forward", "both"):
        assert value(net, box, name) == pytest.approx(known, rel=1e-4)


def test_what_is_named_more_is_never_looser() -> None:
    net, box = deep_net(4, 5, 5, 4, 1, seed=2), Box(np.zeros(4), 0.3)
    found = {name: value(net, box, name) for name in LIFTS}
    for kind in ("backward", "forward", "both"):
        assert found[kind] <= found[f"{kind}-free"] * (1 + 1e-4)
    for end in ("", "-free"):
        assert found[f"both{end}"] <= min(found[f"backward{end}"], found[f"forward{end}"]) * (1 + 1e-4)


def test_leaky_of_slope_zero_and_one_are_relu_and_affine() -> None:
    relu, box = deep_net(5, 6, 6, 1, seed=1), Box(np.zeros(5), 0.5)
    nearly = Network(relu.affines, (Activation("leaky_relu", 1e-9),) * 2)
    assert value(nearly, box, "both") == pytest.approx(value(relu, box, "both"), rel=1e-3)
    linear = Network(relu.affines, (Activation("leaky_relu", 1 - 1e-9),) * 2)
    gradient = np.abs(linear.gradient(np.zeros((1, 5)), np.ones(1))).sum()
    assert value(linear, box, "both") == pytest.approx(gradient, rel=1e-3)


def test_a_leaky_slope_above_one() -> None:
    net, box = deep_net(4, 4, 4, 1, activation=Activation("leaky_relu", 2.5)), Box(np.zeros(4), 1.0)
    assert value(net, box, "both") >= exact_constant(net, box, np.ones(1)) * (1 - 1e-6)


def test_sparse_weights_stay_sparse() -> None:
    """A banded network of width 400: forms keep the band, and pruned neurons leave."""
    rng = np.random.default_rng(0)
    bands = [
        sparse.csr_array(sparse.diags_array([rng.normal(size=400 - k) for k in (0, 1)], offsets=[0, 1]))
        for _ in range(2)
    ]
    head = np.zeros((1, 400))
    head[0, :5] = 1.0
    net = Network((*(Affine(b, np.zeros(400)) for b in bands), Affine(head, np.zeros(1))), (Activation("relu"),) * 2)
    relaxation = built(Problem.of(net, Box(np.zeros(400), 1.0)), "both")
    assert len(relaxation.blocks["v2"][0]) == 5
    assert len(relaxation.blocks["v1"][0]) == 6
    assert relaxation.problem.vectors.nnz < 3000


def test_refusals() -> None:
    with pytest.raises(MethodError, match="hidden layer"):
        check_relaxation(Problem.of(deep_net(2, 1), Everywhere()), "backward")
    with pytest.raises(MethodError, match="hidden layer"):
        lipcert.bound(deep_net(2, 1), Box(np.zeros(2), 0.1), method="both")


def test_a_network_that_is_too_large_is_bounded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constant(monkeypatch, "LARGEST_ORDER", 25)
    net, box = deep_net(8, 10, 10, 1), Box(np.zeros(8), 0.1)
    problem, bracket = Problem.of(net, box), Bracket()
    gains_of.keep(problem, gains(net, preactivation_bounds(net, box)))
    Tight(slopes=False, parts=True).run(problem, bracket, Budget.of_work(2.0))
    assert bracket.upper < prove_interval(problem).upper


def test_dead_ends_cost_nothing() -> None:
    """Neurons without output, without input, and a constant zero: pruned, and the bound is that of the rest."""
    A = np.array([[1.0, -1.0], [0.5, 2.0], [0.0, 0.0], [1.0, 1.0]])
    B = np.array([[1.0, 1.0, 3.0, 0.0], [-1.0, 2.0, 1.0, 0.0]])
    full = Network.from_weights([A, B, np.ones((1, 2))], [np.array([0.1, 0.2, 0.0, 0.3]), np.zeros(2), np.zeros(1)])
    rest = Network.from_weights([A[:2], B[:, :2], np.ones((1, 2))], [np.array([0.1, 0.2]), np.zeros(2), np.zeros(1)])
    box = Box(np.zeros(2), 1.0)
    for name in ("forward", "both-free"):
        assert value(full, box, name) == pytest.approx(value(rest, box, name), rel=1e-5), name
    assert built(Problem.of(full, box), "backward").blocks["v1"][0].tolist() == [0, 1]
