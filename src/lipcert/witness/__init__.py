"""Lower bounds with a witness: a point of the region and the gradient or Jacobian there."""

from lipcert.witness.directions import steepness
from lipcert.witness.record import sample_points, sampling
from lipcert.witness.search import glance, improve, search
from lipcert.witness.witness import Witness, evaluate

__all__ = ["Witness", "evaluate", "glance", "improve", "sample_points", "sampling", "search", "steepness"]
