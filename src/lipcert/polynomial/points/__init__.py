"""Feasible points of polynomial problems: local descents from many starts, and which of the points are proved."""
