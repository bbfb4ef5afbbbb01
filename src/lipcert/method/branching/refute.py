"""A linear program for the coefficients that show that a cell of the whole space has no interior (`proof.interior`).

Coefficients need the signs of some neurons, and prove the same of every cell that has these signs (`Refusals`).

Its vertices have as many zeros as they can, but the coefficients of a basis are solved for once more and need room for
that: so the program asks for slack in as many rows of the first block as possible.
"""

from __future__ import annotations

import numpy as np

from lipcert.bounds import Bounds, Cell
from lipcert.bounds.interval import Interval, finite_sum
from lipcert.budget import Budget
from lipcert.method.branching.node import Node
from lipcert.problem.activations import IDENTITY
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.proof.interior import covers, needed_signs, sign_states
from lipcert.proof.leaves import BASIS, COEFFICIENTS, Empty, prove_nowhere
from lipcert.rounding import Array
from lipcert.steps import SCALAR, THIN

_LEAST = 1e-9  # of slack, below which a row has none
_CALLS = 400  # statements around the program
_SETUP = 1000  # operations for every entry of the table


def refute(net: Network, cell: Cell, bounds: Bounds, budget: Budget) -> Empty | None:
    """The proof, or None: there is one, or it was not found."""
    if not covers(net):
        return None
    from scipy.linalg import qr  # slow to import
    from scipy.optimize import linprog

    width, total = net.shape[1], net.neurons
    on, off = (np.concatenate(ends) for ends in zip(*((z.lo[0] >= 0, z.hi[0] <= 0) for z in bounds.pre), strict=True))
    sums = np.repeat([f == IDENTITY for f in net.activations], net.shape[1:-1])  # c = g
    on, off = on & ~sums, off & ~sums
    G, alpha = _asked(net), np.where(sums, 1.0, np.repeat([f.alpha for f in net.activations], net.shape[1:-1]))
    slack = np.vstack([np.eye(width), np.zeros((total - width, width))])
    eye, nothing = np.eye(total), np.zeros((total, 1))
    low = np.hstack([G - eye, slack, nothing])[~off]  # g + slack <= c
    high = np.hstack([eye - alpha[:, None] * G, slack, nothing])[~on]  # c <= alpha g - slack
    fall = np.hstack([G, 0 * slack, nothing])[~on & ~off & ~sums]  # g <= 0
    bias = np.concatenate([b.bias for b in net.hidden])
    size = max(float(np.abs(bias).max()), 1e-300)
    constant = np.concatenate([bias / size, np.zeros(width), [1.0]])
    table = np.vstack([low, high, fall, constant])
    first = dense(net.blocks[0].terms[0][1])
    still = np.hstack([first.T, np.zeros((net.inputs, total + 1))])
    budget.charge(_SETUP * table.size, THIN)
    budget.charge(_CALLS, SCALAR)
    objective = np.concatenate([np.zeros(total), -np.ones(width + 1)])
    ends = [(None, None)] * total + [(0.0, 1.0)] * (width + 1)
    limits = {} if budget.repeatable else {"time_limit": max(budget.left(), 0.01)}
    if not (np.all(np.isfinite(table)) and np.all(np.isfinite(still))):
        return None
    answer = linprog(objective, table, np.zeros(len(table)), still, np.zeros(net.inputs), ends, options=limits)
    if answer.x is None:
        return None
    c, room = np.array(answer.x[:total]), np.array(answer.x[total : total + width])
    basis = np.zeros(0, dtype=np.int64)
    if np.abs(c[:width]).max() <= _LEAST:
        c[:width] = 0.0
    else:
        usable = np.flatnonzero(room > _LEAST)
        if len(usable) < net.inputs:
            return None
        order = qr((first[usable] * room[usable, None]).T, mode="r", pivoting=True)[1]
        basis = usable[order[: net.inputs]].astype(np.int64)
    return prove_nowhere(net, cell, bounds, _kept(net, G, c, on, off, alpha, sums), basis)


def _asked(net: Network) -> Array:
    """g = G c over all neurons."""
    starts = np.concatenate([[0], np.cumsum(net.shape[1:-1])])
    G = np.zeros((net.neurons, net.neurons))
    for j in range(1, net.depth + 1):
        for r, weight in net.readers[j]:
            if r <= net.depth:
                G[starts[j - 1] : starts[j], starts[r - 1] : starts[r]] = dense(weight).T
    return G


def _kept(net: Network, G: Array, c: Array, on: Array, off: Array, alpha: Array, sums: Array) -> Array:
    """The coefficients moved to where rounding leaves no doubt, from the last block down.

    The interval of g is the one of the check: where weights are tiny beside others, it is far wider than rounding.
    """
    ends = np.cumsum(net.shape[1:-1])
    for own in (slice(a, b) for a, b in zip([0, *ends[:-1]][::-1], ends[::-1], strict=True)):
        g, room = finite_sum([(G[own], Interval(c[None, :], c[None, :]))]).rows(0), 1e-13 * (np.abs(G[own]) @ np.abs(c))
        low, high = np.where(off[own], -np.inf, g.hi + room), np.where(on[own], np.inf, alpha[own] * (g.lo - room))
        kept = np.where(low <= high, np.clip(c[own], low, np.maximum(low, high)), c[own])
        c[own] = np.where(sums[own], G[own] @ c, kept)
    return c


SUCCESS, FAILURE = 1.0, -0.5  # change of the open signs up to which cells are tried: a third of the tries succeed


class Refusals:
    """The proofs of cells of the whole space without interior, and up to how many open signs it is worth to look for
    one: a cell that is refused early is not split any further, but most cells with many open signs have points."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.most_open = 0.0
        self._proofs: list[Empty] = []
        self._against = np.zeros((64, 3 * net.neurons), dtype=np.float32)  # states of neurons that a proof excludes

    def of(self, nodes: list[Node]) -> list[Empty | None]:
        """For every cell a proof that is known already, None where there is none."""
        if not self._proofs or not nodes:
            return [None] * len(nodes)
        states = np.stack([np.concatenate(sign_states(node.alone.pre)) for node in nodes])
        free = states.astype(np.float32) @ self._against[: len(self._proofs)].T == 0
        return [self._proofs[int(row.argmax())] if row.any() else None for row in free]

    def look(self, node: Node, budget: Budget) -> Empty | None:
        """A new proof for a cell, which is kept for others."""
        proof = refute(self.net, node.cell, node.alone, budget)
        if proof is not None:
            self._keep(proof)
        if proof is not None or node.open:
            self.most_open = max(self.most_open + (FAILURE if proof is None else SUCCESS), 0.0)
        return proof

    def _keep(self, proof: Empty) -> None:
        found = needed_signs(self.net, proof.multipliers[COEFFICIENTS], proof.multipliers[BASIS].astype(np.int64))
        if found is None or not found.constant < 0:  # with a constant of zero it is a proof for this cell alone
            return
        count = len(self._proofs)
        if count == len(self._against):
            self._against = np.concatenate([self._against, np.zeros_like(self._against)])
        self._against[count] = ~np.concatenate([found.on, found.off, found.open])
        self._proofs.append(proof)
