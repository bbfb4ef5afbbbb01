"""Lower bounds with a witness: a point of the region and the dual norm of the gradient there."""

from lipcert.lower.sampling import sample_points, sampling
from lipcert.lower.search import ascent, improve, search
from lipcert.lower.whole import evaluate_whole, improve_whole, search_whole
from lipcert.lower.witness import Witness, evaluate

__all__ = [
    "Witness",
    "ascent",
    "evaluate",
    "evaluate_whole",
    "improve",
    "improve_whole",
    "sample_points",
    "sampling",
    "search",
    "search_whole",
]
