"""A cell on which every sign is known: one linear program finds a point of it, or the multiples that prove it empty."""

from __future__ import annotations

import numpy as np

from lipcert import policy
from lipcert.budget import Budget
from lipcert.method.branching.node import Node
from lipcert.method.branching.refute import refute
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull
from lipcert.proof.leaves import Leaf, prove_empty
from lipcert.rounding import Array
from lipcert.witness.program import Program, inmost


def realise(problem: Problem, node: Node, budget: Budget) -> tuple[Array | None, Leaf | None]:
    """A point well inside the cell's half-spaces, or a proof that there is none, or neither when it is too close."""
    box, budget = hull(node.cell.region), budget.upto(policy.REALISE_SECONDS)
    if box is None:
        leaf = refute(problem.network, node.cell, node.alone, budget)
        return (None, leaf) if leaf is not None else (_anywhere(problem.on(node.cell.region), node, budget), None)
    sides = node.alone.sides
    kept = sides.neuron[0] >= 0
    if not kept.any():
        return np.array(box.center), None
    radius = box.hi / 2 - box.lo / 2
    H, h = sides.H[0][kept], sides.h[0][kept]
    rows, shift = H * radius, h + H @ box.center
    length = np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), 1e-300)
    found = inmost(rows / length[:, None], shift / length, 1.0, budget)
    if found is None:
        return None, None
    v, margin, multipliers = found
    if margin > 0:
        return node.cell.region.project(box.center + radius * v), None
    weights = np.zeros(int(sides.neuron.max()) + 1)
    np.add.at(weights, sides.neuron[0][kept], np.maximum(multipliers, 0.0) / length)
    return None, prove_empty(problem.network, node.cell, node.alone, weights)


def _anywhere(problem: Problem, node: Node, budget: Budget) -> Array | None:
    """Without a box: a point with the pattern, when there is one; that there is none is `refute`'s to prove."""
    if not Program.applies(problem.network):
        return None
    program = Program.of(problem, budget)
    lo = np.concatenate([z.lo[0] for z in node.alone.pre])
    answer = program.solve(lo >= 0, budget)
    return None if answer is None or answer[1] <= 0 else program.chart.points(answer[0][None, :])[0]
