"""The constant on every cell of a box, and the entries of a Jacobian on every cell of a region, in balls.

The cells and the way through them are those of `proof.partition` and `proof.jacobian`. Which entries no path of the
network can make negative, or positive, follows from signs alone and is asked of the ordinary code
(`bounds.jacobian.signed`).
"""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np

from lipcert.bounds.cell import whole
from lipcert.bounds.gradients import ENTRIES_UP_TO, OPEN_UP_TO
from lipcert.bounds.interval import Interval
from lipcert.bounds.jacobian import signed
from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof.arithmetic import Arithmetic
from lipcert.proof.balls.arithmetic import linear_bound, tangent_values
from lipcert.proof.balls.cells import Hint, box_is_proved, cell_bounds, intervals, proved_slopes
from lipcert.proof.balls.check import check, check_cells
from lipcert.proof.balls.curves import value_bounds
from lipcert.proof.balls.gradients import Adjoint, Readers, interval_gradients
from lipcert.proof.balls.maps import Values, interval_norm
from lipcert.proof.balls.numbers import BITS, balls, float_above, lengths, load_flint
from lipcert.proof.cells import Cells, Index, Signs, found_signs, known_values
from lipcert.proof.certificate import CheckedBounds, Mask
from lipcert.proof.jacobian import (
    Bounded,
    EntryQuestion,
    JacobianCertificate,
    cell_of,
    enclosure,
    preactivations_of,
)
from lipcert.proof.partition import BoxQuestion, PartitionCertificate, cover_uppers, preactivations_on
from lipcert.rounding import Array


def cells_with_balls(certificate: PartitionCertificate, net: Network) -> Array:
    """The proved bound of the cell of every claim, infinite where nothing is proved."""
    flint, question = load_flint(), certificate.question
    nothing = np.full(len(certificate.claims), np.inf)
    if certificate.refused(net) is not None:
        return nothing
    boxes = BoxQuestion(net, certificate.region, question.norm, question.c, question.frame)
    with flint.ctx.workprec(BITS), np.errstate(all="ignore"):
        try:
            problem, nodes = boxes.problem, int(certificate.statement.defining_arrays["splits"].size)
            check_cells(problem.network, nodes, 1 + problem.network.outputs * problem.whole_map)
            if not problem.network.depth:
                return np.full(len(nothing), check(problem, Arithmetic("linear")))
            return cover_uppers(boxes, certificate.cover, certificate.of_grid, bounded_boxes_in_balls)
        except (MethodError, FileFormatError):
            raise
        except InputError:  # rows that overflow
            return nothing


def bounded_boxes_in_balls(question: BoxQuestion, boxes: Interval, signs: Signs, leaves: Index) -> tuple[Signs, Array]:
    """The signs that are proved on boxes of the ordinary question, and the proved uppers of some of them."""
    problem, wanted = question.problem, set(leaves.tolist())
    net, hints = problem.network, preactivations_on(question, boxes, signs)[0]
    found, uppers = np.zeros_like(signs), []
    for k in range(len(boxes.lo)):
        box = Box.from_bounds(boxes.lo[k], boxes.hi[k])
        known = tuple(z.rows(0) for z in known_values(net, signs[k : k + 1], 1))
        pre = cell_bounds(net, whole(net, box), tuple(z.rows(k) for z in hints), known).pre
        found[k : k + 1] = found_signs(net, tuple(Interval(z.lo[None], z.hi[None]) for z in pre), signs[k : k + 1])
        if k in wanted:
            uppers.append(_upper(problem, pre, box))
    return found, np.array(uppers)


def _upper(problem: Problem, pre: Hint, box: Box) -> float:
    """By linear bounds of the gradient, and at the ends of few open slopes."""
    slopes = proved_slopes(problem.network, pre)
    return min(float_above(linear_bound(problem, pre, slopes, box)), _at_ends(problem, slopes))


def _at_ends(problem: Problem, slopes: Hint) -> float:
    """The largest norm over the ends of the open slopes, infinite where these are one or many (`bounds.gradients`)."""
    readers, norm, uppers = Readers(problem.network), problem.norm, list[float]()
    for ends in ends_of(slopes, OPEN_UP_TO):
        rows = [interval_gradients(readers, ends, c)[0] for c in np.atleast_2d(problem.c)]
        J = Interval(np.stack([g.lo for g in rows]), np.stack([g.hi for g in rows]))
        plain = norm.out is None
        size = lengths(balls(J.magnitude[0]), norm.dual.p)[()] if plain else interval_norm(J, norm.p, str(norm.out))
        uppers.append(float_above(size))
    return max(uppers, default=np.inf)


def ends_of(slopes: Hint, most: int) -> list[Hint]:
    """All choices of ends of the open slopes; none where more than so many are open, or one."""
    lo, hi = (np.concatenate([s[k] for s in slopes]) for k in (0, 1))
    cuts, places = np.cumsum([len(s.lo) for s in slopes])[:-1], np.flatnonzero(lo < hi)
    if len(places) == 1 or len(places) > most:
        return []
    found = []
    for choice in product((False, True), repeat=len(places)):
        ends = lo.copy()
        ends[places] = np.where(choice, hi[places], lo[places])
        found.append(tuple(Interval(s, s) for s in np.split(ends, cuts)))
    return found


def entries_with_balls(certificate: JacobianCertificate, net: Network) -> CheckedBounds:
    """The proved enclosure of every entry, and which claims about values at points do not hold."""
    flint, claims, scores = load_flint(), certificate.claims, certificate.scores
    nothing = Interval(np.full(claims.lo.shape, -np.inf), np.full(claims.hi.shape, np.inf))
    refused = certificate.refused(net)
    if refused is not None:
        return CheckedBounds(nothing, refused)
    check_cells(net, len(certificate.splits.where) + len(certificate.points), len(scores))
    question, readers = EntryQuestion(net, certificate.region, scores, certificate.inputs), Readers(net)
    with flint.ctx.workprec(BITS), np.errstate(all="ignore"):
        try:
            if not box_is_proved(certificate.region):
                return CheckedBounds(nothing, "the box around the region is not proved by ball arithmetic")
            found = enclosure(question, certificate.splits, claims, partial(bounded_in_balls, readers))
            unseen = certificate.unseen(partial(entries_at, readers, scores))
        except (MethodError, FileFormatError):
            raise
        except InputError as error:  # rows that overflow
            return CheckedBounds(nothing, str(error))
    return CheckedBounds(nothing if found is None else found, unseen=unseen)


def bounded_in_balls(readers: Readers, question: EntryQuestion, cells: Cells, known: Interval, wanted: Mask) -> Bounded:
    """The signs that are proved on some cells, which of them are empty, and the entries that are wanted."""
    net, count = question.network, len(cells)
    hints, before = preactivations_of(question, cells)[0], known_values(net, cells.signs, count) if net.depth else ()
    empty, proved = np.zeros(count, dtype=bool), list[Hint]()
    lo, hi = known.lo.copy(), known.hi.copy()
    for k in range(count):
        cell = cell_of(question, cells, k)
        bounds = cell_bounds(net, cell, _row(hints, k), _row(before, k))
        proved.append(bounds.pre)
        empty[k] = bounds.empty
        if bounds.empty:
            lo[k], hi[k] = np.inf, -np.inf
            continue
        slopes, values = proved_slopes(net, bounds.pre), tangent_values(net, bounds.pre, cell.region)
        for i in np.flatnonzero(wanted[k].any(axis=1)):
            g = _gradient(readers, slopes, np.eye(net.outputs)[question.scores[i]], values)
            lo[k, i], hi[k, i] = np.fmax(lo[k, i], g.lo[question.inputs]), np.fmin(hi[k, i], g.hi[question.inputs])
    pre = tuple(Interval(*(np.stack(ends) for ends in zip(*block, strict=True))) for block in zip(*proved, strict=True))
    signs = found_signs(net, pre, cells.signs) if pre else cells.signs
    return Bounded(signs, empty, Interval(lo, hi), pre, np.zeros(0, dtype=np.int64), None)


def _gradient(readers: Readers, slopes: Hint, c: Array, values: Values | None) -> Interval:
    """By linear forms, and at the ends of few open slopes."""
    gradients = Adjoint(readers, slopes, c, values).gradients
    corners = [interval_gradients(readers, ends, c)[0] for ends in ends_of(slopes, ENTRIES_UP_TO)] if slopes else []
    if corners:
        low, high = np.min([g.lo for g in corners], axis=0), np.max([g.hi for g in corners], axis=0)
        gradients = [gradients[0].meet(Interval(low, high)), *gradients[1:]]
    return _signed(readers.net, slopes, c, gradients)


def _signed(net: Network, slopes: Hint, c: Array, gradients: list[Interval]) -> Interval:
    """The gradient, cut at zero where no path can make it negative, or positive."""
    one = [Interval(s.lo[None], s.hi[None]) for s in slopes]
    return signed(net, one, c[None], [Interval(g.lo[None], g.hi[None]) for g in gradients]).rows(0)


def entries_at(readers: Readers, scores: Index, points: Array) -> Interval:
    """Enclosures of the gradients of these scores next to every point: (points, scores, inputs)."""
    found = [_at(readers, scores, x) for x in points]
    return Interval(np.stack([g.lo for g in found]), np.stack([g.hi for g in found]))


def _at(readers: Readers, scores: Index, x: Array) -> Interval:
    """One point: a neuron whose pre-activation may be zero has either slope."""
    net, point = readers.net, Box.from_bounds(x, x)
    values, pre = [Interval(x, x)], list[Interval]()
    for block in net.hidden:
        pre.append(intervals(block, values, point))
        values.append(value_bounds(block.activation, pre[-1]))
    slopes, rows = proved_slopes(net, tuple(pre)), []
    for score in scores:
        c = np.eye(net.outputs)[score]
        rows.append(_signed(net, slopes, c, interval_gradients(readers, slopes, c)))
    return Interval(np.stack([g.lo for g in rows]), np.stack([g.hi for g in rows]))


def _row(bounds: tuple[Interval, ...], k: int) -> Hint:
    return tuple(z.rows(k) for z in bounds)
