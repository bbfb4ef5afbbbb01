"""Bounds from multipliers of a slope program: the matrix M as a sum of pieces, each positive by one factorisation.

With symmetric matrices X_i on the states s_i, X_0 = Lambda, the pieces

    embed(X_{i-1}) + sum_{k in block i} t_k (p_k q_k' + q_k p_k') - embed(X_i) >= 0          on (s_{i-1}, x_i)
    X_m - tau H'H >= 0

add up to M >= 0, whatever the X_i are: they are computed here (a Schur complement, minus a little) and believed by
nobody. So the work of a proof grows linearly with depth, and its file has t, Lambda, and how much was subtracted.

Constants differ by many orders of magnitude between layers. Coordinates are scaled by powers of two, which is exact
but for underflow, so that every t is about one; each piece is scaled again to about one on its diagonal. Intervals of
slopes that are narrow, or one number, have multipliers that are large beside all others. They are centred: with
x = y + kappa z the large numbers stand on the diagonal alone, where scaling takes care of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.files.numbers import whole
from lipcert.relaxation.slopes import SlopeBlock, SlopeMultipliers, SlopeProgram
from lipcert.rounding import TINY, Array, gamma, grow, sum_up, two_sum, worst
from lipcert.rounding.definite import is_positive

Index = NDArray[np.int64]

FAR = 2.0**400  # numbers beyond this are none that a proof can be made with
_NARROW = 1e-3  # relative to its larger end: a shorter interval of slopes is replaced by its center
APART = 1.25  # times what rounding does: a proof is made with it, so that a checker with another BLAS finds it too
_GROWTH = 2.0  # factor of the shift when a piece is not positive
_TRIES = 48  # shifts that are tried; the first is below that of the piece before
_LARGE = 400  # the order from which a factorisation is dear: shifts begin higher, and do not fall again
_MOST = 0.5  # relative to the diagonal: a larger shift proves nothing worth having
_LEAST_INPUT = 1e-10  # relative to the mean of Lambda: smaller entries are raised to it
LIMITS = (1e13, 1e10, 1e7, 1e5, 1e3)  # times what a multiplier of a narrow interval must be: the last ones lose more to
# it, and less to rounding where a block is wider than what it reads
_GOOD = 12  # shifts that were raised no more often than this lose nothing that is worth another limit


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
    """The errors of 2 T - V V' - left, V = off rows / sqrt(X): a piece whose X is diagonal, and eliminated."""

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
    """The errors of the last piece, X - tau H'H, the entries of H being off by at most `doubt`."""

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


@dataclass(frozen=True, eq=False)
class Steps:
    """How a proof was found, so that a checker need not search: which limit of `LIMITS`, and how often the shift of
    each piece, and of tau, was raised. Whatever they are, only what is positive proves something."""

    numbers: Index

    def fit(self, program: SlopeProgram) -> bool:
        """Whether there is one for each."""
        n = self.numbers
        inside = n.shape == (len(program.blocks) + 2,) and bool(np.all((n >= 0) & (n < _TRIES)))
        return inside and int(n[0]) < len(LIMITS)


def read_steps(arrays: Mapping[str, Any], name: str) -> Index:
    """The steps of a file, those of all parts one after the other."""
    return whole(arrays, name, (None,), 0, _TRIES - 1)


NO_STEPS = Steps(np.zeros(0, dtype=np.int64))


def prove_program(program: SlopeProgram, multipliers: SlopeMultipliers) -> tuple[float, Steps]:
    """A proved bound of |H x|_2 over x_0 of norm at most one, infinite where the multipliers prove none, and how.

    Pieces are positive by several times what rounding may do, so that a checker with another BLAS finds them so too.
    """
    if not multipliers.fits(program):
        return math.inf, NO_STEPS
    if not program.head:  # nothing that is asked for depends on the input
        return 0.0, NO_STEPS
    limits = len(LIMITS) if any(np.any(is_narrow(block)) for block in program.blocks) else 1
    upper, steps = math.inf, NO_STEPS
    for k in range(limits):
        run = _Run(program, multipliers, k, APART, None)
        with np.errstate(all="ignore"):  # numbers that overflow are not positive
            found = run.bound()
        if found < upper:
            upper, steps = found, Steps(np.array([k, *run.taken], dtype=np.int64))
        if found < math.inf and max(run.taken) <= _GOOD:
            break
    return upper, steps


def check_program(program: SlopeProgram, multipliers: SlopeMultipliers, steps: Steps) -> float:
    """The bound that the multipliers prove with these steps, infinite where they prove none."""
    if not multipliers.fits(program):
        return math.inf
    if not program.head:
        return 0.0
    if not steps.fit(program):
        return math.inf
    limit, *given = (int(k) for k in steps.numbers)
    with np.errstate(all="ignore"):
        return _Run(program, multipliers, limit, 1.0, given).bound()


class _Run:
    """One proof: all pieces in turn, positive by `apart` times what rounding may do; `given` steps or a search."""

    def __init__(
        self, program: SlopeProgram, multipliers: SlopeMultipliers, limit: int, apart: float, given: list[int] | None
    ) -> None:
        self.program, self.multipliers, self.limit, self.apart = program, multipliers, LIMITS[limit], apart
        self.given, self.taken = given, list[int]()

    def shifts(self, order: int) -> Iterator[float]:
        """Shifts to try for the next piece, relative to its diagonal; the last one that was taken is remembered."""
        again = 0 if order > _LARGE else 1
        first = max(self.taken[-1] - again, 0) if self.taken else 3 - 3 * again
        tries = range(first, _TRIES) if self.given is None else (self.given[len(self.taken)],)
        self.taken.append(tries[0])
        for k in tries:
            self.taken[-1] = k
            shift = _GROWTH**k * factoring(order, float(order))
            if shift <= _MOST:
                yield shift

    def bound(self) -> float:
        """The bound, infinite where some piece is not positive."""
        program, multipliers = self.program, self.multipliers
        first, total = _lambda(program, multipliers)
        powers = [_root(x) for x in ([first, *multipliers.neurons] if program.weighted else multipliers.neurons)]
        if not program.weighted:
            powers.insert(0, np.zeros(program.inputs, dtype=np.int64))
        X = np.diag(np.ldexp(first, 2 * powers[0]))
        for i in range(1, len(program.blocks) + 1):
            layer = _scaled_layer(program, multipliers.neurons[i - 1], powers, i)
            layer = _limited(layer, program.blocks[i - 1], X, self.limit) if layer.moved else layer
            left = self._next(X, layer, *block_order(program, i))
            if left is None:
                return math.inf
            X = left
        size = _state_powers(program, powers, len(program.blocks))
        head, shift = _scaled_head(program, size)
        tau = self._largest(X, head, np.ldexp(_doubt(program, head), size - shift))
        return math.inf if tau is None else _above(total, tau, shift)

    def _next(self, X: Array, layer: Layer, places: Index, gone: int) -> Array | None:
        """X_i so that the piece is positive; None where none is found."""
        if gone == len(X) and not layer.moved and not np.any(layer.inner) and _is_diagonal(X):
            return self._after_diagonal(np.diag(X), layer)
        F = reordered(joined(X, layer), places)
        J = reordered(change(layer, len(X)), places) if layer.moved else None
        best = what_is_left(F, J, gone) if np.all(np.abs(F) < FAR) else None
        if best is None:
            return None
        scale = np.abs(np.diag(F if J is None else best)[-len(best) :])
        for shift in self.shifts(len(F)):
            left = best.copy()
            left[np.diag_indices(len(left))] -= shift * scale
            P = F.copy()
            if J is None:
                P[gone:, gone:] -= left
            else:
                P -= symmetric(J[gone:].T @ (left @ J[gone:]))
            if positive(P, Errors(X, layer, left, J, places, gone), self.apart):
                return left
        return None

    def _after_diagonal(self, X: Array, layer: Layer) -> Array | None:
        """The step behind a diagonal X, as at the input of a ReLU network: X is eliminated, and the order is less."""
        if not np.all((X > 1.0 / FAR) & (X < FAR)):
            return None
        V = layer.off[:, None] * layer.rows / np.sqrt(X)
        gram = symmetric(V @ V.T)
        if not np.all(np.abs(gram) < FAR):
            return None
        double = np.diag(2 * layer.t)
        for shift in self.shifts(len(double)):
            left = double - gram
            left[np.diag_indices(len(left))] -= shift * 2 * layer.t
            if positive(double - gram - left, PlainErrors(V, layer.t, left), self.apart):
                return left
        return None

    def _largest(self, X: Array, head: Array, doubt: Array) -> float | None:
        """The largest tau, nearly, with X - tau H'H >= 0."""
        from scipy.linalg import cholesky, solve_triangular  # here, so that importing lipcert stays fast

        try:
            V = solve_triangular(cholesky(X, lower=True), head.T, lower=True)
            most = 1.0 / float(np.linalg.norm(V, 2)) ** 2
        except (np.linalg.LinAlgError, ValueError, ZeroDivisionError):
            return None
        gram = symmetric(head.T @ head)
        for shift in self.shifts(len(X)):
            tau = most * (1.0 - shift)
            if 1.0 / FAR < tau < FAR and positive(X - tau * gram, HeadErrors(X, head, doubt, tau), self.apart):
                return tau
        return None


def _is_diagonal(X: Array) -> bool:
    return int(np.count_nonzero(X)) == int(np.count_nonzero(np.diag(X)))


def _lambda(program: SlopeProgram, multipliers: SlopeMultipliers) -> tuple[Array, float]:
    """The diagonal of Lambda, and a bound of x_0' Lambda x_0 in the unit ball."""
    if multipliers.inputs is None:
        return np.ones(program.inputs), 1.0
    found = least_inputs(multipliers.inputs)
    return found, sum_up(found)


def least_inputs(inputs: Array) -> Array:
    """The diagonal of Lambda without entries next to zero: any entries would be as true."""
    return np.maximum(inputs, _LEAST_INPUT * float(np.mean(inputs)))


def _root(t: Array) -> Index:
    """Exponents e so that t 4^e is about one."""
    return -np.asarray(np.rint(np.log2(t) / 2), dtype=np.int64)


def _state_powers(program: SlopeProgram, powers: list[Index], i: int) -> Index:
    return np.concatenate([powers[j] for j in program.states[i]])


def _scaled_layer(program: SlopeProgram, t: Array, powers: list[Index], i: int) -> Layer:
    """x_k = 2^e_k y_k: rows by 2^(e_j - e_k), t by 4^e_k."""
    own = powers[i]
    rows = np.ldexp(program.rows(i), _state_powers(program, powers, i - 1)[None, :] - own[:, None])
    return Layer.of(rows, np.ldexp(t, 2 * own), program.blocks[i - 1])


def _limited(layer: Layer, block: SlopeBlock, X: Array, limit: float) -> Layer:
    """With multipliers of narrow slopes up to so many times what the size of x_k asks for."""
    from scipy.linalg import cho_factor, cho_solve  # here, so that importing lipcert stays fast

    rows = layer.rows
    try:
        sizes = np.sum(cho_solve(cho_factor(X, lower=True), rows.T) * rows.T, axis=0) * layer.kappa**2
    except (np.linalg.LinAlgError, ValueError):
        return layer
    most = np.where((layer.kappa != 0) & (sizes > 0), limit / sizes, np.inf)
    return Layer.of(rows, np.minimum(layer.t, most), block)


def block_order(program: SlopeProgram, i: int) -> tuple[Index, int]:
    """The variables (s_{i-1}, x_i), those first that nobody reads any more, and how many these are."""
    sources = (*program.states[i - 1], i)
    ends = np.cumsum([0, *(program.widths[j] for j in sources)])
    later = set(program.states[i])
    parts = [(j in later, np.arange(ends[k], ends[k + 1])) for k, j in enumerate(sources)]
    gone = [at for stays, at in parts if not stays]
    stay = [at for stays, at in parts if stays]
    return np.concatenate([*gone, *stay]), sum(map(len, gone))


def _scaled_head(program: SlopeProgram, size: Index) -> tuple[Array, int]:
    """The head in scaled coordinates, its largest entry about one, and the power of two that this took out of it."""
    rows = program.rows(len(program.blocks) + 1)
    mantissa, exponent = np.frexp(rows)
    shift = int(np.max(np.where(mantissa != 0, exponent + size[None, :], np.iinfo(np.int64).min)))
    return np.ldexp(rows, size[None, :] - shift), shift


def _doubt(program: SlopeProgram, head: Array) -> Array:
    return np.hstack(program.doubt) if program.doubt else np.zeros_like(head)


def _above(total: float, tau: float, shift: int) -> float:
    """sqrt(total / tau) 2^shift, rounded up; infinite where that overflows."""
    squared = math.nextafter(total / tau, math.inf)
    root = math.nextafter(math.sqrt(squared), math.inf)
    try:
        return worst(math.nextafter(math.ldexp(root, shift), math.inf))
    except OverflowError:
        return math.inf
