"""Trees in balls: each leaf is proved on its cell, or by the signs on its path, or refused by a nogood."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.cell import Cell, first_cell, whole
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import bounds_of, preactivations
from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.problem.problem import FORMS, Problem
from lipcert.problem.region import Everywhere, Region, ball_of, hull
from lipcert.proof.balls.arithmetic import linear_bound
from lipcert.proof.balls.cells import BallBounds, Hint, cell_bounds, proved_slopes
from lipcert.proof.balls.forms import Forms
from lipcert.proof.balls.gradients import Readers, affine_magnitudes
from lipcert.proof.balls.interior import no_interior, no_interior_unbounded
from lipcert.proof.balls.numbers import float_above, lengths, zeros
from lipcert.proof.balls.rows import check_multipliers
from lipcert.proof.balls.systems import BallSystem
from lipcert.proof.interior import Rows, has_interior, known_signs
from lipcert.proof.leaves import (
    BASIS,
    BY_LINES,
    COEFFICIENTS,
    ROWS,
    SIDES,
    Empty,
    Kind,
    Leaf,
    Leaves,
    are_places,
    cell_halves,
)
from lipcert.proof.multipliers import Multipliers
from lipcert.proof.nogoods import Index, Nogoods, refusal
from lipcert.proof.tree import Tree, walk
from lipcert.rounding import Array, best, worst

_AT_ONCE = 256  # nogoods, or cells that are halved together


@dataclass(frozen=True, eq=False)
class BallGroup:
    """Some cells of a walk, and the bounds that are proved on each (None for the first cell, but for a ball)."""

    cells: list[Cell]
    known: list[Hint | None]

    def rows(self, k: Index) -> BallGroup:
        """Some of the cells."""
        return BallGroup([self.cells[int(i)] for i in k], [self.known[int(i)] for i in k])


def check_tree(problem: Problem, pre: Hint, tree: Tree) -> float:
    """The largest bound that the leaves prove; the cells follow from the splits, whatever the file says. `pre` are
    bounds that are proved on the region."""
    net, leaves = problem.network, tree.leaves
    if leaves is None or tree.grid is not None or net.depth == 0 or problem.coordinate is not None:
        return math.inf
    if tree.fault(net, problem.region) is not None or not leaves.fits(problem, tree.count):
        return math.inf
    upper = _under_signs(problem, pre, tree, leaves)
    return worst(upper, _on_cells(problem, tree, leaves)) if math.isfinite(upper) else math.inf


def _on_cells(problem: Problem, tree: Tree, leaves: Leaves) -> float:
    """The largest bound of the leaves that are bounded on their cell."""
    net, upper, wanted = problem.network, 0.0, np.zeros(len(tree.where), dtype=bool)
    wanted[tree.where < 0] = ~leaves.over_signs
    if not wanted.any():
        return 0.0

    def visit(nodes: Index, group: BallGroup) -> BallGroup | None:
        nonlocal upper
        found: list[Hint | None] = []
        for node, cell, known in zip(nodes, group.cells, group.known, strict=True):
            batch = None if known is None else tuple(Interval(z.lo[None], z.hi[None]) for z in known)
            bounds = cell_bounds(net, cell, bounds_of(net, [cell], batch).of(0), known)
            found.append(bounds.pre)
            if wanted[node] and not is_beside(problem.region, cell):
                leaf = leaves.leaf(int(tree.leaf_numbers[node]))
                upper = worst(upper, check_leaf(problem, cell, bounds, leaf))
        return BallGroup(group.cells, found) if math.isfinite(upper) else None

    def halve(group: BallGroup, where: Index, value: Array) -> BallGroup | None:
        both = cell_halves(net, group.cells, where, value)
        return None if both is None else BallGroup(both, [known for known in group.known for _ in range(2)])

    root = BallGroup([first_cell(net, problem.region)], [_at_root(problem)])
    roots = [(np.zeros(1, dtype=np.int64), root)]
    return upper if walk(tree, roots, visit, halve, _AT_ONCE, tree.leading_to(wanted)) else math.inf


def _at_root(problem: Problem) -> Hint | None:
    """Pre-activation bounds that are known of the first cell, which in the box around a ball are those of the ball.

    The bounds of the problem are proved before, and the ordinary checker too begins with them where they were made in a
    way that the certificate names, or are those of the network of the open neurons.
    """
    net = problem.network
    if problem.facts.way != FORMS or problem.facts.origin is not None:
        return preactivations(problem)
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


def check_leaf(problem: Problem, cell: Cell, bounds: BallBounds, leaf: Leaf) -> float:
    """The bound that a leaf proves on its cell: zero on an empty one."""
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


def is_empty(problem: Problem, cell: Cell, bounds: BallBounds, leaf: Empty) -> bool:
    """Whether multiples of the half-spaces are negative on the box, or else that there is no interior."""
    region, given = cell.region, leaf.multipliers
    if isinstance(region, Everywhere):
        c, basis = given.get(COEFFICIENTS), given.get(BASIS)
        if c is None or basis is None or not are_places(basis, len(c)):
            return False
        return no_interior_unbounded(problem.network, bounds.pre, c, basis.astype(np.int64))
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


def _under_signs(problem: Problem, pre: Hint, tree: Tree, leaves: Leaves) -> float:
    """The largest bound of the leaves that need the signs of their path alone, when all refusals are proved."""
    net, region = problem.network, problem.region
    if not leaves.over_signs.any():
        return 0.0
    if refusal(problem) is not None or not tree.cuts_relus_alone(net):
        return math.inf

    def proved(wanted: Index) -> NDArray[np.bool_]:
        return _proved(leaves.nogoods, BallSystem.over(net, region, pre), Rows.of(problem, pre), wanted)

    if not tree.all_refused(net, leaves, proved):
        return math.inf
    slopes, upper = proved_slopes(net, pre), 0.0
    lo, hi = (np.concatenate([s[k] for s in slopes]) for k in (0, 1))
    ends = np.cumsum([len(s.lo) for s in slopes])[:-1]
    for paths in tree.paths(net, leaves.kinds == Kind.SIGNS):
        if paths is None:
            return math.inf
        for signs in paths.signs:
            low, high = lo.copy(), hi.copy()
            for end in (low, high):
                end[paths.neurons] = np.where(signs > 0, 1.0, np.where(signs < 0, 0.0, end[paths.neurons]))
            own = tuple(Interval(*pair) for pair in zip(np.split(low, ends), np.split(high, ends), strict=True))
            upper = worst(upper, float_above(linear_bound(problem, pre, own, Everywhere())))
    return upper


def _proved(nogoods: Nogoods, system: BallSystem, exact: Rows, wanted: Index) -> NDArray[np.bool_]:
    """A mask of the wanted nogoods that are proved: no set of inputs with interior has their literals' signs."""
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
