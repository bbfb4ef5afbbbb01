"""Lines of smooth activations by the rule of now, and by that of version 1.0.0 while its certificates are checked.

A certificate may say that linear bounds prove its claim, without the lines: a checker chooses them by rule. A file of
version 1.0.0 was written with other lines, so its check chooses as that version did (`lines_of_1_0_0`). Lines of either
rule are bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from lipcert.problem.activations.base import SLACK, Activation, Lines
from lipcert.problem.activations.enclosures import closest, shifts, through_ends
from lipcert.rounding import TINY, Array

_PARALLEL = frozenset({"elu", "softplus", "sigmoid", "tanh"})  # version 1.0.0 had lines of the smallest slope for these

_FIRST_RULE: ContextVar[bool] = ContextVar("lines of version 1.0.0", default=False)


@contextmanager
def lines_of_1_0_0() -> Iterator[None]:
    """Choose lines as version 1.0.0 did."""
    token = _FIRST_RULE.set(True)
    try:
        yield
    finally:
        _FIRST_RULE.reset(token)


def chosen_lines(f: Activation, lo: Array, hi: Array) -> Lines:
    """Lines of a smooth activation by the rule in force."""
    if not _FIRST_RULE.get():
        return closest(f, lo, hi)
    return _parallel(f, lo, hi) if f.kind in _PARALLEL else _of_three(f, lo, hi)


def _parallel(f: Activation, lo: Array, hi: Array) -> Lines:
    """Parallel lines of the smallest slope: f(z) - s z does not fall where s <= f'."""
    slope = f.derivative_bounds(lo, hi)[0]
    low, high = f.value_bounds(lo, hi)
    reach = np.maximum(np.abs(lo), np.abs(hi))
    slack = SLACK * (slope * reach + np.abs(low) + np.abs(high)) + TINY
    return Lines(slope, low - slope * lo - slack, slope, high - slope * hi + slack)


def _of_three(f: Activation, lo: Array, hi: Array) -> Lines:
    """On each side the line that is best in the middle, of those with the slopes of the secant and of both ends."""
    with np.errstate(all="ignore"):
        middle, best = lo / 2 + hi / 2, None
        for slope in (through_ends(f, lo, hi), f.derivative(lo), f.derivative(hi)):
            slope = np.where(np.isfinite(slope), slope, 0.0)
            low, high = shifts(slope, f.value_bounds, f.derivative_bounds, lo, hi)
            own = Lines(slope, low, slope, high)
            if best is None:
                best = own
                continue
            higher = slope * middle + own.low_shift > best.low_slope * middle + best.low_shift
            lower = slope * middle + own.up_shift < best.up_slope * middle + best.up_shift
            places = (higher, higher, lower, lower)
            best = Lines(*(np.where(p, mine, old) for p, mine, old in zip(places, own, best, strict=True)))
    assert best is not None
    return best
