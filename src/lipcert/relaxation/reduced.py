"""The relaxation of a part of a network: the proved numbers that pay for the rest, and the builder with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipcert.bounds.gains import Gains, gains, mixed_gradient_bounds
from lipcert.bounds.propagation import gradient_bounds, preactivations
from lipcert.problem.network import Network
from lipcert.problem.problem import Fact, Problem
from lipcert.relaxation.layers import NOTHING
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.partial import partial
from lipcert.relaxation.reduction import Reduction, Share, open_signs


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


def share_of(problem: Problem, reduction: Reduction) -> Share:
    """The numbers that pay. With neurons left out the vectors kept are not the gradient, only intervals hold them.

    Neurons leave by the reduction's choice, or because their gradient is next to nothing.
    """
    net, pre, c, known = problem.network, preactivations(problem), problem.c, gains_of(problem)
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
