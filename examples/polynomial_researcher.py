"""You have a polynomial problem of your own: sparse, or sparse up to a few constraints that join everything.

    python examples/polynomial_researcher.py

A chain of n variables whose neighbours are coupled by a quartic energy is minimised in a box: cliques of two. Then the
mean of all variables is prescribed, one constraint that fits no clique: "nearly sparse". Each bound is proved, and
local descents from the moments and from random starts give feasible points on the other side.
"""

from __future__ import annotations

import numpy as np

from lipcert import Polynomial, PolynomialResult, minimize

N = 12
PAIRS = [(i, i + 1) for i in range(N - 1)]


def energy(x: list[Polynomial]) -> Polynomial:
    """sum_i (x_i^2 - 1/4)^2 + (x_i - x_{i+1})^2 / 2 + slope_i x_i: double wells, springs, a tilt."""
    total = Polynomial.constant(0.0)
    for i in range(N):
        total = total + (x[i] ** 2 - 0.25) ** 2 + (0.1 * (-1) ** i) * x[i]
    for i, j in PAIRS:
        total = total + 0.5 * (x[i] - x[j]) ** 2
    return total


def show(name: str, result: PolynomialResult, value: float | None) -> None:
    print(f"{name:34s} {result.bound:.6f} <= minimum <= {value:.6f}   {result.seconds:.2f} s")


def main() -> None:
    x = [Polynomial.variable(i) for i in range(N)]
    f, low, high = energy(x), -np.ones(N), np.ones(N)
    sparse = minimize(f, lower=low, upper=high, relaxation="sparse", order=2, cliques=PAIRS)
    show("sparse, order 2, cliques of two", sparse, sparse.value)

    mean = 0.1
    total = Polynomial.affine(-mean * N, list(range(N)), [1.0] * N)  # sum x_i = mean * n: fits no clique
    nearly = minimize(
        f,
        equalities=[total],
        lower=low,
        upper=high,
        relaxation="nearly-sparse",
        order=2,
        cliques=PAIRS,
        bad=[total],
    )
    show("the same, the mean left out", sparse, nearly.value)  # fewer constraints: still a bound, but a weak one
    show("nearly sparse, order 2", nearly, nearly.value)
    print("the point satisfies every constraint", "exactly" if nearly.proved else "up to 1e-6")
    print(np.round(np.asarray(nearly.minimizer), 4))


if __name__ == "__main__":
    main()
