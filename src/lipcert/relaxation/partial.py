"""The backward lift of a part of a ReLU network, without values: what `reduction` says the matrix keeps.

The chain of forms is that of `passes.gradients`; a neuron that left has a constant in it, and the objective is the
weighted gradient behind the cut: with signs t, with chords where t left, or by its Euclidean norm.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from lipcert.bounds.propagation import Interval
from lipcert.problem.network import Network
from lipcert.relaxation.derivative import bilinear
from lipcert.relaxation.ends import squared
from lipcert.relaxation.layers import NOTHING, Layer, Layers
from lipcert.relaxation.model import Finish, Relaxation, Space, assemble, diagonal
from lipcert.relaxation.passes import gradients
from lipcert.relaxation.reduction import (
    Mask,
    Share,
    losses,
    middle_and_radius,
    open_signs,
    places,
    without_signs,
)
from lipcert.relaxation.switched import stored
from lipcert.relaxation.tracked import Tracked, exactly
from lipcert.rounding import grow, sum_up


def partial(net: Network, pre: tuple[Interval, ...], share: Share) -> Relaxation:
    """The relaxation of the layers behind the cut, which `net` and `pre` are."""
    layers = Layers(tuple(_layer(i, z, share) for i, z in enumerate(pre)), 0.0)
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


def _layer(i: int, z: Interval, share: Share) -> Layer:
    """Layer i + 1 of the part: free neurons are those that the matrix keeps, the other open ones are constants."""
    g, width = share.gradients[i + 1], len(z.lo)
    either = open_signs((z,))[0]
    free = either & share.neurons[i] & (g.magnitude > NOTHING)
    lo, hi = np.minimum(g.lo, 0.0), np.maximum(g.hi, 0.0)
    constant = np.where(either & ~free, middle_and_radius(lo, hi)[0], 0.0)
    unbounded = Interval(np.full(width, -np.inf), np.full(width, np.inf))
    return Layer(
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


def _objective(space: Space, gradient: Tracked, share: Share) -> tuple[sparse.csr_array, float]:
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


def _finish(layers: Layers, share: Share) -> Finish:
    """The root of a Euclidean reduction, and the price of the neurons that left."""
    left = tuple(_left(layer) for layer in layers.hidden)
    price = sum_up(np.array([sum_up(part) for part in losses(share, left)[1]]))
    return Finish(share.scale if share.reach else 0.0, price)


def _left(layer: Layer) -> Mask:
    mask = open_signs((layer.z,))[0]
    mask[layer.free] = False
    return mask
