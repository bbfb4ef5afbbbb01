"""Jacobian: of every entry a proved enclosure, the values that were seen, and what that says of its sign."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lipcert._version import __version__
from lipcert.bounds.interval import Interval
from lipcert.chart.facts import Facts, ShownTable
from lipcert.chart.numbers import rounded_down, rounded_up
from lipcert.errors import SoundnessError
from lipcert.problem.question import Question
from lipcert.problem.region import Region
from lipcert.proof.cells import Index
from lipcert.proof.jacobian import JacobianCertificate, seen_with_room, with_room
from lipcert.proof.tree import Tree
from lipcert.rounding import Array
from lipcert.search.jacobian.goal import EntryGoal, Verdict, scales, verdicts
from lipcert.search.progress import Status

_SHOWN = 36  # entries up to which a table has all of them,
_EXTREME = 3  # and else so many of each kind


@dataclass(frozen=True, eq=False, repr=False)
class Jacobian(ShownTable):
    """The answer of `jacobian`: lower[i, j] <= d score[i] / d input[j] <= upper[i, j] on the region.

    `scores` and `inputs` say which entries these are. `lower` and `upper` are proved. `seen_most` is a value that is
    proved to be reached or exceeded next to points[most_at], `seen_least` one that is reached or undercut next to
    points[least_at]: the true range of an entry lies within its enclosure and contains what was seen.
    """

    kind: ClassVar[str] = "a Jacobian"

    lower: Array
    upper: Array
    seen_least: Array
    seen_most: Array
    points: Array
    least_at: Index
    most_at: Index
    scores: Index
    inputs: Index
    region: Region
    splits: Tree
    goal: EntryGoal
    status: Status
    seconds: float
    network: dict[str, Any]
    notes: tuple[str, ...] = field(default=())
    work: float = 0.0
    resumed: int = 0  # cells that were found in a folder, and proved again

    def __post_init__(self) -> None:
        wrong = (self.seen_most > self.upper) | (self.seen_least < self.lower) | ~(self.lower <= self.upper)
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise SoundnessError(
                f"d score {self.scores[i]} / d input {self.inputs[j]}: what is seen at a point lies outside the "
                "enclosure: a bug in lipcert, please report it with the network"
            )
        for name in ("lower", "upper", "seen_least", "seen_most", "points"):
            getattr(self, name).flags.writeable = False

    @property
    def entries(self) -> Interval:
        """The enclosures."""
        return Interval(self.lower, self.upper)

    @property
    def seen(self) -> Interval:
        """The least and the largest values that were seen."""
        return Interval(self.seen_least, self.seen_most)

    @property
    def cells(self) -> int:
        """How many cells the region was split into."""
        return self.splits.count

    @cached_property
    def verdicts(self) -> NDArray[np.str_]:
        """The sign of every entry: increasing, decreasing, zero, both (signs are seen) or open."""
        return verdicts(self.entries, self.seen)

    @property
    def counts(self) -> dict[str, int]:
        """How many entries have each verdict."""
        return {v.value: int(np.sum(self.verdicts == v.value)) for v in Verdict}

    @cached_property
    def gaps(self) -> Array:
        """How far the ends of the enclosures are from values that were seen, against the largest |value| seen."""
        with np.errstate(all="ignore"):
            far = np.maximum(self.upper - self.seen_most, self.seen_least - self.lower) / scales(self.seen)
        return np.where(np.isnan(far), np.inf, far)

    @property
    def good(self) -> NDArray[np.bool_]:
        """Which entries are as good as was asked for."""
        finite = np.isfinite(self.lower) & np.isfinite(self.upper)
        return self.goal.reached(self.entries, self.seen) & finite

    @cached_property
    def certificate(self) -> JacobianCertificate:
        """The proof of all entries, for `save` and `lipcert verify`."""
        question = Question.of_entries(self.network["sha256"], self.region, self.scores, self.inputs)
        claims, seen, at = with_room(self.entries), seen_with_room(self.seen), (self.least_at, self.most_at)
        return JacobianCertificate(question, self.splits, claims, self.points, seen, at)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All values by name, as they are saved."""
        names = ("lower", "upper", "seen_least", "seen_most", "points", "least_at", "most_at", "scores", "inputs")
        return {name: getattr(self, name) for name in names}

    def csv(self) -> str:
        """A row for every entry."""
        file = io.StringIO()
        file.write("output,input,lower,upper,seen_least,seen_most,gap,verdict\n")
        for i, score in enumerate(self.scores):
            for j, column in enumerate(self.inputs):
                tables = (self.lower, self.upper, self.seen_least, self.seen_most, self.gaps)
                numbers = ",".join(f"{table[i, j]:.17g}" for table in tables)
                file.write(f"{score},{column},{numbers},{self.verdicts[i, j]}\n")
        return file.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite number is null."""
        tables = {name: getattr(self, name) for name in ("lower", "upper", "seen_least", "seen_most", "gaps")}
        return {
            "outputs": self.scores.tolist(),
            "inputs": self.inputs.tolist(),
            **{name: _plain(table) for name, table in tables.items()},
            "verdicts": self.verdicts.tolist(),
            "counts": self.counts,
            "good": int(self.good.sum()),
            "gap": self.goal.gap,
            "largest_gap": _plain(self.gaps.max()),
            "points": self.points.tolist(),
            "least_at": self.least_at.tolist(),
            "most_at": self.most_at.tolist(),
            "cells": self.cells,
            "resumed": self.resumed,
            "status": self.status.name.lower(),
            "seconds": round(self.seconds, 4),
            "work": round(self.work, 6),
            "region": self.region.to_dict(),
            "network": self.network,
            "statement": self.certificate.statement.to_dict(),
            "notes": list(self.notes),
            "version": __version__,
        }

    def shown(self) -> list[tuple[int, int]]:
        """The entries of a short table, by their places: all if they are few, else the extreme ones."""
        if self.lower.size <= _SHOWN:
            return [(int(i), int(j)) for i, j in np.ndindex(*self.lower.shape)]
        extreme: list[int] = []
        for key in (-self.upper, self.lower, -self.gaps):
            extreme += np.argsort(key, axis=None, kind="stable")[:_EXTREME].tolist()
        columns = self.lower.shape[1]
        return [divmod(int(k), columns) for k in dict.fromkeys(extreme)]

    def words(self, i: int, j: int) -> str:
        """The facts about one entry, by its place."""
        seen = f"seen {self.seen_least[i, j]:.6g} to {self.seen_most[i, j]:.6g}"
        low, high = rounded_down(float(self.lower[i, j])), rounded_up(float(self.upper[i, j]))
        return f"[{low}, {high}]   {seen}   {self.verdicts[i, j]}"

    def facts(self) -> Facts:
        """A short table."""
        rows, columns = self.lower.shape
        counted = ", ".join(f"{count:,} {word}" for word, count in self.counts.items() if count)
        goal = "signs" if self.goal.gap is None else f"gap {self.goal.gap:g}"
        gap = float(self.gaps.max())
        table = [
            ("entries", f"{rows} x {columns}: {counted}"),
            ("good", f"{int(self.good.sum()):,} of {self.lower.size:,} as asked for ({goal}); largest gap {gap:.3g}"),
            *((f"d {self.scores[i]} / d {self.inputs[j]}", self.words(i, j)) for i, j in self.shown()),
            ("cells", f"{self.cells:,}"),
            *self.certificate.statement.rows,
            ("time", f"{self.seconds:.2f} s   {_ENDS.get(self.status, self.status.value)}"),
            ("network", "-".join(map(str, self.network["shape"]))),
            *(("note", note) for note in self.notes),
        ]
        return Facts(self.certificate.statement.sentence, table)


_ENDS = {
    Status.OPEN: "ended with entries that nothing here decides",
    Status.TIME_LIMIT: "stopped at the time limit with what is proved by then",
    Status.WORK_LIMIT: "stopped when the work was done, with what is proved by then",
    Status.INTERRUPTED: "interrupted with what is proved by then",
}


def _plain(table: Any) -> Any:
    """Numbers, None in place of infinite ones."""
    if np.ndim(table) == 0:
        return float(table) if math.isfinite(table) else None
    return [_plain(row) for row in table]
