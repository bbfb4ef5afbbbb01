"""Pairs of signs that a box does not allow: rows (1 + p v_j)(1 + q v_k) <= 0.

Neurons j and k of the first layer cannot have p z_j > 0 and q z_k > 0 at once when some combination
p z_j + lambda q z_k, lambda > 0, is negative on the whole box. Its maximum over a box is a sum of absolute values,
convex in lambda: the search is vectorised over all pairs, and the answer is proved with outward rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.bounds.interval import Interval, affine_interval
from lipcert.problem.region import Box
from lipcert.relaxation.model import AffineForms, Family, Index, Space
from lipcert.rounding import TINY, UNIT, Array, grow

FAMILY = "(1 + p v)(1 + q v') <= 0 for signs that exclude each other"
NEURONS_UP_TO = 200
_STEPS = 40
Layer = tuple[Array, Array, Array]  # weight, bias and slack: z is A x + b up to that
_SIGNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))


def exclusions(space: Space, layer: Layer, box: Box, free: Index, block: str) -> list[Family]:
    """The family of these rows for the free neurons of a first layer, or none."""
    A, b, slack = layer
    p1 = len(b)
    if not 2 <= len(free) <= NEURONS_UP_TO:
        return []
    j, k, kind = excluded_pairs(A[free], b[free], box, slack[free])
    if not len(j):
        return []
    signs = np.array(_SIGNS, dtype=np.float64)[kind]
    v = space[block].matrix
    one = space.constant(np.ones(len(j))).matrix
    first = AffineForms(sparse.csr_array(one + sparse.diags_array(signs[:, 0]) @ v[j]))
    second = AffineForms(sparse.csr_array(one + sparse.diags_array(signs[:, 1]) @ v[k]))
    members = (free[j] * p1 + free[k]) * len(_SIGNS) + kind
    return [Family(FAMILY, first, second, np.zeros(len(j)), False, members, p1 * p1 * len(_SIGNS))]


def excluded_pairs(A: Array, b: Array, box: Box, slack: Array | float = 0.0) -> tuple[Index, Index, Index]:
    """All j < k with the number of the pair of signs that is proved impossible, where z is A x + b up to the slack."""
    slack = np.broadcast_to(np.asarray(slack, dtype=np.float64), b.shape)
    middle, radius = box.lo / 2 + box.hi / 2, box.hi / 2 - box.lo / 2
    j, k = np.triu_indices(len(b), 1)
    found: list[tuple[Index, Index, Index]] = []
    for number, (p, q) in enumerate(_SIGNS):
        first, second = (p * A, p * b), (q * A, q * b)
        likely = _likely(first, second, j, k, middle, radius)
        rate = _best_rate(first, second, j[likely], k[likely], middle, radius)
        more = slack[j[likely]] + rate * slack[k[likely]]
        sure = _proved(first, second, j[likely], k[likely], rate, box, more)
        places = likely[sure]
        found.append((j[places], k[places], np.full(len(places), number)))
    parts = [np.concatenate(column) for column in zip(*found, strict=True)]
    return parts[0], parts[1], parts[2]


Affine = tuple[Array, Array]


def _likely(first: Affine, second: Affine, j: Index, k: Index, middle: Array, radius: Array) -> Index:
    """Pairs that one corner does not refute: the corner that maximises z_j and z_k, each over its reach."""
    (A, b), (B, d) = first, second
    kept: list[Index] = []
    size = np.maximum(np.abs(A) @ radius, TINY)
    for part in np.array_split(np.arange(len(j)), max(1, len(j) * A.shape[1] // 2_000_000)):
        left, right = A[j[part]] / size[j[part], None], B[k[part]] / size[k[part], None]
        corner = middle + radius * np.sign(left + right)
        z = np.einsum("pi,pi->p", A[j[part]], corner) + b[j[part]]
        y = np.einsum("pi,pi->p", B[k[part]], corner) + d[k[part]]
        kept.append(part[(z <= 0) | (y <= 0)])
    return np.concatenate(kept)


def _best_rate(first: Affine, second: Affine, j: Index, k: Index, middle: Array, radius: Array) -> Array:
    """lambda that minimises max over the box of z_j + lambda z_k, by golden sections in log(lambda)."""
    (A, b), (B, d) = first, second
    G, H = A[j] * radius, B[k] * radius
    g, h = A[j] @ middle + b[j], B[k] @ middle + d[k]

    def top(log_rate: Array) -> Array:
        rate = np.exp(log_rate)
        return np.asarray((g + rate * h + np.abs(G + rate[:, None] * H).sum(axis=1)) / (1.0 + rate))

    ratio = np.log(np.maximum(np.abs(G).sum(axis=1), TINY)) - np.log(np.maximum(np.abs(H).sum(axis=1), TINY))
    ratio = np.clip(ratio, -300.0, 300.0)  # a row may be zero
    lo, hi = ratio - 7.0, ratio + 7.0
    golden = (np.sqrt(5.0) - 1.0) / 2.0
    for _ in range(_STEPS):
        a, c = hi - golden * (hi - lo), lo + golden * (hi - lo)
        left = top(a) < top(c)
        lo, hi = np.where(left, lo, a), np.where(left, c, hi)
    return np.asarray(np.exp((lo + hi) / 2))


def _proved(
    first: Affine, second: Affine, j: Index, k: Index, rate: Array, box: Box, slack: Array
) -> NDArray[np.bool_]:
    """Whether z_j + rate z_k + slack < 0 on the whole box, in real arithmetic."""
    if not len(j):
        return np.zeros(0, dtype=bool)
    (A, b), (B, d) = first, second
    W, shift = A[j] + rate[:, None] * B[k], b[j] + rate * d[k]
    top = affine_interval(W, shift, Interval(box.lo, box.hi)).hi
    reach = np.maximum(np.abs(box.lo), np.abs(box.hi))
    size = (np.abs(A[j]) + rate[:, None] * np.abs(B[k])) @ reach + np.abs(b[j]) + rate * np.abs(d[k])
    # What rounding changed in the combination, times the largest |x|.
    error = grow(slack + 4 * UNIT * size + A.shape[1] * TINY * (1.0 + reach.sum()), A.shape[1] + 16)
    return np.asarray(top + error * 1.01 < 0)
