"""Linear maps: the operations on a weight matrix (out, in), however it is kept.

A weight is a dense array, a scipy CSR array, or an `Operator`, which computes products and keeps no entries (see
`convolution`). All three have the members of `LinearMap`, so most code need not know which one it has. The functions
here know: `dense` and `matrix` write the entries out, `numbers` are those that are kept, `entries` counts those that
are not zero by construction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert import steps as working
from lipcert.errors import MethodError
from lipcert.files import MAX_WEIGHTS
from lipcert.rounding import Array

# Multiplications that take as long as copying one number into a convolution's columns: 12 to 58 were measured.
COPY_WORK = 30.0

Matrix = Any  # a LinearMap; scipy is untyped
Index = NDArray[np.int64]
Function = Callable[[NDArray[Any]], NDArray[Any]]

_PIECE = 1 << 20  # entries that are written out at a time


class LinearMap(Protocol):
    """The members that arrays, CSR arrays and operators share; `weight[rows]` picks rows."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def T(self) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __rmatmul__(self, other: Any, /) -> Any: ...
    def __abs__(self) -> Any: ...
    def __getitem__(self, rows: Any, /) -> Any: ...
    def astype(self, dtype: Any, /) -> Any: ...
    def sum(self, axis: int) -> Any: ...
    def max(self, axis: int) -> Any: ...


class Operator(ABC):
    """A matrix known by its products with vectors.

    `forward` gives weight x for every row x of a batch, `backward` gives g weight for every row g.
    """

    __array_ufunc__ = None  # numpy then leaves array @ operator to the operator
    ndim = 2

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    @abstractmethod
    def numbers(self) -> NDArray[Any]:
        """The numbers kept."""

    @property
    @abstractmethod
    def entries(self) -> int:
        """The number of entries of the matrix that are not zero by construction."""

    @property
    @abstractmethod
    def copied(self) -> int:
        """The numbers that a product with one vector copies, beside its multiplications."""

    @abstractmethod
    def summed(self, axis: int) -> int:
        """No row (axis 1) or column (axis 0) has more entries that are not zero."""

    @abstractmethod
    def forward(self, rows: NDArray[Any]) -> NDArray[Any]:
        """(batch, in) -> (batch, out)."""

    @abstractmethod
    def backward(self, rows: NDArray[Any]) -> NDArray[Any]:
        """(batch, out) -> (batch, in)."""

    @abstractmethod
    def entrywise(self, function: Function) -> Operator:
        """The map with function(numbers) in place of its numbers; what is zero by construction stays so."""

    def block(self, rows: Index) -> sparse.csr_array:
        """Some rows, written out; exact, because each sum has one term that is not zero."""
        picked = np.zeros((len(rows), self.shape[0]), dtype=self.dtype)
        picked[np.arange(len(rows)), rows] = 1
        return sparse.csr_array(self.backward(picked))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.numbers.dtype

    @property
    def T(self) -> Operator:
        return Transposed(self)

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Operator) or sparse.issparse(other):
            return self.tocsr() @ matrix(other)
        x = np.asarray(other)
        return self.forward(x[None, :])[0] if x.ndim == 1 else self.forward(x.T).T

    def __rmatmul__(self, other: Any) -> Any:
        if sparse.issparse(other):
            return other @ self.tocsr()
        g = np.asarray(other)
        return self.backward(g[None, :])[0] if g.ndim == 1 else self.backward(g)

    def __abs__(self) -> Operator:
        return self.entrywise(np.abs)

    def __getitem__(self, rows: Any) -> Operator:
        return Selected(self, np.arange(self.shape[0])[rows])

    def astype(self, dtype: Any) -> Operator:
        """This map in another precision."""
        return self.entrywise(lambda numbers: numbers.astype(dtype))

    def sum(self, axis: int) -> NDArray[Any]:
        """The sum of every row (axis 1) or of every column (axis 0)."""
        ones = np.ones((1, self.shape[axis]), dtype=self.dtype)
        return np.asarray((self.forward(ones) if axis else self.backward(ones))[0])

    def max(self, axis: int) -> NDArray[Any]:
        """The largest entry of every row (axis 1) or of every column (axis 0)."""
        largest = [piece.max(axis=axis).toarray().reshape(-1) for piece in self.pieces()]
        return np.asarray(np.concatenate(largest) if axis else np.maximum.reduce(largest))

    def pieces(self) -> Iterator[sparse.csr_array]:
        """The entries, some rows at a time."""
        rows = self.shape[0]
        step = max(1, _PIECE * rows // max(1, self.entries))
        for start in range(0, max(rows, 1), step):
            working.step()
            yield self.block(np.arange(start, min(start + step, rows)))

    def tocsr(self) -> sparse.csr_array:
        """All entries as a CSR array; refused where they would fill the memory."""
        self._check_room(self.entries)
        return sparse.csr_array(sparse.vstack(list(self.pieces()), format="csr"))

    def toarray(self) -> NDArray[Any]:
        """All entries as an array; refused where they would fill the memory."""
        self._check_room(self.shape[0] * self.shape[1])
        full, start = np.empty(self.shape, dtype=self.dtype), 0
        for piece in self.pieces():
            full[start : start + piece.shape[0]] = piece.toarray()
            start += piece.shape[0]
        return full

    def _check_room(self, numbers: int) -> None:
        if numbers > MAX_WEIGHTS:
            raise MethodError(
                f"a convolution of {self.shape[1]:,} inputs and {self.shape[0]:,} outputs is too large for a method "
                "that needs its matrix; use product or interval"
            )


@dataclass(frozen=True, eq=False)
class Transposed(Operator):
    """The transpose of an operator."""

    map: Operator

    @property
    def shape(self) -> tuple[int, int]:
        return self.map.shape[::-1]

    @property
    def numbers(self) -> NDArray[Any]:
        return self.map.numbers

    @property
    def entries(self) -> int:
        return self.map.entries

    @property
    def copied(self) -> int:
        return self.map.copied

    def summed(self, axis: int) -> int:
        return self.map.summed(1 - axis)

    @property
    def T(self) -> Operator:
        return self.map

    def forward(self, rows: NDArray[Any]) -> NDArray[Any]:
        return self.map.backward(rows)

    def backward(self, rows: NDArray[Any]) -> NDArray[Any]:
        return self.map.forward(rows)

    def entrywise(self, function: Function) -> Operator:
        return Transposed(self.map.entrywise(function))

    def max(self, axis: int) -> NDArray[Any]:
        return self.map.max(1 - axis)

    def tocsr(self) -> sparse.csr_array:
        return sparse.csr_array(self.map.tocsr().T)

    def toarray(self) -> NDArray[Any]:
        return self.map.toarray().T


@dataclass(frozen=True, eq=False)
class Selected(Operator):
    """Some rows of an operator, each at most once."""

    map: Operator
    index: Index

    def __post_init__(self) -> None:
        if len(np.unique(self.index)) < len(self.index):
            raise IndexError("a row of a convolution is selected twice; write the matrix out first")

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.index), self.map.shape[1]

    @property
    def numbers(self) -> NDArray[Any]:
        return self.map.numbers

    @property
    def entries(self) -> int:
        return -(-self.map.entries * len(self.index) // max(1, self.map.shape[0]))  # about

    @property
    def copied(self) -> int:
        return self.map.copied

    def summed(self, axis: int) -> int:
        return self.map.summed(axis)

    def forward(self, rows: NDArray[Any]) -> NDArray[Any]:
        return self.map.forward(rows)[:, self.index]

    def backward(self, rows: NDArray[Any]) -> NDArray[Any]:
        full = np.zeros((len(rows), self.map.shape[0]), dtype=rows.dtype)
        full[:, self.index] = rows
        return self.map.backward(full)

    def entrywise(self, function: Function) -> Operator:
        return Selected(self.map.entrywise(function), self.index)

    def block(self, rows: Index) -> sparse.csr_array:
        return self.map.block(self.index[rows])


def dense(weight: Matrix) -> Array:
    """The matrix as an array."""
    return np.asarray(weight if isinstance(weight, np.ndarray) else weight.toarray(), dtype=np.float64)


def matrix(weight: Matrix) -> Matrix:
    """The matrix with its entries, dense or CSR, for code that needs more than products."""
    return weight.tocsr() if isinstance(weight, Operator) else weight


def numbers(weight: Matrix) -> NDArray[Any]:
    """The numbers that are kept for the matrix."""
    return np.asarray(weight.data if sparse.issparse(weight) else getattr(weight, "numbers", weight))


def stored(weight: Matrix) -> int:
    """The number of numbers that are kept for the matrix."""
    return numbers(weight).size


def entries(weight: Matrix) -> int:
    """The multiplications of a product with one vector."""
    return int(weight.entries if isinstance(weight, Operator) else numbers(weight).size)


def summed(weight: Matrix, axis: int = 1) -> int:
    """The most summands of an entry of a product: the longest row (axis 1) or the longest column (axis 0)."""
    if isinstance(weight, Operator):
        return weight.summed(axis)
    if not sparse.issparse(weight):
        return int(weight.shape[axis])
    by_rows = sparse.csr_array(weight if axis else weight.T)
    return int(np.diff(by_rows.indptr).max(initial=0))


def dense_work(weight: Matrix) -> float:
    """The multiplications of a dense matrix that take as long as a product; not for sparse ones."""
    copied = weight.copied if isinstance(weight, Operator) else 0
    return float(entries(weight) + COPY_WORK * copied)


def is_sparse(weight: Matrix) -> bool:
    """Whether products gather entries one by one, which is slow beside those of dense arrays and convolutions."""
    return bool(sparse.issparse(weight))


def entrywise(weight: Matrix, function: Function) -> Matrix:
    """The map with function(numbers) in place of its numbers; what is not stored stays zero."""
    if sparse.issparse(weight):
        w = sparse.csr_array(weight)
        return sparse.csr_array((function(w.data), w.indices, w.indptr), shape=w.shape)
    return weight.entrywise(function) if isinstance(weight, Operator) else function(weight)


def times(weight: Matrix, x: NDArray[Any]) -> NDArray[Any]:
    """weight x for every row x; scipy is faster with the sparse factor on the left."""
    working.step()
    return np.ascontiguousarray((weight @ x.T).T) if sparse.issparse(weight) else np.asarray(x @ weight.T)


def row_pieces(weight: Matrix) -> Iterator[Matrix]:
    """Some rows at a time of a large dense array, so that |weight| need not be in memory beside it; else all at once.

    CSR arrays and operators share what they keep besides their numbers.
    """
    rows, columns = weight.shape
    step = max(1, _PIECE // max(1, columns)) if isinstance(weight, np.ndarray) else max(1, rows)
    for start in range(0, max(1, rows), step):
        working.step()
        yield weight if step >= rows else weight[start : start + step]


def fingerprint(weight: Matrix) -> Iterator[bytes]:
    """Row pointers, columns and values of the CSR array without zeros, little-endian: the same however it is kept."""
    if isinstance(weight, Operator):
        counts = weight.entrywise(lambda numbers: (numbers != 0).astype(np.float64)).sum(axis=1)
        yield np.append(0, np.cumsum(counts)).astype("<i8").tobytes()
        for piece in weight.pieces():
            yield _canonical(piece).indices.astype("<i8").tobytes()
        for piece in weight.pieces():
            yield _canonical(piece).data.astype("<f8").tobytes()
    else:
        w = _canonical(sparse.csr_array(weight, copy=True))
        for part in (w.indptr.astype("<i8"), w.indices.astype("<i8"), w.data.astype("<f8")):
            yield part.tobytes()


def _canonical(w: sparse.csr_array) -> sparse.csr_array:
    w.eliminate_zeros()
    w.sort_indices()
    return w
