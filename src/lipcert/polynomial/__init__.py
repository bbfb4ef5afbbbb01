"""Sparse polynomials over indexed variables, and optimisation problems made of them."""

from lipcert.polynomial.polynomial import Monomial, Polynomial
from lipcert.polynomial.problem import PolynomialProblem, box_constraint, variable_bounds

__all__ = ["Monomial", "Polynomial", "PolynomialProblem", "box_constraint", "variable_bounds"]
