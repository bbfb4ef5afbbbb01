"""The identity of a sum of squares, as arrays of terms, and residuals that cannot be paid for, put into Gram matrices.

In single entries: a slot whose polynomial is one monomial takes the residual there. Exactly, for any basis: let A be
the coefficients of the slots of Gram matrices and equalities (columns) at the monomials without a known maximum (rows),
and R = A' N for an approximate inverse N of A A'. When |I - A R| has row sums below 1, A R is invertible, and

    delta = R q,   q = (A R)^-1 r,   |q_i| <= |r_i| + (row sum)_i max|r| / (1 - largest row sum)

is a correction with A delta = r exactly [Rump10]. Its size bounds the doubt in every entry; what it does to the other
monomials is paid for. Where rows of A depend on others (bases of polynomials have fewer products than monomials), the
residual depends on them in the same way, when the objective does: this is decided in fractions, and only independent
rows are corrected.

[Rump10] S. M. Rump: Verification methods: rigorous results using floating-point arithmetic, Acta Numerica 19 (2010).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.rounding import TINY, Array, gamma, grow

Index = NDArray[np.int64]
MOST_MONOMIALS = 1200  # order of a dense inverse: a second or two
MOST_FRACTIONS = 400  # order of an elimination in fractions
SPECK = 1e-9


@dataclass(frozen=True, eq=False)
class SosIdentity:
    """The coefficients of Q and lambda in the identity, as terms.

    Slot s is a row of the cones in order: "zero" and "nonnegative" of `size` rows, "psd" of order `size` with its upper
    triangle by columns. A term adds coefficient times monomial to the slot's polynomial; monomial 0 is the constant 1.
    Each coefficient is within `roundings` relative roundings of the exact one, the objective within `objective_error`.
    `reach` >= |x^a| on K, or infinite. `exact` says that coefficients and objective are not rounded at all.
    """

    objective: Array
    objective_error: Array
    slots: Index
    columns: Index
    coefficients: Array
    roundings: int
    cones: tuple[tuple[str, int], ...]
    reach: Array
    exact: bool = False

    @cached_property
    def parts(self) -> tuple[tuple[str, int, slice], ...]:
        """Kind, size and slots of every cone."""
        found: list[tuple[str, int, slice]] = []
        start = 0
        for kind, size in self.cones:
            stop = start + (size * (size + 1) // 2 if kind == "psd" else size)
            found.append((kind, size, slice(start, stop)))
            start = stop
        return tuple(found)

    @property
    def size(self) -> int:
        """The number of slots."""
        return self.parts[-1][2].stop if self.parts else 0

    def matrices(self) -> Iterator[tuple[int, slice]]:
        """Order and slots of every Gram matrix."""
        return ((size, rows) for kind, size, rows in self.parts if kind == "psd")

    @cached_property
    def diagonal(self) -> NDArray[np.bool_]:
        """Which slots are on the diagonal of a Gram matrix."""
        marks = np.zeros(self.size, dtype=bool)
        for order, rows in self.matrices():
            marks[rows.start + np.cumsum(np.arange(1, order + 1)) - 1] = True
        return marks

    @cached_property
    def caps(self) -> tuple[Array, ...]:
        """Upper bounds on the diagonal entries of every M_k over K."""
        sizes = np.abs(self.coefficients) * self.reach[self.columns]
        count = int(np.bincount(self.slots, minlength=1).max(initial=0))
        by_slot = np.bincount(self.slots, weights=sizes, minlength=self.size).astype(np.float64)
        by_slot = grow(by_slot, count + self.roundings)
        return tuple(by_slot[rows][self.diagonal[rows]] for _, rows in self.matrices())

    def residual(self, weights: Array) -> tuple[Array, Array]:
        """r = f - sum of weighted terms, monomial by monomial, and a bound on its rounding error."""
        size = len(self.objective)
        terms = weights[self.slots] * self.coefficients
        total = np.bincount(self.columns, weights=terms, minlength=size)
        mass = np.bincount(self.columns, weights=np.abs(terms), minlength=size) + np.abs(self.objective)
        count = np.bincount(self.columns, minlength=size)
        n = int(count.max(initial=0)) + self.roundings + 8
        relative = 1.01 * (count + self.roundings + 8) * 2.0**-53
        used = np.bincount(self.columns, weights=weights[self.slots] != 0, minlength=size) > 0
        error = grow(relative * mass + (count + 8) * 4 * TINY, n)
        error = np.where(used, grow(error + self.objective_error, 2), self.objective_error)
        return self.objective - total, error


def monomial_reach(rows: NDArray[np.int32], lower: Array, upper: Array) -> Array:
    """An upper bound on |x^a| for every row a of variable indices (-1 stands for 1), for x between the bounds."""
    largest = np.concatenate([np.maximum(np.abs(lower), np.abs(upper)), [1.0]])
    with np.errstate(invalid="ignore", over="ignore"):
        factors = largest[rows]
        product = grow(np.prod(factors, axis=1), rows.shape[1])
    exact = np.all((factors == 1.0) | (factors == 0.0), axis=1)
    plain = np.prod(np.where(np.isfinite(factors), factors, 1.0), axis=1)
    product = np.where((factors == 0).any(axis=1), 0.0, np.where(exact, plain, product))
    return np.where(np.isnan(product), np.inf, product)


@dataclass(frozen=True, eq=False)
class Absorbed:
    """Weights after the move; the true weight of a slot is within `doubt` of it, for some values that fit together.

    `gamma` is the constant of the identity; `residual` bounds |r| by monomial, that of the constant its error.
    """

    weights: Array
    gamma: float
    residual: Array
    doubt: Array


def nothing_absorbed(identity: SosIdentity, weights: Array) -> Absorbed:
    """The residual as it is."""
    residual, error = identity.residual(weights)
    return _absorbed(identity, weights, residual, error)


def absorb_in_entries(identity: SosIdentity, weights: Array, move: NDArray[np.bool_]) -> Absorbed:
    """Move marked residuals into entries of one monomial, spread evenly; for infinite reach one entry has the rest.

    Columns without such an entry are left to be paid for, which fails where the reach is infinite.
    """
    nothing = np.zeros(0, dtype=np.int64)
    return _in_entries(identity, weights, move, np.zeros(identity.size), np.zeros(len(identity.reach)), nothing)


def _in_entries(
    identity: SosIdentity, weights: Array, move: NDArray[np.bool_], doubt: Array, touched: Array, gone: Index
) -> Absorbed:
    """`absorb_in_entries` of weights with a `doubt`, which changes residuals by `touched`; those of `gone` vanish."""
    residual, error = identity.residual(weights)
    error = np.where(touched > 0, grow(error + touched, 2), error)
    marked = move & (np.abs(residual) + error > 0)
    plain = _plain_terms(identity)
    plain = plain[marked[identity.columns[plain]]]
    if not len(plain):
        return _absorbed(identity, weights, residual, error, gone, doubt)
    slots, columns = identity.slots[plain], identity.columns[plain]
    diagonal = identity.diagonal[slots]
    entries = np.where(diagonal, 1.0, 2.0)  # an off-diagonal slot is two entries of Q
    spread = np.bincount(columns, weights=entries, minlength=len(residual))
    adjusted = weights.copy()
    adjusted[slots] += (residual / np.maximum(spread, 1.0))[columns] * entries
    residual, error = identity.residual(adjusted)
    error = np.where(touched > 0, grow(error + touched, 2), error)
    order = np.argsort(~diagonal, kind="stable")[::-1]  # a diagonal slot wins
    order = order[~np.isfinite(identity.reach[columns[order]])]
    holder = np.full(len(residual), -1, dtype=np.int64)
    holder[columns[order]] = slots[order]
    held = np.flatnonzero(holder >= 0)
    doubt = doubt.copy()
    size = np.abs(residual[held]) + error[held]
    doubt[holder[held]] = grow(doubt[holder[held]] + size, identity.roundings + 6)  # the coefficient there is 1
    return _absorbed(identity, adjusted, residual, error, np.concatenate([gone, held]), doubt)


def absorb_exactly(identity: SosIdentity, weights: Array) -> Absorbed | None:
    """An exact correction for all monomials without a maximum; None where it is not proved to exist."""
    found = _corrected(identity, weights, ~np.isfinite(identity.reach))
    if found is None:
        return None
    weights, doubt, touched, settled = found
    residual, error = identity.residual(weights)
    return _absorbed(identity, weights, residual, grow(error + touched, 2), settled, doubt)


def absorb_in_both(identity: SosIdentity, weights: Array) -> Absorbed | None:
    """An exact correction for monomials that no single entry can take, the others in entries, however many.

    Entries of one monomial change no other monomial, so that the second step leaves the first as it is.
    """
    infinite = ~np.isfinite(identity.reach)
    own = np.zeros(len(infinite), dtype=bool)
    own[identity.columns[_plain_terms(identity)]] = True
    if not np.any(infinite & own) or not np.any(infinite & ~own):
        return None  # one of the others does all
    found = _corrected(identity, weights, infinite & ~own)
    if found is None:
        return None
    weights, doubt, touched, settled = found
    return _in_entries(identity, weights, infinite & own, doubt, touched, settled)


def _corrected(
    identity: SosIdentity, weights: Array, wanted: NDArray[np.bool_]
) -> tuple[Array, Array, Array, Index] | None:
    """Weights, the doubt in them, what it changes by monomial, and the monomials whose residual vanishes exactly."""
    weights = _without_specks(identity, weights)
    inverse = _inverse(identity, (weights != 0).tobytes(), wanted.tobytes())
    if inverse is None:
        return None
    residual, error = identity.residual(weights)
    weights = weights.copy()
    weights[inverse.slots] += inverse.A.T @ (inverse.N @ residual[inverse.rows])
    residual, error = identity.residual(weights)
    size = grow(np.abs(residual[inverse.rows]) + error[inverse.rows], 2)
    delta = inverse.correction(size)
    if delta is None:
        return None
    doubt = np.zeros(identity.size)
    doubt[inverse.slots] = delta
    if any(np.any(weights[rows] < doubt[rows]) for kind, _, rows in identity.parts if kind == "nonnegative"):
        return None
    moved = doubt[identity.slots] * np.abs(identity.coefficients)
    touched = np.bincount(identity.columns, weights=moved, minlength=len(residual)).astype(np.float64)
    terms = int(np.bincount(identity.columns, minlength=1).max(initial=0))
    return weights, doubt, grow(touched, terms + identity.roundings + 4), inverse.settled


def _absorbed(
    identity: SosIdentity,
    weights: Array,
    residual: Array,
    error: Array,
    gone: Index | None = None,
    doubt: Array | None = None,
) -> Absorbed:
    """The weights with the residual that is left: that in the columns `gone` went to the slots with a doubt."""
    constant = float(residual[0])
    left = np.where(error == 0, np.abs(residual), grow(np.abs(residual) + error, 2))  # nothing there is nothing
    left[0] = error[0]
    if gone is not None:
        left[gone] = 0.0
    return Absorbed(weights, constant, left, np.zeros(identity.size) if doubt is None else doubt)


def _plain_terms(identity: SosIdentity) -> Index:
    """Terms that are all of a psd slot, with coefficient one."""
    psd = np.zeros(identity.size, dtype=bool)
    for _, rows in identity.matrices():
        psd[rows] = True
    alone = np.bincount(identity.slots, minlength=identity.size) == 1
    return np.flatnonzero((psd & alone)[identity.slots] & (identity.coefficients == 1.0))


@dataclass(frozen=True, eq=False)
class _Inverse:
    """A (monomials by slots) in floats, with the error of each entry below `relative` times `mass`; and N.

    `settled` are all monomials whose residual vanishes when those of the independent `rows` do.
    """

    settled: Index
    rows: Index
    slots: Index
    A: sparse.csr_array
    mass: sparse.csr_array
    relative: float
    N: Array

    @cached_property
    def distance(self) -> Array:
        """Bounds on the row sums of |I - A R|."""
        N, A = np.abs(self.N), abs(self.A)
        n, k = len(N), int(np.diff(self.A.indptr).max(initial=0))
        G = (self.A @ self.A.T).toarray()
        doubt = (self.relative + gamma(k + 4)) * (self.mass @ A.T).toarray() + (k + 8) * TINY
        far = np.abs(np.eye(n) - G @ self.N) + gamma(n + 4) * (np.abs(G) @ N) + grow(doubt, k + 8) @ N
        return grow(far.sum(axis=1), 3 * n + 16)

    def correction(self, size: Array) -> Array | None:
        """Bounds on |delta| by slot for every residual of at most this size; None where |I - A R| is not below 1."""
        worst = float(self.distance.max(initial=0.0))
        if not worst < 0.5:
            return None
        largest = grow(np.asarray(float(size.max(initial=0.0)) / (1.0 - worst)), 4)
        q = grow(size + self.distance * largest, 4)
        delta = grow(abs(self.A).T @ grow(np.abs(self.N) @ q, len(q)), len(q))
        return np.asarray(delta) if np.all(np.isfinite(delta)) else None


@lru_cache(maxsize=4)
def _inverse(identity: SosIdentity, used: bytes, wanted: bytes) -> _Inverse | None:
    """For the wanted monomials, by the slots that are used (matrices and equalities all)."""
    settled = np.flatnonzero(np.frombuffer(wanted, dtype=bool))
    if not 0 < len(settled) <= MOST_MONOMIALS:
        return None
    adjustable = np.frombuffer(used, dtype=bool).copy()
    for kind, _, rows in identity.parts:
        adjustable[rows] |= kind != "nonnegative"
    place = np.full(len(identity.reach), -1, dtype=np.int64)
    place[settled] = np.arange(len(settled))
    mine = np.flatnonzero((place[identity.columns] >= 0) & adjustable[identity.slots])
    slots, column = np.unique(identity.slots[mine], return_inverse=True)
    at = (place[identity.columns[mine]], column.reshape(-1))
    shape = (len(settled), len(slots))
    A = sparse.csr_array((identity.coefficients[mine], at), shape)
    mass = sparse.csr_array((np.abs(identity.coefficients[mine]), at), shape)
    chosen = np.arange(len(settled))
    if np.linalg.matrix_rank((A @ A.T).toarray(), hermitian=True) < len(settled):
        found = _independent(identity, at, mine, settled)
        if found is None:
            return None
        chosen, A, mass = found, A[found], mass[found]
    try:
        N = np.linalg.inv((A @ A.T).toarray())
    except np.linalg.LinAlgError:
        return None
    most = int(np.bincount(identity.slots, minlength=1).max(initial=0))
    relative = gamma(most + identity.roundings + 8)
    return _Inverse(settled, settled[chosen], slots, A, mass, relative, N) if np.all(np.isfinite(N)) else None


def _independent(identity: SosIdentity, at: tuple[Index, Index], terms: Index, columns: Index) -> Index | None:
    """Rows of A that all others depend on, and the objective likewise; by elimination in fractions.

    None where it does not, where coefficients are rounded, or where there are too many rows for fractions.
    """
    if not identity.exact or len(columns) > MOST_FRACTIONS:
        return None
    objective = len(identity.slots) + identity.size  # a column of its own, behind all slots
    rows: list[dict[int, Fraction]] = [{} for _ in columns]
    for r, s, v in zip(at[0].tolist(), at[1].tolist(), identity.coefficients[terms].tolist(), strict=True):
        rows[r][s] = rows[r].get(s, Fraction(0)) + Fraction(v)
    for r, v in enumerate(identity.objective[columns].tolist()):
        rows[r][objective] = Fraction(v)
    pivots: dict[int, dict[int, Fraction]] = {}
    chosen: list[int] = []
    for r, row in enumerate(rows):
        row = _eliminated({k: v for k, v in row.items() if v}, pivots)
        lead = min(row, default=objective)
        if lead < objective:
            pivots[lead] = {k: v / row[lead] for k, v in row.items()}
            chosen.append(r)
        elif row:
            return None
    return np.array(chosen, dtype=np.int64)


def _eliminated(row: dict[int, Fraction], pivots: dict[int, dict[int, Fraction]]) -> dict[int, Fraction]:
    """The row without the leading columns of earlier rows."""
    while found := [k for k in row if k in pivots]:
        lead = min(found)
        factor = row[lead]
        for k, v in pivots[lead].items():
            value = row.get(k, Fraction(0)) - factor * v
            if value:
                row[k] = value
            else:
                row.pop(k, None)
    return row


def _without_specks(identity: SosIdentity, weights: Array) -> Array:
    """Multipliers of inequalities that are next to nothing become nothing: a correction could change their sign."""
    clean = weights.copy()
    for kind, _, rows in identity.parts:
        if kind == "nonnegative":
            least = SPECK * float(weights[rows].max(initial=0.0))
            clean[rows] = np.where(weights[rows] > least, weights[rows], 0.0)
    return clean
