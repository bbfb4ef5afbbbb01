"""From pair constants to certified radii, for all inputs at once.

An input with label r keeps it within eps when score_i - score_r + eps L_ir < 0 for every i [CLMP20]. So the largest
certified eps is the least lead_i / L_ir, where the lead is rounded down and L up, as long as the ball stays in the
region that the constants were proved on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.problem.region import Box, Everywhere
from lipcert.robustness.data import Labels
from lipcert.robustness.scores import class_scores, lead, room_for_another
from lipcert.rounding import Array, add_down, add_up, down

UNDECIDED, CERTIFIED, ATTACKED, MISCLASSIFIED = range(4)
STATUSES = ("undecided", "certified", "attacked", "misclassified")
Codes = NDArray[np.uint8]
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
        """Another class has a score that is proved to be larger, or the label is not the predicted one."""
        return np.asarray(self.labels != self.predicted)

    def stated(self) -> Classified:
        """With leads that another machine, which adds in another order, proves as well."""
        room = room_for_another(self.scores, self.labels)
        lower = np.where(np.isfinite(self.lead), self.lead - room, self.lead)
        return replace(self, lead=np.where(np.isnan(lower), -np.inf, lower))


def classify(net: Network, inputs: Array, labels: Labels | None) -> Classified:
    """Without labels, those that the network predicts count."""
    scores = class_scores(net, inputs)
    predicted = np.argmax(scores.lo / 2 + scores.hi / 2, axis=1).astype(np.int64)
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


def room(inputs: Array, region: Box | Everywhere, radius: float, clip: bool) -> Array:
    """For every input a radius whose ball lies in the region of `shared_region`: at least `radius`, rounded down."""
    if isinstance(region, Everywhere) or clip:  # the part of a ball in the domain is in the region, which is the domain
        return np.full(len(inputs), np.inf)
    below, above = (inputs - region.lo).min(axis=1), (region.hi - inputs).min(axis=1)
    return np.asarray(np.maximum(down(np.minimum(below, above)), radius), dtype=np.float64)


def rival_radii(classified: Classified, constants: Array, reach: Array) -> Array:
    """For every input and rival the largest radius within which the rival stays behind, rounded down; infinite for the
    input's own class. (inputs, classes)

    `constants` is the symmetric matrix of upper L_ij, infinite where none is known; `reach` as from `room`. Zero where
    no radius is: then nothing is certified.
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
