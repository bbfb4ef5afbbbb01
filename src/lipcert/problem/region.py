"""Where the inputs live: a box, a Euclidean ball, or everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lipcert.errors import InputError
from lipcert.rounding import Array, add_down, add_up, gamma, grow


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
        c = _vector("center", center)
        r = np.asarray(_numbers("radius", radius), dtype=np.float64)
        if r.ndim > 1 or (r.ndim == 1 and r.shape != c.shape):
            raise InputError(
                f"Box: radius has shape {r.shape}, center {c.shape}; give one radius or one per coordinate"
            )
        if not np.all(np.isfinite(r)) or np.any(r < 0):
            raise InputError(f"Box(radius={_show(r)}): radius must be finite and >= 0")
        radii = np.broadcast_to(r, c.shape)
        lo, hi = add_down(c, -radii), add_up(c, radii)
        if clip is not None:
            least, most = float(clip[0]), float(clip[1])
            if not (np.isfinite(least) and np.isfinite(most) and least <= most):
                raise InputError(f"Box(clip={least:g}, {most:g}): clip needs two finite numbers, low <= high")
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
        low, high = _vector("lo", lo), _vector("hi", hi)
        if low.shape != high.shape:
            raise InputError(f"Box.from_bounds: lo has {low.size} coordinates, hi has {high.size}")
        if np.any(low > high):
            i = int(np.argmax(low > high))
            raise InputError(f"Box.from_bounds: lo > hi in coordinate {i} ({low[i]:g} > {high[i]:g})")
        box = cls.__new__(cls)
        box._freeze(low, high, low / 2 + high / 2, high / 2 - low / 2, np.shape(lo))
        return box

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
        return f"Box({self.size} inputs, radius {_show(self.radius)})"

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return int(self.lo.size)

    @property
    def words(self) -> str:
        """As a phrase."""
        return f"a box of radius {_show(self.radius, ' to ')}, values in [{self.lo.min():.6g}, {self.hi.max():.6g}]"

    def contains(self, points: Array) -> bool:
        """Whether all of these points lie in the box, its edge included."""
        return bool(np.all(points >= self.lo) and np.all(points <= self.hi))

    def project(self, points: Array) -> Array:
        """The nearest points of the box."""
        return np.clip(points, self.lo, self.hi)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: numbers where all coordinates agree, lists otherwise."""
        return {"type": "box", "lo": _plain(self.lo), "hi": _plain(self.hi), "radius": _plain(self.radius)}


def _restore(lo: Array, hi: Array, center: Array, radius: Array, shape: tuple[int, ...]) -> Box:
    box = Box.__new__(Box)
    box._freeze(lo, hi, center, radius, shape)
    return box


@dataclass(frozen=True)
class Everywhere:
    """The whole input space."""

    words = "the whole input space"

    def contains(self, points: Array) -> bool:
        """Whether all coordinates are finite."""
        return bool(np.all(np.isfinite(points)))

    def project(self, points: Array) -> Array:
        """The points themselves."""
        return points

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"type": "everywhere"}


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
        c = _vector("center", center)
        if np.ndim(radius) != 0 or not (np.isfinite(radius) and radius >= 0):
            raise InputError(f"Ball(radius={radius!r}): radius must be one finite number >= 0")
        c.flags.writeable = False
        kept = None if clip is None else (float(clip[0]), float(clip[1]))
        box = Box(c.reshape(np.shape(center)), radius, kept)
        for name, value in (("box", box), ("center", c), ("radius", float(radius)), ("clip", kept)):
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
        """As a phrase."""
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
        return {"type": "ball", "center": _plain(self.center), "radius": self.radius, "clip": clip}


Region = Box | Ball | Everywhere


def hull(region: Region) -> Box | None:
    """The smallest box around a region, None when there is none."""
    return region.box if isinstance(region, Ball) else region if isinstance(region, Box) else None


def check_region(region: object, inputs: int) -> None:
    """Refuse what is no region, and a region of another dimension than the network's input."""
    if not isinstance(region, (Box, Ball, Everywhere)):
        number = isinstance(region, (int, float, np.number)) and not isinstance(region, bool)
        shown = f"{region}" if number else f"{type(region).__name__}"
        hint = f"; for a box around zero use Box(numpy.zeros({inputs}), {shown})" if number else ""
        raise InputError(f"region={shown}: a region is Box(center, radius), Ball(center, radius) or Everywhere(){hint}")
    if not isinstance(region, Everywhere) and region.size != inputs:
        raise InputError(f"the center has {region.size} coordinates, the network has {inputs} inputs")


def _numbers(name: str, value: ArrayLike) -> Array:
    detached = getattr(value, "detach", None)  # a torch tensor that has gradients is no array by itself
    try:
        return np.asarray(value if detached is None else detached(), dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"Box: {name} must be numbers") from None


def _vector(name: str, value: ArrayLike) -> Array:
    v = _numbers(name, value).reshape(-1)
    if v.size == 0 or not np.all(np.isfinite(v)):
        raise InputError(f"Box: {name} must be a non-empty vector of finite numbers")
    return v


def _plain(v: Array) -> float | list[float]:
    return float(v[0]) if np.all(v == v[0]) else [float(e) for e in v]


def _show(r: Array, between: str = "..") -> str:
    lo, hi = f"{np.min(r):g}", f"{np.max(r):g}"
    return lo if lo == hi else f"{lo}{between}{hi}"
