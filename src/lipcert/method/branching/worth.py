"""Whether a relaxation of a cell is worth its time: how far above the threshold its intervals may be.

A relaxation gains a certain factor over the cheap bounds, which depends on the network and is not known beforehand. The
largest excess that is tried rises with every success and falls with every failure, so that about half of them decide
their cell. Cells with few open signs are split all the way instead, which takes less time; and splits come first: a
relaxation may take a share of what was spent so far, less after each that decided nothing.
"""

from __future__ import annotations

import math

from lipcert.method.branching.choose import splits_boxes
from lipcert.method.branching.node import Node
from lipcert.method.planning import interior_operations
from lipcert.problem.network import Network
from lipcert.steps import DENSE, RATES

# Measured on the paper's small networks and ACAS Xu 1_1.
RELAX_SHARE = 0.5  # share of the work so far that one relaxation may take
RELAX_SHARE_OF_BOXES = 0.05  # the same where boxes are split: linear bounds of small boxes nearly always gained more
RELAX_OPEN = 6  # a cell with at most so many open signs is split rather than relaxed
CELLS_GROWTH = 0.6  # a cell with k open signs becomes about 2^(0.6 k) cells
CELLS_SHRINKING = 0.8  # a box whose bound is 2^e times the threshold becomes about 2^(0.8 e + 2) cells;
CELLS_NEAR = 2.0  # the 2 is there because the last of the excess goes slowly
EXCESS_FIRST = 4.0  # at first, cells are relaxed up to this excess (in powers of two)
EXCESS_STEP = 0.25  # by which that limit rises with a success and falls with a failure,
EXCESS_LEAST = 2.0  # down to this: without boxes to split there is nothing better
EXCESS_LEAST_OF_BOXES = 0.25  # the same where boxes are split
CELL_SLOWER = 3.0  # times the planner's duration: matrices of cells are small, and cuts follow
CELL_OVERHEAD = 0.15  # seconds of a relaxation that do not depend on its size


class Worth:
    """Estimates whether a relaxation of a cell is worth its time, from the times and the outcomes of earlier ones."""

    def __init__(self, possible: bool) -> None:
        self.possible = possible
        self.most = EXCESS_FIRST
        self.slowness = 1.0  # of relaxations, against what is expected
        self.seconds = 1e-3  # of CPU, for one split
        self.spent = 0.0  # in all splits and relaxations
        self.trust = 1.0  # in relaxations: doubled by those that decide, halved by those that do not

    def relaxes(self, node: Node, net: Network, threshold: float) -> bool:
        """Whether to relax this cell before it is split."""
        excess = _excess(node.own, threshold)
        if not self.possible or node.relaxed or node.open <= RELAX_OPEN or excess > self.most:
            return False
        cells = min(CELLS_GROWTH * node.open, 60.0)
        if splits_boxes(net, node):
            cells = min(cells, CELLS_SHRINKING * excess + CELLS_NEAR)
        expected, share = self.slowness * _expected(node.open, net), RELAX_SHARE
        if splits_boxes(net, node):
            share = RELAX_SHARE_OF_BOXES
        return self.seconds * math.exp2(cells) >= expected and expected <= share * self.trust * self.spent

    def learn(self, node: Node, net: Network, decided: bool, seconds: float) -> None:
        """After a relaxation of this cell that took so many seconds of effort (`Budget.effort`)."""
        self.spent += seconds
        self.trust = min(2 * self.trust, 1.0) if decided else self.trust / 2
        self.slowness += 0.2 * (seconds / _expected(node.open, net) - self.slowness)
        least = EXCESS_LEAST_OF_BOXES if splits_boxes(net, node) else EXCESS_LEAST
        self.most = max(self.most + (EXCESS_STEP if decided else -EXCESS_STEP), least)

    def split(self, seconds: float, count: int) -> None:
        """After `count` nodes were split."""
        self.spent += seconds
        self.seconds += 0.2 * (seconds / max(count, 1) - self.seconds)


def _excess(upper: float, threshold: float) -> float:
    if not upper > threshold:
        return 0.0
    return math.log2(upper / threshold) if threshold > 0 and math.isfinite(upper) else math.inf


def _expected(count: int, net: Network) -> float:
    order = 1 + 2 * net.inputs + (3 if net.depth > 1 else 1) * count
    operations = interior_operations(count, order, 14 if net.depth > 1 else 2)
    return CELL_OVERHEAD + CELL_SLOWER * operations / RATES[DENSE]
