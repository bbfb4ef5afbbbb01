"""The starting point of the interior point, warm or cold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lipcert.relaxation.rank_two import Floats, Integers
from lipcert.solver.atoms import AtomForm, Roots
from lipcert.solver.bordered import Bordered, Inverse


@dataclass(eq=False)
class Iterate:
    """X and slacks x > 0 of the inequalities; multipliers y with y > 0 there; Z = A*(y) - C + residual."""

    X: Floats
    slack: Floats
    y: Floats
    Z: Bordered
    residual: Bordered | None  # C - A*(y) + Z, or None when it vanishes identically


def dual_matrix(form: AtomForm, y: Floats) -> Bordered:
    """Z(y) = A*(y) - C."""
    return form.combine(form.rows.T @ y).plus(-1.0, form.objective)


def diagonal_rows(form: AtomForm) -> tuple[Integers, Floats]:
    """For each variable a row that bounds its X_ii alone (-1 if none), and the coefficient of X_ii in it."""
    P = form.rows
    row = np.full(form.size, -1, dtype=np.int64)
    coefficient = np.zeros(form.size)
    single = np.flatnonzero(np.diff(P.indptr) == 1)
    atom = P.indices[P.indptr[single]]
    value = P.data[P.indptr[single]]
    square = (form.first[atom] == form.second[atom]) & (form.first[atom] < form.size) & (value > 0)
    index = form.first[atom[square]]
    row[index] = single[square]
    coefficient[index] = value[square]
    return row, coefficient


def starting_point(form: AtomForm, y0: Floats | None, roots0: Floats | None = None) -> tuple[Iterate, Floats | None]:
    """An interior point, warm from y0 (and the diagonal entries of the roots) when it is given; and dual feasible
    multipliers on the edge, a first bound.

    When every X_ii has a row of its own the start is dual feasible; otherwise there is no first bound.
    """
    unequal = ~form.equality
    row, coefficient = diagonal_rows(form)
    whole = Whole(form.objective, form.roots, np.zeros(form.roots.gain.size))
    weight, own = _weights(whole)
    X = np.diag(_diagonal(form, row, coefficient))
    room = form.rhs - form.rows @ form.values(X)
    slack = np.maximum(room, SLACK if y0 is None else WARM_SLACK)
    y = np.zeros(form.rhs.size)
    y[unequal] = WEIGHT * weight.mean()
    y[form.roots.rows] = 0.0
    entry = np.zeros(own.size)
    if y0 is not None:
        y = form.scaled_multipliers(y0)
        y[unequal] = np.maximum(y[unequal], WARM * weight.mean())
        y[form.roots.rows] = 0.0
    if y0 is not None and roots0 is not None:
        entry = roots0 / form.value_scale
    if np.all(row >= 0):
        if y0 is None:
            y[row] = 0.0
        held = Whole(dual_matrix(form, y), form.roots, entry)
        shift = max(0.0, -lowest_eigenvalue(held, 1.0 / np.sqrt(np.r_[weight, own])))
        near, far = shift * (1.0 + 1e-9), shift * 1.01 + (MARGIN if y0 is None else WARM)
        edge = None
        if np.all(entry + own * near > 0):
            edge = y.copy()
            edge[row] += weight * near / coefficient
            edge = with_roots(form, edge, entry + own * near)
        y[row] += weight * far / coefficient
        y = with_roots(form, y, entry + own * far)
        Z = dual_matrix(form, y)
        if y0 is not None:
            X = _matched(Z, np.diagonal(X))
            slack = np.maximum(form.rhs - form.rows @ form.values(X), WARM_SLACK)
        slack[form.roots.rows] = np.minimum(slack[form.roots.rows], ROOT_SLACK * form.roots.paired(y))
        return Iterate(X, slack[unequal], y, Z, None), edge
    y = with_roots(form, y, np.maximum(entry, own))
    slack[form.roots.rows] = form.roots.paired(y)
    Z = form.objective.plus(-1.0, form.objective)
    _add_diagonal(Z, max(2.0 * weight.max(), 1.0))
    return Iterate(X, slack[unequal], y, Z, Z.plus(-1.0, dual_matrix(form, y))), None


def with_roots(form: AtomForm, y: Floats, entry: Floats) -> Floats:
    """y with the multipliers gain^2 / entry of the roots; X_00 was substituted in their rows, so its own pays."""
    y, rows = y.copy(), form.roots.rows
    y[rows] = form.roots.gain**2 / entry
    if form.anchor_row >= 0:
        scale = form.row_scale
        y[form.anchor_row] += form.anchor_weight[rows] @ (scale[rows] * y[rows]) / scale[form.anchor_row]
    return y


@dataclass(frozen=True, eq=False)
class Whole:
    """[M, -G K; -K G', diag(entry)]: the dual matrix before its roots were eliminated, K their gains."""

    core: Bordered
    roots: Roots
    entry: Floats

    @property
    def size(self) -> int:
        return self.core.size + self.entry.size

    def times(self, V: Floats) -> Floats:
        n, gain = self.size - self.entry.size, self.roots.gain[:, None]
        above = self.core.times(np.ascontiguousarray(V[:n]))
        if not self.entry.size:
            return above
        above -= self.roots.forms @ (gain * V[n:])
        return np.vstack([above, self.entry[:, None] * V[n:] - gain * (self.roots.forms.T @ V[:n])])


WEIGHT = 0.1  # multipliers of inequalities at the start, in units of the mean diagonal one
MARGIN = 2.0  # how far inside the dual cone to start, in units of the diagonal multipliers
FILLED = 0.7  # share of its bound that an entry of the first X has, and a sum of entries
SLACK = 0.5
ROOT_SLACK = 0.9  # relative to the slack that fits the multiplier of a root: the slack at the start is at most this
FLOOR = 0.1  # smallest diagonal multiplier, in units of the mean one; of a root, in units of its gain
WARM = 0.02  # the same margins for a warm start
WARM_SLACK = 0.02


class Symmetric(Protocol):
    """A symmetric matrix that is multiplied with."""

    @property
    def size(self) -> int: ...

    def times(self, Y: Floats) -> Floats: ...


def balance(C: Symmetric) -> Floats:
    """Positive weights d, about as small as they can be with a multiple of diag(d) - C positive semidefinite.

    At the maximum of <C, V V'> over unit rows v_i the norms |sum_j C_ij v_j| are the optimal multipliers of the
    rows X_ii <= 1; a few sweeps give their proportions, which a multiple of the identity would miss.
    """
    return _floored(_norms(C))


def _floored(norm: Floats, mean: float | None = None) -> Floats:
    mean = float(norm.mean()) if mean is None else mean
    return np.maximum(norm, FLOOR * mean) if mean > 0 else np.ones(norm.size)


def _norms(C: Symmetric, sweeps: int = 20, rank: int = 10) -> Floats:
    V = np.random.default_rng(0).standard_normal((C.size, rank))
    V /= np.linalg.norm(V, axis=1)[:, None]
    norm = np.ones(C.size)
    for _ in range(sweeps):
        image = C.times(V)
        norm = np.linalg.norm(image, axis=1)
        image += norm[:, None] * V
        V = image / np.maximum(np.linalg.norm(image, axis=1), 1e-300)[:, None]
    return np.asarray(norm)


def _weights(C: Whole) -> tuple[Floats, Floats]:
    """The weights of `balance`, one array for the core's variables and one for the roots."""
    norm = _norms(C)  # the sign of the roots' part does not matter
    core, own = np.split(norm, [C.size - C.entry.size])
    return _floored(core, float(norm.mean())), np.maximum(own, FLOOR * C.roots.gain)


def _diagonal(form: AtomForm, row: Integers, coefficient: Floats) -> Floats:
    """X_ii that meets equalities and lies inside inequalities."""
    diagonal = np.full(form.size, 0.5)
    known = row >= 0
    bound = form.rhs[row[known]] / coefficient[known]
    bound = np.where(bound > 0, bound, 0.5)
    diagonal[known] = np.where(form.equality[row[known]], bound, FILLED * bound)
    return _within_sums(form, row, diagonal)


def _within_sums(form: AtomForm, row: Integers, diagonal: Floats) -> Floats:
    """Smaller entries where inequalities bound weighted sums of several X_ii, as the row of a ball does.

    A first X is diagonal, so other entries in such a row count nothing.
    """
    P, inside = form.rows, (form.first < form.size) & (form.second < form.size)
    square = inside & (form.first == form.second)
    for k in np.flatnonzero((np.diff(P.indptr) > 1) & ~form.equality & (form.rhs > 0)):
        atoms, weights = P.indices[P.indptr[k] : P.indptr[k + 1]], P.data[P.indptr[k] : P.indptr[k + 1]]
        own, weights = form.first[atoms[square[atoms]]], weights[square[atoms]]
        if own.size < 2 or not np.all(inside[atoms]) or not np.all(weights > 0):
            continue
        if not np.all(weights * diagonal[own] <= form.rhs[k]):  # not a sum of entries that are bounded one by one
            continue
        free = (row[own] < 0) | ~form.equality[row[own]]
        total = float(weights @ diagonal[own])
        if total > FILLED * form.rhs[k]:
            diagonal[own[free]] *= FILLED * form.rhs[k] / total
    return diagonal


def _matched(Z: Bordered, diagonal: Floats) -> Floats:
    """Z^-1 rescaled to the wanted diagonal: on the central path X is a multiple of Z^-1."""
    X = Inverse(Z).toarray().copy()
    scale = np.sqrt(diagonal / np.diagonal(X))
    return np.asarray(X * scale[:, None] * scale)


def _add_diagonal(Z: Bordered, value: float) -> None:
    inner = np.arange(Z.border.inner)
    Z.flat[Z.border.start[inner] + Z.border.within[inner]] += value
    Z.F[np.diag_indices_from(Z.F)] += value


def lowest_eigenvalue(Z: Symmetric, scale: Floats, rounds: int = 60) -> float:
    """A little below the smallest eigenvalue of diag(scale) Z diag(scale): Lanczos value minus residual."""
    size = Z.size
    rounds = min(rounds, size)
    V = np.zeros((rounds, size))
    v = np.random.default_rng(1).standard_normal(size)
    v /= np.linalg.norm(v)
    alpha, beta = np.zeros(rounds), np.zeros(rounds)
    for k in range(rounds):
        V[k] = v
        w = scale * Z.times((scale * v)[:, None])[:, 0]
        alpha[k] = v @ w
        for _ in range(2):
            w -= (V[: k + 1] @ w) @ V[: k + 1]
        beta[k] = np.linalg.norm(w)
        if beta[k] < 1e-12:
            rounds = k + 1
            break
        v = w / beta[k]
    T = np.diag(alpha[:rounds]) + np.diag(beta[: rounds - 1], 1) + np.diag(beta[: rounds - 1], -1)
    ritz, vectors = np.linalg.eigh(T)
    return float(ritz[0] - beta[rounds - 1] * abs(vectors[-1, 0]))
