"""Parts of a region: sub-boxes with fixed signs of neurons, how they are halved, and sound bounds on many at once."""

from lipcert.parts.bounds import Bounds, bounds_of
from lipcert.parts.gradients import interval_uppers
from lipcert.parts.part import Part, Split, halves, splits_here, whole

__all__ = ["Bounds", "Part", "Split", "bounds_of", "halves", "interval_uppers", "splits_here", "whole"]
