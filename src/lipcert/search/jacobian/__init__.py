"""Certified bounds of every entry of the Jacobian on a region, refined by splitting it."""
