"""A network that is too large for one moment matrix: which part of it the matrix keeps, and who pays for the rest.

*Cut.* With J the Jacobian of x_k and g the gradient behind it, |J'g|_1 <= sum_j Y_j |g_j|, where Y_j bounds the L_1
norm of row j of J: the Lipschitz problem of the layers above k, with inputs weighted by Y. Y are floats and exact by
definition.

*Values.* The rows with x and its variables are left out: a relaxation.

*Neurons.* A neuron with an open sign may leave: s_j = u_j g_j is replaced by the middle of its bounds. The backward
pass is linear in s_j, so the gradient moves by at most radius_j times the L_1 norm of the gradient of z_j, a number.
The vectors that the matrix keeps are those of the backward pass with the middles in it; intervals contain them too.

*Euclid.* With r >= |J t|_2 for every unit change t of the input, |J'g|_1 <= r |g|_2: no signs t at all, the matrix
bounds r^2 |g|_2^2 / scale, and the bound is sqrt(scale * that).

*Inputs.* A coordinate of the gradient between l and h needs no sign variable: |G| <= a G + b, the chord, exact where
the sign of G is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.propagation import Interval
from lipcert.relaxation.model import Index, Space
from lipcert.relaxation.tracked import Tracked, affine
from lipcert.rounding import Array, add_up, grow, sum_up

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Reduction:
    """`cut`: the hidden layer the matrix starts behind, 0 for the input.

    `inputs` and `neurons` (one mask per hidden layer behind the cut) say who may have variables. `euclid`: whether the
    Euclidean norm of the gradient is bounded in place of its signs.
    """

    cut: int
    inputs: Mask
    neurons: tuple[Mask, ...]
    euclid: bool = False

    @property
    def table(self) -> NDArray[np.int64]:
        """As one array of whole numbers, for a file."""
        masks = np.concatenate([self.inputs, *self.neurons]).astype(np.int64)
        return np.concatenate([np.array([self.cut, self.euclid], dtype=np.int64), masks])


def reduction_from(table: NDArray[np.int64], shape: tuple[int, ...]) -> Reduction | None:
    """The inverse of `table` for a network of this shape; None where it is no reduction of such a network."""
    if (
        table.ndim != 1
        or len(table) < 2
        or not 0 <= table[0] < len(shape) - 2
        or not np.all(np.isin(table[1:], (0, 1)))
    ):
        return None
    cut = int(table[0])
    widths = shape[cut:-1]
    if len(table) != 2 + sum(widths):
        return None
    parts = np.split(table[2:].astype(bool), np.cumsum(widths)[:-1])
    return Reduction(cut, parts[0], tuple(parts[1:]), bool(table[1]))


@dataclass(frozen=True, eq=False)
class Share:
    """What the matrix keeps of a (cut) network, with the proved numbers that pay for the rest.

    `weights` are Y of its inputs; `prices` bound the L_1 norms of the gradients of z_1, z_2, .. with respect to the
    whole network's input; `gradients` as from `gradient_bounds`. `reach` is r of a Euclidean reduction, else 0.
    """

    inputs: Mask
    neurons: tuple[Mask, ...]
    weights: Array
    prices: tuple[Array, ...]
    gradients: tuple[Interval, ...]
    reach: float = 0.0
    scale: float = 1.0


def middle_and_radius(lo: Array, hi: Array) -> tuple[Array, Array]:
    """A float between lo and hi, and at least the distance from it to both."""
    middle = lo / 2 + hi / 2
    return middle, np.maximum(add_up(hi, -middle), add_up(middle, -lo))


def chords(g: Interval, weights: Array) -> tuple[Array, Array]:
    """(a, b) with weights |G| <= a G + b for every G between g.lo and g.hi: |.| is convex, its ends decide."""
    spread = np.maximum(g.hi - g.lo, 1e-300)
    ratio = np.clip((g.hi + g.lo) / spread, -1.0, 1.0)
    ratio = np.where(g.lo >= 0, 1.0, np.where(g.hi <= 0, -1.0, ratio))
    a = ratio * weights
    b = grow(np.maximum(-g.lo * (weights + a), g.hi * (weights - a)), 4)
    return a, np.where((g.lo >= 0) | (g.hi <= 0), 0.0, b)


def without_signs(space: Space, gradient: Tracked, g: Interval, weights: Array) -> tuple[Tracked, float]:
    """One form that bounds sum_i weights_i |gradient_i|, and what is to be added to it."""
    a, b = chords(g, weights)
    total = affine(space, np.ones((1, len(a))), gradient.scaled(a))
    return total, sum_up(b)


def losses(share: Share, free: tuple[Mask, ...]) -> tuple[Array, tuple[Array, ...]]:
    """What it costs at most to leave out each input's sign and each free neuron; zero for the others."""
    inputs = chords(share.gradients[0], share.weights)[1]
    neurons = []
    for mask, g, price in zip(free, share.gradients[1:], share.prices, strict=True):
        radius = middle_and_radius(np.minimum(g.lo, 0.0), np.maximum(g.hi, 0.0))[1]
        neurons.append(np.where(mask, grow(radius * price, 2), 0.0))
    return inputs, tuple(neurons)


def everything(cut: int, shape: tuple[int, ...]) -> Reduction:
    """All inputs and neurons behind a cut."""
    masks = [np.ones(width, dtype=bool) for width in shape[cut:-1]]
    return Reduction(cut, masks[0], tuple(masks[1:]))


def open_signs(pre: tuple[Interval, ...]) -> tuple[Mask, ...]:
    """Which neurons may have either sign."""
    return tuple(~(((z.lo >= 0) & (z.hi > 0)) | ((z.hi <= 0) & (z.lo < 0))) for z in pre)


def places(mask: Mask) -> Index:
    return np.flatnonzero(mask)
