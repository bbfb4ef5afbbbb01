"""A point that is proved feasible, and its value: the other side of a bound on a polynomial problem.

Floats are dyadic rationals, so a polynomial with float coefficients has an exact value at a point of floats. It is
computed with integers; nothing here is rounded but the result, and that outward.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, isfinite, nextafter

import numpy as np
from numpy.typing import NDArray

from lipcert.rounding import Array

Terms = tuple[NDArray[np.int32], Array]  # rows of variables (-1 stands for 1), coefficients
MAX_ENTRIES = 4_000_000  # of all rows together: some seconds


def exact_value(terms: Terms, point: Array) -> Fraction:
    """The value of the polynomial at the point, without any rounding."""
    numerators, shifts = _dyadic(point)
    sums: dict[int, int] = {}
    for row, coefficient in zip(terms[0].tolist(), terms[1].tolist(), strict=True):
        number, denominator = coefficient.as_integer_ratio()
        shift = denominator.bit_length() - 1
        for i in row:
            if i >= 0:
                number *= numerators[i]
                shift += shifts[i]
        sums[shift] = sums.get(shift, 0) + number
    deepest = max(sums, default=0)
    return Fraction(sum(number << (deepest - shift) for shift, number in sums.items()), 1 << deepest)


def proved_value(
    objective: Terms,
    inequalities: Sequence[Terms],
    equalities: Sequence[Terms],
    box: tuple[Array, Array],
    point: Array,
    sense: str = "min",
) -> float | None:
    """The objective at the point, rounded up (down for a maximum), where the point is feasible; None where it is not.

    Feasible means exactly so: every inequality is >= 0, every equality is 0, and the point is in the box.
    """
    x = np.asarray(point, dtype=np.float64)
    if not np.all(np.isfinite(x)) or np.any(x < box[0]) or np.any(x > box[1]):
        return None
    if sum(t[0].size for t in (objective, *inequalities, *equalities)) > MAX_ENTRIES:
        return None
    if any(exact_value(g, x) < 0 for g in inequalities) or any(exact_value(h, x) != 0 for h in equalities):
        return None
    value = exact_value(objective, x)
    rounded = _up(value) if sense == "min" else -_up(-value)
    return rounded if isfinite(rounded) else None


def _dyadic(point: Array) -> tuple[list[int], list[int]]:
    """x_i = numerators_i / 2^shifts_i."""
    ratios = [v.as_integer_ratio() for v in point.tolist()]
    return [n for n, _ in ratios], [d.bit_length() - 1 for _, d in ratios]


def _up(value: Fraction) -> float:
    """The least float at or above."""
    try:
        near = float(value)
    except OverflowError:
        return inf if value > 0 else nextafter(-inf, 0.0)
    return near if Fraction(near) >= value else nextafter(near, inf)
