"""Bounds from multipliers of a relaxation, in balls.

The rows are those of the builder, whose floats are exact by definition and whose tolerances are its own; everything
else is computed in balls: the sum of all rows, its definiteness, and the bound.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from lipcert.errors import MethodError
from lipcert.problem.problem import Problem
from lipcert.proof.balls.numbers import LIFTS, MOST_ORDER, balls, float_above, is_positive_definite, load_flint, total
from lipcert.proof.multipliers import Multipliers
from lipcert.relaxation.model import Finish, Relaxation
from lipcert.relaxation.rank_two import pair_entries
from lipcert.relaxation.specification import Specification, build
from lipcert.rounding import Array

_MOST_ENTRIES = 30_000_000  # products that lead to the entries of a matrix


def check_multipliers(problem: Problem, proof: Multipliers, specification: Specification | None = None) -> float:
    """The bound, infinite when there is none; `specification` in place of the proof's own where a cell has signs."""
    if problem.has_cases or proof.specification.signs is not None:
        return math.inf
    relaxation = build(problem, proof.specification if specification is None else specification)
    numbers = proof.fitted(relaxation)
    return math.inf if numbers is None else check_rows(relaxation, *numbers)


def check_rows(relaxation: Relaxation, multipliers: Array, shift: Array) -> float:
    """b'lambda + shift + tolerance |lambda| + offset, when sum_k lambda_k A_k - C + diag(shift) > 0, and its finish."""
    problem, flint = relaxation.problem, load_flint()
    ball, n = flint.arb, problem.size
    signed = [multipliers[~problem.equality], shift]
    if not (
        np.all(np.isfinite(multipliers))
        and np.isfinite(relaxation.offset)
        and all(np.all(v >= 0) and np.all(np.isfinite(v)) for v in signed)
    ):
        return math.inf
    S = _slack(relaxation, multipliers)
    paid = ball(relaxation.offset)
    for left, right in (
        (problem.rhs, multipliers),
        (relaxation.tolerance, np.abs(multipliers)),
        (problem.diagonal, shift),
    ):
        paid += total(balls(left) * balls(right))[()]
    for i in range(n):
        S[i, i] = S[i, i] + ball(float(shift[i]))
    largest = max(abs(float(S[i, i].mid())) for i in range(n))
    for lift in (0.0, *LIFTS):
        extra = ball(lift * largest)
        B = flint.arb_mat(S)
        for i in range(n):
            B[i, i] = B[i, i] + extra
        if is_positive_definite(B):
            return _finished(relaxation.finish, paid + extra * total(balls(problem.diagonal))[()])
    return math.inf


def _slack(relaxation: Relaxation, multipliers: Array) -> Any:
    """sum_k lambda_k sym(f_a f_b') - C."""
    problem, flint = relaxation.problem, load_flint()
    ball, n = flint.arb, problem.size
    if n > MOST_ORDER:
        raise MethodError(
            f"too large for the exact check: a matrix of order {n:,}, more than {MOST_ORDER}; use verify without it"
        )
    C = sparse.coo_array(problem.objective)
    term, p, q, _ = pair_entries(problem.vectors, problem.ia, problem.ib)
    if len(term) > _MOST_ENTRIES:
        raise MethodError(f"too large for the exact check: {len(term):,} entries of rows; use verify without it")
    F = problem.vectors.toarray()
    S = flint.arb_mat(n, n)
    for i, j, v in zip(*C.coords, C.data, strict=True):
        S[int(i), int(j)] = S[int(i), int(j)] - ball(float(v))
    own = multipliers[problem.owner]
    used = own[term] != 0
    term, p, q = term[used], p[used], q[used]
    left, right = F[p, problem.ia[term]], F[q, problem.ib[term]]
    rows = zip(own[term].tolist(), left.tolist(), right.tolist(), p.tolist(), q.tolist(), strict=True)
    for weight, a, b, i, j in rows:
        value = ball(weight) * ball(a) * ball(b) / 2
        S[i, j] = S[i, j] + value
        S[j, i] = S[j, i] + value
    return S


def _finished(finish: Finish, found: Any) -> float:
    ball = load_flint().arb
    bound = ball(max(float_above(found), 0.0))
    value = (bound * ball(finish.scale)).sqrt() if finish.scale else bound
    return float_above(value + ball(finish.price))
