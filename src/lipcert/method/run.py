"""The answer on one region: cheap methods, a witness, and the method that was asked for, each within its budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from lipcert.bounds.gradients import unbounded_slope
from lipcert.bounds.propagation import plain, preactivations
from lipcert.budget import Budget
from lipcert.budget.memory import unwatched
from lipcert.budget.threads import one_thread
from lipcert.errors import MethodError
from lipcert.method import table
from lipcert.method.base import PRELUDE_SHARE, Method
from lipcert.method.bracket import Bracket
from lipcert.method.cheap import last_resort
from lipcert.method.halfspaces import NO_ROOM, prepared
from lipcert.method.lower import look, look_at_middle, seconds_beside_arithmetic
from lipcert.method.result import NetworkSummary, Result
from lipcert.method.slopes import first_pass
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.question import Question
from lipcert.problem.region import Polytope, ball_of, hull
from lipcert.search.progress import Progress, Status
from lipcert.search.settings import Settings
from lipcert.steps import Expired
from lipcert.witness.witness import Witness, evaluate_framed

SIDES_SHARE = 0.1  # share of the budget for the box around a region with half-spaces


def answer(
    question: Question,
    settings: Settings,
    budget: Budget,
    on_progress: Callable[[Progress], None] | None = None,
    floor: float = 0.0,
) -> Result:
    """The answer on one region: the question is made an ordinary problem, on which the method runs.

    Raises MethodError where the method does not cover the problem. `floor` is that of `Bracket`.
    """
    method, problem = table.named(settings.method, settings.literal), question.problem()
    refused = method.refusal(problem)
    if refused is not None:
        raise MethodError(refused)
    bracket = Bracket(settings, on_progress, floor)
    assert isinstance(question.network, Network)
    bracket.notes += question.network.notes
    if isinstance(question.region, Polytope):
        question = replace(question, regions=(_prepared_region(question.region, bracket, budget),))
        problem = question.problem()
    frame, region = question.frame, question.region
    if hull(region) is None and any(math.isinf(f.steepest) for f in problem.network.activations):
        lost = unbounded_slope(problem.network, preactivations(plain(problem)))
        if lost is not None:
            raise MethodError(f"{lost}; give a bounded region")
    if frame is not None and ball_of(region) is not None:
        bracket.note("weights: the bound holds on the box around the ball")
    elif frame is not None and isinstance(region, Polytope) and frame.scale.ndim == 2:
        bracket.note("weights: the bound holds on the box around the region")
    unseen = unwatched(settings.memory)
    if unseen is not None:
        bracket.note(unseen)
    found = run(method, problem, bracket, budget)
    return found if frame is None else framed(found, frame, replace(question, frame=None).problem())


def _prepared_region(region: Polytope, bracket: Bracket, budget: Budget) -> Polytope:
    """The region with half-spaces, now with an inner point and a small box around it.

    Linear algebra has one thread where work must repeat.
    """
    with one_thread() if budget.repeatable else nullcontext():
        found = prepared(region, budget.share(SIDES_SHARE))
    if found.inside is None:
        bracket.note(NO_ROOM)
    return found


def framed(found: Result, frame: Frame, problem: Problem) -> Result:
    """The answer to a problem in weighted norms, from the answer to the ordinary problem that the frame makes of it."""
    best = found.best
    if best is not None:
        point = problem.region.project(frame.point(best.point))
        value = evaluate_framed(frame, problem, point)
        best = Witness(point, value, best.method) if problem.region.contains(point) else None
    return replace(
        found,
        certificate=found.certificate.framed(frame, problem),
        best=best,
        region=problem.region,
        output=problem.output,
        network=NetworkSummary(problem.network),
        frame=frame,
    )


# Seconds, and share of a call's time, after its limit for the proof that is under way then: later it is cut. The limit
# is kept to a tenth and a second, which leaves the rest of these for starting the program and printing.
_GRACE, _GRACE_SHARE = 0.25, 0.06


def run(method: Method, problem: Problem, bracket: Bracket, budget: Budget) -> Result:
    """Run a method with its prelude and the search for witnesses; Ctrl-C ends it with the bracket proved by then."""
    try:
        # An overflow is an infinite bound or a bad hint, not a message. Several threads add in another order than one.
        with np.errstate(all="ignore"), one_thread() if budget.repeatable else nullcontext():
            try:
                with budget.enforced(_GRACE + _GRACE_SHARE * max(budget.left(), 0.0)):
                    _run_with_prelude(method, problem, bracket, budget)
            except Expired:
                bracket.out_of_budget(budget)
            if math.isinf(bracket.upper):  # no time, no memory, or an overflow
                last_resort(problem, bracket)
                _explain_infinite_bound(problem, bracket)
            bracket.end(method.closes, budget)
    except KeyboardInterrupt:
        bracket.status = Status.INTERRUPTED
        if bracket.certificate is None:
            raise
    return bracket.result(problem, budget)


def _explain_infinite_bound(problem: Problem, bracket: Bracket) -> None:
    """Note which neuron has a slope without a bound, if that is known and nothing was proved because of it."""
    known = problem.facts.preactivations
    lost = (
        unbounded_slope(problem.network, known.intervals) if known is not None and math.isinf(bracket.upper) else None
    )
    if lost is not None:
        bracket.note(f"no bound: {lost}; a smaller region may have one")


def _run_with_prelude(method: Method, problem: Problem, bracket: Bracket, budget: Budget) -> None:
    """Cheap methods, a first witness, the method itself, and after a cheap method a longer search for a witness."""
    if bracket.settings.lower or method.needs_witness:
        look_at_middle(problem, bracket, budget)
    for name in method.prelude:
        first, share = table.named(name), budget.share(PRELUDE_SHARE)
        if first.refusal(problem) is None and (bracket.certificate is None or not share.over()):
            _within_limits(first, problem, bracket, share)
        if name == "interval" and method.greedy and not bracket.closed():
            _greedy_pass(problem, bracket, budget)
    if (bracket.settings.lower or method.needs_witness) and not method.cheap:
        look(problem, bracket, budget, method.search * max(budget.left(), 0.0))
    _within_limits(method, problem, bracket, budget, _GRACE + _GRACE_SHARE * max(budget.left(), 0.0))
    if bracket.settings.lower and method.cheap:
        look(problem, bracket, budget, seconds_beside_arithmetic(budget))


def _within_limits(method: Method, problem: Problem, bracket: Bracket, budget: Budget, grace: float = 0.0) -> None:
    """Run a method. If its time is over or the system has no more memory, the bracket keeps its proofs so far."""
    try:
        with budget.enforced(grace):
            method.run(problem, bracket, budget)
    except Expired:
        bracket.out_of_budget(budget)
    except MemoryError:
        bracket.out_of_memory(method.name, budget)


def _greedy_pass(problem: Problem, bracket: Bracket, budget: Budget) -> None:
    """The greedy pass of slopes; later methods need nothing from it, so it may end without a result."""
    before = bracket.status
    try:
        with budget.share(PRELUDE_SHARE).enforced():
            first_pass(problem, bracket, budget)
    except Expired:
        pass
    except MemoryError:
        bracket.out_of_memory("slopes", budget)
    if before is Status.DONE:
        bracket.clear_limit()
