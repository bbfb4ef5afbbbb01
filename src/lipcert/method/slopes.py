"""Method slopes: one multiplier per neuron, for intervals of all slopes; its cost grows linearly with depth.

A greedy pass gives a first bound in milliseconds. Then a solver improves the multipliers, and what it finds is proved
whenever it promises enough. On a bounded region the network of the open neurons takes the place of the network where
its proof is less work. Where the constant is the largest of several, norm 2 bounds all of them at once; then the one
with the largest bound is looked at by itself, as in `cases`. A solver that has not ended goes on in the next turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Union

import numpy as np

from lipcert.bounds import cut_short, preactivations
from lipcert.bounds.collapse import collapse, collapsed_before
from lipcert.bounds.gradients import unbounded_slope
from lipcert.bounds.propagation import slopes
from lipcert.budget import Budget
from lipcert.method.base import Method
from lipcert.method.bracket import Bracket
from lipcert.method.cases import CASE_LEAST, CASE_SHARE
from lipcert.method.channels import PROOF, ChannelSolves
from lipcert.method.solving import BUILD_CALLS
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull
from lipcert.proof.cases import case_of, case_table
from lipcert.proof.pieces import is_narrow
from lipcert.proof.sharpened import prove_within
from lipcert.proof.slopes import CASES_MOST, WHOLE, Part, prove_part, prove_parts
from lipcert.relaxation.channels import ChannelProgram, channel_program
from lipcert.relaxation.slopes import (
    SlopeBlock,
    SlopeMultipliers,
    SlopeProgram,
    orders_of,
    orders_of_all,
    slope_program,
)
from lipcert.relaxation.slopes import refusal as program_refusal
from lipcert.rounding import Array
from lipcert.search.progress import CLOSED
from lipcert.solver.slopes.choice import SlopeSolver
from lipcert.solver.slopes.greedy import scalar_multipliers
from lipcert.steps import DENSE, RATES, SCALAR

# Measured on random networks of depth 16 to 64, ERAN 3_50 and cifar_base_kw.
SLOPES_MATRICES = 6.0  # times the order squared of the largest piece: numbers in memory during a proof
SLOPES_PROOF = 3.0  # times the sum of the orders cubed: operations of one proof
SLOPES_CALLS = 60.0  # calls for each piece of a proof
SLOPES_CENTRED = 30.0  # times as much if neurons have one slope: their pieces are changed and tried again (avgpool)
SLOPES_GAIN = 1e-3  # relative gain that is worth a proof on the way
SLOPES_SHARE = 0.15  # share of a solver's work that proofs on the way may take
SLOPES_PROOFS = 200.0  # times one proof: about what the solver takes
SLOPES_FIRST = 0.05  # share of the budget for the greedy pass that other methods begin with

_FAILURES = (ArithmeticError, ValueError, RuntimeError, MemoryError)  # numpy and scipy raise these

Place = tuple[int, int]
AnySolves = Union["SlopeSolves", ChannelSolves]


class Slopes(Method):
    """The whole problem, and its cases where it has some."""

    name = "slopes"
    summary = "intervals of all slopes, one multiplier per neuron: any depth, activation, region and norm"
    prelude = ("product", "interval")
    greedy = True

    def refusal(self, problem: Problem) -> str | None:
        """Whether a proof can be small enough; on a bounded region stable neurons may make it so, which `run` sees."""
        net = problem.network
        if hull(problem.region) is not None or channel_program(problem) is not None:
            return None
        return program_refusal(orders_of_all(net), net.inputs)

    def cost(self, problem: Problem) -> float:
        program = _wide_chain(problem)
        if program is not None:
            return SLOPES_PROOFS * program.operations / RATES[DENSE]
        return SLOPES_PROOFS * proof_operations(orders_of_all(problem.network)) / RATES[DENSE]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        run_slopes(problem, bracket, budget)


def run_slopes(problem: Problem, bracket: Bracket, budget: Budget, before: AnySolves | None = None) -> AnySolves | None:
    """The method; None where it did not begin, because a proof is too large or takes too long.

    The state that it returns can be given to the next call, which goes on from it if it is about the same problem.
    """
    work = before if before is not None and before.problem is problem else prepared(problem, bracket, budget)
    if work is None:
        return None
    bracket.enter(Slopes.name)
    if not work.advance(budget) and not bracket.closed():
        bracket.out_of_budget(budget)
    return work


def first_pass(problem: Problem, bracket: Bracket, budget: Budget) -> None:
    """The greedy pass alone, where it takes little of the budget; other methods begin with it."""
    share = budget.share(SLOPES_FIRST)
    if not problem.network.depth or Slopes().refusal(problem) is not None or cut_short(problem):
        return
    by_neurons = hull(problem.region) is None and _wide_chain(problem) is None
    if by_neurons and not _fits(orders_of_all(problem.network), share):
        return
    work = prepared(problem, bracket, share, notes=False)
    if work is not None:
        work.solve((WHOLE, WHOLE), share, passes_only=True)


def prepared(problem: Problem, bracket: Bracket, budget: Budget, notes: bool = True) -> AnySolves | None:
    """The work on this problem.

    None if a proof is too large or takes too long, if the bounds were cut short, or if some slope has no bound.
    """
    bracket.enter(Slopes.name)
    chain = _wide_chain(problem)
    if chain is not None:
        return _by_channels(problem, chain, bracket, budget)
    preactivations(problem, budget)
    if cut_short(problem):  # a checker has better ones: other neurons
        bracket.out_of_budget(budget)
        return None
    if unbounded_slope(problem.network, preactivations(problem)) is not None:
        return None
    small = collapse(problem, budget)
    chosen, orders, tries = problem, orders_of(problem), tries_of(problem)
    if small is not None:
        fewer, others = orders_of(small.problem), tries_of(small.problem)
        if others * proof_operations(fewer) <= tries * proof_operations(orders):
            chosen, orders, tries = small.problem, fewer, others
    refused = program_refusal(orders, problem.network.inputs)
    if refused is not None and notes:
        bracket.note(refused)
    if refused is None and not budget.holds(proof_numbers(orders)):
        refused = "no room"
        bracket.no_room("slopes", proof_numbers(orders), budget)
    if refused is None and bracket.certificate is not None and not _fits(orders, budget, tries):
        refused = "no time"
        bracket.out_of_budget(budget)
    return None if refused is not None else SlopeSolves(problem, chosen, bracket, budget)


def _by_channels(problem: Problem, chain: ChannelProgram, bracket: Bracket, budget: Budget) -> ChannelSolves | None:
    """The work by channels; None where it does not fit the memory or the time."""
    if not budget.holds(chain.numbers):
        bracket.no_room("slopes", chain.numbers, budget)
        return None
    if bracket.certificate is not None and budget.expected(PROOF * chain.operations) > budget.left():
        bracket.out_of_budget(budget)
        return None
    return ChannelSolves(problem, chain, bracket)


def _wide_chain(problem: Problem) -> ChannelProgram | None:
    """The convolutions of a network that is too wide for a multiplier per neuron, on the whole space."""
    net = problem.network
    if hull(problem.region) is not None or program_refusal(orders_of_all(net), net.inputs) is None:
        return None
    return channel_program(problem)


def first_seconds(problem: Problem, budget: Budget) -> float:
    """Seconds of a greedy pass and its proof, before anything is known about the network of the open neurons."""
    chain = _wide_chain(problem)
    if chain is not None:
        return budget.expected(PROOF * chain.operations)
    small = collapsed_before(problem)
    each = [problem] if small is None else [problem, small.problem]
    fewest = min((1 + tries_of(p)) * proof_operations(orders_of(p)) for p in each)
    return budget.expected(fewest)


def proof_operations(orders: tuple[int, ...]) -> float:
    """Operations of one proof, or of one greedy pass, with the calls around its pieces."""
    calls = SLOPES_CALLS * len(orders) * RATES[DENSE] / RATES[SCALAR]
    return SLOPES_PROOF * float(np.sum(np.array(orders, dtype=float) ** 3)) + calls


def proof_numbers(orders: tuple[int, ...]) -> float:
    """Numbers in memory during a proof or a greedy pass: copies of its largest piece."""
    return SLOPES_MATRICES * float(max(orders, default=0)) ** 2


def tries_of(problem: Problem) -> float:
    """Factor on the work of a proof: several shifts are tried where slopes are centred."""
    centred = any(np.any(is_narrow(SlopeBlock((), s.lo, s.hi))) for s in slopes(problem))
    return SLOPES_CENTRED if centred else 1.0


def _fits(orders: tuple[int, ...], budget: Budget, tries: float = 1.0) -> bool:
    """Whether there is time for a greedy pass and its proof."""
    return budget.expected((1 + tries) * proof_operations(orders)) <= budget.left()


@dataclass(eq=False)
class _Question:
    """One program, of the whole problem or of a case, its solver, the multipliers that were proved last and the bound
    that they promised."""

    problem: Problem
    program: SlopeProgram
    place: Place
    solver: SlopeSolver
    proved: SlopeMultipliers | None = None
    promised: float = math.inf


class SlopeSolves:
    """Solves of the whole problem and of its cases, kept between turns: solver and best part of a proof of each.

    `chosen` is the problem that is proved: `problem` itself, or the one of the open neurons.
    """

    def __init__(self, problem: Problem, chosen: Problem, bracket: Bracket, budget: Budget) -> None:
        self.problem, self.chosen, self.bracket, self.budget = problem, chosen, bracket, budget
        self.parts: dict[Place, Part] = {}
        self.table: Array | None = None
        self.floor = 0.0  # lower bound of the largest of all cases
        self.questions: dict[Place, _Question] = {}
        self.ended = False  # whether nothing is left to do, however long a call is

    def advance(self, budget: Budget) -> bool:
        """Go on within a budget; whether nothing is left to do."""
        self.budget = budget
        if not self.problem.has_cases:
            in_time = self.solve((WHOLE, WHOLE), budget)
            self.ended = self.questions[WHOLE, WHOLE].solver.ended
            return in_time
        self.solve((WHOLE, WHOLE), budget.share(CASE_SHARE))
        moves = self._moves()
        in_time = self.cases()
        self.ended = in_time and (self._moves() == moves or all(q.solver.ended for q in self.questions.values()))
        return in_time

    def least(self, budget: Budget) -> float:
        """Seconds of the next move of the solver of the whole, with a proof."""
        question = self.questions.get((WHOLE, WHOLE))
        if question is None or self.problem.has_cases:
            return 0.0
        proof = tries_of(question.problem) * proof_operations(question.program.orders)
        return budget.expected(proof) + question.solver.least(budget)

    @property
    def promised(self) -> float:
        """The bound that the best multipliers of the whole promise, proved or not."""
        question = self.questions.get((WHOLE, WHOLE))
        return math.inf if question is None else question.solver.best

    def _moves(self) -> int:
        return sum(question.solver.moves for question in self.questions.values())

    def _question(self, place: Place) -> _Question:
        """The question of a place, new or to be continued. Other solvers give back their memory but the multipliers."""
        for other in self.questions:
            if other != place:
                self.questions[other].solver.rest()
        if place not in self.questions:
            problem = self.chosen if place == (WHOLE, WHOLE) else case_of(self.chosen, *place)
            program = slope_program(problem)
            self.questions[place] = _Question(problem, program, place, SlopeSolver(program))
        return self.questions[place]

    def solve(self, place: Place, budget: Budget, passes_only: bool = False) -> bool:
        """Run a solver, and prove what it finds on the way; whether it ended within its budget."""
        question = self._question(place)
        if question.solver.ended:
            return True
        proof = budget.expected(tries_of(question.problem) * proof_operations(question.program.orders))
        watcher = _SlopeWatcher(self, question, passes_only)
        within = budget.upto(max(budget.left() - proof, 0.0))
        try:
            last = question.solver.run(within, watcher)
        except _FAILURES as error:
            if isinstance(error, MemoryError):
                self.bracket.out_of_memory("slopes", budget)
            self.bracket.note(f"slopes: its solver failed ({type(error).__name__}: {error})")
            first = scalar_multipliers(question.program) if question.proved is None else None
            if first is not None:
                self.prove(question, first)
            question.solver.ended = True
            return True
        if last is not question.proved:
            self.prove(question, last)
        return not within.over()

    def prove(self, question: _Question, multipliers: SlopeMultipliers) -> None:
        """Prove a bound from multipliers, and hand it to the bracket if it is better."""
        orders = question.program.orders
        operations = tries_of(question.problem) * proof_operations(orders)
        question.proved = multipliers
        with self.budget.threads(max(orders)), self.budget.measured(operations):
            part = prove_part(question.problem, question.program, multipliers, question.place)
        known = self.parts.get(question.place)
        if not part.upper < (math.inf if known is None else known.upper):
            return
        self.parts[question.place] = part
        found = prove_parts(self.chosen, list(self.parts.values()), self.table)
        self.bracket.improve(found if self.chosen is self.problem else prove_within(self.problem, found))

    def decided(self, place: Place) -> bool:
        """Whether a smaller bound would change nothing, because a witness or a finished case keeps the answer there."""
        if place == (WHOLE, WHOLE):
            return self.bracket.closed()
        known = self.parts.get(place)
        return known is not None and known.upper <= self.floor * (1 + CLOSED)

    def cases(self) -> bool:
        """Solve the cases that decide the bound; whether all of them were looked at in time."""
        with self.budget.measured(BUILD_CALLS, SCALAR):
            self.table = case_table(self.chosen)
        whole = self.parts.get((WHOLE, WHOLE))
        bounds = np.minimum(self.table, math.inf if whole is None else whole.upper)
        done = np.zeros(bounds.shape, dtype=bool)
        late = False
        for _ in range(min(done.size, CASES_MOST)):
            at = np.unravel_index(int(np.argmax(np.where(done, -1.0, bounds))), done.shape)
            place = int(at[0]), int(at[1])
            self.floor = max(self.bracket.lower, float(bounds[done].max(initial=0.0)))
            if bounds[place] <= self.floor * (1 + CLOSED):
                return not late
            if self.budget.over():
                return False
            left = self.budget.left()
            share = left if np.count_nonzero(~done) == 1 else max(CASE_SHARE * left, CASE_LEAST)
            late = not self.solve(place, self.budget.upto(share)) or late
            done[place] = True
            if place in self.parts:
                bounds[place] = min(bounds[place], self.parts[place].upper)
        return not late


class _SlopeWatcher:
    """Proves the first multipliers, and later ones that promise enough; says whether the solver should stop."""

    def __init__(self, work: SlopeSolves, question: _Question, first_only: bool) -> None:
        self.work, self.question, self.first_only = work, question, first_only
        self.spent, self.start = 0.0, work.budget.now()

    def __call__(self, multipliers: SlopeMultipliers, promised: float) -> bool:
        now = self.work.budget.now()
        worth = promised < (1 - SLOPES_GAIN) * self.question.promised
        if worth and self.spent <= SLOPES_SHARE * (now - self.start):
            self.work.prove(self.question, multipliers)
            self.question.promised = promised
            self.spent += self.work.budget.now() - now
        return self.first_only or self.work.decided(self.question.place)
