"""Limits are kept by every loop: work that a test counts moves its clock, and what is stopped claims nothing."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import lipcert
from lipcert import Box, Everywhere, Network, Status, bound, verify
from lipcert.budget import Budget
from lipcert.cli.app import run
from lipcert.method.bracket import Bracket
from lipcert.method.cheap import last_resort
from lipcert.method.lower import look
from lipcert.problem import sliding
from lipcert.problem.activations import IDENTITY, RELU
from lipcert.problem.blocks import Affine, Block, handed_over
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import prove_mixed, prove_product
from lipcert.solver.conic.clarabel_backend import _Clock
from lipcert.steps import Expired, step
from lipcert.witness.witness import Witness
from tests.counting import Clock
from tests.problems import net_of

statement_module: Any = import_module("lipcert.problem.question")
gains_module: Any = import_module("lipcert.bounds.gains")  # the room has a function of that name
jacobian_rows = gains_module.jacobian_rows
DEPTH = 10
LAST_RESORT = 4 * DEPTH  # tiles of the sums over all weights, where nothing else was proved in time


def chain_of_convolutions(depth: int = DEPTH, channels: int = 3, size: int = 6) -> Network:
    """Convolutions that are kept as kernels: each product with one of them is a tile of work."""
    rng = np.random.default_rng(7)
    window = Window((3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    blocks = []
    for i in range(depth):
        inputs = 1 if i == 0 else channels
        kernel = rng.standard_normal((channels, inputs, 3, 3)) / np.sqrt(9 * inputs)
        blocks.append(Block(((i, Convolution(kernel, (size, size), window, 1)),), np.zeros(channels * size**2), RELU))
    last = rng.standard_normal((4, channels * size**2)) / 10
    return Network.from_blocks([*blocks, Block(((depth, last),), np.zeros(4), IDENTITY)])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of day, which stands still unless the test moves it."""
    found = Clock()
    monkeypatch.setattr("time.monotonic", found.monotonic)
    return found


@pytest.fixture
def worked(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock on which every tile of a convolution takes a second, and every look at the clock a little."""
    clock.per_look = 0.02

    def stepped() -> None:
        step()
        clock.now += 1.0

    monkeypatch.setattr(sliding, "working", SimpleNamespace(step=stepped))
    return clock


# --- one way to ask ---------------------------------------------------------------------------------------------------


def test_nobody_who_enforces_nothing_is_stopped(clock: Clock) -> None:
    budget = Budget.of_seconds(1.0)
    clock.now += 5.0
    assert budget.over()
    step()


def test_an_enforced_budget_ends_what_asks(clock: Clock) -> None:
    budget = Budget.of_seconds(10.0)
    with budget.enforced(grace=2.0):
        clock.now = 11.0
        step()
        clock.now = 12.0
        with pytest.raises(Expired):
            step()
    step()


def test_the_budget_around_one_still_holds(clock: Clock) -> None:
    budget = Budget.of_seconds(10.0)
    with budget.upto(1.0).enforced(), budget.enforced():
        clock.now = 1.0
        with pytest.raises(Expired):
            step()


def test_work_that_would_not_end_in_time_is_not_begun(clock: Clock) -> None:
    budget = Budget.of_seconds(1.0)
    assert clock.now == 0.0
    with budget.enforced():
        step(budget.affordable(0.5))
        with pytest.raises(Expired):
            step(budget.affordable(2.0))


def test_counted_work_is_not_cut() -> None:
    budget = Budget.of_work(1.0)
    with budget.enforced():
        budget.add(5.0)
        step()


def test_no_survivor_of_failures_survives_it() -> None:
    assert not issubclass(Expired, Exception)


# --- every network, every method --------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [150.0, 400.0])
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("product", {"output": 0}),
        ("interval", {"output": 0}),
        ("linear", {"output": 0}),
        ("mixed", {"output": "all", "norm": "2"}),
        ("auto", {"output": 0}),
        ("auto", {"output": "all", "norm": "2"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("region", [Box(np.full(36, 0.5), 0.4), Everywhere()], ids=["box", "everywhere"])
def test_the_limit_is_kept(method: str, options: Any, limit: float, region: Any, worked: Clock) -> None:
    """A pass through the network takes ten seconds here, and the forms of all neurons take hours."""
    result = bound(chain_of_convolutions(), region, method=method, time_limit=limit, **options)
    assert worked.now <= 1.1 * limit + 1.0 + LAST_RESORT
    assert result.certified


@pytest.mark.parametrize("method", ["interval", "linear", "auto"])
def test_some_bound_is_proved_where_there_is_no_time_at_all(method: str, worked: Clock) -> None:
    net, region = chain_of_convolutions(), Box(np.full(36, 0.5), 0.4)
    result = bound(net, region, output=0, method=method, time_limit=1.0)
    assert result.certified
    assert result.status is Status.TIME_LIMIT
    assert worked.now <= 5.0 + 2 * LAST_RESORT
    assert verify(result.certificate, net).proved


def test_plain_intervals_come_before_forms_that_take_long(worked: Clock) -> None:
    net, region = chain_of_convolutions(), Box(np.full(36, 0.5), 0.4)
    result = bound(net, region, output=0, method="interval", time_limit=120.0, lower=False)
    assert result.method == "interval"
    assert worked.now <= 133.0
    worked.now = 0.0
    assert verify(result.certificate, net).proved


def test_norms_stand_in_for_rows_that_take_too_long(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of Jacobians are expected to be quick here, and are not."""
    net, region = net_of(6, 9, 8, 7, 1), Box(np.zeros(6), 0.5)

    def slow(*arguments: Any) -> Any:
        clock.now += 100.0
        step()
        return jacobian_rows(*arguments)

    monkeypatch.setattr(gains_module, "jacobian_rows", slow)
    result = bound(net, region, method="mixed", time_limit=250.0, lower=False)
    assert clock.now <= 1.1 * 250.0 + 1.0
    assert math.isfinite(prove_mixed(Problem.of(net, region)).upper)
    assert result.certified


def test_a_search_that_is_cut_keeps_what_it_found(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.of(net_of(3, 4, 1), Box(np.zeros(3), 1.0))

    def endless(_: Problem, __: Budget, *, on_witness: Any, **___: Any) -> Witness:
        on_witness(Witness(np.zeros(3), 0.25, "center"))
        while True:
            clock.now += 1.0
            step()

    monkeypatch.setattr("lipcert.method.lower.search", endless)
    bracket, budget = Bracket(), Budget.of_seconds(100.0)
    look(problem, bracket, budget, 2.0)
    assert bracket.lower == 0.25
    assert clock.now <= 70.0
    before = clock.now
    look(problem, bracket, budget, 2.0)  # with a witness in hand sooner
    assert clock.now - before <= 15.0


# --- what a call need not compute -------------------------------------------------------------------------------------


def test_the_hash_waits_until_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a ResNet-18 it takes longer than the bound."""
    net, hashes = net_of(3, 4, 1), list[Network]()
    true = net.sha256
    del net.__dict__["sha256"]

    def noted(own: Network) -> str:
        hashes.append(own)
        return true

    monkeypatch.setattr(Network, "sha256", property(noted))
    monkeypatch.setattr(statement_module, "_LARGE", 0)
    result = bound(net, Box(np.zeros(3), 1.0), time_limit=5.0)
    assert str(result)
    assert not hashes
    assert result.network["sha256"] == result.certificate.network_sha256 == true
    assert result.to_dict()["network"] == {"sha256": true, "shape": [3, 4, 1]}
    assert hashes


def test_json_in_time_without_the_hash(clock: Clock) -> None:
    result = bound(chain_of_convolutions(2), Everywhere(), output=0, method="product", time_limit=5.0, lower=False)
    budget = Budget.of_seconds(1.0)
    clock.now += 2.0
    with budget.enforced():
        assert result.to_dict()["network"]["sha256"] is None
    assert result.to_dict()["network"]["sha256"] is not None


def test_reading_counts(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net_of(2, 3, 1).save(tmp_path / "net.npz")
    given: list[float] = []

    def slow(*arguments: Any, **options: Any) -> Network:
        clock.now += 7.0
        return lipcert.load(*arguments, **options)

    def noted(*arguments: Any, **options: Any) -> lipcert.Result:
        given.append(options["time_limit"])
        return bound(*arguments, **options)

    monkeypatch.setattr("lipcert.cli.options.load", slow)
    monkeypatch.setattr("lipcert.cli.bound.bound", noted)
    for limit in ("10", "5"):
        assert run(["bound", str(tmp_path / "net.npz"), "--radius", "1", "--time-limit", limit]) == 0
    assert given == [3.0, 0.1]


# --- the last resort --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"output": 0, "norm": "2"}, {"output": "all", "norm": "2"}, {"output": 1}])
def test_the_last_resort_is_a_product_that_a_checker_accepts(options: Any) -> None:
    problem, bracket = Problem.of(net_of(4, 6, 5, 3), Box(np.zeros(4), 1.0), **options), Bracket()
    last_resort(problem, bracket)
    assert bracket.certificate is not None
    assert bracket.upper >= prove_product(problem).upper
    assert verify(bracket.certificate, problem.network).proved


def test_numbers_that_overflow_on_the_way_have_a_bound_still() -> None:
    """Intervals of the first layer overflow; the product of the norms is about 1.2e10."""
    weights = [np.full((3, 2), 1e155), np.full((3, 3), 1e155), np.full((1, 3), 1e-300)]
    net = Network.from_weights(weights, [np.zeros(3), np.zeros(3), np.zeros(1)])
    result = bound(net, Box(np.zeros(2), 1.0), method="linear", time_limit=5.0, lower=False)
    assert 1e10 < result.upper < 1e12
    assert verify(result.certificate, net).proved


def test_an_infinite_bound_is_not_done() -> None:
    net = Network.from_weights([np.full((3, 2), 1e155), np.full((1, 3), 1e155)], [np.zeros(3), np.zeros(1)])
    result = bound(net, Box(np.zeros(2), 1.0), method="linear", time_limit=5.0, lower=False)
    assert not result.certified
    assert result.status is not Status.DONE


# --- memory -----------------------------------------------------------------------------------------------------------


def test_a_reader_hands_its_matrices_over_without_a_copy() -> None:
    made = sparse.csr_array(sparse.random_array((200, 100), density=0.05, rng=np.random.default_rng(0)))
    assert handed_over(made) is made
    assert Affine(made, np.zeros(200)).weight is made
    assert not made.data.flags.writeable
    dense = np.eye(3)
    assert Affine(handed_over(dense), np.zeros(3)).weight is dense


def test_memory_of_others_is_copied() -> None:
    theirs = np.frombuffer(bytearray(np.eye(3).tobytes())).reshape(3, 3)
    kept = Affine(handed_over(theirs), np.zeros(3)).weight
    theirs[0, 0] = 7.0
    assert kept[0, 0] == 1.0


def test_rows_of_many_outputs_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows at once of an image of 12,288 outputs behind 65,536 neurons would take 6 GB."""
    net, region = net_of(3, 20, 50, seed=2), Box(np.zeros(3), 0.5)
    whole = bound(net, region, output="all", method="interval", time_limit=5.0, lower=False)
    seen: list[int] = []

    def noted(*arguments: Any) -> Any:
        found = jacobian_rows(*arguments)
        seen.append(len(found))
        return found

    monkeypatch.setattr(gains_module, "jacobian_rows", noted)
    monkeypatch.setattr(gains_module, "_BLOCK", 200)
    blocks = bound(net, region, output="all", method="interval", time_limit=5.0, lower=False)
    assert sum(seen) == 50
    assert max(seen) <= 4
    assert blocks.upper == pytest.approx(whole.upper, rel=1e-12)


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
def test_magnitudes_of_large_arrays_come_in_pieces(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.of(net_of(5, 30, 20, 1, seed=4), Box(np.zeros(5), 0.3), norm=norm)
    at_once = [bound(problem.network, problem.region, norm=norm, method=m, work=0.1) for m in ("product", "interval")]
    monkeypatch.setattr("lipcert.problem.maps._PIECE", 64)
    pieces = [bound(problem.network, problem.region, norm=norm, method=m, work=0.1) for m in ("product", "interval")]
    for one, other in zip(at_once, pieces, strict=True):
        assert other.upper == pytest.approx(one.upper, rel=1e-12)


# --- solvers of others ------------------------------------------------------------------------------------------------


def test_an_iteration_that_would_end_late_is_not_begun(clock: Clock) -> None:
    watch = _Clock(10.0)
    for now, ends in ((1.0, False), (5.0, False), (8.0, True)):
        clock.now = now
        assert watch(None) is ends
