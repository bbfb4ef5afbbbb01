"""Operator norms of matrices, and of Jacobians within intervals, in balls: the formulas of `bounds.operator_norms`
and `bounds.jacobian`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.bounds.jacobian import directions
from lipcert.bounds.operator_norms import CORNERS_UP_TO, SIGNS_UP_TO, corners
from lipcert.problem.norms import Norm
from lipcert.problem.region import Ball, Box
from lipcert.proof.balls.forms import Stage
from lipcert.proof.balls.gradients import Adjoint, Readers, Slopes, form_bound, interval_gradients
from lipcert.proof.balls.numbers import (
    Balls,
    balls,
    float_above,
    larger,
    largest,
    largest_eigenvalue,
    lengths,
    load_flint,
    product,
    spectral,
    zeros,
)
from lipcert.rounding import Array

Values = tuple[Sequence[Stage], Box | Ball]


def operator_norm(A: Balls, p: str, q: str) -> Any:
    """At least max |A t|_q over |t|_p <= 1: by columns, by rows, and by the spectral norm."""
    if p == "1":
        return largest(lengths(abs(A.T), q))
    by_rows = lengths(lengths(abs(A), Norm(p).dual.p), q)[()]
    if q == "inf" or 0 in A.shape:
        return by_rows
    ratio = load_flint().arb((A.shape[1] if p == "inf" else 1) * (A.shape[0] if q == "1" else 1)).sqrt()
    return by_rows.min(ratio * spectral(A))


def interval_norm(J: Interval, p: str, q: str) -> Any:
    """At least the norm of every matrix within the intervals: by magnitudes, and by the middle and the radius."""
    M = (balls(J.lo) + balls(J.hi)) / 2
    R = (balls(J.hi) - balls(J.lo)) / 2
    best = operator_norm(balls(J.magnitude), p, q)
    if p == "1" or q == "inf":
        return best
    rows, columns = J.lo.shape
    best = best.min(operator_norm(M, p, q) + operator_norm(R, p, q))
    if q == "1" and rows <= SIGNS_UP_TO:
        moved = abs(product(balls(corners(rows)), M)) + R.sum(axis=0)
        best = best.min(largest(lengths(moved, Norm(p).dual.p)))
    if (p, q) == ("inf", "2") and columns <= CORNERS_UP_TO:
        moved = largest(lengths(abs(product(balls(corners(columns)), M.T)), "2"))
        best = best.min(moved + lengths(lengths(R, "1"), "2")[()])
    return best


def map_bound(
    readers: Readers, slopes: Slopes, norm: Norm, values: Values | None, coordinate: int | None = None
) -> Any:
    """At least the operator norm of the Jacobian on one cell."""
    net = readers.net
    rows = directions(norm, net.outputs) if coordinate is None else None
    best = load_flint().arb("inf")
    if rows is not None:
        best = largest_row(readers, slopes, norm, rows, values)
        if norm.out == "inf" or net.outputs == 1:
            return best
    assert norm.out is not None
    adjoints = [Adjoint(readers, slopes, e, values) for e in np.eye(net.outputs)]
    by_rows = np.array([form_bound(a, norm.p, coordinate) for a in adjoints], dtype=object)
    best = best.min(lengths(by_rows, norm.out)[()])
    J = Interval(*(np.stack([getattr(a.gradients[0], end) for a in adjoints]) for end in ("lo", "hi")))
    if coordinate is not None:
        J = Interval(J.lo[:, [coordinate]], J.hi[:, [coordinate]])
    best = best.min(interval_norm(J, norm.p, norm.out))
    if norm.p == norm.out == "2" and coordinate is None:
        best = best.min(_by_squares(adjoints, J))
    return best


def largest_row(readers: Readers, slopes: Slopes, norm: Norm, rows: Array, values: Values | None) -> Any:
    """The longest of all rows: by intervals, and by forms those that may be longer than the longest so far."""
    plain = []
    for c in rows:
        size = balls(interval_gradients(readers, slopes, c)[0].magnitude)
        plain.append(lengths(size, norm.dual.p)[()])
    best = load_flint().arb(0)
    for k in sorted(range(len(rows)), key=lambda k: -float_above(plain[k])):
        if plain[k] <= best:
            continue
        best = best.max(plain[k].min(form_bound(Adjoint(readers, slopes, rows[k], values), norm.p)))
    return best


def _by_squares(adjoints: list[Adjoint], J: Interval) -> Any:
    """From 2 to 2: J J' = M J' + J M' - M M' + E E', whose first parts are linear in the gradients."""
    M, R = (balls(J.lo) + balls(J.hi)) / 2, (balls(J.hi) - balls(J.lo)) / 2
    count = len(M)
    both = np.concatenate([M, -M])
    tops = [adjoint.largest(both) for adjoint in adjoints]
    high = np.array([top[:count] for top in tops], dtype=object).reshape(count, count)
    low = np.array([-top[count:] for top in tops], dtype=object).reshape(count, count)
    high, low = high + high.T, low + low.T
    middle, radius = (high + low) / 2 - product(M, M.T), larger((high - low) / 2, zeros(count, count))
    squares = largest_eigenvalue(middle) + spectral(radius)
    return (squares + spectral(R) ** 2).nonnegative_part().sqrt()
