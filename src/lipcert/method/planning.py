"""Which relaxations of a network to solve, and in which order, within a budget.

A relaxation of the whole network is best if its moment matrix fits (`plan_whole`). A whole map begins with the lift
without values and signs, which is nearly as good and much smaller. Parts of a network (`plan`) are the layers behind
each cut, the lift without values, and, if even that is too large, the neurons and signs that cost most to leave out;
`auto` has them where the whole takes long. Every step stands by itself, and the best bound of all is the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lipcert.bounds import preactivations, slopes
from lipcert.bounds.gains import Gains
from lipcert.budget import Budget
from lipcert.method.solving import least_numbers
from lipcert.problem.norms import INF
from lipcert.problem.problem import Problem
from lipcert.relaxation.lifts import PRODUCTS_UP_TO, unsigned_order
from lipcert.relaxation.reduction import (
    Mask,
    PricedReduction,
    Reduction,
    everything,
    gains_of,
    losses,
    open_signs,
    share_of,
)
from lipcert.solver.costs import CONDENSED, ITERATIONS, iteration_operations

# Measured on ERAN 3_50, 5_100, 784-1000-1000 and 8 x 1000.
LARGEST_ORDER = 4000  # order of a moment matrix: one factorisation of its rows takes 1 GB and minutes
FIRST_ORDER_FROM = 600  # order from which rounds of first order prove more than rounds of cuts in the same time
HOPELESS_SHARE = 1.3  # share of the call: the lift of a whole map with signs that takes more is not begun
QUICK = 0.5  # seconds: a whole network that takes less needs no parts
STEP_MOST = 0.85  # share of the budget that one step may be expected to take
STEP_SHARE = 0.5  # share of the remaining budget for a step that others follow
PARTS = 5  # steps besides the whole network
TWO_SIDED_OPERATIONS = 30.0  # times the order cubed: alternation is quick, its two proofs take most of it
# Rows of a relaxation for one neuron, counted on 18 random networks of one to ten layers; true within a fifth.
ROWS_OF_ONE_LAYER = 6.0  # an input or an open neuron of one hidden layer
ROWS_OF_INNER, ROWS_OF_LAST = 16.5, 8.5  # an open neuron of a deep network, before its last block and in it
ROWS_OF_FREE = 8.5  # an open neuron before the last block in a relaxation without values


@dataclass(frozen=True, eq=False)
class Step:
    """A part of the network (None: all of it), the order of its matrix, and about how many operations it takes.

    `signs`: whether slopes have variables of their own; a whole map loses little without them.
    """

    reduction: Reduction | None
    order: int
    operations: float
    signs: bool = True

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return self.reduction is None and self.signs

    @property
    def numbers(self) -> float:
        """Least numbers in memory; solvers that need more are chosen where they fit."""
        return least_numbers(self.order)


def plan(problem: Problem, budget: Budget) -> list[Step]:
    """Parts of the network that fit the time, the quickest first: for chains of ReLU in the infinity norm."""
    known = _gains(problem)
    if known is None:
        return []
    steps = [step for step in _Parts(problem, known, budget).steps() if step.order > 1]
    return sorted(steps, key=lambda step: step.operations)[:PARTS]


def has_parts(problem: Problem, budget: Budget) -> bool:
    """Whether parts of the network are worth a look: where the whole takes long, and has no bound before."""
    whole = whole_step(problem)
    long = budget.expected(whole.operations) > QUICK and not first_order_fits(problem, whole.order, budget)
    return long and _gains(problem) is not None


def first_order_fits(problem: Problem, order: int, budget: Budget) -> bool:
    """Whether first-order rounds solve the relaxation of one hidden layer: where it is large, whatever the time."""
    one_layer = problem.norm == INF and problem.network.depth == 1
    return one_layer and order >= FIRST_ORDER_FROM and budget.holds(least_numbers(order))


def plan_whole(problem: Problem, budget: Budget, method: str, most: float = math.inf) -> list[Step]:
    """The steps of a method: the whole network, wherever the memory holds it and its order is at most `most`.

    Its solver has bounds on the way, so that no time is too short to begin. For a whole map "tight" begins with the
    lift without signs, and has no other step if the time is too short for the lift with signs.
    """
    steps = [whole_step(problem, method)]
    if problem.whole_map and method == "tight":
        ends = budget.expected(steps[0].operations) <= HOPELESS_SHARE * budget.left_in_all()
        steps = [unsigned_step(problem)] + steps * ends
    return [step for step in steps if step.order <= most and budget.holds(step.numbers)]


def whole_step(problem: Problem, method: str = "tight") -> Step:
    """The relaxation of the whole network by this method."""
    order, net = expected_order(problem), problem.network
    *hidden, last = [int(np.sum(s.hi > s.lo)) for s in slopes(problem)] or [0]
    inner = sum(hidden)
    if not hidden:
        core, rows = order, ROWS_OF_ONE_LAYER * (net.inputs + last)
    elif method.endswith("-free"):
        core = 1 + 2 * inner + last
        rows = core + net.inputs + ROWS_OF_FREE * inner
    else:
        backward = method == "tight" or method.startswith("backward")
        core = order - (net.inputs if backward and problem.norm.p == "inf" and net.inputs > PRODUCTS_UP_TO else 0)
        rows = core + ROWS_OF_INNER * inner + ROWS_OF_LAST * last
    return Step(None, order, ITERATIONS * iteration_operations(core, CONDENSED * rows))


def unsigned_step(problem: Problem) -> Step:
    """The lift of a whole map without values and signs."""
    signs = problem.network.inputs if problem.norm.p == "inf" else 0  # t is in no row, the solver eliminates it
    order = unsigned_order(problem)
    return Step(None, order, interior_operations(order - signs, order, 1, signs), signs=False)


def expected_order(problem: Problem) -> int:
    """Estimated order of the moment matrix: the inputs, the signs of both ends of the chain rule, and up to three times
    the neurons whose slope is open."""
    net = problem.network
    free = [int(np.sum(s.hi > s.lo)) for s in slopes(problem)] or [0]
    ends = 0 if problem.norm.p == "2" else net.inputs  # the Euclidean norm needs no signs at the input
    if problem.whole_map:
        ends += net.outputs + (net.shape[-2] if net.depth else 0)
    return 1 + net.inputs + ends + 3 * sum(free[:-1]) + free[-1]


def interior_operations(inner: int, order: int, ties: int, signs: int = 0) -> float:
    """Operations of an interior point with `ties` rows for each of the `inner` neurons besides the diagonal.

    `signs` of the variables are in no row but their own, so that the matrices inside are smaller (`solver.roots`).
    """
    rows = 0.8 * (order + ties * inner)
    return float(ITERATIONS * (rows**3 / 3 + 6.0 * (order - signs) ** 3))


def _gains(problem: Problem) -> Gains | None:
    """The gains that bound the parts left out; None if parts are not covered or the gains were not computed in time."""
    relu = all(f.kind == "relu" for f in problem.network.activations)
    if not (relu and problem.norm == INF and problem.network.is_chain and gains_of.known(problem)):
        return None
    return gains_of(problem)


class _Parts:
    """Parts of a network that fit the time and are not plainly worse than others."""

    def __init__(self, problem: Problem, known: Gains, budget: Budget) -> None:
        self.problem, self.known, self.budget = problem, known, budget
        self.seconds = budget.left()
        self.free = open_signs(preactivations(problem))

    def steps(self) -> list[Step]:
        return [step for cut in range(self.problem.network.depth) for step in self._behind(cut)]

    def _behind(self, cut: int) -> list[Step]:
        """The layers behind a cut, by Euclidean norms and by signs."""
        steps, whole = [], everything(cut, self.problem.network.shape)
        share = share_of(self.problem, whole)
        by_signs = float(share.weights @ share.gradients[0].magnitude)
        by_norm = self.known.reach[cut] * float(np.linalg.norm(share.gradients[0].magnitude))
        signs = Reduction(cut, losses(share, self.free[cut:])[0] > 0, whole.neurons)
        euclid = Reduction(cut, np.zeros_like(whole.inputs), whole.neurons, euclid=True)
        for part, worth in ((euclid, by_norm < 4 * by_signs), (signs, by_signs < 2 * by_norm or cut == 0)):
            if not (worth and np.isfinite(by_signs)):
                continue
            step = self._step(part)
            if step.order <= LARGEST_ORDER and self._fits(step, STEP_MOST):
                steps.append(step)
            elif not part.euclid:
                step, lost = self._trimmed(part)
                steps += [step] if lost < min(by_signs, by_norm) else []
        return steps

    def _fits(self, step: Step, share: float) -> bool:
        return self.budget.holds(step.numbers) and self.budget.expected(step.operations) <= share * self.seconds

    def _step(self, part: Reduction) -> Step:
        kept = [int(np.sum(mask & own)) for mask, own in zip(part.neurons, self.free[part.cut :], strict=True)]
        inner, signs = sum(kept[:-1]), int(part.inputs.sum())
        order = 1 + signs + 2 * inner + kept[-1]
        two_sided = len(kept) == 1 and not part.euclid
        operations = TWO_SIDED_OPERATIONS * order**3 if two_sided else interior_operations(inner, order, 7, signs)
        return Step(part, order, operations)

    def _trimmed(self, part: Reduction) -> tuple[Step, float]:
        """The part with as many signs and neurons as fit, those that cost most to leave out first; and what is lost."""
        nothing = Reduction(part.cut, np.zeros_like(part.inputs), tuple(np.zeros_like(m) for m in part.neurons))
        share, free = share_of(self.problem, nothing), self.free[part.cut :]  # with neurons left out intervals hold
        few, many = 0, LARGEST_ORDER
        while many - few > 20:
            size = (few + many) // 2
            fits = self._fits(self._step(_most_costly(part, share, free, size)), STEP_MOST / 2)
            few, many = (size, many) if fits else (few, size)
        kept = _most_costly(part, share, free, few)
        inputs, neurons = losses(share, free)
        lost = sum(float(n[~own].sum()) for n, own in zip(neurons, kept.neurons, strict=True))
        return self._step(kept), lost + float(inputs[~kept.inputs].sum())


def _most_costly(part: Reduction, share: PricedReduction, free: tuple[Mask, ...], size: int) -> Reduction:
    """The variables in the order of their price per entry of the matrix, up to `size` entries."""
    inputs, neurons = losses(share, free)
    entries = [np.ones(len(inputs))] + [np.full(len(n), 2.0) for n in neurons[:-1]] + [np.ones(len(neurons[-1]))]
    price, width = np.concatenate([inputs, *neurons]), np.concatenate(entries)
    ranked = np.argsort(-price / width, kind="stable")
    kept = np.zeros(len(price), dtype=bool)
    kept[ranked] = np.cumsum(width[ranked]) <= size
    masks = np.split(kept & (price > 0), np.cumsum([len(inputs), *(len(n) for n in neurons)])[:-1])
    return Reduction(part.cut, masks[0], tuple(masks[1:]))
