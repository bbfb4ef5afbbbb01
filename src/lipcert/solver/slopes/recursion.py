"""The recursion of covariances: what multipliers prove, block by block, and the gradient of it by one sweep back.

With multipliers t the form of a program is positive on the first blocks when its inverse there exists: the covariance K
of the values that are still read. A block with rows W and slopes in [a, b] adds, with c = (a + b)/2,

    Z = W K W',   v = 2 / (t (b - a)^2),   V - Z > 0            (what t must satisfy)
    K <- [K + (W K)' (V - Z)^-1 (W K)    .                     ]
         [C V (V - Z)^-1 W K             C V (V - Z)^-1 V C - A B V]

and values that nobody reads any more are dropped: their rows and columns are deleted. In the end L^2 is the largest
eigenvalue of H K H'. Every block costs one Cholesky factorisation and a few products of its own size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from lipcert.relaxation.slopes import SlopeProgram, Term
from lipcert.rounding import Array
from lipcert.solver.dense import mirror_lower


@dataclass(frozen=True, eq=False)
class BlockStage:
    """One block, or the head, in terms of the state before it: the places of what it reads and of what stays."""

    reads: tuple[tuple[slice, Array], ...]
    order: int
    kept: NDArray[np.int_]  # places in the state before that are still in the state after
    a: Array
    b: Array

    @property
    def width(self) -> int:
        """The number of rows."""
        return len(self.reads[0][1])

    def times(self, K: Array) -> Array:
        """W K for a matrix on the state."""
        first, *others = (matrix @ K[place] for place, matrix in self.reads)
        return sum(others, first)

    def gram(self, WK: Array) -> Array:
        """W K W'."""
        first, *others = (WK[:, place] @ matrix.T for place, matrix in self.reads)
        Z = sum(others, first)
        return np.asarray((Z + Z.T) / 2)

    def back(self, R: Array) -> Array:
        """W' R, on the state."""
        whole = np.zeros((self.order, R.shape[1]))
        for place, matrix in self.reads:
            whole[place] = matrix.T @ R
        return whole


def stages(program: SlopeProgram) -> tuple[BlockStage, ...]:
    """The stages of all blocks, and of the head at the end."""
    found, widths = [], program.widths
    ends = np.zeros(0)
    reads = [*((block.terms, block.a, block.b) for block in program.blocks), (program.head, ends, ends)]
    for i, (terms, a, b) in enumerate(reads):
        before, after = program.states[i], program.states[i + 1] if i + 1 < len(reads) else ()
        starts = dict(zip(before, np.cumsum([0, *(widths[j] for j in before)]), strict=False))
        places = {j: slice(start, start + widths[j]) for j, start in starts.items()}
        kept = [np.arange(places[j].start, places[j].stop) for j in after if j in places]
        order = sum(widths[j] for j in before)
        stay = np.concatenate(kept) if kept else np.zeros(0, dtype=int)
        found.append(BlockStage(tuple((places[j], matrix) for j, matrix in terms), order, stay, a, b))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class BlockStep:
    """A step through one block, for the sweep back: N = I - rho Z rho, rho^2 = 1/v, and the columns that stay."""

    v: Array
    inverse: Array  # N^-1
    cross: Array  # rho W K on what stays
    size: float  # the trace of Z
    room: float  # log det N


def advance(stage: BlockStage, K: Array, WK: Array, Z: Array, v: Array) -> tuple[Array, BlockStep]:
    """The covariance after a block whose multipliers are v; raises LinAlgError where V - Z is not positive."""
    rho = v**-0.5
    N = -(rho[:, None] * Z * rho)
    N.flat[:: len(N) + 1] += 1.0
    inverse, room = _inverse(N)
    out = (stage.a + stage.b) / 2 / rho
    own = out[:, None] * inverse * out
    own.flat[:: len(own) + 1] -= stage.a * stage.b * v
    cross = rho[:, None] * WK[:, stage.kept]
    step = BlockStep(v, inverse, cross, float(np.trace(Z)), room)
    if not stage.kept.size:
        return own, step
    solved = inverse @ cross
    stay = K[np.ix_(stage.kept, stage.kept)] + cross.T @ solved
    mixed = out[:, None] * solved
    return np.block([[(stay + stay.T) / 2, mixed.T], [mixed, own]]), step


def retreat(stage: BlockStage, step: BlockStep, G: Array, barrier: float) -> tuple[Array, Array]:
    """Turn the derivative in the covariance after a block into those in log v and in the covariance before it.

    v is thought of as a multiple of the trace of Z, so that it follows a change of the covariance before. The value
    contains -barrier log det N.
    """
    rho, w = step.v**-0.5, stage.width
    out = (stage.a + stage.b) / 2 / rho
    s = len(G) - w
    columns = np.hstack([step.inverse @ step.cross, step.inverse * out]) if s else step.inverse * out
    image = columns @ G
    A = image @ columns.T
    if barrier:
        A += barrier * step.inverse
    own = np.diagonal(image[:, s:]) * out * 2 - stage.a * stage.b * np.diagonal(G)[s:] * step.v - np.diagonal(A)
    own += barrier
    inner = rho[:, None] * A * rho
    inner.flat[:: len(inner) + 1] += own.sum() / step.size
    half = stage.back(inner)
    before = np.zeros((stage.order, stage.order))
    for place, matrix in stage.reads:
        before[:, place] = half @ matrix
    if s:
        mixed = stage.back(rho[:, None] * image[:, :s])
        before[:, stage.kept] += mixed
        before[stage.kept] += mixed.T
        before[np.ix_(stage.kept, stage.kept)] += G[:s, :s]
    return own, (before + before.T) / 2


def _inverse(N: Array) -> tuple[Array, float]:
    """The inverse and the logarithm of the determinant; raises LinAlgError where N is not positive."""
    factor, info = lapack.dpotrf(N, lower=1, overwrite_a=1, clean=0)
    diagonal = np.diagonal(factor).copy()
    if info != 0 or not np.all(np.isfinite(diagonal)):
        raise np.linalg.LinAlgError("not positive definite")
    inverse = np.asarray(lapack.dpotri(factor, lower=1, overwrite_c=1)[0])
    mirror_lower(inverse)
    return inverse, 2 * float(np.sum(np.log(diagonal)))


def start(program: SlopeProgram, inputs: Array | None) -> Array:
    """The covariance of the input: Lambda^-1."""
    return np.eye(program.inputs) if inputs is None else np.diag(1.0 / inputs)


def largest(Z: Array) -> float:
    """Largest eigenvalue of a positive semidefinite matrix: exact up to order 150, else estimated from below."""
    if len(Z) <= 150:
        return max(float(np.linalg.eigvalsh(Z)[-1]), 0.0)
    x = np.random.default_rng(0).standard_normal(len(Z))
    for _ in range(40):
        x = Z @ (x / max(float(np.linalg.norm(x)), np.finfo(float).tiny))
    return float(np.linalg.norm(x))


def gram_of_readers(program: SlopeProgram, source: int) -> Array:
    """The sum of W'W over all that read a source, each with trace 1."""
    gram = np.zeros((program.widths[source],) * 2)
    terms: list[Term] = [term for block in program.blocks for term in block.terms]
    for j, matrix in [*terms, *program.head]:
        top = float(np.max(np.abs(matrix), initial=0.0)) if j == source else 0.0
        if top > 0:
            scaled = matrix / top
            gram += scaled.T @ scaled / float(np.sum(scaled * scaled))
    return gram
