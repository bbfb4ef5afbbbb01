"""From pair constants to certified radii, for all inputs at once.

An input with label r keeps it within eps when score_i - score_r + eps L_ir < 0 for every i [CLMP20]. So the largest
certified eps is the least lead_i / L_ir, where the lead is rounded down and L up, as long as the ball stays in the
region that the constants were proved on.

Scores are intervals that hold the exact scores. A network with one output is a binary classifier by its sign [CLMP20]:
its scores are (0, output), class 1 where the output is positive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval, affine_sum
from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.problem.output import OutputChoice
from lipcert.problem.region import Box, Everywhere
from lipcert.robustness.data import Labels
from lipcert.rounding import Array, add_down, add_up, down

UNDECIDED, CERTIFIED, ATTACKED, MISCLASSIFIED = range(4)
STATUSES = ("undecided", "certified", "attacked", "misclassified")
Codes = NDArray[np.uint8]
_CHUNK = 1 << 19  # numbers in one block of the widest layer
NO_DOMAIN = "clip needs a domain to clip to; give domain=(lo, hi) and clip=True"
NO_DOMAIN_TYPED = "--clip needs a domain to clip to; give --clip LO HI, or --domain LO HI with it"


@dataclass(frozen=True, eq=False)
class Classified:
    """Scores of all inputs as intervals, the labels that count, the predicted ones, and the lead over each rival."""

    scores: Interval
    labels: Labels
    predicted: Labels
    lead: Array

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """A mask of the inputs whose label is not the predicted one."""
        return np.asarray(self.labels != self.predicted)

    def portable(self) -> Classified:
        """A copy with leads that another machine, which adds in another order, proves as well."""
        room = rounding_allowance(self.scores, self.labels)
        with np.errstate(invalid="ignore"):  # scores that overflow, or have no bound
            lower = np.where(np.isfinite(self.lead), self.lead - room, self.lead)
        return replace(self, lead=np.where(np.isnan(lower), -np.inf, lower))


def classify(net: Network, inputs: Array, labels: Labels | None) -> Classified:
    """Scores, predictions and leads of all inputs; without labels the predicted classes count as the true ones."""
    scores = class_scores(net, inputs)
    with np.errstate(invalid="ignore"):
        middle = scores.lo / 2 + scores.hi / 2
    predicted = np.argmax(np.where(np.isnan(middle), -np.inf, middle), axis=1).astype(np.int64)
    own = predicted if labels is None else labels
    return Classified(scores, own, predicted, lead(scores, own))


def shared_region(inputs: Array, radius: float, domain: tuple[float, float] | None, clip: bool) -> Box:
    """The box that holds every ball of this radius: around the domain, or around the inputs themselves.

    With `clip` perturbed inputs stay in the domain, and the domain is the region.
    """
    if clip and domain is None:
        raise InputError(NO_DOMAIN, NO_DOMAIN_TYPED)
    size = inputs.shape[1]
    if domain is None:
        lo, hi = inputs.min(axis=0), inputs.max(axis=0)
    else:
        lo, hi = np.full(size, domain[0]), np.full(size, domain[1])
    if clip:
        return Box.from_bounds(lo, hi)
    return Box.from_bounds(add_down(lo, np.full(size, -radius)), add_up(hi, np.full(size, radius)))


def reach_in_region(inputs: Array, region: Box | Everywhere, radius: float, clip: bool) -> Array:
    """A radius for every input whose ball lies in the region of `shared_region`: at least `radius`, rounded down.

    It is infinite where the constants hold for every ball: on the whole space, or if clipped to the domain.
    """
    if isinstance(region, Everywhere) or clip:  # the part of a ball in the domain is in the region, which is the domain
        return np.full(len(inputs), np.inf)
    below, above = (inputs - region.lo).min(axis=1), (region.hi - inputs).min(axis=1)
    return np.asarray(np.maximum(down(np.minimum(below, above)), radius), dtype=np.float64)


def rival_radii(classified: Classified, constants: Array, reach: Array) -> Array:
    """The largest radius, rounded down, within which a rival stays behind the label: an array (inputs, classes).

    It is infinite for the label itself, and zero where no radius is certified. `constants` is the symmetric matrix of
    upper bounds L_ij, infinite where none is known; `reach` is the result of `reach_in_region`.
    """
    upper = constants[classified.labels]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        each = np.where(upper > 0, down(classified.lead / upper), np.inf)
    each = np.where(classified.lead > 0, each, 0.0)  # eps L < lead is false for every eps >= 0
    each = np.where(np.isnan(each) | (np.isinf(upper) & np.isfinite(classified.lead)), 0.0, each)
    each = np.minimum(np.maximum(each, 0.0), reach[:, None])
    each[np.arange(len(each)), classified.labels] = np.inf
    return np.asarray(each, dtype=np.float64)


def certified_radii(classified: Classified, constants: Array, reach: Array) -> Array:
    """The largest certified radius of every input: the least over its rivals."""
    return np.asarray(rival_radii(classified, constants, reach).min(axis=1), dtype=np.float64)


def decide(radius: float, certified: Array, attacked: Array, wrong: NDArray[np.bool_]) -> Codes:
    """The status of every input at one radius, which is positive."""
    status = np.full(len(certified), UNDECIDED, dtype=np.uint8)
    status[attacked <= radius] = ATTACKED
    status[certified >= radius] = CERTIFIED
    status[wrong] = MISCLASSIFIED
    return status


def class_count(net: Network) -> int:
    return max(2, net.outputs)


def pair_output(net: Network, i: int, j: int) -> OutputChoice:
    """The output whose Lipschitz constant is L_ij; that of score_i - score_j and of score_j - score_i is the same."""
    return 0 if net.outputs == 1 else (i, j)


def class_scores(net: Network, points: Array) -> Interval:
    """lo <= scores <= hi for every row of points; (batch, classes)."""
    step = max(1, _CHUNK // max(net.shape))
    parts = [_block(net, points[k : k + step]) for k in range(0, len(points), step)]
    lo, hi = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    if net.outputs == 1:
        lo, hi = (np.concatenate([np.zeros_like(end), end], axis=1) for end in (lo, hi))
    return Interval(lo, hi)


def lead(scores: Interval, labels: Labels) -> Array:
    """A lower bound on score_label - score_i for every i; infinite for the label itself."""
    rows = np.arange(len(labels))
    own = scores.lo[rows, labels][:, None]
    with np.errstate(invalid="ignore", over="ignore"):
        margin = add_down(own, -scores.hi)
        margin = np.where(np.isfinite(own) & np.isfinite(scores.hi), margin, -np.inf)
    margin[rows, labels] = np.inf
    return margin


def rounding_allowance(scores: Interval, labels: Labels) -> Array:
    """The amount by which a lead is lowered before it is stated, for every class.

    A machine that adds in another order encloses the same exact scores, in intervals about as wide. Twice the widths
    of both scores are more than the two can differ by: what is stated here is proved there.
    """
    with np.errstate(all="ignore"):
        width = scores.hi - scores.lo
        return np.asarray(2.0 * (width + width[np.arange(len(labels)), labels][:, None]))


def _block(net: Network, points: Array) -> Interval:
    """Intervals through the network, point by point."""
    xs = [Interval(points, points)]
    with np.errstate(all="ignore"):  # a number that overflows becomes an infinite end
        for block in net.hidden:
            z = affine_sum([(weight, xs[source]) for source, weight in block.terms], block.bias)
            xs.append(Interval(*block.activation.value_bounds(*z)))
        last = net.scores
        return affine_sum([(weight, xs[source]) for source, weight in last.terms], last.bias)
