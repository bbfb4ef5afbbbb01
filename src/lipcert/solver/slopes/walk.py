"""One pass through the blocks that chooses or takes multipliers, in units that neither overflow nor underflow.

The values of every block are divided by a power of two, so that its pre-activations have about unit covariance: what
the constants of a deep network are does not matter then. Multipliers t of such a block are 4^e times those of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lipcert.relaxation.slopes import SlopeBlock, SlopeMultipliers, SlopeProgram, Term
from lipcert.rounding import Array
from lipcert.solver.slopes.recursion import BlockStage, largest, stages, start

Choose = Callable[[int, Array, int], Array]  # the block, from 0 on, Z, and the exponent of its units; returns t there


@dataclass(frozen=True, eq=False)
class Walk:
    """The end of a pass: exponents of all sources, multipliers in their units, and the square of the bound."""

    exponents: tuple[int, ...]
    t: tuple[Array, ...]
    square: float  # in units of 4^last
    last: int

    @property
    def bound(self) -> float:
        """L, infinite where it is too large for a float."""
        with np.errstate(over="ignore"):
            return float(np.ldexp(np.sqrt(self.square), self.last))


def walk(program: SlopeProgram, inputs: Array | None, choose: Choose) -> Walk:
    """Raises LinAlgError where multipliers are not feasible."""
    K, exponents, chosen = start(program, inputs), [0], []
    all_stages = stages(program)
    for i, (stage, block) in enumerate(zip(all_stages, program.blocks, strict=False)):
        scaled, base = _scaled(stage, block.terms, exponents)
        WK = scaled.times(K)
        Z = scaled.gram(WK)
        size = float(np.trace(Z)) / len(Z)
        more = int(np.round(np.log2(size) / 2)) if np.isfinite(size) and size > 0 else 0
        WK, Z = np.ldexp(WK, -more), np.ldexp(Z, -2 * more)
        t = choose(i, Z, base + more)
        K = joined(stage, K, WK, Z, t)
        exponents.append(base + more)
        chosen.append(t)
    scaled, base = _scaled(all_stages[-1], program.head, exponents)
    square = largest_exactly(scaled.gram(scaled.times(K))) if scaled.reads else 0.0
    return Walk(tuple(exponents), tuple(chosen), square, base)


def largest_exactly(E: Array) -> float:
    """The largest eigenvalue; of many outputs the power iteration with a bound of its error."""
    return max(float(np.linalg.eigvalsh(E)[-1]), 0.0) if len(E) <= 2000 else largest(E) * (1 + 1e-3)


def joined(stage: BlockStage, K: Array, WK: Array, Z: Array, t: Array) -> Array:
    """The covariance after a block, also where slopes are single numbers; see the recursion."""
    rho, c = (stage.b - stage.a) * np.sqrt(t / 2), (stage.a + stage.b) / 2
    N = -(rho[:, None] * Z * rho)
    N.flat[:: len(N) + 1] += 1.0
    L = np.asarray(np.linalg.cholesky(N), dtype=np.float64)
    half = np.linalg.solve(L, rho[:, None] * Z) if len(L) < 64 else _triangular(L, rho[:, None] * Z)
    own = c[:, None] * (Z + half.T @ half) * c
    own.flat[:: len(own) + 1] += 0.5 / t
    if not stage.kept.size:
        return own
    cross = _triangular(L, rho[:, None] * WK[:, stage.kept])
    stay = K[np.ix_(stage.kept, stage.kept)] + cross.T @ cross
    mixed = c[:, None] * (WK[:, stage.kept] + half.T @ cross)
    return np.block([[stay, mixed.T], [mixed, own]])


def _triangular(L: Array, R: Array) -> Array:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(L, R, lower=True, check_finite=False))


def _scaled(stage: BlockStage, terms: tuple[Term, ...], exponents: list[int]) -> tuple[BlockStage, int]:
    """The stage with its matrices in units of 2^base, their largest entry being about one."""
    tops = [_exponent(matrix) + exponents[j] for j, matrix in terms]
    base = max(tops, default=0)
    pairs = zip(stage.reads, terms, strict=True)
    reads = tuple((place, np.ldexp(matrix, exponents[j] - base)) for (place, matrix), (j, _) in pairs)
    return BlockStage(reads, stage.order, stage.kept, stage.a, stage.b), base


def _exponent(matrix: Array) -> int:
    return int(np.frexp(np.max(np.abs(matrix), initial=0.0))[1])


def in_units(program: SlopeProgram, exponents: tuple[int, ...], last: int) -> SlopeProgram:
    """The program in the units of a walk; its bound is that of the given one divided by 2^last."""

    def units(terms: tuple[Term, ...], own: int) -> tuple[Term, ...]:
        return tuple((j, np.ldexp(matrix, exponents[j] - own)) for j, matrix in terms)

    pairs = zip(program.blocks, exponents[1:], strict=True)
    blocks = tuple(SlopeBlock(units(block.terms, own), block.a, block.b) for block, own in pairs)
    return SlopeProgram(program.inputs, blocks, units(program.head, last), program.weighted)


def estimate(program: SlopeProgram, multipliers: SlopeMultipliers) -> float:
    """The bound by these multipliers in plain floating point; infinite if they are not feasible."""

    def given(i: int, _: Array, exponent: int) -> Array:
        return np.ldexp(multipliers.neurons[i], 2 * exponent)

    weights = multipliers.inputs
    if not multipliers.fits(program) or (weights is not None and np.any(weights <= 0)):
        return float("inf")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = walk(program, None if weights is None else weights / weights.sum(), given)
            return found.bound if np.isfinite(found.square) else float("inf")
    except np.linalg.LinAlgError:
        return float("inf")
