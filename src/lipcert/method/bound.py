"""bound(): the door. It checks what it is given, and hands a problem, a bracket and a budget to a method."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lipcert.budget import Budget
from lipcert.budget.memory import Memory, as_size, check_share, unwatched
from lipcert.budget.threads import one_thread
from lipcert.errors import InputError, MethodError
from lipcert.method import table
from lipcert.method.base import PRELUDE_SHARE, Method, Wishes
from lipcert.method.bracket import Bracket
from lipcert.method.cheap import last_resort
from lipcert.method.halfspaces import NO_ROOM, prepared
from lipcert.method.lower import look, look_at_middle, seconds_beside_arithmetic
from lipcert.method.portfolio import stages
from lipcert.method.result import CLOSED, Described, Result
from lipcert.method.slopes import first_pass
from lipcert.method.workers import check_cluster
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import Output, OutputChoice
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Box, Polytope, Region, ball_of
from lipcert.readers.given import TorchModule, network_of
from lipcert.search.progress import Progress, Status
from lipcert.steps import Expired
from lipcert.witness.witness import Witness, evaluate_framed

SIDES_SHARE = 0.1  # share of the budget for the box around a region with half-spaces


def bound(
    net: Network | str | os.PathLike[str] | TorchModule,
    region: Region,
    *,
    output: OutputChoice | Output = None,
    norm: str | Norm = "inf",
    output_norm: str | None = None,
    input_weights: ArrayLike | None = None,
    output_weights: ArrayLike | None = None,
    inputs: Sequence[int] | None = None,
    method: str = "auto",
    solver: str = "auto",
    time_limit: float = 60.0,
    work: float | None = None,
    seed: int = 0,
    lower: bool = True,
    literal: bool = False,
    gap: float = 0.0,
    below: float | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    memory: int | float | str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Bracket the Lipschitz constant of one scalar output, or of the whole map, on a region:

        L = max { ||gradient of c'scores at x||_dual : x in region }
        L = max { ||Jacobian of the scores at x||_(p to q) : x in region }

    Args:
        net: from `lipcert.load`, `lipcert.from_torch` or `Network.from_weights`; or the path of a file, or a torch
            module, which are read by the first two with their defaults. A module that starts with a convolution takes
            the shape of its input from the region's center, an image (channels, height, width).
        region: `Box(center, radius)`, `Ball(center, radius)`, `Polytope(box or ball, A, b)` (those of its points with
            A x <= b) or `Everywhere()`.
        output: a label, a pair (i, j) for score_i - score_j, or a weight vector; may be left out for a single output.
            "all" for the whole map.
        norm: the norm of input changes, p: "inf", "2" or "1".
        output_norm: the norm of output changes, q, of the whole map: "inf", "2" or "1"; p where it is left out.
        input_weights: w > 0, one for every input: changes t are measured as |diag(w) t|_p. Or a positive definite P of
            the Euclidean norm: as sqrt(t'Pt); of the chosen `inputs` alone where these are given.
        output_weights: likewise for changes of the scores of the whole map.
        inputs: which inputs change; the others move within the region, but are the same in both points compared.
        method: one of `lipcert.METHODS`. "auto" takes turns with all that apply; "product", "interval", "linear" and
            "mixed" need no solver; "slopes" has one multiplier per neuron, for any depth; "shor" and "hr2" are the
            paper's relaxations of one hidden layer; "backward", "forward" and "both" (with "-free": without the values
            x) lift networks of any depth; "tight" adds rows and cuts that the paper does not have; "exact" is branch
            and bound over signs and over cells of the region. The paper's "hr1", "hr3", "lipopt3", "lipopt4", "lifting"
            are solved as it states them.
        literal: solve "shor" or "hr2" as the paper states them too, by a general conic solver.
        solver: "auto", "rank-two" (interior point) or "low-rank" (first order); for literal methods a conic solver:
            "clarabel", "scs", "highs", "mosek", "csdp", ...
        time_limit: seconds; the best proved bracket so far is returned when it is reached, or on Ctrl-C.
        work: counted work instead of a time limit, in nominal seconds of one core: the same inputs, seed and work give
            the same bracket bit for bit, however busy the machine is.
        seed: of the random search for the lower bound.
        lower: False leaves the lower bound out; "auto" then takes turns with relaxations alone.
        gap: the relative gap at which a bracket is good enough; 0 means exact, to 1e-6.
        below: a limit; stop as soon as the constant is proved below it, or a witness is not.
        workers: processes that "exact" and "auto" bound cells in; with `work` one, whatever is asked for.
        scheduler: the address of a Dask cluster, tcp://host:port, whose workers do that instead; not with `work`.
        memory: that the process may have: "4G", "500M", "75%" of the machine, or bytes; the best proved bracket so far
            is returned near it. Three quarters of the machine (or of its control group) where it is left out. With
            `workers` it is shared; on a cluster each worker has what is left out here.
        on_progress: called with a `Progress` whenever the bracket or the stage changes.

    Guarantees: `upper` is proved with outward rounding for the given float64 weights; `lower` is a proved lower bound
    of the gradient norm at `witness`, a point of the region.
    """
    call = Call.of(
        net,
        region.shape if isinstance(region, Box | Ball | Polytope) else None,
        method=method,
        literal=literal,
        solver=solver,
        seed=seed,
        lower=lower,
        gap=gap,
        below=below,
        workers=workers,
        scheduler=scheduler,
        memory=memory,
        question=(output, norm, output_norm),
        weights=(input_weights, output_weights, inputs),
        limits=(time_limit, work),
    )
    return call.on(region, call.budget(time_limit, work), on_progress)


@dataclass(frozen=True, eq=False)
class Call:
    """What `bound` was asked, but for the region: every number in it is checked."""

    network: Network
    method: Method
    wishes: Wishes
    question: tuple[OutputChoice | Output, str | Norm, str | None]
    weights: tuple[ArrayLike | None, ArrayLike | None, Sequence[int] | None]
    memory: int | float | str | None

    @classmethod
    def of(
        cls,
        net: Network | str | os.PathLike[str] | TorchModule,
        shape: tuple[int, ...] | None,
        *,
        method: str,
        literal: bool,
        solver: str,
        memory: int | float | str | None,
        question: tuple[OutputChoice | Output, str | Norm, str | None],
        weights: tuple[ArrayLike | None, ArrayLike | None, Sequence[int] | None],
        limits: tuple[float, float | None],
        **numbers: Any,
    ) -> Call:
        """Checked as far as a region is not needed; `numbers` are those of `Wishes`."""
        chosen = table.named(method, literal)
        chosen.check_solver(solver)
        as_size(memory)
        _check_numbers(*limits, numbers["seed"], numbers["gap"], numbers["workers"])
        below = numbers["below"]
        if below is not None and not (isinstance(below, int | float) and 0 < below < math.inf):
            raise InputError.about("below", f"must be a positive number, not {below!r}")
        network = network_of(net, shape)
        if limits[1] is not None:  # the same whatever the machine
            numbers |= {"workers": 1, "scheduler": None}
        check_cluster(numbers["scheduler"])
        numbers["gap"] = max(float(numbers["gap"]), CLOSED)
        return cls(network, chosen, Wishes(solver, **numbers), question, weights, memory)

    def budget(self, time_limit: float, work: float | None) -> Budget:
        """With the share of the memory that this process may have."""
        own = Memory(_share_of(as_size(self.memory), self.wishes))
        return Budget.of_seconds(time_limit, own) if work is None else Budget.of_work(work, own)

    def on(
        self,
        region: Region,
        budget: Budget,
        on_progress: Callable[[Progress], None] | None = None,
        floor: float = 0.0,
        method: Method | None = None,
    ) -> Result:
        """The answer on a region; `floor` as in `Wishes`, `method` in place of the one asked for."""
        chosen, network = method or self.method, self.network
        output, norm, output_norm = self.question
        question = Problem.of(network, region, output, norm, output_norm)
        frame = Frame.of(network, question.norm, *self.weights)
        problem = question if frame is None else frame.problem(network, region, question.norm, question.c)
        refused = chosen.applies(problem)
        if refused is not None:
            raise MethodError(refused)
        bracket = Bracket(replace(self.wishes, floor=floor), on_progress)
        bracket.notes += network.notes
        if isinstance(region, Polytope):
            region = _ready(region, bracket, budget)
            question = Problem(network, region, question.norm, question.output)
            problem = question if frame is None else frame.problem(network, region, question.norm, question.c)
        if frame is not None and ball_of(region) is not None:
            bracket.note("weights: the bound holds on the box around the ball")
        elif frame is not None and isinstance(region, Polytope) and frame.scale.ndim == 2:
            bracket.note("weights: the bound holds on the box around the region")
        unseen = unwatched(self.memory)
        if unseen is not None:
            bracket.note(unseen)
        found = run(chosen, problem, bracket, budget)
        return found if frame is None else framed(found, frame, question)


def _share_of(limit: float, wishes: Wishes) -> float:
    """All of it, or equal parts for this process and the workers beside it."""
    if wishes.workers <= 1 or wishes.scheduler is not None:
        return limit
    each = limit / (wishes.workers + 1)
    check_share(each, limit, wishes.workers)
    return each


def _ready(region: Polytope, bracket: Bracket, budget: Budget) -> Polytope:
    """With an inner point and a small box; how repeatable work is done matters here too."""
    with one_thread() if budget.repeatable else nullcontext():
        found = prepared(region, budget.share(SIDES_SHARE))
    if found.inside is None:
        bracket.note(NO_ROOM)
    return found


def framed(found: Result, frame: Frame, question: Problem) -> Result:
    """The answer to a question in weighted norms from that to the frame's ordinary one."""
    best = found.best
    if best is not None:
        point = question.region.project(frame.point(best.point))
        value = evaluate_framed(frame, question, point)
        best = Witness(point, value, best.method) if question.region.contains(point) else None
    return replace(
        found,
        certificate=found.certificate.framed(frame, question),
        best=best,
        region=question.region,
        output=question.output,
        network=Described(question.network),
        frame=frame,
    )


# Seconds, and share of a call's time, after its limit for the proof that is under way then: later it is cut. The limit
# is kept to a tenth and a second, which leaves the rest of these for starting the program and printing.
_GRACE, _GRACE_SHARE = 0.25, 0.06


def run(method: Method, problem: Problem, bracket: Bracket, budget: Budget) -> Result:
    """The prelude of a method, a witness, and the method; an interrupt ends it with what is proved by then."""
    try:
        # An overflow is an infinite bound or a bad hint, not a message. Several threads add in another order than one.
        with np.errstate(all="ignore"), one_thread() if budget.repeatable else nullcontext():
            try:
                with budget.enforced(_GRACE + _GRACE_SHARE * max(budget.left(), 0.0)):
                    _stages(method, problem, bracket, budget)
            except Expired:
                bracket.out_of_budget(budget)
            if math.isinf(bracket.upper):  # no time, no memory, or an overflow
                last_resort(problem, bracket)
            bracket.end(method.closes, budget)
    except KeyboardInterrupt:
        bracket.status = Status.INTERRUPTED
        if bracket.certificate is None:
            raise
    return bracket.result(problem, budget)


def _stages(method: Method, problem: Problem, bracket: Bracket, budget: Budget) -> None:
    """What comes before a method, the method, and what comes after it."""
    if bracket.wishes.lower or method.needs_witness:
        look_at_middle(problem, bracket, budget)
    for name in method.prelude:
        first, share = table.named(name), budget.share(PRELUDE_SHARE)
        if first.applies(problem) is None and (bracket.certificate is None or not share.over()):
            _within_limits(first, problem, bracket, share)
        if name == "interval" and method.greedy and not bracket.closed():
            _begin(problem, bracket, budget)
    if (bracket.wishes.lower or method.needs_witness) and not method.cheap:
        begun = next(stages(budget)) if method.staged else budget
        look(problem, bracket, budget, method.search * max(begun.left(), 0.0))
    _within_limits(method, problem, bracket, budget, _GRACE + _GRACE_SHARE * max(budget.left(), 0.0))
    if bracket.wishes.lower and method.cheap:
        look(problem, bracket, budget, seconds_beside_arithmetic(budget))


def _within_limits(method: Method, problem: Problem, bracket: Bracket, budget: Budget, grace: float = 0.0) -> None:
    """Run it; where its time is over or the system has no more memory, what is proved by then stands."""
    try:
        with budget.enforced(grace):
            method.run(problem, bracket, budget)
    except Expired:
        bracket.out_of_budget(budget)
    except MemoryError:
        bracket.out_of_memory(method.name, budget)


def _begin(problem: Problem, bracket: Bracket, budget: Budget) -> None:
    """The greedy pass of slopes; where it has no time or memory, what follows is none the worse."""
    before = bracket.status
    try:
        with budget.share(PRELUDE_SHARE).enforced():
            first_pass(problem, bracket, budget)
    except Expired:
        pass
    except MemoryError:
        bracket.out_of_memory("slopes", budget)
    if before is Status.DONE:
        bracket.go_on()


def _check_numbers(time_limit: float, work: float | None, seed: int, gap: float, workers: int) -> None:
    if not (isinstance(time_limit, int | float) and math.isfinite(time_limit) and time_limit > 0):
        raise InputError.about("time_limit", f"must be a positive number of seconds, not {time_limit!r}")
    if work is not None and not (isinstance(work, int | float) and math.isfinite(work) and work > 0):
        raise InputError.about("work", f"must be a positive number of nominal seconds, not {work!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError.about("seed", f"must be a whole number >= 0, not {seed!r}")
    if not (isinstance(gap, int | float) and 0 <= gap < math.inf):
        raise InputError.about("gap", f"must be a number >= 0, such as 0.01, not {gap!r}")
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError.about("workers", f"must be a whole number >= 1, not {workers!r}")
