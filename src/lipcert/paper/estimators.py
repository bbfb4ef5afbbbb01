"""How each method of the paper bounds a cell: pure functions that run in a process of their own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lipcert.bounds.propagation import Interval, preactivation_bounds
from lipcert.budget.threads import threads_for
from lipcert.method.bounding import bound
from lipcert.method.result import Status
from lipcert.method.solving import Task, solve
from lipcert.paper.cells import HR1, HR2, LBS, LIPOPT3, LIPOPT4, OURS, SHOR, Cell, Given, Random
from lipcert.paper.networks import SAMPLES, paper_samples
from lipcert.polynomial.lcep.chain import gradient_polynomial
from lipcert.polynomial.lcep.lipopt import FIRST_ORDER_FROM, lipopt_program
from lipcert.polynomial.lcep.methods import literal_bound
from lipcert.problem.network import Network
from lipcert.problem.norms import INF
from lipcert.problem.output import choose_output
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof.krivine import prove_krivine
from lipcert.proof.multipliers import prove
from lipcert.rounding import Array
from lipcert.solver.conic.conic import ConicStatus, solve_conic
from lipcert.solver.rank_two import Options, solve_rank_two
from lipcert.witness import Witness, sample_points, sampling

OURS_SECONDS = (15.0, 120.0)  # at least and at most, whatever the limit: it is anytime, and its rounds fill any limit
_INTERIOR_UP_TO = 600  # order of a matrix that the interior point takes without a choice of solvers
_STARTS = 500  # of the alternation


@dataclass(frozen=True)
class Estimate:
    """What became of a cell.

    `upper` is proved, `witness` attained. `floor`: no program of this relaxation, solved to the end, can give less (its
    primal value, or a gradient that it allows); a published value below it was not solved to the end. `ended` is empty
    when the method came to its end, else "time" or "solver": `upper` is a bound then too, but not the method's.
    """

    upper: float | None = None
    lower: float | None = None
    floor: float | None = None
    ended: str = ""
    seconds: float = 0.0
    note: str = ""


def solve_cell(cell: Cell, seconds: float) -> dict[str, Any]:
    """The piece of a job: JSON-able."""
    start = time.perf_counter()
    net, region = cell.network.net(), cell.network.region(cell.region)
    c = np.ones(1)
    if isinstance(cell.network, Given):
        c = choose_output(cell.network.output, net.outputs).c
    found = _METHODS[cell.method](_Question(cell, net, region, c, seconds))
    value = asdict(found)
    value["seconds"] = time.perf_counter() - start
    for key in ("upper", "lower", "floor"):
        number = value[key]
        value[key] = float(number) if number is not None and math.isfinite(number) else None
    if value["upper"] is None and value["lower"] is None:
        value["ended"] = value["ended"] or "solver"
    return value


@dataclass(frozen=True, eq=False)
class _Question:
    cell: Cell
    net: Network
    region: Region
    c: Array
    seconds: float


def _lbs(q: _Question) -> Estimate:
    """The paper's own points where its random stream is known, as many others elsewhere."""
    network = q.cell.network
    if isinstance(network, Random) and q.cell.region == "global":
        points = paper_samples(network.size, network.seed, network.layers)
        return _sampled(sample_points(q.net, points, q.c, INF))
    seed = network.seed if isinstance(network, Random) else 0
    rng = np.random.default_rng(seed)
    return _sampled(sampling(q.net, q.region, q.c, INF, samples=SAMPLES, rng=rng), "other random points")


def _sampled(witness: Witness, note: str = "") -> Estimate:
    return Estimate(lower=witness.value, note=note)


def _relaxed(q: _Question) -> Estimate:
    """SHOR and HR-2 of one hidden layer in their reduced form, by the interior point for rank-two rows."""
    method = {SHOR: "shor", HR2: "hr2"}[q.cell.method]
    task = Task.of(Problem.of(q.net, q.region, q.c), method)
    relaxation = task.relaxation
    order = relaxation.problem.size
    if order <= _INTERIOR_UP_TO:
        with threads_for(order):
            result = solve_rank_two(relaxation.problem, Options(time_limit=q.seconds))
            upper = prove(relaxation, result.y).upper
        return Estimate(upper, floor=result.primal, ended=_ended(result.status.name))
    bounds: list[float] = []
    status = solve(task, "auto", q.seconds, lambda certificate: bounds.append(certificate.upper))
    return Estimate(min(bounds), ended=_ended(status.name))


def _hierarchy(q: _Question) -> Estimate:
    """HR-1 and HR-2 of two hidden layers as the paper states them, with t in [-1, 1], by a general conic solver."""
    upper, info = literal_bound(q.net, q.region, INF, q.c, q.cell.method.replace("-", "").lower(), time_limit=q.seconds)
    return Estimate(upper, ended=_ended(ConicStatus(info.status).name), note=info.solver)


def _ended(status: str) -> str:
    """Stopped close to the tolerance is solved: the bound is proved from the multipliers in any case."""
    if status in ("OPTIMAL", "NEARLY_OPTIMAL"):
        return ""
    return "time" if status in ("TIME_LIMIT", "ITERATION_LIMIT", "INTERRUPTED") else "solver"


def _hr2(q: _Question) -> Estimate:
    return _relaxed(q) if q.net.depth == 1 else _hierarchy(q)


def _lipopt(q: _Question) -> Estimate:
    """The linear program over [0, 1]^n; global ones with every slope free, as they were published."""
    degree = int(q.cell.method[-1])
    pre = preactivation_bounds(q.net, q.region)
    if q.cell.region == "global":
        pre = tuple(Interval(np.full(len(z.lo), -np.inf), np.full(len(z.lo), np.inf)) for z in pre)
    start = time.monotonic()
    program = lipopt_program(gradient_polynomial(q.net, q.region, q.c, pre), degree)
    solver = "highs-pdlp" if program.shape[0] > FIRST_ORDER_FROM else "auto"
    left = max(1.0, q.seconds - (time.monotonic() - start))
    solution = solve_conic(program.conic(), solver, time_limit=left)
    upper = prove_krivine(program, program.multipliers(solution))
    floor = largest_pattern(q.net, q.c, pre[0]) if q.net.depth == 1 else None
    note = f"{program.shape[0]:,} products"
    return Estimate(upper, floor=floor, ended=_ended(solution.status.name), note=note)


def largest_pattern(net: Network, c: Array, z: Interval) -> float:
    """max |A'(u * w)|_1 over the slopes that the bounds z leave open, from below: t = sign(M u), u = [M't > 0] until
    it rests. No LipOpt program of these neurons proves less.
    """
    A = sparse.csr_array(net.affines[0].weight).toarray()
    w = np.asarray(c @ sparse.csr_array(net.affines[1].weight).toarray())
    M = A.T * w
    free = (z.lo < 0) & (z.hi > 0)
    fixed, open_ = M[:, z.lo >= 0].sum(axis=1)[:, None], M[:, free]
    u = np.random.default_rng(0).random((open_.shape[1], _STARTS)) < 0.5
    for _ in range(1000):
        t = np.where(fixed + open_ @ u >= 0, 1.0, -1.0)
        better = open_.T @ t > 0
        if np.array_equal(better, u):
            break
        u = better
    return float(np.abs(fixed + open_ @ u).sum(axis=0).max(initial=0.0))


def _ours(q: _Question) -> Estimate:
    """`auto`: the best that applies within the time. Its bound at the limit is its bound."""
    seconds = float(np.clip(q.seconds, *OURS_SECONDS))
    result = bound(q.net, q.region, output=q.c, time_limit=seconds)
    ended = "" if result.status is Status.DONE else "ended by time"
    return Estimate(result.upper, lower=result.lower, note=f"{result.method} {ended}".strip())


_METHODS: dict[str, Callable[[_Question], Estimate]] = {
    LBS: _lbs,
    SHOR: _relaxed,
    HR1: _hierarchy,
    HR2: _hr2,
    LIPOPT3: _lipopt,
    LIPOPT4: _lipopt,
    OURS: _ours,
}
