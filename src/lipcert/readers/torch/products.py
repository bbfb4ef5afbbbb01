"""Products of a tensor with constants: linear, matmul, einsum. All are one map of block matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.maps import Matrix
from lipcert.readers.graph import layers
from lipcert.readers.graph.linear_maps import check_entries, check_width
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.values import Entry, is_live, number, optional, real, tensor
from lipcert.rounding import Array

_BOTH = "multiplies two tensors that both depend on the input, as attention does"


def linear(graph: Graph, input: Any, weight: Any, bias: Any = None) -> Tensor:
    """F.linear: input weight' + bias."""
    x, matrix, shift = tensor(input), real(weight, "weight"), optional(bias, "bias")
    if matrix.ndim != 2:
        raise InputError(f"its weight has the shape {matrix.shape}; two axes are needed")
    y = layers.times(graph, x, matrix.T)
    if shift is None:
        return y
    if shift.ndim > 1 or shift.size not in (1, matrix.shape[0]):
        raise InputError(f"shapes {y.shape} and {shift.shape} do not broadcast")
    return graph.scale_and_shift(y, 1.0, shift)


def matmul(graph: Graph, input: Any, other: Any) -> Tensor:
    """input @ other where one of them is constant, by torch's rules for vectors and for axes before the last two."""
    if is_live(input) and is_live(other):
        raise UnsupportedOperator(_BOTH)
    a, b = ([*value.shape] for value in (input, other))
    if not a or not b:
        raise InputError("multiplies a number without axes")
    live, constant = (input, other) if is_live(input) else (other, input)
    x, fixed = tensor(live), real(constant, "matrix")
    if fixed.ndim == 2 and live is input:
        return layers.times(graph, x, fixed)
    if fixed.ndim == 2 and len(b) > 1:
        return layers.times_from_left(graph, x, fixed)
    front = [f"{i}" for i in range(max(len(a), len(b)) - 2)]
    first = [*front[max(len(front) - len(a) + 2, 0) :], *(("m",) if len(a) > 1 else ()), "k"]
    second = [*front[max(len(front) - len(b) + 2, 0) :], "k", *(("n",) if len(b) > 1 else ())]
    out = [*front, *(("m",) if len(a) > 1 else ()), *(("n",) if len(b) > 1 else ())]
    if live is input:
        return contract(graph, x, first, fixed, second, out)
    return contract(graph, x, second, fixed, first, out)


def einsum(graph: Graph, equation: Any, *operands: Any) -> Tensor:
    """torch.einsum of the network's tensor and at most one constant."""
    parts = operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    if not isinstance(equation, str) or "." in equation:
        raise UnsupportedOperator("only an equation in letters, without an ellipsis, is supported")
    left, arrow, right = equation.replace(" ", "").partition("->")
    labels = left.split(",")
    if len(labels) != len(parts):
        raise InputError(f"{equation!r} is not for {len(parts)} operands")
    once = sorted(c for c in set(left) - {","} if left.count(c) == 1)
    out = list(right if arrow else "".join(once))
    if sum(map(is_live, parts)) != 1 or len(parts) > 2:
        raise UnsupportedOperator(_BOTH if len(parts) == 2 else "only a tensor and one constant are supported")
    place = next(i for i, part in enumerate(parts) if is_live(part))
    fixed = real(parts[1 - place], "operand") if len(parts) == 2 else np.ones(())
    other = list(labels[1 - place]) if len(parts) == 2 else []
    return contract(graph, tensor(parts[place]), list(labels[place]), fixed, other, out)


def contract(
    graph: Graph, x: Tensor, own: Sequence[str], weight: Array, other: Sequence[str], out: Sequence[str]
) -> Tensor:
    """The sum over all labels that `out` does not name of x times weight; an axis of length 1 is repeated."""
    own = list(own)
    if (
        len(set(other)) != len(other)
        or len(set(own)) != len(own)
        or len(own) != len(x.shape)
        or len(other) != weight.ndim
    ):
        raise UnsupportedOperator("its labels are not one for each axis, each once")
    length: dict[str, int] = {}
    for label, n in (*zip(own, x.shape, strict=True), *zip(other, weight.shape, strict=True)):
        if length.setdefault(label, n) not in (n, 1) and n != 1:
            raise InputError(f"axes of {length[label]} and {n} are multiplied")
        length[label] = max(length[label], n)
    if len(set(out)) != len(out) or not set(out) <= set(length):
        raise InputError("its result names axes that are not there")
    x = graph.expand(x, [length[c] for c in own])
    weight = np.broadcast_to(weight, [length[c] for c in other])
    both = [c for c in own if c in other and c in out]
    rows = [c for c in own if c not in other and c in out]
    columns = [c for c in other if c not in own and c in out]
    summed = [c for c in own if c not in out]
    # Sums over labels of one operand alone are taken there: of the constant now, of x by a weight that repeats.
    gone = tuple(i for i, c in enumerate(other) if c not in own and c not in out)
    weight, other = weight.sum(axis=gone), [c for c in other if c in own or c in out]
    order = [own.index(c) for c in (*both, *rows, *summed)]
    x = graph.pick(x, x.places.transpose(order))
    inner = [c for c in summed if c in other]
    weight = weight.transpose([other.index(c) for c in (*both, *columns, *inner)])
    counts = [math.prod(length[c] for c in group) for group in (both, rows, columns, summed)]
    kernel = np.broadcast_to(
        weight.reshape([counts[0], counts[2], *(length[c] if c in inner else 1 for c in summed)]),
        [counts[0], counts[2], *(length[c] for c in summed)],
    )
    check_entries(math.prod(counts))
    check_width(counts[0] * counts[1] * counts[2])
    made = (*both, *rows, *columns)
    y = graph.apply(x, _blocks(kernel.reshape(counts[0], counts[2], counts[3]), counts[1]), [length[c] for c in made])
    return graph.pick(y, y.places.transpose([made.index(c) for c in out]))


def addmm(graph: Graph, input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta input + alpha mat1 @ mat2."""
    product = graph.scale_and_shift(matmul(graph, mat1, mat2), number(alpha, "alpha"), 0.0)
    return graph.add(product, graph.scale_and_shift(tensor(input), number(beta, "beta"), 0.0))


def _blocks(kernel: Array, copies: int) -> Matrix:
    """One matrix of `kernel` after the other on the diagonal, each for `copies` rows."""
    if len(kernel) == 1 and copies == 1:
        return np.ascontiguousarray(kernel[0])
    each = [sparse.kron(sparse.eye_array(copies), block, format="csr") for block in kernel]
    return sparse.csr_array(sparse.block_diag(each, format="csr"))


PRODUCTS: dict[str, Entry] = {
    "linear": Entry(linear, "read", "affine"),
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "imatmul"), Entry(matmul, "read", "affine, by a constant")),
    "einsum": Entry(einsum, "read", "affine, by a constant"),
    "addmm": Entry(addmm, "read", "affine, by a constant"),
}
