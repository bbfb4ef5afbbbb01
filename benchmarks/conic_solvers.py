"""Clarabel, SCS and CSDP on the same moment relaxations: time and accuracy by size, one thread each.

    python -m benchmarks.conic_solvers [--families dense-1,dense-2,sparse-2,hr2] [--limit 60] [--solvers clarabel,scs]

Seconds are of CPU time, so that other processes on the machine matter less; the limit is of wall clock. `value` is the
solver's primal value, `off` its distance to the best value of this problem relative to 1 + |value|, `dual` the largest
violation of the dual (A'z + c = 0, z in K*) relative to the data: what a certificate has to pay for. A solver that runs
into the limit is not tried on larger problems of the family.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable, Sequence

import numpy as np

from lipcert.budget import Budget
from lipcert.paper.entries import paper_network, paper_region
from lipcert.polynomial.hierarchy.hierarchies import dense, sparse
from lipcert.polynomial.lcep.literal import hr
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.problem.problem import Problem
from lipcert.solver.conic.conic import ConicProblem, ConicSolution, ConicStatus, choose_conic, smat, solve_conic

Terms = dict[tuple[int, ...], float]


def box_qp(n: int, width: int) -> PolynomialProblem:
    """A random quadratic over the box [-1, 1]^n; x_i x_j only for |i - j| < width."""
    rng = np.random.default_rng(n)
    terms: Terms = {(i,): float(v) for i, v in enumerate(rng.standard_normal(n))}
    for i in range(n):
        terms |= {(i, j): float(rng.standard_normal()) for j in range(i, min(n, i + width))}
    box = tuple(Polynomial.from_terms({(): 1.0, (i, i): -1.0}) for i in range(n))
    return PolynomialProblem(Polynomial.from_terms(terms), box)


def literal_hr2(size: int) -> ConicProblem:
    """The paper's HR-2 of a dense (size, size) network, global."""
    net = paper_network(size, size, 0)
    model, _ = hr(Problem.of(net, paper_region(size, 0, "global")), 2)
    return model.conic().problem


FAMILIES: dict[str, tuple[Callable[[int], ConicProblem], tuple[int, ...]]] = {
    "dense-1": (lambda n: dense(box_qp(n, n), 1).conic().problem, (20, 40, 60, 80, 120, 200)),
    "dense-2": (lambda n: dense(box_qp(n, n), 2).conic().problem, (4, 6, 8, 10, 12, 14)),
    "sparse-2": (lambda n: sparse(box_qp(n, 4), 2).conic().problem, (20, 80, 320, 1280)),
    "hr2": (literal_hr2, (5, 10, 15, 20, 30, 40)),
}


def cpu() -> float:
    """CPU seconds of this process and of its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(problem: ConicProblem, solver: str, limit: float) -> tuple[ConicSolution, float]:
    start = cpu()
    return solve_conic(problem, solver, budget=Budget.of_seconds(limit)), cpu() - start


def dual_violation(problem: ConicProblem, found: ConicSolution) -> float:
    if not np.all(np.isfinite(found.z)):
        return float("nan")
    worst = float(np.abs(problem.A.T @ found.z + problem.c).max())
    for cone, rows in problem.blocks():
        if cone.kind != "zero" and cone.size:
            z = found.z[rows]
            worst = max(worst, -float((np.linalg.eigvalsh(smat(z)) if cone.kind == "psd" else z).min()))
    return worst / (1 + float(np.abs(problem.c).max()))


def run(family: str, solvers: Sequence[str], limit: float) -> None:
    make, sizes = FAMILIES[family]
    tried = list(solvers)
    for size in sizes:
        start = time.perf_counter()
        problem = make(size)
        built = time.perf_counter() - start
        print(
            f"\n{family} n={size}: {problem.columns} moments, {problem.rows} rows, {len(problem.orders)} blocks, "
            f"largest {max(problem.orders)}, built in {built:.2f} s; auto = {choose_conic(problem)}"
        )
        found = {solver: timed(problem, solver, limit) for solver in tried}
        solved = [found[name][0] for name in ("csdp", "clarabel", "scs") if name in found]
        best = next((f.primal for f in solved if f.status is ConicStatus.OPTIMAL), float("nan"))
        for name, (answer, seconds) in found.items():
            off = abs(answer.primal - best) / (1 + abs(best))
            print(
                f"  {name:10s} {seconds:9.2f} s {answer.iterations:6d} it  value {answer.primal:16.8f}  "
                f"off {off:8.1e}  dual {dual_violation(problem, answer):8.1e}  {answer.status.name}",
                flush=True,
            )
        tried = [name for name in tried if found[name][0].status is not ConicStatus.TIME_LIMIT]
        if not tried:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--solvers", default="clarabel,scs,csdp")
    parser.add_argument("--limit", type=float, default=60.0)
    arguments = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = "1"  # the solvers are loaded, and csdp is started, later
    for family in arguments.families.split(","):
        run(family, arguments.solvers.split(","), arguments.limit)


if __name__ == "__main__":
    main()
