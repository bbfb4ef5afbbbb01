"""Monomials that no sum of squares can use.

If a monomial m^2 is absent from the objective and occurs in the relaxation only on diagonals (as b^2 of some basis
element b), then the Gram entries there sum to zero, hence vanish with their rows: b can leave the basis. Repeated, this
is the Newton polytope's reduction for unconstrained problems [Rez78]. It changes no bound, and without it the Gram
matrices of unbounded problems are never definite.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.assembly import MomentConic
from lipcert.polynomial.hierarchy.model import Block, MomentModel
from lipcert.polynomial.monomials import Index


def reduce_bases(model: MomentModel) -> MomentModel:
    """The same relaxation without basis elements whose Gram rows must vanish."""
    conic = model.conic()
    while (smaller := _once(model, conic)) is not None:
        try:
            conic = smaller.conic()
        except InputError:  # the objective needs a monomial that was dropped: it is no sum of squares
            return model
        model = smaller
    return model


def _once(model: MomentModel, conic: MomentConic) -> MomentModel | None:
    blocks = [k for k, b in enumerate(model.blocks) if b.order > 1]
    psd = [rows for cone, rows in conic.problem.blocks() if cone.kind == "psd"]
    owner = np.full((conic.problem.rows, 2), -1, dtype=np.int64)  # block and basis element of a plain diagonal slot
    for k, rows in zip(blocks, psd, strict=True):
        if model.blocks[k].multiplier is None and model.blocks[k].mix is None:
            order = model.blocks[k].order
            diagonal = rows.start + np.cumsum(np.arange(1, order + 1)) - 1
            owner[diagonal] = np.column_stack([np.full(order, k), np.arange(order)])
    forced = _forced(conic, owner)
    if not len(forced):
        return None
    doomed = {(int(k), int(i)) for k, i in owner[forced]}
    changed = []
    for k, block in enumerate(model.blocks):
        basis = tuple(b for i, b in enumerate(block.basis) if (k, i) not in doomed)
        if basis:
            changed.append(block if len(basis) == len(block.basis) else Block(basis, block.multiplier))  # not mixed
    return replace(model, blocks=tuple(changed))


def _forced(conic: MomentConic, owner: Index) -> Index:
    """Diagonal slots all of whose fellows in the same monomial are diagonal too, the objective being zero there."""
    on_diagonal = (owner[conic.slots, 0] >= 0) & (conic.coefficients > 0)
    size = len(conic.objective)
    others = np.bincount(conic.columns, weights=~on_diagonal, minlength=size)
    empty = (others == 0) & (conic.objective == 0)
    empty[0] = False
    return np.asarray(conic.slots[on_diagonal & empty[conic.columns]], dtype=np.int64)
