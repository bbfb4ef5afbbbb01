"""The backward lift: rows that hold at true points, bounds against enumeration, certificates, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import lipcert
from lipcert import Activation, Box, Everywhere, Network
from lipcert.certificate import prove_interval
from lipcert.certificate.multipliers import prove
from lipcert.certificate.relaxed import build, prove_relaxed
from lipcert.errors import MethodError
from lipcert.norms import INF, Norm
from lipcert.propagation import gradient_bounds, preactivation_bounds
from lipcert.quadratic.backward import backward, check_applies
from lipcert.quadratic.model import Relaxation
from lipcert.region import Region
from lipcert.rounding import Array
from lipcert.solvers.rank_two import Options, solve_rank_two
from tests.enumeration import exact_constant
from tests.strategies import small_cases

Case = tuple[Network, Box, Array]


def deep_net(*sizes: int, seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in zip(sizes, sizes[1:], strict=False)]  # noqa: RUF007
    return Network.from_weights(weights, [rng.normal(size=len(w)) / 3 for w in weights])


def true_points(relaxation: Relaxation, net: Network, box: Box, c: Array, count: int) -> tuple[Array, Array]:
    """y at points of the box with random t, by the definitions of the variables; and t'gradient there."""
    rng = np.random.default_rng(count)
    x = rng.uniform(box.lo, box.hi, size=(count, box.size))
    x[::3] = np.where(rng.uniform(size=x[::3].shape) < 0.5, box.lo, box.hi)
    t = np.where(rng.uniform(size=x.shape) < 0.5, -1.0, 1.0)
    zs = net.preactivations(x)
    blocks: dict[str, Array] = {"one": np.ones((count, 1)), "t": t}
    middle = box.lo / 2 + box.hi / 2
    radius = (box.hi - box.lo) / 2
    blocks["w"] = (x - middle) / np.where(radius > 0, radius, 1.0)
    pre = preactivation_bounds(net, box)
    bounds = gradient_bounds(net, pre, c)
    g = np.broadcast_to(c @ np.asarray(net.affines[-1].weight), (count, net.affines[-1].inputs))
    for i in range(net.depth, 0, -1):
        z, u = zs[i - 1], (zs[i - 1] > 0).astype(float)
        s = u * g
        lo, hi = np.minimum(bounds[i].lo, 0.0), np.maximum(bounds[i].hi, 0.0)
        blocks[f"v{i}"] = 2 * u - 1
        blocks[f"x{i}"] = 2 * np.maximum(z, 0.0) / np.where(pre[i - 1].hi > 0, pre[i - 1].hi, 1.0) - 1
        blocks[f"s{i}"] = (s - (lo + hi) / 2) / np.where(hi > lo, (hi - lo) / 2, 1.0)
        g = s @ np.asarray(net.affines[i - 1].weight)
    Y = np.array([relaxation.gather({k: v[n] for k, v in blocks.items()}) for n in range(count)])
    return Y, np.einsum("ki,ki->k", t, g)


@settings(max_examples=60)
@given(small_cases(kinds=("relu",)))
def test_rows_hold_at_true_points(case: Case) -> None:
    net, box, c = case
    relaxation = backward(net, box, c)
    Y, value = true_points(relaxation, net, box, c, 500)
    problem = relaxation.problem
    forms = np.asarray((problem.vectors.T @ Y.T).T)
    rows = forms[:, problem.ia] * forms[:, problem.ib] - problem.rhs
    assert np.all(np.abs(rows[:, problem.equality]) <= 1e-9 + relaxation.tolerance[problem.equality])
    assert np.all(rows[:, ~problem.equality] <= 1e-9)
    assert np.all(problem.diagonal + 1e-9 >= Y**2)
    reached = np.einsum("ki,ki->k", Y, np.asarray((problem.objective @ Y.T).T)) + relaxation.offset
    assert np.all(reached >= value - 1e-9 * (1 + np.abs(value)))


@settings(max_examples=100)
@given(small_cases(kinds=("relu",)))
def test_between_exact_and_interval(case: Case) -> None:
    net, box, c = case
    relaxation = backward(net, box, c)
    upper = prove(relaxation, solve_rank_two(relaxation.problem, Options()).y).upper
    exact, interval = exact_constant(net, box, c), prove_interval(net, box, INF, c).upper
    assert exact <= upper * (1 + 1e-9) + 1e-12
    assert upper <= interval * (1 + 1e-3) + 1e-9


@settings(max_examples=40)
@given(small_cases(kinds=("relu",)))
def test_lies_never_prove_too_much(case: Case) -> None:
    net, box, c = case
    relaxation = backward(net, box, c)
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
def test_certificates_verify(region: Region, tmp_path: Path) -> None:
    net = deep_net(5, 6, 6, 4, 2)
    result = lipcert.bound(net, region, output=(0, 1), method="backward", time_limit=30)
    assert result.method in ("backward", "interval")
    assert result.lower is not None
    assert result.lower <= result.upper
    relaxation = build(net, region, INF, result.output.c, "backward")
    kept = prove_relaxed(net, region, INF, result.output.c, relaxation, solve_rank_two(relaxation.problem, Options()).y)
    kept.save(tmp_path / "proof.npz")
    answer = lipcert.verify(tmp_path / "proof.npz", net)
    assert answer.proved
    assert answer.upper == pytest.approx(kept.upper, rel=1e-9)


def test_tighter_than_intervals_on_a_deep_network() -> None:
    net, box = deep_net(8, 10, 10, 10, 1), Box(np.zeros(8), 0.1)
    result = lipcert.bound(net, box, time_limit=30)
    interval = prove_interval(net, box, INF, np.ones(1)).upper
    assert result.method == "tight"
    assert result.upper < 0.9 * interval


def test_agrees_with_hr2_on_one_hidden_layer() -> None:
    """For one hidden layer the lift has the rows of hr2 without chords."""
    net, box = deep_net(8, 10, 1, seed=3), Box(np.zeros(8), 0.4)
    values = [
        solve_rank_two(build(net, box, INF, np.ones(1), m, chords=False).problem, Options()).dual
        for m in ("backward", "hr2")
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_refusals() -> None:
    with pytest.raises(MethodError, match="infinity norm"):
        check_applies(deep_net(2, 2, 1), Norm("2"))
    with pytest.raises(MethodError, match="hidden layer"):
        check_applies(deep_net(2, 1), INF)
    tanh = Network(deep_net(2, 2, 1).affines, (Activation("tanh"),))
    with pytest.raises(MethodError, match="tanh"):
        check_applies(tanh, INF)


def test_a_network_that_is_too_large_is_bounded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lipcert.planning.LARGEST", 25)
    net, box = deep_net(8, 10, 10, 1), Box(np.zeros(8), 0.1)
    result = lipcert.bound(net, box, lower=False)
    assert result.upper < prove_interval(net, box, INF, np.ones(1)).upper
    assert any("order" in note for note in result.notes)
