"""Proofs by slopes with one multiplier for each channel of a chain of convolutions (`relaxation.channels`).

At every frequency, with Hermitian matrices X_k that are computed here and believed by nobody, X_0 = 1, the pieces

    [ X_{k-1}       -C* ]
    [ -C     2 T_k - X_k ]  >=  0,       C = b_k T_k W_k / sqrt(aliases),   X_{k-1} at all aliases of the frequency,

add up to: the constraints of all slopes imply x_d* X_d x_d <= |x_0|^2. Behind the last convolution either the scores
have their own piece, with m in place of 2 T_k - X_k, and the bound is the root of m; or X_d >= G is proved for a
diagonal G, and the bound is that of the layers behind it by the product of norms, the first weight divided by root G.

channel_numbers     the multipliers of all channels, block after block, and the diagonal of G where there is no piece of
                    the scores
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.gradients import gradient_bounds
from lipcert.bounds.operator_norms import operator_norm, vector_norms
from lipcert.bounds.symbols import TABLE
from lipcert.files.numbers import LARGEST, real
from lipcert.problem.blocks import Affine, Block
from lipcert.problem.convolution import Kernel
from lipcert.problem.maps import Matrix, is_sparse
from lipcert.problem.network import Network
from lipcert.problem.norms import EUCLIDEAN
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import product_of_norms
from lipcert.proof.certificate import Certificate
from lipcert.relaxation.channels import ChannelProgram, ChannelStage, Complex, channel_program, places
from lipcert.rounding import Array, gamma, grow
from lipcert.rounding.definite import are_positive
from lipcert.steps import step

NAMES = "channel_numbers"
TEXTS: frozenset[str] = frozenset()
METHOD = "slopes"
APART = 4.0  # times what rounding does: a proof is made with it, so that a checker with another BLAS finds it too
_SHIFTS = (
    1e-12,
    1e-11,
    1e-10,
    1e-9,
    1e-8,
    1e-7,
    1e-6,
    1e-5,
    1e-4,
    1e-3,
)  # of the pieces, whose diagonals are about one
_NUMBERS = 1 << 22  # numbers in the pieces that are factored at a time
_FAR = 300  # exponents of multipliers beyond this are those of no proof


@dataclass(frozen=True, eq=False)
class Channels:
    """Multipliers t > 0 of all channels, block by block, and the diagonal G > 0 behind them, empty for the scores."""

    t: tuple[Array, ...]
    floor: Array
    method: ClassVar[str] = METHOD

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps of the proof, by name."""
        return {"proof": np.array("channels"), "channel_numbers": np.concatenate([*self.t, self.floor])}

    def check(self, problem: Problem) -> float:
        """The bound that the multipliers prove, infinite where they prove none."""
        program = channel_program(problem)
        if program is None:
            return math.inf
        numbers, ends = np.concatenate([*self.t, self.floor]), np.cumsum(program.counts)
        if len(numbers) != ends[-1] + (0 if program.head is not None else program.counts[-1]):
            return math.inf
        *t, floor = np.split(numbers, ends)
        return _bound(problem, program, Channels(tuple(t), floor), 1.0)


def prove_channels(problem: Problem, program: ChannelProgram, proof: Channels) -> Certificate:
    """The certificate of the bound from any multipliers, good or bad."""
    return Certificate.of(problem, proof, _bound(problem, program, proof, APART))


def read_channels(arrays: Mapping[str, Any]) -> Channels:
    """The numbers of a file."""
    return Channels((real(arrays, "channel_numbers", (None,), 0.0, LARGEST),), np.zeros(0))


def _bound(problem: Problem, program: ChannelProgram, proof: Channels, apart: float) -> float:
    numbers = np.concatenate([*proof.t, proof.floor])
    if not np.all((numbers > 0) & np.isfinite(numbers)) or np.any(np.abs(np.log2(numbers)) > 2 * _FAR):
        return math.inf
    try:
        return _walked(problem, program, proof, apart)
    except np.linalg.LinAlgError:  # a matrix is singular, or its numbers have overflowed
        return math.inf


def _walked(problem: Problem, program: ChannelProgram, proof: Channels, apart: float) -> float:
    with np.errstate(all="ignore"):  # numbers that overflow are not positive
        walk = _Walk(program, apart)
        if not all(walk.advance(stage, t) for stage, t in zip(program.stages, proof.t, strict=True)):
            return math.inf
        if program.head is not None:
            return walk.largest(program.head)
        if not walk.above(proof.floor):
            return math.inf
        return _behind(problem, len(program.stages), proof.floor)


class _Walk:
    """The matrices X_k at all frequencies, block by block, in coordinates x = 2^exponents y in which T is about one."""

    def __init__(self, program: ChannelProgram, apart: float) -> None:
        self.half, self.sizes, self.apart = program.half, list(program.sizes), apart
        inputs = program.stages[0].kernel.shape[1]
        count = len(places(self.sizes[0], self.half))
        self.X: Complex = np.broadcast_to(np.eye(inputs, dtype=np.complex128), (count, inputs, inputs))
        self.exponents = np.zeros(inputs, dtype=np.int64)

    def advance(self, stage: ChannelStage, t: Array) -> bool:
        """Go on behind a block; False where some piece is not positive."""
        own = -np.asarray(np.rint(np.log2(t) / 2), dtype=np.int64)
        weight = np.ldexp(t, 2 * own)
        C, X, off = self._coupled(stage, own, weight * stage.steep)
        inner = np.linalg.inv(X)
        best = -(C @ inner @ C.conj().swapaxes(2, 3)).sum(axis=1)
        best += np.diag(2 * weight)
        best = (best + best.conj().swapaxes(1, 2)) / 2
        for shift in _SHIFTS:
            left = best - shift * np.eye(len(t))
            if self._positive(X, C, np.diag(2 * weight) - left, off):
                self.X, self.exponents = left, own
                return True
        return False

    def largest(self, head: ChannelStage) -> float:
        """A bound of |W_{m+1} x_m| over |x_0| <= 1."""
        tops = np.frexp(np.abs(head.kernel).max(axis=(0, 2), initial=0.0))[1] + self.exponents
        unit = int(tops.max())
        rows = len(head.kernel)
        C, X, off = self._coupled(head, np.full(rows, unit), np.ones(rows))
        gram = (C @ np.linalg.inv(X) @ C.conj().swapaxes(2, 3)).sum(axis=1)
        if not np.all(np.isfinite(gram)):
            return math.inf
        top = float(np.linalg.eigvalsh((gram + gram.conj().swapaxes(1, 2)) / 2).max())
        for shift in _SHIFTS:
            most = top * (1 + shift) + shift
            if self._positive(X, C, np.broadcast_to(most * np.eye(rows), gram.shape), off):
                return math.nextafter(math.ldexp(math.nextafter(math.sqrt(most), math.inf), unit), math.inf)
        return math.inf

    def above(self, floor: Array) -> bool:
        """Whether X >= G is proved."""
        scaled = np.ldexp(floor, 2 * self.exponents)
        error = gamma(8) * (float(np.abs(self.X).max(initial=0.0)) + float(scaled.max(initial=0.0)))
        return are_positive(_real(self.X - np.diag(scaled)), 0.0, self.apart * error)

    def _coupled(self, stage: ChannelStage, own: NDArray[np.int64], rows: Array) -> tuple[Complex, Complex, float]:
        """C and X by frequencies of the outputs and aliases, and a bound of the norm of what rounding did to C."""
        sizes = self.sizes.pop(0)
        step()
        scaled = replace(stage, kernel=np.ldexp(stage.kernel, (self.exponents[None, :] - own[:, None])[:, :, None]))
        real, imaginary = scaled.symbol(sizes, self.half)
        factor = rows[:, None] / math.sqrt(stage.aliases)
        C = stage.by_alias(factor * (real + 1j * imaginary), sizes)
        size, taps = rows[:, None] * np.abs(scaled.kernel).sum(axis=2), stage.kernel.shape[2]
        both = [float(grow(size.sum(axis=k), taps + size.shape[k] + 4).max(initial=0.0)) for k in (0, 1)]
        norm = math.sqrt(both[0] * both[1]) * (1 + gamma(16))
        off = 2.0 * (gamma(taps + 24) + TABLE) * norm + 1e-200
        return C, stage.by_alias(np.asarray(self.X), sizes), off if np.all(np.isfinite(size)) else math.inf

    def _positive(self, X: Complex, C: Complex, last: Complex, off: float) -> bool:
        """Whether all pieces are positive, C being known up to `off`, and `last` up to the rounding of a difference."""
        points, aliases, rows, columns = C.shape
        n = aliases * columns + rows
        error = off + gamma(8) * float(np.abs(last).max(initial=0.0) + np.abs(X).max(initial=0.0))
        some = max(1, _NUMBERS // (4 * n * n))
        for start in range(0, points, some):
            part = slice(start, start + some)
            P = np.zeros((len(C[part]), n, n), dtype=np.complex128)
            for a in range(aliases):
                at = slice(a * columns, (a + 1) * columns)
                P[:, at, at] = X[part, a]
                P[:, aliases * columns :, at] = -C[part, a]
            P[:, aliases * columns :, aliases * columns :] = last[part] if last.ndim == 3 else last
            if not are_positive(_real(P), 0.0, self.apart * error):
                return False
        return True


def _real(P: Complex) -> Array:
    """Real symmetric matrices of twice the order, right in their lower triangles, which are positive as P is."""
    n = P.shape[-1]
    found = np.zeros((*P.shape[:-2], 2 * n, 2 * n))
    lower = np.tril(P)
    whole = lower + np.tril(P, -1).conj().swapaxes(-1, -2)
    found[..., :n, :n] = found[..., n:, n:] = whole.real
    found[..., n:, :n] = whole.imag
    return found


def _behind(problem: Problem, last: int, floor: Array) -> float:
    """The product of norms of the layers that read x_d or what comes behind it, on the ball x_d* G x_d <= 1."""
    net = problem.network
    scale = np.repeat(grow(1.0 / np.sqrt(floor), 4), net.blocks[last - 1].width // len(floor))
    blocks = [
        Block(tuple((j - last, weight) for j, weight in b.terms), b.bias, b.activation) for b in net.blocks[last:]
    ]
    first, others = ({id(w) for b in blocks for j, w in b.terms if (j == 0) == here} for here in (True, False))
    if first & others:
        return math.inf  # one matrix with two meanings
    out = problem.norm.out

    def gain(weight: Matrix, q: str = "2") -> float:
        if id(weight) not in first:
            return operator_norm(weight, "2", q)
        product = _scaled(weight, scale)
        if product is None:
            return math.inf
        lost = 2 * gamma(4) * EUCLIDEAN.gain(product) * (math.sqrt(product.shape[0]) if q == "1" else 1.0)
        return float(grow(np.asarray(operator_norm(product, "2", q) + lost), 4))

    def head(weight: Matrix) -> float:
        if out is not None:
            return gain(weight, out)
        map_ = Network((Affine(weight, np.zeros(weight.shape[0])),), ())
        size = gradient_bounds(map_, (), problem.c)[0].magnitude
        return float(vector_norms(grow(size * scale, 4) if id(weight) in first else size, "2"))

    return product_of_norms(Network.from_blocks(blocks), gain, head)


def _scaled(weight: Matrix, scale: Array) -> Matrix | None:
    """weight * scale, column by column, every entry rounded once; None for a kernel with other channels."""
    if isinstance(weight, Kernel):
        return weight.columns_scaled(scale)
    return weight.multiply(scale[None, :]).tocsr() if is_sparse(weight) else weight * scale
