"""The entries of a Jacobian, in balls: on every cell of a region, and next to points.

The cells and the way through them are those of `proof.entries`. Which entries no path of the network can make negative,
or positive, follows from signs alone and is asked of the ordinary code (`bounds.jacobian.signed`).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from lipcert.bounds.gradients import ENTRIES_UP_TO
from lipcert.bounds.interval import Interval
from lipcert.bounds.jacobian import signed
from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.proof.balls.arithmetic import tangent_values
from lipcert.proof.balls.boxes import ends_of
from lipcert.proof.balls.cells import Hint, box_is_proved, cell_bounds, intervals, proved_slopes
from lipcert.proof.balls.curves import value_bounds
from lipcert.proof.balls.gradients import Adjoint, Readers, interval_gradients
from lipcert.proof.balls.maps import Values
from lipcert.proof.balls.numbers import BITS, load_flint
from lipcert.proof.balls.work import check_cells
from lipcert.proof.cells import Cells, Index, found_signs, known_values
from lipcert.proof.certificate import CheckedBounds
from lipcert.proof.entries import Bounded, EntryQuestion, Mask, cell_of, enclosure, preactivations_of
from lipcert.proof.jacobian import JacobianCertificate
from lipcert.rounding import Array


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
