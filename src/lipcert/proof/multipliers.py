"""Multipliers to a bound: the one place where a solver's answer becomes a number called upper.

For a relaxation with rows <A_k, yy'> <= b_k (or =) and objective y'Cy at every true point y, y_i^2 <= d_i, and any
lambda (>= 0 on inequalities) with S = sum_k lambda_k A_k - C:

    y'Cy  =  sum_k lambda_k <A_k, yy'> - y'Sy  <=  b'lambda + sum_i shift_i d_i      whenever  S + diag(shift) >= 0.

S is evaluated in floating point with a proved bound on its error, `is_positive` proves that it is semidefinite, sums
are rounded up. Nothing is assumed of lambda: a bad one gives a large number, not a wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.problem.problem import Problem
from lipcert.proof.certificate import Certificate
from lipcert.proof.encoding import encode
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.rank_two import RankTwoProblem
from lipcert.relaxation.specification import Specification, build
from lipcert.rounding import TINY, Array, add_up, gamma, grow, sum_up
from lipcert.rounding.definite import find_shift, is_positive
from lipcert.rounding.split import split


@dataclass(frozen=True, eq=False)
class Proved:
    """lambda, the shift, and the bound that they prove (infinite when they prove nothing)."""

    multipliers: Array
    shift: Array
    upper: float


def prove(relaxation: Relaxation, multipliers: Array) -> Proved:
    """The bound from any multipliers: what is no number or has the wrong sign becomes zero, the shift is found here."""
    clean = sanitise(relaxation.problem, multipliers)
    with np.errstate(over="ignore", invalid="ignore"):
        S, error = sparse_slack(relaxation.problem, clean)
        shift = _shift(S, error)
    return Proved(clean, shift, _total(relaxation, clean, shift))


def check(relaxation: Relaxation, multipliers: Array, shift: Array) -> Proved:
    """The bound from given multipliers and shift, infinite when they do not prove one. One factorisation, no search."""
    problem = relaxation.problem
    admissible = (
        np.all(np.isfinite(multipliers))
        and np.all(multipliers[~problem.equality] >= 0)
        and np.all(np.isfinite(shift))
        and np.all(shift >= 0)
    )
    if not admissible:
        return Proved(multipliers, shift, np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        S, error = sparse_slack(problem, multipliers)
        part = split(S, error)
        proved = (part is not None and part.positive(shift)) or is_positive(S.toarray(), shift, error)
    return Proved(multipliers, shift, _total(relaxation, multipliers, shift) if proved else np.inf)


def factored_order(problem: RankTwoProblem) -> int:
    """The order of the matrix that the proof factors where multipliers are good: without the diagonal block of S."""
    F, nf = sparse.csr_array(abs(problem.vectors)), problem.vectors.shape[1]
    T = sparse.coo_array((np.ones(problem.terms), (problem.ia, problem.ib)), (nf, nf)).tocsr()
    half = sparse.csr_array(F @ (T @ F.T))
    part = split(sparse.csr_array(half + half.T + abs(sparse.csr_array(problem.objective))), np.zeros(problem.size))
    return problem.size if part is None else problem.size - len(part.inner)


def sanitise(problem: RankTwoProblem, multipliers: Array) -> Array:
    """Finite multipliers of the right signs and length, whatever came in."""
    raw = np.asarray(multipliers, dtype=np.float64).reshape(-1)
    if raw.shape != problem.rhs.shape:
        raw = np.zeros(problem.rhs.shape)
    clean = np.where(np.isfinite(raw), raw, 0.0)
    return np.where(problem.equality, clean, np.maximum(clean, 0.0))


def _shift(S: Any, error: Array) -> Array:
    """The shift that makes S semidefinite: by its diagonal block where only rounding is to be paid for, else by all."""
    part = split(S, error)
    small = None if part is None else part.shift()
    return find_shift(S.toarray(), error) if small is None else small


def sparse_slack(problem: RankTwoProblem, multipliers: Array) -> tuple[Any, Array]:
    """S = sum_k lambda_k sym(f_a f_b') - C in floating point, and error_i >= sum_j |error of S_ij|.

    With T the sparse matrix of the lambda_k at (a_k, b_k), S = sym(F T F') - C: at most n = 2 nf + 8 rounded operations
    lead to an entry, so the error is at most gamma(n) |F||T||F'| entrywise; its row sums are three sparse products.
    """
    F = sparse.csr_array(problem.vectors)
    nf = F.shape[1]
    C = sparse.csr_array(problem.objective)
    own = multipliers[problem.owner] / 2
    T = sparse.coo_array((own, (problem.ia, problem.ib)), (nf, nf)).tocsr()
    half = sparse.csr_array(F @ (T @ F.T))
    S = sparse.csr_array(half + half.T - C)
    S = sparse.csr_array((S + S.T) / 2)
    ones = np.ones(problem.size)
    A = abs(F)
    B = sparse.coo_array((np.abs(own), (problem.ia, problem.ib)), (nf, nf)).tocsr()
    n = 2 * nf + problem.terms + 16
    reach: Any = A @ (B @ (A.T @ ones)) + A @ (B.T @ (A.T @ ones)) + abs(C) @ ones
    # Underflow of lambda/2, then of its product with two entries of F.
    underflow = n * TINY * (1.0 + float(A.sum())) ** 2 * problem.size
    error = grow(gamma(n) * np.asarray(reach) + underflow, n + 8)
    return S, error


def _total(relaxation: Relaxation, multipliers: Array, shift: Array) -> float:
    """b'lambda + sum_i d_i shift_i + offset, rounded up."""
    problem = relaxation.problem
    with np.errstate(over="ignore", invalid="ignore"):
        terms = problem.rhs * multipliers
        value = float(np.sum(terms))
        slack = gamma(len(terms) + 8) * float(np.abs(terms).sum()) * 2 + len(terms) * TINY
        correction = sum_up(grow(problem.diagonal * shift, 2)) + sum_up(
            grow(relaxation.tolerance * np.abs(multipliers), 2)
        )
        total = float(add_up(np.asarray(value), np.asarray(slack + correction + relaxation.offset)))
        total += 4 * 2.0**-53 * (abs(value) + slack + correction + relaxation.offset)
    # No true value is negative: a norm is bounded.
    return relaxation.finish(max(total, 0.0)) if np.isfinite(total) else np.inf


@dataclass(frozen=True, eq=False)
class Multipliers:
    """The relaxation that was built, multipliers by family of rows, and a diagonal shift by block of variables."""

    specification: Specification
    multipliers: Mapping[str, Array]
    shift: Mapping[str, Array]

    @property
    def method(self) -> str:
        """The name that the relaxation was asked for by."""
        return self.specification.method

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps of the proof, by name."""
        return {"proof": np.array("multipliers")} | encode([self])

    def check(self, problem: Problem) -> float:
        """The bound that the multipliers and the shift prove, infinite when none; the rows are built again."""
        if problem.has_cases or self.specification.signs is not None:
            return np.inf  # it is about one of several cases, or a cell, and only `Cases` and `Tree` know which
        return self.check_rows(problem, self.specification)

    def check_rows(self, problem: Problem, specification: Specification) -> float:
        """The bound with the rows of another specification: that of a cell, with its half-spaces."""
        relaxation = build(problem, specification)
        found = self.fitted(relaxation)
        return np.inf if found is None else check(relaxation, *found).upper

    def fitted(self, relaxation: Relaxation) -> tuple[Array, Array] | None:
        """Multipliers and shift in the order of a relaxation; None when they are not of this relaxation."""
        if not relaxation.fits(self.multipliers, self.shift):
            return None
        return relaxation.unpack(self.multipliers), relaxation.gather(self.shift)


def prove_multipliers(
    specification: Specification, relaxation: Relaxation, multipliers: Array
) -> tuple[Multipliers, float]:
    """The proof from any multipliers, good or bad, and its bound; the relaxation is what the specification says."""
    found = prove(relaxation, multipliers)
    rows, shift = relaxation.pack(found.multipliers), relaxation.spread(found.shift)
    return Multipliers(specification, rows, shift), found.upper


def prove_relaxed(
    problem: Problem, specification: Specification, relaxation: Relaxation, multipliers: Array
) -> Certificate:
    """The certificate from any multipliers, good or bad; the relaxation is `build(problem, specification)`."""
    return Certificate.of(problem, *prove_multipliers(specification, relaxation, multipliers))
