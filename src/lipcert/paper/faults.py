"""Why a published value differs from ours: what is known of the publication, and what our own numbers prove."""

from __future__ import annotations

from lipcert.paper.entries import HR1, HR2, LBS, LIPOPT4, Entry, Random
from lipcert.paper.estimators import Estimate

DROPPED = "monomials were dropped: not an upper bound"
POSITIVE_SIGNS = "computed with t in [0,1]: not an upper bound"
BELOW_LOWER = "published value is below the norm of a gradient there"
BELOW_OPTIMUM = "published value is below the optimum of its own program"
ABOVE = "the same method proves less here: the published program was looser or not solved to its end"
OTHER_POINTS = "other random points: the paper's are not known"
MIXED = "mixed statistics: HR-2 is a mean of ten networks, the others are network 0"
OTHER_NETWORK = "another network than the paper's, which is not published"
_SLACK = 1e-5  # six decimals were published, of solvers that end a little above or below an optimum


def known_fault(entry: Entry) -> str:
    """What is wrong with the published value whatever we compute; empty when nothing is known."""
    network = entry.network
    if not isinstance(network, Random):
        return ""
    if entry.method == LIPOPT4 and network.layers == 1 and network.sparsity == 4:
        return DROPPED
    if entry.method in (HR1, HR2) and network.layers == 2:
        return POSITIVE_SIGNS
    return ""


def proved_fault(value: float, floor: float | None, lower: float | None) -> str:
    """What our numbers prove against a published upper bound: the floor of its relaxation, and the largest gradient
    norm that is known there.
    """
    if lower is not None and value < lower - _SLACK:
        return BELOW_LOWER
    return BELOW_OPTIMUM if floor is not None and value < floor - _SLACK else ""


def explanation(entry: Entry, value: float, estimate: Estimate, lower: float | None) -> str:
    """Why the published value is not ours; empty when nothing explains it."""
    if entry.method == LBS:
        return OTHER_POINTS if estimate.note else ""
    fault = known_fault(entry) or proved_fault(value, estimate.floor, lower)
    if fault or estimate.upper is None:
        return fault
    return ABOVE if value > estimate.upper else ""


def is_valid(entry: Entry, value: float, floor: float | None, lower: float | None) -> bool:
    """Whether a published upper bound stands, as far as is known."""
    return not known_fault(entry) and not proved_fault(value, floor, lower)
