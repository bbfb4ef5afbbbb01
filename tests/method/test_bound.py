"""bound(): the verb, its result, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

import lipcert
from lipcert import Activation, Box, Everywhere, Network, Progress, Status
from lipcert.errors import InputError, MethodError, SoundnessError
from lipcert.method.literal import LITERAL
from lipcert.method.result import NetworkSummary, Result
from lipcert.polynomial.lcep.methods import LITERAL_METHODS, LiteralInfo
from lipcert.problem.norms import INF
from lipcert.problem.output import choose_output
from lipcert.problem.problem import Problem
from lipcert.proof import Arithmetic, Certificate
from lipcert.relaxation.rank_two import RankTwoProblem
from lipcert.rounding import Array
from lipcert.solver import Progress as Iteration
from lipcert.solver import Status as SolverStatus
from lipcert.solver.result import Callback, RankTwoResult
from lipcert.witness import Witness, evaluate
from tests.constants import set_constant
from tests.problems import AFFINE, SMALL, TINY, net_of


def test_bracket_and_json() -> None:
    net = net_of(6, 8, 3)
    result = lipcert.bound(net, Box(np.zeros(6), 0.3), output=(0, 2), work=2.0)
    assert result.lower is not None
    assert 0 < result.lower <= result.upper
    assert result.witness is not None
    assert result.region.contains(result.witness)
    assert result.lower == evaluate(Problem.of(net, result.region, result.output), result.witness)
    assert result.gap == pytest.approx((result.upper - result.lower) / result.lower)
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert {"upper", "lower", "method", "status", "certified", "seconds", "norm", "region", "output", "network"} <= set(
        data
    )
    assert data["network"] == {"sha256": net.sha256, "shape": [6, 8, 3]}
    assert data["certified"] is True
    assert data["output"] == {"versus": [0, 2]}


@pytest.mark.parametrize("kind", ["relu", "leaky_relu", "elu", "softplus", "sigmoid", "tanh"])
@pytest.mark.parametrize("region", [Box(np.zeros(5), 0.5), Everywhere()], ids=["box", "everywhere"])
def test_every_method_on_every_activation(kind: str, region: Box | Everywhere) -> None:
    net = net_of(5, 7, 6, 1)
    net = Network(net.affines, (Activation(kind, 0.2), Activation(kind, 0.2)))
    results = {m: lipcert.bound(net, region, method=m, work=0.5) for m in ("auto", "product", "interval")}
    assert results["auto"].upper <= results["interval"].upper <= results["product"].upper
    assert all(r.lower is not None and 0 < r.lower <= r.upper for r in results.values())


def test_affine_network_is_exact() -> None:
    result = lipcert.bound(AFFINE.network, AFFINE.region, output=1, work=1.0)
    assert result.lower == pytest.approx(AFFINE.value, rel=1e-14)
    assert result.upper == pytest.approx(AFFINE.value, rel=1e-14)
    assert result.gap is not None
    assert result.gap < 1e-13


def test_zero_function_has_zero_bounds_and_no_gap() -> None:
    result = lipcert.bound(net_of(3, 4, 2), Box(np.zeros(3), 1.0), output=[0.0, 0.0], work=1.0)
    assert result.lower == 0.0
    assert result.upper < 1e-290
    assert json.dumps(result.to_dict(), allow_nan=False)


def test_no_lower_and_determinism() -> None:
    net, box = SMALL.pair
    without = lipcert.bound(net, box, work=1.0, lower=False)
    assert without.lower is None
    assert without.gap is None
    assert without.witness is None
    first, second = (lipcert.bound(net, box, seed=3, work=2.0) for _ in range(2))
    assert first.lower == second.lower


def test_progress_reports_a_shrinking_bracket() -> None:
    seen: list[Progress] = []
    lipcert.bound(*SMALL.pair, on_progress=seen.append, work=2.0)
    uppers = [p.upper for p in seen]
    lowers = [p.lower for p in seen if p.lower is not None]
    assert uppers == sorted(uppers, reverse=True)
    assert lowers == sorted(lowers)
    assert lowers


def test_interrupt_returns_the_bracket_so_far() -> None:
    def stop(progress: Progress) -> None:
        if progress.lower is not None:
            raise KeyboardInterrupt

    result = lipcert.bound(*SMALL.pair, on_progress=stop, work=5.0)
    assert result.status is Status.INTERRUPTED
    assert result.lower is not None
    assert result.lower <= SMALL.value <= result.upper


def test_interrupt_before_anything_is_proved_propagates() -> None:
    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lipcert.bound(*SMALL.pair, method="interval", on_progress=stop, work=5.0)


def test_overflowing_network_is_reported_as_not_certified() -> None:
    net = Network.from_weights([np.full((2, 2), 1e300), np.full((2, 2), 1e300), np.full((1, 2), 1e300)])
    result = lipcert.bound(net, Box([1.0, 1.0], 0.5), work=1.0, lower=False)
    assert not result.certified
    assert result.to_dict()["upper"] is None


def test_a_gradient_norm_beyond_the_floats_is_finite_in_json() -> None:
    net = Network.from_weights([np.full((1, 30), 1.7e308), np.ones((1, 1))], [np.full(1, 1e300), np.zeros(1)])
    result = lipcert.bound(net, Box(np.zeros(30), 0.0), work=1.0)
    assert not result.certified
    assert result.lower is not None
    assert 1e308 < result.lower < np.inf
    assert json.dumps(result.to_dict(), allow_nan=False)
    assert not lipcert.verify(result.certificate, net).proved


@pytest.mark.parametrize("scale", [1e-200, 1e200, 1e300])
def test_extreme_weights_stay_silent(scale: float) -> None:
    """Warnings are errors here: a solver that overflows is a bad hint, not a message and not a crash."""
    net = net_of(4, 3, 1)
    net = Network.from_weights([net.affines[0].weight * scale, net.affines[1].weight], [np.zeros(3), np.zeros(1)])
    for method in ("shor", "hr2"):
        result = lipcert.bound(net, Box(np.ones(4), 1.0), method=method, work=1.0)
        assert result.lower is not None
        assert 0 < result.lower <= result.upper < 10 * scale


LIES: dict[str, Callable[[int], Array]] = {
    "zeros": np.zeros,
    "nan": lambda m: np.full(m, np.nan),
    "infinite": lambda m: np.full(m, np.inf),
    "wrong signs": lambda m: -np.ones(m),
    "wrong length": lambda m: np.ones(m + 1),
    "noise": lambda m: np.random.default_rng(0).normal(size=m),
    "huge": lambda m: np.full(m, 1e300),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_solver_loosens_the_bracket_and_never_breaks_it(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through `bound`: the multipliers of every iteration and of the end are lies; the solver claims a bound of 0."""
    net, box = SMALL.pair
    honest = lipcert.bound(net, box, method="hr2", work=1.0)
    cheap = lipcert.bound(net, box, method="interval", work=1.0, lower=False)

    def choose(_: str, problem: RankTwoProblem, __: object) -> Callable[[Callback], RankTwoResult]:
        y = LIES[lie](problem.rows)

        def run(callback: Callback) -> RankTwoResult:
            callback(Iteration(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, y))
            return RankTwoResult(y, None, 0.0, 0.0, 0.0, SolverStatus.OPTIMAL, 1, 0.0, ())

        return run

    monkeypatch.setattr("lipcert.method.solving.choose_solver", choose)
    result = lipcert.bound(net, box, method="hr2", work=1.0)
    assert honest.lower is not None
    assert honest.lower <= SMALL.value * (1 + 1e-12)
    assert SMALL.value * (1 - 1e-12) <= honest.upper <= result.upper <= cheap.upper
    assert lipcert.verify(result.certificate, net).proved


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("singular"), RuntimeError("no convergence"), MemoryError()])
def test_a_failing_solver_leaves_the_bracket(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("lipcert.method.solving.choose_solver", fail)
    result = lipcert.bound(*SMALL.pair, method="hr2", work=1.0)
    assert result.method == "linear"
    assert result.certified
    said = "the solver ended early, out of memory" if isinstance(error, MemoryError) else "the solver failed"
    assert said in result.notes[0]


def test_a_proof_that_does_not_fit_the_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constant(monkeypatch, "PROOF_OPERATIONS", 1e15)
    result = lipcert.bound(*SMALL.pair, method="hr2", time_limit=5, lower=False)
    assert result.status is Status.TIME_LIMIT
    assert result.method == "linear"
    assert "hr2 left out" in result.notes[0]


def test_contradiction_is_an_error_never_clipped() -> None:
    net, box, output = *SMALL.pair, choose_output(0, 1)
    with pytest.raises(SoundnessError, match="bug"):
        Result(
            Certificate.of(Problem.of(net, box), Arithmetic("interval"), 1.0),
            Witness(np.zeros(6), 2.0, "sampling"),
            Status.DONE,
            0.0,
            box,
            INF,
            output,
            NetworkSummary(net),
        )


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"method": "magic"}, MethodError, "auto, product, interval"),
        ({"norm": "7"}, MethodError, "norm 7"),
        ({"time_limit": 0}, InputError, "time_limit"),
        ({"time_limit": float("nan")}, InputError, "time_limit"),
        ({"seed": -1}, InputError, "seed"),
        ({"seed": 0.5}, InputError, "seed"),
        ({"output": 5}, InputError, "out of range"),
        ({"output": None}, InputError, "2 outputs"),
    ],
)
def test_refused(arguments: dict[str, object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        lipcert.bound(net_of(3, 4, 2), Box(np.zeros(3), 1.0), **{"output": 0, **arguments})  # type: ignore[arg-type]


def test_dimension_mismatch() -> None:
    with pytest.raises(InputError, match="the center has 4 coordinates, the network has 3 inputs"):
        lipcert.bound(net_of(3, 4, 1), Box(np.zeros(4), 1.0))


def test_literal_methods_by_name_and_by_flag() -> None:
    net, box = TINY.pair
    fast = lipcert.bound(net, box, method="hr2", work=5.0, lower=False).upper
    literal = lipcert.bound(net, box, method="hr2", literal=True, work=5.0, lower=False)
    assert literal.method == "hr2-literal"
    assert literal.upper == pytest.approx(fast, rel=1e-3)
    linear = lipcert.bound(net, box, method="lipopt3", work=5.0)
    assert linear.method == "lipopt3-literal"
    assert linear.lower is not None
    assert linear.lower <= linear.upper
    assert any(n.startswith("highs") for n in linear.notes)
    with pytest.raises(MethodError, match="no literal form"):
        lipcert.bound(net, box, method="tight", literal=True)
    with pytest.raises(MethodError, match="clarabel"):
        lipcert.bound(net, box, method="lipopt3", solver="rank-two")
    with pytest.raises(MethodError, match="low-rank"):
        lipcert.bound(net, box, method="hr2", solver="clarabel")


def test_a_literal_method_that_proves_nothing_keeps_the_cheap_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = (np.inf, LiteralInfo("hr1", "stalled", "x", 0.0))
    monkeypatch.setattr("lipcert.polynomial.lcep.methods.literal_bound", lambda *_, **__: nothing)
    result = lipcert.bound(*TINY.pair, method="hr1", work=1.0, lower=False)
    assert result.method == "linear"
    assert any("proved nothing" in n for n in result.notes)


def test_names_of_literal_methods_agree() -> None:
    assert tuple(method.name for method in LITERAL) == LITERAL_METHODS
