"""Slope programs for tests, their form written out as a dense matrix, and their optimum by a conic solver."""

from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse

from lipcert.relaxation.slopes import SlopeBlock, SlopeMultipliers, SlopeProgram, Term
from lipcert.rounding import Array


def chain(weights: list[Array], slopes: tuple[float, float] = (0.0, 1.0), weighted: bool = False) -> SlopeProgram:
    """Layers one after the other, all slopes in one interval."""
    a, b = slopes
    blocks = [SlopeBlock(((i, w),), np.full(len(w), a), np.full(len(w), b)) for i, w in enumerate(weights[:-1])]
    return SlopeProgram(weights[0].shape[1], tuple(blocks), ((len(weights) - 1, weights[-1]),), weighted)


def random_weights(rng: np.random.Generator, sizes: tuple[int, ...]) -> list[Array]:
    return [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in zip(sizes, sizes[1:], strict=False)]  # noqa: RUF007


def recipe(depth: int, width: int, outputs: int = 10, seed: int = 0) -> list[Array]:
    """Square layers with normal entries of variance 1 / width, and a last one."""
    r = np.random.RandomState(seed)
    layers = [r.randn(width, width) / width**0.5 for _ in range(depth)]
    return [*layers, r.randn(outputs, width) / width**0.5]


def branched(
    rng: np.random.Generator, weighted: bool = False, slopes: tuple[float, float] = (0.0, 1.0)
) -> SlopeProgram:
    """Two residual blocks, a way from the input to the third block, and a head that reads the first."""

    def term(j: int, rows: int, columns: int) -> Term:
        return j, rng.normal(size=(rows, columns)) / np.sqrt(columns)

    reads = [(term(0, 4, 3),), (term(1, 5, 4),), (term(0, 4, 3), term(1, 4, 4), term(2, 4, 5)), (term(3, 3, 4),)]
    blocks = [SlopeBlock(t, np.full(len(t[0][1]), slopes[0]), np.full(len(t[0][1]), slopes[1])) for t in reads]
    return SlopeProgram(3, tuple(blocks), (term(1, 2, 4), term(4, 2, 3)), weighted)


def rows_of(program: SlopeProgram) -> tuple[Array, Array, Array, Array]:
    """E, W and H over all coordinates, and where blocks begin."""
    ends = np.cumsum([0, *program.widths])
    n, k = ends[-1], program.inputs
    W, H = np.zeros((n - k, n)), np.zeros((len(program.head[0][1]), n))
    for i, block in enumerate(program.blocks, start=1):
        for j, matrix in block.terms:
            W[ends[i] - k : ends[i + 1] - k, ends[j] : ends[j + 1]] += matrix
    for j, matrix in program.head:
        H[:, ends[j] : ends[j + 1]] += matrix
    return np.eye(n)[k:], W, H, ends


def _sides(program: SlopeProgram) -> tuple[Array, Array, Array]:
    E, W, H, _ = rows_of(program)
    a = np.concatenate([block.a for block in program.blocks])[:, None]
    b = np.concatenate([block.b for block in program.blocks])[:, None]
    return E - a * W, E - b * W, H


def form(program: SlopeProgram, multipliers: SlopeMultipliers, tau: float) -> Array:
    """M, with Lambda of trace one where it is free."""
    P, Q, H = _sides(program)
    k = program.inputs
    half = P.T @ (np.concatenate(multipliers.neurons)[:, None] * Q)
    M = half + half.T - tau * H.T @ H
    weights = np.ones(k) if multipliers.inputs is None else multipliers.inputs / multipliers.inputs.sum()
    M[:k, :k] += np.diag(weights)
    return np.asarray(M)


def optimum(program: SlopeProgram) -> float:
    """The least L, by Clarabel: min sum(lambda) or lambda, M with tau = 1 semidefinite."""
    P, Q, H = _sides(program)
    m, n = P.shape
    k = program.inputs
    pieces = [np.outer(p, q) + np.outer(q, p) for p, q in zip(P, Q, strict=True)]
    unit = np.eye(n)
    ends = [np.outer(e, e) for e in unit[:k]] if program.weighted else [np.diag((np.arange(n) < k).astype(float))]
    upper = np.triu_indices(n)
    scale = np.where(upper[0] == upper[1], 1.0, np.sqrt(2))
    order = np.lexsort((upper[0], upper[1]))  # column by column

    def vector(M: Array) -> Array:
        return np.asarray((M[upper] * scale)[order])

    columns = np.column_stack([vector(A) for A in [*pieces, *ends]])
    A = sparse.csc_matrix(np.vstack([-columns, -np.eye(m, columns.shape[1])]))
    right = np.concatenate([vector(-H.T @ H), np.zeros(m)])
    cost = np.concatenate([np.zeros(m), np.ones(len(ends))])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.PSDTriangleConeT(n), clarabel.NonnegativeConeT(m)]
    size = len(cost)
    found = clarabel.DefaultSolver(sparse.csc_matrix((size, size)), cost, A, right, cones, settings).solve()
    return float(np.sqrt(found.obj_val))
