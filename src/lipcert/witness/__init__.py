"""Lower bounds with a witness: a point of the region and the dual norm of the gradient there."""

from lipcert.witness.sampling import sample_points, sampling
from lipcert.witness.search import ascent, improve, search
from lipcert.witness.whole import evaluate_whole, improve_whole, search_whole
from lipcert.witness.witness import Witness, evaluate

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
