"""Regions cut by half-spaces: random ones, made ready in some way or other, and which points lie in them exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from lipcert import Ball, Box, Polytope
from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.method.halfspaces import prepared
from lipcert.problem.region import Region
from lipcert.rounding import Array

Random = np.random.Generator
ROOM = (0.0, 1e-9, 0.1, 0.1, 0.5, 0.5, -0.3)  # beyond a point of the region, in widths of it; below 0 perhaps no point
NEAR = 1e-12  # of all terms of a sum: what is nearer to its bound is decided in fractions


def cut(rng: Random, base: Box | Ball) -> Polytope:
    """One to three half-spaces at a point of the box or ball: through it, beyond it, or so that little may be left."""
    box = base.box if isinstance(base, Ball) else base
    count, n = int(rng.integers(1, 4)), base.size
    A = rng.normal(size=(count, n)) * (rng.random((count, n)) < 0.8)
    for row in A:
        if rng.random() < 0.3:
            row[:] = np.eye(n)[int(rng.integers(n))] * rng.choice((-1.0, 1.0))
    start = (box.lo + box.hi) / 2 + rng.uniform(-0.5, 0.5, size=n) * (box.hi - box.lo) / 2
    b = A @ start + np.abs(A) @ (box.hi - box.lo) * rng.choice(ROOM, size=count)
    if rng.random() < 0.1:  # flat
        A, b = np.concatenate([A, -A[:1]]), np.concatenate([b, -b[:1]])
    size = 10.0 ** rng.uniform(-9, 9) if rng.random() < 0.1 else 1.0
    return Polytope(base, A * size, b * size)


def ready(rng: Random, region: Polytope) -> Polytope | None:
    """As it is, with multipliers of a linear program, or with any that somebody makes up; None: proved to be empty."""
    way = int(rng.integers(3))
    try:
        if way == 1:
            return prepared(region, Budget.of_work(0.05))
        if way == 2:
            made = rng.exponential(size=(2 * region.size, region.count)) * 10.0 ** rng.uniform(-3, 2)
            made *= rng.random(made.shape) < 0.5
            return Polytope(region.base, region.A, region.b, multipliers=made)
    except InputError:
        return None
    return region


def plain(region: Region) -> dict[str, Any]:
    """A region as values that JSON keeps to the last bit."""
    if isinstance(region, Polytope):
        hints = None if region.multipliers is None else region.multipliers.tolist()
        return plain(region.base) | {"A": region.A.tolist(), "b": region.b.tolist(), "multipliers": hints}
    if isinstance(region, Ball):
        return {"center": region.center.tolist(), "radius": region.radius, "clip": region.clip}
    return {"lo": region.lo.tolist(), "hi": region.hi.tolist()} if isinstance(region, Box) else {}


def inside(region: Region, points: Array) -> NDArray[np.bool_]:
    """Which points lie in it, exactly."""
    fine = np.all(np.isfinite(points), axis=1)
    if isinstance(region, Polytope):
        fine = inside(region.base, points)
        return np.array([known and _satisfies(region, x) for known, x in zip(fine, points, strict=True)], dtype=bool)
    if isinstance(region, Ball):
        if region.clip is not None:
            fine &= np.all((points >= region.clip[0]) & (points <= region.clip[1]), axis=1)
        return np.array([known and _near(region, x) for known, x in zip(fine, points, strict=True)], dtype=bool)
    if isinstance(region, Box):
        fine &= np.all((points >= region.lo) & (points <= region.hi), axis=1)
    return np.asarray(fine)


def _satisfies(region: Polytope, x: Array) -> bool:
    with np.errstate(all="ignore"):
        left, size = region.A @ x, NEAR * (np.abs(region.A) @ np.abs(x))
    for a, b, value, doubt in zip(region.A, region.b, left, size, strict=True):
        if not value + doubt < b and (value - doubt > b or _dot(a, x) > Fraction(float(b))):
            return False
    return True


def _dot(a: Array, x: Array) -> Fraction:
    return sum((Fraction(float(u)) * Fraction(float(v)) for u, v in zip(a, x, strict=True)), Fraction(0))


def _near(ball: Ball, x: Array) -> bool:
    away = [Fraction(float(u)) - Fraction(float(v)) for u, v in zip(x, ball.center, strict=True)]
    return sum((d * d for d in away), Fraction(0)) <= Fraction(float(ball.radius)) ** 2


def moved_inside(region: Polytope, points: Array) -> Array:
    """The points of the box or ball that lie in the region, and the points where the others leave it on the way from an
    inner point; none where no point is found."""
    points = points.copy()
    for a, b in zip(region.A, region.b, strict=True):
        (used,) = np.nonzero(a)
        if len(used) == 1 and abs(a[used[0]]) == 1:
            j, sign = int(used[0]), float(a[used[0]])
            points[:, j] = sign * np.minimum(sign * points[:, j], b)
    good = inside(region, points)
    start = _start(region, points[good])
    if start is None:
        return np.asarray(points[good])
    away = points[~good] - start
    with np.errstate(all="ignore"):
        room, step = region.b - region.A @ start, away @ region.A.T
        share = np.where(step > 0, room / np.where(step > 0, step, 1.0), 1.0).min(axis=1, initial=1.0)
    moved = start + np.clip(share, 0.0, 1.0)[:, None] * (1 - 1e-12) * away
    found = np.concatenate([points[good], start[None], moved])
    return np.asarray(found[inside(region, found)])


def _start(region: Polytope, known: Array) -> Array | None:
    """A point with room: the middle of those that are known, or what a linear program says."""
    tried = [known.mean(axis=0)] if len(known) else []
    box = region.base.box if isinstance(region.base, Ball) else region.base
    length = np.linalg.norm(region.A, axis=1)
    if not tried and np.all(np.isfinite(length)):
        table = np.column_stack([region.A, np.where(length > 0, length, 1.0)])
        ends = [*zip(box.lo, box.hi, strict=True), (None, 1.0)]
        found = linprog([*np.zeros(region.size), -1.0], table, region.b, bounds=ends)
        tried = [np.clip(found.x[:-1], box.lo, box.hi)] if found.x is not None else []
    return next((x for x in tried if inside(region, x[None])[0]), None)
