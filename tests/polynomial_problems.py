"""Polynomial problems with known optima, each with its source.

`order` is the one used in the tests, `gap` how far below the optimum the bound may be there (0.0 would be exact): small
where the hierarchy is tight, in the units of the objective.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lipcert.polynomial import Polynomial, PolynomialProblem
from lipcert.polynomial.hierarchy.result import PolynomialResult
from lipcert.polynomial.hierarchy.solve import PolynomialOptions, Splitting, solve_problem
from lipcert.polynomial.text import parse


def solved(
    problem: PolynomialProblem,
    relaxation: str = "dense",
    order: int | None = None,
    cliques: Iterable[Sequence[int]] | None = None,
    bad: Iterable[Polynomial] | None = None,
    splitting: Splitting | None = None,
) -> PolynomialResult:
    """`solve_problem` by one relaxation, in a line."""
    return solve_problem(problem, PolynomialOptions(relaxation, order, cliques, bad, splitting or Splitting()))


@dataclass(frozen=True)
class Named:
    """A problem, its optimum, and the relaxation that is expected to come within `gap` of it."""

    name: str
    problem: PolynomialProblem
    optimum: float
    order: int
    gap: float
    source: str
    relaxation: str = "dense"


def boxed(
    text: str, box: Sequence[tuple[float, float]], sense: str = "min", at_least: Sequence[str] = ()
) -> PolynomialProblem:
    """A polynomial in x1, x2, ... over a box, with constraints g >= 0 as text."""
    names = tuple(f"x{i + 1}" for i in range(len(box)))
    lower, upper = np.array(box, dtype=float).T
    inequalities = tuple(parse(g, names) for g in at_least)
    return PolynomialProblem(
        parse(text, names), inequalities, sense=sense, names=names, lower=lower, upper=upper
    ).boxed()


def max_cut(n: int, edges: Sequence[tuple[int, int]]) -> PolynomialProblem:
    """max sum over edges (1 - t_i t_j) / 2, t_i^2 = 1."""
    t = [Polynomial.variable(i) for i in range(n)]
    objective = sum((0.5 - 0.5 * t[i] * t[j] for i, j in edges), Polynomial.constant(0.0))
    return PolynomialProblem(objective, equalities=tuple(v * v - 1.0 for v in t), sense="max")


def rosenbrock_chain(n: int) -> PolynomialProblem:
    text = " + ".join(f"100*(x{i + 1} - x{i}^2)^2 + (1 - x{i})^2" for i in range(1, n))
    return boxed(text, [(-2, 2)] * n)


def broyden_tridiagonal(n: int) -> PolynomialProblem:
    def term(i: int) -> str:
        before = f" - x{i - 1}" if i > 1 else ""
        after = f" - 2*x{i + 1}" if i < n else ""
        return f"((3 - 2*x{i})*x{i}{before}{after} + 1)^2"

    return boxed(" + ".join(term(i) for i in range(1, n + 1)), [(-1, 1)] * n)


CYCLE5 = [(i, (i + 1) % 5) for i in range(5)]
PETERSEN = (
    [(i, (i + 1) % 5) for i in range(5)] + [(i, i + 5) for i in range(5)] + [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
)
CLMP = "Chen, Lasserre, Magron, Pauwels 2020, appendix: illustrations of the hierarchies"
MN13 = "Munoz, Narkawicz 2013, Formalization of Bernstein polynomials (the Kodiak benchmarks)"
JY13 = "Jamil, Yang 2013, A literature survey of benchmark functions for global optimisation"
MGH81 = "More, Garbow, Hillstrom 1981, Testing unconstrained optimization software"

DISK = PolynomialProblem(parse("x1*x2", ["x1", "x2"]), (parse("1 - x1^2 - x2^2", ["x1", "x2"]),))
THREE = ("x1", "x2", "x3")
CHAIN = PolynomialProblem(
    parse("x1*x2 + x2*x3", THREE), (parse("1 - x1^2 - x2^2", THREE), parse("1 - x2^2 - x3^2", THREE))
)
GOLDSTEIN_PRICE = (
    "(1 + (x1 + x2 + 1)^2*(19 - 14*x1 + 3*x1^2 - 14*x2 + 6*x1*x2 + 3*x2^2))"
    "*(30 + (2*x1 - 3*x2)^2*(18 - 32*x1 + 12*x1^2 + 48*x2 - 36*x1*x2 + 27*x2^2))"
)
CAPRASSE = "-x1*x3^3 + 4*x2*x3^2*x4 + 4*x1*x3*x4^2 + 2*x2*x4^3 + 4*x1*x3 + 4*x3^2 - 10*x2*x4 - 10*x4^2 + 2"
BUTCHER = "x6*x2^2 + x5*x3^2 - x1*x4^2 + x4^3 + x4^2 - x1/3 + 4*x4/3"
HEART = "-x1*x6^3 + 3*x1*x6*x7^2 - x3*x7^3 + 3*x3*x7*x6^2 - x2*x5^3 + 3*x2*x5*x8^2 - x4*x8^3 + 3*x4*x8*x5^2 - 0.9563453"
HEART_BOX = [(-0.1, 0.4), (0.4, 1), (-0.7, -0.4), (-0.7, 0.4), (0.1, 0.2), (-0.1, 0.2), (-0.3, 1.1), (-1.1, -0.3)]

LIBRARY = [
    Named("product on the disk", DISK, -0.5, 1, 1e-6, CLMP),
    Named("chain of two disks", CHAIN, -1.0, 1, 1e-6, CLMP, "sparse"),
    Named("motzkin", boxed("x1^4*x2^2 + x1^2*x2^4 - 3*x1^2*x2^2 + 1", [(-2, 2)] * 2), 0.0, 4, 1e-3, "Motzkin 1967"),
    Named("rosenbrock chain 8", rosenbrock_chain(8), 0.0, 2, 1e-3, MGH81, "sparse"),
    Named("broyden tridiagonal 6", broyden_tridiagonal(6), 0.0, 2, 1e-4, MGH81, "sparse"),
    Named(
        "himmelblau", boxed("(x1^2 + x2 - 11)^2 + (x1 + x2^2 - 7)^2", [(-5, 5)] * 2), 0.0, 2, 1e-3, "Himmelblau 1972"
    ),
    Named(
        "six-hump camel",
        boxed("4*x1^2 - 2.1*x1^4 + x1^6/3 + x1*x2 - 4*x2^2 + 4*x2^4", [(-3, 3), (-2, 2)]),
        -1.031628453489877,
        3,
        1e-4,
        "Dixon, Szego 1978",
    ),
    Named("three-hump camel", boxed("2*x1^2 - 1.05*x1^4 + x1^6/6 + x1*x2 + x2^2", [(-5, 5)] * 2), 0.0, 3, 1e-3, JY13),
    Named("goldstein-price", boxed(GOLDSTEIN_PRICE, [(-2, 2)] * 2), 3.0, 4, 0.05, "Goldstein, Price 1971"),
    Named("booth", boxed("(x1 + 2*x2 - 7)^2 + (2*x1 + x2 - 5)^2", [(-10, 10)] * 2), 0.0, 1, 1e-3, JY13),
    Named("matyas", boxed("0.26*(x1^2 + x2^2) - 0.48*x1*x2", [(-10, 10)] * 2), 0.0, 1, 1e-4, JY13),
    Named(
        "beale",
        boxed("(1.5 - x1 + x1*x2)^2 + (2.25 - x1 + x1*x2^2)^2 + (2.625 - x1 + x1*x2^3)^2", [(-4.5, 4.5)] * 2),
        0.0,
        4,
        0.5,
        "Beale 1958; " + JY13,
    ),
    Named(
        "styblinski-tang 3",
        boxed(" + ".join(f"(x{i}^4 - 16*x{i}^2 + 5*x{i})/2" for i in (1, 2, 3)), [(-5, 5)] * 3),
        -3 * 39.16616570377142,
        2,
        1e-3,
        JY13,
        "sparse",
    ),
    Named(
        "powell singular",
        boxed("(x1 + 10*x2)^2 + 5*(x3 - x4)^2 + (x2 - 2*x3)^4 + 10*(x1 - x4)^4", [(-4, 5)] * 4),
        0.0,
        2,
        1e-2,
        "Powell 1962; " + MGH81,
    ),
    Named(
        "wood",
        boxed(
            "100*(x2 - x1^2)^2 + (1 - x1)^2 + 90*(x4 - x3^2)^2 + (1 - x3)^2"
            " + 10.1*((x2 - 1)^2 + (x4 - 1)^2) + 19.8*(x2 - 1)*(x4 - 1)",
            [(-2, 2)] * 4,
        ),
        0.0,
        2,
        1e-3,
        "Colville 1968; " + MGH81,
    ),
    Named(
        "concave knapsack qp",
        boxed(
            "42*x1 + 44*x2 + 45*x3 + 47*x4 + 47.5*x5 - 50*(x1^2 + x2^2 + x3^2 + x4^2 + x5^2)",
            [(0, 1)] * 5,
            at_least=["40 - 20*x1 - 12*x2 - 11*x3 - 7*x4 - 4*x5"],
        ),
        -17.0,
        2,
        0.5,
        "Floudas, Pardalos 1990, test problem 2.1; tight at order 3 (-17.0009, 8 s)",
    ),
    Named("max-cut of the 5-cycle", max_cut(5, CYCLE5), 4.0, 2, 1e-5, "odd cycle: all edges but one"),
    Named("max-cut of the Petersen graph", max_cut(10, PETERSEN), 12.0, 2, 1e-4, "known bipartite subgraph number 12"),
    Named("caprasse", boxed(CAPRASSE, [(-0.5, 0.5)] * 4), -3.1800966258, 2, 1e-4, MN13),
    Named(
        "butcher",
        boxed(BUTCHER, [(-1, 0), (-0.1, 0.9), (-0.1, 0.5), (-1, -0.1), (-0.1, -0.05), (-0.1, -0.03)]),
        -1.4393333333,
        2,
        1e-4,
        MN13,
    ),
    Named(
        "heart dipole",
        boxed(HEART, HEART_BOX),
        -1.74344857935,
        2,
        1e-4,
        MN13 + ", proved there >= -1.744; digits by multistart",
    ),
    Named(
        "magnetism",
        boxed("x1^2 - x1 + 2*(x2^2 + x3^2 + x4^2 + x5^2 + x6^2 + x7^2)", [(-1, 1)] * 7),
        -0.25,
        1,
        1e-6,
        MN13,
    ),
    Named(
        "schwefel",
        boxed("(x1 - x2^2)^2 + (x2 - 1)^2 + (x1 - x3^2)^2 + (x3 - 1)^2", [(-10, 10)] * 3),
        0.0,
        2,
        1e-2,
        MN13,
    ),
    Named(
        "lotka-volterra",
        boxed("x1*x2^2 + x1*x3^2 + x1*x4^2 - 1.1*x1 + 1", [(-2, 2)] * 4),
        -20.8,
        2,
        1e-3,
        MN13,
    ),
    Named(
        "reaction diffusion",
        boxed("-x1 + 2*x2 - x3 - 0.835634534*x2*(1 + x2)", [(-5, 5)] * 3),
        -36.7126907,
        1,
        1e-4,
        MN13,
    ),
]
