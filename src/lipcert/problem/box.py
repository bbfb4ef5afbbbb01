"""Box: a center and a radius for every coordinate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lipcert.errors import InputError, shown
from lipcert.problem.arrays import floats_of
from lipcert.rounding import Array, add_down, add_up


class Box:
    """All x with |x_i - center_i| <= radius_i, within [lo, hi] of `clip` when it is given.

    `lo` and `hi` are rounded outward, so that the box of the real numbers given lies in the box of the floats. A center
    with several axes, an image say, is flattened in C order; `shape` is what it was.
    """

    __slots__ = ("center", "hi", "lo", "radius", "shape")
    lo: Array
    hi: Array
    center: Array
    radius: Array
    shape: tuple[int, ...]

    def __init__(self, center: ArrayLike, radius: ArrayLike, clip: tuple[float, float] | None = None) -> None:
        c = vector("center", center)
        r = numbers("radius", radius)
        if r.ndim > 1 or (r.ndim == 1 and r.shape != c.shape):
            raise InputError(
                f"Box: radius has shape {r.shape}, center {c.shape}; give one radius or one per coordinate"
            )
        if not np.all(np.isfinite(r)) or np.any(r < 0):
            raise InputError(f"Box(radius={show(r)}): radius must be finite and >= 0")
        radii = np.broadcast_to(r, c.shape)
        lo, hi = add_down(c, -radii), add_up(c, radii)
        if clip is not None:
            least, most = ends("Box", clip)
            lo, hi = np.maximum(lo, least), np.minimum(hi, most)
            if np.any(lo > hi):
                i = int(np.argmax(lo > hi))
                raise InputError(
                    f"Box: coordinate {i} has no point within clip [{least:g}, {most:g}]; move the center inside"
                )
        self._freeze(lo, hi, c, np.array(radii), np.shape(center))

    @classmethod
    def from_bounds(cls, lo: ArrayLike, hi: ArrayLike) -> Box:
        """The box lo <= x <= hi, exactly."""
        low, high = vector("lo", lo), vector("hi", hi)
        if low.shape != high.shape:
            raise InputError(f"Box.from_bounds: lo has {low.size} coordinates, hi has {high.size}")
        if np.any(low > high):
            i = int(np.argmax(low > high))
            raise InputError(f"Box.from_bounds: lo > hi in coordinate {i} ({low[i]:g} > {high[i]:g})")
        box = cls.__new__(cls)
        box._freeze(low, high, low / 2 + high / 2, high / 2 - low / 2, np.shape(lo))
        return box

    def halves(self, i: int, value: float) -> tuple[Box, Box]:
        """Both parts of the box, cut where coordinate i has a value between its ends; nothing is checked again."""
        hi, lo = self.hi.copy(), self.lo.copy()
        hi[i] = lo[i] = value
        return self._part(self.lo, hi), self._part(lo, self.hi)

    @staticmethod
    def _part(lo: Array, hi: Array) -> Box:
        part = Box.__new__(Box)
        for name, kept in (("lo", lo), ("hi", hi), ("center", lo / 2 + hi / 2), ("radius", hi / 2 - lo / 2)):
            kept.flags.writeable = False
            object.__setattr__(part, name, kept)
        object.__setattr__(part, "shape", lo.shape)
        return part

    def _freeze(self, lo: Array, hi: Array, center: Array, radius: Array, shape: tuple[int, ...]) -> None:
        for name, value in (("lo", lo), ("hi", hi), ("center", center), ("radius", radius)):
            kept = np.array(value, dtype=np.float64)
            if not np.all(np.isfinite(kept)):
                raise InputError(f"Box: {name} must be finite")
            kept.flags.writeable = False
            object.__setattr__(self, name, kept)
        object.__setattr__(self, "shape", tuple(shape) or (1,))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Box is frozen: cannot set {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.lo, self.hi, self.center, self.radius, self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and np.array_equal(self.lo, other.lo) and np.array_equal(self.hi, other.hi)

    def __hash__(self) -> int:
        return hash((self.lo.tobytes(), self.hi.tobytes()))

    def __repr__(self) -> str:
        return f"Box({self.size} inputs, radius {show(self.radius)})"

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return int(self.lo.size)

    @property
    def words(self) -> str:
        """The box as a phrase, from `lo` and `hi` alone: a clipped box reads the same after it was in a file."""
        half = self.hi / 2 - self.lo / 2
        return f"a box of radius {show(half, ' to ')}, values in [{self.lo.min():.6g}, {self.hi.max():.6g}]"

    def contains(self, points: Array) -> bool:
        """Whether all of these points lie in the box, its edge included."""
        return bool(np.all(points >= self.lo) and np.all(points <= self.hi))

    def project(self, points: Array) -> Array:
        """The nearest points of the box."""
        return np.clip(points, self.lo, self.hi)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: numbers where all coordinates agree, lists otherwise."""
        return {"type": "box", "lo": plain(self.lo), "hi": plain(self.hi), "radius": plain(self.radius)}


def ends(kind: str, clip: tuple[float, float]) -> tuple[float, float]:
    """Both ends of a clip, checked."""
    need, pair = "two finite numbers, low <= high", numbers("clip", clip, kind)
    if pair.shape != (2,):
        raise InputError(f"{kind}(clip={shown(clip)}): clip needs {need}")
    least, most = float(pair[0]), float(pair[1])
    if not (np.isfinite(least) and np.isfinite(most) and least <= most):
        raise InputError(
            f"{kind}(clip=({least:g}, {most:g})): clip needs {need}", f"--clip {least:g} {most:g}: give {need}"
        )
    return least, most


def _restore(lo: Array, hi: Array, center: Array, radius: Array, shape: tuple[int, ...]) -> Box:
    box = Box.__new__(Box)
    box._freeze(lo, hi, center, radius, shape)
    return box


def numbers(name: str, value: ArrayLike, kind: str = "Box") -> Array:
    """An array of numbers; what is text, or none, is refused as a part of this kind of region."""
    try:
        return floats_of(value)
    except (TypeError, ValueError):
        raise InputError(f"{kind}: {name} must be numbers") from None


def vector(name: str, value: ArrayLike, kind: str = "Box") -> Array:
    """A non-empty vector of finite numbers."""
    v = numbers(name, value, kind).reshape(-1)
    if v.size == 0 or not np.all(np.isfinite(v)):
        raise InputError(f"{kind}: {name} must be a non-empty vector of finite numbers")
    return v


def plain(v: Array) -> float | list[float]:
    """One number where all agree, the list otherwise."""
    return float(v[0]) if np.all(v == v[0]) else [float(e) for e in v]


def show(r: Array, between: str = "..") -> str:
    """The smallest and the largest, in a few digits."""
    lo, hi = f"{np.min(r):g}", f"{np.max(r):g}"
    return lo if lo == hi else f"{lo}{between}{hi}"
