"""A network that is too large for one moment matrix: which part of it the matrix keeps, and the price of the rest.

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

The relaxation is the backward lift of the part, without values. The chain of forms is that of `passes.gradients`; a
neuron that left has a constant in it, and the objective is the weighted gradient behind the cut: with signs t, with
chords where t left, or by its Euclidean norm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.bounds.gains import Gains, gains, mixed_gradient_bounds
from lipcert.bounds.gradients import gradient_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import preactivations
from lipcert.problem.network import Network
from lipcert.problem.problem import Fact, Problem
from lipcert.relaxation.ends import squared
from lipcert.relaxation.layers import NOTHING, LiftedLayer, LiftedLayers
from lipcert.relaxation.lifts import bilinear
from lipcert.relaxation.model import Finish, Index, Relaxation, Space, Tracked, affine, assemble, diagonal, exactly
from lipcert.relaxation.passes import gradients, stored
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
        """The reduction as one array of whole numbers, for a file."""
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
class PricedReduction:
    """The part of a (cut) network that the matrix keeps, with the proved numbers that pay for the rest.

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
    """One form that bounds sum_i weights_i |gradient_i|, and the constant to add to it."""
    a, b = chords(g, weights)
    total = affine(space, np.ones((1, len(a))), gradient.scaled(a))
    return total, sum_up(b)


def losses(share: PricedReduction, free: tuple[Mask, ...]) -> tuple[Array, tuple[Array, ...]]:
    """The largest cost of leaving out each input's sign and each free neuron; zero for the others."""
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


def partial(net: Network, pre: tuple[Interval, ...], share: PricedReduction) -> Relaxation:
    """The relaxation of the layers behind the cut, which `net` and `pre` are."""
    layers = LiftedLayers(tuple(_layer(i, z, share) for i, z in enumerate(pre)), 0.0)
    signs = places(share.inputs & (share.reach == 0))
    sizes = {"t": len(signs)} | {layer.name("v"): len(layer.free) for layer in layers.hidden}
    space = Space(**sizes, **{layer.name("s"): len(layer.free) for layer in layers.hidden[:-1]})
    blocks = {layer.name(letter): (layer.free, layer.width) for layer in layers.hidden for letter in "vs"}
    blocks = {name: where for name, where in blocks.items() if name in space.slices} | {"t": (signs, net.inputs)}
    down = gradients(net, space, layers, False)
    objective, offset = _objective(space, down.ends[0], share)
    families = [*diagonal(space, blocks), *down.families]
    factors = {item.layer.name("s"): stored(space, item) for item in down.items}
    relaxation = assemble(space, objective, families, offset, blocks, factors)
    return replace(relaxation, finish=_finish(layers, share))


def _layer(i: int, z: Interval, share: PricedReduction) -> LiftedLayer:
    """Layer i + 1 of the part: free neurons are those that the matrix keeps, the other open ones are constants."""
    g, width = share.gradients[i + 1], len(z.lo)
    either = open_signs((z,))[0]
    free = either & share.neurons[i] & (g.magnitude > NOTHING)
    lo, hi = np.minimum(g.lo, 0.0), np.maximum(g.hi, 0.0)
    constant = np.where(either & ~free, middle_and_radius(lo, hi)[0], 0.0)
    unbounded = Interval(np.full(width, -np.inf), np.full(width, np.inf))
    return LiftedLayer(
        index=i + 1,
        width=width,
        binary=True,
        tied=False,
        followed=False,
        lifted=i + 1 < len(share.neurons),
        free=places(free),
        pruned=np.arange(0),
        base=np.where(either | (z.hi <= 0), 0.0, 1.0),
        delta=np.where(free, 1.0, 0.0),
        doubt=np.zeros(width),
        z=z,
        x=unbounded,
        g=g,
        q=unbounded,
        constant=constant,
    )


def _objective(space: Space, gradient: Tracked, share: PricedReduction) -> tuple[sparse.csr_array, float]:
    """y'Cy = t'(weighted gradient) on the inputs with a sign and chords on the others; or its Euclidean norm."""
    if share.reach:
        factor = share.reach / np.sqrt(share.scale)
        return squared(space, gradient, float(grow(np.asarray(factor), 4)))
    signs, others = places(share.inputs), places(~share.inputs)
    C, offset = bilinear(exactly(space["t"]), gradient[signs].scaled(share.weights[signs]))
    g = Interval(share.gradients[0].lo[others], share.gradients[0].hi[others])
    chord, paid = without_signs(space, gradient[others], g, share.weights[others])
    half = sparse.csr_array(chord.matrix) / 2
    pointer = np.array([0, half.nnz] + [half.nnz] * (space.size - 1))
    first = sparse.csr_array((half.data, half.indices, pointer), C.shape)
    return sparse.csr_array(C + first + first.T), sum_up(np.array([offset, sum_up(chord.error), paid]))


def _finish(layers: LiftedLayers, share: PricedReduction) -> Finish:
    """The root of a Euclidean reduction, and the price of the neurons that left."""
    left = tuple(_left(layer) for layer in layers.hidden)
    price = sum_up(np.array([sum_up(part) for part in losses(share, left)[1]]))
    return Finish(share.scale if share.reach else 0.0, price)


def _left(layer: LiftedLayer) -> Mask:
    mask = open_signs((layer.z,))[0]
    mask[layer.free] = False
    return mask


@Fact
def gains_of(problem: Problem) -> Gains:
    """The gains of the problem's network and norm on its region."""
    return gains(problem.network, preactivations(problem), problem.norm)


def reduced(problem: Problem, reduction: Reduction) -> Relaxation:
    """The backward lift of the layers behind the cut."""
    tail = behind(problem.network, reduction.cut)
    return partial(tail, preactivations(problem)[reduction.cut :], share_of(problem, reduction))


def behind(net: Network, cut: int) -> Network:
    """The layers behind hidden layer `cut`."""
    return Network(net.affines[cut:], net.activations[cut:]) if cut else net


def share_of(problem: Problem, reduction: Reduction) -> PricedReduction:
    """The proved numbers that pay for the rest. With neurons left out only intervals hold for the vectors kept.

    Neurons leave by the reduction's choice, or because their gradient is next to nothing.
    """
    net, pre, c, known = problem.network, preactivations(problem), problem.c, gains_of(problem)
    cut = reduction.cut
    bounds = mixed_gradient_bounds(net, pre, c)
    parts = zip(open_signs(pre[cut:]), reduction.neurons, bounds[cut + 1 :], strict=True)
    if any(np.any(mask & ~(kept & (g.magnitude > NOTHING))) for mask, kept, g in parts):
        bounds = gradient_bounds(net, pre, c)
    share = PricedReduction(reduction.inputs, reduction.neurons, known.after[cut], known.before[cut:], bounds[cut:])
    if not reduction.euclid:
        return share
    # About the bound itself, so that the matrix bounds a number of that size; any scale is sound.
    scale = known.reach[cut] * float(np.linalg.norm(bounds[cut].magnitude))
    usable = np.isfinite(scale) and 1e-150 < scale < 1e150
    return replace(share, reach=known.reach[cut], scale=scale if usable else 1.0)
