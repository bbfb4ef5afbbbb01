"""Whether a relaxation of a cell is worth its time: how far above the threshold its intervals may be.

A relaxation gains a certain factor over the cheap bounds, which depends on the network and is not known beforehand. The
largest excess that is tried rises with every success and falls with every failure, so that about half of them decide
their cell. Cells with few open signs are split all the way instead, which takes less time; and splits come first: a
relaxation may take a share of what was spent so far, less after each that decided nothing.
"""

from __future__ import annotations

import math

from lipcert import policy
from lipcert.method.branching.choose import splits_boxes
from lipcert.method.branching.node import Node
from lipcert.method.planning import interior_operations
from lipcert.problem.network import Network
from lipcert.steps import DENSE, RATES


class Worth:
    """What was learnt so far."""

    def __init__(self, possible: bool) -> None:
        self.possible = possible
        self.most = policy.EXCESS_FIRST
        self.slowness = 1.0  # of relaxations, against what is expected
        self.seconds = 1e-3  # of CPU, for one split
        self.spent = 0.0  # in all splits and relaxations
        self.trust = 1.0  # in relaxations: doubled by those that decide, halved by those that do not

    def relaxes(self, node: Node, net: Network, threshold: float) -> bool:
        """Whether to relax this cell before it is split."""
        excess = _excess(node.own, threshold)
        if not self.possible or node.relaxed or node.open <= policy.RELAX_OPEN or excess > self.most:
            return False
        cells = min(policy.CELLS_GROWTH * node.open, 60.0)
        if splits_boxes(net, node):
            cells = min(cells, policy.CELLS_SHRINKING * excess + policy.CELLS_NEAR)
        expected, share = self.slowness * _expected(node.open, net), policy.RELAX_SHARE
        if splits_boxes(net, node):
            share = policy.RELAX_SHARE_OF_BOXES
        return self.seconds * math.exp2(cells) >= expected and expected <= share * self.trust * self.spent

    def learn(self, node: Node, net: Network, decided: bool, seconds: float) -> None:
        """After a relaxation of this cell that took so many seconds of effort (`Budget.effort`)."""
        self.spent += seconds
        self.trust = min(2 * self.trust, 1.0) if decided else self.trust / 2
        self.slowness += 0.2 * (seconds / _expected(node.open, net) - self.slowness)
        least = policy.EXCESS_LEAST_OF_BOXES if splits_boxes(net, node) else policy.EXCESS_LEAST
        self.most = max(self.most + (policy.EXCESS_STEP if decided else -policy.EXCESS_STEP), least)

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
    return policy.CELL_OVERHEAD + policy.CELL_SLOWER * operations / RATES[DENSE]
