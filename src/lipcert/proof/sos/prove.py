"""Gram matrices and multipliers to a bound: the one place where a conic solution becomes a bound on a polynomial.

For the problem  min f  over a set K and any symmetric Q_k, multipliers lambda_j (>= 0 on inequalities):

    f(x) = gamma + sum_k <Q_k, M_k(x)> + sum_j lambda_j p_j(x) + sum_a r_a x^a,

where at every x in K the matrices M_k(x) = g_k(x) v_k(x) v_k(x)' are semidefinite and p_j(x) >= 0 (or = 0). Whatever
Q and lambda are, the residual r makes this an identity. Hence, when Q_k + diag(shift_k) >= 0 is proved,

    f(x) >= gamma - sum_a |r_a| max_K |x^a| - sum_k sum_i shift_ki max_K M_k(x)_ii.

A residual at a monomial without a known maximum is put into Gram matrices (`absorb`): these then have entries that are
known up to a doubt, and must be proved semidefinite with a shift only where it can be paid for. All sums are rounded
outward.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.proof.sos.absorb import (
    Absorbed,
    Index,
    SosIdentity,
    absorb_exactly,
    absorb_in_both,
    absorb_in_entries,
    nothing_absorbed,
)
from lipcert.rounding import Array, add_down, grow, sum_up
from lipcert.rounding.definite import find_shift, is_positive

__all__ = ["Index", "SosProof", "prove_sos"]

LADDER = tuple(4.0**k for k in range(-26, 4))  # shifts of the entries that can be paid for, relative to the matrix


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


def prove_sos(identity: SosIdentity, z: Array) -> SosProof:
    """The bound from any dual vector z (conic convention: off-diagonal entries times sqrt(2)), however wrong.

    The best of a few: residuals paid for where they are, first moved into the Gram matrices, which may have room, or
    (where monomials have no known maximum) absorbed by an exact correction of them.
    """
    return prove_weights(identity, weights_of(identity, z))


def prove_weights(identity: SosIdentity, weights: Array) -> SosProof:
    """The bound from weights by slot, as `SosProof.weights` keeps them; what is no weight counts as zero."""
    with np.errstate(all="ignore"):
        weights = _sanitise(identity, weights)
        infinite = ~np.isfinite(identity.reach)
        if not infinite.any():
            proof = _prove(identity, nothing_absorbed(identity, weights))
        else:
            proof = _prove(identity, absorb_in_entries(identity, weights, infinite))
            for exact in (absorb_exactly(identity, weights), absorb_in_both(identity, weights)):
                proof = proof if exact is None else _better(proof, _prove(identity, exact))
        everywhere = np.arange(len(infinite)) > 0
        moved = absorb_in_entries(identity, weights, everywhere)
        return proof if moved.weights is weights else _better(proof, _prove(identity, moved))


def _better(first: SosProof, second: SosProof) -> SosProof:
    return second if second.bound > first.bound else first


def _prove(identity: SosIdentity, absorbed: Absorbed) -> SosProof:
    """The bound, once residuals that cannot be paid for are in the Gram matrices."""
    grams = _grams(identity, absorbed.weights)
    shifts = _shifts(identity, grams, absorbed.doubt)
    cost = [np.where(s == 0, 0.0, s * cap) for s, cap in zip(shifts, identity.caps, strict=True)]
    # A residual that is not a number stays one.
    price = np.where(absorbed.residual == 0, 0.0, absorbed.residual * identity.reach)
    total = sum_up(grow(np.concatenate([price, *cost]), 2))
    bound = float(add_down(np.asarray(absorbed.gamma), np.asarray(-total)))
    bound = bound if np.isfinite(total) and np.isfinite(bound) else -np.inf
    blocker = None if np.isfinite(bound) else _blocker(identity, absorbed.residual)
    return SosProof(bound, absorbed.weights, grams, shifts, absorbed.residual, blocker)


def weights_of(identity: SosIdentity, z: Array) -> Array:
    """Weights by slot from a dual vector: off-diagonal entries as 2 Q_ij; zeros where the length is wrong."""
    raw = np.asarray(z, dtype=np.float64).reshape(-1)
    if raw.shape != (identity.size,):
        return np.zeros(identity.size)
    weights = raw.copy()
    for _, rows in identity.matrices():
        weights[rows] = np.where(identity.diagonal[rows], raw[rows], 2.0 * (raw[rows] / np.sqrt(2.0)))
    return weights


def _sanitise(identity: SosIdentity, weights: Array) -> Array:
    """Finite, of the right length, and of the right sign."""
    raw = np.asarray(weights, dtype=np.float64).reshape(-1)
    raw = raw if raw.shape == (identity.size,) else np.zeros(identity.size)
    clean = np.where(np.isfinite(raw) & (np.abs(raw) < 1e100), raw, 0.0)
    for kind, _, rows in identity.parts:
        if kind == "nonnegative":
            clean[rows] = np.maximum(clean[rows], 0.0)
    return clean


def _grams(identity: SosIdentity, weights: Array) -> tuple[Array, ...]:
    """Q_k from the weights; halving is exact."""
    grams: list[Array] = []
    for order, rows in identity.matrices():
        j, i = np.tril_indices(order)
        Q = np.zeros((order, order))
        Q[i, j] = Q[j, i] = np.where(i == j, weights[rows], weights[rows] / 2)
        grams.append(Q)
    return tuple(grams)


def _shifts(identity: SosIdentity, grams: tuple[Array, ...], doubt: Array) -> tuple[Array, ...]:
    """A proved shift for every Gram matrix, whose entries are known up to the doubt of their slots."""
    shifts: list[Array] = []
    for (order, rows), Q, caps in zip(identity.matrices(), grams, identity.caps, strict=True):
        j, i = np.tril_indices(order)
        E = np.zeros((order, order))
        E[i, j] = E[j, i] = np.where(i == j, doubt[rows], doubt[rows] / 2)
        shifts.append(_shift(Q, grow(E.sum(axis=1), order + 2), caps))
    return tuple(shifts)


def _shift(Q: Array, error: Array, caps: Array) -> Array:
    """The least shift that was found; where some cannot be paid for, one of the others alone, if that is enough."""
    payable = np.isfinite(caps)
    if payable.all():
        return find_shift(Q, error)
    if is_positive(Q, np.zeros(len(Q)), error):
        return np.zeros(len(Q))
    largest = float(np.abs(np.diag(Q)).max(initial=0.0))
    for step in LADDER if payable.any() and np.isfinite(largest) else ():
        shift = np.where(payable, step * largest, 0.0)
        if is_positive(Q, shift, error):
            return shift
    return np.full(len(Q), np.inf)


def _blocker(identity: SosIdentity, residual: Array) -> int | None:
    """A monomial of infinite reach, one with a residual if there is one."""
    infinite = np.flatnonzero(~np.isfinite(identity.reach))
    return int(infinite[np.argmax(residual[infinite])]) if len(infinite) else None
