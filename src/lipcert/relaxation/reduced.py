"""The relaxation of a part of a network: the proved numbers that pay for the rest, and the builder with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipcert.bounds.gains import Gains, gains, mixed_gradient_bounds
from lipcert.bounds.propagation import Interval, gradient_bounds, preactivation_bounds
from lipcert.errors import MethodError
from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm
from lipcert.problem.region import Region
from lipcert.relaxation.layers import NOTHING
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.partial import partial
from lipcert.relaxation.reduction import Reduction, Share, open_signs
from lipcert.rounding import Array


def reduced(
    net: Network,
    region: Region,
    c: Array,
    reduction: Reduction,
    pre: tuple[Interval, ...] | None = None,
    known: Gains | None = None,
) -> Relaxation:
    """The backward lift of the layers behind the cut; `pre` and `known` are of the whole network."""
    pre = preactivation_bounds(net, region) if pre is None else pre
    share = share_of(net, pre, c, reduction, gains(net, pre) if known is None else known)
    tail = behind(net, reduction.cut)
    return partial(tail, pre[reduction.cut :], share)


def behind(net: Network, cut: int) -> Network:
    """The layers behind hidden layer `cut`."""
    return Network(net.affines[cut:], net.activations[cut:]) if cut else net


def share_of(net: Network, pre: tuple[Interval, ...], c: Array, reduction: Reduction, known: Gains) -> Share:
    """The numbers that pay. With neurons left out the vectors kept are not the gradient, only intervals hold them.

    Neurons leave by the reduction's choice, or because their gradient is next to nothing.
    """
    cut = reduction.cut
    bounds = mixed_gradient_bounds(net, pre, c)
    parts = zip(open_signs(pre[cut:]), reduction.neurons, bounds[cut + 1 :], strict=True)
    if any(np.any(mask & ~(kept & (g.magnitude > NOTHING))) for mask, kept, g in parts):
        bounds = gradient_bounds(net, pre, c)
    share = Share(reduction.inputs, reduction.neurons, known.after[cut], known.before[cut:], bounds[cut:])
    if not reduction.euclid:
        return share
    # About the bound itself, so that the matrix bounds a number of that size; any scale is sound.
    scale = known.reach[cut] * float(np.linalg.norm(bounds[cut].magnitude))
    usable = np.isfinite(scale) and 1e-150 < scale < 1e150
    return replace(share, reach=known.reach[cut], scale=scale if usable else 1.0)


def check_part(net: Network, norm: Norm, name: str) -> None:
    """Refuse what parts do not cover, by name."""
    other = next((f for f in net.activations if f.kind != "relu"), None)
    if norm != INF or other is not None:
        raise MethodError(f"method {name} takes parts of ReLU networks in the infinity norm only; use mixed")
