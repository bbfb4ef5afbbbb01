"""A bracket around the optimum: relaxations of rising order on one side, feasible points on the other.

    bound    the best of the relaxations solved so far, each proved by itself
    value    the best feasible point that descents found, from the moments of every relaxation and from random starts

Without an order the least one is solved, and higher ones as long as there is a gap and the next is cheap; "auto" goes
on until the gap is closed or the time is over; a number is that order alone.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.polynomial.hierarchy.hierarchies import MAX_ORDER, least_order
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.hierarchy.plan import Forecast, forecast
from lipcert.polynomial.hierarchy.result import GAP, PolynomialOutcome, PolynomialResult, SolvedOrder
from lipcert.polynomial.hierarchy.solve import (
    AUTO,
    PolynomialOptions,
    PolynomialProgress,
    relaxation_of,
    solve_model,
    solve_problem,
)
from lipcert.polynomial.points.local import LocalProblem, descend
from lipcert.polynomial.points.search import MOST_STARTS, FoundPoint, better, judge, runaway, search
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, contradiction
from lipcert.proof.sos import SosProof
from lipcert.solver.conic.conic import ConicStatus

# Two orders whose bounds differ by less than this, relative to the bound, have reached the solver's accuracy.
STUCK = 1e-6
# The seconds that the next order may be expected to take when the caller did not ask for higher orders.
_CHEAP_SECONDS = 5.0
# The seconds that the next order may be expected to take with order="auto" and no time limit; advice calls a higher
# order large beyond this number.
_MOST_SECONDS = 600.0
# The most orders that are solved, without a request and with order="auto". Moments of high degree leave the range in
# which floats are accurate. All four limits were chosen on dense relaxations of box-constrained quadratic programs.
_MOST_STEPS, _MOST_STEPS_AUTO = 4, 12


def solve_bracket(problem: PolynomialProblem, options: PolynomialOptions | None = None) -> PolynomialResult:
    """The bracket; what is proved when the time is over, or at Ctrl-C, if anything is."""
    options = options or PolynomialOptions()
    options.check()
    work = _Bracket(problem, options, Budget.of_seconds(options.time_limit))
    try:
        work.run()
    except KeyboardInterrupt:
        if work.best is None:
            raise
        work.ended = "interrupted; this is what is proved so far"
    return work.result()


class _Bracket:
    """The bracket as it grows."""

    def __init__(self, problem: PolynomialProblem, options: PolynomialOptions, budget: Budget) -> None:
        # cliques and bad constraints may be iterators: they are needed at every order
        cliques = None if options.cliques is None else tuple(tuple(c) for c in options.cliques)
        bad = None if options.bad is None else tuple(options.bad)
        self.problem, self.options, self.budget = problem, replace(options, cliques=cliques, bad=bad), budget
        self.begin = budget.now()
        self.local = LocalProblem.of(problem)
        self.best: PolynomialResult | None = None
        self.found: FoundPoint | None = None
        self.empty, self.runaway, self.ended = "", False, ""
        self.steps: list[SolvedOrder] = []
        self.next: Forecast | None = None

    def say(self, stage: str) -> None:
        if self.options.on_progress is not None:
            worst = -inf if self.problem.sense == "min" else inf
            bound = worst if self.best is None else self.best.bound
            value = None if self.found is None else self.found.value
            self.options.on_progress(PolynomialProgress(self.budget.now() - self.begin, bound, value, stage))

    def run(self) -> None:
        order = self.options.order if isinstance(self.options.order, int) else self.least()
        model = self.model(order)
        self.empty = contradiction(self.problem) or (_crossed(self.local) if self.local.empty_box else "")
        if self.empty:
            self.best = _nothing(self.problem)
            return
        while True:
            result = self.solve(model, order)
            if self.options.search and not self.budget.over():
                self.look(result, model)
            if self.empty or not self.goes_on(order):
                return
            order += 1
            model = self.model(order)

    def least(self) -> int:
        """The order, or the degree of products, to begin with."""
        krivine = self.options.relaxation == "krivine"
        return max(2, self.problem.objective.degree) if krivine else least_order(self.problem)

    def model(self, order: int) -> MomentModel:
        return relaxation_of(self.problem, replace(self.options, order=order))

    def solve(self, model: MomentModel, order: int) -> PolynomialResult:
        """One relaxation, its bound kept when it is better."""
        self.say(f"order {order}")
        left = max(self.budget.left(), 1e-9)
        result = solve_problem(self.problem, self.options.solving(order, left))
        orders = tuple(sorted((b.order for b in model.blocks if b.order > 1), reverse=True))
        self.steps.append(SolvedOrder(order, result.bound, orders, len(result.monomial_rows) - 1, result.seconds))
        sign = self.local.sign
        if self.best is None or not sign * result.bound <= sign * self.best.bound:
            self.best = result
        return result

    def look(self, result: PolynomialResult, model: MomentModel) -> None:
        """Feasible points from this relaxation; where there is none, whether that can be proved."""
        self.say("looking for points")
        hints = [p for p in (result.minimizer, self.options.start) if p is not None]
        if result.minimizer is not None:
            for point in (result.minimizer, descend(self.local, self.local.clip(result.minimizer))):
                self.found = better(self.local, self.found, judge(self.local, point, "moments"))
        moments = (result.monomial_rows, result.moment_values)
        if not self.closed():
            new = search(
                self.local,
                seed=self.options.seed + len(self.steps) - 1,
                hints=hints,
                moments=moments,
                enough=self.enough,
                budget=self.budget.share(0.5),
                most=MOST_STARTS if self.found is None else MOST_STARTS // 4,
            )
            self.found = better(self.local, self.found, new)
        if self.found is None and not self.budget.over():
            self.say("no feasible point: looking for a proof that there is none")
            self.prove_empty(model)
        elif not result.certified and not self.runaway and not self.budget.over():
            far = runaway(self.local, hints, self.options.seed, self.budget.share(0.5))
            self.runaway, self.found = far is not None, better(self.local, self.found, far)

    def prove_empty(self, model: MomentModel) -> None:
        """A bound above zero on the minimum of zero: what is proved of every feasible point is false."""
        nothing = replace(model, objective=Polynomial.constant(0.0), sense="min")
        try:
            proof = solve_model(nothing, self.options.solver, self.budget)
        except InputError:
            return
        if proof.bound > 0:
            order = self.steps[-1].order
            self.empty = f"a sum-of-squares identity of order {order} shows 0 >= {proof.bound:.3g} at feasible points"
            self.best = replace(proof, sense=self.problem.sense, status="certified")

    def enough(self, found: FoundPoint) -> bool:
        """Whether the best point is good enough. It is kept after every descent, in case of an interrupt."""
        if found is not self.found:
            self.found = better(self.local, self.found, found)
            self.say("looking for points")
        return self._gap(found) <= min(self.options.gap, 1e-6)

    def closed(self) -> bool:
        return self._gap(self.found) <= self.options.gap

    def _gap(self, found: FoundPoint | None) -> float:
        if found is None or self.best is None or not np.isfinite(self.best.bound):
            return inf
        return self.local.sign * (found.value - self.best.bound) / max(1.0, abs(found.value))

    def goes_on(self, order: int) -> bool:
        """Whether the next order is solved too; remembers what it would cost."""
        constrained = self.problem.inequalities or self.problem.equalities
        if self.closed() or self.runaway or self.options.relaxation == "krivine" or not constrained:
            return False  # without constraints every order is the same question
        self.next = self.following(order + 1)
        if isinstance(self.options.order, int) or self.next is None:
            return False
        if self.budget.over():
            self.ended = "stopped at the time limit"
            return False
        asked = self.options.order == AUTO
        left = self.budget.left()
        most = (left if np.isfinite(left) else _MOST_SECONDS) if asked else min(left, _CHEAP_SECONDS)
        if asked and (self.next.largest > MAX_ORDER or self.next.seconds > most):
            self.ended = f"stopped before order {order + 1}, which would take too long"
        steps = _MOST_STEPS_AUTO if asked else _MOST_STEPS
        small = self.next.largest <= MAX_ORDER and self.next.seconds <= most
        return small and len(self.steps) < steps and not self.stuck()

    def following(self, order: int) -> Forecast | None:
        """The size and the time of the next order; None where there is none."""
        try:
            return forecast(self.problem, replace(self.options, order=order), self.budget)
        except InputError:
            return None

    def stuck(self) -> bool:
        """Three orders that proved nothing, or about the same (two, where little is left): another will hardly help."""
        few = 2 if self._gap(self.found) <= GAP else 3
        last = [s.bound for s in self.steps[-few:]]
        known = [b for b in last if np.isfinite(b)]
        if len(last) < few or 0 < len(known) < few:
            return False
        return not known or max(known) - min(known) <= STUCK * max(1.0, *map(abs, known))

    def result(self) -> PolynomialResult:
        assert self.best is not None
        sign = self.local.sign
        best = replace(
            self.best,
            bound=sign * inf if self.empty else self.best.bound,
            minimizer=None if self.empty else self.best.minimizer if self.found is None else self.found.point,
            value=None if self.empty else self.best.value if self.found is None else self.found.value,
            found=None if self.empty else self.found,
            empty=self.empty,
            runaway=self.runaway,
            tolerance=self.options.gap,
            names=self.problem.names or (),
            relaxation=self.options.relaxation,
            steps=tuple(self.steps),
            ended=self.ended,
            seconds=self.budget.now() - self.begin,
        )
        return replace(best, advice=tuple(self.advise(best)))

    def advise(self, result: PolynomialResult) -> list[str]:
        """Advice on what to try next."""
        said: list[str] = []
        free = [n for n, a, b in zip(result.names, self.local.lower, self.local.upper, strict=True) if b - a == inf]
        few = f"{', '.join(free[:6])}{', ...' if len(free) > 6 else ''}"
        if result.outcome is PolynomialOutcome.NOT_CERTIFIED and free:
            said.append(f"bounds on {few} would make every residual payable: add lines such as -10 <= {free[0]} <= 10")
        if result.outcome is PolynomialOutcome.UNBOUNDED:
            said.append(f"the best point found has the value {result.value:.3g}; if that is no mistake, bound {few}")
        if (
            result.outcome in (PolynomialOutcome.GAP, PolynomialOutcome.BOUND, PolynomialOutcome.NOT_CERTIFIED)
            and self.next is not None
        ):
            said.append(self.higher(self.next))
        if result.solver_status in (ConicStatus.TIME_LIMIT.value, ConicStatus.ITERATION_LIMIT.value):
            said.append("the solver was stopped before it was done: a longer time limit gives a better bound")
        return said

    def higher(self, following: Forecast) -> str:
        """The advice about the next order."""
        sparser = "--relaxation sparse has smaller matrices, if the problem is sparse"
        if following.largest > MAX_ORDER:
            return f"order {following.order} is out of reach ({following.words()}); {sparser}"
        if following.seconds > _MOST_SECONDS:
            return f"--order {following.order} may help, but is large ({following.words()}); {sparser}"
        auto = "" if self.options.order == AUTO else ", or --order auto"
        return f"a higher order may help: --order {following.order} ({following.words()}){auto}"


def _crossed(local: LocalProblem) -> str:
    i = int(np.argmax(local.lower - local.upper))
    name = (local.problem.names or ())[i]
    return f"the constraints imply {name} >= {local.lower[i]:.6g} and {name} <= {local.upper[i]:.6g}"


def _nothing(problem: PolynomialProblem) -> PolynomialResult:
    """The result where no relaxation was needed."""
    none = np.zeros(0)
    return PolynomialResult(
        bound=inf,
        sense=problem.sense,
        status="certified",
        minimizer=None,
        value=None,
        proof=SosProof(inf, none, (), (), none),
        seconds=0.0,
        solver="none",
        solver_status="not needed",
        monomial_rows=np.zeros((0, 0), dtype=np.int32),
        moment_values=none,
    )
