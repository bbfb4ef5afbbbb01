"""Turns: several engines work on one bracket, and each goes on while it promises more than the others.

    forecast   the bound of an engine after so many more seconds: it falls by about the same factor with every
               doubling of the engine's time, and the last doublings give the factor

Every engine is tried first, cheap ones before expensive ones. Then the engine with the least forecast gets half of the
remaining time, again and again, so that a wrong forecast is noticed early. An engine whose own bound is still above the
bracket gets at most as much as it has had so far, for the same reason. Nothing here knows a network: only what the run
has measured decides.

A longer run begins as a shorter one would (`stages`), and keeps what it has proved by the end of the shorter one.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence

from lipcert.budget import Budget
from lipcert.method.bracket import Bracket
from lipcert.search.progress import Status

# No network was consulted for these constants; a run measures what it needs to know.
TRIAL_SHARE = 0.02  # share of the budget for the first turn of an engine; the second turn is twice as long
TRIAL_LEAST = 0.25  # seconds, at least, of a first turn
TURN_SHARE = 0.5  # share of the remaining budget for the engine with the best forecast
TURN_LEAST = 0.5  # seconds, at least, of such a turn
PRICES = 4.0  # the first turn of a relaxation is at most so many times its expected price
CHEAP_TRY = 0.05  # an untried engine whose price is below this share of the remaining budget goes first
CHEAP_TIMES = 3.0  # the turn of such an engine: so many times its price, or a first turn where that is longer
CHEAPER = 0.25  # an engine is cheap beside a better untried one if it costs at most this share of that one's price
FALLING = 0.9  # the bound of an engine falls fast if twice its time is expected to leave at most this share of it
RIVAL = 1.25  # an engine is a rival of the best one if its forecast is at most so many times the best forecast
LONG_SHARE = 0.5  # share of the remaining budget for an engine that begins anew in each turn and has a rival
LONGEST_SHARE = 0.85  # the same for one that has no rival
HOPE_TIMES = 5.0  # an engine that failed is tried again in turns of more than so many times its longest one
EARLY = 0.5  # a turn ended early if the engine used less than this share of it
IDLE_TURNS = 3  # early turns in a row without a gain that end an engine which begins anew each time
AGAIN_TIMES = 2.0  # another turn of such an engine is at least so many times its longest turn


class Engine:
    """One way to improve the bracket: `advance` works within a budget, and the next call goes on from there.

    `upper` is the bound that the engine has proved by itself, `state` what it keeps between turns. `ended` says that
    another turn would change nothing. The other methods are estimates, by which `take_turns`
    chooses whose turn it is.
    """

    name: str
    upper: float = math.inf
    ended: bool = False
    state: object = None
    continues: bool = True  # whether a turn goes on where the last one ended, so that short turns are not wasted
    short: bool = False  # whether its last turn was too short to begin its work
    tired: bool = False  # whether it ended because its turns gained nothing: with more time it has turns again

    def __init__(self) -> None:
        self.spent, self.longest = 0.0, 0.0  # seconds of all turns, and of the longest turn that it was given
        self.idle = 0  # turns in a row that ended early, without a gain
        self.history: list[tuple[float, float]] = []  # after each turn: the seconds spent so far, and the bound

    def advance(self, budget: Budget) -> None:
        """Work within the budget, on from where the last turn ended, and improve the bracket."""
        raise NotImplementedError

    def price(self, budget: Budget) -> float:  # noqa: ARG002 - engines whose first bound takes a while use it
        """Seconds of the budget's clock until its first turn has a bound; none for an engine that has one at once."""
        return 0.0

    def least(self, budget: Budget) -> float:  # noqa: ARG002 - engines that know their next step use it
        """Seconds that another turn must have to gain anything. An engine that begins anew needs its longest turn."""
        if self.short:
            return SHORT_AGAIN * self.longest
        return 0.0 if self.continues else self.longest

    def waits(self, budget: Budget) -> bool:  # noqa: ARG002 - expensive engines use it
        """Whether it has turns only where no other engine can use what is left of this budget."""
        return False

    def conclude(self) -> None:
        """Write notes for the user after the last turn."""

    def release(self) -> None:
        """Free the memory of its state; it takes no turn afterwards."""
        self.state = None

    def take_turn(self, budget: Budget) -> None:
        """Take a turn, and record its time and its bound for the forecast."""
        before, given, upper = budget.now(), budget.left(), self.upper
        self.advance(budget)
        seconds = max(budget.now() - before, 1e-9)
        self.spent, self.longest = self.spent + seconds, max(self.longest, given)
        self.history.append((self.spent, self.upper))
        early = given <= 0 or seconds < EARLY * given
        self.idle = self.idle + 1 if early and not self.short and not self.upper < upper else 0
        self.tired = not self.ended and self.idle >= (1 if self.continues else IDLE_TURNS)
        self.ended = self.ended or self.tired

    def rested(self) -> None:
        """Let it have turns again if it was tired: there is more time than before."""
        self.ended, self.tired, self.idle = self.ended and not self.tired, False, 0

    def prior(self) -> float:
        """Expected bound of its first turn, before that turn."""
        return math.inf

    def forecast(self, more: float) -> float:
        """Expected bound after so many more seconds."""
        anew = math.isinf(self.upper) or not self.continues
        if not self.history or (anew and more > HOPE_TIMES * self.longest):
            return min(self.prior(), self.upper)  # it had no turn yet, or turns that were much shorter than this
        if not math.isfinite(self.upper) or self.upper <= 0:
            return self.upper
        spent, last = self.history[-1]
        known = [h for h in self.history if math.isfinite(h[1])]
        earlier = next((h for h in reversed(known) if h[0] <= spent / 2), known[0])
        doublings = math.log2(spent / earlier[0]) if spent > earlier[0] else 0.0
        if doublings <= 0:
            return last
        rate = math.log(max(earlier[1] / last, 1.0)) / doublings
        return last * math.exp(-rate * math.log2((spent + more) / spent))


# Stages end at powers of this many seconds of the budget's clock. On seven random networks 16 s in stages gave the same
# bounds as 16 s in one piece, within a few per cent on either side.
STAGE = 4.0
SHORTEST = 1  # the first stage ends at this power: in one second there is no room for the first turns of all engines
LAST_STAGE = 3.0  # the whole is at least so many times as long as all stages but the last: long solves fit in
SHORT_AGAIN = 1.1  # an engine whose turn was too short to begin its work gets at least so many times as much next time

Between = Callable[[float, Budget], None]  # called after a turn with the seconds it took, and may take some more


def stages(budget: Budget) -> Iterator[Budget]:
    """The budget in stages that end 4, 16, 64, .. seconds after its start, and at its own end.

    These ends do not depend on the length of the budget. So a longer call has at 4, 16, 64, .. seconds what a call has
    that ends there.
    """
    total = budget.spent().counted if budget.repeatable else budget.spent().wall
    total += budget.left()
    if math.isfinite(total) and total > 0:
        last = math.floor(math.log(total / LAST_STAGE, STAGE))
        for power in range(SHORTEST, last + 1):
            share = budget.upto(budget.left() - (total - STAGE**power))
            if not share.over():
                yield share
    yield budget


def take_turns(engines: Sequence[Engine], bracket: Bracket, budget: Budget, between: Between) -> None:
    """Give turns until the bracket is closed, the budget is over, or every engine has ended."""
    _Turns(engines, bracket, budget, between).all()


class _Turns:
    def __init__(self, engines: Sequence[Engine], bracket: Bracket, budget: Budget, between: Between) -> None:
        self.engines, self.bracket, self.budget, self.between = engines, bracket, budget, between

    def all(self) -> None:
        for engine in self.engines:
            engine.rested()
        self.waiting = {e for e in self.engines if e.waits(self.budget)}
        self._try_quick()
        while self._goes_on():
            left = self.budget.left()
            able = [e for e in self.engines if not e.ended and e.least(self.budget) <= left]
            alive = [e for e in able if e not in self.waiting] or able
            if not alive:
                return
            self._next(alive)

    def _try_quick(self) -> None:
        """Give two turns to each new engine that has bounds soon, the second longer: a forecast needs two points."""
        total = self.budget.left()
        first = max(TRIAL_SHARE * total, min(total, TRIAL_LEAST))
        new = [e for e in self.engines if e.continues and not e.history and e not in self.waiting]
        quick = [e for e in new if e.price(self.budget) <= first]
        for times in (1.0, 2.0):
            for engine in quick:
                if not engine.ended and self._goes_on():
                    self._turn(engine, self.budget.upto(times * first))

    def _next(self, alive: list[Engine]) -> None:
        """Give a turn to a new engine that costs little; else to the one with the least forecast."""
        bracket, left = self.bracket, self.budget.left()
        untried = [e for e in alive if not e.history]
        # The prior of a relaxation is a guess, which must not keep it from a turn that costs little.
        new = {e: e.price(self.budget) for e in untried if e.prior() < bracket.upper or not e.continues}
        best = min(alive, key=lambda e: (e.forecast(left), e.spent))
        little = max(CHEAP_TRY * left, CHEAPER * new.get(best, 0.0))  # little beside the time of the next turn
        cheap = [e for e in new if new[e] <= little]
        if cheap and len(alive) > 1:
            chosen = min(cheap, key=lambda e: new[e])
            seconds = CHEAP_TIMES * max(new[chosen], TRIAL_SHARE * left)
            self._turn(chosen, self.budget.upto(seconds))
            return
        if best in new and not best.continues and (measured := self._falling(alive, best, new[best])):
            chosen = min(measured, key=lambda e: e.spent)
            self._turn(chosen, self.budget.upto(max(chosen.spent, TURN_LEAST)))
            return
        rivals = [e for e in alive if e is not best]
        # An engine that continues has turns even where it is alone, so that witnesses are looked for in between.
        seconds = self._length(best, rivals, new.get(best)) if rivals or best.continues else left
        self._turn(best, self.budget.upto(seconds))

    def _falling(self, alive: list[Engine], guess: Engine, price: float) -> list[Engine]:
        """Engines whose bound falls fast: they go before `guess`, an untried engine of this price.

        All of them, if `guess` promises no better bound than the proved one. Else those that can double their time for
        little beside the price of `guess`, while the remaining budget has room for both.
        """
        left = self.budget.left()
        most = min(left - price, CHEAPER * price) if guess.forecast(left) < self.bracket.upper else math.inf
        going = [e for e in alive if e.history and e.continues and e.spent <= most]
        return [e for e in going if e.forecast(e.spent) < FALLING * e.upper < math.inf]

    def _length(self, best: Engine, rivals: list[Engine], price: float | None) -> float:
        """Seconds of a turn of `best` while rivals wait; `price` is given if it is its first turn."""
        left = self.budget.left()
        share = TURN_SHARE
        if not best.continues:
            near = min(e.forecast(left) for e in rivals) < RIVAL * best.forecast(left)
            share = LONG_SHARE if near else LONGEST_SHARE
        seconds = max(share * left, TURN_LEAST)
        if price is not None:
            seconds = min(seconds, max(PRICES * price, CHEAP_TRY * left))
        elif best.history and math.isinf(best.upper):
            seconds = min(seconds, max(AGAIN_TIMES * best.longest, TURN_LEAST))
        elif best.continues and best.upper > self.bracket.upper:
            seconds = min(seconds, max(best.spent, TURN_LEAST))
        seconds = max(seconds, AGAIN_TIMES * best.least(self.budget))
        return seconds if seconds <= LONGEST_SHARE * left else left

    def _turn(self, engine: Engine, budget: Budget) -> None:
        before = engine.spent
        try:
            engine.take_turn(budget)
        except MemoryError:
            engine.spent += 1e-9
            self._end_by_memory(engine)
        if self.budget.memory.full():
            self._end_by_memory(engine)
        if self._goes_on():
            self.between(engine.spent - before, self.budget)

    def _end_by_memory(self, engine: Engine) -> None:
        """End an engine that fills the memory, and free its state: the others may go on."""
        engine.ended = True
        engine.conclude()
        engine.release()
        self.bracket.out_of_memory(engine.name, self.budget)
        gc.collect()

    def _goes_on(self) -> bool:
        bracket = self.bracket
        if bracket.status in (Status.TIME_LIMIT, Status.WORK_LIMIT, Status.MEMORY_LIMIT):
            bracket.clear_limit()  # the end of a turn is not the end of the budget
        return not (bracket.closed() or bracket.status is not Status.DONE or self.budget.over())
