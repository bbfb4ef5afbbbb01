"""Partition: cells of a box, and of every cell a proved bracket of its constant."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lipcert._version import __version__
from lipcert.chart.facts import Facts, ShownTable
from lipcert.chart.numbers import counted, rounded_down, rounded_up
from lipcert.errors import InputError, SoundnessError
from lipcert.problem.arrays import floats_of
from lipcert.problem.frame import Frame
from lipcert.problem.norms import Norm
from lipcert.problem.output import Output
from lipcert.problem.question import Question
from lipcert.problem.region import Box
from lipcert.proof.certificate import with_room
from lipcert.proof.partition import PartitionCertificate
from lipcert.proof.tree import Tree
from lipcert.rounding import Array
from lipcert.search.boxes import CellGoal
from lipcert.search.progress import Status, relative_gap


@dataclass(frozen=True, eq=False, repr=False)
class Partition(ShownTable):
    """The answer of `partition`: lower[k] <= L of cell k <= upper[k], cells lo[k] <= x <= hi[k] that cover the region.

    `upper` is proved, infinite where the time was over before a cell was looked at; `lower` is proved at `points[k]`, a
    point of the cell. `of_grid` says that the cells are those of a grid; their constants may come from splits inside
    them. `splits` counts all splits, `bounded` all boxes that were bounded.
    """

    kind: ClassVar[str] = "a partition"

    lo: Array
    hi: Array
    upper: Array
    lower: Array
    points: Array
    region: Box
    norm: Norm
    output: Output
    cover: Tree
    of_grid: bool
    goal: CellGoal
    status: Status
    seconds: float
    splits: int
    bounded: int
    network: dict[str, Any]
    resumed: int = 0  # blocks that were found in a folder, and proved again
    notes: tuple[str, ...] = field(default=())
    frame: Frame | None = None
    work: float = 0.0

    def __post_init__(self) -> None:
        wrong = np.flatnonzero(self.lower > self.upper)
        if wrong.size:
            k = int(wrong[0])
            raise SoundnessError(
                f"cell {k}: upper bound {self.upper[k]!r} lies below the gradient norm {self.lower[k]!r} at a point of "
                "it: a bug in lipcert, please report it with the network"
            )

    def __len__(self) -> int:
        return len(self.upper)

    @property
    def largest(self) -> tuple[float, float]:
        """The bracket of the constant of the whole region."""
        return float(self.lower.max()), float(self.upper.max())

    @property
    def gap(self) -> float | None:
        """(upper - lower) / lower of the whole region, as in `Result`."""
        return relative_gap(*self.largest)

    @property
    def witness(self) -> Array:
        """The point where the largest lower bound is proved."""
        return np.asarray(self.points[int(self.lower.argmax())])

    @property
    def certified(self) -> bool:
        """Whether every cell has a finite proved bound."""
        return bool(np.all(np.isfinite(self.upper)))

    @property
    def good(self) -> NDArray[np.bool_]:
        """Which cells are as good as was asked for."""
        return self.goal.reached(self.upper, self.lower, self.largest[0]) & np.isfinite(self.upper)

    @cached_property
    def certificate(self) -> PartitionCertificate:
        """The proof of all cells, for `save` and `lipcert verify`."""
        question = Question(self.network["sha256"], (self.region,), self.norm, self.output.c, frame=self.frame)
        return PartitionCertificate(question, self.cover, self.of_grid, with_room(self.upper))

    @property
    def _along(self) -> tuple[int, ...]:
        """Cells of the grid along every coordinate."""
        assert self.cover.grid is not None
        return self.cover.grid.shape

    def cell_at(self, points: ArrayLike) -> NDArray[np.int64]:
        """The number of the cell of every point, (points, inputs); -1 outside the region.

        A point on an edge belongs to several cells and is given to the last of them.
        """
        rows = self._rows(points)
        root, leaf = self.cover.locate(rows)
        return root if self.of_grid else leaf

    def constant_at(self, points: ArrayLike) -> Array:
        """The proved constant of the cell of every point, infinite outside the region."""
        cell = self.cell_at(points)
        return np.where(cell >= 0, self.upper[np.maximum(cell, 0)], np.inf)

    def _rows(self, points: ArrayLike) -> Array:
        try:
            rows = np.atleast_2d(floats_of(points))
        except (TypeError, ValueError):
            rows = np.zeros((0, 0))
        if rows.ndim != 2 or rows.shape[1] != self.region.size or np.any(np.isnan(rows)):
            raise InputError(f"points must be rows of {self.region.size} numbers")
        return rows

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The values of every cell, by name, as they are saved."""
        return {"lo": self.lo, "hi": self.hi, "lower": self.lower, "upper": self.upper, "points": self.points}

    def csv(self) -> str:
        """A row for every cell."""
        n = self.region.size
        heads = [*(f"lo_{i}" for i in range(n)), *(f"hi_{i}" for i in range(n)), "lower", "upper"]
        table = np.column_stack([self.lo, self.hi, self.lower, self.upper])
        file = io.StringIO()
        np.savetxt(file, table, fmt="%.17g", delimiter=",", header=",".join(heads), comments="")
        return file.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: everything but the cells themselves."""
        lower, upper = self.largest
        return {
            "cells": len(self),
            "grid": list(self._along) if self.of_grid else None,
            "upper": upper if math.isfinite(upper) else None,
            "lower": lower,
            "gap": self.gap,
            "witness": [float(e) for e in self.witness],
            "median": _finite(np.median(self.upper)),
            "least": _finite(self.upper.min()),
            "good": int(self.good.sum()),
            "certified": self.certified,
            "goal": self.goal.to_dict(),
            "status": self.status.name.lower(),
            "splits": self.splits,
            "bounded": self.bounded,
            "resumed": self.resumed,
            "seconds": round(self.seconds, 4),
            "work": round(self.work, 6),
            "norm": str(self.norm),
            "output_norm": self.norm.out,
            "weights": None if self.frame is None else self.frame.to_dict(self.norm),
            "region": self.region.to_dict(),
            "output": self.output.description,
            "network": self.network,
            "statement": self.certificate.statement.to_dict(),
            "notes": list(self.notes),
            "version": __version__,
        }

    def facts(self) -> Facts:
        """The short table that a person reads first."""
        lower, upper = self.largest
        gap = "unknown gap" if self.gap is None else f"gap {100 * self.gap:.3g} %"
        shape = " x ".join(map(str, self._along)) if self.of_grid else "adaptive"
        finite = self.upper[np.isfinite(self.upper)]
        ends = (
            [rounded_up(float(end), 6) for end in (finite.min(), finite.max(), np.median(finite))]
            if len(finite)
            else []
        )
        spread = "{} to {}, median {}".format(*ends) if ends else "none"
        rows = [
            ("cells", f"{len(self):,} ({shape}), {counted(self.splits, 'split')}"),
            ("upper", f"{spread}   proved, by cell"),
            ("largest", f"{rounded_down(lower)} <= L <= {rounded_up(upper)}   of the region, {gap}"),
        ]
        if not self.goal.none or not self.certified:
            rows.append(("good", f"{counted(int(self.good.sum()), 'cell')} as good as asked for"))
        about = self.certificate.statement
        rows += [*about.rows, ("time", f"{self.seconds:.2f} s   {self.status.value}")]
        rows.append(("network", "-".join(map(str, self.network["shape"]))))
        return Facts(about.sentence, [*rows, *(("note", note) for note in self.notes)])


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
