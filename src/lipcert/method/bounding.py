"""bound(): picks the proofs and searches, keeps the best bracket, never an unproved number."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lipcert.bounds.gains import gains, gains_operations
from lipcert.bounds.propagation import preactivations, slope_bounds
from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.errors import InputError, MethodError
from lipcert.jobs import local, processes
from lipcert.method.branching import BOXES_UP_TO, EXACT, State, branch, check_branching
from lipcert.method.mip.claim import Claim
from lipcert.method.planning import LARGEST, Step, expected_order, plan
from lipcert.method.result import Result, Status, relative_gap
from lipcert.method.solving import Task, check_solver, proof_fits, proof_seconds, rounds_fit, solve, tighten
from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm, parse_norm, parse_norms
from lipcert.problem.output import Output, OutputChoice, choose_output
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box, Region, check_region
from lipcert.proof import Certificate, prove_interval, prove_product
from lipcert.proof.arithmetic import prove_mixed
from lipcert.proof.stated import check_stated, prove_stated
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import RELAXATIONS, Specification, check_relaxation, plan_specification
from lipcert.rounding import Array
from lipcert.solver import ConicStatus
from lipcert.solver import Progress as Iteration
from lipcert.solver import Status as SolverStatus
from lipcert.witness import Witness, improve, improve_whole, search, search_whole

LITERAL_METHODS: tuple[str, ...] = ("shor", "hr1", "hr2", "hr3", "lipopt3", "lipopt4", "lifting")
METHODS: tuple[str, ...] = ("auto", "product", "interval", "mixed", *RELAXATIONS, "exact")
METHODS += tuple(m for m in LITERAL_METHODS if m not in METHODS)  # these exist in the paper's form only
METHODS += ("mip",)
_LOWER_SHARE = 0.5  # of the time limit, at most, for lower bounds where no solver runs
_LOWER_SHARE_BESIDE_A_SOLVER = 0.2
_LOWER_SHARE_BESIDE_MIP = 0.02  # a start for a search of its own
_MOMENTS_SHARE = 0.04  # of the time limit, at most, for lower bounds from one moment matrix
_MOMENTS_SHARE_LEFT = 0.15  # of the time left then
_MOMENTS_RATE = 5e-7  # seconds times the order squared: eigenvectors of one moment matrix
_MOMENTS_SHARE_LEAST = 0.004  # of the time limit, below which no matrix is looked at any more
_MIXED_RATE = 1.5e10  # operations per second of the mixed norms on one core
_STEP_SHARE = 0.5  # of the time left, at most, for a step that others follow
_FIRST_SHARE = 0.05  # of the time left, at most, for a part before the whole network
_FIRST_TIMES = 4.0  # times its expected seconds, at most, for such a part
_AGREEMENT = 1e-5  # by how much a solver without proofs may miss what is proved
_BRANCHING_LEAST = 0.5  # seconds left, below which `auto` does not begin with parts
_BRANCHING_LARGEST = 400  # neurons, or inputs, up to which it does
_BRANCHING_FEW = 14  # open signs that are tried before any relaxation,
_BRANCHING_FIRST = 0.1  # for this share of the time
_BRANCHING_OPEN = 40  # signs, unless there are few inputs


@dataclass(frozen=True)
class Progress:
    """The bracket in hand while `bound` works, `seconds` after its start.

    `stage` is the method at work, `iteration` the solver's last, when one runs.
    """

    seconds: float
    lower: float | None
    upper: float
    stage: str
    iteration: Iteration | None = None

    @property
    def gap(self) -> float | None:
        """As `Result.gap`."""
        return relative_gap(self.lower, self.upper)


def bound(
    net: Network,
    region: Region,
    *,
    output: OutputChoice | Output = None,
    norm: str | Norm = "inf",
    output_norm: str | None = None,
    method: str = "auto",
    solver: str = "auto",
    time_limit: float = 60.0,
    seed: int = 0,
    lower: bool = True,
    literal: bool = False,
    gap: float = 0.0,
    workers: int = 1,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Bracket the Lipschitz constant of one scalar output, or of the whole map, on a region:

        L = max { ||gradient of c'scores at x||_dual : x in region }
        L = max { ||Jacobian of the scores at x||_(p to q) : x in region }

    Args:
        net: from `lipcert.load`, `lipcert.from_torch` or `Network.from_weights`.
        region: `Box(center, radius)`, `Ball(center, radius)` or `Everywhere()`.
        output: a label, a pair (i, j) for score_i - score_j, or a weight vector; may be left out for a single output.
            "all" for the whole map.
        norm: the norm of input changes, p: "inf", "2" or "1".
        output_norm: the norm of output changes, q, of the whole map: "inf", "2" or "1"; p where it is left out.
        method: "auto" (the best that applies and that the time allows), "product", "interval", "mixed", or for one
            hidden layer of ReLU the semidefinite relaxations "shor" and "hr2", for any depth and activation the lifts
            "backward", "forward" and "both" (with "-free": without the values x), and "tight": hr2 or a lift with rows
            and cuts that the paper does not have. "exact": branch and bound over parts of the region until the gap is
            closed; "auto" ends with it where tight leaves a gap on a small network.
            The paper's other estimators "hr1", "hr3", "lipopt3", "lipopt4", "lifting" are solved as it states them.
            "mip" has a mixed-integer solver look for the largest gradient (ReLU or leaky ReLU, a box): its points are
            witnesses, its optimum is in `Result.claim`, and `upper` is what "mixed" proves.
        literal: solve "shor" or "hr2" as the paper states them too, by a general conic solver.
        solver: "auto", "rank-two" (interior point) or "low-rank" (first order); for literal methods a conic solver:
            "clarabel", "scs", "highs", "mosek", "csdp", ...
        time_limit: seconds; the best proved bracket so far is returned when it is reached, or on Ctrl-C.
        seed: of the random search for the lower bound.
        lower: False leaves the lower bound out.
        gap: the relative gap at which a bracket is good enough; 0 means exact, to 1e-6.
        workers: processes that "exact" bounds its parts in.
        on_progress: called with a `Progress` whenever the bracket or the stage changes.

    Guarantees: `upper` is proved with outward rounding for the given float64 weights; `witness` is a proved lower bound
    of the gradient norm at `witness`, a point of the region.
    """
    if method not in METHODS:
        raise MethodError(f"unknown method {method!r}; use one of {', '.join(METHODS)}")
    literal = literal or method not in ("auto", "product", "interval", "mixed", "exact", "mip", *RELAXATIONS)
    if literal and method not in LITERAL_METHODS:
        raise MethodError(f"method {method} has no literal form; use one of {', '.join(LITERAL_METHODS)}")
    if method == "mip" and solver != "auto":
        raise MethodError(f"method mip has a solver of its own, HiGHS, not {solver}; leave the solver out")
    check_solver(solver, literal)
    if not (isinstance(time_limit, int | float) and math.isfinite(time_limit) and time_limit > 0):
        raise InputError(f"time_limit must be a positive number of seconds, not {time_limit!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number >= 0, not {seed!r}")
    if not (isinstance(gap, int | float) and 0 <= gap < math.inf):
        raise InputError(f"gap must be a number >= 0, such as 0.01, not {gap!r}")
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"workers must be a whole number >= 1, not {workers!r}")
    check_region(region, net.inputs)
    chosen = choose_output(output, net.outputs)
    job = _Job(net, region, chosen, _norms(norm, output_norm, chosen), time_limit, on_progress)
    job.gap, job.workers = max(float(gap), EXACT), workers
    try:
        with np.errstate(all="ignore"):  # an overflow is an infinite bound or a bad hint, not a message
            job.run(method, solver, seed if lower else None, literal)
    except KeyboardInterrupt:
        job.status = Status.INTERRUPTED
        if job.best is None:
            raise
    return job.result()


def _norms(norm: str | Norm, output_norm: str | None, output: Output) -> Norm:
    """The norms of both ends; that of outputs belongs to the whole map alone."""
    if output.c.ndim == 2:
        p = parse_norm(norm)
        return p if p.out is not None else parse_norms(p, p.p if output_norm is None else output_norm)
    if output_norm is not None or (isinstance(norm, Norm) and norm.out is not None):
        raise InputError("a norm of outputs belongs to the whole map; ask for output 'all'")
    return parse_norm(norm)


class _Job:
    """The mutable side of one call: the best certificate and witness so far."""

    def __init__(
        self,
        net: Network,
        region: Region,
        output: Output,
        norm: Norm,
        time_limit: float,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.net, self.region, self.output, self.norm = net, region, output, norm
        self.problem = Problem(net, region, norm, output)
        self.on_progress = on_progress
        self.start = time.monotonic()
        self.limit = time_limit
        self.status = Status.DONE
        self.best: Certificate | None = None
        self.witness: Witness | None = None
        self.stage = "product"
        self.iteration: Iteration | None = None
        self.in_parts = False  # whether the gains that pay for parts of the network are known
        self.notes: list[str] = list(net.notes)
        self.seed = 0
        self.gap, self.workers = EXACT, 1
        self.parts_upper = math.inf  # what the tree in the making proves
        self.moments_share = _MOMENTS_SHARE
        self.claim: Claim | None = None

    def run(self, method: str, solver: str, seed: int | None, literal: bool) -> None:
        """Cheap proofs first, then a witness, then a relaxation if one was asked for or applies."""
        if literal:
            check_stated(method, self.region, self.norm)
            self._prove_cheaply(method)
            if seed is not None:
                self._search(_LOWER_SHARE_BESIDE_A_SOLVER, seed)
            self._literally(method, solver)
            return
        if method == "mip":
            self._mixed_integer(seed)
            return
        relaxation = self._relaxation(method)
        if method == "exact":
            check_branching(self.net, self.region, self.norm)
        self._prove_cheaply(method)
        if seed is not None or method == "exact":  # parts are closed by a witness, asked for or not
            alone = relaxation is None and method != "exact"
            self._search(_LOWER_SHARE if alone else _LOWER_SHARE_BESIDE_A_SOLVER, seed or 0)
        parts = method == "auto" and seed is not None
        if parts and self._worth_branching(_BRANCHING_FEW, 0):
            self._branch(True, _BRANCHING_FIRST * self._left())
        if relaxation is not None and (method != "auto" or not self._closed()):
            self._relax(relaxation, solver)
        if method == "exact" or (parts and self._worth_branching(_BRANCHING_OPEN, BOXES_UP_TO)):
            self._branch(seed is not None, self._left())

    def _worth_branching(self, most_open: int, few_inputs: int) -> bool:
        """Whether parts are likely to close the gap: few inputs, or few open signs."""
        try:
            check_branching(self.net, self.region, self.norm)
        except MethodError:
            return False
        if self._closed() or self.status is not Status.DONE or self._left() < _BRANCHING_LEAST:
            return False
        if self.witness is None or self.witness.value <= 0:  # no gap is small beside nothing
            return False
        free = sum(int(np.sum(s.hi > s.lo)) for s in slope_bounds(self.net, preactivations(self.problem)))
        small = max(self.net.neurons, self.net.inputs) <= _BRANCHING_LARGEST
        return small and (self.net.inputs <= few_inputs or free <= most_open)

    def _branch(self, lower: bool, seconds: float) -> None:
        """Parts of the region, until the gap is closed or the time is over."""
        self._enter("parts")
        known = math.inf if self.best is None else self.best.upper
        with local() if self.workers == 1 else processes(self.workers) as executor:
            outcome = branch(
                self.problem,
                gap=self.gap,
                deadline=time.monotonic() + seconds,
                executor=executor,
                witness=self.witness,
                known=known,
                on_state=lambda state, witness: self._watch(state, witness if lower else None),
            )
        self.witness = outcome.witness if lower else None
        self.parts_upper = math.inf
        self._keep(outcome.certificate)
        if outcome.interrupted:
            self.status = Status.INTERRUPTED
        elif not outcome.closed and outcome.state.upper > outcome.state.lower and self._left() <= 0:
            self.status = Status.TIME_LIMIT
        self.notes.append(f"{outcome.state.parts:,} parts of the region, {len(outcome.leaves):,} in the proof")

    def _watch(self, state: State, witness: Witness | None) -> None:
        self.parts_upper = state.upper
        self.witness = witness
        self.stage = f"parts: {state.open:,} open of {state.parts:,}"
        self._report()

    def _relaxation(self, method: str) -> str | None:
        """Which relaxation to solve; a named one that does not apply is refused before any work."""
        if method == "mixed" and self.norm.out is not None:
            raise MethodError("method mixed is for one output, not for the whole map; use interval or tight")
        if method not in ("auto", *RELAXATIONS):
            return None
        name = "tight" if method == "auto" else method
        try:
            check_relaxation(self.problem, name)
        except MethodError:
            if method == "auto":
                return None
            raise
        return name

    def _prove_cheaply(self, method: str) -> None:
        if method in ("auto", "product"):
            self._keep(prove_product(self.problem))
        if method == "product":
            return
        self._enter("interval")
        preactivations(self.problem, Budget.of_seconds(self._left()))
        if self._left() < 0:
            self.status = Status.TIME_LIMIT
        self._keep(prove_interval(self.problem))
        if method != "interval" and self.norm.out is None:
            self._prove_mixed(method)

    def _prove_mixed(self, method: str) -> None:
        """Euclidean norms beside the intervals: what keeps wide and deep networks finite, and pays for their parts."""
        in_time = method == "mixed" or gains_operations(self.net) / _MIXED_RATE < 0.5 * self._left()
        self._enter("mixed")
        with threads_for(max(a.stored for a in self.net.affines) ** 0.5):
            rough = None if in_time else gains(self.net, preactivations(self.problem), self.norm, rows=False)
            self._keep(prove_mixed(self.problem, rough))
        self.in_parts = in_time  # a part is proved with the best gains only: a checker computes those

    def _search(self, share: float, seed: int) -> None:
        self._enter("lower bound")
        self.seed = seed
        seconds = max(0.0, min(share * self.limit, self._left()))
        about = (self.net, self.region, self.output.c, self.norm)
        with threads_for(max(a.stored for a in self.net.affines) ** 0.5):
            if self.norm.out is not None:
                whole = (self.net, self.region, self.norm)
                self.witness = search_whole(*whole, seconds=seconds, seed=seed, on_progress=self._see)
            else:
                self.witness = search(*about, seconds=seconds, seed=seed, on_progress=self._see)

    def _round(self, relaxation: Relaxation, X: Array, weights: Array | None = None) -> None:
        """A better witness from a moment matrix; half the time for the next one after a matrix that gave none."""
        if self.witness is None or self._closed() or self.moments_share < _MOMENTS_SHARE_LEAST:
            return
        before = self.witness.value
        seconds = min(self.moments_share * self.limit, _MOMENTS_SHARE_LEFT * self._left())
        if seconds < _MOMENTS_RATE * len(X) ** 2:
            return
        self.seed += 1
        found = (self.witness, relaxation, X)
        with threads_for(max(a.stored for a in self.net.affines) ** 0.5):
            if self.norm.out is None:
                about = (self.net, self.region, self.output.c, self.norm)
                self.witness = improve(*about, *found, seconds=seconds, seed=self.seed, on_progress=self._see)
            else:
                whole = (self.net, self.region, self.norm, *found, self.output.c if weights is None else weights)
                self.witness = improve_whole(*whole, seconds=seconds, seed=self.seed, on_progress=self._see)
        if self.witness.value <= before * (1 + 1e-6):
            self.moments_share /= 2

    def _relax(self, name: str, solver: str) -> None:
        if self._left() <= 0:
            self.status = Status.TIME_LIMIT
            return
        self._enter(name)
        if self.problem.has_cases:
            self._cases(name, solver)
            return
        relu = all(f.kind == "relu" for f in self.net.activations)
        in_parts = self.in_parts and relu and self.norm == INF  # parts of a network are for the infinity norm
        steps = plan(self.problem, in_parts, self._left(), self._signs())
        if not steps or steps[-1].reduction is not None:
            order = expected_order(self.problem, self._signs())
            instead = "parts of the network take its place" if steps else "no part of it fits the time"
            self.notes.append(f"{name} of the whole left out: order {order:,} is beyond {LARGEST:,}; {instead}")
        whole = bool(steps) and steps[-1].reduction is None
        for step in steps:
            if self.status is Status.INTERRUPTED or (step is not steps[0] and self._closed()):
                return
            seconds = self._left() if step is steps[-1] else _STEP_SHARE * self._left()
            if whole and step.reduction is not None:  # a first bound only: the time belongs to the whole network
                seconds = min(seconds, _FIRST_TIMES * step.seconds, _FIRST_SHARE * self._left())
                if not proof_fits(step.order, seconds):
                    continue
            before, said = self.status, len(self.notes)
            self._step(name, solver, step, seconds)
            if step is not steps[-1] and self.status is Status.TIME_LIMIT:
                self.status = before  # its own share was over, not the time
                if whole:
                    del self.notes[said:]  # the whole network is still to come: nothing was left out

    def _signs(self) -> int:
        """How many variables the ends of the chain rule take: the Euclidean norm needs none at the input."""
        ends = 0 if self.norm.p == "2" else self.net.inputs
        return ends + (self.net.outputs + self.net.shape[-2] if self.norm.out is not None else 0)

    def _cases(self, name: str, solver: str) -> None:
        """The largest of several problems, worst first."""
        from lipcert.method.cases import solve_cases  # here, so that importing lipcert stays fast

        lower = (lambda: 0.0) if self.witness is None else (lambda: self.witness.value if self.witness else 0.0)
        try:
            told = (lower, self._keep, self._iterate, self._round)
            ended = solve_cases(self.problem, name, solver, self._left(), *told)
        except (ArithmeticError, ValueError, RuntimeError, MemoryError) as error:  # as numpy and scipy raise them
            self.notes.append(f"the solver failed ({type(error).__name__}: {error}); the bound was proved without it")
            return
        self._ended(ended)

    def _step(self, name: str, solver: str, step: Step, seconds: float) -> None:
        """One relaxation of all or of a part of the network."""
        part = step.reduction
        # The least order the whole can have: building takes time too.
        least = 1 + (self.net.inputs if self.norm.p == "inf" else 0)
        if not self._proof_fits(least if part is None else step.order, seconds):
            return
        from lipcert.method.products import products_fit, solve_products  # here, so that importing lipcert stays fast
        from lipcert.method.triangles import solve_triangles, triangles_fit

        method = name if part is None or name == "tight" else "backward"  # what a part is the lift of
        begin = time.monotonic()
        try:
            plan = (
                plan_specification(self.problem, method)
                if part is None
                else Specification(method, "backward", values=False, reduction=part.table)
            )
            task = Task.of(self.problem, plan)
            seconds -= time.monotonic() - begin
            if not self._proof_fits(task.relaxation.problem.size, seconds):
                return
            with threads_for(task.relaxation.problem.size):
                look = self._round if part is None else None
                todo = (task, solver, seconds, self._keep, self._iterate, look)
                if name == "tight" and part is None and triangles_fit(task, solver, seconds):
                    ended = solve_triangles(task, seconds, self._keep, self._iterate, self._closed).status
                elif name == "tight" and part is None and products_fit(task, solver, seconds):
                    ended = solve_products(task, seconds, self._keep, self._iterate, self._closed).status
                elif name == "tight" and rounds_fit(task, solver, seconds):
                    ended = tighten(*todo, self._closed)
                else:
                    ended = solve(*todo)
        except (ArithmeticError, ValueError, RuntimeError, MemoryError) as error:  # as numpy and scipy raise them
            self.notes.append(f"the solver failed ({type(error).__name__}: {error}); the bound was proved without it")
            return
        self._ended(ended)

    def _ended(self, ended: SolverStatus) -> None:
        if ended is SolverStatus.TIME_LIMIT:
            self.status = Status.TIME_LIMIT
        elif ended is SolverStatus.INTERRUPTED:
            self.status = Status.INTERRUPTED
        elif ended is not SolverStatus.OPTIMAL:
            self.notes.append(f"the solver ended {ended.value}")

    def _literally(self, method: str, solver: str) -> None:
        """The paper's estimator as it is stated; its own bound is the answer, the cheap one where it proves nothing."""
        from lipcert.polynomial.lcep.methods import literal_bound

        self._enter(f"{method}, literal")
        arguments = (self.net, self.region, self.norm, self.output.c)
        upper, info = literal_bound(*arguments, method, solver=solver, time_limit=max(self._left(), 1.0))
        self.notes.append(f"{info.solver}: {info.status}")
        if not math.isfinite(upper):
            self.notes.append(f"{method} proved nothing; the bound was proved without it")
            return
        if self.best is not None and self.best.upper < upper:
            self.notes.append(f"{self.best.method} proves {self.best.upper:.6g}, which is less")
        self.best = prove_stated(self.problem, method, upper)
        self._report()

    def _mixed_integer(self, seed: int | None) -> None:
        """What a solver without proofs says, beside what is proved cheaply; its points are witnesses like any other."""
        from lipcert.method.mip.formulation import check_mip
        from lipcert.method.mip.search import maximise

        check_mip(self.net, self.region, self.norm)
        assert isinstance(self.region, Box)  # or it was refused
        self._prove_cheaply("mip")
        if seed is not None:
            self._search(_LOWER_SHARE_BESIDE_MIP, seed)
        self._enter("mip")
        arguments = (self.net, self.region, self.norm, self.output.c, preactivations(self.problem))
        try:
            claim, ended = maximise(
                *arguments, seconds=self._left(), known=self.witness, on_witness=self._see, on_bound=self._hear
            )
        except MethodError as error:
            self.notes.append(str(error))
            return
        if ended is ConicStatus.TIME_LIMIT:
            self.status = Status.TIME_LIMIT
        elif ended is ConicStatus.INTERRUPTED:
            self.status = Status.INTERRUPTED
        if self._credible(claim):
            self.claim = claim

    def _hear(self, bound: float) -> None:
        if math.isfinite(bound):
            self._enter(f"mip: nothing above {bound:.6g}, not certified")

    def _credible(self, claim: Claim) -> bool:
        """Whether a claim agrees with what is proved."""
        lower = -math.inf if self.witness is None else self.witness.value
        upper = math.inf if self.best is None else self.best.upper
        if claim.bound >= lower * (1 - _AGREEMENT) and claim.value <= upper * (1 + _AGREEMENT):
            return True
        self.notes.append(f"left out, because it contradicts what is proved: {claim}")
        return False

    def _proof_fits(self, order: int, left: float) -> bool:
        if proof_fits(order, left):
            return True
        self.status = Status.TIME_LIMIT
        seconds = proof_seconds(order)
        self.notes.append(
            f"{self.stage} left out: a proof of order {order:,} takes about {seconds:.0f} s, too long here"
        )
        return False

    def _left(self) -> float:
        return self.start + self.limit - time.monotonic()

    def _closed(self) -> bool:
        if self.best is None or self.witness is None:
            return False
        return self.best.upper <= self.witness.value * (1 + self.gap)

    def _keep(self, certificate: Certificate) -> None:
        if self.best is None or certificate.upper < self.best.upper:
            self.best = certificate
        self._report()

    def _see(self, witness: Witness) -> None:
        self.witness = witness
        self._report()

    def _iterate(self, iteration: Iteration) -> None:
        self.iteration = iteration
        self._report()

    def _enter(self, stage: str) -> None:
        self.stage = stage
        self._report()

    def _report(self) -> None:
        if self.on_progress is not None:
            upper = min(self.parts_upper, math.inf if self.best is None else self.best.upper)
            lower = None if self.witness is None else self.witness.value
            self.on_progress(Progress(time.monotonic() - self.start, lower, upper, self.stage, self.iteration))

    def result(self) -> Result:
        assert self.best is not None
        return Result(
            certificate=self.best,
            best=self.witness,
            status=self.status,
            seconds=time.monotonic() - self.start,
            region=self.region,
            norm=self.norm,
            output=self.output,
            network={"sha256": self.net.sha256, "shape": list(self.net.shape)},
            notes=tuple(self.notes),
            claim=self.claim,
        )
