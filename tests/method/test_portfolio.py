"""Turns: who promises most goes on, who ends leaves its time to others, and a gap that is closed ends all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lipcert import Box, Everywhere, bound, verify
from lipcert.budget import Budget
from lipcert.method import lower
from lipcert.method.bracket import Bracket
from lipcert.method.engines import engines_for
from lipcert.method.lower import LOOK_SHARE, LOOK_SHARE_MOST
from lipcert.method.portfolio import IDLE_TURNS, TRIAL_LEAST, Engine, take_turns
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


class Falling(Engine):
    """Its bound is start / (what it has spent)^rate; it may have an end."""

    def __init__(self, bracket: Bracket, start: float, rate: float, price: float = 0.0, most: float = math.inf) -> None:
        super().__init__()
        self.name, self.bracket, self.start, self.rate, self.cost = f"{rate}", bracket, start, rate, price
        self.most, self.done, self.turns = most, 0.0, 0

    def price(self, budget: Budget) -> float:  # noqa: ARG002
        return self.cost

    def prior(self) -> float:
        return self.start

    def advance(self, budget: Budget) -> None:
        self.turns += 1
        left = min(budget.left(), self.most - self.done)
        budget.add(left)
        self.done += left
        self.ended = self.done >= self.most
        self.upper = max(self.start / (1 + self.done) ** self.rate, FLOOR)
        proof = prove_product(PROBLEM).proof
        self.bracket.improve(Certificate.of(PROBLEM, proof, self.upper))


class Restarting(Engine):
    """Its bound depends on its longest turn alone; `lengths` are those of its turns."""

    name, continues = "restarting", False

    def __init__(self, bracket: Bracket, start: float) -> None:
        super().__init__()
        self.bracket, self.start = bracket, start
        self.lengths: list[float] = []

    def prior(self) -> float:
        return self.start

    def advance(self, budget: Budget) -> None:
        self.lengths.append(budget.left())
        budget.add(budget.left())
        self.upper = self.start / (1 + max(self.lengths)) ** 0.1
        self.bracket.improve(Certificate.of(PROBLEM, prove_product(PROBLEM).proof, self.upper))


def bracket_of(first: float = 1e6) -> Bracket:
    bracket = Bracket(Settings())
    bracket.improve(Certificate.of(PROBLEM, prove_product(PROBLEM).proof, first))
    bracket.improve(Witness(np.zeros(3), FLOOR, "test"))
    return bracket


def nothing(spent: float, budget: Budget) -> None:
    assert spent > 0
    assert budget.left() > 0


def test_the_one_that_falls_fastest_gets_most() -> None:
    bracket, budget = bracket_of(), Budget.of_work(100.0)
    slow, fast = Falling(bracket, 1e3, 0.1), Falling(bracket, 1e4, 1.2)
    take_turns([slow, fast], bracket, budget, nothing)
    assert fast.done > 0.8 * 100
    assert bracket.upper <= 1e4 / (0.8 * 100) ** 1.2
    assert budget.over()


def test_one_that_ended_leaves_the_rest_to_others() -> None:
    bracket, budget = bracket_of(), Budget.of_work(50.0)
    short, long = Falling(bracket, 5e2, 0.5, most=2.0), Falling(bracket, 1e4, 0.3)
    take_turns([short, long], bracket, budget, nothing)
    assert short.ended
    assert short.done == 2.0
    assert long.done == pytest.approx(48.0)


def test_a_closed_bracket_ends_all() -> None:
    bracket, budget = bracket_of(), Budget.of_work(1e4)
    take_turns([Falling(bracket, 1e2, 2.0), Falling(bracket, 1e2, 0.0)], bracket, budget, nothing)
    assert bracket.closed()
    assert budget.left() > 5e3


def test_an_expensive_one_waits_until_nothing_else_promises_as_much() -> None:
    bracket, budget = bracket_of(), Budget.of_work(100.0)
    quick, expensive = Falling(bracket, 1e5, 2.0), Falling(bracket, 9e4, 0.1, price=50.0)
    take_turns([expensive, quick], bracket, budget, nothing)
    assert expensive.turns == 0
    bracket, budget = bracket_of(), Budget.of_work(100.0)
    quick, expensive = Falling(bracket, 1e5, 0.0), Falling(bracket, 1e2, 0.1, price=50.0)
    take_turns([expensive, quick], bracket, budget, nothing)
    assert expensive.done > 80.0


def test_one_that_begins_anew_gets_longer_turns_or_none() -> None:
    """Shorter ones would repeat what was proved; what is left of the time is for others."""
    bracket, budget = bracket_of(), Budget.of_work(100.0)
    anew, steady = Restarting(bracket, 10.0), Falling(bracket, 12.0, 0.01)
    take_turns([anew, steady], bracket, budget, nothing)
    assert len(anew.lengths) > 1
    assert all(later >= earlier for earlier, later in zip(anew.lengths, anew.lengths[1:], strict=False))
    assert budget.over()
    bracket, budget = bracket_of(), Budget.of_work(100.0)
    alone = Restarting(bracket, 10.0)
    take_turns([alone], bracket, budget, nothing)
    assert alone.lengths == [pytest.approx(100.0)]


def test_one_that_is_behind_is_asked_again_before_it_has_all() -> None:
    """It fell fast at first and stops: what its forecast promised is not paid for with half of the time."""

    class Stopping(Falling):
        def advance(self, budget: Budget) -> None:
            super().advance(budget)
            self.upper = max(self.upper, self.start / 8)

    bracket, budget = bracket_of(1e3), Budget.of_work(100.0)
    late, steady = Stopping(bracket, 4e3, 1.0), Falling(bracket, 1e2, 0.02)
    take_turns([late, steady], bracket, budget, nothing)
    assert late.turns > 2
    assert late.done < 40.0
    assert steady.done > 60.0


def test_one_that_stops_early_without_a_gain_has_ended() -> None:
    """It says that it is alive, and does nothing: it would be asked for ever."""

    class Idle(Falling):
        def least(self, budget: Budget) -> float:  # noqa: ARG002
            return 0.0

        def advance(self, budget: Budget) -> None:
            self.turns += 1
            self.upper = self.start
            budget.add(1e-6)

    for continues, most in ((True, 2), (False, 4)):
        bracket, budget = bracket_of(1e3), Budget.of_work(100.0)
        idle, steady = Idle(bracket, 10.0, 1.0), Falling(bracket, 1e2, 0.02)
        idle.continues = continues
        take_turns([idle, steady], bracket, budget, nothing)
        assert idle.turns <= most
        assert idle.ended
        assert steady.done > 99.0


def test_everyone_ended() -> None:
    bracket, budget = bracket_of(), Budget.of_work(100.0)
    take_turns([Falling(bracket, 1e2, 0.1, most=1.0)], bracket, budget, nothing)
    assert budget.left() == pytest.approx(99.0)
    take_turns([], bracket, budget, nothing)
    assert bracket.status is Status.DONE


@pytest.mark.parametrize("sizes", [(2, 6, 5, 1), (30, 8, 8, 1)])
def test_auto_closes_small_networks_and_says_how(sizes: tuple[int, ...]) -> None:
    net = net_of(*sizes, seed=2)
    result = bound(net, Box(np.zeros(sizes[0]), 0.2), work=5.0)
    assert result.gap is not None
    assert result.gap <= 1e-6
    assert result.status is Status.DONE
    assert verify(result.certificate, net).proved


def test_a_network_too_large_to_lay_flat_has_no_search_over_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out, not refused: the others go on."""
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


def test_one_that_had_too_little_is_asked_again_while_there_is_more() -> None:
    """Nothing came of its first turns: it gets longer ones, and in the end none."""

    class Late(Restarting):
        needs = 10.0

        def advance(self, budget: Budget) -> None:
            self.lengths.append(budget.left())
            budget.add(budget.left())
            if self.lengths[-1] >= self.needs:
                self.upper = self.start
                self.bracket.improve(Certificate.of(PROBLEM, prove_product(PROBLEM).proof, self.upper))

    bracket, budget = bracket_of(1e3), Budget.of_work(100.0)
    late, steady = Late(bracket, 10.0), Falling(bracket, 1e2, 0.02)
    take_turns([late, steady], bracket, budget, nothing)
    assert late.upper == 10.0
    assert all(later >= 2 * earlier for earlier, later in zip(late.lengths, late.lengths[1:3], strict=False))
    bracket, budget = bracket_of(1e3), Budget.of_work(100.0)
    never, steady = Late(bracket, 10.0), Falling(bracket, 1e2, 0.02)
    never.needs = math.inf
    take_turns([never, steady], bracket, budget, nothing)
    assert sum(never.lengths) < 50.0
    assert steady.done > 50.0


def test_a_relaxation_that_costs_little_is_tried_whatever_is_expected_of_it() -> None:
    """Another one proved what it was expected to: that says nothing about what it proves."""
    bracket, budget = bracket_of(9.0), Budget.of_work(100.0)
    anew, falling = Restarting(bracket, 9.0), Falling(bracket, 40.0, 0.5)
    take_turns([falling, anew], bracket, budget, nothing)
    assert anew.history
    assert anew.history[0][0] < 10.0
    assert anew.upper < 9.0


def test_one_that_costs_much_less_is_tried_before_a_long_first_turn() -> None:
    """It promises a little less than the dear one, of which nothing but a guess is known either."""
    bracket, budget = bracket_of(100.0), Budget.of_work(100.0)
    dear, cheaper = Falling(bracket, 20.0, 0.0, price=40.0), Falling(bracket, 25.0, 1.0, price=8.0)
    take_turns([dear, cheaper], bracket, budget, nothing)
    assert (cheaper.turns, dear.turns) == (1, 0)
    assert bracket.closed()
    bracket, budget = bracket_of(100.0), Budget.of_work(100.0)
    dear, near = Falling(bracket, 20.0, 0.0, price=40.0), Falling(bracket, 25.0, 1.0, price=20.0)
    take_turns([dear, near], bracket, budget, nothing)
    assert dear.turns > 0  # it costs half as much: no small matter


def test_an_overflowing_bracket_ends() -> None:
    """Nothing is expected of anyone, and no turn proves a number: everybody is asked a few times, not for ever."""

    class Nothing(Restarting):
        def advance(self, budget: Budget) -> None:
            self.lengths.append(budget.left())

    bracket, budget = Bracket(Settings()), Budget.of_work(100.0)
    one, other = Nothing(bracket, math.inf), Nothing(bracket, math.inf)
    take_turns([one, other], bracket, budget, nothing)
    assert one.ended
    assert other.ended
    assert max(len(one.lengths), len(other.lengths)) <= IDLE_TURNS
    assert min(one.lengths + other.lengths) > 0


def test_slopes_come_early_on_the_whole_space() -> None:
    """Cells and relaxations take seconds to get as far on a deep network; the two trials of slopes are enough."""
    net = net_of(12, *(24,) * 8, 2, seed=5)
    problem, budget = Problem.of(net, Everywhere(), 0), Budget.of_work(10.0)
    bracket = Bracket(Settings())
    bracket.improve(prove_product(problem))
    with bracket.executor() as executor:
        engines = engines_for(problem, bracket, budget, executor)
    slopes = next(e for e in engines if e.name == "slopes")
    assert slopes.price(budget) <= TRIAL_LEAST
    for times in (1.0, 2.0):
        slopes.take_turn(budget.upto(times * TRIAL_LEAST))
    alone = bound(net, Everywhere(), output=0, method="slopes", work=10.0, lower=False)
    assert alone.upper * (1 - 1e-6) <= slopes.upper < 1.01 * alone.upper


def test_one_alone_has_turns_too_where_it_goes_on() -> None:
    """Between them somebody else may look for witnesses; what begins anew has all that is left at once."""
    bracket, budget = bracket_of(), Budget.of_work(100.0)
    alone, looks = Falling(bracket, 1e5, 0.1), list[float]()
    take_turns([alone], bracket, budget, lambda spent, _: looks.append(spent))
    assert len(looks) >= 3
    assert alone.done == pytest.approx(100.0)
    bracket, budget = bracket_of(), Budget.of_work(100.0)
    anew = Restarting(bracket, 10.0)
    take_turns([anew], bracket, budget, nothing)
    assert anew.lengths == [100.0]


def test_looks_that_close_more_of_the_gap_than_turns_become_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    bracket, budget = bracket_of(10.0), Budget.of_work(1000.0)
    looker, lengths = lower.WitnessTurns(PROBLEM, bracket, budget), list[float]()

    def finds(
        problem: Problem,  # noqa: ARG001
        bracket: Bracket,
        budget: Budget,
        seconds: float,
        again: int | None,
    ) -> None:
        if again is None:  # the first, which costs nothing here
            return
        lengths.append(seconds)
        budget.add(seconds)
        if len(lengths) < 4:
            bracket.improve(Witness(np.zeros(3), 1.1 * bracket.lower, "test"))

    monkeypatch.setattr(lower, "look", finds)
    for _ in range(6):
        budget.add(100.0)
        looker(100.0, budget)
    first = 100.0 * LOOK_SHARE
    longest = 100.0 * LOOK_SHARE_MOST
    assert lengths == pytest.approx([first, 2 * first, longest, longest, longest / 2, longest / 4][: len(lengths)])
    assert len(lengths) >= 5


def test_one_that_falls_fast_is_asked_again_before_a_dear_guess() -> None:
    """Its forecast is behind the guess after its first turns, and better than it after a little more."""

    class Accelerating(Falling):
        def advance(self, budget: Budget) -> None:
            super().advance(budget)
            self.upper = max(1e4 * math.exp(-self.done / 2), FLOOR)
            self.bracket.improve(Certificate.of(PROBLEM, prove_product(PROBLEM).proof, self.upper))

    class Dear(Restarting):
        def price(self, budget: Budget) -> float:  # noqa: ARG002
            return 60.0

    bracket, budget = bracket_of(2e4), Budget.of_work(100.0)
    dear, fast = Dear(bracket, 2e3), Accelerating(bracket, 1e4, 0.0)
    take_turns([dear, fast], bracket, budget, nothing)
    assert bracket.closed()
    assert not dear.lengths


def test_a_guess_that_promises_nothing_waits_for_what_falls() -> None:
    """Something else has proved what the guess is, and more than the one that falls is expected to."""

    class Dear(Restarting):
        def price(self, budget: Budget) -> float:  # noqa: ARG002
            return 30.0

        def prior(self) -> float:
            return self.bracket.upper

    bracket, budget = bracket_of(20.0), Budget.of_work(100.0)
    dear, falls = Dear(bracket, 10.0), Falling(bracket, 1e4, 1.0)
    take_turns([dear, falls], bracket, budget, nothing)
    assert falls.done > 90.0
    assert not dear.lengths
