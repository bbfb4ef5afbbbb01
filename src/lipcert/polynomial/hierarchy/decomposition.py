"""The SOS side of a relaxation, readable:   f - gamma  =  sum_k g_k sum_l q_kl^2  +  sum_j lambda_j p_j   (SOS-d).

The squares come from eigenvectors of the proved Gram matrices and are floating-point numbers, so that the identity
holds up to rounding: this is to look at; the proof is the certificate's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.polynomial.hierarchy.assembly import MomentConic
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.monomials import rows_of
from lipcert.polynomial.polynomial import Polynomial, total
from lipcert.proof.sos import SosProof
from lipcert.rounding import Array


@dataclass(frozen=True, eq=False)
class SosDecomposition:
    """`sums`: pairs (g_k, squares q_kl), g_k = 1 for plain moment matrices; `multipliers`: pairs (lambda_j, p_j)."""

    gamma: float
    sums: tuple[tuple[Polynomial, tuple[Polynomial, ...]], ...]
    multipliers: tuple[tuple[float, Polynomial], ...]

    def right_hand_side(self) -> Polynomial:
        """gamma + sum g q^2 + sum lambda p, multiplied out."""
        parts = [g * total(q * q for q in squares) for g, squares in self.sums if squares]
        parts += [value * p for value, p in self.multipliers]
        return total([Polynomial.constant(self.gamma), *parts])


def decompose(model: MomentModel, conic: MomentConic, proof: SosProof, scale: Array, factor: float) -> SosDecomposition:
    """The identity of a proof in the problem's own variables; `model` and `conic` are scaled, f times `factor`.

    For a maximisation it is that of -f.
    """
    back = 1.0 / scale
    blocks = [b for b in model.blocks if b.order > 1]
    sums: list[tuple[Polynomial, tuple[Polynomial, ...]]] = []
    for block, Q in zip(blocks, proof.grams, strict=True):
        g = Polynomial.constant(1.0) if block.multiplier is None else block.multiplier.rescale(back)
        values, vectors = np.linalg.eigh(Q)
        rows = rows_of(block.basis)
        vectors = vectors if block.mix is None else block.mix.T @ vectors
        kept = [(v, q) for v, q in zip(values, vectors.T, strict=True) if v > 0]
        sums.append((g, tuple(Polynomial(rows, np.sqrt(v / factor) * q).rescale(back) for v, q in kept)))
    scalar = sum(cone.size for cone in conic.problem.cones if cone.kind != "psd")
    order = np.argsort(conic.slots, kind="stable")
    edges = np.searchsorted(conic.slots[order], np.arange(scalar + 1))
    multipliers = []
    for s in np.flatnonzero(proof.weights[:scalar]):
        mine = order[edges[s] : edges[s + 1]]
        p = Polynomial(conic.rows[conic.columns[mine]], conic.coefficients[mine]).rescale(back)
        multipliers.append((float(proof.weights[s] / factor), p))
    return SosDecomposition(proof.bound / factor, tuple(sums), tuple(multipliers))
