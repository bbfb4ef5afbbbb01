"""Methods that need no solver: product, interval, linear, mixed, and elimination for one hidden layer."""

from __future__ import annotations

import numpy as np

from lipcert.bounds import cut_short, linear_operations, preactivations, slopes
from lipcert.bounds.choice import forms_work, zonotope_numbers, zonotope_work
from lipcert.bounds.collapse import collapse
from lipcert.bounds.elimination import LARGEST, best_ends
from lipcert.bounds.gains import gains, gains_operations, rows_work
from lipcert.bounds.operator_norms import spectral_operations
from lipcert.bounds.propagation import plain
from lipcert.budget import Budget
from lipcert.budget.memory import NUMBER, in_words
from lipcert.budget.threads import threads_for
from lipcert.method.base import Method
from lipcert.method.bracket import Bracket
from lipcert.problem.problem import INTERVALS, Problem
from lipcert.proof.arithmetic import (
    elimination_terms,
    prove_elimination,
    prove_interval,
    prove_linear,
    prove_mixed,
    prove_product,
)
from lipcert.proof.arithmetic import (
    refusal as elimination_refusal,
)
from lipcert.proof.sharpened import prove_within
from lipcert.relaxation.reduction import gains_of
from lipcert.steps import DENSE, RATES, SPARSE, THIN, Expired
from lipcert.witness import Witness, evaluate
from lipcert.witness.program import PatternProgram

GAINS_SHARE = 0.5  # share of the remaining budget that the rows of all Jacobians may take

# Share of the time for intervals: where the linear forms of all neurons are expected to take more, plain intervals are
# proved first. The value was chosen, not measured: forms cost many passes through a network, plain intervals a few.
_LONG = 0.5
# Times what plain intervals took, kept back for the intervals behind the last form and the chain rule; chosen as well.
_AGAIN = 1.5


class Product(Method):
    """The product of layer norms."""

    name = "product"
    summary = "the product of the layers' norms: any network, at once, loose"
    prelude = ()
    cheap = True

    def cost(self, problem: Problem) -> float:
        operations, kind = _norms_work(problem)
        return operations / RATES[kind]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        with budget.measured(*_norms_work(problem)), threads_for(problem.network.entries**0.5):
            bracket.improve(prove_product(problem))


def _norms_work(problem: Problem) -> tuple[float, str]:
    """The operations for the norms of all layers, and their kind."""
    net = problem.network
    if problem.norm.p != "2":
        return 2.0 * net.entries, THIN
    return sum(spectral_operations(weight) for block in net.blocks for _, weight in block.terms), DENSE


def last_resort(problem: Problem, bracket: Bracket) -> None:
    """Improve the bracket in next to no time and memory: the product, with sums over weights in place of norms."""
    bracket.improve(prove_product(problem, exact=False))


class Interval(Method):
    """The interval chain rule."""

    name = "interval"
    summary = "intervals through the chain rule: any network"
    prelude = ()
    cheap = True

    def cost(self, problem: Problem) -> float:
        return 4.0 * max(problem.network.shape) * problem.network.entries / RATES[DENSE]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        bracket.enter(self.name)
        begin = budget.now()
        if sum(budget.expected(*piece) for piece in forms_work(problem.network)) > _LONG * budget.left():
            bracket.improve(prove_interval(plain(problem)))
        again = _AGAIN * (budget.now() - begin)  # seconds of plain intervals and the chain rule after all forms
        preactivations(problem, budget.upto(budget.left() - again))
        if cut_short(problem):
            bracket.out_of_budget(budget)
        if problem.facts.way == INTERVALS:
            _note_intervals(problem, bracket, budget)
        bracket.improve(prove_interval(problem))


def _note_intervals(problem: Problem, bracket: Bracket, budget: Budget) -> None:
    """A note of the time and the memory that better bounds of the neurons need."""
    net = problem.network
    seconds = budget.expected(*zonotope_work(net, net.inputs))
    size = in_words(NUMBER * zonotope_numbers(net, net.inputs))
    bracket.note(f"neurons have plain intervals: zonotopes would take at least {seconds:.0f} s and {size} here")


class Linear(Method):
    """Linear bounds on the graph of the gradient."""

    name = "linear"
    summary = "linear bounds of the gradient and of its norm: any network, fractions of a second"
    prelude = ("interval",)
    cheap = True

    def cost(self, problem: Problem) -> float:
        net = problem.network
        return 4.0 * (net.inputs + max(net.shape)) * net.entries / RATES[DENSE]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        bracket.enter(self.name)
        outputs = problem.network.outputs if problem.whole_map else 1
        preactivations(problem, budget)
        with threads_for(problem.network.entries**0.5):
            small = None if cut_short(problem) else collapse(problem, budget)
            asked = problem if small is None else small.problem
            operations = outputs * linear_operations(asked.network, slopes(asked))
            if bracket.certificate is not None and budget.expected(operations) > budget.left():
                bracket.out_of_budget(budget)
                return
            with budget.measured(operations):
                found = prove_linear(asked)
            bracket.improve(found if small is None else prove_within(problem, found))


class Mixed(Method):
    """Euclidean norms beside the intervals: what keeps wide and deep networks finite, and pays for their parts."""

    name = "mixed"
    summary = "Euclidean norms and intervals mixed at the best layer: any network"
    prelude = ("interval", "linear")
    cheap = True
    for_many = False

    def cost(self, problem: Problem) -> float:
        return gains_operations(problem.network) / RATES[DENSE]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        """Prove a mixed bound, with the rows of all Jacobians where there is time for them.

        Proofs of parts of the network use the best gains, which a checker computes: only these are kept as a fact.
        """
        bracket.enter(self.name)
        net = problem.network
        several = 8.0 * net.outputs * net.entries if problem.whole_map else 0.0
        norms = gains_operations(net, rows=False) + several
        numbers = 2.0 * net.outputs * sum(net.shape) if problem.whole_map else 0.0
        if bracket.certificate is not None and not budget.holds(numbers):
            bracket.no_room(self.name, numbers, budget)
            return
        if bracket.certificate is not None and budget.expected(norms) > budget.left():
            bracket.out_of_budget(budget)
            return
        half = budget.share(GAINS_SHARE)
        rows = sum(budget.expected(*piece) for piece in rows_work(net))
        if rows + budget.expected(gains_operations(net) + several) < half.left():
            try:
                with half.enforced():
                    self._prove(problem, bracket, budget, gains_operations(net) + several, rows=True)
                    return
            except Expired:  # the rows took longer than expected: norms alone are a bound too
                pass
        self._prove(problem, bracket, budget, norms, rows=False)

    def _prove(self, problem: Problem, bracket: Bracket, budget: Budget, operations: float, *, rows: bool) -> None:
        """The proof, with the rows of all Jacobians or without them."""
        net = problem.network
        with threads_for(net.entries**0.5), budget.measured(operations):
            known = gains(net, preactivations(problem), problem.norm, rows=rows)
            if rows:
                gains_of.keep(problem, known)
            bracket.improve(prove_mixed(problem, known))


ELIMINATION_FROM = 17  # open neurons; branch and bound closes fewer in as little time

_TIMES = 2  # the bound, and the slopes that attain it


class Elimination(Method):
    """Exact where the tables over neurons that share inputs are small."""

    name = "elimination"
    summary = "the largest gradient over all slopes, exactly: one hidden layer, sparse or with about 20 open neurons"
    prelude = ("interval",)
    cheap = True
    for_many = False

    def refusal(self, problem: Problem) -> str | None:
        return elimination_refusal(problem)

    def cost(self, problem: Problem) -> float:
        """The cost with the largest tables that are allowed."""
        return 4.0 * problem.network.neurons * 2.0**LARGEST / RATES[SPARSE]

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        bracket.enter(self.name)
        preactivations(problem, budget)
        found = elimination_terms(problem)
        if found is None:
            bracket.note(f"elimination: more than {LARGEST} neurons share inputs, so that nothing was proved by it")
            return
        if bracket.certificate is not None and _TIMES * budget.expected(found.operations, SPARSE) > budget.left():
            bracket.out_of_budget(budget)
            return
        with budget.measured(found.operations, SPARSE):
            bracket.improve(prove_elimination(problem))
        if bracket.settings.lower and not bracket.closed() and PatternProgram.applies(problem.network):
            _realise(problem, bracket, budget)


def _realise(problem: Problem, bracket: Bracket, budget: Budget) -> None:
    """A point with the slopes of the largest norm, if there is one: then the bound is the constant."""
    found = elimination_terms(problem)
    assert found is not None
    with budget.measured(found.operations, SPARSE):
        high = best_ends(found, problem.norm)
    if high is None:
        return
    own, program = slopes(problem)[0], PatternProgram.of(problem, budget)
    pattern = program.fixed.copy()
    pattern[np.flatnonzero(own.hi > own.lo)] = high
    answer = program.solve(pattern, budget)
    if answer is not None and answer[1] > 0:
        point = program.chart.points(answer[0][None, :])[0]
        bracket.improve(Witness(point, evaluate(problem, point, budget), "elimination"))


def eliminate_many(problem: Problem, bracket: Bracket, budget: Budget) -> None:
    """Elimination where it applies and many neurons are open: few are left to branch and bound over signs, which knows
    the patterns that inputs have.
    """
    if elimination_refusal(problem) is not None or cut_short(problem):
        return
    own = slopes(problem)[0]
    if int((own.hi > own.lo).sum()) < ELIMINATION_FROM:
        return
    found = elimination_terms(problem)
    if found is not None and _TIMES * budget.expected(found.operations, SPARSE) <= budget.left():
        Elimination().run(problem, bracket, budget)
