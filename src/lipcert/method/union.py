"""bound_union(): the largest constant of several regions, with most of the budget where the upper bound is largest.

Cheap bounds and a short search come first, on every region. Then the region with the largest upper bound has a turn of
half of what is left, or of all of it when no other matters any more. A region matters while its upper bound is above
the largest gradient that was found anywhere; its turn ends as soon as it no longer is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from lipcert.budget import Budget
from lipcert.errors import InputError, shown
from lipcert.method import table
from lipcert.method.bound import Call
from lipcert.method.halfspaces import NoPointError
from lipcert.method.result import Result
from lipcert.method.union_result import UnionResult
from lipcert.problem.network import Network
from lipcert.problem.region import Everywhere, Region
from lipcert.proof.union import MOST_PARTS
from lipcert.readers.given import TorchModule
from lipcert.search.progress import NOTHING, Progress, Status

UNION_FIRST = 0.2  # share of the budget for cheap bounds on all regions
UNION_SHARE = 0.5  # share of the remaining budget for a turn on one region

_DEFAULTS: dict[str, Any] = {
    "method": "auto",
    "literal": False,
    "solver": "auto",
    "seed": 0,
    "lower": True,
    "gap": 0.0,
    "below": None,
    "workers": 1,
    "scheduler": None,
    "memory": None,
}
_QUESTION: dict[str, Any] = {"output": None, "norm": "inf", "output_norm": None}
_WEIGHTS: dict[str, Any] = {"input_weights": None, "output_weights": None, "inputs": None}


def bound_union(
    net: Network | str | os.PathLike[str] | TorchModule,
    regions: Sequence[Region],
    *,
    time_limit: float = 60.0,
    work: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> UnionResult:
    """Bracket the largest Lipschitz constant of several regions: of boxes that a property names, say.

        L = max over regions of max { ||gradient of c'scores at x||_dual : x in the region }

    (Two points of different regions are compared only where one convex region holds both.)

    Args:
        net: as for `bound`.
        regions: at most 1,000 of them, each as for `bound`.
        time_limit, work: of all regions together.
        on_progress: as for `bound`, with the bracket of the region that is worked on.
        options: `output`, `norm`, `method` and all others of `bound`.

    Guarantees: those of `bound`, for every region; `upper` is the largest upper bound, `lower` the largest lower one.
    """
    unknown = sorted(set(options) - set(_DEFAULTS) - set(_QUESTION) - set(_WEIGHTS))
    if unknown:
        raise InputError(f"bound_union has no option {unknown[0]!r}; it has those of bound")
    if not isinstance(regions, Iterable):
        raise InputError(f"regions={shown(regions)}: give a list of regions; bound is for one of them")
    regions = tuple(regions)
    if not 1 <= len(regions) <= MOST_PARTS:
        raise InputError(f"{len(regions)} regions; give 1 to {MOST_PARTS:,}")
    given = {group: {n: options.get(n, v) for n, v in names.items()} for group, names in _GROUPS.items()}
    question, weights = tuple(given["question"].values()), tuple(given["weights"].values())
    first = regions[0]
    shape = None if isinstance(first, Everywhere) or not hasattr(first, "shape") else first.shape
    call = Call.of(net, shape, question=question, weights=weights, limits=(time_limit, work), **given["wishes"])
    budget = call.budget(time_limit, work)
    return _Run(call, regions, budget, on_progress).all()


_GROUPS = {"wishes": _DEFAULTS, "question": _QUESTION, "weights": _WEIGHTS}


class _Run:
    """The best result on every region so far."""

    def __init__(
        self, call: Call, regions: Sequence[Region], budget: Budget, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self.call, self.regions, self.budget, self.on_progress = call, regions, budget, on_progress
        self.found: list[Result] = []
        self.turns = [0] * len(regions)
        self.ended = [False] * len(regions)
        self.notes: list[str] = []
        self.empty: NoPointError | None = None
        self.interrupted = False

    @property
    def floor(self) -> float:
        """The largest gradient found anywhere."""
        return max((result.lower or 0.0 for result in self.found), default=0.0)

    def all(self) -> UnionResult:
        first = self.call.method if self.call.method.cheap else table.named("linear")
        part = 1.0 if self.call.method.cheap else UNION_FIRST
        each = part * self.budget.left() / len(self.regions)
        for k, region in enumerate(self.regions):
            try:
                self.found.append(self.call.on(region, self.budget.upto(each), self._tell(k), self.floor, first))
            except NoPointError as error:
                self.empty = error
                self.notes.append(f"region {k} of {len(self.regions)} is left out: its half-spaces have no point in it")
                continue
            if self.found[-1].status is Status.INTERRUPTED:
                raise KeyboardInterrupt  # of the others nothing is proved
        if not self.found:
            raise self.empty or InputError("no regions")
        while not (self.call.method.cheap or self.budget.over() or self.interrupted):
            top = self._next()
            if top is None:
                break
            self._turn(top)
        spent = self.budget.spent()
        return UnionResult(tuple(self.found), self._status(), spent.wall, spent.counted, tuple(self.notes))

    def _tell(self, k: int) -> Callable[[Progress], None] | None:
        """Progress with the number of the region."""
        tell = self.on_progress
        return None if tell is None else lambda p: tell(replace(p, stage=f"region {k}: {p.stage}"))

    def _matters(self, k: int) -> bool:
        """Whether a smaller upper bound of this region could change the answer."""
        wishes, upper = self.call.wishes, self.found[k].upper
        if wishes.below is not None and (upper < wishes.below or self.floor >= wishes.below):
            return False
        return upper > max(self.floor * (1 + wishes.gap), NOTHING)

    def _next(self) -> int | None:
        """The region with the largest upper bound, where that can still change; None when all is decided."""
        top = max(range(len(self.found)), key=lambda k: self.found[k].upper)
        return None if self.ended[top] or not self._matters(top) else top

    def _turn(self, k: int) -> None:
        others = sum(self._matters(j) and not self.ended[j] for j in range(len(self.found))) - 1
        alone = others == 0 or self.turns[k] > 0  # nothing else makes the largest bound smaller
        share = self.budget if alone else self.budget.share(UNION_SHARE)
        self.turns[k] += 1
        new, old = self.call.on(self.found[k].region, share, self._tell(k), self.floor), self.found[k]
        self.ended[k] = alone or new.status not in (Status.TIME_LIMIT, Status.WORK_LIMIT)
        self.interrupted = new.status is Status.INTERRUPTED
        self.found[k] = _better(old, new)

    def _status(self) -> Status:
        top = max(range(len(self.found)), key=lambda k: self.found[k].upper)
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
