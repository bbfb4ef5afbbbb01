"""Comparisons and choices between two pieces: read where the pieces meet, refused where the value would jump.

where(d > 0, a, b) = b + r relu(d)        if a - b = r d
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import UnsupportedOperator
from lipcert.problem.activations import RELU, Activation
from lipcert.readers.graph.proportional import EXACT, SINGLE, ratio
from lipcert.readers.graph.rewrites import leaky
from lipcert.readers.graph.tensors import Graph, Tensor, broadcast, constant_tensor
from lipcert.readers.graph.terms import Places, everything
from lipcert.rounding import Array

_SOFTPLUS = Activation("softplus")
_THRESHOLD = 15.0  # above which softplus and the identity differ by less than 4e-7


@dataclass(frozen=True, eq=False)
class Condition:
    """True where the difference is positive, or where it is not if `negated`; at zero it does not matter."""

    difference: Tensor
    negated: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.difference.shape

    def inverted(self) -> Condition:
        """True where this is not."""
        return replace(self, negated=not self.negated)


def compare(graph: Graph, a: Tensor | Array, b: Tensor | Array, relation: str) -> Condition:
    """a > b, a >= b, a < b or a <= b."""
    more, less = (a, b) if relation[0] == ">" else (b, a)
    return Condition(graph.subtract(as_tensor(more), as_tensor(less)))


def as_tensor(value: Tensor | Array) -> Tensor:
    """A constant as a tensor."""
    return value if isinstance(value, Tensor) else constant_tensor(np.asarray(value, dtype=np.float64))


def choose(graph: Graph, condition: Condition | NDArray[Any], a: Tensor | Array, b: Tensor | Array) -> Tensor:
    """a where the condition is true, b where it is not."""
    first, second = as_tensor(a), as_tensor(b)
    shape = broadcast(condition.shape, first.shape, second.shape)
    first, second = graph.expand(first, shape), graph.expand(second, shape)
    if not isinstance(condition, Condition):
        mask = np.broadcast_to(np.asarray(condition, dtype=bool), shape)
        parts = zip((first, second), (mask, ~mask), strict=True)
        return graph.add(*(graph.pick(x, np.where(there, x.places, -1)) for x, there in parts))
    if condition.negated:
        first, second = second, first
    d = graph.expand(condition.difference, shape)
    return _softplus(graph, d, first, second) or _leaky(graph, d, first, second) or _joined(graph, d, first, second)


def _joined(graph: Graph, d: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """second + r relu(d) where first - second = r d, to single precision at least."""
    step = graph.subtract(first, second)
    if not step.terms and not step.bias.any():
        return first
    step, d = _over_the_same(step, d)
    r = ratio(step, d, EXACT)
    if r is None:
        r = ratio(step, d, SINGLE)
        if r is None:
            raise UnsupportedOperator("chooses between two pieces that do not meet where it switches: the value jumps")
        graph.notes.append("two pieces that meet up to single precision are read as meeting")
    if len(first.terms) < len(second.terms):  # the same from the other side: first + r relu(-d)
        d, second = graph.scale_and_shift(d, -1.0, 0.0), first
    return graph.add(second, graph.scale_and_shift(graph.activate(d, RELU), r.reshape(d.shape), 0.0))


def _leaky(graph: Graph, d: Tensor, first: Tensor, second: Tensor) -> Tensor | None:
    """p d above zero and q d below, without a branch; None where the pieces are others."""
    above, below = (ratio(*_over_the_same(piece, d), EXACT) for piece in (first, second))
    if above is None or below is None or not above.all():
        return None
    slopes = (below / above).reshape(d.shape)
    return graph.scale_and_shift(leaky(graph, d, slopes), above.reshape(d.shape), 0.0)


def _softplus(graph: Graph, d: Tensor, first: Tensor, second: Tensor) -> Tensor | None:
    """softplus(z) / beta, written with z / beta itself above a threshold where they hardly differ; else None."""
    if len(second.terms) != 1 or second.bias.any():
        return None
    block = next(iter(second.terms))
    if not block or graph.blocks[block - 1][1] != _SOFTPLUS:
        return None
    z = graph.blocks[block - 1][0]
    value = Tensor(z.shape, {block: everything(z.width)}, np.zeros(z.width))
    scale = ratio(second, replace(value, shape=second.shape), EXACT) if value.width == second.width else None
    z = replace(z, shape=first.shape) if z.width == first.width else z
    share = ratio(first, z, SINGLE)
    above = ratio(*_over_the_same(replace(d, bias=d.bias * 0), replace(z, bias=z.bias * 0)), SINGLE)
    if scale is None or share is None or above is None or not np.allclose(scale, share, rtol=1e-5):
        return None
    if not np.all(above > 0):
        return None
    # d = above (z - t): the switch is at z = t.
    switch = z.bias - d.bias / above
    if not np.all(switch >= _THRESHOLD):
        return None
    graph.notes.append("softplus is read without its threshold, above which it differs by less than 1e-6")
    return second


def _over_the_same(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both with terms of the same blocks, zero where one had none."""
    return _with(a, b), _with(b, a)


def _with(a: Tensor, b: Tensor) -> Tensor:
    missing = {j: Places(np.full(a.width, -1), b.terms[j].shape[1]) for j in b.terms if j not in a.terms}
    return replace(a, terms=dict(sorted((a.terms | missing).items())))
