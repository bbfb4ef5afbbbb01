"""A part on which every sign is known: one linear program finds a point of it, or the multiples that prove it empty."""

from __future__ import annotations

import numpy as np

from lipcert.method.branching.node import Node
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.proof.leaves import Leaf, prove_empty
from lipcert.rounding import Array
from lipcert.witness.program import Program
from lipcert.witness.screen import Chart

_SECONDS = 2.0


def realise(net: Network, c: Array, node: Node) -> tuple[Array | None, Leaf | None]:
    """A point well inside the part's half-spaces, or a proof that there is none, or neither when it is too close."""
    box = node.part.region
    if not isinstance(box, Box):
        return _anywhere(net, c, node), None
    sides = node.alone.sides
    kept = sides.neuron[0] >= 0
    if not kept.any():
        return np.array(box.center), None
    from scipy.optimize import linprog  # slow to import

    radius = box.hi / 2 - box.lo / 2
    H, h = sides.H[0][kept], sides.h[0][kept]
    rows, shift = H * radius, h + H @ box.center
    length = np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), 1e-300)
    rows, shift = rows / length[:, None], shift / length
    objective = np.append(np.zeros(box.size), -1.0)
    table = np.hstack([-rows, np.ones((len(rows), 1))])
    bounds = [(-1.0, 1.0)] * box.size + [(None, 1.0)]
    answer = linprog(objective, table, shift, bounds=bounds, method="highs", options={"time_limit": _SECONDS})
    if answer.x is None:
        return None, None
    if answer.x[-1] > 0:
        return box.project(box.center + radius * answer.x[:-1]), None
    weights = np.zeros(net.neurons)
    np.add.at(weights, sides.neuron[0][kept], np.maximum(-answer.ineqlin.marginals, 0.0) / length)
    return None, prove_empty(node.part, node.alone, weights)


def _anywhere(net: Network, c: Array, node: Node) -> Array | None:
    """Without a box: a point with the pattern, when there is one; that there is none is not proved."""
    if not Program.applies(net):
        return None
    chart = Chart.of(net, node.part.region)
    program = Program.of(net, chart, c)
    lo = np.concatenate([z.lo[0] for z in node.alone.pre])
    answer = program.solve(lo >= 0, _SECONDS)
    return None if answer is None or answer[1] <= 0 else chart.points(answer[0][None, :])[0]
