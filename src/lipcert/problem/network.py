"""Network: a frozen graph of affine maps and activations, with values, patterns and gradients.

    x_i = f_i(z_i),   z_i = b_i + sum_{j<i} A_ij x_j,   i = 1..m,      scores = b_{m+1} + sum_j A_{m+1,j} x_j

A block i is a group of neurons with one activation; the sum is over the blocks that it reads, 0 being the input. In a
chain every block reads the one before it. A scalar output is c'scores: one score, a difference of two, or any weights.
A_ij is a dense array, a CSR array, or a convolution.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from lipcert import steps as working
from lipcert.errors import InputError, MethodError, shown
from lipcert.files import MAX_WEIGHTS, write_npz
from lipcert.problem.activations import IDENTITY, Activation
from lipcert.problem.arrays import floats_of
from lipcert.problem.blocks import Affine, Block, frozen_matrix
from lipcert.problem.convolution import Kernel
from lipcert.problem.maps import Matrix, fingerprint
from lipcert.rounding import Array

FORMAT_VERSION = 1  # the format of chains of matrices
EXTENDED_VERSION = 2  # the format of files with branches or convolutions, and of the hash of networks with branches


@dataclass(frozen=True, eq=False, init=False)
class Network:
    """Blocks of neurons, the last of which are the scores; frozen. `notes` say what a reader left out.

    Usually made by `load`, `from_torch` or `Network.from_weights`. `Network(affines, activations)` is the chain of
    affine maps A_1..A_{m+1} with activations f_1..f_m between them, `Network.from_blocks` any graph without cycles.
    Equal networks have equal `sha256`.
    """

    blocks: tuple[Block, ...]
    notes: tuple[str, ...]

    def __init__(self, affines: Iterable[Affine], activations: Iterable[Activation], notes: Iterable[str] = ()) -> None:
        maps, functions = tuple(affines), tuple(activations)
        if not maps or len(functions) != len(maps) - 1:
            raise InputError(
                f"a network needs one activation between each two affine maps; got {len(maps)} maps "
                f"and {len(functions)} activations"
            )
        for i, (first, second) in enumerate(pairwise(maps), start=1):
            if first.outputs != second.inputs:
                raise InputError(f"layer {i} has {first.outputs} outputs, layer {i + 1} expects {second.inputs} inputs")
        pairs = zip(maps, (*functions, IDENTITY), strict=True)
        self._freeze(tuple(Block(((i, a.weight),), a.bias, f) for i, (a, f) in enumerate(pairs)), tuple(notes))

    @classmethod
    def from_blocks(cls, blocks: Iterable[Block], notes: Iterable[str] = ()) -> Network:
        """The network of these blocks: block i (the first is 1) may read the input, 0, and the blocks before it.

        The last block are the scores; its activation must be the identity.
        """
        net = cls.__new__(cls)
        net._freeze(tuple(blocks), tuple(notes))
        return net

    def _freeze(self, blocks: tuple[Block, ...], notes: tuple[str, ...]) -> None:
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "notes", notes)
        _check_graph(blocks)

    @classmethod
    def from_weights(
        cls,
        weights: Sequence[Matrix | ArrayLike],
        biases: Sequence[ArrayLike] | None = None,
        activation: Activation | str = "relu",
    ) -> Network:
        """A plain chain with the same activation everywhere: weights (out, in), first layer first."""
        if not isinstance(weights, Iterable):
            raise InputError(f"weights={shown(weights)}: give a list of matrices, (out, in), first layer first")
        f = activation if isinstance(activation, Activation) else Activation(activation)
        matrices: list[Matrix] = [frozen_matrix(w) for w in weights]
        shifts = [np.zeros(w.shape[0]) for w in matrices] if biases is None else biases
        if len(shifts) != len(matrices):
            raise InputError(f"{len(matrices)} weight matrices and {len(shifts)} biases; give one bias per matrix")
        maps = [Affine(w, _numbers("a bias", b)) for w, b in zip(matrices, shifts, strict=True)]
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

    @cached_property
    def is_chain(self) -> bool:
        """Whether every block reads the one before it and nothing else."""
        return all(len(b.terms) == 1 and b.terms[0][0] == i for i, b in enumerate(self.blocks))

    @cached_property
    def affines(self) -> tuple[Affine, ...]:
        """A_1..A_{m+1} of a chain; a network with branches has none: MethodError."""
        if not self.is_chain:
            raise MethodError("this network has branches, and the method is for chains of layers only; use tight")
        if any(b.slack is not None for b in self.blocks):  # an affine map cannot say so
            raise MethodError("the weights of this network were rounded, and the method needs exact ones; use tight")
        return tuple(Affine(b.terms[0][1], b.bias) for b in self.blocks)

    @property
    def hidden(self) -> tuple[Block, ...]:
        """The blocks 1..m, without the scores."""
        return self.blocks[:-1]

    @property
    def scores(self) -> Block:
        """The last block."""
        return self.blocks[-1]

    @property
    def activations(self) -> tuple[Activation, ...]:
        """f_1..f_m."""
        return tuple(b.activation for b in self.hidden)

    @cached_property
    def readers(self) -> tuple[tuple[tuple[int, Matrix], ...], ...]:
        """By source j = 0..m: the blocks that read x_j, as pairs (block, weight)."""
        found: list[list[tuple[int, Matrix]]] = [[] for _ in self.blocks]
        for i, block in enumerate(self.blocks, start=1):
            for source, weight in block.terms:
                found[source].append((i, weight))
        return tuple(tuple(pairs) for pairs in found)

    @property
    def inputs(self) -> int:
        """The number of input coordinates."""
        return int(self.blocks[0].terms[0][1].shape[1])

    @property
    def outputs(self) -> int:
        """The number of scores."""
        return self.scores.width

    @property
    def depth(self) -> int:
        """The number of hidden blocks m: the hidden layers of a chain."""
        return len(self.blocks) - 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Widths from the input to the scores."""
        return (self.inputs, *(b.width for b in self.blocks))

    @property
    def neurons(self) -> int:
        """The number of hidden neurons."""
        return sum(b.width for b in self.hidden)

    @property
    def stored(self) -> int:
        """Numbers kept for all weights."""
        return sum(b.stored for b in self.blocks)

    @property
    def entries(self) -> int:
        """The multiplications of one pass through the network: more than `stored` where there are convolutions."""
        return sum(b.entries for b in self.blocks)

    @cached_property
    def sha256(self) -> str:
        """A hash of everything that determines the function's formula, however the weights are kept."""
        version = FORMAT_VERSION if self.is_chain else EXTENDED_VERSION
        digest = hashlib.sha256(f"lipcert network {version} {self.shape}".encode())
        for block in self.blocks:
            for source, weight in block.terms:
                if not self.is_chain:
                    digest.update(f"{source} of {len(block.terms)};".encode())
                for part in fingerprint(weight):
                    digest.update(part)
            digest.update((block.bias + 0.0).astype("<f8").tobytes())
        for f in self.activations:
            digest.update(f"{f.kind} {f.alpha.hex()};".encode())
        return digest.hexdigest()

    def __repr__(self) -> str:
        kinds = ", ".join(dict.fromkeys(str(f) for f in self.activations)) or "affine"
        return f"Network({'-'.join(map(str, self.shape))}, {kinds}{'' if self.is_chain else ', branches'})"

    def preactivations(self, x: ArrayLike) -> list[Array]:
        """z_1 .. z_m on a batch (batch, inputs); each (batch, width)."""
        return self.run(self._batch(x))[0]

    def forward(self, x: ArrayLike) -> Array:
        """The scores on a batch (batch, inputs) -> (batch, outputs), or on one point (inputs,) -> (outputs,)."""
        points = _numbers("x", x)
        scores = self.run(self._batch(points))[1]
        return scores[0] if points.ndim == 1 else scores

    def pattern(self, x: ArrayLike) -> list[NDArray[np.bool_]]:
        """Which neurons have z > 0, block by block."""
        return [z > 0 for z in self.preactivations(x)]

    def gradient(self, x: ArrayLike, c: ArrayLike) -> Array:
        """The gradient of c'scores at every point of a batch: (batch, inputs); c may have a row for each of them."""
        points, weights = self._batch(x), _numbers("c", c)
        rows = np.atleast_2d(weights)
        if rows.ndim != 2 or rows.shape[1] != self.outputs or len(rows) not in (1, len(points)):
            raise InputError(
                f"gradient(x, c) with c of shape {weights.shape}: give {self.outputs} weights, one for each score "
                f"(numpy.eye({self.outputs})[k] is score k), or a row of them for each point"
            )
        found = self.gradient_from(self.preactivations(points), rows)
        # Where no slope matters there is one row for all points.
        return found if len(found) == len(points) else np.array(np.broadcast_to(found, points.shape))

    def gradient_from(self, zs: Sequence[Array], c: Array) -> Array:
        """The gradient of c'scores where the pre-activations are known."""
        return self.chain_rule([f.derivative(z) for f, z in zip(self.activations, zs, strict=True)], c)

    def chain_rule(self, slopes: Sequence[Array], c: Array) -> Array:
        """The gradient for a batch of slope vectors, g_j = sum_i A_ij'(s_i * g_i); (1, inputs) when there is none.

        c is one vector of weights for all of them, or a row for each.
        """
        behind: list[Array | None] = [None] * len(self.blocks)  # g_0 .. g_m
        for i in range(len(self.blocks), 0, -1):
            g = np.atleast_2d(c) if i > self.depth else behind[i]
            if g is None:  # no other block reads this one
                continue
            if i <= self.depth:
                g = g * slopes[i - 1]
            for source, weight in self.blocks[i - 1].terms:
                working.step()
                pulled = np.asarray(g @ weight, dtype=np.float64)
                known = behind[source]
                behind[source] = pulled if known is None else known + pulled
        first = behind[0]
        return np.zeros((1, self.inputs)) if first is None else first

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write W1, b1, W2, b2, ... and the activations to an .npz that `lipcert.load` reads back to the same hash."""
        if not str(path).lower().endswith(".npz"):
            raise InputError(f"{path}: networks are saved as .npz; give the file that ending")
        plain = self.is_chain and not any(isinstance(w, Kernel) for b in self.blocks for _, w in b.terms)
        arrays: dict[str, NDArray[Any]] = {"format": np.array(FORMAT_VERSION if plain else EXTENDED_VERSION)}
        for name, weight in self._named_weights():
            if isinstance(weight, Kernel):
                flat = weight.kernel.reshape(len(weight.kernel), -1)
                arrays |= {f"{name}_kernel": flat, f"{name}_geometry": weight.geometry}
            elif sparse.issparse(weight):
                arrays |= {f"{name}_data": weight.data, f"{name}_indices": weight.indices}
                arrays |= {f"{name}_indptr": weight.indptr, f"{name}_shape": np.array(weight.shape)}
            else:
                arrays[name] = weight
        arrays |= {f"b{i}": block.bias for i, block in enumerate(self.blocks, start=1)}
        arrays["activations"] = np.array([f.kind for f in self.activations], dtype="U16")
        arrays["alphas"] = np.array([f.alpha for f in self.activations], dtype=np.float64)
        write_npz(path, arrays)

    def _named_weights(self) -> Iterator[tuple[str, Matrix]]:
        """W1, W2, .. of a chain, W1_from0, W2_from0, W2_from1, .. where blocks read several."""
        for i, block in enumerate(self.blocks, start=1):
            for source, weight in block.terms:
                yield (f"W{i}" if self.is_chain else f"W{i}_from{source}"), weight

    def run(self, x: Array) -> tuple[list[Array], Array]:
        """z_1 .. z_m and the scores on a batch (batch, inputs); not finite where they overflow or leave a domain."""
        zs: list[Array] = []
        xs = [x]
        with np.errstate(over="ignore", invalid="ignore"):
            for block in self.hidden:
                zs.append(block(xs))
                xs.append(block.activation(zs[-1]))
            return zs, self.scores(xs)

    def _batch(self, x: ArrayLike) -> Array:
        points = np.atleast_2d(_numbers("x", x))
        if points.ndim != 2 or points.shape[1] != self.inputs:
            raise InputError(f"points of shape {np.shape(x)}: the network has {self.inputs} inputs")
        return points


def _numbers(name: str, value: ArrayLike) -> Array:
    try:
        return floats_of(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers, not {shown(value)}") from None


def _check_graph(blocks: tuple[Block, ...]) -> None:
    """Widths that fit, sources that come first, and no activation on the scores."""
    if not blocks or blocks[0].terms[0][0] != 0:
        raise InputError("a network needs a first block, and that reads the input, source 0")
    if blocks[-1].activation != IDENTITY:
        raise InputError(
            f"the last block are the scores; give its {blocks[-1].activation} a block of its own before it"
        )
    widths = [int(blocks[0].terms[0][1].shape[1])]
    for i, block in enumerate(blocks, start=1):
        for source, weight in block.terms:
            if not 0 <= source < i:
                raise InputError(f"block {i} reads block {source}; it can read those before it, 0 to {i - 1}")
            if weight.shape[1] != widths[source]:
                raise InputError(
                    f"block {i} expects {weight.shape[1]} values of block {source}, which has {widths[source]}"
                )
        widths.append(block.width)
    if sum(b.stored for b in blocks) > MAX_WEIGHTS:
        raise InputError(f"the network stores more than {MAX_WEIGHTS:,} weights")


def _identity_map(width: int) -> Affine:
    weight = sparse.csr_array(sparse.eye_array(width, format="csr")) if width > 64 else np.eye(width)
    return Affine(weight, np.zeros(width))
