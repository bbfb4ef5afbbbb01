"""Ball: a Euclidean ball, perhaps cut at the ends of an interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lipcert.errors import InputError, shown
from lipcert.problem.box import Box, ends, numbers, plain, vector
from lipcert.rounding import Array, gamma, grow


class Ball:
    """All x with |x - center|_2 <= radius, within [lo, hi] of `clip` when it is given.

    `box` is the smallest box around it, rounded outward. A point counts as inside when that is proved.
    """

    __slots__ = ("box", "center", "clip", "radius")
    box: Box
    center: Array
    radius: float
    clip: tuple[float, float] | None

    def __init__(self, center: ArrayLike, radius: float, clip: tuple[float, float] | None = None) -> None:
        c, r = vector("center", center, "Ball"), numbers("radius", radius, "Ball")
        if r.ndim != 0 or not (np.isfinite(r) and r >= 0):
            raise InputError(f"Ball(radius={shown(radius)}): radius must be one finite number >= 0")
        c.flags.writeable = False
        kept = None if clip is None else ends("Ball", clip)
        box = Box(c.reshape(np.shape(center)), r, kept)
        for name, value in (("box", box), ("center", c), ("radius", float(r)), ("clip", kept)):
            object.__setattr__(self, name, value)
        if kept is not None and not np.all((c >= kept[0]) & (c <= kept[1])):
            raise InputError(f"Ball: the center must lie within clip [{kept[0]:g}, {kept[1]:g}]; move it inside")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Ball is frozen: cannot set {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Ball, (self.center.reshape(self.shape), self.radius, self.clip)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ball) or not np.array_equal(self.center, other.center):
            return False
        return self.radius == other.radius and self.clip == other.clip

    def __hash__(self) -> int:
        return hash((self.center.tobytes(), self.radius, self.clip))

    def __repr__(self) -> str:
        return f"Ball({self.size} inputs, radius {self.radius:g})"

    @property
    def size(self) -> int:
        return int(self.center.size)

    @property
    def words(self) -> str:
        """The ball as a phrase."""
        clip = "" if self.clip is None else f", values in [{self.clip[0]:g}, {self.clip[1]:g}]"
        return f"a Euclidean ball of radius {self.radius:g}{clip}"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the center as it was given."""
        return self.box.shape

    def contains(self, points: Array) -> bool:
        """Whether every point is inside, rounded so that yes is a proof."""
        rows = np.atleast_2d(points)
        with np.errstate(over="ignore", invalid="ignore"):
            away = np.abs(rows - self.center)
            squares = (away * away).sum(axis=1)
            inside = grow(np.sqrt(grow(squares, self.size + 16)), 8) <= self.radius
        exact = np.all(rows == self.center, axis=1)
        return bool(np.all(inside | exact)) and self.box.contains(points)

    def project(self, points: Array) -> Array:
        """Points inside: clipped to the box, then moved towards the center as far as needed, rounded inward."""
        moved = np.clip(points, self.box.lo, self.box.hi) - self.center
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            size = np.abs(moved).max(axis=-1, keepdims=True)
            unit = moved / np.where(size > 0, size, 1.0)
            length = size * np.sqrt(np.einsum("...i,...i->...", unit, unit))[..., None]
            spare = 1.0 - 4 * gamma(self.size + 16) - 8 * 2.0**-53 * (1.0 + self._offset)
            factor = np.where(
                length > self.radius * spare, self.radius * spare / np.where(length > 0, length, 1.0), 1.0
            )
        return np.clip(self.center + np.maximum(factor, 0.0) * moved, self.box.lo, self.box.hi)

    @property
    def _offset(self) -> float:
        """How large the center is against the radius: adding it rounds."""
        return float(np.linalg.norm(self.center) / self.radius) if self.radius > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        clip = None if self.clip is None else list(self.clip)
        return {"type": "ball", "center": plain(self.center), "radius": self.radius, "clip": clip}
