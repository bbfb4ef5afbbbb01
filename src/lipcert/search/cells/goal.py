"""When a cell is good enough, and how many splits are left to do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.rounding import Array


@dataclass(frozen=True)
class Goal:
    """A cell is good enough by any of these that are given:

    gap      its bracket is narrow: upper - lower <= gap times the largest lower bound of the whole region
    target   upper <= target
    largest  it does not matter for the region's constant: upper <= (1 + largest) times the largest lower bound

    With none of them every cell is.
    """

    gap: float | None = None
    target: float | None = None
    largest: float | None = None

    def check(self) -> None:
        """Refuse what is no goal."""
        for name in ("gap", "target", "largest"):
            value = getattr(self, name)
            if value is None:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not number or not (value > 0):
                raise InputError.about(name, f"must be a finite number > 0, not {value!r}")

    @property
    def none(self) -> bool:
        """Whether nothing is to be split."""
        return self.gap is None and self.target is None and self.largest is None

    def reached(self, upper: Array, lower: Array, top: float) -> NDArray[np.bool_]:
        """Which cells are good enough; `top` is the largest lower bound of the region."""
        if self.none:
            return np.ones(len(upper), dtype=bool)
        good = np.zeros(len(upper), dtype=bool)
        if self.gap is not None:
            good |= upper - lower <= self.gap * top
        if self.target is not None:
            good |= upper <= self.target
        if self.largest is not None:
            good |= upper <= (1.0 + self.largest) * top
        return good

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"gap": self.gap, "target": self.target, "largest": self.largest}
