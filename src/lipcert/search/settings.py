"""Settings: everything that a person may set besides the question, checked here for all verbs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lipcert.budget import Budget
from lipcert.budget.memory import Memory, as_size, check_share
from lipcert.errors import InputError
from lipcert.jobs.executors import check_workers
from lipcert.search.progress import CLOSED


@dataclass(frozen=True)
class Settings:
    """How an answer is to be found, and how long. A verb that lacks a setting leaves it at its default.

    method, literal  the name of the method, and whether it is solved as the paper states it
    solver           of relaxations
    time_limit       seconds
    work             counted work in place of seconds; one process then does all of it, so that runs repeat bit for bit
    seed             of random searches
    lower            whether the answer should have a lower bound with its witness
    gap              the relative gap at which a bracket is good enough, at least `CLOSED`
    below            a limit: whether the constant is below it is then all that is asked
    workers          processes; `scheduler` is the address of a Dask cluster in their place
    memory           as people write it, such as "4G"; None is the default share of the machine
    explain          whether the answer shows which engine worked when, and what came of it
    """

    method: str = "auto"
    literal: bool = False
    solver: str = "auto"
    time_limit: float = 60.0
    work: float | None = None
    seed: int = 0
    lower: bool = True
    gap: float = 0.0
    below: float | None = None
    workers: int = 1
    scheduler: str | None = None
    memory: int | float | str | None = None
    explain: bool = False

    def __post_init__(self) -> None:
        as_size(self.memory)
        if not _positive(self.time_limit):
            raise InputError.about("time_limit", f"must be a positive number of seconds, not {self.time_limit!r}")
        if self.work is not None and not _positive(self.work):
            raise InputError.about("work", f"must be a positive number of nominal seconds, not {self.work!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InputError.about("seed", f"must be a whole number >= 0, not {self.seed!r}")
        if not (isinstance(self.gap, int | float) and 0 <= self.gap < math.inf):
            raise InputError.about("gap", f"must be a number >= 0, such as 0.01, not {self.gap!r}")
        check_workers(self.workers)
        if self.below is not None and not _positive(self.below):
            raise InputError.about("below", f"must be a positive number, not {self.below!r}")
        changes: dict[str, Any] = {"time_limit": float(self.time_limit), "gap": max(float(self.gap), CLOSED)}
        if self.work is not None:  # the answer must not depend on who was free when
            changes |= {"workers": 1, "scheduler": None}
        for name, value in changes.items():
            object.__setattr__(self, name, value)

    def budget(self, memory: Memory | None = None) -> Budget:
        """The clock, which starts now, with a limit of memory if one is given."""
        return Budget.of_seconds(self.time_limit, memory) if self.work is None else Budget.of_work(self.work, memory)

    def own_memory(self) -> Memory:
        """The memory that this process may have: an equal part for it and for each of its workers."""
        limit = as_size(self.memory)
        if self.workers <= 1 or self.scheduler is not None:
            return Memory(limit)
        each = limit / (self.workers + 1)
        check_share(each, limit, self.workers)
        return Memory(each)


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
