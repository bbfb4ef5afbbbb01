"""Cuts on two switched quantities a = u b, a' = u' b' whose slopes are 0 or 1: the inequality of Clauser and Horne.

With r = b - a and f = 2 a - b (b with the sign of its slope), for every t > 0 and signs p, q

    2 p a b' + 2 q r f'  <=  t b^2 + b'^2 / t        and the same with a and r exchanged:

one of a and r is zero, the other is b, and f' is b' or -b'. Between vectors, all that a moment matrix knows, the left
side can be 1.41 times as large. The cut is a sum of four products, so it is one row of several terms. It needs no
bounds of b: where the weights of outputs are variables it says what triangles of signs say where they are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.relaxation.model import Index, Relaxation
from lipcert.relaxation.tracked import Tracked, stack
from lipcert.rounding import UNIT, Array, grow

CODES = 8  # exchanged or not, p, q
UP_TO = 400  # the order of the matrix: products of two dense forms cost the solver its sparsity
_STEPS = 16  # of t between two powers of two
_RANGE = 60 * _STEPS
TERMS = 4


@dataclass(frozen=True, eq=False)
class Pairs:
    """a and b of the members of all blocks with factors, in units of b, and their entries of y."""

    a: Tracked
    b: Tracked
    own: Index

    @classmethod
    def of(cls, relaxation: Relaxation) -> Pairs:
        size = relaxation.space.size
        empty = Tracked(sparse.csr_array((0, size)), np.zeros(0))
        a, b, own = [empty], [empty], [np.zeros(0, dtype=np.int64)]
        for name, factors in relaxation.factors.items():
            if factors.pair is not None:
                where = relaxation.space.slices[name]
                a.append(factors.pair[0])
                b.append(factors.pair[1])
                own.append(np.arange(where.start, where.stop))
        return cls(stack(a), stack(b), np.concatenate(own))

    def ranks(self, entries: Index, size: int) -> Index:
        """Where entries of y are among the members, -1 where they are none."""
        rank = np.full(size + 1, -1, dtype=np.int64)
        rank[self.own] = np.arange(len(self.own))
        return rank[entries]


def applies(relaxation: Relaxation) -> bool:
    """For whole maps of moderate size."""
    return relaxation.space.size <= UP_TO and any(name in relaxation.space.slices for name in ("o", "ob"))


def rows(pairs: Pairs, i: Index, j: Index, code: NDArray[np.int64], step: NDArray[np.int64]) -> tuple[Any, Any, Array]:
    """The forms of four terms for every cut, side by side (cut 0's four first), and the right-hand sides.

    2 p a b' + 2 q r f' - t b^2 - b'^2 / t <= 0 holds of the quantities; the forms' errors are paid for.
    """
    exchanged, (p, q), t = code > 4, _signs(code), stretch(step)
    inverse = (1.0 / t) * (1.0 + 4 * UNIT)  # t * inverse >= 1 is what the inequality needs
    a, b, a2, b2 = pairs.a[i], pairs.b[i], pairs.a[j], pairs.b[j]
    r, f2 = b - a, a2.scaled(np.full(len(j), 2.0)) - b2
    chosen = exchanged.astype(np.float64)
    first = _either(chosen, a, r).scaled(2.0 * p)
    second = _either(chosen, r, a).scaled(2.0 * q)
    terms = [(first, b2), (second, f2), (b.scaled(-t), b), (b2.scaled(-inverse), b2)]
    paid = [left.reach * right.error + right.reach * left.error + left.error * right.error for left, right in terms]
    order = np.arange(TERMS * len(i)).reshape(TERMS, len(i)).T.ravel()
    left = sparse.csr_array(sparse.vstack([term[0].matrix for term in terms]))[order]
    right = sparse.csr_array(sparse.vstack([term[1].matrix for term in terms]))[order]
    return left, right, grow(np.sum(paid, axis=0), 16)


def violated(pairs: Pairs, X: Array, budget: int, tolerance: float) -> tuple[Index, Index, Index, Index]:
    """The pairs i < j with a code and a step of t, the most violated first, relative to the largest |b||b'|."""
    G = np.asarray(pairs.b.matrix @ X)
    bb = np.asarray(G @ pairs.b.matrix.T)
    ab = np.asarray(pairs.a.matrix @ G.T)
    aa = np.asarray(np.asarray(pairs.a.matrix @ X) @ pairs.a.matrix.T)
    size = np.sqrt(np.maximum(np.diag(bb), 1e-30))
    scale = np.outer(size, size)
    largest = float(scale.max(initial=0.0))
    places, amounts, codes = [], [], []
    rb = bb - ab  # r b'
    af, rf = 2 * aa - ab, 2 * (ab.T - aa) - rb  # a f', r f'
    upper = np.triu(np.ones(bb.shape, dtype=bool), 1)
    for code in range(1, CODES + 1):
        p, q = (float(sign[0]) for sign in _signs(np.array([code])))
        value = p * ab + q * rf if code <= 4 else p * rb + q * af
        excess = (value - scale) / largest if largest > 0 else np.zeros_like(value)
        flat = np.flatnonzero(upper & (excess > tolerance))
        if len(flat) > budget:
            flat = flat[np.argpartition(excess.ravel()[flat], -budget)[-budget:]]
        places.append(flat)
        amounts.append(excess.ravel()[flat])
        codes.append(np.full(len(flat), code))
    flat, amount, code_of = (np.concatenate(part) for part in (places, amounts, codes))
    best = np.argsort(-amount, kind="stable")[:budget]
    i, j = np.divmod(flat[best], max(len(bb), 1))
    steps = np.rint(_STEPS * np.log2(size[j] / size[i])) if len(i) else np.zeros(0)
    return i, j, code_of[best].astype(np.int64), np.clip(steps, -_RANGE, _RANGE).astype(np.int64)


def stretch(step: NDArray[np.int64]) -> Array:
    """t = (1 + m/16) 2^e of a whole number 16 e + m: a float, exactly, near 2^(step/16)."""
    exponent, rest = np.divmod(step, _STEPS)
    return np.asarray(np.ldexp(1.0 + rest / _STEPS, exponent), dtype=np.float64)


def valid(code: NDArray[np.int64], step: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((code >= 1) & (code <= CODES) & (step >= -_RANGE) & (step <= _RANGE))


def _signs(code: NDArray[np.int64]) -> tuple[Array, Array]:
    """p and q of a code; those above 4 exchange a and r besides."""
    p, q = ((code - 1) // 2 % 2).astype(np.float64), ((code - 1) % 2).astype(np.float64)
    return 1.0 - 2.0 * p, 1.0 - 2.0 * q


def _either(chosen: Array, no: Tracked, yes: Tracked) -> Tracked:
    """Row by row one or the other, exactly."""
    take = sparse.diags_array(chosen) @ yes.matrix + sparse.diags_array(1.0 - chosen) @ no.matrix
    return Tracked(sparse.csr_array(take), np.where(chosen > 0, yes.error, no.error))
