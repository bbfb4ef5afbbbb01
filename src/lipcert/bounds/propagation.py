"""Bound propagation: pre-activation bounds of many cells at once, from the input upward; a plain region is one cell.

    z_i = b_i + sum_j A_ij x_j        intervals, and on bounded regions linear forms in the input (`substitution`)

Each neuron keeps the better of both. Where a sign is fixed the pre-activation is cut at zero before any later block is
computed, and its half-space, as a linear form in x, serves the bounds of all other neurons: every later bound holds on
the cell. Half-spaces of the region serve likewise. A cell on which some interval is empty is empty itself. The bounds
of a cell do not depend on the other cells of its batch.

Bounds of a problem (`preactivations`, `slopes`, `gradients`) are computed once and kept in the problem. All bounds hold
for the exact real arithmetic of the given weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.cell import Cell, Signs, beside, first_cell, whole, with_signs
from lipcert.bounds.choice import chosen_way, forms_pay, zonotope_work
from lipcert.bounds.forms import HalfSpaces, no_sides, pushed, stacked
from lipcert.bounds.gradients import gradient_bounds, gradient_magnitudes, slope_bounds
from lipcert.bounds.interval import Interval, affine_sum, outward, times, widened
from lipcert.bounds.substitution import BoundedBlock, forms_above, longest_side, work
from lipcert.bounds.zonotope import ZonotopePass
from lipcert.problem.blocks import Block, Twins
from lipcert.problem.network import Network
from lipcert.problem.norms import EUCLIDEAN, Norm
from lipcert.problem.problem import FORMS, INTERVALS, Fact, Preactivations, Problem, Way
from lipcert.problem.region import Ball, Polytope, Region, ball_of, check_region, hull, sides_of
from lipcert.rounding import TINY, Array, gamma, grow
from lipcert.steps import RATES, step

if TYPE_CHECKING:  # a checker has no budget
    from lipcert.budget import Budget

# Nominal seconds of bounds between two looks at the budget. With it a limit of 8 s was kept on 45,056 neurons.
BOUNDS_STEP = 0.25

_CELLS = 1 << 17  # numbers in one array of all forms of a batch of cells: it should stay in the cache
_ROWS = 1 << 20  # numbers in one array of the forms of some neurons
MOST_SIDES = 50  # half-spaces of the region that serve the bounds of all neurons: they are tried one after the other

# Improves the bounds of z of a block, given those of the blocks before it.
Better = Callable[[int, tuple[Interval, ...], Interval], Interval]


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of z_1 .. z_m on every cell (leading axis), half-spaces that contain it, and whether it is proved empty.

    `cut_short` says that a budget ended before all linear forms were made: some neurons have plain intervals.
    """

    pre: tuple[Interval, ...]
    sides: HalfSpaces
    empty: NDArray[np.bool_]
    cut_short: bool = False

    def of(self, k: int) -> tuple[Interval, ...]:
        """The pre-activation bounds of one cell, as the relaxations take them."""
        return tuple(z.rows(k) for z in self.pre)

    def rows(self, k: slice | NDArray[np.int64]) -> Bounds:
        """The bounds of some of the cells."""
        return Bounds(tuple(z.rows(k) for z in self.pre), self.sides.rows(k), self.empty[k], self.cut_short)

    def copied(self) -> Bounds:
        """The same numbers in arrays of their own: views would keep a whole batch in memory."""
        pre = tuple(Interval(z.lo.copy(), z.hi.copy()) for z in self.pre)
        return Bounds(pre, self.sides.copied(), self.empty.copy(), self.cut_short)


def joined(pieces: Sequence[Bounds]) -> Bounds:
    """Batches one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    pre = tuple(
        Interval(np.concatenate([z.lo for z in block]), np.concatenate([z.hi for z in block]))
        for block in zip(*(p.pre for p in pieces), strict=True)
    )
    empty = np.concatenate([p.empty for p in pieces])
    return Bounds(pre, stacked([p.sides for p in pieces]), empty, any(p.cut_short for p in pieces))


def box_bounds(net: Network, boxes: Interval, known: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Pre-activation bounds of many boxes (cells, inputs) without signs; see `bounds_of`."""
    batches = _batches(net, np.zeros(len(boxes.lo), dtype=bool), known)
    pieces = [ForwardPass(net, boxes.rows(own)).run(tuple(z.rows(own) for z in known)) for own in batches]
    back = np.argsort(np.concatenate(batches))
    return joined(pieces).rows(back).pre


def bounds_of(net: Network, cells: Sequence[Cell], known: tuple[Interval, ...] | None = None) -> Bounds:
    """Pre-activation bounds of cells of one region; on boxes and balls also by linear forms, of open neurons only.

    `known` are bounds that hold on the cells already, such as those of the cells that they are halves of.
    """
    if known is None:
        step = max(16, _CELLS // longest_side(net.blocks) ** 2)
        return joined([ForwardPass(net, cells[k : k + step]).run() for k in range(0, len(cells), step)])
    batches = _batches(net, with_signs(cells), known)
    pieces = [ForwardPass(net, [cells[k] for k in own]).run(tuple(z.rows(own) for z in known)) for own in batches]
    if len(pieces) == 1:
        return (
            pieces[0] if np.array_equal(batches[0], np.arange(len(cells))) else pieces[0].rows(np.argsort(batches[0]))
        )
    return joined(pieces).rows(np.argsort(np.concatenate(batches)))


def root_bounds(problem: Problem) -> tuple[Cell, Bounds]:
    """The first cell of a tree, with its bounds: in the box around a ball those of the ball, as it alone counts.

    Bounds that a certificate says how to make, and those of the network of the open neurons, are where it begins.
    """
    net, region, facts = problem.network, problem.region, problem.facts
    cell = first_cell(net, region)
    if facts.way != FORMS or facts.origin is not None:
        known: tuple[Interval, ...] | None = tuple(Interval(z.lo[None], z.hi[None]) for z in preactivations(problem))
    else:
        known = None if ball_of(region) is None else bounds_of(net, [whole(net, region)]).pre
    return cell, bounds_of(net, [cell], known)


def tree_bounds(
    net: Network, region: Region, cells: Sequence[Cell], known: tuple[Interval, ...] | None = None
) -> Bounds:
    """`bounds_of` cells of a tree over the region; those that lie beside its ball are empty."""
    bounds = bounds_of(net, cells, known)
    return bounds if ball_of(region) is None else replace(bounds, empty=bounds.empty | beside(region, cells))


def _batches(net: Network, fixed: NDArray[np.bool_], known: tuple[Interval, ...]) -> list[NDArray[np.int64]]:
    """Cells that are bounded together: first those without signs, the ones with few open neurons together.

    In a batch every cell has as many forms as the one with most, and signs cost all of them; `fixed` says which have
    signs.
    """
    most = np.max([np.sum((z.lo < 0) & (z.hi > 0), axis=1) for z in known], axis=0)
    order = np.lexsort((most, fixed))
    longest, batches, start = longest_side(net.blocks), [], 0
    for end in range(1, len(order) + 1):
        last = end == len(order)
        size = 0 if last else (end + 1 - start) * 2 * (int(most[order[end]]) + 1) * longest
        if last or (end - start >= 16 and (size > _CELLS or fixed[order[end]] != fixed[order[start]])):
            batches.append(order[start:end])
            start = end
    return batches


class ForwardPass:
    """One pass from the input upward over a batch of cells, block by block.

    `every` makes linear forms for all neurons, not only where a sign is open or fixed; `forms=False` makes none.
    With `symbols`, zonotopes of at most so many symbols go before the forms. With `joint` the first layer has forms
    too, and all of them are bounded on ball and box together (`LinearForms.largest`).
    An interval in place of cells holds boxes without signs, (cells, inputs).
    """

    def __init__(
        self,
        net: Network,
        cells: Sequence[Cell] | Interval,
        *,
        every: bool = False,
        forms: bool = True,
        symbols: int = 0,
        joint: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self.net, self.every, self.joint, self.budget = net, every, joint, budget
        if isinstance(cells, Interval):
            count, self.box, self.ball, signed = len(cells.lo), cells, None, False
        else:
            count, (self.box, self.ball) = len(cells), _domain(net, cells)
            signed = bool(with_signs(cells).any())
        self.signs: Signs = tuple(np.zeros((1, b.width), dtype=np.int8) for b in net.hidden)
        if signed and not isinstance(cells, Interval):
            self.signs = tuple(_stack([c.signs[k] for c in cells]) for k in range(net.depth))
        bounded = bool(np.isfinite(self.box.lo).all())
        self.forms = forms and bounded
        self.zonotopes = ZonotopePass(net, self.box, self.ball, symbols) if symbols and bounded else None
        self.stages: list[BoundedBlock] = []
        self.sides = no_sides(count, net.inputs) if isinstance(cells, Interval) else _of_regions(net, cells)
        self.fixed = self.sides.count > 0 or signed
        self.empty = np.zeros(count, dtype=bool)
        self.cut_short = False

    def run(self, known: tuple[Interval, ...] | None = None, better: Better | None = None) -> Bounds:
        """The bounds of all blocks; see `bounds_of` for `known`, beside which there may be `better` ones."""
        for k, block in enumerate(self.net.hidden):
            step()
            values = [self.box, *(s.x for s in self.stages)]
            sources = tuple(values[j] for j, _ in block.terms)
            z = self._intervals(block, sources)
            if known is not None:
                z = z.meet(known[k])
            if self.zonotopes is not None:
                z = z.meet(self.zonotopes.preactivation(k + 1, block))
            if self.forms and (self.fixed or self.joint or not _reads_input_only(block)):
                z = self._by_forms(block, z, self.signs[k])
            if better is not None:
                z = better(k, tuple(s.z for s in self.stages), z)
            if self.fixed or known is not None:
                z = self._in_order(z, self.signs[k], block.twins)
            if self.zonotopes is not None:
                self.zonotopes.activate(k + 1, block, z)
            self.stages.append(BoundedBlock(block, z, Interval(*block.activation.value_bounds(*z)), sources))
        return Bounds(tuple(s.z for s in self.stages), self.sides, self.empty, self.cut_short)

    def _intervals(self, block: Block, sources: tuple[Interval, ...]) -> Interval:
        z = affine_sum([(weight, x) for (_, weight), x in zip(block.terms, sources, strict=True)], block.bias)
        if self.ball is not None and _reads_input_only(block):
            z = z.meet(_affine_of_ball(block, self.ball))
        return widened(z, block.slack)

    def _in_order(self, z: Interval, signs: NDArray[np.int8], same: Twins | None) -> Interval:
        """Cut z at zero where a sign is fixed, for all neurons with that kink; ends of empty cells are put in order."""
        lo, hi = np.where(signs > 0, np.maximum(z.lo, 0), z.lo), np.where(signs < 0, np.minimum(z.hi, 0), z.hi)
        lo, hi = (lo, hi) if same is None else same.meet(lo, hi)
        self.empty |= np.any(lo > hi, axis=1)
        return Interval(np.minimum(lo, hi), np.maximum(lo, hi))

    def _by_forms(self, block: Block, z: Interval, signs: NDArray[np.int8]) -> Interval:
        """Better bounds by linear forms in x, on the region and on the half-spaces known so far, own ones included.

        A stable neuron needs no better bound unless `every` is set: its bound stays, also where another cell needs a
        form of the same neuron.
        """
        mine = np.ones(z.lo.shape, dtype=bool) if self.every else ((z.lo < 0) & (z.hi > 0)) | (signs != 0)
        lo, hi = z.lo.copy(), z.hi.copy()
        own_signs = np.broadcast_to(signs, lo.shape)
        before = sum(s.block.width for s in self.stages)
        for own in self._some_neurons(block, mine, bool(signs.any())):
            above = forms_above(block, own, self.stages, self.box)
            rows = np.broadcast_to(own, (len(lo), own.shape[-1]))
            if self.fixed:
                self.sides = self.sides.with_signs(above, np.take_along_axis(own_signs, rows, axis=1), before + rows)
            top = above.largest(self.box, self.ball, self.joint)
            if self.sides.count:
                top = np.minimum(top, pushed(above, self.sides, self.box).largest(self.box, self.ball))
            used, count = np.take_along_axis(mine, rows, axis=1), rows.shape[1]
            low, high = np.take_along_axis(lo, rows, axis=1), np.take_along_axis(hi, rows, axis=1)
            np.put_along_axis(lo, rows, np.where(used, np.maximum(low, -top[:, count:]), low), axis=1)
            np.put_along_axis(hi, rows, np.where(used, np.minimum(high, top[:, :count]), high), axis=1)
        return Interval(lo, hi)

    def _some_neurons(self, block: Block, mine: NDArray[np.bool_], together: bool) -> Iterator[NDArray[np.int64]]:
        """Groups of neurons whose forms fit into memory, until the budget is over; all at once where signs are fixed.

        The groups do not depend on the budget, because a checker has none. Several cells have a row of neurons each.
        """
        most = int(mine.sum(axis=1).max(initial=0))
        neurons = np.flatnonzero(np.any(mine, axis=0))
        if len(mine) > 1 and most < len(neurons) and all(isinstance(w, np.ndarray) for _, w in block.terms):
            yield np.argsort(~mine, axis=1, kind="stable")[:, :most]
            return
        below = [s.block for s in self.stages]
        operations, kind = work(block, below)
        step = max(1, _ROWS // (2 * len(self.empty) * longest_side([block, *below])))
        step = max(1, min(step, int(BOUNDS_STEP * RATES[kind] / (operations * len(self.empty)))))
        for start in range(0, len(neurons), len(neurons) if together else step):
            own = neurons if together else neurons[start : start + step]
            if self.budget is None:
                yield own
            elif self.budget.over():
                self.cut_short = True
                return
            else:
                with self.budget.measured(operations * len(own) * len(self.empty), kind):
                    yield own


def _domain(net: Network, cells: Sequence[Cell]) -> tuple[Interval, Ball | None]:
    """The boxes around the cells, infinite where there is none, and the ball that all of them lie in."""
    boxes = [hull(c.region) for c in cells]
    if any(box is None for box in boxes):
        shape = (len(cells), net.inputs)
        return Interval(np.full(shape, -np.inf), np.full(shape, np.inf)), None
    lo, hi = (_stack([getattr(box, end) for box in boxes]) for end in ("lo", "hi"))
    ball = ball_of(cells[0].region)
    return Interval(lo, hi), ball if ball is not None and all(ball_of(c.region) == ball for c in cells) else None


def _of_regions(net: Network, cells: Sequence[Cell]) -> HalfSpaces:
    """The half-spaces of the regions of cells, numbered after all neurons; where these differ there are none."""
    first = sides_of(cells[0].region)
    if first is None or not all(_same_sides(first, sides_of(c.region)) for c in cells):
        return no_sides(len(cells), net.inputs)
    H, h = (np.broadcast_to(end, (len(cells), *end.shape)) for end in (-first.A[:MOST_SIDES], first.b[:MOST_SIDES]))
    return HalfSpaces(H, h, np.broadcast_to(net.neurons + np.arange(h.shape[1]), h.shape))


def _same_sides(one: Polytope, other: Polytope | None) -> bool:
    if other is None:
        return False
    return other.A is one.A or (np.array_equal(other.A, one.A) and np.array_equal(other.b, one.b))


def _stack(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)


def _reads_input_only(block: Block) -> bool:
    return all(j == 0 for j, _ in block.terms)


def _affine_of_ball(block: Block, ball: Ball) -> Interval:
    """z = W c + b up to the radius times the Euclidean norm of each row, and rounding as for a box."""
    weight, n = block.terms[0][1], len(ball.center)
    g = gamma(n + 4)
    with np.errstate(over="ignore", invalid="ignore"):
        z = times(ball.center, weight) + block.bias
        rounding = times(g * np.abs(ball.center) + TINY, abs(weight)) + g * np.abs(block.bias)
        return outward(z, grow(EUCLIDEAN.rows_above(weight) * ball.radius + rounding, n + 8))


def preactivations(problem: Problem, budget: Budget | None = None) -> tuple[Interval, ...]:
    """Bounds of z_1 .. z_m for every input of the region, kept in the problem with the way in which they were made.

    With a budget the cheapest way is taken (`chosen_way`); without one all neurons have linear forms. Where the budget
    ends early the neurons that remain have plain intervals, and `cut_short` says so: whoever checks a proof computes
    without a budget, so a proof that needs the checker's bounds cannot be made with these.
    """
    known = problem.facts.preactivations
    if known is None:
        net, region = problem.network, problem.region
        way = FORMS if budget is None else chosen_way(net, region, budget)
        found, way = in_way(net, region, way, budget)
        known = problem.facts.preactivations = Preactivations(found.of(0), looser=found.cut_short, way=way)
    return known.intervals


def made_in(problem: Problem, way: Way) -> Problem:
    """The problem with bounds that are made in this way, as a checker makes them."""
    found, _ = in_way(problem.network, problem.region, way)
    return problem.on(problem.region, found.of(0), way=way)


def in_way(net: Network, region: Region, way: Way, budget: Budget | None = None) -> tuple[Bounds, Way]:
    """Bounds on the region made in this way, and the way in which they are made again.

    That has as many symbols as there were, where that is fewer, and no forms where the budget ends before all of them
    are made.
    """
    check_region(region, net.inputs)
    cells = [whole(net, region)]
    if not way.symbols:
        return ForwardPass(net, cells, every=True, forms=way.forms, budget=budget).run(), way
    first = ForwardPass(net, cells, forms=False, symbols=way.symbols)
    operations, kind = zonotope_work(net, way.symbols)
    with nullcontext() if budget is None else budget.measured(operations, kind) as count:
        found = first.run()
        used = 1 if first.zonotopes is None else max(1, first.zonotopes.used)
        if count is not None:
            count.operations = zonotope_work(net, used)[0]
    way = replace(way, symbols=min(way.symbols, used))
    if way.forms and (budget is None or forms_pay(net, found.of(0), budget)):
        better = ForwardPass(net, cells, every=_all_smooth(net), budget=budget).run(found.pre)
        if not better.cut_short:
            return better, way
    return found, replace(way, forms=False)


def _all_smooth(net: Network) -> bool:
    """Whether every neuron is in doubt, whatever its sign is: then all of them have forms."""
    return any(not f.piecewise_linear for f in net.activations)


def plain(problem: Problem) -> Problem:
    """The same problem with plain intervals in place of the best pre-activation bounds: a few products per block."""
    return made_in(problem, INTERVALS)


def cut_short(problem: Problem) -> bool:
    """Whether the pre-activation bounds kept in the problem are not the best because a budget ended."""
    known = problem.facts.preactivations
    return known is not None and known.looser


@Fact
def slopes(problem: Problem) -> tuple[Interval, ...]:
    """Bounds of the activations' derivatives on the region, block by block, kept in the problem."""
    return slope_bounds(problem.network, preactivations(problem))


@Fact
def gradients(problem: Problem) -> tuple[Interval, ...]:
    """Bounds of the gradient of c'scores with respect to x_0 .. x_m on the region, kept in the problem; one output."""
    return gradient_bounds(problem.network, preactivations(problem), problem.c, slopes(problem))


def preactivation_bounds(
    net: Network, region: Region, *, backward: bool = True, budget: Budget | None = None
) -> tuple[Interval, ...]:
    """Pre-activation bounds of a network on a region; `backward=False` makes plain intervals only."""
    return in_way(net, region, Way(forms=backward), budget)[0].of(0)


def interval_uppers(net: Network, bounds: Bounds, norm: Norm, c: Array) -> Array:
    """The bound of the gradient's dual norm on every cell from bounds of its entries, zero on empty cells."""
    magnitudes = gradient_magnitudes(net, bounds.pre, c)
    return np.where(bounds.empty, 0.0, [norm.dual.above(row) for row in magnitudes])
