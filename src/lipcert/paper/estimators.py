"""How each method of the paper bounds an entry, and the estimates that a job has so far.

The estimators are pure functions that run in a process of their own. `Findings` reads the outcomes of a job as
estimates, a number or a word for each entry, and refuses contradictions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import preactivations
from lipcert.budget import Budget
from lipcert.errors import SoundnessError
from lipcert.jobs import Outcome
from lipcert.method.bound import bound
from lipcert.method.bracket import Bracket
from lipcert.method.solving import OneSolve, Task
from lipcert.paper.entries import (
    HR1,
    HR2,
    LBS,
    LIPOPT3,
    LIPOPT4,
    OURS,
    SAMPLES,
    SHOR,
    RandomNetwork,
    TargetEntry,
    TrainedNetwork,
    paper_samples,
)
from lipcert.polynomial.lcep.lipopt import lipopt
from lipcert.polynomial.lcep.methods import literal_bound
from lipcert.problem.output import choose_output
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere
from lipcert.proof.multipliers import prove
from lipcert.relaxation.specification import build, plan_specification
from lipcert.search.progress import Status
from lipcert.solver.conic.conic import ConicStatus
from lipcert.solver.rank_two import solve_rank_two
from lipcert.witness import sample_points, sampling

OURS_SECONDS = (15.0, 120.0)  # at least and at most: it is anytime, and its rounds fill any limit
_OURS_SHARE = 1 / 20  # of the limit: what the paper's methods are compared with is what one gets while waiting
_SCS_TOLERANCE = 1e-5  # moves bounds by less than that, and takes a half to a fifth of the time of 1e-6
_INTERIOR_UP_TO = 600  # order of a matrix that the interior point takes without a choice of solvers


TIME, FAILED = "time", "failed"
WITHOUT_X = "without x"  # the end of the note of a program that x is not in


@dataclass(frozen=True)
class Estimate:
    """The result of an entry.

    `upper` is proved, `lower` attained by a gradient. `floor`: no program of this relaxation, solved to the end, can
    give less (its primal value, or a gradient that it allows); a published value below it was not solved to the end.
    `point` is where `lower` is attained.
    `ended` is empty when the method came to its end, else a word: `upper` is a bound then too, but not the method's.
    """

    upper: float | None = None
    lower: float | None = None
    floor: float | None = None
    ended: str = ""
    seconds: float | None = None
    note: str = ""
    point: tuple[float, ...] | None = None

    @property
    def value(self) -> float | None:
        """The method's own value: its upper bound, or its lower one if it only samples; None if it was stopped."""
        if self.ended:
            return None
        return self.lower if self.upper is None else self.upper


def solve_entry(entry: TargetEntry, seconds: float) -> dict[str, Any]:
    """The piece of a job: JSON-able."""
    start = time.perf_counter()
    net, region = entry.network.net(), entry.network.region(entry.region)
    c = np.ones(1)
    if isinstance(entry.network, TrainedNetwork):
        c = choose_output(entry.network.output, net.outputs).c
    value = asdict(_METHODS[entry.method](_EntryProblem(entry, Problem.of(net, region, c), seconds)))
    value["seconds"] = time.perf_counter() - start
    for key in ("upper", "lower", "floor"):
        number = value[key]
        value[key] = float(number) if number is not None and math.isfinite(number) else None
    if value["lower" if entry.method == LBS else "upper"] is None:
        value["ended"] = value["ended"] or FAILED
    return value


@dataclass(frozen=True, eq=False)
class _EntryProblem:
    entry: TargetEntry
    problem: Problem
    seconds: float


def _lbs(q: _EntryProblem) -> Estimate:
    """The paper's own points where its random stream is known, as many others elsewhere."""
    network = q.entry.network
    if isinstance(network, RandomNetwork) and q.entry.region == "global":
        points = paper_samples(network.size, network.seed, network.layers)
        witness, note = sample_points(q.problem.on(Everywhere()), points), ""
    else:
        witness = sampling(q.problem, Budget.unlimited(), seed=network.seed, samples=SAMPLES)
        note = "other random points"
    return Estimate(lower=witness.value, note=note, point=tuple(float(e) for e in witness.point))


def _relaxed(q: _EntryProblem) -> Estimate:
    """SHOR and HR-2 of one hidden layer in their reduced form, by the interior point for rank-two rows."""
    method = {SHOR: "shor", HR2: "hr2"}[q.entry.method]
    specification, budget = plan_specification(q.problem, method), Budget.of_seconds(q.seconds)
    relaxation = build(q.problem, specification)
    order = relaxation.problem.size
    if order <= _INTERIOR_UP_TO:
        with budget.threads(order):
            result = solve_rank_two(relaxation.problem, budget=budget)
            upper = prove(relaxation, result.y).upper
        return Estimate(upper, floor=result.primal, ended=_ended(result.status.name))
    bracket = Bracket()
    status = OneSolve().advance(Task(q.problem, specification, relaxation), bracket, budget)
    return Estimate(bracket.upper, ended=_ended(status.name))


def _hierarchy(q: _EntryProblem) -> Estimate:
    """HR-1 and HR-2 of two hidden layers as the paper states them, with t in [-1, 1], by a general conic solver.

    Globally without x and z where no sign is known: they change nothing there (measured, see docs/reproduction.md), and
    without them HR-2 is HR-1, as the matrices over (1, t_i, t_i^2) that it adds can be completed: L(t_i)^2 <= L(t_i^2)
    <= 1 are the moments of a distribution on [-1, 1].
    """
    method, problem, budget = q.entry.method.replace("-", "").lower(), q.problem, Budget.of_seconds(q.seconds)
    free = q.entry.region == "global" and _all_signs_open(problem)
    if free:
        method, problem = "hr1", problem.on(Everywhere())
    upper, info = literal_bound(problem, method, budget=budget, tolerance=_SCS_TOLERANCE)
    note = f"{info.solver}, {WITHOUT_X}" if free else info.solver
    return Estimate(upper, ended=_ended(ConicStatus(info.status).name), note=note)


def _all_signs_open(problem: Problem) -> bool:
    return all(bool(np.all((z.lo < 0) & (z.hi > 0))) for z in preactivations(problem))


def _ended(status: str) -> str:
    """Stopped close to the tolerance is solved: the bound is proved from the multipliers in any case."""
    if status in ("OPTIMAL", "NEARLY_OPTIMAL"):
        return ""
    return TIME if status in ("TIME_LIMIT", "ITERATION_LIMIT", "INTERRUPTED") else FAILED


def _hr2(q: _EntryProblem) -> Estimate:
    return _relaxed(q) if q.problem.network.depth == 1 else _hierarchy(q)


def _lipopt(q: _EntryProblem) -> Estimate:
    """The linear program over [0, 1]^n; global ones with every slope free, as they were published."""
    degree = int(q.entry.method[-1])
    pre = preactivations(q.problem)
    if q.entry.region == "global":
        pre = tuple(Interval(np.full(len(z.lo), -np.inf), np.full(len(z.lo), np.inf)) for z in pre)
    found = lipopt(q.problem, degree, pre=pre, budget=Budget.of_seconds(q.seconds))
    note = f"{found.products:,} products, {found.rows:,} rows"
    return Estimate(found.upper, floor=found.floor, ended=_ended(found.status.name), note=note)


def _ours(q: _EntryProblem) -> Estimate:
    """`auto`: the best that applies within the time. Its bound at the limit is its bound."""
    share = _OURS_SHARE if isinstance(q.entry.network, RandomNetwork) else 1.0  # there are hundreds of these
    seconds = float(np.clip(q.seconds * share, *OURS_SECONDS))
    asked = q.problem
    result = bound(asked.network, asked.region, output=asked.output, time_limit=seconds)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    ended = "" if result.status in (Status.DONE, Status.OPEN) else "ended by time"
    point = None if result.witness is None else tuple(float(e) for e in result.witness)
    return Estimate(result.upper, lower=result.lower, note=f"{result.method} {ended}".strip(), point=point)


_METHODS: dict[str, Callable[[_EntryProblem], Estimate]] = {
    LBS: _lbs,
    SHOR: _relaxed,
    HR1: _hierarchy,
    HR2: _hr2,
    LIPOPT3: _lipopt,
    LIPOPT4: _lipopt,
    OURS: _ours,
}


MEMORY, NOT_RUN, NOT_TRIED = "memory", "not run", "not tried"


@dataclass(frozen=True)
class Attained:
    """The norm of a gradient, which method found it, and the point."""

    value: float
    method: str
    point: tuple[float, ...] | None

    @property
    def written(self) -> str:
        """The point as text from which it can be read back to the last bit."""
        return "" if self.point is None else " ".join(map(repr, self.point))


class Findings:
    """The estimates of all entries that were asked for; refuses contradictions."""

    def __init__(self, entries: Iterable[TargetEntry], outcomes: Mapping[str, Outcome]) -> None:
        self.entries = [*entries]
        self._found = {entry.name: estimate_of(outcomes.get(entry.name)) for entry in self.entries}
        self._witness: dict[tuple[str, str], Attained] = {}
        for entry in self.entries:
            found, key = self[entry], (entry.network.name, entry.region)
            if found.lower is not None and (key not in self._witness or found.lower > self._witness[key].value):
                self._witness[key] = Attained(found.lower, entry.method, found.point)
        for entry in self.entries:
            upper, lower = self[entry].upper, self.lower(entry)
            if upper is not None and lower is not None and upper < lower:
                raise SoundnessError(
                    f"{entry.name}: the bound {upper!r} lies below a gradient norm {lower!r} of the same region: "
                    "a bug in lipcert, please report it"
                )

    def __getitem__(self, entry: TargetEntry) -> Estimate:
        return self._found.get(entry.name, Estimate(ended=NOT_RUN))

    def lower(self, entry: TargetEntry) -> float | None:
        """The largest gradient norm that any method found for this network and region."""
        witness = self.witness(entry)
        return None if witness is None else witness.value

    def witness(self, entry: TargetEntry) -> Attained | None:
        """The largest gradient norm, and the point and method that found it."""
        return self._witness.get((entry.network.name, entry.region))


def estimate_of(outcome: Outcome | None) -> Estimate:
    if outcome is None:
        return Estimate(ended=NOT_RUN)
    if outcome.value is None:
        return Estimate(ended=error_word(outcome.error or ""), note=outcome.error or "")
    point = outcome.value.get("point")
    return Estimate(**{**outcome.value, "point": None if point is None else tuple(point)})


def error_word(error: str) -> str:
    """Running out of something reads the same whoever noticed it; a program that is too large to build is memory."""
    text = error.lower()
    if "out of memory" in text or "products here; the limit" in text or "too large" in text:
        return MEMORY
    return TIME if "out of time" in text else FAILED
