"""Parts of a region: sub-boxes with fixed signs of neurons, how they are halved, and sound bounds on many at once."""

from lipcert.bounds.batched import Bounds, bounds_of
from lipcert.bounds.cell import Cell, Split, halves, splits_here, whole
from lipcert.bounds.gradients import interval_uppers

__all__ = ["Bounds", "Cell", "Split", "bounds_of", "halves", "interval_uppers", "splits_here", "whole"]
