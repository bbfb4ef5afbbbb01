"""Slopes: the constraints of all slopes' intervals on the differences of two inputs, with one multiplier per neuron.

    dz_i = sum_j A_ij dx_j,    (dx - a dz)(b dz - dx) >= 0        for every neuron, its slope in [a, b]

With multipliers t >= 0, in the variables x = (x_0, x_1, .., x_m) of the input and of all blocks,

    M = Lambda (on x_0) + sum_k t_k (p_k q_k' + q_k p_k') - tau H'H >= 0,       p = e - a w,  q = e - b w,  w'x = z

implies tau |H x|_2^2 <= x_0' Lambda x_0, H x being the scores or one of them: [LipSDP19], for any graph of blocks.
Lambda is the identity in norm 2; in norm inf it is diagonal and free, and x_0' Lambda x_0 is at most its sum.

Every block but the last of a way is read by few others, so M is a sum of pieces that overlap in *states*: the values
that later blocks still read. In a chain the state is one layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.propagation import slopes
from lipcert.files.numbers import LARGEST
from lipcert.problem.maps import Matrix, dense, matrix
from lipcert.problem.network import Network
from lipcert.problem.problem import Fact, Problem
from lipcert.rounding import Array, gamma, grow

SLOPES_PIECE = 6000  # order of the largest matrix that a proof by slopes factors: a few of them take 2 GB

Term = tuple[int, Array]  # a source, 0 being the input, and a matrix (rows, width of the source)
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SlopeBlock:
    """Neurons of one block: z = sum of matrix x_source over its terms, and slopes between a and b."""

    terms: tuple[Term, ...]
    a: Array
    b: Array

    @property
    def width(self) -> int:
        """The number of neurons."""
        return len(self.a)


@dataclass(frozen=True, eq=False)
class SlopeProgram:
    """The input, blocks 1..m, and the bounded sum of matrix x_source over the terms of `head`, in norm 2.

    Matrices are dense. Neurons whose slope is zero, or that no block reads, are left out. Sources
    come in increasing order; every block reads something and is read. `doubt` bounds what rounding did to the entries
    of the head. `weighted` says that Lambda is free: norm inf at the input. `origin` names by block that of the network
    and which of its neurons are left; where the head is a sum of scores, `summed` has its weights and their rows.
    """

    inputs: int
    blocks: tuple[SlopeBlock, ...]
    head: tuple[Term, ...]
    weighted: bool
    doubt: tuple[Array, ...] = ()
    origin: tuple[tuple[int, Mask], ...] = ()
    summed: tuple[Array, tuple[Term, ...]] | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the input and of all blocks."""
        return (self.inputs, *(block.width for block in self.blocks))

    @property
    def is_chain(self) -> bool:
        """Whether every block, and the head, reads the one before it and nothing else."""
        reads = [*(block.terms for block in self.blocks), self.head]
        return all([source for source, _ in terms] == [i] for i, terms in enumerate(reads))

    @cached_property
    def states(self) -> tuple[tuple[int, ...], ...]:
        """For every i = 0..m: the sources up to i that blocks after i, or the head, read."""
        return states([*([j for j, _ in block.terms] for block in self.blocks), [j for j, _ in self.head]])

    @cached_property
    def orders(self) -> tuple[int, ...]:
        """The orders of the matrices that a proof factors, one for each block and one at the end (`piece_orders`)."""
        plain = bool(self.blocks) and bool(np.all(self.blocks[0].a * self.blocks[0].b == 0))
        return piece_orders(self.widths, self.states, plain)

    def rows(self, i: int) -> Array:
        """The rows of block i = 1..m, or of the head where i = m + 1, over the whole state before it."""
        return self.over_state(self.head if i > len(self.blocks) else self.blocks[i - 1].terms, i - 1)

    def over_state(self, given: tuple[Term, ...], i: int) -> Array:
        """Terms side by side, with zeros for the sources of state i that they do not name."""
        terms, state = dict(given), self.states[i]
        height = len(next(iter(terms.values())))
        if len(state) == 1:
            return terms[state[0]]
        return np.hstack([terms.get(j, np.zeros((height, self.widths[j]))) for j in state])


@dataclass(frozen=True, eq=False)
class SlopeMultipliers:
    """One number >= 0 for every neuron, block by block, and the diagonal of Lambda where it is free."""

    neurons: tuple[Array, ...]
    inputs: Array | None = None

    def fits(self, program: SlopeProgram) -> bool:
        """Whether there is one positive finite number for each that the program has."""
        wanted = [block.width for block in program.blocks] + ([program.inputs] if program.weighted else [])
        given = [*self.neurons, *([] if self.inputs is None else [self.inputs])]
        if [x.shape for x in given] != [(n,) for n in wanted] or (self.inputs is None) == program.weighted:
            return False
        lambdas_are_enough = self.inputs is None or bool(
            np.all(self.inputs >= 0) and 0 < self.inputs.max(initial=0.0) <= LARGEST / len(self.inputs)
        )
        return (
            lambdas_are_enough
            and all(np.all(np.isfinite(x)) for x in given)
            and all(bool(np.all(t > 0)) for t in self.neurons)
        )


def states(reads: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The sources that are still read after each block; `reads` names those of every block and of the head."""
    last = {source: i for i, sources in enumerate(reads) for source in sources}
    return tuple(tuple(j for j in sorted(last) if j <= i <= last[j]) for i in range(len(reads)))


def piece_orders(widths: Sequence[int], alive: Sequence[Sequence[int]], plain: bool) -> tuple[int, ...]:
    """The orders of the matrices that a proof factors: the state before a block and the block; the last state.

    Where the slopes of the first block begin or end at zero (`plain`), and nothing else reads the input, its diagonal
    is eliminated before.
    """
    before = [sum(widths[j] for j in state) for state in alive]  # an empty one where nothing depends on the input
    orders = [n + w for n, w in zip(before, widths[1:], strict=False)]
    if plain and orders and 0 not in alive[1]:
        orders[0] = widths[1]
    return (*orders, before[-1])


def slope_program(problem: Problem) -> SlopeProgram:
    """The program of a problem, by the slopes on its region.

    In norm 1 the input is one coordinate where the problem names it; else norm 2, which is no larger, takes its place
    (and of the outputs that of norm inf), so that the program bounds all cases at once.
    """
    net = problem.network
    own = [problem.coordinate] if problem.coordinate is not None else None
    bounds, live = slopes(problem), _live(problem)
    number = _numbers(live)
    blocks, origin = [], []
    for i in sorted(set(number) - {0}):
        origin.append((i, live[i]))
        terms = _terms(net.blocks[i - 1].terms, live, live[i], number, own)
        blocks.append(SlopeBlock(terms, bounds[i - 1].lo[live[i]], bounds[i - 1].hi[live[i]]))
    head, doubt, summed = _head(problem, live, number, own)
    weighted, inputs = problem.norm.p == "inf", net.inputs if own is None else 1
    return SlopeProgram(inputs, tuple(blocks), head, weighted, doubt, tuple(origin), summed)


def orders_of(problem: Problem) -> tuple[int, ...]:
    """The orders of the pieces of its program, which is not built for that."""
    live = _live(problem)
    number = _numbers(live)
    reads = [[j for j, _ in block.terms if j in number] for block in problem.network.blocks]
    kept = [[number[j] for j in reads[i - 1]] for i in [*sorted(set(number) - {0}), len(reads)]]
    blocks = sorted(set(number) - {0})
    first = 1 if problem.coordinate is not None else problem.network.inputs
    bounds = slopes(problem)
    plain = bool(blocks) and bool(np.all((bounds[blocks[0] - 1].lo * bounds[blocks[0] - 1].hi)[live[blocks[0]]] == 0))
    return piece_orders([first, *(int(np.count_nonzero(live[j])) for j in blocks)], states(kept), plain)


def orders_of_all(net: Network) -> tuple[int, ...]:
    """The orders where every neuron counts: an upper limit for any region."""
    plain = bool(net.depth) and 0.0 in net.activations[0].slopes
    return piece_orders(net.shape[:-1], states([[j for j, _ in block.terms] for block in net.blocks]), plain)


def refusal(orders: Sequence[int], inputs: int) -> str | None:
    """Why a proof of these pieces is too large, in one line; None where it is not."""
    most = max(*orders, inputs)
    if most <= SLOPES_PIECE:
        return None
    return f"slopes needs a matrix of order {most:,} here, more than {SLOPES_PIECE:,}; use mixed or tight"


def _numbers(live: list[Mask]) -> dict[int, int]:
    """The sources that are left, and their numbers in the program."""
    blocks = (j for j in range(1, len(live)) if np.any(live[j]))
    return ({0: 0} if np.any(live[0]) else {}) | {j: k for k, j in enumerate(blocks, start=1)}


@Fact
def _live(problem: Problem) -> list[Mask]:
    """By source, the neurons between input and scores: they depend on the input, and the scores depend on them.

    All coordinates of the input count, or none.
    """
    net = problem.network
    moving = [(s.lo != 0) | (s.hi != 0) for s in slopes(problem)]
    reached = [np.ones(net.inputs, dtype=bool)]
    if problem.coordinate is not None:
        reached[0] = np.arange(net.inputs) == problem.coordinate
    for block, moves in zip(net.hidden, moving, strict=True):
        touched = [_touches(weight, reached[j]) for j, weight in block.terms]
        reached.append(moves & np.logical_or.reduce(touched))
    asked = np.any(problem.c != 0, axis=0) if problem.c.ndim == 2 else problem.c != 0
    used = [np.zeros(len(r), dtype=bool) for r in reached] + [asked]
    for i in range(len(net.blocks), 0, -1):
        rows = used[i] if i > net.depth else used[i] & reached[i]
        for j, weight in net.blocks[i - 1].terms:
            used[j] |= _touches(weight.T, rows)
    live = [r & u for r, u in zip(reached, used, strict=False)]
    if problem.coordinate is None:
        live[0] = np.full(net.inputs, bool(np.any(live[0])))
    return live


def _touches(weight: Matrix, columns: Mask) -> Mask:
    """Which rows have an entry in one of these columns. (|weight| of a convolution is one, so nothing is unrolled.)"""
    return np.asarray(abs(weight) @ columns.astype(np.float64)) > 0


def _terms(
    terms: Sequence[tuple[int, Matrix]], live: list[Mask], rows: Mask, number: dict[int, int], own: list[int] | None
) -> tuple[Term, ...]:
    found = []
    for j, weight in terms:
        if j not in number:
            continue
        w = matrix(weight)
        w = w if np.all(rows) else w[np.flatnonzero(rows)]
        columns = live[j] if j or own is None else None
        if columns is None:
            w = w[:, own]
        elif not np.all(columns):
            w = w[:, np.flatnonzero(columns)]
        full = dense(w)
        if np.any(full):
            found.append((number[j], full))
    return tuple(found)


def _head(
    problem: Problem, live: list[Mask], number: dict[int, int], own: list[int] | None
) -> tuple[tuple[Term, ...], tuple[Array, ...], tuple[Array, tuple[Term, ...]] | None]:
    """The rows of the bounded sum, bounds of their rounding, and the weights and rows of a sum of scores."""
    block, c = problem.network.scores, np.atleast_2d(problem.c)
    terms = _terms(block.terms, live, np.any(c != 0, axis=0), number, own)
    c = c[:, np.any(c != 0, axis=0)]
    if problem.whole_map or (c.size == 1 and abs(c[0, 0]) == 1.0):  # the identity, or a row with its sign
        return terms, tuple(np.zeros_like(w) for _, w in terms), None
    n = c.shape[1]
    doubt = tuple(grow(gamma(n + 4) * (np.abs(c) @ np.abs(w)), n + 8) for _, w in terms)
    return tuple((j, c @ w) for j, w in terms), doubt, (c, terms)
