"""From a point that is nearly feasible to points that may be exactly so: candidates for a proof.

Bounds, whole numbers and values of two-valued variables are snapped to; points are pushed into violated or active
inequalities; affine equalities are solved exactly for a variable of their own. Whether a candidate is feasible is
decided elsewhere, without rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from lipcert.polynomial.points.local import LocalProblem
from lipcert.polynomial.points.starts import with_roots
from lipcert.polynomial.polynomial import Polynomial
from lipcert.rounding import Array

NEAR = 1e-5
GRID = 2.0**30
ACTIVE = 1e-6


def candidates(local: LocalProblem, point: Array) -> Iterator[Array]:
    """Points near this one, the nearest first."""
    x = local.clip(point)
    snapped = _snapped(local, x)
    affine = [h for h in local.problem.equalities if h.degree == 1]
    yield x
    yield snapped
    for start in (x, snapped):
        if affine:
            yield from _solved(start, affine)
        for room in (1e-12, 1e-10, 1e-8, 1e-7) if local.above.m else ():
            moved = _pushed(local, start, room)
            yield moved
            if affine:
                yield from _solved(moved, affine)


def _snapped(local: LocalProblem, x: Array) -> Array:
    """Coordinates that are nearly a bound, a whole number or one of two values are made so."""
    near = with_roots(local, x[None, :])[0]
    x = np.where(np.abs(near - x) <= NEAR * (1 + np.abs(near)), near, x)
    for target in (np.round(x), local.lower, local.upper):
        with np.errstate(invalid="ignore"):
            x = np.where(np.abs(x - target) <= NEAR, target, x)
    return x


def _pushed(local: LocalProblem, x: Array, room: float) -> Array:
    """A few Gauss-Newton steps towards g >= room for the constraints that are violated or active, along h = 0."""
    free = (x > local.lower) & (x < local.upper)
    with np.errstate(all="ignore"):
        for _ in range(4):
            g = local.above.value(x)
            held = np.flatnonzero(g < max(ACTIVE, 2 * room))
            if not len(held) or float(g.min()) >= room / 2:
                break
            J = np.concatenate([local.above.jacobian(x)[held], local.zero.jacobian(x)]) * free
            wish = np.concatenate([np.maximum(room - g[held], 0.0), -local.zero.value(x)])
            if not np.all(np.isfinite(J)):
                break
            x = local.clip(x + np.linalg.lstsq(J, wish, rcond=1e-10)[0])
    return x


def _solved(x: Array, affine: list[Polynomial]) -> Iterator[Array]:
    """The point on a dyadic grid with affine equalities solved exactly, each for the variable with most room."""
    y = np.round(x * GRID) / GRID
    used: set[int] = set()
    for h in affine:
        terms = {int(row[0]): Fraction(float(v)) for row, v in zip(h.indices, h.coefficients, strict=True)}
        free = [i for i in terms if i >= 0 and i not in used and _power_of_two(terms[i])]
        if not free:
            return
        # the variable farthest from zero and its bounds moves most easily
        pivot = max(free, key=lambda i: abs(float(y[i]) - round(float(y[i]))))
        rest = sum((v * (Fraction(float(y[i])) if i >= 0 else 1) for i, v in terms.items() if i != pivot), Fraction(0))
        y[pivot] = float(-rest / terms[pivot])
        used |= {i for i in terms if i >= 0}
    yield y


def _power_of_two(value: Fraction) -> bool:
    n, d = abs(value.numerator), value.denominator
    return n & (n - 1) == 0 and d & (d - 1) == 0
