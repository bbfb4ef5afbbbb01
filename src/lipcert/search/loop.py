"""Best first: the worst cells are bounded better or split until everything is good enough, or the budget is over.

Every search of the house is a `BestFirst`: it begins, makes steps, can be stopped by its budget or by Ctrl-C after any
step, and goes on later where it was. `Queue` orders cells that are objects; `lipcert.search.leaves` orders the rows of
a table.
"""

from __future__ import annotations

import heapq
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from lipcert.budget import Budget
from lipcert.proof import Certificate
from lipcert.proof.cells import Index
from lipcert.proof.sharpened import innermost
from lipcert.proof.tree import Tree
from lipcert.rounding import Array
from lipcert.search.leaves import Leaves
from lipcert.search.progress import Status
from lipcert.search.tree import Mask
from lipcert.witness import Witness

T = TypeVar("T")
L = TypeVar("L", bound=Leaves)


class BestFirst(ABC):
    """A search that can be continued: `run` as often as wanted."""

    def __init__(self) -> None:
        self.budget = Budget.unlimited()
        self.interrupted = False

    def run(self, budget: Budget) -> None:
        """Go on until nothing is left to do, the budget is over, or Ctrl-C."""
        self.budget = budget
        try:
            with np.errstate(all="ignore"):
                self.begin()
                self.interrupted = False
                while not self.over() and self.step():
                    self.report()
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.end()

    def begin(self) -> None:  # noqa: B027 - many searches need nothing here
        """Bound the first cells, or open those again that an interruption lost."""

    @abstractmethod
    def step(self) -> bool:
        """Work on the worst cells; False when nothing is left to do."""

    def over(self) -> bool:
        """Whether the budget ends here."""
        return self.budget.over()

    def report(self) -> None:  # noqa: B027 - many searches need nothing here
        """Tell a listener how far the search is."""

    def end(self) -> None:  # noqa: B027 - many searches need nothing here
        """Take back what is under way."""


@dataclass(frozen=True)
class SearchState:
    """The bracket in hand, how many cells are open, and how many were made."""

    lower: float
    upper: float
    open: int
    nodes: int


@dataclass(frozen=True, eq=False)
class SearchOutcome:
    """The proof so far, whether it closes the gap, the best witness, and how many cells are `stuck`: nothing here
    bounds them better."""

    certificate: Certificate
    state: SearchState
    closed: bool
    interrupted: bool
    witness: Witness | None = None
    stuck: int = 0

    @property
    def leaves(self) -> int:
        """How many leaves the tree in the certificate has."""
        proof = innermost(self.certificate.proof)
        return proof.count if isinstance(proof, Tree) else 0


class Queue(Generic[T]):
    """Items by their bounds, the largest first; of equal bounds the one that was pushed first."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, ...], int, T]] = []
        self._count = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def top(self) -> float:
        """The largest bound, 0 of an empty queue."""
        return -self._heap[0][0][0] if self._heap else 0.0

    def push(self, item: T, *bounds: float) -> None:
        """Add an item; its further bounds decide where the first ones are equal."""
        heapq.heappush(self._heap, (tuple(-bound for bound in bounds), next(self._count), item))

    def pop(self) -> tuple[float, T]:
        """The item with the largest bound, and that bound."""
        key, _, item = heapq.heappop(self._heap)
        return -key[0], item

    def above(self, threshold: float) -> Iterator[tuple[float, T]]:
        """Take items out, the worst first, while their bounds are above the threshold."""
        while self._heap and self.top > threshold:
            yield self.pop()


class LeafSearch(BestFirst, Generic[L]):
    """A search over a table of leaves, for a result about a whole region: it says how it ended."""

    def __init__(self, leaves: L, most: int) -> None:
        super().__init__()
        self.leaves, self.most = leaves, most
        self.status = Status.DONE
        self.notes: list[str] = []
        self.start = time.monotonic()

    @abstractmethod
    def good(self) -> Mask:
        """Which leaves are good enough, or which of the numbers that the question is about."""

    @abstractmethod
    def badness(self, leaves: L) -> Array:
        """How bad every leaf is, 0 where it is good enough. Leaves that are good may be dropped from the table."""

    @abstractmethod
    def size(self, count: int) -> int:
        """How many of `count` leaves are split in one step."""

    @abstractmethod
    def split(self, leaves: L, rows: Index) -> None:
        """Split these rows of a copy of the table, bound the halves, and keep the table that follows."""

    def room(self, leaves: L) -> int:
        """How many leaves may be split before there are too many."""
        return self.most - leaves.tree.leaves

    def run(self, budget: Budget) -> None:
        """Go on until everything is good enough, nothing can be split, the budget is over, or Ctrl-C."""
        super().run(budget)
        if self.interrupted:
            self.status = Status.INTERRUPTED
        if self.status is Status.DONE and not np.all(self.good()):
            self.status = Status.OPEN

    def over(self) -> bool:
        """Whether the search has ended: the budget is over, or an interruption was seen."""
        if self.status is Status.DONE and self.budget.over():
            self.status = Status.WORK_LIMIT if self.budget.repeatable else Status.TIME_LIMIT
        return self.status is not Status.DONE

    def step(self) -> bool:
        """Split the worst leaves; False when nothing can be split."""
        leaves = self.leaves.copy()
        rows = leaves.worst(self.badness(leaves))
        room = self.room(leaves)
        if len(rows) and room <= 0:
            count = f"{leaves.tree.leaves:,}"
            self.notes.append(f"cells: the limit of {count} was reached, {len(rows):,} of them are not good enough")
            return False
        if not len(rows):
            return False
        self.split(leaves, rows[: min(self.size(len(rows)), room)])
        return True
