"""Several regions: their largest constant, with most of the budget where the upper bound is largest.

Cheap bounds and a short search come first, on every region. Then the region with the largest upper bound has a turn of
half of what is left, or of all of it when no other matters any more. A region matters while its upper bound is above
the largest gradient that was found anywhere; its turn ends as soon as it no longer is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.method import table
from lipcert.method.halfspaces import NoPointError
from lipcert.method.result import Result, UnionResult
from lipcert.method.run import answer
from lipcert.problem.question import Question
from lipcert.problem.region import Region
from lipcert.search.progress import NOTHING, Progress, Status
from lipcert.search.settings import Settings

UNION_FIRST = 0.2  # share of the budget for cheap bounds on all regions
UNION_SHARE = 0.5  # share of the remaining budget for a turn on one region


class RegionTurns:
    """The best result on every region so far, and which region has the next turn."""

    def __init__(
        self,
        question: Question,
        settings: Settings,
        budget: Budget,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.question, self.settings, self.budget, self.on_progress = question, settings, budget, on_progress
        count = len(question.regions)
        self.found: list[Result] = []
        self.turns, self.ended = [0] * count, [False] * count
        self.notes: list[str] = []
        self.empty: NoPointError | None = None
        self.interrupted = False

    @property
    def floor(self) -> float:
        """The largest gradient found anywhere."""
        return max((result.lower or 0.0 for result in self.found), default=0.0)

    def run(self) -> UnionResult:
        """Give turns until the largest constant is as good as asked for, or the budget is over."""
        cheap = table.named(self.settings.method, self.settings.literal).cheap
        self._first(self.settings if cheap else replace(self.settings, method="linear", literal=False), cheap)
        while not (cheap or self.budget.over() or self.interrupted):
            top = self._next()
            if top is None:
                break
            self._turn(top)
        return UnionResult.of(self.found, self._status(), self.budget.spent(), self.notes)

    def _first(self, settings: Settings, alone: bool) -> None:
        """One cheap turn for every region; `alone` says that no other turn follows."""
        regions = self.question.regions
        each = (1.0 if alone else UNION_FIRST) * self.budget.left() / len(regions)
        for k, region in enumerate(regions):
            try:
                self.found.append(self._answer(k, region, settings, self.budget.upto(each)))
            except NoPointError as error:
                self.empty = error
                self.notes.append(f"region {k} of {len(regions)} is left out: its half-spaces have no point in it")
                continue
            if self.found[-1].status is Status.INTERRUPTED:
                raise KeyboardInterrupt  # nothing is proved of the other regions
        if not self.found:
            raise self.empty or InputError("no regions")

    def _answer(self, k: int, region: Region, settings: Settings, budget: Budget) -> Result:
        question = replace(self.question, regions=(region,))
        return answer(question, settings, budget, self._numbered(k), self.floor)

    def _numbered(self, k: int) -> Callable[[Progress], None] | None:
        """A callback that puts the number of the region before the stage; None if the caller gave none."""
        tell = self.on_progress
        return None if tell is None else lambda p: tell(replace(p, stage=f"region {k}: {p.stage}"))

    def _matters(self, k: int) -> bool:
        """Whether a smaller upper bound of this region could change the answer."""
        below, upper = self.settings.below, self.found[k].upper
        if below is not None and (upper < below or self.floor >= below):
            return False
        return upper > max(self.floor * (1 + self.settings.gap), NOTHING)

    def _top(self) -> int:
        """The number of the region with the largest upper bound."""
        return max(range(len(self.found)), key=lambda k: self.found[k].upper)

    def _next(self) -> int | None:
        """The number of that region if its bound can still change and matters; None when all is decided."""
        top = self._top()
        return None if self.ended[top] or not self._matters(top) else top

    def _turn(self, k: int) -> None:
        others = sum(self._matters(j) and not self.ended[j] for j in range(len(self.found))) - 1
        alone = others == 0 or self.turns[k] > 0  # nothing else makes the largest bound smaller
        share = self.budget if alone else self.budget.share(UNION_SHARE)
        self.turns[k] += 1
        new = self._answer(k, self.found[k].region, self.settings, share)
        self.ended[k] = alone or new.status not in (Status.TIME_LIMIT, Status.WORK_LIMIT)
        self.interrupted = new.status is Status.INTERRUPTED
        self.found[k] = _better(self.found[k], new)

    def _status(self) -> Status:
        top = self._top()
        if not self._matters(top):
            return Status.DONE
        status = self.found[top].status
        if status is Status.DONE and self.budget.over():
            return Status.WORK_LIMIT if self.budget.repeatable else Status.TIME_LIMIT
        return status


def _better(old: Result, new: Result) -> Result:
    """The newer one with the better certificate and the better witness of both."""
    certificate = new.certificate if new.upper <= old.upper else old.certificate
    best = new.best if (new.lower or 0.0) >= (old.lower or 0.0) else old.best
    return replace(new, certificate=certificate, best=best, seconds=old.seconds + new.seconds, work=old.work + new.work)
