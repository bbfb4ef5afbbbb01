"""Robustness of classifiers on data sets: certified radii from shared Lipschitz constants, refinement, attacks."""
