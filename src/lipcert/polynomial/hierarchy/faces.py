"""Facial reduction: bases of polynomials in which the Gram matrices can be definite.

Rosenbrock's function grows like x^2 only along y = x^2, so every Gram matrix over 1, x, y, x^2 has the null vector of
(y, x^2) = (1, 1): none is definite, and none proves a bound in floating point. Over 1, x, y - x^2 there are definite
ones. The null vectors are those of a functional at infinity,

    t = min L(f)   s.t.  L(1) = 0,  the relaxation's other constraints,  sum of the matrices' traces = 1:

t > 0 says that definite Gram matrices exist, t < 0 that there are none at all, and for t = 0 every Gram matrix vanishes
on the range of the moment matrices of L [BW81, PP08]. That range is rounded to small fractions; a basis of its
complement has whole coefficients, so the smaller program is exact. A wrong guess loses the bound, never its truth.

[BW81] Borwein, Wolkowicz: Facial reduction for a cone-convex programming problem, J. Austral. Math. Soc. 30 (1981).
[PP08] Peyrl, Parrilo: Computing sum of squares decompositions with rational coefficients, Theor. Comp. Sci. 409 (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import gcd, lcm

import numpy as np
from scipy import sparse

from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.assembly import MomentConic
from lipcert.polynomial.hierarchy.model import Block, MomentModel
from lipcert.polynomial.monomials import rows_of
from lipcert.rounding import Array
from lipcert.solver.conic.conic import Cone, ConicProblem, ConicSolution, smat
from lipcert.solver.conic.refine import refinable, refine

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


def _sizes(block: Block, scale: Array) -> Array:
    """What an entry of a null vector is divided by when the variables are given back their own units."""
    if block.mix is None:
        return np.asarray(np.prod(np.concatenate([scale, [1.0]])[rows_of(block.basis)], axis=1))
    mixed = block.mix * _sizes(Block(block.basis), scale)
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


def _without(block: Block, null: Fractions) -> Block:
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
    return Block(tuple(block.basis[int(k)] for k in used), block.multiplier, mix[:, used])


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
