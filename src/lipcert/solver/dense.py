"""Dense symmetric matrices: inverses and factors, straight from LAPACK and in place where it pays."""

from __future__ import annotations

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
