"""Gram matrices and multipliers to a bound: the one place where a conic solution becomes a bound on a polynomial.

For the problem  min f  over a set K and any symmetric Q_k, multipliers lambda_j (>= 0 on inequalities):

    f(x) = gamma + sum_k <Q_k, M_k(x)> + sum_j lambda_j p_j(x) + sum_a r_a x^a,

where at every x in K the matrices M_k(x) = g_k(x) v_k(x) v_k(x)' are semidefinite and p_j(x) >= 0 (or = 0). Whatever
Q and lambda are, the residual r makes this an identity. Hence, when Q_k + diag(shift_k) >= 0 is proved,

    f(x) >= gamma - sum_a |r_a| max_K |x^a| - sum_k sum_i shift_ki max_K M_k(x)_ii.

A residual at a monomial without a known maximum is put into a Gram matrix whose entries contain that monomial: Q_k then
has an uncertain entry, and must be proved semidefinite with no shift. All sums are rounded outward.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.rounding import TINY, Array, add_down, grow, sum_up
from lipcert.rounding.definite import find_shift, is_positive

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Identity:
    """What stands next to Q and lambda in the identity, as terms.

    Slot s is a row of the cones in order: "zero" and "nonnegative" of `size` rows, "psd" of order `size` with its upper
    triangle by columns. A term adds coefficient times monomial to the slot's polynomial; monomial 0 is the constant 1.
    Each coefficient is within `roundings` relative roundings of the exact one, the objective within `objective_error`.
    `reach` >= |x^a| on K, or infinite.
    """

    objective: Array
    objective_error: Array
    slots: Index
    columns: Index
    coefficients: Array
    roundings: int
    cones: tuple[tuple[str, int], ...]
    reach: Array


@dataclass(frozen=True, eq=False)
class SosProof:
    """The identity's right-hand side and the bound that it proves (-inf when it proves none).

    `weights` are lambda and the entries of Q by slot (off-diagonal ones doubled); `residual` bounds |r| by monomial.
    `blocker` is a monomial whose residual or shift could not be paid for.
    """

    bound: float
    weights: Array
    grams: tuple[Array, ...]
    shifts: tuple[Array, ...]
    residual: Array
    blocker: int | None = None


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


def prove_sos(identity: Identity, z: Array) -> SosProof:
    """The bound from any dual vector z (conic convention: off-diagonal entries times sqrt(2)), however wrong.

    The better of two: residuals paid for where they are, or first moved into the Gram matrices, which may have room.
    """
    with np.errstate(all="ignore"):
        weights = _sanitise(identity, z)
        infinite = ~np.isfinite(identity.reach)
        proof = _prove(identity, weights, infinite)
        if len(_plain_terms(identity)):
            moved = _prove(identity, weights, np.arange(len(infinite)) > 0)
            proof = moved if moved.bound > proof.bound else proof
    return proof


def _prove(identity: Identity, weights: Array, move: NDArray[np.bool_]) -> SosProof:
    """The bound from weights by slot, with the residuals marked in `move` put into Gram matrices beforehand."""
    weights, holders = _absorb(identity, weights, move)
    residual, error = _residual(identity, weights)
    grams, caps = _grams(identity, weights), _caps(identity)
    absorbed = {slot: abs(float(residual[c])) + float(error[c]) for c, slot in holders.items()}
    shifts = _shifts(identity, grams, caps, absorbed)
    cost = [np.where(s == 0, 0.0, s * cap) for s, cap in zip(shifts, caps, strict=True)]
    gamma = float(residual[0])
    residual = grow(np.abs(residual) + error, 2)
    residual[0] = error[0]
    residual[list(holders)] = 0.0
    bound = _total(identity, gamma, residual, cost)
    blocker = None if np.isfinite(bound) else _blocker(identity, residual)
    return SosProof(bound, weights, grams, shifts, residual, blocker)


def _sanitise(identity: Identity, z: Array) -> Array:
    """Weights by slot: finite, of the right sign and length, off-diagonal entries as 2 Q_ij."""
    parts = _cone_slots(identity)
    size = parts[-1][1].stop if parts else 0
    raw = np.asarray(z, dtype=np.float64).reshape(-1)
    raw = raw if raw.shape == (size,) else np.zeros(size)
    clean = np.where(np.isfinite(raw) & (np.abs(raw) < 1e100), raw, 0.0)
    for (kind, order), rows in parts:
        if kind == "nonnegative":
            clean[rows] = np.maximum(clean[rows], 0.0)
        elif kind == "psd":
            j, i = np.tril_indices(order)
            clean[rows] = np.where(i == j, clean[rows], 2.0 * (clean[rows] / np.sqrt(2.0)))
    return clean


def _residual(identity: Identity, weights: Array) -> tuple[Array, Array]:
    """r = f - sum of weighted terms, monomial by monomial, and a bound on its rounding error."""
    size = len(identity.objective)
    terms = weights[identity.slots] * identity.coefficients
    total = np.bincount(identity.columns, weights=terms, minlength=size)
    mass = np.bincount(identity.columns, weights=np.abs(terms), minlength=size) + np.abs(identity.objective)
    count = np.bincount(identity.columns, minlength=size)
    n = int(count.max(initial=0)) + identity.roundings + 8
    relative = 1.01 * (count + identity.roundings + 8) * 2.0**-53
    used = np.bincount(identity.columns, weights=weights[identity.slots] != 0, minlength=size) > 0
    error = grow(relative * mass + (count + 8) * 4 * TINY, n)
    error = np.where(used, grow(error + identity.objective_error, 2), identity.objective_error)
    return identity.objective - total, error


def _absorb(identity: Identity, weights: Array, move: NDArray[np.bool_]) -> tuple[Array, dict[int, int]]:
    """Move marked residuals into plain Gram entries, spread evenly; and for infinite reach one slot for what remains.

    Columns without such an entry are left to be paid for, which fails where the reach is infinite.
    """
    residual, error = _residual(identity, weights)
    marked = move & (np.abs(residual) + error > 0)
    if not marked.any():
        return weights, {}
    plain = _plain_terms(identity)
    plain = plain[marked[identity.columns[plain]]]
    slots, columns = identity.slots[plain], identity.columns[plain]
    diagonal = _diagonal(identity)[slots]
    entries = np.where(diagonal, 1.0, 2.0)  # an off-diagonal slot is two entries of Q
    spread = np.bincount(columns, weights=entries, minlength=len(residual))
    adjusted = weights.copy()
    adjusted[slots] += (residual / np.maximum(spread, 1.0))[columns] * entries
    order = np.argsort(~diagonal, kind="stable")[::-1]  # a diagonal slot wins
    order = order[~np.isfinite(identity.reach[columns[order]])]
    return adjusted, dict(zip(columns[order].tolist(), slots[order].tolist(), strict=True))


def _plain_terms(identity: Identity) -> Index:
    """Terms that are all of a psd slot, with coefficient one."""
    parts = _cone_slots(identity)
    size = parts[-1][1].stop if parts else 0
    psd = np.zeros(size, dtype=bool)
    for (kind, _), rows in parts:
        psd[rows] = kind == "psd"
    alone = np.bincount(identity.slots, minlength=size) == 1
    return np.flatnonzero((psd & alone)[identity.slots] & (identity.coefficients == 1.0))


def _grams(identity: Identity, weights: Array) -> tuple[Array, ...]:
    """Q_k from the weights; halving is exact."""
    grams: list[Array] = []
    for (kind, order), rows in _cone_slots(identity):
        if kind == "psd":
            j, i = np.tril_indices(order)
            Q = np.zeros((order, order))
            Q[i, j] = Q[j, i] = np.where(i == j, weights[rows], weights[rows] / 2)
            grams.append(Q)
    return tuple(grams)


def _shifts(
    identity: Identity, grams: tuple[Array, ...], caps: tuple[Array, ...], absorbed: dict[int, float]
) -> tuple[Array, ...]:
    """A proved shift for every Gram matrix; matrices that hold a residual carry its uncertainty."""
    blocks = [rows for (kind, _), rows in _cone_slots(identity) if kind == "psd"]
    shifts: list[Array] = []
    for Q, cap, rows in zip(grams, caps, blocks, strict=True):
        j, i = np.tril_indices(len(Q))
        error = np.zeros(len(Q))
        for slot in (s for s in absorbed if rows.start <= s < rows.stop):
            a, b = int(i[slot - rows.start]), int(j[slot - rows.start])
            for e in {a, b}:
                error[e] += absorbed[slot] if a == b else absorbed[slot] / 2
        shifts.append(_shift(Q, grow(error, len(Q) + identity.roundings), cap))
    return tuple(shifts)


def _shift(Q: Array, error: Array, caps: Array) -> Array:
    """No shift where it cannot be paid for and is not needed; else the least that was found."""
    if not np.all(np.isfinite(caps)) and is_positive(Q, np.zeros(len(Q)), error):
        return np.zeros(len(Q))
    return find_shift(Q, error)


def _caps(identity: Identity) -> tuple[Array, ...]:
    """Upper bounds on the diagonal entries of every M_k over K."""
    parts = _cone_slots(identity)
    sizes = np.abs(identity.coefficients) * identity.reach[identity.columns]
    size = parts[-1][1].stop if parts else 0
    count = int(np.bincount(identity.slots, minlength=1).max(initial=0))
    by_slot = np.bincount(identity.slots, weights=sizes, minlength=size).astype(np.float64)
    by_slot = grow(by_slot, count + identity.roundings)
    return tuple(
        by_slot[rows.start + np.cumsum(np.arange(1, order + 1)) - 1] for (kind, order), rows in parts if kind == "psd"
    )


def _total(identity: Identity, gamma: float, residual: Array, cost: list[Array]) -> float:
    """gamma - sum |r| reach - sum shift cap, rounded down."""
    price = np.where(residual == 0, 0.0, residual * identity.reach)  # what is no number stays so
    total = sum_up(grow(np.concatenate([price, *cost]), 2))
    bound = float(add_down(np.asarray(gamma), np.asarray(-total)))
    return bound if np.isfinite(total) and np.isfinite(bound) else -np.inf


def _blocker(identity: Identity, residual: Array) -> int | None:
    """A monomial of infinite reach, one with a residual if there is one."""
    infinite = np.flatnonzero(~np.isfinite(identity.reach))
    return int(infinite[np.argmax(residual[infinite])]) if len(infinite) else None


def _diagonal(identity: Identity) -> NDArray[np.bool_]:
    """Which slots are on the diagonal of a psd cone."""
    parts = _cone_slots(identity)
    marks = np.zeros(parts[-1][1].stop if parts else 0, dtype=bool)
    for (kind, order), rows in parts:
        if kind == "psd":
            marks[rows.start + np.cumsum(np.arange(1, order + 1)) - 1] = True
    return marks


def _cone_slots(identity: Identity) -> list[tuple[tuple[str, int], slice]]:
    parts: list[tuple[tuple[str, int], slice]] = []
    start = 0
    for kind, size in identity.cones:
        stop = start + (size * (size + 1) // 2 if kind == "psd" else size)
        parts.append(((kind, size), slice(start, stop)))
        start = stop
    return parts
