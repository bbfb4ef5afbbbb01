"""Turns: several engines work on one bracket, and each goes on while it promises more than the others.

    forecast   the bound falls by about the same factor with every doubling of an engine's work: what the last
               doublings bought says where it will be when all that is left is given to it

Engines are tried first, those that are cheap before those that are not. What is left goes to the engine with the least
forecast, half of it at a time, so that a forecast that was wrong is found out; to one that is still behind the bracket
no more than it has had, so that this happens soon. Nothing here knows a network: only what the run has measured
decides.

A longer run begins as a shorter one would (`stages`): what it has proved when the time of that one is over, it keeps.
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
PRICES = 4.0  # times its expected price, at most, for the first turn of a relaxation
CHEAP_TRY = 0.05  # an untried engine whose price is below this share of the remaining budget goes first,
CHEAP_TIMES = 3.0  # with a turn of so many times its price (or of a first turn, where that is longer)
CHEAPER = 0.25  # an engine is cheap beside a better untried one if it costs at most this share of that one's price
FALLING = 0.9  # an engine falls fast if twice its work is expected to leave at most this share of its bound
RIVAL = 1.25  # a rival's forecast is at most so many times the best forecast
LONG_SHARE = 0.5  # share of the remaining budget for an engine that cannot be continued and has a rival,
LONGEST_SHARE = 0.85  # and for one that has none
HOPE_TIMES = 5.0  # a failed engine is believed again when it gets more than so many times its longest turn
EARLY = 0.5  # an engine has stopped early if it used less than this share of its turn
IDLE_TURNS = 3  # early turns in a row without a gain that end an engine which begins anew each time
AGAIN_TIMES = 2.0  # times the longest turn so far that another turn must have to be worth taking


class Engine:
    """Something that can go on: `turn` works within a budget, improves the bracket, and can be called again.

    `upper` is what the engine has proved by itself; `ended` that another turn would change nothing.
    """

    name: str
    upper: float = math.inf
    ended: bool = False
    continues: bool = True  # whether a turn goes on where the last one ended, so that short ones are not wasted
    short: bool = False  # whether its last turn was too short to begin with
    tired: bool = False  # whether it ended because its turns came to nothing: with more time it is asked again

    def __init__(self) -> None:
        self.spent, self.longest = 0.0, 0.0  # in all turns, and the longest that it was given
        self.idle = 0  # turns in a row that stopped early, without a gain
        self.history: list[tuple[float, float]] = []  # what was spent by then, and the bound

    def turn(self, budget: Budget) -> None:
        """Work within the budget."""
        raise NotImplementedError

    def price(self, budget: Budget) -> float:  # noqa: ARG002 - an engine that gives bounds from its first moment on
        """Seconds of the budget's clock before its first turn is worth anything."""
        return 0.0

    def least(self, budget: Budget) -> float:  # noqa: ARG002 - for engines that know what comes next
        """Seconds that another turn must have to be worth anything: to begin anew, more than ever."""
        if self.short:
            return SHORT_AGAIN * self.longest
        return 0.0 if self.continues else self.longest

    def waits(self, budget: Budget) -> bool:  # noqa: ARG002 - for engines that are dear
        """Whether it has turns only where nobody else can use what is left of this budget."""
        return False

    def conclude(self) -> None:
        """Notes for the user after the last turn."""

    def release(self) -> None:
        """Give back what it has in memory; it takes no turn afterwards."""

    def take_turn(self, budget: Budget) -> None:
        """A turn, remembered for the forecast."""
        before, given, upper = budget.now(), budget.left(), self.upper
        self.turn(budget)
        seconds = max(budget.now() - before, 1e-9)
        self.spent, self.longest = self.spent + seconds, max(self.longest, given)
        self.history.append((self.spent, self.upper))
        early = given <= 0 or seconds < EARLY * given
        self.idle = self.idle + 1 if early and not self.short and not self.upper < upper else 0
        self.tired = not self.ended and self.idle >= (1 if self.continues else IDLE_TURNS)
        self.ended = self.ended or self.tired

    def rested(self) -> None:
        """There is more time than there was."""
        self.ended, self.tired, self.idle = self.ended and not self.tired, False, 0

    def prior(self) -> float:
        """About where its bound will be, before its first turn."""
        return math.inf

    def forecast(self, more: float) -> float:
        """About where its bound will be after so many more seconds."""
        anew = math.isinf(self.upper) or not self.continues
        if not self.history or (anew and more > HOPE_TIMES * self.longest):
            return min(self.prior(), self.upper)  # nothing is known of it, but what it does in much less time
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
SHORTEST = 1  # The first stage ends at this power: in one second there is no room for the first turns of all engines.
LAST_STAGE = 3.0  # The whole is at least so many times as long as all stages but the last, so that long solves fit in.

SHORT_AGAIN = 1.1  # A turn that was too short to begin with is tried again with at least so many times as much.

Between = Callable[[float, Budget], None]  # is told what a turn took, and may take some more


def stages(budget: Budget) -> Iterator[Budget]:
    """The budget in parts, whose ends do not depend on how long it is, but for the last: so more work begins with what
    less of it does. 4, 16, 64, .. seconds after its start a call has what one has that ends there.
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
    """Until the bracket is closed, the budget is over, or every engine has ended."""
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
        """Two turns for each new engine that gives bounds soon, the second longer: a forecast needs two points."""
        total = self.budget.left()
        first = max(TRIAL_SHARE * total, min(total, TRIAL_LEAST))
        new = [e for e in self.engines if e.continues and not e.history and e not in self.waiting]
        quick = [e for e in new if e.price(self.budget) <= first]
        for times in (1.0, 2.0):
            for engine in quick:
                if not engine.ended and self._goes_on():
                    self._turn(engine, self.budget.upto(times * first))

    def _next(self, alive: list[Engine]) -> None:
        """A new engine that costs little; else the one that promises most, long where no other comes near."""
        bracket, left = self.bracket, self.budget.left()
        untried = [e for e in alive if not e.history]
        # What is expected of a relaxation is a guess, which must not keep it from a turn that costs little.
        new = {e: e.price(self.budget) for e in untried if e.prior() < bracket.upper or not e.continues}
        best = min(alive, key=lambda e: (e.forecast(left), e.spent))
        little = max(CHEAP_TRY * left, CHEAPER * new.get(best, 0.0))  # beside what is about to be spent
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
        # One that goes on where it was has turns also where it is alone, so that witnesses are looked for in between.
        seconds = self._length(best, rivals, new.get(best)) if rivals or best.continues else left
        self._turn(best, self.budget.upto(seconds))

    def _falling(self, alive: list[Engine], guess: Engine, price: float) -> list[Engine]:
        """Engines whose bound falls fast: they are asked again before one of which nothing is known but a guess.

        All of them where it promises no less than what is proved; else those for which twice the work costs little
        beside its price, while there is room for both.
        """
        left = self.budget.left()
        most = min(left - price, CHEAPER * price) if guess.forecast(left) < self.bracket.upper else math.inf
        going = [e for e in alive if e.history and e.continues and e.spent <= most]
        return [e for e in going if e.forecast(e.spent) < FALLING * e.upper < math.inf]

    def _length(self, best: Engine, rivals: list[Engine], price: float | None) -> float:
        """Of a turn, where others wait; `price` is that of an engine that has had none."""
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
        """An engine that fills the memory ends, and what it has is given back: the others may go on."""
        engine.ended = True
        engine.conclude()
        engine.release()
        self.bracket.out_of_memory(engine.name, self.budget)
        gc.collect()

    def _goes_on(self) -> bool:
        bracket = self.bracket
        if bracket.status in (Status.TIME_LIMIT, Status.WORK_LIMIT, Status.MEMORY_LIMIT):
            bracket.go_on()  # a turn was over, not the budget
        return not (bracket.closed() or bracket.status is not Status.DONE or self.budget.over())
