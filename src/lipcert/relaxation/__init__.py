"""Relaxations as one moment matrix with rank-two rows, which the solvers of this package are made for."""
