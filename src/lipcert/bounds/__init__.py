"""Sound bounds of values and gradients, rounded outward: on a region, or on many cells of it at once."""

from lipcert.bounds.cell import Cell, Split, halves, splits_here, whole
from lipcert.bounds.engine import Bounds, bounds_of, joined, root_bounds, tree_bounds
from lipcert.bounds.forms import proves_empty
from lipcert.bounds.gains import Gains, gains, jacobian_rows, mixed_bound, mixed_gradient_bounds, mixed_map_bound
from lipcert.bounds.gradients import gradient_bounds, gradient_magnitudes, interval_uppers, slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.jacobian import directions, map_bounds
from lipcert.bounds.linear import Linear, linear_bounds, linear_map_bound, linear_operations
from lipcert.bounds.propagation import cut_short, gradients, preactivation_bounds, preactivations, slopes
from lipcert.bounds.spectral import operator_norm

__all__ = [
    "Bounds",
    "Cell",
    "Gains",
    "Interval",
    "Linear",
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
    "linear_map_bound",
    "linear_operations",
    "map_bounds",
    "mixed_bound",
    "mixed_gradient_bounds",
    "mixed_map_bound",
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
