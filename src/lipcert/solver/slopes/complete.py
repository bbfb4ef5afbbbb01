"""From multipliers of the settled program, in the units of a walk, to multipliers of the given program."""

from __future__ import annotations

import numpy as np

from lipcert.relaxation.slopes import SlopeMultipliers, SlopeProgram
from lipcert.rounding import Array
from lipcert.solver.slopes.settle import SAME, Settled
from lipcert.solver.slopes.walk import walk

SURE = 1e7  # the multiplier of an equality, times the inverse variance: 1e-7 is lost by it, and about that in a proof
NOTHING = 1e40  # the same of a neuron that is zero, relative to the mean variance of its block
UNREAD = 1e-9  # of a neuron that nobody reads, beside others: of the largest that is feasible
SMALLEST, LARGEST = 1e-306, 1e306  # of what is returned


def complete(
    program: SlopeProgram, settled: Settled, exponents: tuple[int, ...], t: tuple[Array, ...], weights: Array | None
) -> SlopeMultipliers:
    """One positive number for every neuron of the given program; raises LinAlgError where that is not feasible."""
    with np.errstate(over="ignore", under="ignore"):
        own = [np.ldexp(x, -2 * e) for x, e in zip(t, exponents[1:], strict=True)]
        if not settled.whole:
            own = _with_the_others(program, settled, own, weights)
        else:
            own = [own[k - 1] for k in settled.number]
    return SlopeMultipliers(tuple(np.clip(x, SMALLEST, LARGEST) for x in own), weights)


def _with_the_others(program: SlopeProgram, settled: Settled, own: list[Array], weights: Array | None) -> list[Array]:
    found: list[Array] = []

    def choose(i: int, Z: Array, exponent: int) -> Array:
        block, free = program.blocks[i], settled.free[i]
        width, c, variance = block.b - block.a, (block.a + block.b) / 2, np.diagonal(Z)
        moving = variance * c * c
        same = width <= SAME * np.maximum(np.abs(block.a), np.abs(block.b))
        t = np.full(block.width, NOTHING)
        sure = same & ~settled.idle[i] & (moving > 0)
        t[sure] = SURE / (2 * moving[sure])
        unread = ~same & ~settled.idle[i] & (variance > 0)
        share = UNREAD * 2 if np.any(free) else 1.0
        t[unread] = share / (variance[unread] * width[unread] ** 2 * block.width)
        noise = ~same & settled.idle[i] & (variance > 0)  # it reads what is nearly zero
        t[noise] = 1 / (variance[noise] * width[noise] ** 2 * block.width)
        if np.any(free):
            t[free] = np.ldexp(own[settled.number[i] - 1], 2 * exponent)
        found.append(np.ldexp(t, -2 * exponent))
        return t

    walk(program, weights, choose)
    return found
