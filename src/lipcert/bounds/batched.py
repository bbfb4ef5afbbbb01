"""Sound bounds on many parts at once: `bounds.propagation` with a leading axis, and with fixed signs.

Where a sign is fixed the pre-activation is cut at zero, before anything behind it is computed, and its half-space, as a
linear form in x, serves the bounds of all others: everything that follows holds on the part. A part on which some
interval is empty is empty itself. Rounding is as in `bounds.propagation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.cell import Cell
from lipcert.bounds.forms import Forms, Sides, affine_of_finite, dense, each, no_sides, pushed, stacked, times
from lipcert.bounds.propagation import Interval, affine_interval
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix
from lipcert.problem.region import Box
from lipcert.rounding import TINY, UNIT, Array, gamma

_CHUNK = 1 << 17  # numbers in one array of a backward substitution: it should stay in the cache


@dataclass(frozen=True, eq=False)
class Bounds:
    """Of every part (leading axis): z_1 .. z_m, half-spaces that contain it, and whether it is proved to be empty."""

    pre: tuple[Interval, ...]
    sides: Sides
    empty: NDArray[np.bool_]

    def of(self, k: int) -> tuple[Interval, ...]:
        """The pre-activation bounds of one part, as the relaxations take them."""
        return tuple(Interval(z.lo[k], z.hi[k]) for z in self.pre)

    def rows(self, k: NDArray[np.int64]) -> Bounds:
        """The bounds of some of the parts."""
        pre = tuple(Interval(z.lo[k], z.hi[k]) for z in self.pre)
        return Bounds(pre, self.sides.rows(k), self.empty[k])


def bounds_of(net: Network, parts: Sequence[Cell], known: tuple[Interval, ...] | None = None) -> Bounds:
    """Pre-activation bounds of parts of one region; boxes also by backward substitution, many at a time.

    `known` are bounds that hold on the parts already, such as those of the parts that they are halves of.
    """
    widest = max(max(a.weight.shape) for a in net.affines)
    step = max(16, _CHUNK // widest**2)
    pieces = []
    for k in range(0, len(parts), step):
        own = None if known is None else tuple(Interval(z.lo[k : k + step], z.hi[k : k + step]) for z in known)
        pieces.append(_bounds(net, parts[k : k + step], own))
    return joined(pieces)


def joined(pieces: Sequence[Bounds]) -> Bounds:
    """Batches one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    pre = tuple(
        Interval(np.concatenate([z.lo for z in layer]), np.concatenate([z.hi for z in layer]))
        for layer in zip(*(p.pre for p in pieces), strict=True)
    )
    return Bounds(pre, stacked([p.sides for p in pieces]), np.concatenate([p.empty for p in pieces]))


def _bounds(net: Network, parts: Sequence[Cell], known: tuple[Interval, ...] | None) -> Bounds:
    boxes = [p.region for p in parts]
    signs = [np.stack([p.signs[k] for p in parts]) for k in range(net.depth)]
    bounded = all(isinstance(box, Box) for box in boxes)
    if bounded:
        lo, hi = (np.stack([getattr(b, end) for b in boxes]) for end in ("lo", "hi"))
    else:
        lo, hi = np.full((len(parts), net.inputs), -np.inf), np.full((len(parts), net.inputs), np.inf)
    inputs = [Interval(lo, hi)]
    pre: list[Interval] = []
    sides = no_sides(len(parts), net.inputs)
    empty = np.zeros(len(parts), dtype=bool)
    first = 0  # neuron of the layer among all
    for k, f in enumerate(net.activations):
        z = _affine(net.affines[k].weight, net.affines[k].bias, inputs[k])
        if known is not None:
            z = _meet(z, known[k])
        if bounded and (k or any(s.any() for s in signs)):
            z, sides = _by_forms(net, k, pre, inputs, z, sides, signs[k], first)
        low, high = np.where(signs[k] > 0, np.maximum(z.lo, 0), z.lo), np.where(signs[k] < 0, np.minimum(z.hi, 0), z.hi)
        empty |= np.any(low > high, axis=1)
        pre.append(Interval(np.minimum(low, high), np.maximum(low, high)))  # of an empty part, anything in order
        inputs.append(Interval(*f.value_bounds(*pre[-1])))
        first += net.affines[k].outputs
    return Bounds(tuple(pre), sides, empty)


def _by_forms(
    net: Network,
    k: int,
    pre: Sequence[Interval],
    inputs: Sequence[Interval],
    z: Interval,
    sides: Sides,
    signs: NDArray[np.int8],
    first: int,
) -> tuple[Interval, Sides]:
    """Better bounds of layer k by linear forms in x, on the box and on the half-spaces known so far, own ones included.

    Of neurons that are stable already nothing better is needed: none is taken where another part needs it, so that
    the bounds of a part do not depend on its company.
    """
    mine = ((z.lo < 0) & (z.hi > 0)) | (signs != 0)
    need = np.flatnonzero(np.any(mine, axis=0))
    if not len(need):
        return z, sides
    A, b = dense(net.affines[k].weight)[need], net.affines[k].bias[need]
    above = _upper_form(net, k, np.concatenate([A, -A]), np.concatenate([b, -b]), pre, inputs)
    sides = sides.with_signs(above, signs[:, need], first + need)
    top = above.largest(inputs[0])
    if sides.count:
        top = np.minimum(top, pushed(above, sides, inputs[0]).largest(inputs[0]))
    top = np.where(np.tile(mine[:, need], 2), top, np.inf)
    lo, hi = z.lo.copy(), z.hi.copy()
    lo[:, need], hi[:, need] = np.maximum(lo[:, need], -top[:, len(b) :]), np.minimum(hi[:, need], top[:, : len(b)])
    return Interval(lo, hi), sides


def _meet(a: Interval, b: Interval) -> Interval:
    return Interval(np.maximum(a.lo, b.lo), np.minimum(a.hi, b.hi))


def _affine(weight: Matrix, bias: Array, x: Interval) -> Interval:
    if np.all(np.isfinite(x.lo)) and np.all(np.isfinite(x.hi)):
        return affine_of_finite(weight, bias, x)
    rows = [affine_interval(weight, bias, Interval(lo, hi)) for lo, hi in zip(x.lo, x.hi, strict=True)]
    return Interval(np.stack([r.lo for r in rows]), np.stack([r.hi for r in rows]))


def _upper_form(
    net: Network, k: int, block: Array, shift: Array, pre: Sequence[Interval], inputs: Sequence[Interval]
) -> Forms:
    """Linear forms in x above block x_k + shift on every part; as in `bounds.propagation`, with a leading axis."""
    count = len(inputs[0].lo)
    longest = max(max(a.weight.shape) for a in net.affines[: k + 1]) + 8 * (k + 2)
    g = gamma(longest)
    rows = np.broadcast_to(block, (count, *block.shape))
    constant, size = np.tile(shift, (count, 1)), np.tile(np.abs(shift), (count, 1))
    error = np.zeros_like(constant)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(k - 1, -1, -1):
            affine, z, x = net.affines[i], pre[i], inputs[i]
            lines = net.activations[i].lines(z.lo, z.hi)
            positive = np.maximum(rows, 0.0)
            constant += each(positive, lines.up_shift)
            if lines.low_shift.any():
                constant += each(rows - positive, lines.low_shift)
            size += each(np.abs(rows), np.maximum(np.abs(lines.up_shift), np.abs(lines.low_shift)))
            rows = rows * np.where(rows > 0, lines.up_slope[:, None, :], lines.low_slope[:, None, :])
            paid = 4 * UNIT * z.magnitude + g * times(x.magnitude, abs(affine.weight))
            floor = longest * TINY * (1.0 + z.magnitude.sum(axis=1) + x.magnitude.sum(axis=1))
            both = np.stack([np.broadcast_to(np.abs(affine.bias), paid.shape), paid], axis=2)
            more = np.matmul(np.abs(rows), both)
            size += more[:, :, 0]
            error += more[:, :, 1] + floor[:, None]
            flat = rows.reshape(-1, rows.shape[-1])
            constant += (flat @ affine.bias).reshape(constant.shape)
            rows = (flat @ dense(affine.weight)).reshape(count, block.shape[0], -1)
    return Forms(rows, constant, size, error, longest)
