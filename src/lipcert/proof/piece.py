"""One piece of a proof by slopes: what a block says of the state before it and of its own values, and its rounding.

Intervals of slopes that are narrow, or one number, have multipliers that are large beside all others. They are centred:
with x = y + kappa z the large numbers stand on the diagonal alone, where scaling takes care of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.relaxation.slopes import SlopeBlock
from lipcert.rounding import TINY, Array, gamma, grow, two_sum
from lipcert.rounding.definite import is_positive

Index = NDArray[np.int64]

FAR = 2.0**400  # numbers beyond this are none that a proof can be made with
_NARROW = 1e-3  # of its larger end: an interval of slopes that is shorter is centred


@dataclass(frozen=True, eq=False)
class Layer:
    """A block in scaled coordinates, over (s_{i-1}, y), x = y + kappa z, kappa being zero but for narrow slopes:

        sum_k t_k (p_k q_k' + q_k p_k') = sum_k 2 t_k y_k^2 + 2 off_k y_k z_k + inner_k z_k^2

    where off = t (2 kappa - a - b) and inner = 2 t (kappa - a)(kappa - b).
    """

    rows: Array
    t: Array
    kappa: Array
    off: Array
    inner: Array

    @classmethod
    def of(cls, rows: Array, t: Array, block: SlopeBlock) -> Layer:
        """With these rows and multipliers, and the slopes of a block."""
        a, b = block.a, block.b
        total, rest = two_sum(a, b)  # exact, so that nothing of a large t is left where slopes are equal
        narrow = is_narrow(block)
        kappa = np.where(narrow, total / 2, 0.0)
        off = t * np.where(narrow, -rest, -(a + b))
        return cls(rows, t, kappa, off, (2 * t * (kappa - a)) * (kappa - b))

    @property
    def moved(self) -> bool:
        """Whether y is not x."""
        return bool(np.any(self.kappa))


def is_narrow(block: SlopeBlock) -> NDArray[np.bool_]:
    """A mask of the neurons whose slopes are centred, as their intervals are narrow."""
    size = np.maximum(np.abs(block.a), np.abs(block.b))
    return np.asarray((block.b - block.a <= _NARROW * size) & (size > 1.0 / FAR))


def what_is_left(F: Array, J: Array | None, gone: int) -> Array | None:
    """F reduced to the variables that stay: a Schur complement, or the inverse of a block of J F^-1 J'."""
    from scipy.linalg import cholesky, solve_triangular  # here, so that importing lipcert stays fast

    try:
        if J is None:
            factor = cholesky(F[:gone, :gone], lower=True, check_finite=False)
            V = solve_triangular(factor, F[:gone, gone:], lower=True, check_finite=False)
            return symmetric(F[gone:, gone:] - V.T @ V)
        V = solve_triangular(cholesky(F, lower=True, check_finite=False), J[gone:].T, lower=True, check_finite=False)
        factor = cholesky(V.T @ V, lower=True)
        inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
        return symmetric(inverse.T @ inverse)
    except (np.linalg.LinAlgError, ValueError):
        return None


def reordered(A: Array, places: Index) -> Array:
    """Rows and columns in another order."""
    return A if np.array_equal(places, np.arange(len(A))) else np.asarray(A[np.ix_(places, places)])


def symmetric(A: Array) -> Array:
    """Exactly so."""
    return np.asarray((A + A.T) / 2)


def change(layer: Layer, n: int) -> Array:
    """J: (s, y) to (s, x)."""
    J = np.eye(n + len(layer.t))
    J[n:, :n] = layer.kappa[:, None] * layer.rows
    return J


def joined(X: Array, layer: Layer) -> Array:
    """embed(X) and what the slopes of a block say, on (s_{i-1}, y)."""
    n, rows = len(X), layer.rows
    F = np.empty((n + len(rows), n + len(rows)))
    F[:n, :n] = X
    if np.any(layer.inner):
        inner = rows.T @ (layer.inner[:, None] * rows)
        F[:n, :n] += (inner + inner.T) / 2
    F[n:, :n] = layer.off[:, None] * rows
    F[:n, n:] = F[n:, :n].T
    F[n:, n:] = np.diag(2 * layer.t)
    return F


@dataclass(frozen=True, eq=False)
class Errors:
    """How far the entries of a piece may be from what they stand for: |error| d, row by row, for any d >= 0."""

    X: Array
    layer: Layer
    left: Array
    J: Array | None
    places: Index
    gone: int

    def times(self, d: Array) -> Array:
        """The rows."""
        n, layer = len(self.X), self.layer
        plain = np.empty(len(d))
        plain[self.places] = d
        state, own = plain[:n], plain[n:]
        rows, inner, off = np.abs(layer.rows), np.abs(layer.inner), np.abs(layer.off)
        out = np.empty(len(d))
        seen = rows @ state
        out[:n] = gamma(4) * (np.abs(self.X) @ state) + gamma(8) * (rows.T @ (off * own))
        out[:n] += gamma(len(rows) + 12) * (rows.T @ (inner * seen))
        out[n:] = gamma(8) * off * seen + gamma(4) * 2 * layer.t * own
        # Entries of the rows that underflow when they are scaled, and products that do.
        most = 1.0 + max(float(np.max(x, initial=0.0)) for x in (rows, inner, off, np.abs(layer.kappa)))
        out += 16.0 * (len(d) + 4.0) * TINY * most * most * float(np.sum(d))
        out = out[self.places]
        if self.J is None:
            out[self.gone :] += gamma(4) * (np.abs(self.left) @ d[self.gone :])
        else:
            J, left = np.abs(self.J[self.gone :]), np.abs(self.left)
            out += gamma(2 * len(d) + 16) * (J.T @ (left @ (J @ d)))
            least = 16.0 * (len(d) + 4.0) ** 2 * TINY * (most + float(J.max())) ** 2 * (1.0 + float(left.max()))
            out += least * float(np.sum(d))
        return grow(out, 4 * len(d) + 64)


@dataclass(frozen=True, eq=False)
class PlainErrors:
    """The same of 2 T - V V' - left, V = off rows / sqrt(X): a piece whose X is diagonal, and eliminated."""

    V: Array
    t: Array
    left: Array

    def times(self, d: Array) -> Array:
        """The rows."""
        V = np.abs(self.V)
        n, seen = self.V.shape[1], V.T @ d
        out = gamma(n + 40) * (V @ seen) + gamma(4) * (2 * self.t * d + np.abs(self.left) @ d)
        # An entry of V that underflows is off by TINY, or by what is left of that when it is divided.
        out += 16.0 * (n + 4.0) * (TINY * FAR) * (1.0 + float(V.max(initial=0.0))) * float(np.sum(d))
        return grow(out, 2 * n + 2 * len(d) + 64)


@dataclass(frozen=True, eq=False)
class HeadErrors:
    """The same of the last piece, X - tau H'H, the entries of H being off by at most `doubt`."""

    X: Array
    head: Array
    doubt: Array
    tau: float

    def times(self, d: Array) -> Array:
        """The rows."""
        head, doubt = np.abs(self.head), self.doubt + 2 * TINY
        seen, unsure = head @ d, doubt @ d
        out = gamma(len(head) + 12) * (head.T @ seen) + head.T @ unsure + doubt.T @ (seen + unsure)
        out = self.tau * out + gamma(4) * (np.abs(self.X) @ d)
        out += 16.0 * (len(d) + len(head) + 4.0) * TINY * (1.0 + self.tau) * float(np.sum(d))
        return grow(out, 2 * len(d) + len(head) + 32)


def positive(P: Array, errors: Errors | PlainErrors | HeadErrors, apart: float) -> bool:
    """Whether the matrix that P stands for is positive semidefinite, proved."""
    diagonal = np.diag(P)
    if not np.all((diagonal > 1.0 / FAR) & (diagonal < FAR)):
        return False
    d = np.ldexp(1.0, -np.asarray(np.rint(np.log2(diagonal) / 2), dtype=np.int64))
    scaled = P * d[:, None] * d
    error = apart * d * errors.times(d) + 16 * len(d) * TINY * float(np.max(d))
    if apart > 1.0:
        error = error + (apart - 1.0) * factoring(len(P), float(np.trace(scaled)))
    return is_positive(scaled, np.zeros(len(P)), grow(error, 8))


def factoring(n: int, trace: float) -> float:
    """About what a factorisation loses."""
    return 2.0 * gamma(n + 4) * trace
