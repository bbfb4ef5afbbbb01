"""Turns: who closes most of the gap per second goes on, nobody is forgotten, and a closed gap ends all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from lipcert import Box, bound, verify
from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.method.turns import IDLE, Engine, take_turns
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate
from lipcert.proof.arithmetic import prove_product
from lipcert.search.progress import Status
from lipcert.search.settings import Settings
from lipcert.witness import Witness
from tests.constants import set_constant
from tests.problems import net_of

PROBLEM = Problem.of(net_of(3, 4, 1), Box(np.zeros(3), 0.1))
FLOOR = 1.0
EXPLORING = 4.0  # seconds in which all engines are tried, whatever they show


class Falling(Engine):
    """Its bound is start / (1 + what it has spent)^rate; it may have an end, and need so much time at once."""

    def __init__(self, bracket: Bracket, start: float, rate: float, most: float = math.inf, needs: float = 0.0) -> None:
        super().__init__()
        self.name, self.bracket, self.start, self.rate = f"{rate}", bracket, start, rate
        self.most, self.needs, self.done, self.turns = most, needs, 0.0, 0

    def least(self, budget: Budget) -> float:  # noqa: ARG002
        return self.needs

    def bound(self) -> float:
        """The bound after the time `done`."""
        return max(self.start * math.exp(-self.rate * math.log1p(self.done)), FLOOR)

    def advance(self, budget: Budget) -> None:
        self.turns += 1
        left = min(budget.left(), self.most - self.done)
        budget.add(left)
        self.done += left
        self.ended = self.done >= self.most
        found = self.bound()
        if found < self.upper:
            self.upper = found
            self.bracket.improve(Certificate.of(PROBLEM, prove_product(PROBLEM).proof, self.upper))


class Known(Falling):
    """Its bound is a given function of the time that it has had."""

    def __init__(self, bracket: Bracket, name: str, curve: Callable[[float], float]) -> None:
        super().__init__(bracket, math.inf, 0.0)
        self.name, self.curve = name, curve

    def bound(self) -> float:
        return max(self.curve(self.done), FLOOR)


class Rising(Engine):
    """It looks for witnesses: the lower bound rises by a factor with every doubling of its time."""

    name = "rising"
    below = True

    def __init__(self, bracket: Bracket, factor: float) -> None:
        super().__init__()
        self.bracket, self.factor, self.done = bracket, factor, 0.0

    def advance(self, budget: Budget) -> None:
        self.done += budget.left()
        budget.add(budget.left())
        self.bracket.improve(Witness(np.zeros(3), FLOOR * (1 + self.done) ** self.factor, "test"))


def bracket_of(first: float = 1e6) -> Bracket:
    bracket = Bracket(Settings())
    bracket.improve(Certificate.of(PROBLEM, prove_product(PROBLEM).proof, first))
    bracket.improve(Witness(np.zeros(3), FLOOR, "test"))
    return bracket


def test_the_one_that_falls_fastest_gets_most() -> None:
    bracket, budget = bracket_of(), Budget.of_work(100.0)
    slow, fast = Falling(bracket, 1e3, 0.1), Falling(bracket, 1e4, 1.2)
    take_turns([slow, fast], bracket, budget)
    assert fast.done > 0.8 * 100
    assert budget.over()


def test_one_that_ended_leaves_the_rest_to_others() -> None:
    bracket, budget = bracket_of(), Budget.of_work(50.0)
    short, long = Falling(bracket, 5e2, 0.5, most=2.0), Falling(bracket, 1e4, 0.3)
    take_turns([short, long], bracket, budget)
    assert short.ended
    assert short.done == 2.0
    assert long.done == pytest.approx(48.0)


def test_a_closed_bracket_ends_all() -> None:
    bracket, budget = bracket_of(), Budget.of_work(1e4)
    take_turns([Falling(bracket, 1e2, 2.0), Falling(bracket, 1e2, 0.0)], bracket, budget)
    assert bracket.closed()
    assert budget.left() > 9e3


# Bounds that engines have after a time, as engines of `auto` have been seen to fall; none is the best for all times.
CURVES: dict[str, Callable[[float], float]] = {
    "staller": lambda _: 1e3,
    "above": lambda done: 1e4 / (1.0 + done) ** 0.1,  # it falls all the time, and never below what others have
    "liar": lambda done: 950.0 * math.exp(-4.0 * min(done, 0.3)),  # the fastest of all, and then no more
    "slow starter": lambda done: math.inf if done < 2.0 else 200.0 / (1.0 + done),
    "solver": lambda done: math.inf if done < 1.0 else 40.0 * 2.0 ** -min(done, 3.0),
    "steps": lambda done: 800.0 * 0.5 ** math.floor(2.0 * math.log2(1.0 + done)),  # nothing in most slices
    "steady": lambda done: 800.0 / (1.0 + done) ** 1.2,
    "late winner": lambda done: 3000.0 * math.exp(-(done**1.2) / 2.0),  # faster and faster
}


def needed(curves: Sequence[tuple[str, Callable[[float], float]]], goal: float) -> float:
    """The time after which engines that take turns have a bound."""
    bracket, budget = bracket_of(1e3), Budget.of_work(1e3)
    bracket.settings = replace(bracket.settings, below=goal)
    take_turns([Known(bracket, *one) for one in curves], bracket, budget)
    return budget.elapsed()


def alone(curve: Callable[[float], float], goal: float) -> float:
    return next((time for time in np.geomspace(0.01, 1e3, 2000) if curve(time) < goal), math.inf)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("goal", [500.0, 100.0, 30.0, 6.0, 2.0])
@pytest.mark.parametrize(
    "without",
    [set[str](), {"late winner"}, {"solver"}, {"late winner", "solver"}, {"steady", "solver"}, {"steps", "steady"}],
)
def test_regret(without: set[str], goal: float, order: int) -> None:
    """Any bound is there no later than if all had equal shares of the time, whichever is the best for it.

    A bound that only one of them reaches, and late, is there after four times its own time.
    """
    curves = [one for one in CURVES.items() if one[0] not in without][::order]
    best = min(alone(curve, goal) for _, curve in curves)
    assert needed(curves, goal) <= len(curves) * best + EXPLORING
    assert goal > 2.0 or needed(curves, goal) <= 4.0 * best


def test_one_that_gains_only_now_and_then_goes_on() -> None:
    """Most of its slices gain nothing; the last doubling of its time did."""
    bracket, budget = bracket_of(1e3), Budget.of_work(100.0)
    steps, other = Known(bracket, "steps", CURVES["steps"]), Falling(bracket, 1e3, 0.02)
    take_turns([other, steps], bracket, budget)
    assert bracket.closed()
    assert steps.done > 3 * other.done


def test_a_first_slice_that_gains_counts() -> None:
    """The next slice is its own before the others have had their second."""
    bracket, budget = bracket_of(1e3), Budget.of_work(0.5)
    names = ["a", "b", "c"]
    quick = Known(bracket, "quick", lambda done: 1e2 * math.exp(-10.0 * done))
    take_turns([*(Known(bracket, name, CURVES["staller"]) for name in names), quick], bracket, budget)
    order = [turn.engine for turn in bracket.turns]
    assert order[:5] == [*names, "quick", "quick"]


def test_nobody_is_forgotten() -> None:
    """It shows nothing for a while and then has the best bound; the others gain a little all the time."""

    class Late(Falling):
        def bound(self) -> float:
            return FLOOR if self.done > 3.0 else 1e3

    bracket, budget = bracket_of(1e3), Budget.of_work(200.0)
    late = Late(bracket, 1e3, 0.0)
    others = [Falling(bracket, 1e3, 0.05), Falling(bracket, 1e3, 0.02)]
    take_turns([*others, late], bracket, budget)
    assert bracket.closed()


def test_those_that_show_nothing_take_little() -> None:
    bracket, budget = bracket_of(1e3), Budget.of_work(100.0)
    stalled = [Falling(bracket, 1e3, 0.0) for _ in range(5)]
    useful = Falling(bracket, 1e3, 0.5)
    take_turns([*stalled, useful], bracket, budget)
    assert useful.done > 75.0


def test_witnesses_are_an_engine_among_them() -> None:
    """What closes the gap from below counts as what closes it from above."""
    bracket, budget = bracket_of(1e3), Budget.of_work(100.0)
    rising, stalled = Rising(bracket, 0.4), Falling(bracket, 1e3, 0.01)
    take_turns([stalled, rising], bracket, budget)
    assert rising.done > 80.0
    bracket, budget = bracket_of(1e3), Budget.of_work(100.0)
    rising, falling = Rising(bracket, 0.01), Falling(bracket, 1e3, 0.4)
    take_turns([rising, falling], bracket, budget)
    assert falling.done > 80.0


def test_one_that_needs_a_long_slice_gets_it_or_none() -> None:
    bracket, budget = bracket_of(1e3), Budget.of_work(100.0)
    long, steady = Falling(bracket, 10.0, 0.1, needs=20.0), Falling(bracket, 1e2, 0.02)
    take_turns([long, steady], bracket, budget)
    assert long.turns > 0
    assert long.done >= 20.0 * long.turns
    bracket, budget = bracket_of(1e3), Budget.of_work(10.0)
    long, steady = Falling(bracket, 10.0, 0.1, needs=20.0), Falling(bracket, 1e2, 0.02)
    take_turns([long, steady], bracket, budget)
    assert long.turns == 0
    assert steady.done == pytest.approx(10.0)


def test_a_slice_that_is_too_short_does_not_count() -> None:
    """It says so at once, and what it needs after each: its hope has not faded when a slice is long enough."""

    class Short(Known):
        asked = 0.0

        def least(self, budget: Budget) -> float:  # noqa: ARG002
            return self.asked

        def advance(self, budget: Budget) -> None:
            if budget.left() >= 0.3:
                super().advance(budget)
            else:
                self.asked = 2.0 * budget.left()

    bracket, budget = bracket_of(1e3), Budget.of_work(2.0)
    short = Short(bracket, "short", lambda _: 10.0)
    stallers = [Known(bracket, name, CURVES["staller"]) for name in "abcde"]
    take_turns([*stallers, short], bracket, budget)
    first = next(turn for turn in bracket.turns if turn.upper == 10.0)
    assert first.engine == "short"
    assert first.begin < 1.2
    assert short.slices < sum(turn.engine == "short" for turn in bracket.turns)


def test_one_that_does_nothing_ends() -> None:
    """It says that it is alive, and does nothing: without an end it would be asked for ever."""

    class Idle(Falling):
        def advance(self, budget: Budget) -> None:  # noqa: ARG002
            self.turns += 1

    bracket, budget = bracket_of(1e3), Budget.of_work(100.0)
    idle = Idle(bracket, 10.0, 1.0)
    take_turns([idle], bracket, budget)
    assert idle.turns == IDLE
    assert idle.ended


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("singular"), RuntimeError("no convergence")])
def test_one_whose_solver_fails_ends_alone(error: Exception) -> None:
    """A note says so; what it has proved stays, and the others have the rest of the time."""

    class Failing(Falling):
        def advance(self, budget: Budget) -> None:
            super().advance(budget)
            raise error

    bracket, budget = bracket_of(1e3), Budget.of_work(10.0)
    failing, other = Failing(bracket, 50.0, 0.1), Falling(bracket, 1e2, 0.02)
    failing.name = "failing"
    take_turns([failing, other], bracket, budget)
    assert failing.ended
    assert failing.turns == 1
    assert bracket.upper <= 50.0
    assert failing.done + other.done == pytest.approx(10.0)
    assert [note for note in bracket.notes if "failing ended early" in note and str(error) in note]


def test_one_that_says_when_its_result_comes_is_not_given_up_before() -> None:
    """A solver whose iterations show nothing for eight seconds; without its word the others get most of the time."""

    class Solver(Known):
        speaks = True

        def ahead(self, budget: Budget) -> float:  # noqa: ARG002
            return max(8.0 - self.done, 0.0) if self.speaks else 0.0

    times = []
    for speaks in (True, False):
        bracket, budget = bracket_of(1e3), Budget.of_work(400.0)
        bracket.settings = replace(bracket.settings, below=3.0)
        solver = Solver(bracket, "solver", lambda done: 2.0 if done >= 8.0 else math.inf)
        solver.speaks = speaks
        stallers = [Known(bracket, name, CURVES["staller"]) for name in "abcd"]
        take_turns([*stallers, solver], bracket, budget)
        assert bracket.upper < 3.0
        times.append(budget.elapsed())
    assert times[0] < 0.75 * times[1]


def test_a_promise_counts_for_the_rule_and_is_no_bound() -> None:
    """An engine whose solver promises more in every slice is asked again; only a proof improves the bracket."""

    class Promising(Falling):
        def advance(self, budget: Budget) -> None:
            budget.add(budget.left())
            self.turns += 1
            self.promised = 1e2 * 0.5**self.turns

    bracket, budget = bracket_of(1e3), Budget.of_work(5.0)
    promising, silent = Promising(bracket, 1.0, 0.0), Falling(bracket, 1e3, 0.0)
    take_turns([silent, promising], bracket, budget)
    assert promising.turns > 2 * silent.turns
    assert bracket.upper == 1e3


def test_everyone_ended() -> None:
    bracket, budget = bracket_of(), Budget.of_work(100.0)
    take_turns([Falling(bracket, 1e2, 0.1, most=1.0)], bracket, budget)
    assert budget.left() == pytest.approx(99.0)
    take_turns([], bracket, budget)
    assert bracket.status is Status.DONE


def turns_of(work: float) -> tuple[list[tuple[str, float, float]], float]:
    """The slices of three engines in a run of so much work, without the last, which know its end; and its bound."""
    bracket, budget = bracket_of(), Budget.of_work(work)
    engines = [Falling(bracket, 1e5, 0.3), Falling(bracket, 1e5, 0.2), Falling(bracket, 1e4, 0.1, needs=0.7)]
    take_turns(engines, bracket, budget)
    assert bracket.upper > FLOOR
    far = [turn for turn in bracket.turns if turn.begin + turn.seconds < work - 0.7]
    return [(turn.engine, turn.begin, turn.seconds) for turn in far], bracket.upper


def test_a_longer_run_begins_as_a_shorter_one() -> None:
    known, least = turns_of(3.0)
    for work in (4.0, 16.0, 47.0, 256.0):
        more, upper = turns_of(work)
        assert len(more) > len(known)
        assert more[: len(known)] == known
        assert upper <= least
        known, least = more, upper


@pytest.mark.parametrize("sizes", [(2, 6, 5, 1), (30, 8, 8, 1)])
def test_auto_closes_small_networks_and_says_how(sizes: tuple[int, ...]) -> None:
    net = net_of(*sizes, seed=2)
    result = bound(net, Box(np.zeros(sizes[0]), 0.2), work=5.0)
    assert result.gap is not None
    assert result.gap <= 1e-6
    assert result.status is Status.DONE
    assert verify(result.certificate, net).proved
    assert all(0 < turn.seconds < 5.0 for turn in result.turns)
    assert [turn.upper for turn in result.turns] == sorted((turn.upper for turn in result.turns), reverse=True)


def test_a_network_too_large_to_lay_flat_has_no_search_over_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is left out, not refused: the others go on."""
    set_constant(monkeypatch, "SIGNS_ENTRIES", 10)
    result = bound(net_of(3, 6, 5, 1), Box(np.zeros(3), 0.5), work=1.0)
    assert not any("sign patterns" in note for note in result.notes)
    assert math.isfinite(result.upper)


def test_what_is_called_upper_on_the_way_is_proved() -> None:
    """No progress is below what the certificate of the end proves, but by the rounding of a comparison."""
    seen: list[float] = []
    result = bound(
        net_of(30, 8, 8, 1, seed=2),
        Box(np.zeros(30), 0.2),
        method="exact",
        work=5.0,
        on_progress=lambda p: seen.append(p.upper),
    )
    assert result.certificate.upper == min(seen)
