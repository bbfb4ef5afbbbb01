"""Random polynomial problems against points: no proved bound may exceed the value of a feasible point.

    python -m benchmarks.polynomial_attack [--count 5000] [--start 0]

Small problems with and without bounds, with equalities and inequalities, unbounded ones, badly scaled ones. Values and
feasibility of points (a grid, random ones, ends of local searches) are computed in fractions, so that a point counts
only when it is feasible exactly. Four attacks on each: the bound as it is; the bound from multipliers of a lying
solver; the certificate checked against the problem, another problem, and after random changes of its arrays.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from lipcert.errors import LipcertError
from lipcert.polynomial import Polynomial, PolynomialProblem
from lipcert.polynomial.certificates.certificate import PolynomialCertificate, verify_polynomial
from lipcert.polynomial.certificates.stored import StoredRelaxation
from lipcert.polynomial.hierarchy.result import PolynomialResult
from lipcert.polynomial.hierarchy.solve import relax, solve_model, solve_problem
from lipcert.polynomial.monomials import all_monomials, monomial_of
from lipcert.polynomial.points.local import LocalProblem
from lipcert.polynomial.points.search import search
from lipcert.solver.conic.conic import ConicProblem, ConicSolution, ConicStatus

Random = np.random.Generator
CHOSEN = 8  # points looked at in fractions, of those that floats call feasible or nearly so
KINDS = ("box", "free", "coercive", "square", "constrained", "equality", "binary", "scaled")


@dataclass(frozen=True, eq=False)
class Case:
    """A problem and points of it, not all feasible."""

    kind: str
    problem: PolynomialProblem
    points: list[list[Fraction]]


def random_polynomial(rng: Random, n: int, degree: int, density: float = 0.6) -> Polynomial:
    """Coefficients that are quarters, or any floats."""
    monomials = [m for m in all_monomials(range(n), degree) if rng.random() < density]
    values = rng.integers(-12, 13, len(monomials)) / 4 if rng.random() < 0.7 else rng.normal(size=len(monomials))
    return Polynomial.from_terms({m: float(v) for m, v in zip(monomials, values, strict=True)})


def random_case(seed: int) -> Case:
    """A problem of one of KINDS with a few points."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n = int(rng.integers(1, 4))
    degree = 2 if n == 3 else int(rng.integers(2, 5))
    f = random_polynomial(rng, n, degree)
    x = [Polynomial.variable(i) for i in range(n)]
    lower = upper = None
    inequalities: list[Polynomial] = []
    equalities: list[Polynomial] = []
    anchor = rng.integers(-8, 9, n) / 4
    if kind in ("box", "scaled"):
        width = 1.0 if kind == "box" else float(2.0 ** rng.integers(-9, 10) * rng.uniform(1, 2))
        lower, upper = -width * rng.uniform(0.2, 1, n), width * rng.uniform(0.2, 1, n)
    if kind in ("coercive", "constrained", "equality"):
        even = degree + degree % 2
        f = f + sum((float(rng.integers(1, 5)) * v**even for v in x), Polynomial.constant(0.0))
    if kind == "square":
        parts = [random_polynomial(rng, n, max(1, degree // 2), 0.8) for _ in range(int(rng.integers(1, 4)))]
        f = sum((q * q for q in parts), Polynomial.constant(float(rng.integers(-3, 4))))
    if kind == "constrained":
        g = random_polynomial(rng, n, 2)
        inequalities = [g + (1.0 - float(g.evaluate(anchor)[0])), *x[: int(rng.integers(0, n + 1))]]
    if kind == "equality":
        h = random_polynomial(rng, n, int(rng.integers(1, 3)))
        h = Polynomial(h.indices, np.rint(4 * h.coefficients))  # its value at the anchor is exact
        equalities = [h - float(h.evaluate(anchor)[0])]
    if kind == "binary":
        equalities = [v * v - v if rng.random() < 0.5 else v * v - 1.0 for v in x]
    sense = "min" if rng.random() < 0.8 or kind in ("coercive", "square", "constrained", "equality") else "max"
    names = tuple(f"x{i + 1}" for i in range(n))
    problem = PolynomialProblem(f, tuple(inequalities), tuple(equalities), sense, names, lower, upper)
    problem = problem.boxed() if lower is not None else problem
    return Case(kind, problem, _points(problem, rng, anchor))


def _points(problem: PolynomialProblem, rng: Random, anchor: np.ndarray) -> list[list[Fraction]]:
    """A grid over the box, or around 0; random points; ends of local searches; the anchor."""
    n = problem.n
    least, most = np.asarray(problem.lower), np.asarray(problem.upper)
    lo = np.where(np.isfinite(least), least, -2.0)
    hi = np.where(np.isfinite(most), most, 2.0)
    steps = {1: 41, 2: 13, 3: 7}[n]
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, steps)] * n), axis=-1).reshape(-1, n)
    listed = [lo + grid * (hi - lo), rng.uniform(lo, hi, (60, n)), 8 * rng.normal(size=(30, n)), anchor[None]]
    corners = np.array(np.meshgrid(*[[-1.0, 0.0, 1.0]] * n)).reshape(n, -1).T
    searched = [search(LocalProblem.of(problem), seed=seed, most=3) for seed in range(2)]
    ends = [found.point for found in searched if found is not None]
    everything = np.concatenate([*listed, corners, *([np.array(ends)] if ends else [])])
    return [[Fraction(float(v)) for v in point] for point in np.clip(everything, least, most)]


def exact(p: Polynomial, point: list[Fraction]) -> Fraction:
    """The value of a polynomial, without rounding."""
    total = Fraction(0)
    for row, value in zip(p.indices, p.coefficients.tolist(), strict=True):
        term = Fraction(value)
        for i in monomial_of(row):
            term *= point[i]
        total += term
    return total


def best_value(problem: PolynomialProblem, points: list[list[Fraction]]) -> Fraction | None:
    """The best value of an exactly feasible point, among the best in floating point."""
    near = np.array([[float(v) for v in point] for point in points])
    rough = problem.objective.evaluate(near) * (1.0 if problem.sense == "min" else -1.0)
    slack = np.min([np.zeros(len(near)), *(g.evaluate(near) for g in problem.inequalities)], axis=0)
    slack -= np.max([np.zeros(len(near)), *(np.abs(h.evaluate(near)) for h in problem.equalities)], axis=0)
    chosen: set[int] = set()
    for room in (0.0, -1e-9):
        order = np.argsort(np.where(slack >= room, rough, np.inf))[:CHOSEN]
        chosen |= {int(k) for k in order if slack[k] >= room}
    values = [
        exact(problem.objective, point)
        for point in (points[k] for k in sorted(chosen))
        if all(exact(g, point) >= 0 for g in problem.inequalities)
        and not any(exact(h, point) for h in problem.equalities)
    ]
    return (min if problem.sense == "min" else max)(values) if values else None


def exceeds(bound: float, problem: PolynomialProblem, best: Fraction | None) -> bool:
    """Whether a bound is wrong."""
    if best is None or not np.isfinite(bound):
        return False
    return Fraction(bound) > best if problem.sense == "min" else Fraction(bound) < best


def liar(rng: Random) -> Callable[[ConicProblem], ConicSolution]:
    """A solver of random multipliers."""

    def solve(problem: ConicProblem) -> ConicSolution:
        z = rng.normal(size=problem.rows) * 10.0 ** rng.uniform(-8, 4)
        z = np.abs(z) if rng.random() < 0.5 else z
        z[rng.random(len(z)) < 0.1] = rng.choice([np.nan, np.inf, 0.0, 1e300])
        return ConicSolution(
            rng.normal(size=problem.columns), problem.b, z, ConicStatus.OPTIMAL, 0.0, 0.0, 0.0, 1, "liar"
        )

    return solve


def forged(certificate: PolynomialCertificate, rng: Random) -> PolynomialCertificate:
    """One array changed: numbers scaled, whole numbers moved, a part left out."""
    arrays = {name: np.array(value) for name, value in certificate.relaxation.arrays.items()}
    name = str(rng.choice([k for k, v in arrays.items() if v.size]))
    array = arrays[name]
    where = rng.random(array.shape) < 0.3
    if array.dtype.kind == "f":
        array = np.where(where, array * rng.choice([-1.0, 0.0, 2.0, 1.0 + 1e-6, 1e6, np.nan]), array)
    else:
        array = np.where(where, array + rng.integers(-2, 3), array)
    if array.ndim and rng.random() < 0.1:
        array = array[:-1]
    arrays[name] = array
    cut = certificate.cut if rng.random() < 0.8 else float(rng.normal())
    return replace(certificate, relaxation=StoredRelaxation(arrays), cut=cut)


def attack(seed: int) -> tuple[str, Counter[str], list[str]]:
    """The outcome of one problem: its kind, counts, and failures."""
    case, rng = random_case(seed), np.random.default_rng(seed + 10**6)
    problem, counts, wrong = case.problem, Counter[str](), list[str]()
    best = best_value(problem, case.points)
    try:
        result: PolynomialResult = solve_problem(problem)
    except LipcertError as error:
        return case.kind, Counter({f"refused: {str(error)[:40]}": 1}), []
    counts["certified" if result.certified else "not certified"] += 1
    counts["with a feasible point"] += best is not None
    if exceeds(result.bound, problem, best):
        wrong.append(f"bound {result.bound!r}, value {float(best or 0)!r}")
    if best is not None and result.certified:
        counts["tight"] += abs(result.bound - float(best)) <= 1e-6 * (1 + abs(float(best)))
    lied = solve_model(relax(problem), solve=liar(rng))
    if exceeds(lied.bound, problem, best):
        wrong.append(f"a liar proves {lied.bound!r}, value {float(best or 0)!r}")
    if result.certificate is not None:
        wrong += _attack_certificate(result.certificate, case, best, rng, counts)
    return case.kind, counts, wrong


def _attack_certificate(
    certificate: PolynomialCertificate, case: Case, best: Fraction | None, rng: Random, counts: Counter[str]
) -> list[str]:
    problem, wrong = case.problem, list[str]()
    if not verify_polynomial(certificate, problem).proved:
        wrong.append("a certificate is not proved again")
    shifted = problem.objective + random_polynomial(rng, problem.n, 2, 0.3)
    other = replace(problem, objective=shifted)
    trials = [(certificate, other)] + [(forged(certificate, rng), problem) for _ in range(4)]
    for trial, about in trials:
        counts["forgeries"] += 1
        try:
            with np.errstate(all="ignore"):
                bound = trial.check(about)
        except LipcertError:
            counts["forgeries refused in a line"] += 1
            continue
        value = best if about is problem else best_value(about, case.points)
        if exceeds(bound, about, value):
            wrong.append(f"a forgery proves {bound!r}, value {float(value or 0)!r}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--start", type=int, default=0)
    chosen = parser.parse_args()
    start, counts, failures = time.monotonic(), dict[str, Counter[str]](), 0
    for seed in range(chosen.start, chosen.start + chosen.count):
        kind, found, wrong = attack(seed)
        counts.setdefault(kind, Counter()).update(found + Counter(problems=1))
        failures += len(wrong)
        for line in wrong:
            print(f"WRONG seed {seed} ({kind}): {line}", flush=True)
        if (seed + 1) % 500 == 0:
            print(f"{seed + 1} problems, {failures} wrong, {time.monotonic() - start:.0f} s", flush=True)
    for kind, own in sorted(counts.items()):
        print(f"{kind:12s} " + ", ".join(f"{name} {number}" for name, number in sorted(own.items())))
    total = sum(own["problems"] for own in counts.values())
    print(f"{total} problems, {failures} wrong, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
