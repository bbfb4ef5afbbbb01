"""The Schur complement of the HKM direction over atoms, its factor, and solves with it.

    O = P H P' + D,    H_jl = <A_j, X A_l Z^-1>  over atoms A_j = sym(g_p g_q'),    D = diag(slack / multiplier)

    H_jl = 1/4 [ X_qr Z_ps + X_pr Z_qs + X_qs Z_pr + X_ps Z_qr ]    for j = (p, q), l = (r, s),  Z_ab = g_a' Z^-1 g_b

Atoms come in families whose generators are runs of consecutive indices, so H is entrywise products of slices.
Groups of rows over few atoms are condensed (`condensed.py`).  Conjugate gradients on the uncondensed system polish the
solution.  One square array holds both: the factor in one triangle, H in the other.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas, lapack

from lipcert.relaxation.rank_two import Floats, Integers
from lipcert.solver.atoms import AtomForm
from lipcert.solver.condensed import Many, unknowns

TILE = 400
PARALLEL = 2000  # atoms from which on tiles are filled by several threads
STEPS = 10  # of conjugate gradients at most
RUN = 12  # shorter runs of consecutive generators are gathered instead of sliced


class Schur:
    """Built once per problem; `factor` once per iteration, then any number of `solve`."""

    def __init__(self, form: AtomForm) -> None:
        self.form = form
        self.tiles = _tiles(form.first, form.second)
        selection, self.plain, self.plain_place, self.batches = unknowns(form)
        identity = selection.shape[0] == selection.shape[1] and (selection - sp.identity(selection.shape[0])).nnz == 0
        roots = next((batch for batch in self.batches if isinstance(batch, Many)), None)
        self.sandwich = None if identity and roots is None else _Sandwich(selection, roots)
        self.unknowns = int(selection.shape[0])
        self._memory = np.empty((form.first.size, form.first.size))
        self._factor: Floats = np.zeros((0, 0))

    def factor(self, GX: Floats, GZ: Floats, weight: Floats) -> None:
        """Assemble and factor for Gram matrices of X and Z^-1 over the generators; weight = diagonal of D.

        Raises LinAlgError when regularisation cannot save the factorisation.
        """
        self.weight = weight
        for attempt in range(5):
            system = self._assemble(GX, GZ)
            if attempt:
                diagonal = np.diagonal(system)
                shift = 10.0 ** (2 * attempt - 15) * (diagonal + 1e-2 * diagonal.max())
                system[np.diag_indices_from(system)] += shift
            factor, info = lapack.dpotrf(system.T, lower=1, overwrite_a=1, clean=0)
            if info == 0:
                self._factor = factor
                return
        raise np.linalg.LinAlgError("the Schur complement is not positive definite")

    def _assemble(self, GX: Floats, GZ: Floats) -> Floats:
        """H in both triangles; D and T'WT added to the upper one and the diagonal, which the factor will overwrite."""
        H = self._memory

        def fill(index: int) -> None:
            rows, p, q = self.tiles[index]
            Xp, Zp = GX[p], GZ[p]
            Xq, Zq = (Xp, Zp) if p is q else (GX[q], GZ[q])
            for cols, r, s in self.tiles[index:]:
                H[rows, cols] = _block(Xp, Xq, Zp, Zq, r, s)
                if cols.start != rows.start:
                    H[cols, rows] = H[rows, cols].T

        if len(H) < PARALLEL:
            for index in range(len(self.tiles)):
                fill(index)
        else:  # entrywise products leave the interpreter free: two threads halve the time
            with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
                list(pool.map(fill, range(len(self.tiles))))
        added = [batch.prepare(self.weight) for batch in self.batches]
        if self.sandwich is not None:
            H = self.sandwich(H)
        self._diagonal = np.diagonal(H).copy()
        at = self.plain_place
        H[at, at] += self.weight[self.plain]
        for batch, block in zip(self.batches, added, strict=True):
            row = np.broadcast_to(batch.place[:, :, None], block.shape)
            col = np.broadcast_to(batch.place[:, None, :], block.shape)
            upper = row <= col
            H[row[upper], col[upper]] += block[upper]
        return H

    def solve(self, rhs: Floats, accuracy: float) -> Floats:
        """dy with |(P H P' + D) dy - rhs| <= accuracy if a few steps of conjugate gradients reach it."""
        dy = self._condensed(rhs)
        residual = rhs - self.times(dy)
        best, best_norm = dy.copy(), float(np.linalg.norm(residual))
        direction, energy, previous = None, 1.0, residual
        for _ in range(STEPS):
            if best_norm <= accuracy:
                break
            image = self._condensed(residual)
            # Polak-Ribiere: the preconditioner is symmetric only up to rounding.
            turn = float(image @ (residual - previous)) / energy if direction is not None else 0.0
            direction = image if direction is None else image + turn * direction
            energy, previous = float(image @ residual), residual
            forward = self.times(direction)
            curvature = float(direction @ forward)
            if not curvature > 0 or not energy > 0:
                break
            length = float(direction @ residual) / curvature
            dy = dy + length * direction
            residual = residual - length * forward
            norm = float(np.linalg.norm(residual))
            if norm < best_norm:
                best, best_norm = dy, norm
            elif norm > 10 * best_norm:
                break
        return best

    def times(self, dy: Floats) -> Floats:
        """(P H P' + D) dy."""
        pulled = np.zeros(self.unknowns)
        pulled[self.plain_place] = dy[self.plain]
        for batch in self.batches:
            pulled[batch.place] = batch.pull(dy[batch.rows])
        image = blas.dsymv(1.0, self._factor, pulled, lower=0)
        image += (self._diagonal - np.diagonal(self._factor)) * pulled
        result = self.weight * dy
        result[self.plain] += image[self.plain_place]
        for batch in self.batches:
            result[batch.rows] += batch.push(image[batch.place])
        return result

    def _condensed(self, rhs: Floats) -> Floats:
        """The solve by factor and condensed groups alone."""
        reduced = np.zeros(self.unknowns)
        reduced[self.plain_place] = rhs[self.plain]
        for batch in self.batches:
            reduced[batch.place] = batch.reduce(rhs[batch.rows])
        g, info = lapack.dpotrs(self._factor, reduced, lower=1)
        if info != 0 or not np.all(np.isfinite(g)):
            raise np.linalg.LinAlgError("the Schur system could not be solved")
        dy = np.empty(rhs.size)
        dy[self.plain] = g[self.plain_place]
        for batch in self.batches:
            dy[batch.rows] = batch.expand(rhs[batch.rows], g[batch.place])
        return dy


class _Sandwich:
    """S H S' for an S of short rows; those of roots are dense over the same atoms and change with every D.

    The result is one array that every call fills anew.
    """

    def __init__(self, S: Any, roots: Many | None) -> None:
        self.roots, size = roots, S.shape[0]
        short = np.ones(size, dtype=bool)
        if roots is not None:
            short[roots.place[0]] = False
        self.short = np.flatnonzero(short)
        self.sparse = sp.csr_matrix(S[self.short])
        self.result = np.empty((size, size))

    def __call__(self, H: Floats, chunk: int = 512) -> Floats:
        result, roots = self.result, self.roots
        for at in range(0, self.short.size, chunk):  # in pieces that stay in cache; columns, as H is symmetric
            block = self._left(np.ascontiguousarray(np.asarray(self.sparse[at : at + chunk] @ H).T))
            if roots is None:
                result[:, at : at + chunk] = block
            else:
                result[:, self.short[at : at + chunk]] = block
        if roots is not None:
            result[:, roots.place[0]] = self._left(H[:, roots.atoms] @ roots.basis.T)
        return result

    def _left(self, half: Floats) -> Floats:
        """S half."""
        short = np.asarray(self.sparse @ half)
        if self.roots is None:
            return short
        result = np.empty((len(self.result), half.shape[1]))
        result[self.short] = short
        result[self.roots.place[0]] = self.roots.basis @ half[self.roots.atoms]
        return result


def _block(Xp: Floats, Xq: Floats, Zp: Floats, Zq: Floats, r: Any, s: Any) -> Floats:
    """One tile of H from rows p and q of the Gram matrices; r and s are slices or index arrays of columns."""
    if Xp is Xq and r is s:
        return np.asarray(Xp[:, r] * Zp[:, r])
    if Xp is Xq:
        return _mean(Xp[:, r] * Zp[:, s], Xp[:, s] * Zp[:, r])
    if r is s:
        return _mean(Xq[:, r] * Zp[:, r], Xp[:, r] * Zq[:, r])
    Xqr, Xpr, Zps, Zqs = Xq[:, r], Xp[:, r], Zp[:, s], Zq[:, s]
    Xqs, Xps, Zpr, Zqr = Xq[:, s], Xp[:, s], Zp[:, r], Zq[:, r]
    return _mean(_mean(Xqr * Zps, Xpr * Zqs), _mean(Xqs * Zpr, Xps * Zqr))


def _mean(one: Floats, two: Floats) -> Floats:
    total = one + two
    total *= 0.5
    return total


def _tiles(first: Integers, second: Integers) -> list[tuple[slice, Any, Any]]:
    """Cut the atoms into pieces whose generators are constant or consecutive; gather what is left."""
    if first.size < 2:
        return _gathers(first, second, 0, first.size)
    da, db = np.diff(first), np.diff(second)
    code = np.where((da >= 0) & (da <= 1) & (db >= 0) & (db <= 1), 2 * da + db, -1)
    starts = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
    tiles: list[tuple[slice, Any, Any]] = []
    pending = 0
    for start, stop in zip(starts, np.r_[starts[1:], code.size], strict=True):
        begin, end = max(int(start), pending), int(stop) + 1
        if code[start] < 0 or end - begin < RUN:
            continue
        tiles += _gathers(first, second, pending, begin)
        for at in range(begin, end, TILE):
            upto = min(end, at + TILE)
            p = _run(first, at, upto)
            q = p if np.array_equal(first[at:upto], second[at:upto]) else _run(second, at, upto)
            tiles.append((slice(at, upto), p, q))
        pending = end
    return tiles + _gathers(first, second, pending, first.size)


def _run(index: Integers, at: int, stop: int) -> slice:
    return slice(int(index[at]), int(index[stop - 1]) + 1)


def _gathers(first: Integers, second: Integers, begin: int, end: int) -> list[tuple[slice, Any, Any]]:
    return [
        (slice(at, min(end, at + TILE)), first[at : min(end, at + TILE)], second[at : min(end, at + TILE)])
        for at in range(begin, end, TILE)
    ]
