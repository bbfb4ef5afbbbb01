"""Sound bounds of values and gradients, rounded outward: on a region, or on many cells of it at once."""

from lipcert.bounds.cell import Cell, Split, halves, splits_here, whole
from lipcert.bounds.forms import proves_empty
from lipcert.bounds.gains import gains, jacobian_rows, mixed_bound, mixed_gradient_bounds
from lipcert.bounds.gradients import gradient_bounds, gradient_magnitudes, slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.jacobian import directions, map_bounds
from lipcert.bounds.linear import LinearBounds, linear_bounds, linear_operations
from lipcert.bounds.operator_norms import operator_norm
from lipcert.bounds.propagation import (
    Bounds,
    bounds_of,
    cut_short,
    gradients,
    interval_uppers,
    joined,
    preactivation_bounds,
    preactivations,
    root_bounds,
    slopes,
    tree_bounds,
)

__all__ = [
    "Bounds",
    "Cell",
    "Interval",
    "LinearBounds",
    "Split",
    "bounds_of",
    "cut_short",
    "directions",
    "gains",
    "gradient_bounds",
    "gradient_magnitudes",
    "gradients",
    "halves",
    "interval_uppers",
    "jacobian_rows",
    "joined",
    "linear_bounds",
    "linear_operations",
    "map_bounds",
    "mixed_bound",
    "mixed_gradient_bounds",
    "operator_norm",
    "preactivation_bounds",
    "preactivations",
    "proves_empty",
    "root_bounds",
    "slope_bounds",
    "slopes",
    "splits_here",
    "tree_bounds",
    "whole",
]
