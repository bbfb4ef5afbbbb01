"""The constant on every cell of a box, in balls; the cells and the way through them are those of `proof.partition`."""

from __future__ import annotations

from itertools import product

import numpy as np

from lipcert.bounds.cell import whole
from lipcert.bounds.gradients import OPEN_UP_TO
from lipcert.bounds.interval import Interval
from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof.arithmetic import Arithmetic
from lipcert.proof.balls.arithmetic import linear_bound
from lipcert.proof.balls.cells import Hint, cell_bounds, proved_slopes
from lipcert.proof.balls.check import check
from lipcert.proof.balls.gradients import Readers, interval_gradients
from lipcert.proof.balls.maps import interval_norm
from lipcert.proof.balls.numbers import BITS, balls, float_above, lengths, load_flint
from lipcert.proof.balls.work import check_cells
from lipcert.proof.boxes import BoxQuestion, preactivations_on
from lipcert.proof.cells import Index, Signs, found_signs, known_values
from lipcert.proof.partition import PartitionCertificate, cover_uppers
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
            return cover_uppers(boxes, certificate.cover, certificate.of_grid, bounded_in_balls)
        except (MethodError, FileFormatError):
            raise
        except InputError:  # rows that overflow
            return nothing


def bounded_in_balls(question: BoxQuestion, boxes: Interval, signs: Signs, leaves: Index) -> tuple[Signs, Array]:
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
