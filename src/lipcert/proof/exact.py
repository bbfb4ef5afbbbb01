"""A second opinion on a relaxation's certificate, in ball arithmetic (python-flint).

`verify` works in floating point with error bounds. Here the rows are those of the builder, whose floats are exact by
definition, and what is done with them is done in numbers that carry their own error (128 bits): the sum of all rows,
semidefiniteness, and the bound. Semidefiniteness is proved without an error analysis: if

    || X S X' - I ||_inf < 1     for some matrix X (the inverse of a floating-point Cholesky factor is tried),

then X S X' is positive definite, and so is S. Meant for orders up to a few hundred.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from lipcert.bounds.collapse import collapse
from lipcert.errors import InputError, MethodError
from lipcert.problem.network import Network
from lipcert.problem.output import output_of
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere
from lipcert.proof.certificate import Certificate
from lipcert.proof.collapsed import Within
from lipcert.proof.relaxed import Multipliers
from lipcert.proof.sharpened import Sharpened
from lipcert.relaxation.build import build
from lipcert.relaxation.model import Finish, Relaxation
from lipcert.relaxation.rank_two import pair_entries
from lipcert.rounding import Array

BITS = 128
# Added to the whole diagonal, relative to its largest entry, until the proof succeeds; the bound pays for it.
LIFTS = tuple(2.0**-k for k in (46, 43, 40, 36, 32))


def check_with_balls(certificate: Certificate, net: Network) -> float:
    """The bound that the multipliers of a relaxation prove, rounded up; infinite when they prove none."""
    flint, full = load_flint(), certificate.proof
    outer = full.inner if isinstance(full, Sharpened) else full
    proof = outer.inner if isinstance(outer, Within) else outer
    if not isinstance(proof, Multipliers):
        raise MethodError(f"the exact check is for proofs by one relaxation, not for {certificate.method}; use verify")
    region = certificate.region
    fits = certificate.network_sha256 == net.sha256 and certificate.c.shape[-1:] == (net.outputs,)
    if not fits or not (isinstance(region, Everywhere) or region.size == net.inputs):
        return math.inf
    problem = Problem(net, region, certificate.norm, output_of(certificate.c), certificate.coordinate)
    better = full.sharper.of(problem) if isinstance(full, Sharpened) else problem
    if better is None:
        return math.inf
    small = collapse(better) if isinstance(outer, Within) else None
    if small is None and proof is not outer:
        return math.inf
    relaxation = build(better if small is None else small.problem, proof.specification)
    numbers = proof.fitted(relaxation)
    if numbers is None or proof.specification.signs is not None:
        return math.inf
    with flint.ctx.workprec(BITS):
        upper = _check_rows(flint, relaxation, *numbers)
    return upper if small is None else small.above(upper)


def load_flint() -> Any:
    """The module, or an InputError that says how to get it."""
    try:
        return importlib.import_module("flint")
    except ImportError:
        raise InputError("the exact check needs python-flint; pip install 'lipcert[exact]'") from None


def _check_rows(flint: Any, relaxation: Relaxation, multipliers: Array, shift: Array) -> float:
    """b'lambda + shift + tolerance |lambda| + offset, when sum_k lambda_k A_k - C + diag(shift) > 0, and its finish."""
    problem, ball = relaxation.problem, flint.arb
    numbers = [multipliers[~problem.equality], shift]
    if not (
        np.all(np.isfinite(multipliers))
        and np.isfinite(relaxation.offset)
        and all(np.all(v >= 0) and np.all(np.isfinite(v)) for v in numbers)
    ):
        return math.inf
    n, S = problem.size, flint.arb_mat(problem.size, problem.size)
    C = sparse.coo_array(problem.objective)
    entries = [(int(i), int(j), -ball(float(v))) for i, j, v in zip(*C.coords, C.data, strict=True)]
    term, p, q, _ = pair_entries(problem.vectors, problem.ia, problem.ib)
    F = problem.vectors.toarray()
    for k, i, j in zip(term.tolist(), p.tolist(), q.tolist(), strict=True):
        weight = ball(float(multipliers[problem.owner[k]])) / 2
        value = weight * ball(float(F[i, problem.ia[k]])) * ball(float(F[j, problem.ib[k]]))
        entries += [(i, j, value), (j, i, value)]
    for i, j, value in entries:
        S[i, j] = S[i, j] + value
    total = ball(relaxation.offset)
    paid = [(problem.rhs, multipliers), (relaxation.tolerance, np.abs(multipliers)), (problem.diagonal, shift)]
    for left, right in paid:
        total += sum((ball(a) * ball(b) for a, b in zip(left.tolist(), right.tolist(), strict=True)), ball(0))
    for i in range(n):
        S[i, i] = S[i, i] + ball(float(shift[i]))
    for lift in (0.0, *LIFTS):
        extra = ball(lift * max(abs(float(S[i, i].mid())) for i in range(n)))
        B = flint.arb_mat(S)
        for i in range(n):
            B[i, i] = B[i, i] + extra
        if is_positive_definite(flint, B, n):
            return _finished(ball, relaxation.finish, total + extra * sum(problem.diagonal.tolist()))
    return math.inf


def _finished(ball: Any, finish: Finish, total: Any) -> float:
    if not total > 0:
        total = ball(max(float_above(ball, total), 0.0))
    root = (total * ball(finish.scale)).sqrt() if finish.scale else total
    return float_above(ball, root + ball(finish.price))


def is_positive_definite(flint: Any, B: Any, n: int) -> bool:
    """Proves that every symmetric matrix in the balls of B is positive definite; False proves nothing."""
    floats = np.array([[float(B[i, j].mid()) for j in range(n)] for i in range(n)])
    if not np.all(np.isfinite(floats)):
        return False
    factor, failed = lapack.dpotrf(floats, lower=1, clean=1)
    if failed:
        return False
    inverse, failed = lapack.dtrtri(factor, lower=1)
    if failed or not np.all(np.isfinite(inverse)):
        return False
    X = flint.arb_mat(n, n, inverse.ravel().tolist())
    E = X * B * X.transpose()
    rows = [sum((abs(E[i, j] - int(i == j)) for j in range(n)), flint.arb(0)) for i in range(n)]
    return all(bool(row < 1) for row in rows)


def float_above(ball: Any, value: Any) -> float:
    """A float that is not below the ball; a norm is never negative."""
    top = value.upper()
    result = max(float(top), 0.0)
    while math.isfinite(result) and not ball(result) >= top:
        result = math.nextafter(result, math.inf)
    return result if math.isfinite(result) else math.inf
