"""Products and quotients of tensors that are activations written out: SiLU, GELU, Mish, hard swish, softsign.

Of everything else the slope has no bound on the whole space: refused.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lipcert.errors import UnsupportedOperator
from lipcert.problem.activations import RELU, Activation
from lipcert.readers.graph.choices import Condition, choose
from lipcert.readers.graph.proportional import EXACT, SINGLE, ratio
from lipcert.readers.graph.tensors import Graph, Tensor, broadcast
from lipcert.readers.graph.terms import everything
from lipcert.rounding import Array


def product(graph: Graph, a: Tensor | Condition, b: Tensor | Condition) -> Tensor:
    """a b, where that is an activation of one of them; a condition counts as 1 where it is true and 0 elsewhere."""
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
    raise UnsupportedOperator("multiplies two tensors that both depend on the input, which is not piecewise linear")


def quotient(graph: Graph, a: Tensor, b: Tensor) -> Tensor:
    """a / b, where that is softsign, x / (1 + |x|)."""
    size = graph.scale_and_shift(b, 1.0, -1.0)  # |x| = 2 relu(x) - x
    for block in (j for j in size.terms if j and graph.blocks[j - 1][1] == RELU):
        z = replace(graph.blocks[block - 1][0], shape=size.shape)
        if z.width != size.width:
            continue
        absolute = graph.subtract(graph.scale_and_shift(_values(z, block), 2.0, 0.0), z)
        share = ratio(a, z, EXACT)
        if share is not None and _same(absolute, size):
            return graph.scale_and_shift(graph.activate(z, Activation("softsign")), share.reshape(a.shape), 0.0)
    raise UnsupportedOperator("divides by a tensor that depends on the input")


def logarithm(graph: Graph, x: Tensor) -> Tensor:
    """log x, where x is a sigmoid: -softplus(-z)."""
    found = _gate(graph, x, "sigmoid")
    if found is None or np.any(found[1] != 1.0) or np.any(found[2]):
        raise UnsupportedOperator("takes the logarithm of a tensor that depends on the input; its slope has no bound")
    minus = graph.activate(graph.scale_and_shift(found[0], -1.0, 0.0), Activation("softplus"))
    return graph.scale_and_shift(minus, -1.0, 0.0)


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
