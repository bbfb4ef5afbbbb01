"""Facial reduction: bases of polynomials in which the Gram matrices can be definite.

Rosenbrock's function grows like x^2 only along y = x^2, so every Gram matrix over 1, x, y, x^2 has the null vector of
(y, x^2) = (1, 1): none is definite, and none proves a bound in floating point. Over 1, x, y - x^2 there are definite
ones. The null vectors are those of a functional at infinity,

    t = min L(f)   s.t.  L(1) = 0,  the relaxation's other constraints,  sum of the matrices' traces = 1:

t > 0 says that definite Gram matrices exist, t < 0 that there are none at all, and for t = 0 every Gram matrix vanishes
on the range of the moment matrices of L [BW81, PP08]. A basis of this range is rounded to small fractions; a
basis of its complement has whole coefficients, so the smaller program is exact. A wrong guess loses the bound, never
its truth.

Two reductions need no solver. `reduce_bases` drops monomials that no sum of squares can use. If a monomial m^2 is
absent from the objective and occurs in the relaxation only on diagonals (as b^2 of some basis element b), then the Gram
entries there sum to zero, hence vanish with their rows: b can leave the basis. Repeated, this is the Newton polytope's
reduction for unconstrained problems [Rez78]. It changes no bound, and without it the Gram matrices of unbounded
problems are never definite.

`reduce_pairs` finds the null vectors of Gram entries that the objective forces. A moment that occurs in one entry of
the relaxation only forces the Gram entry there. If Q_aa = p > 0 and Q_ab = q are forced, then Q_bb >= q^2 / p. If b^2
occurs on diagonals only and these limits add up to its coefficient in the objective, all of them are attained: where
the limit is zero the row of b vanishes, elsewhere Q vanishes on the null vector (q, -p) of (a, b), and one element p a
+ q b takes the place of both. In Rosenbrock's chain this is x_n - x_(n-1)^2, without which no Gram matrix is definite.
Nothing is lost: every Gram matrix has these null vectors.

[BW81] Borwein, Wolkowicz: Facial reduction for a cone-convex programming problem, J. Austral. Math. Soc. 30 (1981).
[PP08] Peyrl, Parrilo: Computing sum of squares decompositions with rational coefficients, Theor. Comp. Sci. 409 (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.assembly import MomentConic
from lipcert.polynomial.hierarchy.model import MomentBlock, MomentModel
from lipcert.polynomial.hierarchy.terms import Entries, entries_of, without_vanishing
from lipcert.polynomial.monomials import Index, rows_of
from lipcert.rounding import Array
from lipcert.solver.conic.conic import Cone, ConicProblem, ConicSolution, smat
from lipcert.solver.conic.refine import refinable, refine


def reduce_bases(model: MomentModel) -> MomentModel:
    """The same relaxation without basis elements whose Gram rows must vanish."""
    conic = model.conic()
    while (smaller := _without_diagonal_only(model, conic)) is not None:
        try:
            conic = smaller.conic()
        except InputError:  # the objective needs a monomial that was dropped: it is no sum of squares
            return model
        model = smaller
    return model


def _without_diagonal_only(model: MomentModel, conic: MomentConic) -> MomentModel | None:
    blocks = [k for k, b in enumerate(model.blocks) if b.order > 1]
    psd = [rows for cone, rows in conic.problem.blocks() if cone.kind == "psd"]
    owner = np.full((conic.problem.rows, 2), -1, dtype=np.int64)  # block and basis element of a plain diagonal slot
    for k, rows in zip(blocks, psd, strict=True):
        if model.blocks[k].multiplier is None and model.blocks[k].mix is None:
            order = model.blocks[k].order
            diagonal = rows.start + np.cumsum(np.arange(1, order + 1)) - 1
            owner[diagonal] = np.column_stack([np.full(order, k), np.arange(order)])
    forced = _diagonal_only(conic, owner)
    if not len(forced):
        return None
    doomed = {(int(k), int(i)) for k, i in owner[forced]}
    changed = []
    for k, block in enumerate(model.blocks):
        basis = tuple(b for i, b in enumerate(block.basis) if (k, i) not in doomed)
        if basis:
            changed.append(
                block if len(basis) == len(block.basis) else MomentBlock(basis, block.multiplier)
            )  # not mixed
    return replace(model, blocks=tuple(changed))


def _diagonal_only(conic: MomentConic, owner: Index) -> Index:
    """Diagonal slots all of whose fellows in the same monomial are diagonal too, the objective being zero there."""
    on_diagonal = (owner[conic.slots, 0] >= 0) & (conic.coefficients > 0)
    size = len(conic.objective)
    others = np.bincount(conic.columns, weights=~on_diagonal, minlength=size)
    empty = (others == 0) & (conic.objective == 0)
    empty[0] = False
    return np.asarray(conic.slots[on_diagonal & empty[conic.columns]], dtype=np.int64)


NEAR = 1e-9  # relative: sums that are looked at in exact arithmetic


@dataclass(frozen=True, eq=False)
class Forced:
    """For every vertex b the limit q^2 / p, and the vertex a, p and q that give it (-1 and zeros without any)."""

    limit: Array
    partner: Index
    p: Array
    q: Array


def reduce_pairs(model: MomentModel) -> MomentModel:
    """The same relaxation on bases without the null vectors that two forced entries show."""
    if model.rules or not model.blocks or any(b.mix is not None for b in model.blocks):
        return model
    entries = without_vanishing(entries_of(model))
    forced = _forced_entries(entries)
    tight = _tight(entries, forced)
    if not len(tight):
        return model
    dead = ~entries.living
    dead[tight[forced.limit[tight] == 0]] = True
    merged: dict[int, int] = {}
    for b in tight[forced.limit[tight] > 0].tolist():
        a = int(forced.partner[b])
        if not {a, b} & {*merged, *merged.values()} and not dead[a] and not dead[b]:
            merged[b] = a
    smaller = replace(model, blocks=_blocks(entries, forced, dead, merged))
    try:
        smaller.conic()
    except InputError:  # the objective is no sum of squares: left to the solver to say
        return model
    return smaller


def _forced_entries(entries: Entries) -> Forced:
    live = entries.alive[entries.slots]
    slots, columns = entries.slots[live], entries.columns[live]
    once = np.bincount(columns, minlength=len(entries.rows)) == 1
    once[entries.scalar] = False
    once[0] = False
    mine = once[columns] & entries.plain[slots] & entries.positive[live]
    known = np.zeros(entries.size, dtype=bool)
    value = np.zeros(entries.size)
    known[slots[mine]] = True
    halves = np.where(entries.left == entries.right, 1.0, 0.5)
    value[slots[mine]] = entries.objective[columns[mine]] * halves[slots[mine]]
    diagonal = entries.diagonal_slots()
    limit, p_of, q_of = np.zeros((3, entries.nodes))
    result = Forced(limit, np.full(entries.nodes, -1, dtype=np.int64), p_of, q_of)
    pairs = np.flatnonzero(known & (entries.left != entries.right) & (value != 0))
    for first, second in ((entries.left, entries.right), (entries.right, entries.left)):
        usable = pairs[known[diagonal[first[pairs]]] & (value[diagonal[first[pairs]]] > 0)]
        a, b = first[usable], second[usable]
        p, q = value[diagonal[a]], value[usable]
        order = np.argsort(q * q / p, kind="stable")  # the largest limit is written last
        a, b, p, q = a[order], b[order], p[order], q[order]
        better = q * q / p > result.limit[b]
        for array, new in ((result.limit, q * q / p), (result.partner, a), (result.p, p), (result.q, q)):
            array[b[better]] = new[better]
    return result


def _tight(entries: Entries, forced: Forced) -> Index:
    """Vertices b whose square's limits add up to its coefficient exactly."""
    live = entries.alive[entries.slots]
    slots, columns = entries.slots[live], entries.columns[live]
    square = entries.plain_diagonal[slots] & entries.positive[live]
    size = len(entries.rows)
    total = np.bincount(columns[square], weights=forced.limit[entries.left[slots[square]]], minlength=size)
    possible = (total > 0) & (np.abs(total - entries.objective) <= NEAR * total)
    possible[columns[~square]] = False
    possible[entries.scalar] = False
    hit = square & possible[columns]
    by_column: dict[int, list[int]] = {}
    for column, node in zip(columns[hit].tolist(), entries.left[slots[hit]].tolist(), strict=True):
        by_column.setdefault(column, []).append(node)
    found = [n for c, nodes in by_column.items() if _exactly(forced, nodes, float(entries.objective[c])) for n in nodes]
    return np.array(sorted(found), dtype=np.int64)


def _exactly(forced: Forced, nodes: list[int], coefficient: float) -> bool:
    parts = [Fraction(float(forced.q[b])) ** 2 / Fraction(float(forced.p[b])) for b in nodes if forced.limit[b] > 0]
    return sum(parts, Fraction(0)) == Fraction(coefficient)


def _blocks(
    entries: Entries, forced: Forced, dead: NDArray[np.bool_], merged: dict[int, int]
) -> tuple[MomentBlock, ...]:
    """The blocks with vertices left out and pairs joined."""
    touched = {int(entries.block[b]): (b, a) for b, a in merged.items()}
    blocks: list[MomentBlock] = []
    for k, block in enumerate(entries.blocks):
        first, order = int(entries.first[k]), len(block.basis)
        kept = np.flatnonzero(~dead[first : first + order])
        if not len(kept):
            continue
        basis = tuple(block.basis[i] for i in kept.tolist())
        if k not in touched:
            blocks.append(block if len(kept) == order else MomentBlock(basis, block.multiplier))
            continue
        mix = np.eye(order)
        for b, a in merged.items():
            if int(entries.block[b]) == k:
                mix[a - first, b - first] = forced.q[b] / forced.p[b]
                mix[a - first, a - first] = 1.0
                if Fraction(mix[a - first, b - first]) * Fraction(float(forced.p[b])) != Fraction(float(forced.q[b])):
                    mix[a - first, [a - first, b - first]] = forced.p[b], forced.q[b]
        rows = [i for i in kept.tolist() if first + i not in merged]
        blocks.append(MomentBlock(basis, block.multiplier, mix[rows][:, kept]))
    return tuple(blocks)


FLAT = 1e-5  # |t| below this counts as zero
THERE = 1e-3  # an eigenvalue above this belongs to the range; the traces sum to 1
REFINED = (1e-4, 400)  # how far an entry of a null vector may be from a fraction, and the largest denominator of it
ROUGH = (3e-3, 12)  # the same where the program is too large to be refined
LONGEST = 60  # order of a matrix whose null vectors are rounded in fractions

Solve = Callable[[ConicProblem], ConicSolution]
Fractions = list[list[Fraction]]


class NoGramMatrixError(ArithmeticError):
    """t < 0: the objective has no sum-of-squares identity over these bases, says the solver."""


def reduce_faces(
    model: MomentModel, conic: MomentConic, where: Sequence[bool], scale: Array, run: Solve
) -> MomentModel | None:
    """The relaxation on smaller bases; None when there is nothing to reduce. `conic` is in variables over `scale`.

    `where` says for each semidefinite block whether its Gram matrix must be definite. Raises NoGramMatrixError.
    """
    blocks = [k for k, b in enumerate(model.blocks) if b.order > 1]
    program = _at_infinity(conic, where)
    solution = run(program)
    if solution.status.has_solution and solution.primal < -FLAT:
        raise NoGramMatrixError
    if not solution.status.has_solution or not np.all(np.isfinite(solution.s)) or abs(solution.primal) > FLAT:
        return None
    sharper = next(refine(program, solution, run, 1), None) if refinable(program) else None
    slack = (solution if sharper is None else sharper).s[1:]  # after the row of the trace
    psd = [rows for cone, rows in conic.problem.blocks() if cone.kind == "psd"]
    changed = list(model.blocks)
    for k, rows, wanted in zip(blocks, psd, where, strict=True):
        if wanted and model.blocks[k].order <= LONGEST:
            null = _null_vectors(
                smat(slack[rows]), _sizes(model.blocks[k], scale), ROUGH if sharper is None else REFINED
            )
            changed[k] = model.blocks[k] if null is None else _without(model.blocks[k], null)
    if all(a is b for a, b in zip(changed, model.blocks, strict=True)):
        return None
    smaller = replace(model, blocks=tuple(changed))
    try:
        smaller.conic()
    except InputError:  # the objective needs what was taken away: a wrong guess
        return None
    return smaller


def _at_infinity(conic: MomentConic, where: Sequence[bool]) -> ConicProblem:
    """The program of the module's first lines."""
    problem = conic.problem
    trace = np.zeros(problem.rows)
    wanted = iter(where)
    for cone, rows in problem.blocks():
        if cone.kind == "psd" and next(wanted):
            trace[rows.start + np.cumsum(np.arange(1, cone.size + 1)) - 1] = 1.0
    top = sparse.csc_array((-(problem.A.T @ trace))[None, :])
    A = sparse.vstack([top, problem.A], format="csc")
    b = np.concatenate([[1.0], np.zeros(problem.rows)])
    return ConicProblem(problem.c, A, b, (Cone("zero", 1), *problem.cones))


def _sizes(block: MomentBlock, scale: Array) -> Array:
    """The divisors of a null vector's entries when the variables get their own units back."""
    if block.mix is None:
        return np.asarray(np.prod(np.concatenate([scale, [1.0]])[rows_of(block.basis)], axis=1))
    mixed = block.mix * _sizes(MomentBlock(block.basis), scale)
    return np.asarray(2.0 ** np.floor(np.log2(np.abs(mixed).max(axis=1))))


def _null_vectors(M: Array, sizes: Array, allowed: tuple[float, int]) -> Fractions | None:
    """The range of M in small fractions, in reduced row echelon form; None when there is none.

    A basis element of the scaled model is that of the model over `sizes`: so are entries of vectors.
    """
    values, vectors = np.linalg.eigh(M)
    rank = int((values > THERE).sum())
    if not 0 < rank < len(values):
        return None
    rows = vectors[:, ::-1][:, :rank].T * sizes
    reduced = _echelon(rows / np.abs(rows).max(axis=1, keepdims=True))
    guesses = [[_fraction(float(v), *allowed) for v in row] for row in reduced]
    return [[v for v in row if v is not None] for row in guesses if None not in row] or None


def _fraction(value: float, near: float, largest: int) -> Fraction | None:
    """The fraction of the least denominator nearby."""
    exact, allowed = Fraction(value), near * max(1.0, abs(value))
    for most in (1, 2, 3, 4, 6, 8, 12, 16, 27, 36, 64, 100, 200, 400):
        guess = exact.limit_denominator(most)
        if most <= largest and abs(guess - exact) <= allowed:
            return guess
    return None


def _echelon(rows: Array) -> Array:
    """Reduced row echelon form with pivots of the largest entries."""
    rows = rows.copy()
    free = np.ones(rows.shape[1], dtype=bool)
    for r in range(len(rows)):
        place = np.unravel_index(np.argmax(np.abs(rows[r:]) * free), rows[r:].shape)
        i, j = r + int(place[0]), int(place[1])
        rows[[r, i]] = rows[[i, r]]
        rows[r] /= rows[r, j]
        others = np.arange(len(rows)) != r
        rows[others] -= np.outer(rows[others, j], rows[r])
        free[j] = False
    return rows


def _without(block: MomentBlock, null: Fractions) -> MomentBlock:
    """The block on the complement of the null vectors, with whole coefficients."""
    rows = _complement(null, block.order)
    mix = np.array([_whole(row) for row in rows], dtype=np.float64)
    if not len(mix) or np.abs(mix).max() > 2**20:
        return block
    if block.mix is not None:
        mix = mix @ block.mix
        if np.abs(mix).max() > 2**24 or np.any(mix != np.rint(mix)):
            return block
    used = np.flatnonzero(np.any(mix != 0, axis=0))
    return MomentBlock(tuple(block.basis[int(k)] for k in used), block.multiplier, mix[:, used])


def _complement(null: Fractions, order: int) -> Fractions:
    """A basis of the vectors orthogonal to these, exactly."""
    rows = [list(row) for row in null]
    pivots: list[int] = []
    for r, row in enumerate(rows):
        column = next((j for j, v in enumerate(row) if v == 1 and j not in pivots), None)
        column = next((j for j, v in enumerate(row) if v != 0), None) if column is None else column
        if column is None:
            continue
        pivots.append(column)
        pivot = row[column]
        rows[r] = [v / pivot for v in row]
        for s, other in enumerate(rows):
            if s != r and other[column] != 0:
                factor = other[column]
                rows[s] = [a - factor * b for a, b in zip(other, rows[r], strict=True)]
    live = [row for row in rows if any(row)]
    found: Fractions = []
    for j in (j for j in range(order) if j not in pivots):
        vector = [Fraction(0)] * order
        vector[j] = Fraction(1)
        for pivot_column, row in zip(pivots, live, strict=True):
            vector[pivot_column] = -row[j]
        found.append(vector)
    return found


def _whole(row: list[Fraction]) -> list[float]:
    """The row times the least number that makes it whole."""
    common = lcm(*(v.denominator for v in row))
    numbers = [int(v * common) for v in row]
    divisor = gcd(*numbers) or 1
    return [float(n // divisor) if abs(n) < 2**53 else np.inf for n in numbers]
