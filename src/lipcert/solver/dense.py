"""Dense symmetric matrices, straight from LAPACK: inverses, factors, and how far one may move and stay definite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import blas, lapack

from lipcert.relaxation.rank_two import Floats


def invert_definite(S: Floats) -> Floats:
    """Inverse of a positive definite dense matrix by Cholesky; raises LinAlgError otherwise."""
    if S.size == 0:
        return S
    factor, info = lapack.dpotrf(np.asfortranarray(S), lower=1, overwrite_a=0, clean=1)
    if info != 0 or not np.all(np.isfinite(np.diagonal(factor))):
        raise np.linalg.LinAlgError("not positive definite")
    inverse, info = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if info != 0:
        raise np.linalg.LinAlgError("singular")
    mirror_lower(inverse)
    return np.asarray(inverse.T)


def mirror_lower(S: Floats, tile: int = 256) -> None:
    """Copy the lower triangle onto the upper one, tile by tile so that both stay in cache."""
    n = S.shape[0]
    for i in range(0, n, tile):
        rows = slice(i, min(n, i + tile))
        corner = S[rows, rows]
        S[rows, rows] = np.tril(corner) + np.tril(corner, -1).T
        for j in range(0, i, tile):
            cols = slice(j, j + tile)
            S[cols, rows] = S[rows, cols].T


def symmetrise(W: Floats, tile: int = 256) -> None:
    """W <- (W + W') / 2 in place, tile by tile."""
    n = W.shape[0]
    for i in range(0, n, tile):
        rows = slice(i, min(n, i + tile))
        for j in range(0, i + 1, tile):
            cols = slice(j, min(n, j + tile))
            mean = W[rows, cols] + W[cols, rows].T
            mean *= 0.5
            W[rows, cols] = mean
            W[cols, rows] = mean.T


def cholesky(X: Floats) -> Floats:
    factor, info = lapack.dpotrf(X.T, lower=1, overwrite_a=0, clean=0)
    if info != 0:
        raise np.linalg.LinAlgError("X lost positive definiteness")
    return np.asarray(factor)


def symv(M: Floats, v: Floats) -> Floats:
    return np.asarray(blas.dgemv(1.0, M.T, v))


Operator = Callable[[Floats], Floats]


def longest_step(solve: Operator, move: Operator, times: Operator, size: int, rounds: int = 40) -> float:
    """A step a, close to the largest one, with M + a D >= 0, given M^-1 (solve), D (move) and M (times).

    Lanczos on M^-1 D in the inner product of M.  The smallest Ritz value overestimates the smallest eigenvalue by at
    most its residual, which is subtracted: the step is safe up to rounding, and tight when the residual is small.
    """
    rounds = min(rounds, size)
    V, U = np.empty((rounds, size)), np.empty((rounds, size))
    alpha, beta = np.zeros(rounds), np.zeros(rounds)
    v = np.random.default_rng(0).standard_normal(size)
    u = times(v)
    norm = np.sqrt(max(float(u @ v), np.finfo(float).tiny))
    v, u = v / norm, u / norm
    low = 0.0
    for k in range(rounds):
        V[k], U[k] = v, u
        image = move(v)
        alpha[k] = float(v @ image)
        w = solve(image)
        for _ in range(2):
            w -= (U[: k + 1] @ w) @ V[: k + 1]
        u = times(w)
        beta[k] = np.sqrt(max(float(w @ u), 0.0))
        if k == rounds - 1 or beta[k] < 1e-10 or k % 4 == 3:
            T = np.diag(alpha[: k + 1]) + np.diag(beta[:k], 1) + np.diag(beta[:k], -1)
            ritz, vectors = np.linalg.eigh(T)
            residual = beta[k] * abs(vectors[-1, 0])
            low = ritz[0] - residual
            if beta[k] < 1e-10 or residual < 0.02 * max(abs(ritz[0]), 0.1):
                break
        v, u = w / beta[k], u / beta[k]
    return float(np.inf) if low >= 0 else float(-1.0 / low)


def longest_ratio(value: Floats, change: Floats) -> float:
    """The largest a with value + a change >= 0, for positive vectors."""
    worst = float(np.max(-change / value, initial=0.0))
    return float(np.inf) if worst <= 0 else 1.0 / worst
