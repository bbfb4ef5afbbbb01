"""Groups of rows over few atoms enter the linear system as one unknown for each atom.

A group of n inequalities over the same s < n atoms (P of size n x s) is condensed into s unknowns g = P'dy.  With
T = P (P'P)^-1 and N a basis of the null space of P', dy = T g + N a, and

    (P H P' + D) dy = r   <=>   (H + T'WT) g = T'(r - D N (N'DN)^-1 N'r),   a = (N'DN)^-1 N'(r - D T g),
                                W = D - D N (N'DN)^-1 N'D

No D^-1 appears, so active rows (D near 0) lose no digits.  The rows of roots are hundreds over the same atoms, and D
stays away from 0 there.  With P = U V, U'U = I, and the Cholesky factor L of U'D^-1 U, the unknowns are
e = L^-1 U'dy, combinations L'V of the atoms, and

    (L'V H V'L + I) e = L^-1 U'D^-1 r,       dy = D^-1 (r - U L^-T (L^-1 U'D^-1 r - e))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas, lapack

from lipcert.relaxation.rank_two import Floats, Integers
from lipcert.solver.atoms import AtomForm


@dataclass(eq=False)
class Batch:
    """Groups of equal shape: `rows` (groups, n), coefficients (groups, n, s)."""

    rows: Integers
    coefficients: Floats
    place: Integers  # (groups, s): positions among the unknowns

    def prepare(self, weight: Floats) -> Floats:
        """What is added to H for rows with these D, (groups, s, s)."""
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
class Inequalities(Batch):
    """With the null space of P'."""

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
class Many(Batch):
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


def unknowns(form: AtomForm) -> tuple[Any, Integers, Integers, list[Batch]]:
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
    batches: list[Batch] = []
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
