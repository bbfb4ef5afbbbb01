"""Whether a relaxation of a part is worth its time: what the last ones gained, against what splitting would cost."""

from __future__ import annotations

import math

from lipcert.branching.node import Node
from lipcert.network import Network
from lipcert.planning import expected_work

_FEW = 6  # open signs that are split rather than relaxed
_GROWTH = 0.6  # a part with k open signs is about 2^(0.6 k) parts in the end
_HOPE = 0.12  # the least chance of success that is worth a try
_GAIN = 0.4  # of the excess over the threshold: less than this is no success
_OVERHEAD = 0.15  # seconds of a relaxation that do not depend on its size


class Worth:
    """Running averages, by the number of open signs."""

    def __init__(self, possible: bool) -> None:
        self.possible = possible
        self.tries: dict[int, float] = {}
        self.gains: dict[int, float] = {}
        self.slowness = 1.0  # measured seconds over expected ones
        self.seconds = 1e-3  # of one split

    def relaxes(self, node: Node, net: Network) -> bool:
        """Whether to relax this part before it is split."""
        if not self.possible or node.relaxed or node.open <= _FEW:
            return False
        hope = self._hope(node.open)
        cost = self.slowness * _expected(node.open, net)
        return hope >= _HOPE and hope * self.seconds * 2.0 ** min(_GROWTH * node.open, 60.0) >= cost

    def _hope(self, count: int) -> float:
        key = _bucket(count)
        return (self.gains.get(key, 0.0) + 1.0) / (self.tries.get(key, 0.0) + 2.0)

    def learn(self, node: Node, upper: float, threshold: float, seconds: float) -> None:
        """After a relaxation: `node.upper` is the bound before it."""
        key = _bucket(node.open)
        excess = node.upper - threshold
        gained = upper <= threshold or (math.isfinite(upper) and excess > 0 and node.upper - upper > _GAIN * excess)
        self.tries[key] = 0.95 * self.tries.get(key, 0.0) + 1.0
        self.gains[key] = 0.95 * self.gains.get(key, 0.0) + float(gained)

    def split(self, seconds: float, count: int) -> None:
        """After `count` nodes were split."""
        self.seconds += 0.2 * (seconds / max(count, 1) - self.seconds)


def _bucket(count: int) -> int:
    return round(4 * math.log2(1 + count))


def _expected(count: int, net: Network) -> float:
    order = 1 + 2 * net.inputs + (3 if net.depth > 1 else 1) * count
    return _OVERHEAD + expected_work(count, order, 14 if net.depth > 1 else 2)
