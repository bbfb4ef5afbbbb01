"""A block of boxes, bounded: the piece of work that processes share and that a job folder keeps.

What a folder holds is not believed. A block that is found there is proved again: its bounds and signs are computed from
the boxes, by the very calls that made them, so that the bits are the same; its points are evaluated. Only the choice of
points and of the next split is taken over, which can be good or bad, but not wrong.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.gradients import slope_bounds
from lipcert.cells.points import Lowers
from lipcert.errors import FileFormatError
from lipcert.files.archive import Archive
from lipcert.jobs import Answer, Outcome, Piece
from lipcert.method.branching.judge import coordinate_scores
from lipcert.proof.arithmetic import prove_linear
from lipcert.proof.boxes import Asked, lines_on, preactivations_on
from lipcert.proof.cells import Signs
from lipcert.rounding import Array

NEVER = -1  # in place of the coordinate to split: the box is too narrow
_NARROW = 1e-9  # against its numbers

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Block:
    """Boxes of the region, and signs of neurons that hold on them already."""

    lo: Array
    hi: Array
    signs: Signs

    @property
    def digest(self) -> str:
        """The same for the same boxes and signs."""
        parts = (self.lo.tobytes(), self.hi.tobytes(), self.signs.tobytes())
        return hashlib.sha256(b"".join(parts)).hexdigest()[:24]


@dataclass(frozen=True, eq=False)
class Found:
    """Of every box: a proved bound, a point with a proved lower bound, the coordinate to split, and its signs."""

    upper: Array
    lower: Array
    points: Array
    choice: Index
    signs: Signs


_NAMES = re.compile("|".join(Found.__dataclass_fields__))


def bounded(asked: Asked, block: Block, hints: tuple[Array, Index] | None = None) -> Found:
    """The boxes of a block bounded; `hints` are points and choices that were found before."""
    net, boxes, lowers = asked.problem.network, asked.places(block.lo, block.hi), Lowers(asked)
    if not net.depth:
        upper, signs, score = np.full(len(block.lo), prove_linear(asked.problem).upper), block.signs, 0.0 * block.lo
    else:
        pre, signs = preactivations_on(asked, boxes, block.signs)
        (upper, linear), score = lines_on(asked, boxes, pre), 0.0 * block.lo
        if hints is None:
            scores = coordinate_scores(net, slope_bounds(net, pre), linear, boxes.hi / 2 - boxes.lo / 2)
            score = scores[:, : block.lo.shape[1]]
    points, lower = lowers.best(block.lo, block.hi, upper) if hints is None else (hints[0], lowers.proved(hints[0]))
    return Found(upper, lower, points, choices(block, score) if hints is None else hints[1], signs)


def choices(block: Block, score: Array) -> Index:
    """The coordinate whose split gains most by the scores; the widest where they say nothing."""
    width = block.hi - block.lo
    wide = width > _NARROW * np.maximum(np.abs(block.lo), np.abs(block.hi))
    middle = block.lo / 2 + block.hi / 2
    wide &= (block.lo < middle) & (middle < block.hi)
    score = np.where(np.isfinite(score), score, 0.0)
    told = np.where(wide, score, -1.0).max(axis=1, keepdims=True) > 0
    best = np.where(wide, np.where(told, score, width), -1.0).argmax(axis=1)
    return np.where(wide.any(axis=1), best, NEVER)


def piece(name: str, asked: Asked, block: Block) -> Piece:
    """The work of a block, whose answer is a file."""
    return Piece(name, _answer, (asked, block, None))


def again(name: str, asked: Asked, block: Block, hints: tuple[Array, Index]) -> Piece:
    """A block that was found in a folder, proved again."""
    return Piece(name, _answer, (asked, block, hints))


def _answer(asked: Asked, block: Block, hints: tuple[Array, Index] | None) -> Answer:
    found = bounded(asked, block, hints)
    file = io.BytesIO()
    arrays: dict[str, NDArray[Any]] = {name: getattr(found, name) for name in Found.__dataclass_fields__}
    np.savez(file, allow_pickle=False, **arrays)
    return Answer({"cells": len(block.lo), "upper": _most(found.upper)}, {"npz": file.getvalue()})


def _most(values: Array) -> float | None:
    top = float(values.max(initial=0.0))
    return top if np.isfinite(top) else None


def read_answer(outcome: Outcome) -> Found:
    """What a piece of this run has just computed."""
    with np.load(io.BytesIO(outcome.read("npz")), allow_pickle=False) as arrays:
        return Found(*(arrays[name] for name in Found.__dataclass_fields__))


def read_hints(path: Path, block: Block) -> tuple[Array, Index] | None:
    """The points and choices of a block in a folder; None where they cannot be used, and it has to be done anew."""
    try:
        arrays = Archive(path, _NAMES, content="a block of cells", advice="remove it")
        points, choice = arrays["points"], arrays["choice"]
    except (FileFormatError, OSError, MemoryError):
        return None
    if points.shape != block.lo.shape or choice.shape != (len(block.lo),) or choice.dtype.kind not in "iu":
        return None
    points, choice = points.astype(np.float64), choice.astype(np.int64)
    inside = np.all((points >= block.lo) & (points <= block.hi))
    i = np.clip(choice, 0, block.lo.shape[1] - 1)[:, None]
    lo, hi = (np.take_along_axis(end, i, axis=1)[:, 0] for end in (block.lo, block.hi))
    middle = lo / 2 + hi / 2
    sensible = (choice == NEVER) | ((choice == i[:, 0]) & (lo < middle) & (middle < hi))
    return (points, choice) if inside and np.all(sensible) else None
