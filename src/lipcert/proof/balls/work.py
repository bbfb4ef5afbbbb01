"""How much a check in balls is, told before it begins: what is too much is refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipcert.errors import MethodError
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.proof.preorder import Preorder
from lipcert.proof.tree import Tree

MOST_WORK = 4e9  # operations on balls, of which a core does about 2e7 in a second: about three minutes
_LOOSE = 30  # what is done to an entry besides products
_SMOOTH = 3e5  # for the lines of a neuron whose activation is smooth
_CELL = 1e5  # for a cell besides


def check_work(problem: Problem, proof: Any) -> None:
    """Refuse what would take longer than a few minutes."""
    check_cells(problem.network, _cells(proof), 1 + problem.network.outputs * problem.whole_map)


def check_cells(net: Network, cells: int, gradients: int) -> None:
    """The same for so many cells, with so many gradients on each."""
    work = cell_work(net) * cells * gradients
    if work > MOST_WORK:
        raise MethodError(
            f"too large for the exact check: about {work:.1e} operations in balls, more than {MOST_WORK:.0e}; "
            "use verify without it"
        )


def cell_work(net: Network) -> float:
    """Forms of all neurons and of all entries of the gradient, once: rows times what they are carried through."""
    sizes = [b.entries + _LOOSE * b.width for b in net.blocks]
    below = np.cumsum([0.0, *sizes])
    up = sum(2.0 * b.width * below[k] for k, b in enumerate(net.hidden, start=1))
    total = float(below[-1])
    down = sum(2.0 * n * (total - float(below[j])) for j, n in enumerate(net.shape[:-1]))
    smooth = sum(b.width for b in net.hidden if not b.activation.piecewise_linear)
    return float(up + down) + _SMOOTH * smooth + _CELL


def _cells(proof: Any) -> int:
    """How often the bounds of a region or a cell are made."""
    own = proof.sketch if isinstance(proof, Preorder) else proof
    return own.cells if isinstance(own, Tree) else 1
