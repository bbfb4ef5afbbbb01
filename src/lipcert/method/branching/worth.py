"""Whether a relaxation of a part is worth its time: how far above the threshold its intervals may be.

A relaxation gains a certain factor over the cheap bounds, which depends on the network and is not known beforehand. The
largest excess that is tried rises with every success and falls with every failure, so that about half of them decide
their part. Parts with few open signs are split all the way instead, which takes less time.
"""

from __future__ import annotations

import math

from lipcert.method.branching.choose import splits_boxes
from lipcert.method.branching.node import Node
from lipcert.method.planning import expected_work
from lipcert.problem.network import Network

_FEW = 6  # open signs that are split rather than relaxed
_GROWTH = 0.6  # a part with k open signs is about 2^(0.6 k) parts in the end
_SHRINKING = 0.8  # where boxes are split, one with an excess of 2^e is about 2^(0.8 e) parts,
_NEAR = 2.0  # times two to this power, because the last of the excess goes slowly
_FIRST = 4.0  # the largest excess in powers of two, at first
_STEP = 0.25
_LEAST = 2.0  # however often it fails: without boxes to split there is nothing better
_LEAST_OF_BOXES = 0.25
_SLOWER = 3.0  # than the planner thinks, because matrices are small and cuts follow
_OVERHEAD = 0.15  # seconds of a relaxation that do not depend on its size


class Worth:
    """What was learnt so far."""

    def __init__(self, possible: bool) -> None:
        self.possible = possible
        self.most = _FIRST
        self.slowness = 1.0  # of relaxations, against what is expected
        self.seconds = 1e-3  # of CPU, for one split

    def relaxes(self, node: Node, net: Network, threshold: float) -> bool:
        """Whether to relax this part before it is split."""
        excess = _excess(node.own, threshold)
        if not self.possible or node.relaxed or node.open <= _FEW or excess > self.most:
            return False
        parts = min(_GROWTH * node.open, 60.0)
        if splits_boxes(net, node):
            parts = min(parts, _SHRINKING * excess + _NEAR)
        return self.seconds * math.exp2(parts) >= self.slowness * _expected(node.open, net)

    def learn(self, node: Node, net: Network, decided: bool, seconds: float) -> None:
        """After a relaxation of this part that took so many seconds of CPU."""
        self.slowness += 0.2 * (seconds / _expected(node.open, net) - self.slowness)
        least = _LEAST_OF_BOXES if splits_boxes(net, node) else _LEAST
        self.most = max(self.most + (_STEP if decided else -_STEP), least)

    def split(self, seconds: float, count: int) -> None:
        """After `count` nodes were split."""
        self.seconds += 0.2 * (seconds / max(count, 1) - self.seconds)


def _excess(upper: float, threshold: float) -> float:
    if not upper > threshold:
        return 0.0
    return math.log2(upper / threshold) if threshold > 0 and math.isfinite(upper) else math.inf


def _expected(count: int, net: Network) -> float:
    order = 1 + 2 * net.inputs + (3 if net.depth > 1 else 1) * count
    return _OVERHEAD + _SLOWER * expected_work(count, order, 14 if net.depth > 1 else 2)
