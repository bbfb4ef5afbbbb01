"""You have a polynomial problem of your own: sparse, or sparse up to a few constraints that join everything.

    python examples/polynomial_researcher.py

A chain of n variables whose neighbours are coupled by a quartic energy is minimised in a box: cliques of two. Then the
mean of all variables is prescribed, one constraint that fits no clique: "nearly sparse". Each bound is proved, and a
local descent from many starts gives feasible points on the other side.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize as descend

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


def best_found(f: Polynomial, mean: float | None) -> float:
    """The least value that local descents from random starts reach in the box [-1, 1]^n."""
    rng = np.random.default_rng(0)
    held = () if mean is None else ({"type": "eq", "fun": lambda y: float(np.mean(y) - mean)},)
    slopes = [f.derivative(i) for i in range(N)]
    runs = [
        descend(
            lambda y: float(f.evaluate(y)[0]),
            rng.uniform(-1, 1, N),
            jac=lambda y: np.array([float(d.evaluate(y)[0]) for d in slopes]),
            method="SLSQP",
            bounds=[(-1, 1)] * N,
            constraints=held,
        )
        for _ in range(4)
    ]
    return min(float(run.fun) for run in runs if run.success)


def show(name: str, result: PolynomialResult, found: float) -> None:
    print(f"{name:34s} {result.bound:.6f} <= minimum <= {found:.6f}   {result.status}, {result.seconds:.2f} s")


def main() -> None:
    x = [Polynomial.variable(i) for i in range(N)]
    f, low, high = energy(x), -np.ones(N), np.ones(N)
    found = best_found(f, None)
    sparse = minimize(f, lower=low, upper=high, relaxation="sparse", order=2, cliques=PAIRS)
    show("sparse, order 2, cliques of two", sparse, found)

    mean = 0.1
    total = Polynomial.affine(-mean * N, list(range(N)), [1.0] * N)  # sum x_i = mean * n: fits no clique
    found = best_found(f, mean)
    show("the same, the mean left out", sparse, found)  # fewer constraints: still a bound, but a weak one
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
    show("nearly sparse, order 2", nearly, found)
    if nearly.minimizer is not None:
        print("minimizer read off the moments:", np.round(nearly.minimizer, 4))


if __name__ == "__main__":
    main()
