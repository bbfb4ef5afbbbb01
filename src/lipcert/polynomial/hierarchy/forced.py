"""Gram entries that the objective forces, and the null vectors they have: facial reduction without a solver.

A moment that occurs in one entry of the relaxation only forces the Gram entry there. If Q_aa = p > 0 and Q_ab = q are
forced, then Q_bb >= q^2 / p. If b^2 occurs on diagonals only and these limits add up to its coefficient in the
objective, all of them are attained: where the limit is zero the row of b vanishes, elsewhere Q vanishes on the null
vector (q, -p) of (a, b), and one element p a + q b takes the place of both. In Rosenbrock's chain this is
x_n - x_(n-1)^2, without which no Gram matrix is definite. Nothing is lost: every Gram matrix has these null vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.entries import Entries, entries_of, without_vanishing
from lipcert.polynomial.hierarchy.model import Block, MomentModel
from lipcert.polynomial.monomials import Index
from lipcert.rounding import Array

NEAR = 1e-9  # relative: sums that are looked at in exact arithmetic


@dataclass(frozen=True, eq=False)
class Forced:
    """By vertex b: the limit q^2 / p, and the vertex a, p and q that give it (-1 and zeros where there is none)."""

    limit: Array
    partner: Index
    p: Array
    q: Array


def reduce_pairs(model: MomentModel) -> MomentModel:
    """The same relaxation on bases without the null vectors that two forced entries show."""
    if model.rules or not model.blocks or any(b.mix is not None for b in model.blocks):
        return model
    entries = without_vanishing(entries_of(model))
    forced = _forced(entries)
    tight = _tight(entries, forced)
    if not len(tight):
        return model
    dead = ~entries.living
    dead[tight[forced.limit[tight] == 0]] = True
    merged: dict[int, int] = {}
    for b in tight[forced.limit[tight] > 0].tolist():
        a = int(forced.partner[b])
        if not {a, b} & {*merged, *merged.values()} and not dead[a] and not dead[b]:
            merged[b] = a
    smaller = replace(model, blocks=_blocks(entries, forced, dead, merged))
    try:
        smaller.conic()
    except InputError:  # the objective is no sum of squares: left to the solver to say
        return model
    return smaller


def _forced(entries: Entries) -> Forced:
    live = entries.alive[entries.slots]
    slots, columns = entries.slots[live], entries.columns[live]
    once = np.bincount(columns, minlength=len(entries.rows)) == 1
    once[entries.scalar] = False
    once[0] = False
    mine = once[columns] & entries.plain[slots] & entries.positive[live]
    known = np.zeros(entries.size, dtype=bool)
    value = np.zeros(entries.size)
    known[slots[mine]] = True
    halves = np.where(entries.left == entries.right, 1.0, 0.5)
    value[slots[mine]] = entries.objective[columns[mine]] * halves[slots[mine]]
    diagonal = entries.diagonal_slots()
    limit, p_of, q_of = np.zeros((3, entries.nodes))
    result = Forced(limit, np.full(entries.nodes, -1, dtype=np.int64), p_of, q_of)
    pairs = np.flatnonzero(known & (entries.left != entries.right) & (value != 0))
    for first, second in ((entries.left, entries.right), (entries.right, entries.left)):
        usable = pairs[known[diagonal[first[pairs]]] & (value[diagonal[first[pairs]]] > 0)]
        a, b = first[usable], second[usable]
        p, q = value[diagonal[a]], value[usable]
        order = np.argsort(q * q / p, kind="stable")  # the largest limit is written last
        a, b, p, q = a[order], b[order], p[order], q[order]
        better = q * q / p > result.limit[b]
        for array, new in ((result.limit, q * q / p), (result.partner, a), (result.p, p), (result.q, q)):
            array[b[better]] = new[better]
    return result


def _tight(entries: Entries, forced: Forced) -> Index:
    """Vertices b whose square's limits add up to its coefficient exactly."""
    live = entries.alive[entries.slots]
    slots, columns = entries.slots[live], entries.columns[live]
    square = entries.plain_diagonal[slots] & entries.positive[live]
    size = len(entries.rows)
    total = np.bincount(columns[square], weights=forced.limit[entries.left[slots[square]]], minlength=size)
    possible = (total > 0) & (np.abs(total - entries.objective) <= NEAR * total)
    possible[columns[~square]] = False
    possible[entries.scalar] = False
    hit = square & possible[columns]
    by_column: dict[int, list[int]] = {}
    for column, node in zip(columns[hit].tolist(), entries.left[slots[hit]].tolist(), strict=True):
        by_column.setdefault(column, []).append(node)
    found = [n for c, nodes in by_column.items() if _exactly(forced, nodes, float(entries.objective[c])) for n in nodes]
    return np.array(sorted(found), dtype=np.int64)


def _exactly(forced: Forced, nodes: list[int], coefficient: float) -> bool:
    parts = [Fraction(float(forced.q[b])) ** 2 / Fraction(float(forced.p[b])) for b in nodes if forced.limit[b] > 0]
    return sum(parts, Fraction(0)) == Fraction(coefficient)


def _blocks(entries: Entries, forced: Forced, dead: NDArray[np.bool_], merged: dict[int, int]) -> tuple[Block, ...]:
    """The blocks with vertices left out and pairs joined."""
    touched = {int(entries.block[b]): (b, a) for b, a in merged.items()}
    blocks: list[Block] = []
    for k, block in enumerate(entries.blocks):
        first, order = int(entries.first[k]), len(block.basis)
        kept = np.flatnonzero(~dead[first : first + order])
        if not len(kept):
            continue
        basis = tuple(block.basis[i] for i in kept.tolist())
        if k not in touched:
            blocks.append(block if len(kept) == order else Block(basis, block.multiplier))
            continue
        mix = np.eye(order)
        for b, a in merged.items():
            if int(entries.block[b]) == k:
                mix[a - first, b - first] = forced.q[b] / forced.p[b]
                mix[a - first, a - first] = 1.0
                if Fraction(mix[a - first, b - first]) * Fraction(float(forced.p[b])) != Fraction(float(forced.q[b])):
                    mix[a - first, [a - first, b - first]] = forced.p[b], forced.q[b]
        rows = [i for i in kept.tolist() if first + i not in merged]
        blocks.append(Block(basis, block.multiplier, mix[rows][:, kept]))
    return tuple(blocks)
