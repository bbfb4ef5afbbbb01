"""Functions that rise and fall: bounds on an interval from its ends and from the turning points inside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipcert.rounding import TINY, Array

NEAR = 1e-6  # a turning point this near to an interval counts as inside: that only widens the bounds


def between(
    f: Callable[[Array], Array],
    turns: tuple[float, ...],
    lo: Array,
    hi: Array,
    slack: float,
    floor: Array | float = 1.0,
) -> tuple[Array, Array]:
    """Bounds of f for lo <= z <= hi, where f is monotone between `turns` and before and behind them.

    f may take infinite arguments. It is evaluated with an error of at most slack (|f| + floor). The turning points are
    floats next to the exact ones, where f differs by the square of that distance.
    """
    left, right = f(lo), f(hi)
    low, high = np.minimum(left, right), np.maximum(left, right)
    for turn in turns:
        inside, value = (lo <= turn + NEAR) & (hi >= turn - NEAR), f(np.asarray(turn))
        low = np.where(inside, np.minimum(low, value), low)
        high = np.where(inside, np.maximum(high, value), high)
    size = np.maximum(np.abs(low), np.abs(high))
    off = slack * (np.where(np.isfinite(size), size, 0.0) + floor) + TINY
    return low - off, high + off
