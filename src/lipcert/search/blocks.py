"""Blocks of cells: the pieces of work that processes or a cluster share, and that a job folder keeps.

Nothing in a folder is believed. A block that is found there is proved again: its bounds and signs are computed from the
cells by the very calls that made them, so that the bits are the same, and its points are evaluated. Only the choice of
points and of the next split is taken over, which can be good or bad, but not wrong.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, LipcertError, SoundnessError
from lipcert.files.archive import Archive, Expected
from lipcert.jobs import Answer, End, JobFolder, Outcome, Piece, run_pieces
from lipcert.jobs.run import JobProgress
from lipcert.proof.cells import Cells, Index, Signs
from lipcert.rounding import Array
from lipcert.search.scores import NEVER

Hints = tuple[Array, Index]  # for every cell the point and the coordinate to split that were found before


@dataclass(frozen=True, eq=False)
class Found:
    """The bounds of some cells: upper, lower and the point of it, the coordinate to split, and signs."""

    upper: Array
    lower: Array
    points: Array
    choice: Index
    signs: Signs

    def rows(self, k: Index) -> Found:
        """Some of the cells."""
        return Found(*(getattr(self, f.name)[k] for f in fields(self)))


class Objective(Protocol):
    """The number that every cell has, such as the Lipschitz constant on it, and how it is bounded.

    An objective is a value: it is sent to other processes, and the same cells have the same answer in each of them.
    """

    @property
    def batch(self) -> int:
        """How many cells are bounded at once."""

    @property
    def sign_columns(self) -> int:
        """How many signs of neurons a cell carries to its halves."""

    @property
    def operations(self) -> float:
        """About how many operations the bounds of one cell take."""

    def bound(self, cells: Cells, hints: Hints | None = None) -> Found:
        """Bound some cells and find points in them; with hints the points and choices are those."""


_NAMES = re.compile("|".join(Found.__dataclass_fields__))


class BlockRunner:
    """Has blocks bounded by an executor, and keeps the answers in a job folder where there is one."""

    def __init__(self, objective: Objective, executor: Executor, folder: JobFolder | None) -> None:
        self.objective, self.executor, self.folder = objective, executor, folder
        self.resumed = 0  # blocks that were found in the folder, and proved again

    def run(
        self, name: str, blocks: Sequence[Cells], see: Callable[[JobProgress], None], deadline: float | None
    ) -> tuple[list[Found | None], End]:
        """The bounds of every block, None where it was not done, and why the run ended."""
        names = [f"{name}-{k:05d}-{_digest(block)}" for k, block in enumerate(blocks)]
        hints = [self._hints(*pair) for pair in zip(names, blocks, strict=True)]
        found: dict[str, Found] = {}
        end = End.FINISHED
        for stored in (True, False):
            which = [k for k in range(len(blocks)) if (hints[k] is not None) == stored]
            if not which or end is not End.FINISHED:
                continue
            pieces = [Piece(names[k], _answer, (self.objective, blocks[k], hints[k])) for k in which]
            run = run_pieces(pieces, None if stored else self.folder, self.executor, see, deadline)
            for failed, error in run.failures.items():
                kind = SoundnessError if error.startswith(SoundnessError.__name__) else LipcertError
                raise kind(f"{failed}: {error}")
            end = run.end
            found |= {done: _read(outcome) for done, outcome in run.outcomes.items()}
            self.resumed += len(run.outcomes) if stored else 0
        return [found.get(own) for own in names], end

    def _hints(self, name: str, block: Cells) -> Hints | None:
        """The outcome of a block in the folder, None where it is of no use; damaged records are noted there."""
        stored = None if self.folder is None else self.folder.load(name)
        if stored is None:
            return None
        file = stored.files.get("npz")
        hints = _read_hints(file, block) if isinstance(file, Path) else None
        if hints is None and self.folder is not None:
            self.folder.forget(name)
        return hints


def _digest(block: Cells) -> str:
    """A hash of the boxes and signs of a block."""
    parts = (block.lo.tobytes(), block.hi.tobytes(), block.signs.tobytes())
    return hashlib.sha256(b"".join(parts)).hexdigest()[:24]


def _answer(objective: Objective, block: Cells, hints: Hints | None) -> Answer:
    """The work of a piece, whose answer is a file."""
    found = objective.bound(block, hints)
    file = io.BytesIO()
    arrays: dict[str, NDArray[Any]] = {f.name: getattr(found, f.name) for f in fields(found)}
    np.savez(file, allow_pickle=False, **arrays)
    top = float(found.upper.max(initial=0.0))
    return Answer({"cells": len(block), "upper": top if np.isfinite(top) else None}, {"npz": file.getvalue()})


def _read(outcome: Outcome) -> Found:
    """The bounds that a piece of this run has just computed."""
    with np.load(io.BytesIO(outcome.read("npz")), allow_pickle=False) as arrays:
        return Found(*(arrays[f.name] for f in fields(Found)))


def _read_hints(path: Path, block: Cells) -> Hints | None:
    """The points and choices of a block in a folder; None where they cannot be used, and it has to be done anew."""
    try:
        arrays = Archive(path, Expected(_NAMES, "a block of cells", "remove it"))
        points, choice = arrays["points"], arrays["choice"]
    except (FileFormatError, OSError, MemoryError):
        return None
    if points.shape != block.lo.shape or choice.shape != (len(block),) or choice.dtype.kind not in "iu":
        return None
    points, choice = points.astype(np.float64), choice.astype(np.int64)
    inside = np.all((points >= block.lo) & (points <= block.hi))
    i = np.clip(choice, 0, block.lo.shape[1] - 1)[:, None]
    lo, hi = (np.take_along_axis(end, i, axis=1)[:, 0] for end in (block.lo, block.hi))
    middle = lo / 2 + hi / 2
    sensible = (choice == NEVER) | ((choice == i[:, 0]) & (lo < middle) & (middle < hi))
    return (points, choice) if inside and np.all(sensible) else None
