"""A program without what needs no search: neurons of one slope, without input or readers, and a wide input.

Neurons whose slope is one number are substituted, so that blocks may read sources further back. A neuron that reads
nothing is zero. One that nobody reads may have any small multiplier. In norm 2 the input is replaced by coordinates of
the space that the rows reading it span, when these are fewer.

`complete` goes back: from multipliers of the settled program, in the units of a walk, to those of the given program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from lipcert.relaxation.slopes import SlopeBlock, SlopeMultipliers, SlopeProgram, Term
from lipcert.rounding import Array
from lipcert.solver.slopes.walk import walk

SAME = 1e-9  # relative to the slopes: an interval that is shorter is one slope, for the choice of multipliers

Rows = dict[int, Array]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Settled:
    """The program that is solved, and for every block of the given one which of its neurons are in it, and where."""

    program: SlopeProgram
    free: tuple[Mask, ...]
    idle: tuple[Mask, ...]  # neurons that read nothing: they are zero
    number: tuple[int, ...]  # the block of `program`, from 1 on, that has the free neurons; 0 for none

    @property
    def whole(self) -> bool:
        """Whether all neurons are free."""
        return all(bool(np.all(mask)) for mask in self.free)


def settle(program: SlopeProgram) -> Settled:
    """The program without what needs no search, as the head of this module says."""
    rows, free, idle = _substituted(program)
    _drop_unread(rows, free)
    number = np.cumsum([0, *(bool(np.any(mask)) for mask in free)])
    numbers = {0: 0} | {j + 1: int(number[j + 1]) for j in range(len(free)) if np.any(free[j])}
    blocks = [
        SlopeBlock(_terms(rows[i], numbers), block.a[mask], block.b[mask])
        for i, (block, mask) in enumerate(zip(program.blocks, free, strict=True))
        if np.any(mask)
    ]
    head = _terms(rows[-1], numbers)
    found = SlopeProgram(program.inputs, tuple(blocks), head, program.weighted)
    places = tuple(numbers.get(j + 1, 0) for j in range(len(free)))
    return Settled(found if program.weighted else narrowed(found), tuple(free), tuple(idle), places)


def _terms(rows: Rows, numbers: dict[int, int]) -> tuple[Term, ...]:
    return tuple((numbers[j], matrix) for j, matrix in sorted(rows.items()) if j in numbers and np.any(matrix))


def _substituted(program: SlopeProgram) -> tuple[list[Rows], list[Mask], list[Mask]]:
    """The rows of the free neurons of every block, and of the head, over free neurons; which are free, which idle."""
    found: list[Rows] = []
    free: list[Mask] = []
    idle: list[Mask] = []
    fixed: list[Rows] = []  # by block: the neurons that are not free, as rows
    for i, block in enumerate([*program.blocks, None]):
        rows: Rows = {}
        for j, matrix in program.head if block is None else block.terms:
            if j == 0 or np.all(free[j - 1]):
                rows[j] = rows[j] + matrix if j in rows else matrix
                continue
            own = matrix[:, free[j - 1]]
            rows[j] = rows[j] + own if j in rows else own
            for k, expression in fixed[j - 1].items():
                image = matrix[:, ~free[j - 1]] @ expression
                rows[k] = rows[k] + image if k in rows else image
        if block is None:
            found.append(rows)
            break
        reads = _reading(rows, block.width)
        wide = block.b - block.a > SAME * np.maximum(np.abs(block.a), np.abs(block.b))
        idle.append(np.asarray(~reads))
        free.append(np.asarray(reads & wide))
        slope = ((block.a + block.b) / 2)[~free[i], None]
        fixed.append({j: slope * matrix[~free[i]] for j, matrix in rows.items()} if not np.all(free[i]) else {})
        found.append({j: matrix[free[i]] for j, matrix in rows.items()} if fixed[i] else rows)
    return found, free, idle


def _reading(rows: Rows, width: int) -> Mask:
    """Which rows have an entry."""
    found = np.zeros(width, dtype=bool)
    for matrix in rows.values():
        found |= np.any(matrix != 0, axis=1)
    return found


def _drop_unread(rows: list[Rows], free: list[Mask]) -> None:
    """Neurons that nobody reads are not free either; those before them may have lost their last reader by that."""
    for j in range(len(free), 0, -1):
        readers = [rows[i][j] for i in range(j, len(rows)) if j in rows[i]]
        width = int(np.count_nonzero(free[j - 1]))
        read = np.zeros(width, dtype=bool)
        for matrix in readers:
            read |= np.any(matrix != 0, axis=0)
        if np.all(read):
            continue
        for i in range(j, len(rows)):
            if j in rows[i]:
                rows[i][j] = rows[i][j][:, read]
        rows[j - 1] = {k: matrix[read] for k, matrix in rows[j - 1].items()}
        mask = free[j - 1].copy()
        mask[free[j - 1]] = read
        free[j - 1] = mask


def narrowed(program: SlopeProgram) -> SlopeProgram:
    """The program with its input in an orthonormal basis of the rows that read it, if these are fewer."""
    reads = [matrix for block in program.blocks for j, matrix in block.terms if j == 0]
    reads += [matrix for j, matrix in program.head if j == 0]
    if not reads or sum(len(matrix) for matrix in reads) >= program.inputs:
        return program
    stack = np.vstack(reads)
    top = np.max(np.abs(stack), axis=1, keepdims=True)
    stack = stack / np.where(top > 0, top, 1.0)
    basis = qr(stack.T, mode="economic")[0]

    def turned(terms: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple((j, matrix @ basis if j == 0 else matrix) for j, matrix in terms)

    blocks = tuple(SlopeBlock(turned(block.terms), block.a, block.b) for block in program.blocks)
    return SlopeProgram(basis.shape[1], blocks, turned(program.head), program.weighted)


SURE = 1e7  # the multiplier of an equality, times the inverse variance: 1e-7 is lost by it, and about that in a proof
NOTHING = 1e40  # the same of a neuron that is zero, relative to the mean variance of its block
UNREAD = 1e-9  # of a neuron that nobody reads, beside others: of the largest that is feasible
SMALLEST, LARGEST = 1e-306, 1e306  # range of the numbers that are returned


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
