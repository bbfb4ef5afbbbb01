"""Trees in balls: cells of a region, each leaf with its proof, and sign patterns with their refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.cell import Cell, first_cell, halves, splits_here, whole
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import bounds_of
from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere, Region, ball_of, hull
from lipcert.proof.balls.arithmetic import linear_bound
from lipcert.proof.balls.cells import Bounds, Hint, cell_bounds, proved_slopes
from lipcert.proof.balls.forms import Forms
from lipcert.proof.balls.gradients import Readers, affine_magnitudes
from lipcert.proof.balls.interior import no_interior
from lipcert.proof.balls.nowhere import no_interior as nowhere
from lipcert.proof.balls.numbers import float_above, lengths, zeros
from lipcert.proof.balls.rows import check_multipliers
from lipcert.proof.balls.systems import System
from lipcert.proof.interior import Rows, has_interior, known_signs
from lipcert.proof.leaves import BASIS, BY_LINES, COEFFICIENTS, ROWS, SIDES, Empty, Leaf, are_places
from lipcert.proof.nogoods import Index, Nogoods, refusal
from lipcert.proof.patterns import REFUSED, Patterns, leaves_of
from lipcert.proof.relaxed import Multipliers
from lipcert.proof.tree import Tree, children
from lipcert.rounding import best, worst

_AT_ONCE = 256  # nogoods


def check_tree(problem: Problem, tree: Tree) -> float:
    """The largest of what the leaves prove; the cells follow from the splits, whatever the file says."""
    net, below = problem.network, children(tree.splits)
    if net.depth == 0 or problem.coordinate is not None:
        return math.inf
    if below is None or tree.splits.count(None) != len(tree.leaves):
        return math.inf
    rank = np.cumsum([s is None for s in tree.splits]) - 1
    upper, root = 0.0, first_cell(net, problem.region)
    todo = list[tuple[int, Cell, Hint | None]]([(0, root, _of_ball(problem))])
    while todo:
        node, cell, known = todo.pop()
        split = tree.splits[node]
        batch = None if known is None else tuple(Interval(z.lo[None], z.hi[None]) for z in known)
        bounds = cell_bounds(net, cell, bounds_of(net, [cell], batch).of(0), known)
        if split is None and is_beside(problem.region, cell):
            continue
        if split is None:
            found = check_leaf(problem, cell, bounds, tree.leaves[rank[node]])
            if not math.isfinite(found):
                return math.inf
            upper = worst(upper, found)
        elif not splits_here(cell, split, net):
            return math.inf
        else:
            ends = (int(n) for n in below[node])
            todo += [(n, half, bounds.pre) for n, half in zip(ends, halves(cell, split), strict=True)]
    return upper


def _of_ball(problem: Problem) -> Hint | None:
    """What is known in the first cell where that is the box around a ball."""
    net = problem.network
    if ball_of(problem.region) is None:
        return None
    inside = whole(net, problem.region)
    return cell_bounds(net, inside, bounds_of(net, [inside]).of(0)).pre


def is_beside(region: Region, cell: Cell) -> bool:
    """Whether a box does not meet the ball that the region is part of, in whole numbers over powers of two."""
    ball, box = ball_of(region), hull(cell.region)
    if ball is None or box is None:
        return False
    ends = zip(box.lo.tolist(), ball.center.tolist(), box.hi.tolist(), strict=True)
    away = (max(Fraction(lo) - Fraction(c), Fraction(c) - Fraction(hi), Fraction(0)) for lo, c, hi in ends)
    return sum(d * d for d in away) > Fraction(ball.radius) ** 2


def check_leaf(problem: Problem, cell: Cell, bounds: Bounds, leaf: Leaf) -> float:
    """What a leaf proves on its cell; nothing is to be proved of an empty one."""
    if bounds.empty:
        return 0.0
    if isinstance(leaf, Empty):
        if is_empty(problem, cell, bounds, leaf):
            return 0.0
    elif isinstance(leaf, Multipliers):
        found = _relaxed(problem, cell, bounds.pre, leaf)
        return found if problem.whole_map else best(found, _intervals(problem, bounds.pre))
    elif leaf == BY_LINES:
        return float_above(linear_bound(problem, bounds.pre, proved_slopes(problem.network, bounds.pre), cell.region))
    return math.inf if problem.whole_map else _intervals(problem, bounds.pre)


def _intervals(problem: Problem, pre: Hint) -> float:
    """By intervals and affine forms of the gradient."""
    net = problem.network
    size = affine_magnitudes(Readers(net), proved_slopes(net, pre), problem.c)
    return float_above(lengths(size, problem.norm.dual.p)[()])


def _relaxed(problem: Problem, cell: Cell, pre: Hint, leaf: Multipliers) -> float:
    own = problem.on(cell.region, tuple(pre))
    signs = tuple(s.astype(np.int64) for s in cell.signs)
    try:
        return check_multipliers(own, leaf, replace(leaf.specification, signs=signs))
    except (MethodError, FileFormatError):
        raise
    except InputError:  # rows that overflow
        return math.inf


def is_empty(problem: Problem, cell: Cell, bounds: Bounds, leaf: Empty) -> bool:
    """Whether multiples of the half-spaces are negative on the box, or else that there is no interior."""
    region, given = cell.region, leaf.multipliers
    if isinstance(region, Everywhere):
        c, basis = given.get(COEFFICIENTS), given.get(BASIS)
        if c is None or basis is None or not are_places(basis, len(c)):
            return False
        return nowhere(problem.network, bounds.pre, c, basis.astype(np.int64))
    if ROWS in given:
        rows = leaf.rows(problem.network, region, problem.region)
        return rows is not None and no_interior(problem.network, region, known_signs(bounds.pre), rows)
    weights, neuron, box = given.get(SIDES), bounds.sides.neuron, hull(region)
    if weights is None or box is None or not neuron.size or len(weights) <= neuron.max():
        return False
    own = weights[neuron]
    if not (np.all(np.isfinite(own)) and np.all(own >= 0)):
        return False
    nothing = Forms(zeros(1, len(box.lo)), zeros(1))
    return bool(bounds.sides.combined(nothing, own[None, :]).largest(region)[0] < 0)


def check_patterns(problem: Problem, pre: Hint, proof: Patterns) -> float:
    """The largest of the linear leaves, when all other leaves are refused."""
    if refusal(problem) is not None or not proof.fits(problem):
        return math.inf
    leaves = leaves_of(problem, proof.table)
    if leaves is None or isinstance(problem.region, Everywhere):
        return math.inf
    refused = proof.table[leaves.nodes, 0] == REFUSED
    system, exact = System.over(problem.network, problem.region, pre), Rows.of(problem, pre)
    wanted = np.unique(proof.table[leaves.nodes[refused], 1])
    if len(wanted) and not proof.all_refused(leaves, refused, _proved(proof.nogoods, system, exact, wanted)):
        return math.inf
    slopes, upper = proved_slopes(problem.network, pre), 0.0
    lo, hi = (np.concatenate([s[k] for s in slopes]) for k in (0, 1))
    ends = np.cumsum([len(s.lo) for s in slopes])[:-1]
    for signs in leaves.signs[~refused]:
        low, high = lo.copy(), hi.copy()
        for end in (low, high):
            end[leaves.neurons] = np.where(signs > 0, 1.0, np.where(signs < 0, 0.0, end[leaves.neurons]))
        own = tuple(Interval(*pair) for pair in zip(np.split(low, ends), np.split(high, ends), strict=True))
        upper = worst(upper, float_above(linear_bound(problem, pre, own, Everywhere())))
    return upper


def _proved(nogoods: Nogoods, system: System, exact: Rows, wanted: Index) -> NDArray[np.bool_]:
    """Of every nogood that is wanted whether no set of inputs with interior has its literals' signs."""
    found = np.zeros(nogoods.count, dtype=bool)
    named, solid = nogoods.named(system.neurons, system.cuts), has_interior(system.region)
    for k, literals in nogoods.signs_of(wanted[np.isin(wanted, list(named))], system.neurons, system.cuts):
        found[k] = solid and no_interior(exact.net, exact.region, *exact.named(named[k], literals))
    wanted = wanted[~np.isin(wanted, list(named))]
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        y, t, literals = nogoods.laid_out(system.neurons, some, system.cuts)
        fine = np.all(np.isfinite(y), axis=1) & np.all(np.isfinite(t), axis=1) & np.all(t >= 0, axis=1)
        top = system.largest(y[fine], t[fine], literals[fine])
        found[some[fine]] = np.asarray(top < 0, dtype=bool)
    return found
