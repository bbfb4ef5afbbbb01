"""One term of an affine expression: the matrix that multiplies the values of a block, in the form that costs least.

A term that only picks values is kept as `Picked`; a convolution stays one while it is scaled by channel, or follows a
picking of whole channels or a padding with zeros; everything else is a dense or a CSR matrix. Sizes are known before
anything is allocated: `folded_entries` says what a product would hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from lipcert.errors import InputError
from lipcert.files import MAX_WEIGHTS, MAX_WIDTH
from lipcert.problem.convolution import Convolution, Kernel, Window, folded
from lipcert.problem.maps import Index, Matrix, Operator, entries, entrywise, is_sparse, matrix
from lipcert.rounding import Array

MAX_PRODUCTS = 1 << 31  # multiplications to fold two sparse maps into one
MAX_DENSE = 1 << 25  # entries of a matrix that is made dense for speed


@dataclass(frozen=True, eq=False)
class Picked:
    """Value i is entry index[i] of a block of this width, nothing where that is -1."""

    index: Index
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.index), self.width

    @cached_property
    def is_identity(self) -> bool:
        return len(self.index) == self.width and np.array_equal(self.index, np.arange(self.width))

    def matrix(self) -> Matrix:
        """These entries as a CSR array."""
        there = self.index >= 0
        ends = np.append(0, np.cumsum(there))
        return sparse.csr_array((np.ones(ends[-1]), self.index[there], ends), shape=self.shape)


Term = Picked | Matrix


def everything(width: int) -> Picked:
    """All values of a block, in order."""
    return Picked(np.arange(width), width)


def as_matrix(term: Term) -> Matrix:
    """The term as a map; small ones are dense."""
    map_ = term.matrix() if isinstance(term, Picked) else term
    return map_.toarray() if is_sparse(map_) and map_.shape[0] * map_.shape[1] <= 4096 else map_


def term_entries(term: Term) -> int:
    """The multiplications of a product with one vector."""
    return len(term.index) if isinstance(term, Picked) else entries(term)


def selected(term: Term, index: Index) -> Term:
    """Rows index[i] of the term, zero where that is -1. Convolutions are written out."""
    if isinstance(term, Picked):
        return Picked(np.where(index >= 0, term.index[index], -1), term.width)
    check_entries(int(_counts(term, 1)[index].sum()))
    if np.all(index >= 0):
        return matrix(term)[index]
    picked = Picked(index, term.shape[0]).matrix()
    return compact(sparse.csr_array(picked @ sparse.csr_array(matrix(term))))


def scaled(term: Term, scale: Array) -> Term:
    """The term with its rows multiplied."""
    if np.all(scale == 1.0):
        return term
    map_ = term.matrix() if isinstance(term, Picked) else term
    kept = map_.rows_scaled(scale) if isinstance(map_, Kernel) else None
    return scaled_rows(matrix(map_), scale) if kept is None else kept


def added(a: Term, b: Term) -> Term:
    """The sum of two terms of the same block."""
    if isinstance(a, Convolution) and isinstance(b, Convolution) and same_place(a, b):
        return Convolution(a.kernel + b.kernel, a.spatial, a.window, a.groups)
    if isinstance(a, Picked) and isinstance(b, Picked) and not np.any((a.index >= 0) & (b.index >= 0)):
        return Picked(np.maximum(a.index, b.index), a.width)
    first, second = (matrix(t.matrix() if isinstance(t, Picked) else t) for t in (a, b))
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        check_entries(first.shape[0] * first.shape[1])
        return np.asarray(first + second)
    check_entries(first.nnz + second.nnz)
    return compact(sparse.csr_array(first + second))


def folded_entries(map_: Matrix, term: Term) -> int:
    """The most entries that map_ after the term would have."""
    if isinstance(term, Picked):
        if term.is_identity or isinstance(map_, np.ndarray):
            return entries(map_)
        return entries(map_) if isinstance(map_, Convolution) and moved(map_, term) is None else _kept(map_)
    if folded(map_, term) is not None:
        return _kept(map_)
    full = int(map_.shape[0] * term.shape[1])
    if isinstance(map_, np.ndarray) or isinstance(term, np.ndarray):
        return full
    return min(full, _products(map_, term))


def applied(map_: Matrix, term: Term) -> Matrix:
    """map_ after the term, as one map; refused where that is too large to store or too slow to compute."""
    if isinstance(term, Picked):
        return _after_places(map_, term)
    return compact(_product(map_, term))


def moved(map_: Convolution, places: Picked) -> Convolution | None:
    """A convolution after a picking, where that is one: whole channels are moved, or zeros are put around them."""
    index = places.index.reshape(map_.channels, *map_.spatial)
    there = index >= 0
    if map_.groups > 1 and not there.all():
        return None
    axes = range(1, index.ndim)
    used = [np.flatnonzero(there.any(axis=tuple(a for a in range(index.ndim) if a != axis))) for axis in axes]
    if any(not len(u) or u[-1] - u[0] + 1 != len(u) for u in used):
        return None
    inside = index[(slice(None), *(slice(u[0], u[-1] + 1) for u in used))]
    size = math.prod(inside.shape[1:])
    rows = inside.reshape(map_.channels, -1)
    some = rows[:, 0] >= 0
    if places.width % size or not np.array_equal(rows[~some], np.full_like(rows[~some], -1)):
        return None
    starts = rows[some, 0]
    if np.any(starts % size) or not np.array_equal(rows[some], starts[:, None] + np.arange(size)):
        return None
    before = tuple(b + int(u[0]) for b, u in zip(map_.window.before, used, strict=True))
    ends = zip(map_.window.after, map_.spatial, used, strict=True)
    after = tuple(a + n - 1 - int(u[-1]) for a, n, u in ends)
    w = map_.window
    window = Window(w.kernel, w.strides, w.dilations, before, after)
    if map_.groups > 1:
        same = places.width == map_.channels * size and np.array_equal(starts, np.arange(map_.channels) * size)
        return Convolution(map_.kernel, inside.shape[1:], window, map_.groups) if same else None
    kernel = np.zeros((map_.kernel.shape[0], places.width // size, *map_.kernel.shape[2:]))
    np.add.at(kernel.swapaxes(0, 1), starts // size, map_.kernel[:, some].swapaxes(0, 1))  # a channel may be used twice
    return Convolution(kernel, inside.shape[1:], window)


def image(map_: Matrix, bias: Array) -> Array:
    """map_ bias; of a convolution with sums in the order of its CSR matrix, so that the hash is the same."""
    if isinstance(map_, Operator) and bias.any():
        return np.concatenate([piece @ bias for piece in map_.pieces()])
    return np.asarray(map_ @ bias) if bias.any() else np.zeros(map_.shape[0])


def compact(map_: Matrix) -> Matrix:
    """Dense where that is faster: from a tenth of the entries on."""
    size = map_.shape[0] * map_.shape[1]
    if is_sparse(map_) and size <= MAX_DENSE and map_.nnz > 0.1 * size:
        return map_.toarray()
    return map_


def _after_places(map_: Matrix, places: Picked) -> Matrix:
    if places.is_identity:
        return compact(map_)
    if isinstance(map_, Convolution):
        kept = moved(map_, places)
        if kept is not None:
            return kept
    map_ = matrix(map_)
    if isinstance(map_, np.ndarray):
        once = len(np.unique(places.index)) == len(places.index) == places.width
        if once and places.index.min() >= 0:
            columns = np.empty_like(map_)
            columns[:, places.index] = map_
            return columns
        check_entries(map_.size)
    return compact(sparse.csr_array(sparse.csr_array(map_) @ places.matrix()))


def _product(second: Matrix, first: Matrix) -> Matrix:
    """Two maps as one. Convolutions are written out, so that the sums, and with them the hash, are those of a network
    without any.
    """
    kept = folded(second, first)
    if kept is not None:
        return kept
    full = second.shape[0] * first.shape[1]
    if isinstance(second, np.ndarray) or isinstance(first, np.ndarray):
        check_entries(full)
        if max(entries(second), entries(first)) > MAX_WEIGHTS:
            return second @ first
        return matrix(second) @ compact(matrix(first))
    products = _products(second, first)
    check_entries(max(entries(second), entries(first), min(full, products)))
    if products > MAX_PRODUCTS:
        raise InputError(f"folding two layers takes {products:,} multiplications, beyond the limit")
    return matrix(second) @ compact(matrix(first))


def _products(second: Matrix, first: Matrix) -> int:
    """The multiplications of a sparse product, at least its entries."""
    return int(_counts(second, 0) @ _counts(first, 1))


def _kept(map_: Matrix) -> int:
    return int(map_.kernel.size) if isinstance(map_, Kernel) else entries(map_)


def same_place(a: Convolution, b: Convolution) -> bool:
    """Whether two convolutions differ in the numbers of their kernels only."""
    return (a.spatial, a.window, a.groups, a.kernel.shape) == (b.spatial, b.window, b.groups, b.kernel.shape)


def _counts(map_: Matrix, axis: int) -> Index:
    """The entries in every column (axis 0) or row (axis 1)."""
    if isinstance(map_, np.ndarray):
        return np.full(map_.shape[1 - axis], map_.shape[axis])
    return np.asarray(entrywise(map_, np.ones_like).sum(axis=axis)).astype(np.int64)


def scaled_rows(matrix: Matrix, scale: Array) -> Matrix:
    """A dense or CSR matrix with its rows multiplied."""
    if isinstance(matrix, np.ndarray):
        return matrix * scale[:, None]
    return entrywise(matrix, lambda data: data * np.repeat(scale, np.diff(matrix.indptr)))


def check_width(size: int) -> int:
    """A tensor's size, if a layer may be that wide."""
    if size > MAX_WIDTH:
        raise InputError(f"a tensor of {size:,} entries is beyond the limit of {MAX_WIDTH:,}")
    if size < 1:
        raise InputError("a tensor has no entries")
    return size


def check_entries(count: int) -> int:
    """A number of stored weights, if a network may hold that many; asked before they are allocated."""
    if count > MAX_WEIGHTS:
        raise InputError(f"a layer of {count:,} stored weights is beyond the limit of {MAX_WEIGHTS:,}")
    return count
