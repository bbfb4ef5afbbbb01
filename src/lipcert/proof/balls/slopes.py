"""Bounds from multipliers of slopes, in balls: exact Schur complements from block to block, nothing subtracted.

    X_0 = Lambda,      X_i = what is left of  embed(X_{i-1}) + sum t_k (p_k q_k' + q_k p_k')  when all that nobody reads
                       any more is eliminated: the eliminated block is proved to be positive definite

so that M >= 0 where X_m - tau H'H >= 0, and the bound is the square root of total times the largest eigenvalue of
H X_m^-1 H'. The ordinary checker proves pieces instead, each with a margin for its rounding.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from lipcert.errors import MethodError
from lipcert.problem.problem import Problem
from lipcert.proof.balls.cells import Hint, proved_slopes
from lipcert.proof.balls.numbers import (
    MOST_ORDER,
    Balls,
    balls,
    float_above,
    floats,
    is_positive_definite,
    largest_eigenvalue,
    load_flint,
    matrix,
    of_matrix,
    product,
    total,
    zeros,
)
from lipcert.proof.pieces import LIMITS, block_order, is_narrow, least_inputs
from lipcert.proof.slopes import Part
from lipcert.relaxation.slopes import SlopeBlock, SlopeProgram, slope_program
from lipcert.rounding import Array

BITS = 384  # multipliers differ by many orders of magnitude


def check_part(problem: Problem, pre: Hint, part: Part) -> float:
    """The bound that one part proves of the whole problem, or of the case that the caller has made of it."""
    program = slope_program(problem)
    order = max((sum(program.widths[j] for j in (*s, i + 1)) for i, s in enumerate(program.states[:-1])), default=0)
    if max(order, program.inputs) > MOST_ORDER:
        raise MethodError(
            f"too large for the exact check: a piece of order {order:,}, more than {MOST_ORDER}; use verify without it"
        )
    own = part.multipliers(program)
    if own is None or not own.fits(program):
        return math.inf
    if not program.head:
        return 0.0
    if not part.steps.fit(program):
        return math.inf
    program = _with_slopes(problem, pre, program)
    if not all(np.all(np.isfinite(block.a) & np.isfinite(block.b)) for block in program.blocks):
        return math.inf
    with load_flint().ctx.workprec(BITS):
        limit = LIMITS[int(part.steps.numbers[0])]
        return _bound(problem, program, list(own.neurons), own.inputs, limit)


def _with_slopes(problem: Problem, pre: Hint, program: SlopeProgram) -> SlopeProgram:
    """With slopes that the balls have proved: by block and neuron as the program numbers them, never narrower."""
    proved = proved_slopes(problem.network, pre)
    blocks = []
    for block, (i, kept) in zip(program.blocks, program.origin, strict=True):
        lo, hi = np.fmin(block.a, proved[i - 1].lo[kept]), np.fmax(block.b, proved[i - 1].hi[kept])
        blocks.append(SlopeBlock(block.terms, lo, hi))
    return replace(program, blocks=tuple(blocks))


def _bound(problem: Problem, program: SlopeProgram, neurons: list[Array], inputs: Array | None, limit: float) -> float:
    arb = load_flint().arb
    first = np.ones(program.inputs) if inputs is None else least_inputs(inputs)
    paid = arb(1) if inputs is None else total(balls(first))[()]
    X = balls(np.diag(first))
    for i, block in enumerate(program.blocks, start=1):
        rows = balls(program.rows(i))
        left = _after(X, rows, _limited(block, neurons[i - 1], X, rows, limit), block, *block_order(program, i))
        if left is None:
            return math.inf
        X = left
    if not is_positive_definite(matrix(X)):
        return math.inf
    last = len(program.blocks)
    if program.summed is None:
        head = balls(program.rows(last + 1))
    else:
        c, terms = program.summed
        head = product(balls(c), balls(program.over_state(terms, last)))
    gram = product(head, of_matrix(matrix(X).solve(matrix(head.T))))
    top = gram[0, 0] if len(gram) == 1 else largest_eigenvalue((gram + gram.T) / 2)
    found = (paid * top).nonnegative_part().sqrt()
    if problem.norm.out == "1":  # norm 1 is at most the root of the number of outputs times norm 2
        found = found * arb(problem.network.outputs).sqrt()
    return float_above(found)


def _limited(block: SlopeBlock, t: Array, X: Balls, rows: Balls, limit: float) -> Array:
    """The multipliers with which the proof was made: those of narrow slopes up to a limit. Any numbers > 0 are true."""
    narrow = is_narrow(block)
    if not np.any(narrow):
        return t
    solved = of_matrix(matrix(X).solve(matrix(rows.T)))
    kappa = np.where(narrow, block.a / 2 + block.b / 2, 0.0)
    sizes = floats(total((solved * rows.T).T)) * kappa**2
    with np.errstate(all="ignore"):
        most = np.where((kappa != 0) & (sizes > 0), limit / sizes, np.inf)
    return np.minimum(t, most)


def _after(X: Balls, rows: Balls, t: Array, block: SlopeBlock, places: Any, gone: int) -> Balls | None:
    """The Schur complement of what is left; None where what is eliminated is not positive definite."""
    n, w = len(X), len(t)
    a, b, weights = balls(block.a), balls(block.b), balls(t)
    F = zeros(n + w, n + w)
    inner = product(rows.T, (2 * weights * a * b)[:, None] * rows)
    off = -(weights * (a + b))[:, None] * rows
    F[:n, :n] = X + inner
    F[n:, :n], F[:n, n:] = off, off.T
    F[n + np.arange(w), n + np.arange(w)] = 2 * weights
    F = F[np.ix_(places, places)]
    if not gone:
        return F
    D, C = F[:gone, :gone], F[:gone, gone:]
    if not is_positive_definite(matrix(D)):
        return None
    solved = of_matrix(matrix(D).solve(matrix(C)))
    left = F[gone:, gone:] - product(C.T, solved)
    return np.asarray((left + left.T) / 2)
