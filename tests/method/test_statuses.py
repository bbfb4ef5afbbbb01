"""How a computation ended, in truth: memory, time, a gap or its end; and more work is never worse."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import lipcert
from lipcert import Box, Network, bound
from lipcert.budget import Budget
from lipcert.budget.memory import Memory
from lipcert.method import auto
from lipcert.method.bracket import Bracket
from lipcert.method.engines import WitnessEngine
from lipcert.method.literal import LITERAL
from lipcert.method.relaxed import Relaxed
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate
from lipcert.proof.arithmetic import prove_product
from lipcert.search.progress import NOTHING, Status
from lipcert.search.settings import Settings
from lipcert.witness import Witness
from tests.constants import set_constant
from tests.method.test_turns import PROBLEM
from tests.problems import SMALL, net_of

CASES = [
    ((4, 10, 10, 1), "relu", "inf", 0),
    ((6, 20, 3), "sigmoid", "1", 0),
    ((6, 12, 3), "tanh", "2", "all"),
    ((8, 16, 16, 1), "relu", "2", 0),
]


def random_net(shape: tuple[int, ...], kind: str) -> Network:
    rng = np.random.default_rng(len(shape) + shape[0])
    pairs = list(pairwise(shape))
    weights = [1.5 * rng.standard_normal((rows, columns)) / math.sqrt(columns) for columns, rows in pairs]
    return Network.from_weights(weights, [0.3 * rng.standard_normal(rows) for _, rows in pairs], activation=kind)


@pytest.mark.parametrize("norm", ["2", "inf"])
def test_memory_is_not_named_where_the_order_is_refused_anyway(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relaxation beyond the largest order is not begun with any memory: of the map at once, or of each output."""
    set_constant(monkeypatch, "MEMORY_STARTED", 0)
    problem = Problem.of(net_of(8, 12, 3), Box(np.zeros(8), 0.5), "all", norm)
    memory = Memory(1e3, lambda: 0.0, look=0.0)
    bracket = Bracket()
    bracket.improve(prove_product(problem))
    Relaxed("tight", "", most=10).run(problem, bracket, Budget.of_work(10.0, memory))
    assert not any("memory" in note for note in bracket.notes)
    assert bracket.status is not Status.MEMORY_LIMIT
    assert not memory.hit
    asked = Bracket()
    Relaxed("tight", "").run(problem, asked, Budget.of_work(10.0, memory))
    assert asked.status is Status.MEMORY_LIMIT
    assert [note for note in asked.notes if "needs about" in note and "memory limit is" in note]


@pytest.mark.parametrize("method", ["hr1", "hr3", "lipopt3"])
def test_a_solver_at_its_limit_has_not_finished(method: str) -> None:
    """Its multipliers prove a bound, which more work would lower."""
    short = bound(*SMALL.pair, method=method, work=0.001, lower=False)
    assert any("iteration limit" in note for note in short.notes)
    assert short.status is Status.WORK_LIMIT
    whole = bound(*SMALL.pair, method=method, work=1.0, lower=False)
    assert whole.status is Status.DONE
    assert whole.upper < short.upper


def test_how_a_conic_solver_ended_is_said() -> None:
    """At the end of the time, at a limit of its own, or at the optimum."""
    method = LITERAL[0]
    for ended, status in (
        ("time limit: the best iterate found so far is returned, if there is one", Status.TIME_LIMIT),
        ("iteration limit: the best iterate found so far is returned", Status.OPEN),
        ("stalled: the solver stopped for lack of progress", Status.OPEN),
        ("optimal: gap and infeasibilities are below the solver's tolerance", Status.DONE),
    ):
        bracket = Bracket()
        method.say_how(ended, bracket, Budget.of_seconds(60.0))
        assert bracket.status is status


def test_a_closed_zero_is_finished() -> None:
    """The constant is zero but for what rounding adds: there is no gap, whatever ran out on the way."""
    for lower in (None, 0.0):
        bracket, budget = Bracket(Settings()), Budget.of_work(1.0)
        bracket.improve(Certificate.of(PROBLEM, prove_product(PROBLEM).proof, 6.7e-307))
        if lower is not None:
            bracket.improve(Witness(np.zeros(3), lower, "test"))
        bracket.out_of_budget(budget)
        bracket.end(True, budget)
        assert bracket.status is Status.DONE
    dead = Network.from_weights([np.eye(3), np.ones((1, 3))], [np.full(3, -9.0), np.zeros(1)])
    result = bound(dead, Box(np.zeros(3), 1.0), norm="2", work=1.0)
    assert 0.0 < result.upper < NOTHING
    assert result.gap == 0.0
    assert "closed" in str(result)
    assert result.status is Status.DONE


def test_auto_searches_while_a_gap_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine has a bound to improve, and the witness may be what is missing: it is looked for until the end."""
    monkeypatch.setattr(auto, "engines_for", lambda problem, bracket, *_: [WitnessEngine(problem, bracket)])
    result = bound(net_of(6, 12, 12, 1, seed=3), Box(np.zeros(6), 1.0), work=0.6)
    assert result.work >= 0.57
    assert result.status is Status.WORK_LIMIT


@pytest.mark.parametrize(("shape", "kind", "norm", "output"), CASES)
def test_more_work_is_never_worse(shape: tuple[int, ...], kind: str, norm: str, output: int | str) -> None:
    """With the same seed a longer run begins as a shorter one."""
    net, region = random_net(shape, kind), Box(np.zeros(shape[0]), 0.5)
    results = [lipcert.bound(net, region, output=output, norm=norm, work=w, seed=1) for w in (0.25, 1.0)]
    for less, more in pairwise(results):
        assert less.lower is not None
        assert more.lower is not None
        assert more.upper <= less.upper
        assert more.lower >= less.lower
