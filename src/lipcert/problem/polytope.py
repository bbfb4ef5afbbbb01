"""Polytope: a box or a ball cut by half-spaces a'x <= b, and a small box around it.

For any y >= 0 every point of the region satisfies

    x_j <= x_j + sum_i y_i (b_i - a_i'x) <= y'b + max { (e_j - A'y)'x : x in the box or ball },

rounded up; likewise -x_j. So whatever multipliers y somebody brings, the box that they give contains the region: best
ones come from linear programs, and none are needed. With zero in place of x_j, a negative right-hand side proves that
the region has no point.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lipcert.errors import InputError
from lipcert.problem.arrays import floats_of
from lipcert.problem.ball import Ball
from lipcert.problem.box import Box
from lipcert.rounding import TINY, Array, add_up, gamma, grow

MOST_SIDES = 10_000  # half-spaces
_NO_POINT = "no point of the box satisfies the half-spaces"
_INWARD = 1.0 - 2.0**-40  # a point is moved towards the inside a little further than it needs to


class Polytope:
    """All x of a box or a ball with A x <= b, row by row.

    `multipliers`, (2 n, m), one row for every x_j and then one for every -x_j, make `box` smaller (see above);
    `inside` is a point where all rows have room, towards which others are moved. Both are hints: a wrong one makes
    a larger box, or no point.
    """

    __slots__ = ("A", "b", "base", "box", "inside", "multipliers")
    base: Box | Ball
    A: Array
    b: Array
    multipliers: Array | None
    inside: Array | None
    box: Box

    def __init__(
        self,
        base: Box | Ball,
        A: ArrayLike,
        b: ArrayLike,
        *,
        multipliers: Array | None = None,
        inside: Array | None = None,
    ) -> None:
        if not isinstance(base, Box | Ball):
            raise InputError("Polytope: half-spaces cut a Box(center, radius) or a Ball(center, radius)")
        rows, right = _checked(A, b, base.size)
        hints = None if multipliers is None else _checked_multipliers(multipliers, (2 * base.size, len(right)))
        around = base.box if isinstance(base, Ball) else base
        box = around if hints is None else _smaller(base, around, rows, right, hints)
        point = None if inside is None else np.array(inside, dtype=np.float64).reshape(-1)
        self._freeze(base=base, A=rows, b=right, multipliers=hints, inside=None, box=box)
        if point is not None and point.shape == (base.size,) and self.contains(point):
            object.__setattr__(self, "inside", _kept(point))

    def _freeze(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, _kept(value) if isinstance(value, np.ndarray) else value)

    def within(self, box: Box) -> Polytope:
        """The part in a smaller box; of a region whose base is a box."""
        part = Polytope.__new__(Polytope)
        inside = self.inside if self.inside is not None and box.contains(self.inside) else None
        part._freeze(base=box, A=self.A, b=self.b, multipliers=None, inside=inside, box=box)
        return part

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Polytope is frozen: cannot set {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.base, self.A, self.b, self.multipliers, self.inside)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Polytope) or self.base != other.base:
            return False
        return np.array_equal(self.A, other.A) and np.array_equal(self.b, other.b)

    def __hash__(self) -> int:
        return hash((self.base, self.A.tobytes(), self.b.tobytes()))

    def __repr__(self) -> str:
        return f"Polytope({self.base!r}, {self.count} half-spaces)"

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.base.size

    @property
    def count(self) -> int:
        """The number of half-spaces."""
        return len(self.b)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the center as it was given."""
        return self.base.shape

    @property
    def words(self) -> str:
        """The region as a phrase."""
        return f"{self.base.words}, cut by {self.count} half-space{'' if self.count == 1 else 's'}"

    def empty_by(self, y: Array) -> bool:
        """Whether these multipliers, y >= 0 and one for each half-space, prove that no point satisfies all of them."""
        weights = np.where(np.isfinite(y), np.maximum(y, 0.0), 0.0)[None, :]
        around = self.base.box if isinstance(self.base, Ball) else self.base
        return bool(tops(self.base, around, np.zeros((1, self.size)), (self.A, self.b), weights)[0] < 0)

    def contains(self, points: Array) -> bool:
        """Whether every point is inside, its edge included; yes is a proof."""
        return self.base.contains(points) and bool(np.all(self._satisfied(np.atleast_2d(points))))

    def project(self, points: Array) -> Array:
        """Points inside: those of the box or ball, moved towards the inner point as far as needed.

        Without an inner point nothing is moved, and `contains` may say no.
        """
        found = self.base.project(points)
        if self.inside is None:
            return found
        rows, start = np.atleast_2d(found), self.inside
        with np.errstate(all="ignore"):
            room, step = self.b - self.A @ start, (rows - start) @ self.A.T
            share = np.where(step > 0, np.maximum(room, 0.0) / np.where(step > 0, step, 1.0), np.inf).min(axis=1)
        out = ~self._satisfied(rows)
        moved = start + (np.minimum(share, 1.0) * _INWARD)[:, None] * (rows - start)
        answer = np.where(out[:, None], self.base.project(moved), rows)
        answer[~self._satisfied(answer)] = start
        return answer.reshape(np.shape(found))

    def _satisfied(self, rows: Array) -> NDArray[np.bool_]:
        """Whether A x <= b is proved of every point: by rounding outward, and exactly where that is too close."""
        n = self.size + 8
        with np.errstate(over="ignore", invalid="ignore"):
            value = rows @ self.A.T
            doubt = grow(gamma(n) * (np.abs(rows) @ np.abs(self.A).T), n)
            sure, never = value + 2 * doubt <= self.b, value - 2 * doubt > self.b
        found = np.asarray(np.all(sure, axis=1))
        close = np.flatnonzero(~found & ~np.any(never, axis=1) & np.all(np.isfinite(rows), axis=1))
        for k in close[:_EXACT]:
            found[k] = all(_at_most(self.A[i], rows[k], float(self.b[i])) for i in np.flatnonzero(~sure[k]))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "type": "polytope",
            "base": self.base.to_dict(),
            "halfspaces": {"A": self.A.tolist(), "b": self.b.tolist()},
            "box": {"lo": self.box.lo.tolist(), "hi": self.box.hi.tolist()},
        }


_EXACT = 64  # points in one call that are decided in rational numbers


def tops(base: Box | Ball, box: Box, rows: Array, sides: tuple[Array, Array], y: Array) -> Array:
    """Upper bounds of rows x over the points of the region, by multipliers y >= 0: one row of both for each."""
    A, b = sides
    longest = A.shape[0] + A.shape[1] + 16
    middle = box.lo / 2 + box.hi / 2
    radius = np.maximum(add_up(box.hi, -middle), add_up(middle, -box.lo))
    reach = np.maximum(np.abs(box.lo), np.abs(box.hi))
    with np.errstate(all="ignore"):
        left, bulk = rows - y @ A, np.abs(rows) + y @ np.abs(A)
        paid = gamma(longest) * (y @ np.abs(b) + 2 * (bulk @ reach))
        paid = paid + longest * TINY * (1.0 + reach.sum() + np.abs(b).sum())
        spread = np.abs(left) @ radius + paid
        top = add_up(y @ b + left @ middle, grow(spread, 2 * longest))
        if isinstance(base, Ball):
            off = gamma(longest) * (np.abs(left) @ np.abs(base.center))
            most = np.abs(left).max(axis=1, initial=0.0)
            unit = left / np.where(most > 0, most, 1.0)[:, None]  # squares of small coefficients would vanish
            length = most * np.sqrt((unit * unit).sum(axis=1)) * base.radius
            top = np.fmin(top, add_up(y @ b + left @ base.center, grow(length + off + paid, 3 * longest)))
    return np.where(np.isnan(top), np.inf, top)


def _smaller(base: Box | Ball, box: Box, A: Array, b: Array, multipliers: Array) -> Box:
    """The box that these multipliers prove; with a coordinate that has no value the region has no point."""
    n = base.size
    signs = np.concatenate([np.eye(n), -np.eye(n)])
    used = np.flatnonzero(multipliers.any(axis=1))
    ends = np.concatenate([box.hi, -box.lo])
    ends[used] = np.minimum(ends[used], tops(base, box, signs[used], (A, b), multipliers[used]))
    hi, lo = ends[:n], -ends[n:]
    if np.any(lo > hi):
        raise InputError(_NO_POINT)
    return box if np.array_equal(lo, box.lo) and np.array_equal(hi, box.hi) else Box.from_bounds(lo, hi)


def _at_most(a: Array, x: Array, b: float) -> bool:
    """a'x <= b in rational numbers."""
    used = np.flatnonzero(a)
    total = sum((Fraction(float(a[j])) * Fraction(float(x[j])) for j in used), Fraction(0))
    return total <= Fraction(b)


def _checked(A: ArrayLike, b: ArrayLike, n: int) -> tuple[Array, Array]:
    try:
        rows, right = np.array(floats_of(A)), np.array(floats_of(b))
    except (TypeError, ValueError):
        raise InputError("half-spaces A x <= b must be numbers") from None
    rows, right = np.atleast_2d(rows), np.atleast_1d(right)
    if rows.ndim != 2 or right.ndim != 1 or rows.shape[0] != right.size or not right.size:
        raise InputError(f"half-spaces A x <= b: A has the shape {rows.shape}, b {right.shape}; give a row for each b")
    if rows.shape[1] != n:
        raise InputError(f"half-spaces A x <= b: rows of {rows.shape[1]} numbers, but there are {n} inputs")
    if len(right) > MOST_SIDES:
        raise InputError(f"{len(right):,} half-spaces; at most {MOST_SIDES:,} are taken")
    if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(right))):
        raise InputError("half-spaces A x <= b must be finite numbers")
    return rows, right


def _checked_multipliers(given: Array, shape: tuple[int, int]) -> Array:
    y = np.array(given, dtype=np.float64)
    if y.shape != shape or not (np.all(np.isfinite(y)) and np.all(y >= 0)):
        raise InputError("multipliers of half-spaces must be numbers >= 0, a row for each end of every coordinate")
    return y


def _kept(value: Array) -> Array:
    kept = np.array(value) if value.flags.writeable else value
    kept.flags.writeable = False
    return kept


def _restore(base: Box | Ball, A: Array, b: Array, multipliers: Array | None, inside: Array | None) -> Polytope:
    return Polytope(base, A, b, multipliers=multipliers, inside=inside)
