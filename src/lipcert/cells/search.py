"""Rounds: the cells that are not good enough are split, the worst first, in blocks; after every block the leaves are a
cover whose constants are proved.

The rounds do not depend on how many workers there are, nor on whether blocks were found in a folder: the same question
gives the same leaves, however often it was killed on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from lipcert.budget import Budget
from lipcert.cells.blocks import Block, Found, Index, again, piece, read_answer, read_hints
from lipcert.cells.goal import Goal
from lipcert.cells.leaves import Leaves, open_rows
from lipcert.errors import LipcertError, SoundnessError
from lipcert.jobs import End, JobFolder, Run, run_pieces
from lipcert.jobs.progress import Progress as Pieces
from lipcert.method.bracket import Progress
from lipcert.method.branching.choose import cell_operations
from lipcert.method.result import Status
from lipcert.proof.boxes import Asked
from lipcert.proof.tree import Tree
from lipcert.steps import THIN

_BLOCK = 1024  # leaves that are split in one piece
_FIRST = 512  # leaves that a round splits at least,
_SHARE = 0.5  # and at least this share of those that are open
_PASSES, _CALLS = 4.0, 1e5  # operations for one box: times those of its linear forms, and besides
_ENDS = {End.DEADLINE: Status.TIME_LIMIT, End.INTERRUPTED: Status.INTERRUPTED}


class Search:
    """The mutable side of one call: leaves, budget, folder, and how it ended."""

    def __init__(
        self,
        asked: Asked,
        cover: Tree,
        goal: Goal,
        of_grid: bool,
        budget: Budget,
        folder: JobFolder | None,
        executor: Executor,
    ) -> None:
        self.asked, self.goal, self.of_grid, self.budget = asked, goal, of_grid, budget
        self.folder, self.executor = folder, executor
        self.leaves = Leaves(asked, cover)
        self.status = Status.DONE
        self.notes: list[str] = []
        self.splits = self.bounded = self.rounds = self.resumed = 0
        self.on_progress: Callable[[Progress], None] | None = None
        self._start = time.monotonic()
        self._stage = "starting"

    def run(self, most: int) -> None:
        """First bounds of all cells, then rounds until all are good enough, or `most` leaves, or the budget's end."""
        try:
            self._first()
            while self.status is Status.DONE and self._round(most):
                pass
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED
        if self.status is Status.DONE and not np.all(self.good):
            self.status = Status.OPEN

    @property
    def top(self) -> float:
        """The largest lower bound."""
        return float(self.leaves.lower.max(initial=0.0))

    @property
    def good(self) -> np.typing.NDArray[np.bool_]:
        """Which leaves are good enough: those of a grid beside the lower bound of their cell of the grid."""
        lower = self.leaves.of_roots()[1][self.leaves.root] if self.of_grid else self.leaves.lower
        return self.goal.reached(self.leaves.upper, lower, self.top) & self.leaves.done

    def _first(self) -> None:
        step = min(2 * _BLOCK, self.asked.batch)
        rows = [np.arange(k, min(k + step, len(self.leaves))) for k in range(0, len(self.leaves), step)]
        self._stage = f"{len(self.leaves):,} cells"
        self._blocks(rows, [self.leaves.block(own) for own in rows], self.leaves.keep)

    def _round(self, most: int) -> bool:
        """Split the worst leaves; False when there is nothing to split."""
        leaves = self.leaves
        rows = open_rows(leaves, self.good)
        room = most - len(leaves)
        if len(rows) and room <= 0:
            self.notes.append(f"cells: the limit of {most:,} was reached, {len(rows):,} of them are not good enough")
            return False
        rows = rows[: min(max(_FIRST, int(_SHARE * len(rows))), room)]
        if not len(rows):
            return False
        self.rounds += 1
        self._stage = f"{len(leaves):,} cells, splitting {len(rows):,}"
        step = max(1, min(_BLOCK, self.asked.batch // 2))
        parts = [rows[k : k + step] for k in range(0, len(rows), step)]
        self._blocks(parts, [leaves.halves(own) for own in parts], self._split)
        return True

    def _split(self, rows: Index, found: Found) -> None:
        self.leaves.split(rows, found)
        self.splits += len(rows)

    def _blocks(self, rows: list[Index], blocks: list[Block], keep: Callable[[Index, Found], None]) -> None:
        """Bound blocks, here or elsewhere, and keep what is found, in the order of the blocks."""
        affordable = self._affordable(blocks)
        rows, blocks = rows[:affordable], blocks[:affordable]
        names = [f"round-{self.rounds:05d}-{k:05d}-{block.digest}" for k, block in enumerate(blocks)]
        known = {name: self._hints(name, block) for name, block in zip(names, blocks, strict=True)}
        found: dict[str, Found] = {}
        for stored in (True, False):
            chosen = [(n, b) for n, b in zip(names, blocks, strict=True) if (known[n] is not None) == stored]
            if not chosen or self.status is Status.INTERRUPTED:
                continue
            pieces = [
                piece(name, self.asked, block)
                if (hints := known[name]) is None
                else again(name, self.asked, block, hints)
                for name, block in chosen
            ]
            run = run_pieces(pieces, None if stored else self.folder, self.executor, self._see, self._deadline)
            self._ended(run)
            found |= {name: read_answer(outcome) for name, outcome in run.outcomes.items() if not outcome.failed}
            self.resumed += len(run.outcomes) if stored else 0
        for own, name in zip(rows, names, strict=True):
            if name in found:
                self.bounded += len(found[name].upper)
                keep(own, found[name])
        self._report()

    def _affordable(self, blocks: Sequence[Block]) -> int:
        """How many of the blocks the counted work allows, which is charged; all of them on the wall clock."""
        each = _PASSES * cell_operations(self.asked.problem) + _CALLS
        cost = [len(b.lo) * each for b in blocks]
        for k, operations in enumerate(cost):
            if self.budget.over():
                self.status = Status.WORK_LIMIT if self.budget.repeatable else Status.TIME_LIMIT
                return k
            if self.budget.repeatable:
                self.budget.charge(operations, THIN)
        if not self.budget.repeatable:
            self.budget.charge(sum(cost), THIN)
        return len(blocks)

    @property
    def _deadline(self) -> float | None:
        return None if self.budget.repeatable else self.budget.end

    def _hints(self, name: str, block: Block) -> tuple[np.typing.NDArray[np.float64], Index] | None:
        """What the folder holds of a block, None where it is nothing of use; damaged records are noted there."""
        stored = None if self.folder is None else self.folder.load(name)
        if stored is None:
            return None
        file = stored.files.get("npz")
        hints = read_hints(file, block) if isinstance(file, Path) else None
        if hints is None and self.folder is not None:
            self.folder.forget(name)
        return hints

    def _ended(self, run: Run) -> None:
        for name, error in run.failures.items():
            kind = SoundnessError if error.startswith(SoundnessError.__name__) else LipcertError
            raise kind(f"{name}: {error}")
        if run.end is End.EXECUTOR_LOST:
            self.status = Status.OPEN
            self.notes.append("workers: they are gone; go on with resume where there is a folder")
        if run.end in _ENDS and self.status is Status.DONE:
            self.status = _ENDS[run.end]

    def _see(self, pieces: Pieces) -> None:
        blocks = f" ({pieces.done} of {pieces.total} blocks)" if pieces.total > 1 else ""
        self._report(blocks)

    def _report(self, more: str = "") -> None:
        if self.on_progress is None:
            return
        upper = float(self.leaves.upper.max())
        self.on_progress(Progress(time.monotonic() - self._start, self.top, upper, self._stage + more))
