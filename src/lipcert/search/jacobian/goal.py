"""The goal of a search for the entries of a Jacobian: their signs, or narrow enclosures; and how far off it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.errors import InputError
from lipcert.rounding import Array

_LEAST = 1e-9  # relative to the largest entry: a smaller entry counts as this one in comparisons


class Verdict(Enum):
    """The proved sign of an entry on the region; the value is the word for it."""

    INCREASING = "increasing"  # lower >= 0
    DECREASING = "decreasing"  # upper <= 0
    ZERO = "zero"  # both
    BOTH = "both"  # it is negative next to one point, and positive next to another
    OPEN = "open"


def verdicts(entries: Interval, seen: Interval) -> NDArray[np.str_]:
    """The verdict of every entry, by its word."""
    choices = {
        Verdict.ZERO: (entries.lo == 0) & (entries.hi == 0),
        Verdict.INCREASING: entries.lo >= 0,
        Verdict.DECREASING: entries.hi <= 0,
        Verdict.BOTH: (seen.lo < 0) & (seen.hi > 0),
    }
    words = np.select(list(choices.values()), [v.value for v in choices], Verdict.OPEN.value)
    return np.asarray(words, dtype=np.str_)


def scales(seen: Interval) -> Array:
    """The largest |value| that was seen of every entry, or a small share of the largest of all."""
    size = np.where(np.isfinite(seen.lo) & np.isfinite(seen.hi), seen.magnitude, 0.0)
    most = float(size.max(initial=0.0))
    return np.maximum(size, _LEAST * most if most > 0 else 1.0)


@dataclass(frozen=True)
class EntryGoal:
    """An entry is good enough when its sign is decided; with a gap instead when both ends of its enclosure are within
    gap times the largest |value| seen of it from a value that was seen.

    A number that is not larger than `floor` is rounding: no split makes it smaller.
    """

    gap: float | None = None
    floor: float = 0.0

    def check(self) -> None:
        """Refuse what is no goal."""
        if self.gap is None:
            return
        number = isinstance(self.gap, int | float) and not isinstance(self.gap, bool) and math.isfinite(self.gap)
        if not number or not self.gap > 0:
            raise InputError(f"gap must be a finite number > 0, not {self.gap!r}")

    def missing(self, entries: Interval, hull: Interval, seen: Interval) -> tuple[Array, Array]:
        """How far the ends of enclosures, (.., scores, inputs), are from what is wanted of them, against the entry's
        scale: above and below, zero where nothing is missing. `hull` are the enclosures on the whole region."""
        scale = scales(seen)
        with np.errstate(all="ignore"):
            if self.gap is not None:
                above, below = entries.hi - seen.hi, seen.lo - entries.lo
                far = self.gap * scale + self.floor
            else:
                undecided = verdicts(hull, seen) == Verdict.OPEN.value
                above = np.where(undecided & (seen.hi <= 0), entries.hi, 0.0)
                below = np.where(undecided & (seen.lo >= 0), -entries.lo, 0.0)
                far = np.full(scale.shape, self.floor)
            above, below = (np.where(x > far, x / scale, 0.0) for x in (above, below))
        empty = entries.lo > entries.hi
        return np.where(empty, 0.0, above), np.where(empty, 0.0, below)

    def reached(self, hull: Interval, seen: Interval) -> NDArray[np.bool_]:
        """Which entries are good enough on the region."""
        if self.gap is None:
            return np.asarray(verdicts(hull, seen) != Verdict.OPEN.value)
        above, below = self.missing(hull, hull, seen)
        return np.asarray(np.maximum(above, below) == 0)
