"""What multipliers of a slope program prove: the matrix M as a sum of pieces, each positive by one factorisation.

With symmetric matrices X_i on the states s_i, X_0 = Lambda, the pieces

    embed(X_{i-1}) + sum_{k in block i} t_k (p_k q_k' + q_k p_k') - embed(X_i) >= 0          on (s_{i-1}, x_i)
    X_m - tau H'H >= 0

add up to M >= 0, whatever the X_i are: they are computed here (a Schur complement, minus a little) and believed by
nobody. So the work of a proof grows linearly with depth, and nothing but t and Lambda is in its file.

Constants differ by many orders of magnitude between layers. Coordinates are scaled by powers of two, which is exact
but for underflow, so that every t is about one; each piece is scaled again to about one on its diagonal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lipcert.relaxation.slopes import SlopeMultipliers, SlopeProgram
from lipcert.rounding import TINY, Array, gamma, grow, sum_up
from lipcert.rounding.definite import is_positive

APART = 3.0  # times what rounding does: a proof is made with it, so that a checker with another BLAS finds no worse one
_GROWTH = 8.0  # of the shift, when a piece is not positive
_MOST = 0.5  # of the diagonal: a larger shift proves nothing worth having
_LEAST_INPUT = 1e-10  # of the mean of Lambda: smaller entries are raised to it
_FAR = 2.0**400  # numbers beyond this are none that a proof can be made with


@dataclass(frozen=True, eq=False)
class _Layer:
    """A block in scaled coordinates: rows over the state before it, multipliers t, t (a + b) and 2 t a b."""

    rows: Array
    t: Array
    off: Array
    inner: Array


def slope_bound(program: SlopeProgram, multipliers: SlopeMultipliers, apart: float = 1.0) -> float:
    """A proved bound of |H x|_2 over x_0 of norm at most one, infinite where the multipliers prove none.

    `apart` above one asks for positive pieces by so many times what rounding may do.
    """
    if not multipliers.fits(program):
        return math.inf
    if not program.head:  # nothing that is asked for depends on the input
        return 0.0
    with np.errstate(all="ignore"):  # numbers that overflow are not positive
        return _bound(program, multipliers, apart)


def _bound(program: SlopeProgram, multipliers: SlopeMultipliers, apart: float) -> float:
    first, total = _lambda(program, multipliers)
    powers = [_root(x) for x in ([first, *multipliers.neurons] if program.weighted else multipliers.neurons)]
    if not program.weighted:
        powers.insert(0, np.zeros(program.inputs, dtype=np.int64))
    X = np.diag(np.ldexp(first, 2 * powers[0]))
    for i in range(1, len(program.blocks) + 1):
        layer = _scaled_layer(program, multipliers.neurons[i - 1], powers, i)
        left = _next(X, layer, _order(program, i), apart)
        if left is None:
            return math.inf
        X = left
    size = _state_powers(program, powers, len(program.blocks))
    head, shift = _scaled_head(program, size)
    tau = _largest(X, head, np.ldexp(_doubt(program, head), size - shift), apart)
    if tau is None:
        return math.inf
    return _above(total, tau, shift)


def _lambda(program: SlopeProgram, multipliers: SlopeMultipliers) -> tuple[Array, float]:
    """The diagonal of Lambda, and a bound of x_0' Lambda x_0 in the unit ball."""
    if multipliers.inputs is None:
        return np.ones(program.inputs), 1.0
    found = np.maximum(multipliers.inputs, _LEAST_INPUT * float(np.mean(multipliers.inputs)))
    return found, sum_up(found)


def _root(t: Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Exponents e so that t 4^e is about one."""
    return -np.asarray(np.rint(np.log2(t) / 2), dtype=np.int64)


def _state_powers(program: SlopeProgram, powers: list[np.ndarray], i: int) -> np.ndarray:
    return np.concatenate([powers[j] for j in program.states[i]])


def _scaled_layer(program: SlopeProgram, t: Array, powers: list[np.ndarray], i: int) -> _Layer:
    """x_k = 2^e_k y_k: rows by 2^(e_j - e_k), t by 4^e_k."""
    block, own = program.blocks[i - 1], powers[i]
    rows = np.ldexp(program.rows(i), _state_powers(program, powers, i - 1)[None, :] - own[:, None])
    scaled = np.ldexp(t, 2 * own)
    return _Layer(rows, scaled, scaled * (block.a + block.b), (2 * scaled * block.a) * block.b)


def _order(program: SlopeProgram, i: int) -> tuple[Array, int]:
    """The variables (s_{i-1}, x_i), those first that nobody reads any more, and how many these are."""
    sources = (*program.states[i - 1], i)
    ends = np.cumsum([0, *(program.widths[j] for j in sources)])
    later = set(program.states[i])
    parts = [(j in later, np.arange(ends[k], ends[k + 1])) for k, j in enumerate(sources)]
    gone = [at for stays, at in parts if not stays]
    stay = [at for stays, at in parts if stays]
    return np.concatenate([*gone, *stay]), sum(map(len, gone))


def _next(X: Array, layer: _Layer, order: tuple[Array, int], apart: float) -> Array | None:
    """X_i so that the piece is positive; None where none is found."""
    from scipy.linalg import cholesky, solve_triangular  # here, so that importing lipcert stays fast

    places, gone = order
    F = _joined(X, layer)
    moved = not np.array_equal(places, np.arange(len(F)))
    F = F[np.ix_(places, places)] if moved else F
    if not np.all(np.abs(F) < _FAR):
        return None
    try:
        factor = cholesky(F[:gone, :gone], lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    V = solve_triangular(factor, F[:gone, gone:], lower=True, check_finite=False)
    best: Array = F[gone:, gone:] - V.T @ V
    best, scale = (best + best.T) / 2, np.abs(np.diag(F)[gone:])
    shift = _GROWTH * _factoring(len(F), float(len(F))) * apart
    while shift <= _MOST:
        left: Array = best.copy()
        left[np.diag_indices(len(left))] -= shift * scale
        P = F.copy()
        P[gone:, gone:] -= left
        if _positive(P, _Errors(X, layer, left, places, gone), apart):
            return left
        shift *= _GROWTH
    return None


def _joined(X: Array, layer: _Layer) -> Array:
    """embed(X) and what the slopes of a block say, on (s_{i-1}, x_i)."""
    n, rows = len(X), layer.rows
    F = np.empty((n + len(rows), n + len(rows)))
    F[:n, :n] = X
    if np.any(layer.inner):
        inner = rows.T @ (layer.inner[:, None] * rows)
        F[:n, :n] += (inner + inner.T) / 2
    F[n:, :n] = -layer.off[:, None] * rows
    F[:n, n:] = F[n:, :n].T
    F[n:, n:] = np.diag(2 * layer.t)
    return F


@dataclass(frozen=True, eq=False)
class _Errors:
    """How far the entries of a piece may be from what they stand for: |error| d, row by row, for any d >= 0."""

    X: Array
    layer: _Layer
    left: Array
    places: Array
    gone: int

    def times(self, d: Array) -> Array:
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
        most = 1.0 + max(float(np.max(x, initial=0.0)) for x in (rows, inner, off))
        out += 16.0 * (len(d) + 4.0) * TINY * most * most * float(np.sum(d))
        out = out[self.places]
        out[self.gone :] += gamma(4) * (np.abs(self.left) @ d[self.gone :])
        return grow(out, 2 * len(d) + 32)


@dataclass(frozen=True, eq=False)
class _HeadErrors:
    """The same of the last piece, X - tau H'H, the entries of H being off by at most `doubt`."""

    X: Array
    head: Array
    doubt: Array
    tau: float

    def times(self, d: Array) -> Array:
        head, doubt = np.abs(self.head), self.doubt + 2 * TINY
        seen, unsure = head @ d, doubt @ d
        out = gamma(len(head) + 12) * (head.T @ seen) + head.T @ unsure + doubt.T @ (seen + unsure)
        out = self.tau * out + gamma(4) * (np.abs(self.X) @ d)
        out += 16.0 * (len(d) + len(head) + 4.0) * TINY * (1.0 + self.tau) * float(np.sum(d))
        return grow(out, 2 * len(d) + len(head) + 32)


def _positive(P: Array, errors: _Errors | _HeadErrors, apart: float) -> bool:
    """Whether the matrix that P stands for is positive semidefinite, proved."""
    diagonal = np.diag(P)
    if not np.all(diagonal > 0) or not np.all(diagonal < _FAR):
        return False
    d = np.ldexp(1.0, -np.asarray(np.rint(np.log2(diagonal) / 2), dtype=np.int64))
    scaled = P * d[:, None] * d
    error = apart * d * errors.times(d) + 16 * len(d) * TINY
    if apart > 1.0:
        error = error + (apart - 1.0) * _factoring(len(P), float(np.trace(scaled)))
    return is_positive(scaled, np.zeros(len(P)), grow(error, 8))


def _factoring(n: int, trace: float) -> float:
    """About what a factorisation loses."""
    return 2.0 * gamma(n + 4) * trace


def _scaled_head(program: SlopeProgram, size: np.ndarray) -> tuple[Array, int]:
    """The head in scaled coordinates, its largest entry about one, and the power of two that this took out of it."""
    rows = program.rows(len(program.blocks) + 1)
    mantissa, exponent = np.frexp(rows)
    shift = int(np.max(np.where(mantissa != 0, exponent + size[None, :], np.iinfo(np.int64).min)))
    return np.ldexp(rows, size[None, :] - shift), shift


def _doubt(program: SlopeProgram, head: Array) -> Array:
    return np.hstack(program.doubt) if program.doubt else np.zeros_like(head)


def _largest(X: Array, head: Array, doubt: Array, apart: float) -> float | None:
    """The largest tau, nearly, with X - tau H'H >= 0."""
    from scipy.linalg import cholesky, solve_triangular  # here, so that importing lipcert stays fast

    try:
        V = solve_triangular(cholesky(X, lower=True), head.T, lower=True)
        most = 1.0 / float(np.linalg.norm(V, 2)) ** 2
    except (np.linalg.LinAlgError, ValueError, ZeroDivisionError):
        return None
    gram = head.T @ head
    gram = (gram + gram.T) / 2
    shift = _GROWTH * _factoring(len(X), float(len(X))) * apart
    while shift <= _MOST:
        tau = most * (1.0 - shift)
        if 1.0 / _FAR < tau < _FAR and _positive(X - tau * gram, _HeadErrors(X, head, doubt, tau), apart):
            return tau
        shift *= _GROWTH
    return None


def _above(total: float, tau: float, shift: int) -> float:
    """sqrt(total / tau) 2^shift, rounded up; infinite where that overflows."""
    squared = math.nextafter(total / tau, math.inf)
    root = math.nextafter(math.sqrt(squared), math.inf)
    try:
        return math.nextafter(math.ldexp(root, shift), math.inf)
    except OverflowError:
        return math.inf
