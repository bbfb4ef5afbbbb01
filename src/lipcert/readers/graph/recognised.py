"""Comparisons, choices, products and quotients of tensors that are activations written out.

    where(d > 0, a, b) = b + r relu(d)    if a - b = r d: the pieces meet, else the value would jump
    a b = r s f(z)                        if a = r z, and b is the gate of f: SiLU, GELU, Mish, hard swish

An activation is recognised by its expression: `ratio` says whether one tensor is a multiple of another. Other products,
quotients and logarithms are those of `products`; other choices are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.errors import UnsupportedOperator
from lipcert.problem.activations import RELU, Activation
from lipcert.problem.convolution import Convolution
from lipcert.problem.maps import Matrix, Operator
from lipcert.readers.graph import products
from lipcert.readers.graph.rewrites import leaky
from lipcert.readers.graph.tensors import Graph, Tensor, broadcast, constant_tensor
from lipcert.readers.graph.terms import Picked, Term, everything, same_place
from lipcert.rounding import Array

EXACT = 1e-12  # relative: what rounding to double precision leaves
SINGLE = 1e-6  # relative: what rounding to single precision leaves
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


def product(graph: Graph, a: Tensor | Condition, b: Tensor | Condition) -> Tensor:
    """a b: an activation of one of them where it is that; a condition counts as 1 where it is true and 0 elsewhere."""
    for gate, x in ((a, b), (b, a)):
        if isinstance(gate, Condition) and isinstance(x, Tensor):
            return choose(graph, gate, x, np.zeros(()))
    if isinstance(a, Condition) or isinstance(b, Condition):
        raise UnsupportedOperator("multiplies two comparisons; only a tensor and a comparison are supported")
    shape = broadcast(a.shape, b.shape)
    a, b = graph.expand(a, shape), graph.expand(b, shape)
    for x, gate in ((a, b), (b, a)):
        for known in (_silu, _gelu, _mish, _hard_swish):
            found = known(graph, x, gate)
            if found is not None:
                return found
    r = ratio(a, b, EXACT)
    if r is None or not np.all(np.isfinite(r)):
        return products.multiply(graph, a, b)
    return graph.scale_and_shift(products.square(graph, b), r.reshape(b.shape), 0.0)


def quotient(graph: Graph, a: Tensor, b: Tensor) -> Tensor:
    """a / b: softsign where it is x / (1 + |x|), otherwise a times the reciprocal of b."""
    a, b = graph.opened(a), graph.opened(b)
    size = graph.scale_and_shift(b, 1.0, -1.0)  # |x| = 2 relu(x) - x
    for block in (j for j in size.terms if j and graph.blocks[j - 1][1] == RELU):
        z = replace(graph.blocks[block - 1][0], shape=size.shape)
        if z.width != size.width:
            continue
        absolute = graph.subtract(graph.scale_and_shift(_values(z, block), 2.0, 0.0), z)
        share = ratio(a, z, EXACT)
        if share is not None and _same(absolute, size):
            return graph.scale_and_shift(graph.activate(z, Activation("softsign")), share.reshape(a.shape), 0.0)
    shape = broadcast(a.shape, b.shape)
    return products.multiply(graph, graph.expand(a, shape), graph.expand(products.reciprocal(graph, b), shape))


def logarithm(graph: Graph, x: Tensor) -> Tensor:
    """log x; where x is a sigmoid it is -softplus(-z)."""
    x = graph.opened(x)
    found = _gate(graph, x, "sigmoid")
    if found is None or np.any(found[1] != 1.0) or np.any(found[2]):
        return graph.activate(x, products.LOG)
    minus = graph.activate(graph.scale_and_shift(found[0], -1.0, 0.0), Activation("softplus"))
    return graph.scale_and_shift(minus, -1.0, 0.0)


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
    missing = {j: Picked(np.full(a.width, -1), b.terms[j].shape[1]) for j in b.terms if j not in a.terms}
    return replace(a, terms=dict(sorted((a.terms | missing).items())))


def _gate(graph: Graph, gate: Tensor, kind: str) -> tuple[Tensor, Array, Array] | None:
    """z, s, t where the gate is s f(z) + t entry by entry, with f of this kind; None where it is not."""
    if len(gate.terms) != 1 or gate.order is not None:
        return None
    block = next(iter(gate.terms))
    if not block or graph.blocks[block - 1][1].kind != kind:
        return None
    z = graph.blocks[block - 1][0]
    if z.width != gate.width:
        return None
    z = replace(z, shape=gate.shape)
    scale = ratio(replace(gate, bias=np.zeros(gate.width)), _values(z, block), EXACT)
    return None if scale is None else (z, scale, gate.bias)


def _values(z: Tensor, block: int) -> Tensor:
    """The values of a block, in the order of its z."""
    return Tensor(z.shape, {block: everything(z.width)}, np.zeros(z.width))


def _silu(graph: Graph, x: Tensor, gate: Tensor) -> Tensor | None:
    """x s sigmoid(z) is r s silu(z) where x = r z."""
    found = _gate(graph, gate, "sigmoid")
    if found is None or found[2].any():
        return None
    return _multiple(graph, x, found[0], found[1], "silu")


def _gelu(graph: Graph, x: Tensor, gate: Tensor) -> Tensor | None:
    """x s (1 + erf(z)) is r s sqrt(2) gelu(sqrt(2) z) where x = r z."""
    found = _gate(graph, gate, "erf")
    if found is None or not np.allclose(found[1], found[2], rtol=1e-12, atol=0.0):
        return None
    root = math.sqrt(2.0)
    return _multiple(graph, x, found[0], root * found[1], "gelu", root)


def _mish(graph: Graph, x: Tensor, gate: Tensor) -> Tensor | None:
    """x s tanh(softplus(z)) is r s mish(z) where x = r z."""
    found = _gate(graph, gate, "tanh")
    inner = None if found is None else _gate(graph, found[0], "softplus")
    if found is None or inner is None or found[2].any() or inner[2].any() or np.any(inner[1] != 1.0):
        return None
    return _multiple(graph, x, inner[0], found[1], "mish")


def _hard_swish(graph: Graph, x: Tensor, gate: Tensor) -> Tensor | None:
    """x c (relu(h) - relu(h - 1)) is r c hardswish(6 h - 3) where x = r (6 h - 3)."""
    blocks = list(gate.terms)
    if len(blocks) != 2 or gate.bias.any() or not all(j and graph.blocks[j - 1][1] == RELU for j in blocks):
        return None
    zs = [replace(graph.blocks[j - 1][0], shape=gate.shape) for j in blocks]
    if any(z.width != gate.width for z in zs) or gate.order is not None:
        return None
    alone = [Tensor(gate.shape, {j: gate.terms[j]}, gate.bias) for j in blocks]
    some, others = (ratio(own, _values(z, j), EXACT) for own, z, j in zip(alone, zs, blocks, strict=True))
    if some is None or others is None or not np.allclose(some, -others, rtol=1e-9, atol=0.0):
        return None
    if np.all(others > 0):  # the block of h may be the later one
        some, zs = others, zs[::-1]
    if not np.all(some > 0):
        return None
    first, second = (graph.scale_and_shift(z, some.reshape(z.shape), 0.0) for z in zs)  # c h and c h - c
    c, none = first.bias - second.bias, np.zeros(gate.width)
    if not np.all(c > 0) or not _same(replace(first, bias=none), replace(second, bias=none)):
        return None
    wide = graph.scale_and_shift(first, (6.0 / c).reshape(gate.shape), -3.0)
    return _multiple(graph, x, wide, c, "hardswish")


def _multiple(graph: Graph, x: Tensor, z: Tensor, scale: Array, kind: str, inner: float = 1.0) -> Tensor | None:
    """r scale f(inner z) where x = r z; None where it is no multiple."""
    r = ratio(x, z, SINGLE if kind == "hardswish" else EXACT)
    if r is None:
        return None
    value = graph.activate(graph.scale_and_shift(z, inner, 0.0), Activation(kind))
    return graph.scale_and_shift(value, (r * scale).reshape(z.shape), 0.0)


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal as expressions, up to single precision."""
    r = ratio(a, b, SINGLE)
    return r is not None and bool(np.all(np.abs(r - 1.0) <= SINGLE))


def ratio(a: Tensor, b: Tensor, tolerance: float) -> Array | None:
    """r with a = r b in every entry, up to this part of a, in their shape; None if there is no such r."""
    if a.shape != b.shape or set(a.terms) != set(b.terms) or _other_order(a, b):
        return None
    if all(a.terms[j] is b.terms[j] for j in a.terms) and np.array_equal(a.bias, b.bias):
        return np.ones(a.width)
    if _kernels(a) or _kernels(b):
        return _ratio_of_kernels(a, b, tolerance)
    pairs = list(_rows(a, b))
    across, own, size = (_dots(some) for some in (pairs, [(y, y) for _, y in pairs], [(x, x) for x, _ in pairs]))
    r = np.divide(across, own, out=np.zeros(a.width), where=own > 0)
    rest = _dots([(d, d) for d in (x - sparse.diags_array(r) @ y for x, y in pairs)])
    return _even(r) if np.all(rest <= tolerance**2 * size) else None


def _kernels(tensor: Tensor) -> bool:
    return any(isinstance(term, Operator) for term in tensor.terms.values())


def _rows(a: Tensor, b: Tensor) -> Iterator[tuple[Matrix, Matrix]]:
    for j in a.terms:
        yield _sparse(a.terms[j]), _sparse(b.terms[j])
    yield sparse.csr_array(a.bias[:, None]), sparse.csr_array(b.bias[:, None])


def _dots(pairs: list[tuple[Matrix, Matrix]]) -> Array:
    """The sums of the products of the entries, row by row."""
    sums = [np.asarray(x.multiply(y).sum(axis=1)).reshape(-1) for x, y in pairs]
    return np.asarray(np.sum(sums, axis=0), dtype=np.float64)


def _even(r: Array) -> Array:
    """One number for all, and a whole one, where that differs by rounding only."""
    for one in (np.round(r), r[:1]):
        if np.all(np.abs(r - one) <= EXACT * np.abs(r)):
            return np.broadcast_to(one, r.shape).copy()
    return r


def _sparse(term: Term) -> Matrix:
    return term.matrix() if isinstance(term, Picked) else sparse.csr_array(term)


def _other_order(a: Tensor, b: Tensor) -> bool:
    if a.order is None or b.order is None:
        return a.order is not b.order
    return not np.array_equal(a.order, b.order)


def _ratio_of_kernels(a: Tensor, b: Tensor, tolerance: float) -> Array | None:
    """One number for all entries, where every term is a convolution in the same place."""
    parts: tuple[list[Array], list[Array]] = [], []
    for j, x in a.terms.items():
        y = b.terms[j]
        if not isinstance(x, Convolution) or not isinstance(y, Convolution) or not same_place(x, y):
            return None
        parts[0].append(x.kernel.reshape(-1))
        parts[1].append(y.kernel.reshape(-1))
    ours, others = np.concatenate([*parts[0], a.bias]), np.concatenate([*parts[1], b.bias])
    r = float(ours @ others / (others @ others)) if others.any() else 0.0
    close = np.linalg.norm(ours - r * others) <= tolerance * np.linalg.norm(ours)
    return np.full(a.width, r) if close else None
