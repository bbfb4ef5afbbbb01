"""Sparse polynomial problems: proved bounds, values from below or above, sizes and seconds, one thread.

    python -m benchmarks.polynomials [--families chains,unbounded,maxcut,nearly,boxqp] [--json] [--limit 1000]

Every instance is made from a recipe with a fixed seed. `bound` is proved; `value` is that of a feasible point found by
local search, or of all local optima by HiGHS where `opinion` says so; `gap` is their distance relative to 1 + |value|.
Seconds are of CPU time of this process, beside those of the clock and the load of the machine. `limit` is the largest
number of variables.

    chains     chained Rosenbrock on [-2, 2]^n and Broyden tridiagonal on [-1, 1]^n, order 2 on cliques, term sparsity
    unbounded  the same on all of R^n
    maxcut     60 vertices, weights -10 to 10 on a fifth of the edges; order 1 and rounds of triangle inequalities
    nearly     a chain of 200 variables with two dense balls and a dense half-space; order 2, term sparsity
    boxqp      quadratics on [0, 1]^n, integer coefficients -50 to 50; order 2 on cliques where the largest matrix is
               small, else order 1 and rounds of triangle inequalities
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np
from scipy import optimize
from scipy import sparse as sp

from lipcert.polynomial import Polynomial, PolynomialProblem
from lipcert.polynomial.hierarchy.hierarchies import sparse_layout
from lipcert.polynomial.hierarchy.plan import monomial_count
from lipcert.polynomial.hierarchy.solve import PolynomialOptions, Splitting, relax, solve_problem
from lipcert.polynomial.polynomial import total
from lipcert.rounding import Array

SMALL = 66  # order of a matrix up to which order 2 is affordable in seconds
x = Polynomial.variable


@dataclass(frozen=True)
class Row:
    """One instance and what came out."""

    name: str
    variables: int
    how: str
    moments: int
    largest: int
    blocks: int
    bound: float | None
    value: float
    gap: float | None
    seconds: float
    clock: float
    opinion: str = ""
    load: float = 0.0

    def text(self) -> str:
        bound = "none" if self.bound is None else f"{self.bound:.9g}"
        gap = "" if self.gap is None else f"{self.gap:.1e}"
        size = f"{self.blocks} x <= {self.largest}"
        return (
            f"{self.name:24s} {self.how:34s} {self.moments:7d} {size:>14s} {bound:>16s} {self.value:14.9g} {gap:>9s}"
            f" {self.seconds:8.2f} {self.clock:8.2f} {self.load:5.1f}  {self.opinion}"
        )


def measured(
    name: str,
    problem: PolynomialProblem,
    value: float,
    opinion: str = "",
    *,
    relaxation: str = "sparse",
    order: int = 2,
    sparsity: str | None = None,
    sparse_order: int | None = None,
    cuts: int = 0,
) -> Row:
    program = relax(problem, relaxation, order, None, None, sparsity, sparse_order).conic().problem
    clock, cpu = time.perf_counter(), time.process_time()
    splitting = Splitting(sparsity, sparse_order, cuts)
    result = solve_problem(problem, PolynomialOptions(relaxation, order, splitting=splitting))
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    words = [relaxation, str(order), sparsity or "term", *([str(sparse_order)] if sparse_order else [])]
    gap = abs(result.bound - value) / (1 + abs(value)) if result.certified else None
    return Row(
        name=name,
        variables=problem.n,
        how=" ".join(words + [f"+ {note.split(' ine')[0]}s" for note in result.notes if "triangle" in note]),
        moments=program.columns,
        largest=max(program.orders, default=1),
        blocks=len(program.orders),
        bound=result.bound if result.certified else None,
        value=value,
        gap=gap,
        seconds=round(cpu, 2),
        clock=round(clock, 2),
        opinion=opinion,
        load=round(os.getloadavg()[0], 1),
    )


def rosenbrock(n: int) -> Polynomial:
    return total(100.0 * (x(i) - x(i - 1) ** 2) ** 2 + (1.0 - x(i - 1)) ** 2 for i in range(1, n))


def broyden(n: int) -> Polynomial:
    zero = Polynomial.constant(0.0)
    return total(
        ((3.0 - 2.0 * x(i)) * x(i) - (x(i - 1) if i else zero) - (2.0 * x(i + 1) if i < n - 1 else zero) + 1.0) ** 2
        for i in range(n)
    )


def within(f: Polynomial, n: int, lower: float, upper: float, *inequalities: Polynomial) -> PolynomialProblem:
    return PolynomialProblem(f, inequalities, lower=np.full(n, lower), upper=np.full(n, upper)).boxed()


def chains(limit: int) -> Iterator[Row]:
    for n in (100, 1000):
        if n <= limit:
            yield measured(f"rosenbrock {n}", within(rosenbrock(n), n, -2.0, 2.0), 0.0, "all ones")
            yield measured(f"broyden {n}", within(broyden(n), n, -1.0, 1.0), 0.0, "root of the system")
            chordal = {"sparsity": "term-chordal", "sparse_order": 1}
            yield measured(f"rosenbrock {n}", within(rosenbrock(n), n, -2.0, 2.0), 0.0, "all ones", **chordal)  # type: ignore[arg-type]


def unbounded(limit: int) -> Iterator[Row]:
    for n in (100, 1000):
        if n <= limit:
            yield measured(f"rosenbrock R^{n}", PolynomialProblem(rosenbrock(n)), 0.0, "all ones")
            yield measured(f"broyden R^{n}", PolynomialProblem(broyden(n)), 0.0, "root of the system")


def max_cut(limit: int) -> Iterator[Row]:
    """Cuts have integer weights: a bound below the next integer proves the value."""
    for seed in (1, 2, 3):
        n, rng = 60, np.random.default_rng(seed)
        if n > limit:
            return
        i, j = np.triu_indices(n, 1)
        w = np.where(rng.random(len(i)) < 0.2, rng.integers(-10, 11, len(i)), 0).astype(float)
        i, j, w = i[w != 0], j[w != 0], w[w != 0]
        pairs = Polynomial(np.column_stack([i, j]).astype(np.int32), -w / 2)
        problem = PolynomialProblem(
            pairs + float(w.sum()) / 2, equalities=tuple(x(k) * x(k) - 1.0 for k in range(n)), sense="max"
        )
        W = sp.coo_array((w, (i, j)), (n, n)).toarray()
        value = _best_cut(W + W.T, rng)
        row = measured(f"max-cut 60, {seed}", problem, value, "flips", relaxation="dense", order=1, cuts=8)
        proved = row.bound is not None and np.floor(row.bound) == value
        yield Row(**{**asdict(row), "opinion": "flips; optimal, as cuts are integers" if proved else "flips"})


def _best_cut(W: Array, rng: np.random.Generator) -> float:
    """The best of many cuts that no flip of one vertex improves."""
    S = rng.choice([-1.0, 1.0], (4000, len(W)))
    rows = np.arange(len(S))
    for _ in range(40 * len(W)):
        gain = S * (S @ W)
        k = gain.argmax(axis=1)
        better = gain[rows, k] > 0
        if not better.any():
            break
        S[rows[better], k[better]] *= -1
    return float(((W.sum() - np.einsum("ij,ij->i", S @ W, S)) / 4).max())


def nearly(limit: int) -> Iterator[Row]:
    n, rng = 200, np.random.default_rng(0)
    if n > limit:
        return
    c, b = rng.integers(-8, 9, n - 1) / 8.0, rng.integers(-8, 9, n) / 8.0
    a, w = rng.integers(-4, 5, n) / 4.0, rng.integers(1, 9, n) / 8.0
    chain = total(c[i] * (x(i) * x(i + 1)) + 0.5 * (x(i) * x(i) * x(i + 1) * x(i + 1)) for i in range(n - 1))
    square, every = np.column_stack([np.arange(n)] * 2).astype(np.int32), np.arange(n)
    f = chain + Polynomial.affine(0.0, every, b)
    dense = (
        0.2 * n - Polynomial(square, np.ones(n)),
        0.1 * n - Polynomial(square, w),
        Polynomial.affine(-0.02 * n, every, a),
    )
    problem = within(f, n, -1.0, 1.0, *dense)
    value = _local(problem, f, dense, rng)
    for order in (1, 2):
        how = {"relaxation": "nearly-sparse", "sparsity": "term-chordal", "sparse_order": order}
        yield measured("nearly sparse 200", problem, value, "SLSQP", **how)  # type: ignore[arg-type]


def _local(problem: PolynomialProblem, f: Polynomial, dense: tuple[Polynomial, ...], rng: np.random.Generator) -> float:
    """The best of a few local minima, strictly inside the dense constraints; infinite if none is feasible."""
    n, best = problem.n, np.inf
    slopes = {p: [p.derivative(i) for i in range(n)] for p in (f, *dense)}

    def gradient(p: Polynomial) -> Callable[[Array], Array]:
        return lambda z: np.array([float(d.evaluate(z)[0]) for d in slopes[p]])

    limits = [{"type": "ineq", "fun": lambda z, g=g: float(g.evaluate(z)[0]) - 1e-6, "jac": gradient(g)} for g in dense]
    for _ in range(2):
        found = optimize.minimize(
            lambda z: float(f.evaluate(z)[0]),
            rng.uniform(-0.5, 0.5, n),
            jac=gradient(f),
            bounds=[(-1, 1)] * n,
            constraints=limits,
            method="SLSQP",
            options={"maxiter": 200},
        )
        if problem.violation(found.x) <= 0:
            best = min(best, float(found.fun))
    return best


def box_qp(limit: int) -> Iterator[Row]:
    recipes = [(20, 0.2, 1), (20, 0.2, 2), (20, 0.4, 1), (20, 0.6, 1), (30, 0.2, 1), (30, 0.4, 1), (30, 0.6, 1)]
    for n, density, seed in [*recipes, (40, 0.3, 1), (50, 0.2, 1), (50, 0.3, 1)]:
        if n > limit:
            continue
        rng = np.random.default_rng(1000 * n + int(100 * density) + seed)
        Q = np.triu(rng.integers(-50, 51, (n, n)) * (rng.random((n, n)) < density)).astype(float)
        Q = Q + np.triu(Q, 1).T
        c = (rng.integers(-50, 51, n) * (rng.random(n) < density)).astype(float)
        i, j = np.triu_indices(n)
        quadratic = Polynomial(np.column_stack([i, j]).astype(np.int32), np.where(i == j, Q[i, j] / 2, Q[i, j]))
        problem = within(quadratic + Polynomial.affine(0.0, np.arange(n), c), n, 0.0, 1.0)
        value = _descent(Q, c, rng)
        opinion = _opinion(Q, c, value) if n == 20 else "coordinates"
        name = f"boxqp {n}, {density:.0%}, {seed}"
        cliques = sparse_layout(problem).cliques
        if monomial_count(max(cliques, key=len), 2, set()) <= SMALL:
            yield measured(name, problem, value, opinion, cuts=4)
        else:
            yield measured(name, problem, value, opinion, relaxation="dense", order=1, cuts=8)


def _descent(Q: Array, c: Array, rng: np.random.Generator) -> float:
    """The best of 2,000 runs of coordinate descent from random points."""
    X, d = rng.random((2000, len(c))), np.diag(Q)
    G = X @ Q + c
    for _ in range(60):
        for i in range(len(c)):
            rest = G[:, i] - d[i] * X[:, i]
            new = np.clip(-rest / d[i], 0, 1) if d[i] > 0 else (rest + d[i] / 2 < 0).astype(float)
            G += np.outer(new - X[:, i], Q[i])
            X[:, i] = new
    return float((0.5 * np.einsum("ij,ij->i", X @ Q, X) + X @ c).min())


@contextmanager
def _silence() -> Iterator[None]:
    """Without what HiGHS prints although it was told not to."""
    out = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(out, 1)
        os.close(out)


def _opinion(Q: Array, c: Array, value: float) -> str:
    """HiGHS on the first-order conditions Qx + c = l - m, l x = 0, m (1 - x) = 0, where f = (c'x - sum m) / 2."""
    n = len(c)
    most = np.maximum(Q, 0).sum(axis=1) + np.abs(c), np.maximum(-Q, 0).sum(axis=1) + np.abs(c)
    eye, none = np.eye(n), np.zeros((n, n))
    rows = [
        optimize.LinearConstraint(np.hstack([Q, -eye, eye, none, none]), -c, -c),
        optimize.LinearConstraint(np.hstack([none, eye, none, -np.diag(most[0]), none]), -np.inf, 0.0),
        optimize.LinearConstraint(np.hstack([none, none, eye, none, -np.diag(most[1])]), -np.inf, 0.0),
        optimize.LinearConstraint(np.hstack([eye, none, none, eye, none]), -np.inf, 1.0),
        optimize.LinearConstraint(np.hstack([eye, none, none, none, -eye]), 0.0, np.inf),
    ]
    goal = np.concatenate([c / 2, np.zeros(n), -np.ones(n) / 2, np.zeros(2 * n)])
    kinds = np.concatenate([np.zeros(3 * n), np.ones(2 * n)])
    limits = optimize.Bounds(np.zeros(5 * n), np.concatenate([np.ones(n), *most, np.ones(2 * n)]))
    with _silence():
        found = optimize.milp(goal, integrality=kinds, bounds=limits, constraints=rows, options={"time_limit": 60})
    if found.x is None:
        return "coordinates; HiGHS found nothing in 60 s"
    word = "agrees" if abs(found.fun - value) <= 1e-5 * (1 + abs(value)) else f"says {found.fun:.9g}"
    return f"coordinates; HiGHS {word}" + ("" if found.status == 0 else f", proves {found.mip_dual_bound:.6g} in 60 s")


FAMILIES = {"chains": chains, "unbounded": unbounded, "maxcut": max_cut, "nearly": nearly, "boxqp": box_qp}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.json:
        print(
            f"{'instance':24s} {'relaxation':34s} {'moments':>7s} {'matrices':>14s} {'bound':>16s} {'value':>14s}"
            f" {'gap':>9s} {'CPU s':>8s} {'clock s':>8s} {'load':>5s}  value by"
        )
    for family in arguments.families.split(","):
        for row in FAMILIES[family](arguments.limit):
            print(json.dumps(asdict(row)) if arguments.json else row.text(), flush=True)


if __name__ == "__main__":
    main()
