"""One clock: counted work gives the same answer twice, bit for bit, whatever the time of day does in between."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lipcert
from lipcert import Box, Network
from lipcert.budget import Budget
from lipcert.steps import DENSE, RATES
from tests.problems import net_of

NETWORKS: dict[str, tuple[Network, Box]] = {
    "one layer": (net_of(6, 10, 1), Box(np.zeros(6), 0.4)),
    "wide": (net_of(30, 25, 1, seed=1), Box(np.zeros(30), 0.2)),
    "two layers": (net_of(5, 8, 7, 1, seed=2), Box(np.zeros(5), 0.5)),
    "three layers": (net_of(4, 7, 6, 5, 1, seed=3), Box(np.zeros(4), 0.6)),
    "tanh": (net_of(5, 8, 6, 1, kind="tanh", seed=4), Box(np.zeros(5), 0.5)),
}


def answer(net: Network, box: Box, **options: Any) -> str:
    data = lipcert.bound(net, box, **options).to_dict()
    data.pop("seconds")
    return json.dumps(data)


def wild_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the time of day finds another one, sometimes hours later."""
    rng, now = random.Random(0), itertools.count(1.0)
    past = [0.0]

    def later() -> float:
        past[0] += next(now) * rng.random() * rng.choice([1e-6, 1e-3, 1.0])
        return past[0]

    for name in ("monotonic", "perf_counter", "process_time", "time", "thread_time"):
        monkeypatch.setattr(f"time.{name}", later)


@pytest.mark.parametrize("method", ["auto", "tight", "exact"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_work_gives_the_same_bracket(name: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, box = NETWORKS[name]
    options = {"method": method, "work": 0.2, "seed": 3}
    first = answer(net, box, **options)
    wild_clock(monkeypatch)
    assert answer(net, box, **options) == first


@pytest.mark.parametrize("options", [{"norm": "2"}, {"norm": "1"}, {"output": "all", "norm": "2"}], ids=str)
def test_also_in_other_norms(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    net, box = net_of(4, 6, 5, 2, seed=5), Box(np.zeros(4), 0.5)
    first = answer(net, box, **{"output": 0, **options}, work=0.4)
    wild_clock(monkeypatch)
    assert answer(net, box, **{"output": 0, **options}, work=0.4) == first


def test_more_work_is_never_worse() -> None:
    net, box = NETWORKS["three layers"]
    results = [lipcert.bound(net, box, work=work) for work in (0.01, 0.2, 1.0)]
    assert results[0].upper >= results[-1].upper
    assert (results[0].lower or 0) <= (results[-1].lower or 0)


def test_work_that_is_over_says_so() -> None:
    net, box = net_of(40, 40, 40, 1), Box(np.zeros(40), 1.0)
    result = lipcert.bound(net, box, work=0.05)
    assert result.status is lipcert.Status.WORK_LIMIT
    assert result.certified


def cells_of(result: lipcert.Result) -> int:
    note = next(n for n in result.notes if " cells of the region" in n)
    return int(note.split()[0].replace(",", ""))


def test_cells_of_a_smooth_network_are_charged_for_all_its_weights() -> None:
    """Lines of smooth neurons look at every weight many times: work of a fifth went on for seconds on 400 inputs."""
    nets = [net_of(n, 20, 1, kind="sigmoid") for n in (8, 400)]
    few, many = (lipcert.bound(net, Box(np.zeros(net.inputs), 0.5), method="exact", work=0.2) for net in nets)
    assert cells_of(many) < 0.6 * cells_of(few)


@pytest.mark.parametrize("work", [0.0, -1.0, float("nan"), float("inf"), "much"])
def test_refused(work: Any) -> None:
    with pytest.raises(lipcert.InputError, match="work must be a positive number"):
        lipcert.bound(net_of(2, 3, 1), Box(np.zeros(2), 1.0), work=work)


def test_shares_and_ends() -> None:
    budget = Budget.of_work(10.0)
    half = budget.share(0.5)
    half.charge(4.0 * RATES[DENSE])
    assert half.left() == pytest.approx(1.0)
    assert budget.left() == pytest.approx(6.0)
    half.charge(2.0 * RATES[DENSE])
    assert half.over()
    assert not budget.over()
    assert budget.upto(100.0).left() == pytest.approx(budget.left())
    assert budget.spent().counted == pytest.approx(6.0)


def on_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


def test_the_pace_is_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work of one nominal second that takes three makes a plan three times as long; new measurements replace old."""
    advance = on_clock(monkeypatch)
    budget = Budget.of_seconds(1000.0)
    one = RATES[DENSE]
    for _ in range(5):
        with budget.measured(one):
            advance(3.0)
    assert budget.expected(one) == pytest.approx(3.0)
    assert budget.affordable(3.0) == pytest.approx(one)
    for _ in range(50):
        with budget.measured(one):
            advance(1.0)
    assert budget.expected(one) == pytest.approx(1.0, rel=0.2)
