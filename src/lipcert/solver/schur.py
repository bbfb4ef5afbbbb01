"""The Schur complement of the HKM direction over atoms, its factor, and solves with it.

    O = P H P' + D,    H_jl = <A_j, X A_l Z^-1>  over atoms A_j = sym(g_p g_q'),    D = diag(slack / multiplier)

    H_jl = 1/4 [ X_qr Z_ps + X_pr Z_qs + X_qs Z_pr + X_ps Z_qr ]    for j = (p, q), l = (r, s),  Z_ab = g_a' Z^-1 g_b

Atoms come in families whose generators are runs of consecutive indices, so H is entrywise products of slices.
Conjugate gradients on the uncondensed system polish the solution.  One square array holds both: the factor in one
triangle, H in the other.

Groups of rows over few atoms are condensed.  A group of n inequalities over the same s < n atoms (P of size n x s)
enters as s unknowns g = P'dy.  With T = P (P'P)^-1 and N a basis of the null space of P', dy = T g + N a, and

    (P H P' + D) dy = r   <=>   (H + T'WT) g = T'(r - D N (N'DN)^-1 N'r),   a = (N'DN)^-1 N'(r - D T g),
                                W = D - D N (N'DN)^-1 N'D

No D^-1 appears, so active rows (D near 0) lose no digits.  The rows of roots are hundreds over the same atoms, and D
stays away from 0 there.  With P = U V, U'U = I, and the Cholesky factor L of U'D^-1 U, the unknowns are
e = L^-1 U'dy, combinations L'V of the atoms, and

    (L'V H V'L + I) e = L^-1 U'D^-1 r,       dy = D^-1 (r - U L^-T (L^-1 U'D^-1 r - e))
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas, lapack

from lipcert.relaxation.rank_two import Floats, Integers
from lipcert.solver.atoms import AtomForm


@dataclass(eq=False)
class CondensedRows:
    """Groups of equal shape: `rows` (groups, n), coefficients (groups, n, s)."""

    rows: Integers
    coefficients: Floats
    place: Integers  # (groups, s): positions among the unknowns

    def prepare(self, weight: Floats) -> Floats:
        """The matrix that is added to H for rows with these D, (groups, s, s)."""
        raise NotImplementedError

    def reduce(self, rhs: Floats) -> Floats:
        """The right-hand side of the unknowns."""
        raise NotImplementedError

    def expand(self, rhs: Floats, g: Floats) -> Floats:
        """dy from the unknowns."""
        raise NotImplementedError

    def pull(self, dy: Floats) -> Floats:
        """The unknowns that any dy of these rows makes."""
        return np.asarray(np.einsum("gns,gn->gs", self.coefficients, dy))

    def push(self, image: Floats) -> Floats:
        """The adjoint of `pull`."""
        return np.asarray(np.einsum("gns,gs->gn", self.coefficients, image))


@dataclass(eq=False)
class Inequalities(CondensedRows):
    """Groups of inequalities, condensed with the null space of P'."""

    lift: Floats  # T = P (P'P)^-1, (groups, n, s)
    null: Floats  # N, (groups, n, n - s)

    def prepare(self, weight: Floats) -> Floats:
        d = weight[self.rows][:, :, None]
        heavy = d * self.null  # D N
        self.inner = np.linalg.inv(np.swapaxes(self.null, 1, 2) @ heavy)
        self.pulled = np.swapaxes(self.lift, 1, 2) @ heavy  # T'D N
        W = -heavy @ self.inner @ np.swapaxes(heavy, 1, 2)
        at = np.arange(W.shape[1])
        if self.null.shape[2] == 1:  # W_ii = d_i (N'DN - d_i n_i^2) / N'DN, as a sum without cancellation
            share = (heavy * self.null)[:, :, 0]
            others = share @ (1.0 - np.eye(at.size))
            W[:, at, at] = d[:, :, 0] * others * self.inner[:, 0]
        else:
            W[:, at, at] += d[:, :, 0]
        return np.asarray(np.swapaxes(self.lift, 1, 2) @ W @ self.lift)

    def reduce(self, rhs: Floats) -> Floats:
        side = np.einsum("gnk,gn->gk", self.null, rhs)
        lifted = np.einsum("gns,gn->gs", self.lift, rhs)
        return np.asarray(lifted - np.einsum("gsk,gkl,gl->gs", self.pulled, self.inner, side))

    def expand(self, rhs: Floats, g: Floats) -> Floats:
        side = np.einsum("gnk,gn->gk", self.null, rhs)
        along = np.einsum("gkl,gl->gk", self.inner, side - np.einsum("gsk,gs->gk", self.pulled, g))
        return np.asarray(np.einsum("gns,gs->gn", self.lift, g) + np.einsum("gnk,gk->gn", self.null, along))


@dataclass(eq=False)
class Many(CondensedRows):
    """One group of many rows over `atoms`, with D^-1; its coefficients are U."""

    atoms: Integers
    factor: Floats  # V
    basis: Floats  # L'V, the unknowns over the atoms, new for every D

    def prepare(self, weight: Floats) -> Floats:
        U = self.coefficients[0]
        self.light = 1.0 / weight[self.rows[0]]
        scaled = np.sqrt(self.light)[:, None] * U
        gram = np.asarray(blas.dsyrk(1.0, scaled.T, lower=1))
        self.lower, info = lapack.dpotrf(gram, lower=1, overwrite_a=1, clean=1)
        if info != 0:  # D of very different sizes
            right = np.linalg.qr(scaled, mode="r")
            self.lower = np.asfortranarray((right * np.sign(np.diagonal(right))[:, None]).T)
        self.basis = np.asarray(blas.dtrmm(1.0, self.lower, self.factor, lower=1, trans_a=1))
        return np.eye(len(self.basis))[None]

    def reduce(self, rhs: Floats) -> Floats:
        return self.pull(rhs * self.light)

    def expand(self, rhs: Floats, g: Floats) -> Floats:
        return np.asarray(self.light * (rhs - self.push(self.reduce(rhs) - g)))

    def pull(self, dy: Floats) -> Floats:
        return np.asarray(blas.dtrsv(self.lower, self.coefficients[0].T @ dy[0], lower=1))[None]

    def push(self, image: Floats) -> Floats:
        return np.asarray(self.coefficients[0] @ blas.dtrsv(self.lower, image[0], lower=1, trans=1))[None]


def unknowns(form: AtomForm) -> tuple[Any, Integers, Integers, list[CondensedRows]]:
    """The unknowns as combinations of atoms; the rows that are unknowns, their places; and the condensed groups.

    In the order of their (first) atom, so that H needs no permutation when rows are single atoms.
    """
    P = form.rows
    own = P.shape[0] - form.roots.rows.size
    entries = sp.csc_matrix(P[own:])
    atoms = np.flatnonzero(np.diff(entries.indptr))
    many = 0 < atoms.size < entries.shape[0]
    groups, plain = _group(form, P.shape[0] - own if many else 0)
    key = [np.r_[P.indices, P.shape[1]][P.indptr[plain]]]  # a row without atoms may sort anywhere
    key += [block.ravel() for _, block, _ in groups] + ([atoms] if many else [])
    blocks = [P[plain]]
    blocks += [sp.csr_matrix((np.ones(at.size), (np.arange(at.size), at)), (at.size, P.shape[1])) for at in key[1:]]
    order = np.argsort(np.concatenate(key), kind="stable")
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    batches: list[CondensedRows] = []
    at = plain.size
    for rows, block, factors in groups:
        width = block.shape[1]
        left, values, right = np.linalg.svd(factors)
        lift = np.einsum("gns,gs,gst->gnt", left[:, :, :width], 1.0 / values, right)
        where = place[at : at + block.size].reshape(block.shape)
        batches.append(Inequalities(rows, factors, where, lift, left[:, :, width:]))
        at += block.size
    if many:
        matrix = np.asarray(entries[:, atoms].toarray())
        U, V = np.linalg.qr(matrix)
        batches.append(Many(form.roots.rows[None], U[None], place[None, at:], atoms, np.asfortranarray(V), V))
    selection = sp.csr_matrix(sp.vstack(blocks, format="csr")[order])
    return selection, plain, place[: plain.size], batches


def _group(form: AtomForm, condensed: int) -> tuple[list[tuple[Integers, Integers, Floats]], Integers]:
    """Inequalities with the same atoms, more of them than atoms; and all other rows but the last `condensed`."""
    P = form.rows
    groups: dict[bytes, list[int]] = {}
    P.sort_indices()
    own = P.shape[0] - form.roots.rows.size
    for k in np.flatnonzero(~form.equality[:own]):
        groups.setdefault(P.indices[P.indptr[k] : P.indptr[k + 1]].tobytes(), []).append(int(k))
    shapes: dict[tuple[int, int], list[list[int]]] = {}
    for rows in groups.values():
        width = int(P.indptr[rows[0] + 1] - P.indptr[rows[0]])
        if 0 < width < len(rows) and _rank(P, rows, width) == width:
            shapes.setdefault((len(rows), width), []).append(rows)
    batches, plain = [], np.ones(P.shape[0], dtype=bool)
    plain[P.shape[0] - condensed :] = False
    for (_, width), members in shapes.items():
        rows_array = np.asarray(members, dtype=np.int64)
        entries = P.indptr[rows_array][:, :, None] + np.arange(width)
        batches.append((rows_array, P.indices[entries[:, 0]].astype(np.int64), P.data[entries]))
        plain[rows_array] = False
    return batches, np.flatnonzero(plain)


def _rank(P: Any, rows: list[int], width: int) -> int:
    block = np.stack([P.data[P.indptr[k] : P.indptr[k] + width] for k in rows])
    return int(np.linalg.matrix_rank(block, tol=1e-3))


TILE = 400
PARALLEL = 2000  # atoms from which on tiles are filled by several threads
STEPS = 10  # most steps of conjugate gradients
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
