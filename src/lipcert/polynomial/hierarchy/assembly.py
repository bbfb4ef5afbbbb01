"""From a moment model to a conic program, without a Python loop over entries.

Every constraint is a sum of terms (row of the cone, monomial, coefficient). All terms of all constraints are collected
in three arrays, squares are reduced by the rules, monomials are numbered once: that is how blocks share moments.

`is_exact` says whether the terms were computed without any rounding: short numbers multiply exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.model import FactorProducts, MomentBlock, MomentModel
from lipcert.polynomial.monomials import (
    Index,
    Monomial,
    Rows,
    monomial_of,
    multiply,
    pad,
    reduce_squares,
    rows_of,
    stack,
    unique_rows,
)
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.text import show
from lipcert.rounding import Array, gamma, grow
from lipcert.solver.conic.cones import Cone, ConicProblem, triangle

Terms = tuple[Index, Rows, Array]  # slot, monomial, coefficient


@dataclass(frozen=True, eq=False)
class MomentConic:
    """min c'y + constant over the moments y, and the terms that it was made of.

    Column 0 of `rows`, `objective` and `columns` is the monomial 1, which is no variable of `problem`: variable j is
    moment j + 1. `slots` number the rows of `problem`; a term adds `coefficients` times its monomial to its slot. Each
    coefficient is within `roundings` relative roundings of the exact one, before any summation; `objective_error`
    bounds what rules that merge monomials of the objective have rounded there.
    """

    problem: ConicProblem
    rows: Rows
    objective: Array
    objective_error: Array
    slots: Index
    columns: Index
    coefficients: Array
    roundings: int

    @cached_property
    def monomials(self) -> list[Monomial]:
        """The shared moments, 1 first."""
        return [monomial_of(r) for r in self.rows]

    def moments(self, x: Array) -> Array:
        """Values of all moments, that of 1 first."""
        return np.concatenate([[1.0], x])


def assemble(model: MomentModel) -> MomentConic:
    """The conic program of a model. An objective monomial that no constraint contains is an error: it would be free."""
    zero = _section(model.equalities, (), [p for p in model.products if p.equality])
    scalar = [b for b in model.blocks if b.order == 1]
    matrix = [b for b in model.blocks if b.order > 1]
    some = _section(model.inequalities, scalar, [p for p in model.products if not p.equality])
    blocks = block_terms(matrix)
    goal = (np.zeros(len(model.objective.coefficients), np.int64), model.objective.indices, _signed(model))
    terms, rows = numbered(
        [zero[0], some[0], blocks[0], goal],
        [0, zero[1], zero[1] + some[1], zero[1] + some[1] + blocks[1]],
        model,
    )
    last = zero[1] + some[1] + blocks[1]
    of_objective = terms[0] == last
    objective = _objective(terms[1][of_objective], terms[2][of_objective], len(rows), model)
    kept = tuple(part[~of_objective] for part in terms)
    return _program(kept, (zero[1], some[1]), [b.order for b in matrix], rows, objective, model)


def _objective(columns: Index, values: Array, size: int, model: MomentModel) -> tuple[Array, Array]:
    """Coefficients of the objective by monomial, and a bound on their error: zero unless rules changed it."""
    total = np.bincount(columns, weights=values, minlength=size).astype(np.float64)
    if np.array_equal(np.sort(total[total != 0]), np.sort(_signed(model))):
        return total, np.zeros(size)
    mass = np.bincount(columns, weights=np.abs(values), minlength=size).astype(np.float64)
    n = len(values) + _roundings(model.objective.degree, model)
    return total, grow(gamma(n + 8) * mass, n + 8)


def _signed(model: MomentModel) -> Array:
    return model.objective.coefficients if model.sense == "min" else -model.objective.coefficients


def _width(model: MomentModel) -> int:
    """A degree that no term exceeds before rules are used."""
    of_blocks = [2 * max(map(len, b.basis)) + (b.multiplier.degree if b.multiplier else 0) for b in model.blocks]
    of_products = [int(p.rows.shape[1]) * max((f.degree for f in p.factors), default=0) for p in model.products]
    plain = [p.degree for p in (model.objective, *model.equalities, *model.inequalities)]
    return max([*of_blocks, *of_products, *plain])


def _roundings(width: int, model: MomentModel) -> int:
    """More than the roundings in any coefficient: one per rule used, one per factor of a product."""
    return 4 * max([width, *(int(p.rows.shape[1]) for p in model.products)]) + 8


def _program(
    terms: tuple[Index, Index, Array],
    scalars: tuple[int, int],
    orders: Sequence[int],
    rows: Rows,
    objective: tuple[Array, Array],
    model: MomentModel,
) -> MomentConic:
    """Scale off-diagonal entries, drop scalar rows that vanished, and check that the objective is covered."""
    slots, columns, values = terms
    size = sum(scalars) + sum(map(triangle, orders))
    matrix = sparse.coo_array((values, (slots, columns)), (size, len(rows))).tocsr()
    matrix.eliminate_zeros()
    alive = np.diff(matrix.indptr) > 0
    alive[sum(scalars) :] = True
    place = np.cumsum(alive) - 1
    live = alive[slots]
    slots, columns, values = place[slots[live]], columns[live], values[live]
    matrix = matrix[np.flatnonzero(alive)]
    counts = int(alive[: scalars[0]].sum()), int(alive[scalars[0] : sum(scalars)].sum())
    _check_covered(matrix, rows, objective[0], model)
    scale = np.concatenate([np.ones(sum(counts)), *(_scale(n) for n in orders)])
    scaled = sparse.csc_array(sparse.diags_array(scale) @ matrix)
    cones = [Cone("zero", counts[0]), Cone("nonnegative", counts[1]), *(Cone("psd", n) for n in orders)]
    problem = ConicProblem(
        c=objective[0][1:].copy(),
        A=sparse.csc_array(-scaled[:, 1:]),
        b=np.asarray(scaled[:, [0]].toarray()).reshape(-1),
        cones=tuple(c for c in cones if c.size),
    )
    return MomentConic(problem, rows, *objective, slots, columns, values, _roundings(_width(model), model))


def _check_covered(matrix: sparse.csr_array, rows: Rows, objective: Array, model: MomentModel) -> None:
    seen = np.zeros(len(rows), dtype=bool)
    seen[matrix.indices] = True
    missing = np.flatnonzero((objective != 0) & ~seen)
    missing = missing[missing > 0]
    if len(missing):
        text = show(Polynomial(rows[missing[:1]], np.ones(1)), model.label())
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            f"the objective's monomial {text}{more} occurs in no constraint of the relaxation: "
            "raise the order or the degree, or give cliques that contain it"
        )


def numbered(
    parts: Sequence[Terms], offsets: Sequence[int], model: MomentModel
) -> tuple[tuple[Index, Index, Array], Rows]:
    """All terms with squares reduced and monomials numbered; monomial 0 is 1."""
    slots = np.concatenate([p[0] + o for p, o in zip(parts, offsets, strict=True)])
    values = np.concatenate([p[2] for p in parts])
    rules = {i: (r.coefficient((i,)), r.coefficient(())) for i, r in model.rules.items()}
    rows, factor, source = reduce_squares(stack(p[1] for p in parts), rules)
    one = np.full((1, rows.shape[1]), -1, dtype=np.int32)
    unique, place = unique_rows(np.concatenate([one, rows]))
    return (slots[source], place[1:], values[source] * factor), unique


def _section(
    polynomials: Sequence[Polynomial], blocks: Sequence[MomentBlock], products: Sequence[FactorProducts]
) -> tuple[Terms, int]:
    """Scalar rows: given polynomials, blocks of order one, products."""
    ones, count = block_terms(blocks)
    parts = [polynomial_terms([*polynomials]), ones]
    sizes = [len(polynomials), count]
    for family in products:
        parts.append(product_terms(family))
        sizes.append(len(family.rows))
    return _joined(parts, sizes), sum(sizes)


def block_terms(blocks: Sequence[MomentBlock]) -> tuple[Terms, int]:
    """Entries (i, j), i <= j, of every block, stacked by columns: the terms of multiplier b_i b_j."""
    sizes = np.array([triangle(b.order) for b in blocks], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    alike: dict[tuple[int, int], list[int]] = {}  # blocks of one shape are expanded at once
    plain = [k for k, b in enumerate(blocks) if b.mix is None]
    for k in plain:
        b = blocks[k]
        alike.setdefault((len(b.basis), 0 if b.multiplier is None else len(b.multiplier.coefficients)), []).append(k)
    parts = [_alike([blocks[k] for k in group], starts[group]) for group in alike.values()]
    parts += [_mixed_block(blocks[k], int(starts[k])) for k in sorted(set(range(len(blocks))) - set(plain))]
    return _joined(parts, [0] * len(parts)), int(sizes.sum())


def _alike(blocks: Sequence[MomentBlock], starts: Index) -> Terms:
    """The terms of blocks that have equally many basis elements and equally many terms of the multiplier."""
    order = len(blocks[0].basis)
    basis = rows_of(m for b in blocks for m in b.basis).reshape(len(blocks), order, -1)
    j, i = np.tril_indices(order)
    pairs = np.concatenate([basis[:, i], basis[:, j]], axis=2)
    slots = starts[:, None] + np.arange(len(i))
    multipliers = [b.multiplier for b in blocks if b.multiplier is not None]
    if not multipliers:
        return slots.reshape(-1), pairs.reshape(slots.size, -1), np.ones(slots.size)
    width = max(g.degree for g in multipliers)
    rows = np.stack([pad(g.indices, width) for g in multipliers])
    values = np.stack([g.coefficients for g in multipliers])
    shape = (*slots.shape, rows.shape[1])
    left = np.broadcast_to(pairs[:, :, None, :], (*shape, pairs.shape[2]))
    right = np.broadcast_to(rows[:, None, :, :], (*shape, width))
    expanded = np.concatenate([left, right], axis=3).reshape(math.prod(shape), -1 if pairs.shape[2] + width else 0)
    return (
        np.repeat(slots.reshape(-1), shape[2]),
        expanded,
        np.broadcast_to(values[:, None, :], shape).reshape(-1),
    )


def _joined(parts: Sequence[Terms], sizes: Sequence[int]) -> Terms:
    starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])[: len(parts)].astype(np.int64)
    slots = [p[0] + s for p, s in zip(parts, starts, strict=True)]
    empty = np.zeros(0)
    return (
        np.concatenate([empty.astype(np.int64), *slots]),
        stack([p[1] for p in parts]),
        np.concatenate([empty, *(p[2] for p in parts)]),
    )


def polynomial_terms(polynomials: Sequence[Polynomial]) -> Terms:
    counts = [len(p.coefficients) for p in polynomials]
    return (
        np.repeat(np.arange(len(counts), dtype=np.int64), counts),
        stack([p.indices for p in polynomials]),
        np.concatenate([np.zeros(0), *(p.coefficients for p in polynomials)]),
    )


def _mixed_block(block: MomentBlock, start: int) -> Terms:
    """The terms of a block whose basis consists of polynomials, rows of `mix`."""
    assert block.mix is not None
    basis = rows_of(block.basis)
    j, i = np.tril_indices(block.order)
    slots, i, j, values = _mixed(block.mix, i, j)
    pairs = np.concatenate([basis[i], basis[j]], axis=1)
    if block.multiplier is None:
        return start + slots, pairs, values
    g = block.multiplier
    m = len(g.coefficients)
    products = np.repeat(values, m) * np.tile(g.coefficients, len(pairs))
    return start + np.repeat(slots, m), multiply(pairs, g.indices), products


def _mixed(mix: Array, i: Index, j: Index) -> tuple[Index, Index, Index, Array]:
    """Slot, both monomials and coefficient of every term of the products of the polynomials i and j."""
    counts = (mix != 0).sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    owner, monomial = np.nonzero(mix)
    value = mix[owner, monomial]
    lengths = counts[i] * counts[j]
    slots = np.repeat(np.arange(len(i)), lengths)
    within = np.arange(len(slots)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    left = starts[i][slots] + within // np.maximum(counts[j][slots], 1)
    right = starts[j][slots] + within % np.maximum(counts[j][slots], 1)
    return slots, monomial[left], monomial[right], value[left] * value[right]


def product_terms(family: FactorProducts) -> Terms:
    """Every product expanded term by term; factors are padded to equal length with zero coefficients."""
    length = max((len(f.coefficients) for f in family.factors), default=0)
    width = max((f.degree for f in family.factors), default=0)
    indices = np.full((len(family.factors) + 1, length, width), -1, dtype=np.int32)
    values = np.zeros((len(family.factors) + 1, length))
    for k, f in enumerate(family.factors):
        indices[k, : len(f.coefficients)] = pad(f.indices, width)
        values[k, : len(f.coefficients)] = f.coefficients
    ordered = np.sort(family.rows, axis=1)
    count = (ordered >= 0).sum(axis=1)
    parts: list[Terms] = []
    for k in np.unique(count):
        slots = np.flatnonzero(count == k).astype(np.int64)
        chosen = ordered[slots][:, ordered.shape[1] - k :]
        rows = np.full((len(slots), 1, 0), -1, dtype=np.int32)
        weight = np.ones((len(slots), 1))
        for factor in chosen.T:
            rows, weight = _times(rows, weight, indices[factor], values[factor])
        flat = weight.reshape(-1)
        alive = np.flatnonzero(flat)
        parts.append((np.repeat(slots, weight.shape[1])[alive], rows.reshape(len(flat), -1)[alive], flat[alive]))
    return _joined(parts, [0] * len(parts))


def _times(rows: Rows, weight: Array, other: Rows, values: Array) -> tuple[Rows, Array]:
    """Products of a batch of expanded polynomials with another batch."""
    p, m, w = rows.shape
    k, v = other.shape[1:]
    left = np.broadcast_to(rows[:, :, None, :], (p, m, k, w))
    right = np.broadcast_to(other[:, None, :, :], (p, m, k, v))
    grown = np.concatenate([left, right], axis=3).reshape(p, m * k, w + v)
    return grown, (weight[:, :, None] * values[:, None, :]).reshape(p, m * k)


def _scale(order: int) -> Array:
    """sqrt(2) off the diagonal, in the order of the upper triangle by columns."""
    j, i = np.tril_indices(order)
    return np.where(i == j, 1.0, np.sqrt(2.0))


DIGITS = 53  # binary digits of a float


def is_exact(model: MomentModel) -> bool:
    """Whether every coefficient of the conic program, term by term, and of the objective is exact.

    A product of whole numbers (times powers of two) of a and b digits has at most a + b digits, so it is enough to
    count. Sums are no matter: terms are not summed.
    """
    rules = [rule.coefficients for rule in model.rules.values()]
    return (
        all(_digits(values) <= 1 for values in rules)
        and all(_of_block(block) <= DIGITS for block in model.blocks)
        and all(_of_products(family) <= DIGITS for family in model.products)
    )


def _of_block(block: MomentBlock) -> int:
    of_mix = 1 if block.mix is None else _digits(block.mix)
    return _of_product([of_mix, of_mix, 1 if block.multiplier is None else _digits(block.multiplier.coefficients)])


def _of_products(family: FactorProducts) -> int:
    return _of_product([max((_digits(f.coefficients) for f in family.factors), default=1)] * family.rows.shape[1])


def _of_product(digits: Sequence[int]) -> int:
    """The digits of a product at most: the sum of the factors' digits; powers of two add none."""
    return max(1, sum(d for d in digits if d > 1))


def _digits(values: ArrayLike) -> int:
    """The most binary digits of a number, from its first to its last that is not zero; at least 1."""
    mantissa = np.frexp(np.asarray(values, dtype=np.float64).reshape(-1))[0]
    whole = np.abs(np.ldexp(mantissa, DIGITS)).astype(np.int64)
    whole = whole[whole > 0]
    trailing = np.log2((whole & -whole).astype(np.float64)) if len(whole) else np.zeros(0)
    return int(max(1.0, float((DIGITS - trailing).max(initial=1.0))))
