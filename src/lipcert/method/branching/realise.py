"""A cell on which every sign is known: one linear program finds a point of it, or rows that prove it empty or flat."""

from __future__ import annotations

import numpy as np

from lipcert.budget import Budget
from lipcert.method.branching.node import Node
from lipcert.method.branching.refute import Refusals
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull
from lipcert.proof.interior import Index, rows_of
from lipcert.proof.leaves import Leaf, prove_empty, prove_flat
from lipcert.rounding import Array
from lipcert.witness.program import PatternProgram, inmost

REALISE_SECONDS = 2.0  # for the linear program of a cell without open signs

_FLAT = 1e-3  # of the size of the cell's box: a cell that is no wider may have no interior; boxes of a size of 1e-9 of
# their numbers, the smallest there are, have half-spaces that are rounded by about 1e-5 of it


def realise(problem: Problem, node: Node, refusals: Refusals, budget: Budget) -> tuple[Array | None, Leaf | None]:
    """A point well inside the cell's half-spaces, or a proof that it has no interior, or neither where it is close."""
    box, budget = hull(node.cell.region), budget.upto(REALISE_SECONDS)
    if box is None:
        leaf = refusals.look(node, budget)
        return (None, leaf) if leaf is not None else (_anywhere(problem.on(node.cell.region), node, budget), None)
    sides = node.alone.sides
    kept = (sides.neuron[0] >= 0) & sides.H[0].any(axis=1)
    if not kept.any():
        return np.array(box.center), None
    radius = box.hi / 2 - box.lo / 2
    H, h = sides.H[0][kept], sides.h[0][kept]
    rows, shift = H * radius, h + H @ box.center
    length = np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), 1e-300)
    rows, shift = rows / length[:, None], shift / length
    found = inmost(rows, shift, 1.0, budget)
    if found is None:
        return None, None
    v, margin, multipliers = found[0], found[1], np.maximum(found[2], 0.0)
    if margin <= _FLAT:
        weights = np.zeros(int(sides.neuron.max()) + 1)
        np.add.at(weights, sides.neuron[0][kept], multipliers / length)
        empty = prove_empty(problem.network, node.cell, node.alone, weights)
        proof = _flat(problem, node, sides.neuron[0][kept], multipliers, rows) if empty is None else empty
        if proof is not None or margin <= 0:
            return None, proof
    return node.cell.region.project(box.center + radius * v), None


def _flat(problem: Problem, node: Node, numbers: Index, weights: Array, rows: Array) -> Leaf | None:
    """The proof that a cell has no interior, by the rows with weight and the sides of the box that they push to."""
    used = rows_of(problem.network, node.cell.region, numbers, weights, weights @ rows)
    return prove_flat(problem, node.cell, node.alone, used)


def _anywhere(problem: Problem, node: Node, budget: Budget) -> Array | None:
    """Without a box: a point with the pattern, when there is one; that there is none is `refute`'s to prove."""
    if not PatternProgram.applies(problem.network):
        return None
    program = PatternProgram.of(problem, budget)
    lo = np.concatenate([z.lo[0] for z in node.alone.pre])
    answer = program.solve(lo >= 0, budget)
    return None if answer is None or answer[1] <= 0 else program.chart.points(answer[0][None, :])[0]
