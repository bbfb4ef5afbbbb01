"""Affine maps, and blocks of neurons that read the blocks before them: the parts of a network.

Weights are checked once, frozen, and shared from then on: a dense array, a CSR array, or a convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.errors import InputError
from lipcert.files import MAX_WIDTH
from lipcert.problem.activations import IDENTITY, Activation
from lipcert.problem.arrays import floats_of
from lipcert.problem.convolution import Kernel, folded
from lipcert.problem.maps import Matrix, Operator, entries, numbers, stored, times
from lipcert.rounding import Array

_MOST_COMPARED = 1 << 20  # entries of a block whose rows are compared with each other


@dataclass(frozen=True, eq=False)
class Affine:
    """x -> weight x + bias; the weight is (out, in): a dense array, a CSR array or a convolution, in float64."""

    weight: Matrix
    bias: Array

    def __post_init__(self) -> None:
        weight = frozen_matrix(self.weight)
        try:
            bias = np.array(floats_of(self.bias)).reshape(-1)
        except (TypeError, ValueError):
            raise InputError("a bias must be a vector of numbers") from None
        if bias.shape != (weight.shape[0],):
            raise InputError(f"the bias has {bias.size} entries, its weight matrix {weight.shape[0]} rows")
        if not (np.all(np.isfinite(numbers(weight))) and np.all(np.isfinite(bias))):
            raise InputError("a weight or bias is not finite (nan or inf)")
        bias.flags.writeable = False
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", bias)

    @property
    def inputs(self) -> int:
        """The columns of the weight."""
        return int(self.weight.shape[1])

    @property
    def outputs(self) -> int:
        """The rows of the weight."""
        return int(self.weight.shape[0])

    @property
    def stored(self) -> int:
        """Numbers kept for the weight."""
        return stored(self.weight)

    def __call__(self, x: Array) -> Array:
        """The map on every row of a (batch, in) array."""
        return times(self.weight, x) + self.bias

    def after(self, first: Affine) -> Affine:
        """The composition x -> self(first(x)) as one affine map."""
        if first.outputs != self.inputs:
            raise InputError(f"an affine map with {self.inputs} inputs follows one with {first.outputs} outputs")
        kept = folded(self.weight, first.weight)
        weight = _compact(self.weight @ first.weight) if kept is None else kept
        return Affine(weight, self(first.bias[None, :])[0])


@dataclass(frozen=True, eq=False)
class Block:
    """A group of neurons: z = bias + sum of weight x_source over its terms, then the activation.

    `terms` are pairs (source, weight), each source once, in increasing order; source 0 is the input. Where the weights
    were computed and rounded, `slack` says how far the true z may lie from this sum on the region in question.
    """

    terms: tuple[tuple[int, Matrix], ...]
    bias: Array
    activation: Activation = IDENTITY
    slack: Array | None = None

    def __post_init__(self) -> None:
        if not self.terms:
            raise InputError("a block of neurons needs at least one term: a source and its weight matrix")
        maps = [Affine(weight, self.bias) for _, weight in self.terms]
        terms = tuple((int(source), map_.weight) for (source, _), map_ in zip(self.terms, maps, strict=True))
        sources = [source for source, _ in terms]
        if sources != sorted(set(sources)):
            raise InputError(f"a block reads the sources {sources}; give each once, in increasing order")
        if self.slack is not None and (self.slack.shape != maps[0].bias.shape or not np.all(self.slack >= 0)):
            raise InputError("the slack of a block must be one number >= 0 for each neuron")
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "bias", maps[0].bias)

    @property
    def width(self) -> int:
        """The number of neurons."""
        return len(self.bias)

    @property
    def doubt(self) -> Array:
        """The slack, zero where the weights are exact."""
        return np.zeros(self.width) if self.slack is None else self.slack

    @property
    def stored(self) -> int:
        """Numbers kept for the weights."""
        return sum(stored(weight) for _, weight in self.terms)

    @property
    def entries(self) -> int:
        """The multiplications for one vector of values: more than `stored` where a weight is a convolution."""
        return sum(entries(weight) for _, weight in self.terms)

    @cached_property
    def twins(self) -> Twins | None:
        """Which neurons have equal or opposite z; None where none have, or where their rows are not exact."""
        return None if self.slack is not None else twins_of([weight for _, weight in self.terms], self.bias)

    def __call__(self, xs: Sequence[Array]) -> Array:
        """z on every row of a batch, where xs[j] are the values of block j."""
        z = self.bias
        for source, weight in self.terms:
            z = times(weight, xs[source]) + z
        return z


def _compact(weight: Matrix) -> Matrix:
    """A sparse result that is not sparse becomes dense: BLAS is faster from a few per cent on."""
    if sparse.issparse(weight) and weight.nnz > 0.1 * weight.shape[0] * weight.shape[1]:
        return np.asarray(weight.toarray(), dtype=np.float64)
    return weight


def frozen_matrix(weight: Any) -> Matrix:
    """The matrix as it is kept: float64, checked, not to be written to."""
    if _is_frozen(weight):  # made here before: one copy of the weights is enough
        return weight
    if isinstance(weight, Operator) and not isinstance(weight, Kernel):
        weight = weight.tocsr()
    if isinstance(weight, Kernel):  # its constructor checks and freezes
        return weight.astype(np.float64)
    if sparse.issparse(weight):
        w = sparse.csr_array(weight, dtype=np.float64, copy=True)
        w.sum_duplicates()
        for part in (w.data, w.indices, w.indptr):
            part.flags.writeable = False
    else:
        try:
            w = np.array(floats_of(weight), order="C")
        except (TypeError, ValueError):
            raise InputError("a weight matrix must be a two-dimensional array of numbers") from None
        w.flags.writeable = False
    return _checked(w)


def handed_over(weight: Matrix) -> Matrix:
    """A matrix that its maker gives away: checked, and frozen as it is where that needs no copy.

    A reader has the weights of a whole network in memory, so a second copy of them would double what it takes.
    """
    if isinstance(weight, sparse.csr_array) and weight.dtype == np.float64:
        if not weight.has_canonical_format:
            weight.sum_duplicates()
        parts = [weight.data, weight.indices, weight.indptr]
    elif isinstance(weight, np.ndarray) and weight.dtype == np.float64 and weight.flags.c_contiguous:
        parts = [weight]
    else:
        return weight
    if not all(_in_numpy(part) for part in parts):  # a file's or a torch module's memory
        return weight
    for part in parts:
        part.flags.writeable = False
    return _checked(weight)


def _in_numpy(part: NDArray[Any]) -> bool:
    """Whether numpy itself has allocated what an array looks at."""
    owner: Any = part
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return isinstance(owner, np.ndarray) and owner.flags.owndata


def _checked(weight: Matrix) -> Matrix:
    if weight.ndim != 2 or 0 in weight.shape:
        raise InputError(f"a weight matrix must be two-dimensional and not empty, not {weight.shape}")
    if max(weight.shape) > MAX_WIDTH:
        raise InputError(f"a layer of width {max(weight.shape):,} is beyond the limit of {MAX_WIDTH:,}")
    return weight


def _is_frozen(weight: Any) -> bool:
    """Whether this is a matrix that was checked and frozen before."""
    if isinstance(weight, Kernel):
        return weight.dtype == np.float64
    if isinstance(weight, sparse.csr_array):
        parts = (weight.data, weight.indices, weight.indptr)
        return weight.dtype == np.float64 and not any(part.flags.writeable for part in parts)
    if not isinstance(weight, np.ndarray) or weight.dtype != np.float64 or weight.ndim != 2:
        return False
    return weight.base is None and weight.flags.c_contiguous and not weight.flags.writeable


@dataclass(frozen=True, eq=False)
class Twins:
    """Groups of neurons of a block whose pre-activations are equal or opposite functions: they share bounds and signs.

    Neuron k has z_k = sign_k z of its group; `starts` are the places of the groups in `order`. A network that computes
    |z| or max(a, b) has z and -z side by side. The sign of one fixes the sign of the other exactly, but rounding keeps
    linear forms from proving it. Rows and biases are compared as floats, so the claim is exact.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    group: NDArray[np.int64]
    sign: Array

    def meet(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Bounds of z by cell and neuron: what all neurons of a group know together."""
        same = self.sign > 0
        lo, hi = np.where(same, lo, -hi)[:, self.order], np.where(same, hi, -lo)[:, self.order]
        low = np.maximum.reduceat(lo, self.starts, axis=1)[:, self.group]
        high = np.minimum.reduceat(hi, self.starts, axis=1)[:, self.group]
        return np.where(same, low, -high), np.where(same, high, -low)


def twins_of(weights: Sequence[Matrix], bias: Array) -> Twins | None:
    """The groups of neurons with these rows and biases; None when every neuron is alone, or when they are too many."""
    dense = [weight for weight in weights if isinstance(weight, np.ndarray)]
    if len(dense) < len(weights) or sum(weight.size for weight in dense) > _MOST_COMPARED:
        return None
    rows = np.concatenate([*dense, bias[:, None]], axis=1)
    lead = np.take_along_axis(rows, np.argmax(rows != 0, axis=1)[:, None], axis=1)
    sign = np.where(lead < 0, -1.0, 1.0)[:, 0]
    _, group = np.unique(rows * sign[:, None] + 0.0, axis=0, return_inverse=True)
    group = group.reshape(-1)
    if group.max() + 1 == len(bias):
        return None
    order = np.argsort(group, kind="stable")
    return Twins(order, np.searchsorted(group[order], np.arange(group.max() + 1)), group, sign)
