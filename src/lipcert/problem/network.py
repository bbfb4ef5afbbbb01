"""Network: a frozen chain of affine maps and activations, with values, patterns and gradients.

    x_i = f_i(z_i),   z_i = A_i x_{i-1} + b_i,   i = 1..m,      scores = A_{m+1} x_m + b_{m+1}

A scalar output is c'scores: one score, a difference of two, or any weights c.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from lipcert.errors import InputError
from lipcert.files import MAX_WEIGHTS, MAX_WIDTH, write_npz
from lipcert.problem.activation import IDENTITY, Activation
from lipcert.problem.norms import Matrix
from lipcert.rounding import Array

FORMAT_VERSION = 1


@dataclass(frozen=True, eq=False)
class Affine:
    """x -> weight x + bias; the weight is (out, in), a dense array or a scipy CSR array, in float64."""

    weight: Matrix
    bias: Array

    def __post_init__(self) -> None:
        weight = _frozen_matrix(self.weight)
        bias = np.array(self.bias, dtype=np.float64).reshape(-1)
        if bias.shape != (weight.shape[0],):
            raise InputError(f"the bias has {bias.size} entries, its weight matrix {weight.shape[0]} rows")
        data = weight.data if sparse.issparse(weight) else weight
        if not (np.all(np.isfinite(data)) and np.all(np.isfinite(bias))):
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
        return int(self.weight.nnz if sparse.issparse(self.weight) else self.weight.size)

    def __call__(self, x: Array) -> Array:
        """The map on every row of a (batch, in) array."""
        return _times_transposed(x, self.weight) + self.bias

    def pull_back(self, g: Array) -> Array:
        """g weight, row by row: the chain rule's step towards the input."""
        return np.asarray(g @ self.weight, dtype=np.float64)

    def after(self, first: Affine) -> Affine:
        """The composition x -> self(first(x)) as one affine map."""
        if first.outputs != self.inputs:
            raise InputError(f"an affine map with {self.inputs} inputs follows one with {first.outputs} outputs")
        return Affine(_compact(self.weight @ first.weight), self(first.bias[None, :])[0])


@dataclass(frozen=True, eq=False)
class Network:
    """Affine maps A_1..A_{m+1} with activations f_1..f_m between them, frozen; `notes` say what a reader left out.

    Usually made by `load`, `from_torch` or `Network.from_weights`. Equal networks have equal `sha256`.
    """

    affines: tuple[Affine, ...]
    activations: tuple[Activation, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "affines", tuple(self.affines))
        object.__setattr__(self, "activations", tuple(self.activations))
        object.__setattr__(self, "notes", tuple(self.notes))
        if not self.affines or len(self.activations) != len(self.affines) - 1:
            raise InputError(
                f"a network needs one activation between each two affine maps; got {len(self.affines)} maps "
                f"and {len(self.activations)} activations"
            )
        for i, (first, second) in enumerate(zip(self.affines, self.affines[1:], strict=False), start=1):
            if first.outputs != second.inputs:
                raise InputError(f"layer {i} has {first.outputs} outputs, layer {i + 1} expects {second.inputs} inputs")
        if sum(a.stored for a in self.affines) > MAX_WEIGHTS:
            raise InputError(f"the network stores more than {MAX_WEIGHTS:,} weights")

    @classmethod
    def from_weights(
        cls,
        weights: Sequence[Matrix | ArrayLike],
        biases: Sequence[ArrayLike] | None = None,
        activation: Activation | str = "relu",
    ) -> Network:
        """A plain chain with the same activation everywhere: weights (out, in), first layer first."""
        f = activation if isinstance(activation, Activation) else Activation(activation)  # type: ignore[arg-type]
        matrices: list[Matrix] = [w if sparse.issparse(w) else np.asarray(w, dtype=np.float64) for w in weights]
        shifts = [np.zeros(w.shape[0]) for w in matrices] if biases is None else biases
        if len(shifts) != len(matrices):
            raise InputError(f"{len(matrices)} weight matrices and {len(shifts)} biases; give one bias per matrix")
        maps = [Affine(w, np.asarray(b, dtype=np.float64)) for w, b in zip(matrices, shifts, strict=True)]
        return cls(tuple(maps), (f,) * (len(maps) - 1))

    @classmethod
    def from_steps(cls, steps: Iterable[Affine | Activation], notes: Iterable[str] = ()) -> Network:
        """The network of a sequence of maps: consecutive affine maps are folded together, identities vanish.

        Two activations in a row, or one at either end, get an identity map beside them: a trailing ReLU on the
        scores is one more hidden layer.
        """
        affines: list[Affine] = []
        activations: list[Activation] = []
        for step in steps:
            if isinstance(step, Affine):
                if len(affines) > len(activations):
                    affines[-1] = step.after(affines[-1])
                else:
                    affines.append(step)
            elif step != IDENTITY:
                if len(affines) == len(activations):
                    if not affines:
                        raise InputError("the first layer is an activation; the number of inputs is unknown")
                    affines.append(_identity_map(affines[-1].outputs))
                activations.append(step)
        if not affines:
            raise InputError("the network has no layer with weights")
        if len(affines) == len(activations):
            affines.append(_identity_map(affines[-1].outputs))
        return cls(tuple(affines), tuple(activations), tuple(notes))

    @property
    def inputs(self) -> int:
        """The number of input coordinates."""
        return self.affines[0].inputs

    @property
    def outputs(self) -> int:
        """The number of scores."""
        return self.affines[-1].outputs

    @property
    def depth(self) -> int:
        """The number of hidden layers m."""
        return len(self.activations)

    @property
    def shape(self) -> tuple[int, ...]:
        """Widths from the input to the scores."""
        return (self.inputs, *(a.outputs for a in self.affines))

    @property
    def neurons(self) -> int:
        """The number of hidden neurons."""
        return sum(a.outputs for a in self.affines[:-1])

    @cached_property
    def sha256(self) -> str:
        """A hash of everything that determines the function's formula, whether weights are kept dense or sparse."""
        digest = hashlib.sha256(f"lipcert network {FORMAT_VERSION} {self.shape}".encode())
        for affine in self.affines:
            w = sparse.csr_array(affine.weight, copy=True)
            w.eliminate_zeros()
            w.sort_indices()
            for part in (w.indptr.astype("<i8"), w.indices.astype("<i8"), w.data.astype("<f8")):
                digest.update(part.tobytes())
            digest.update((affine.bias + 0.0).astype("<f8").tobytes())
        for f in self.activations:
            digest.update(f"{f.kind} {f.alpha.hex()};".encode())
        return digest.hexdigest()

    def __repr__(self) -> str:
        kinds = ", ".join(dict.fromkeys(str(f) for f in self.activations)) or "affine"
        return f"Network({'-'.join(map(str, self.shape))}, {kinds})"

    def preactivations(self, x: ArrayLike) -> list[Array]:
        """z_1 .. z_m on a batch (batch, inputs); each (batch, width)."""
        return self._run(self._batch(x))[0]

    def forward(self, x: ArrayLike) -> Array:
        """The scores on a batch (batch, inputs) -> (batch, outputs), or on one point (inputs,) -> (outputs,)."""
        points = np.asarray(x, dtype=np.float64)
        scores = self._run(self._batch(points))[1]
        return scores[0] if points.ndim == 1 else scores

    def pattern(self, x: ArrayLike) -> list[NDArray[np.bool_]]:
        """Which neurons have z > 0, layer by layer."""
        return [z > 0 for z in self.preactivations(x)]

    def gradient(self, x: ArrayLike, c: ArrayLike) -> Array:
        """The gradient of c'scores at every point of a batch: (batch, inputs)."""
        return self.gradient_from(self.preactivations(x), np.asarray(c, dtype=np.float64))

    def gradient_from(self, zs: Sequence[Array], c: Array) -> Array:
        """The gradient of c'scores where the pre-activations are known."""
        return self.chain_rule([f.derivative(z) for f, z in zip(self.activations, zs, strict=True)], c)

    def chain_rule(self, slopes: Sequence[Array], c: Array) -> Array:
        """c A_{m+1} diag(s_m) A_m ... diag(s_1) A_1 for a batch of slope vectors; (1, inputs) when there is none."""
        g = self.affines[-1].pull_back(c[None, :])
        for s, affine in zip(reversed(slopes), reversed(self.affines[:-1]), strict=True):
            g = affine.pull_back(g * s)
        return g

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write W1, b1, W2, b2, ... and the activations to an .npz that `lipcert.load` reads back to the same hash."""
        if not str(path).endswith(".npz"):
            raise InputError(f"{path}: networks are saved as .npz; give the file that ending")
        arrays: dict[str, NDArray[Any]] = {"format": np.array(FORMAT_VERSION)}
        for i, affine in enumerate(self.affines, start=1):
            w = affine.weight
            if sparse.issparse(w):
                arrays |= {f"W{i}_data": w.data, f"W{i}_indices": w.indices, f"W{i}_indptr": w.indptr}
                arrays[f"W{i}_shape"] = np.array(w.shape)
            else:
                arrays[f"W{i}"] = w
            arrays[f"b{i}"] = affine.bias
        arrays["activations"] = np.array([f.kind for f in self.activations], dtype="U16")
        arrays["alphas"] = np.array([f.alpha for f in self.activations], dtype=np.float64)
        write_npz(path, arrays)

    def _run(self, x: Array) -> tuple[list[Array], Array]:
        zs: list[Array] = []
        for affine, f in zip(self.affines, self.activations, strict=False):
            zs.append(affine(x))
            x = f(zs[-1])
        return zs, self.affines[-1](x)

    def _batch(self, x: ArrayLike) -> Array:
        points = np.atleast_2d(np.asarray(x, dtype=np.float64))
        if points.ndim != 2 or points.shape[1] != self.inputs:
            raise InputError(f"points of shape {np.shape(x)}: the network has {self.inputs} inputs")
        return points


def _identity_map(width: int) -> Affine:
    weight = sparse.csr_array(sparse.eye_array(width, format="csr")) if width > 64 else np.eye(width)
    return Affine(weight, np.zeros(width))


def _times_transposed(x: Array, weight: Matrix) -> Array:
    """x weight', row by row; scipy is faster with the sparse factor on the left."""
    if sparse.issparse(weight):
        return np.ascontiguousarray((weight @ x.T).T)
    return np.asarray(x @ weight.T, dtype=np.float64)


def _compact(weight: Matrix) -> Matrix:
    """A sparse result that is not sparse becomes dense: BLAS is faster from a few per cent on."""
    if sparse.issparse(weight) and weight.nnz > 0.1 * weight.shape[0] * weight.shape[1]:
        return np.asarray(weight.toarray(), dtype=np.float64)
    return weight


def _frozen_matrix(weight: Any) -> Matrix:
    if sparse.issparse(weight):
        w = sparse.csr_array(weight, dtype=np.float64, copy=True)
        w.sum_duplicates()
        for part in (w.data, w.indices, w.indptr):
            part.flags.writeable = False
    else:
        try:
            w = np.array(weight, dtype=np.float64, order="C")
        except (TypeError, ValueError):
            raise InputError("a weight matrix must be a two-dimensional array of numbers") from None
        w.flags.writeable = False
    if w.ndim != 2 or 0 in w.shape:
        raise InputError(f"a weight matrix must be two-dimensional and not empty, not {w.shape}")
    if max(w.shape) > MAX_WIDTH:
        raise InputError(f"a layer of width {max(w.shape):,} is beyond the limit of {MAX_WIDTH:,}")
    return w
