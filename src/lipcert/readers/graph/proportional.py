"""Whether one tensor is a multiple of another, entry by entry, as expressions: what recognising a pattern rests on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from lipcert.problem.convolution import Convolution
from lipcert.problem.maps import Matrix, Operator
from lipcert.readers.graph.tensors import Tensor
from lipcert.readers.graph.terms import Places, Term, same_place
from lipcert.rounding import Array

EXACT = 1e-12  # relative: what rounding to double precision leaves
SINGLE = 1e-6  # relative: what rounding to single precision leaves


def ratio(a: Tensor, b: Tensor, tolerance: float) -> Array | None:
    """r with a = r b in every entry, up to this part of a; None where there is none. Of the same shape as both."""
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
    return term.matrix() if isinstance(term, Places) else sparse.csr_array(term)


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
