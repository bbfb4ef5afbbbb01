"""Chain: a network gathered operation by operation, from a flattened tensor whose shape is tracked.

Consecutive affine operations are folded as they come, so a shift costs a vector addition and a permutation a
reordering of rows; sizes are checked before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.files import MAX_WEIGHTS
from lipcert.problem.activations import IDENTITY, Activation
from lipcert.problem.convolution import Convolution, Window, folded
from lipcert.problem.maps import Index, Matrix, Operator, entries, entrywise, is_sparse, matrix
from lipcert.problem.network import Affine, Network
from lipcert.readers.linear_maps import (
    average_pooling,
    check_entries,
    check_width,
    convolution,
    scaled_rows,
    selection,
)
from lipcert.rounding import Array

MAX_PRODUCTS = 1 << 31  # multiplications to fold two sparse maps into one
MAX_DENSE = 1 << 25  # entries of a matrix that is made dense for speed


class Chain:
    """The operations so far. `shape` is the current tensor's, the batch axis included where there is one."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(int(n) for n in shape)
        self.notes: list[str] = []
        self._width = check_width(math.prod(self.shape))
        self._weight: Matrix | None = None
        self._bias: Array = np.zeros(self._width)
        self._steps: list[Affine | Activation] = []
        self._stored = 0
        self._dropped = ""

    def network(self) -> Network:
        """Everything gathered, as a network."""
        if self._weight is not None or not self._steps:
            self._flush()
        return Network.from_steps(self._steps, self.notes)

    def activate(self, activation: Activation) -> None:
        """Apply an activation to every entry."""
        self._check_open()
        if activation != IDENTITY:
            self._flush()
            self._steps.append(activation)

    def reshape(self, shape: Sequence[int]) -> None:
        """Give the entries, in the same order, another shape."""
        if math.prod(shape) != self._width:
            raise InputError(f"a tensor of shape {self.shape} cannot be reshaped to {tuple(shape)}")
        self.shape = tuple(int(n) for n in shape)

    def transpose(self, axes: Sequence[int]) -> None:
        """Permute the axes."""
        if sorted(axes) != list(range(len(self.shape))):
            raise InputError(f"axes {list(axes)} are not a permutation for a tensor of shape {self.shape}")
        places = np.arange(self._width).reshape(self.shape).transpose(axes)
        if sum(n > 1 for n in self.shape) > 1:
            self._select(places.reshape(-1))
        self.shape = places.shape

    def scale_and_shift(self, scale: ArrayLike, shift: ArrayLike) -> None:
        """scale x + shift with numpy's broadcasting, which may enlarge x."""
        self._check_open()
        s, t = np.asarray(scale, dtype=np.float64), np.asarray(shift, dtype=np.float64)
        try:
            shape = np.broadcast_shapes(self.shape, s.shape, t.shape)
        except ValueError:
            other = s.shape if s.ndim else t.shape
            raise InputError(f"shapes {self.shape} and {other} do not broadcast") from None
        width = check_width(math.prod(shape))
        if width != self._width:
            self._select(np.broadcast_to(np.arange(self._width).reshape(self.shape), shape).reshape(-1))
        self.shape = shape
        if np.any(s != 1.0):
            self._scale(np.broadcast_to(s, shape).reshape(-1))
        if np.any(t):
            self._bias = self._bias + np.broadcast_to(t, shape).reshape(-1)
            self._weight = self._pending()

    def normalize_channels(self, scale: Array, bias: Array, mean: Array, variance: Array, epsilon: float) -> None:
        """Batch normalisation with fixed statistics: scale (x - mean) / sqrt(variance + epsilon) + bias."""
        if any(v.shape != (self.shape[1:2]) for v in (scale, bias, mean, variance)):
            raise InputError(f"{scale.size} channel statistics do not fit a tensor of shape {self.shape}")
        if not np.all(variance + epsilon > 0):
            raise InputError("a variance plus epsilon is not positive")
        factor = scale / np.sqrt(variance + epsilon)
        self.scale_and_shift(self._along_channels(factor), self._along_channels(bias - factor * mean))

    def times(self, matrix: Array) -> None:
        """x matrix, over the last axis."""
        if not self.shape or matrix.shape[0] != self.shape[-1]:
            raise InputError(f"a matrix of shape {matrix.shape} does not follow a tensor of shape {self.shape}")
        copies = self._width // self.shape[-1]
        check_entries(copies * matrix.size)
        shape = (*self.shape[:-1], matrix.shape[1])
        self._apply(_copies(copies, matrix.T), shape)

    def times_from_left(self, matrix: Array) -> None:
        """matrix x, over the last axis but one (the only one of a vector)."""
        axis = max(len(self.shape) - 2, 0)
        if not self.shape or matrix.shape[1] != self.shape[axis]:
            raise InputError(f"a matrix of shape {matrix.shape} does not precede a tensor of shape {self.shape}")
        columns = math.prod(self.shape[axis + 1 :])
        copies = math.prod(self.shape[:axis])
        check_entries(copies * columns * matrix.size)
        if columns > 1:
            matrix = sparse.csr_array(sparse.kron(matrix, sparse.eye_array(columns), format="csr"))
        rows = matrix.shape[0] // columns
        self._apply(_copies(copies, matrix), (*self.shape[:axis], rows, *self.shape[axis + 1 :]))

    def convolve(self, weight: Array, bias: Array | None, groups: int, window: Window) -> None:
        """A convolution over the axes after batch and channel; weight is (out, in per group, *kernel)."""
        spatial = self._spatial(len(window.kernel))
        channels = self.shape[1]
        if weight.ndim != len(self.shape) or weight.shape[2:] != window.kernel or 0 in weight.shape:
            raise InputError(f"a kernel of shape {weight.shape} does not fit a tensor of shape {self.shape}")
        if groups < 1 or weight.shape[0] % groups or weight.shape[1] * groups != channels:
            raise InputError(f"a kernel of shape {weight.shape} in {groups} groups does not fit {channels} channels")
        if bias is not None and bias.shape != (weight.shape[0],):
            raise InputError(f"a convolution bias of shape {bias.shape} does not fit {weight.shape[0]} channels")
        check_width(self.shape[0] * weight.shape[0] * math.prod(window.outputs(spatial)))
        outputs = (self.shape[0], weight.shape[0], *window.outputs(spatial))
        self._apply(_copies(self.shape[0], convolution(weight, spatial, groups, window)), outputs)
        if bias is not None:
            self.scale_and_shift(1.0, self._along_channels(bias))

    def average(self, window: Window | None, include_padding: bool = False) -> None:
        """Average pooling over the axes after batch and channel; over all of them without a window."""
        if window is None:
            spatial = self._spatial(len(self.shape) - 2)
            ones, zeros = (1,) * len(spatial), (0,) * len(spatial)
            window = Window(spatial, ones, ones, zeros, zeros)
        spatial = self._spatial(len(window.kernel))
        outputs = (*self.shape[:2], *window.outputs(spatial))
        check_width(math.prod(outputs))
        self._apply(_copies(self.shape[0], average_pooling(self.shape[1], spatial, window, include_padding)), outputs)

    def drop(self, what: str) -> None:
        """Leave out a softmax at the end: the network's outputs are its inputs, the scores."""
        self._check_open()
        self._dropped = what
        self.notes.append(f"{what} at the end is left out: the outputs are the scores that enter it")

    def _along_channels(self, values: Array) -> Array:
        return values.reshape((-1,) + (1,) * (len(self.shape) - 2))

    def _spatial(self, axes: int) -> tuple[int, ...]:
        if axes < 1 or len(self.shape) != axes + 2:
            raise InputError(f"a window over {max(axes, 1)} axes does not fit a tensor of shape {self.shape}")
        return self.shape[2:]

    def _check_open(self) -> None:
        if self._dropped:
            raise UnsupportedOperator(f"{self._dropped} is only supported at the end of the network")

    def _pending(self) -> Matrix:
        """The affine map since the last activation; an identity where there is none yet."""
        if self._weight is None:
            self._weight = selection(np.arange(self._width), self._width)
        return self._weight

    def _apply(self, map_: Matrix, shape: Sequence[int]) -> None:
        self._check_open()
        width = check_width(math.prod(shape))
        if self._weight is None:
            self._weight, self._bias = map_, np.zeros(width)
        else:
            self._weight, self._bias = _product(map_, self._weight), _image(map_, self._bias)
        self._weight = _compact(self._weight)
        self.shape, self._width = tuple(int(n) for n in shape), width

    def _select(self, index: Index) -> None:
        self._check_open()
        if self._weight is None:
            self._weight, self._bias = selection(index, self._width), np.zeros(index.size)
        else:
            check_entries(int(_counts(self._weight, 1)[index].sum()))
            self._weight, self._bias = matrix(self._weight)[index], self._bias[index]
        self._width = index.size

    def _scale(self, scale: Array) -> None:
        weight = self._pending()
        kept = weight.rows_scaled(scale) if isinstance(weight, Convolution) else None
        self._weight, self._bias = scaled_rows(matrix(weight), scale) if kept is None else kept, self._bias * scale

    def _flush(self) -> None:
        affine = Affine(self._pending(), self._bias)
        self._stored = check_entries(self._stored + affine.stored)
        self._steps.append(affine)
        self._weight, self._bias = None, np.zeros(self._width)


def _copies(count: int, map_: Matrix) -> Matrix:
    """The block diagonal matrix of `count` copies: the same map on every item of a batch."""
    if count == 1:
        return map_
    check_entries(count * entries(map_))
    return sparse.csr_array(sparse.kron(sparse.eye_array(count), matrix(map_), format="csr"))


def _compact(map_: Matrix) -> Matrix:
    """Dense where that is faster: from a tenth of the entries on."""
    size = map_.shape[0] * map_.shape[1]
    if is_sparse(map_) and size <= MAX_DENSE and map_.nnz > 0.1 * size:
        return map_.toarray()
    return map_


def _product(second: Matrix, first: Matrix) -> Matrix:
    """Two maps as one; refused where that is too large to store or too slow to compute, before computing it.

    Convolutions are written out, so that the sums, and with them the hash, are those of a network without any.
    """
    kept = folded(second, first)
    if kept is not None:
        return kept
    full = second.shape[0] * first.shape[1]
    if isinstance(second, np.ndarray) or isinstance(first, np.ndarray):
        check_entries(full)
        if max(entries(second), entries(first)) > MAX_WEIGHTS:
            return second @ first
        return matrix(second) @ _compact(matrix(first))
    products = int(_counts(second, 0) @ _counts(first, 1))
    check_entries(max(entries(second), entries(first), min(full, products)))
    if products > MAX_PRODUCTS:
        raise InputError(f"folding two layers takes {products:,} multiplications, beyond the limit")
    return matrix(second) @ _compact(matrix(first))


def _image(map_: Matrix, bias: Array) -> Array:
    """map_ bias; of a convolution with sums in the order of its CSR matrix, so that the hash is the same."""
    if isinstance(map_, Operator) and bias.any():
        return np.concatenate([piece @ bias for piece in map_.pieces()])
    return np.asarray(map_ @ bias)


def _counts(map_: Matrix, axis: int) -> Index:
    """The entries in every column (axis 0) or row (axis 1)."""
    if isinstance(map_, np.ndarray):
        return np.full(map_.shape[1 - axis], map_.shape[axis])
    return np.asarray(entrywise(map_, np.ones_like).sum(axis=axis)).astype(np.int64)
