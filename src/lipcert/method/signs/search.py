"""Best first over the signs of open ReLUs: the pattern with the largest linear bound is refused, or split in two.

    threshold = lower (1 + gap) - price:  a pattern whose linear bound is at most that needs no more work.

A pattern that comes to its turn is refused by what was learnt (`learnt`), or else by a linear program (`program`),
which teaches a nogood or gives an input; then both children of it are bounded, many patterns at once (`quick`). Bounds
on the way are plain floating point: what is claimed in the end, the proof code computes (`tree`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice

import numpy as np

from lipcert.bounds import cut_short
from lipcert.budget import Budget
from lipcert.errors import MethodError
from lipcert.method.bracket import Bracket
from lipcert.method.signs.learnt import Learnt, PatternAnswers
from lipcert.method.signs.program import SIGNS_ASK, SIGNS_CALLS, SIGNS_PIVOT, Answer, Program
from lipcert.method.signs.quick import SIGNS_ENTRIES, Maps, Quick
from lipcert.method.signs.realise import PatternWitnesses
from lipcert.method.signs.tree import SignTree
from lipcert.problem.problem import Problem
from lipcert.proof import Certificate
from lipcert.proof.nogoods import Index, Signs, System, refusal
from lipcert.rounding import Array
from lipcert.search.loop import BestFirst, Queue, SearchOutcome, SearchState
from lipcert.steps import SCALAR, SPARSE, THIN

# Measured on mnist-net_256x2, ERAN 5_100 and DiffAI, collapsed.
SIGNS_FEWEST, SIGNS_MOST = 16, 256  # patterns taken at a time
SIGNS_PART = 8  # one of so many open patterns is taken
SIGNS_QUICK = 50.0  # operations for every coefficient of a pattern's forms
SIGNS_PROOF = 110.0  # operations for every coefficient in a pattern's proof
SIGNS_PIVOTS = 50.0  # pivots that are allowed however little of the budget is left


@dataclass(frozen=True)
class SignState(SearchState):
    """The same, with the linear programs that were solved and the nogoods that were learnt."""

    programs: int
    nogoods: int


def search_signs(
    problem: Problem, bracket: Bracket, budget: Budget, original: Problem | None = None, price: float = 0.0
) -> SearchOutcome:
    """Split and bound until upper + price <= lower (1 + gap), or until the budget is over, or Ctrl-C.

    Witnesses are points of `original`, whose collapse `problem` is, with the `price` of collapsing; they improve the
    bracket. The certificate is about `problem` and left to the caller.
    """
    search = SignSearch(problem, bracket, original, price)
    search.run(budget)
    certificate = search.certificate()
    closed = certificate.upper + price <= bracket.lower * (1 + bracket.settings.gap)
    return SearchOutcome(certificate, search.state, closed, search.interrupted)


class SignSearch(BestFirst):
    """The tree of patterns, the open ones in a queue, and what was learnt; `certificate` may be asked at any time."""

    def __init__(self, problem: Problem, bracket: Bracket, original: Problem | None = None, price: float = 0.0) -> None:
        reason = search_refusal(problem)
        system = None if reason is not None else System.of(problem)
        if system is None:
            raise MethodError(reason or "branching over signs does not cover this problem; use tight")
        super().__init__()
        self.problem, self.bracket, self.price = problem, bracket, price
        self.quick = Maps(problem, system) if problem.whole_map else Quick(problem, system)
        self.learnt = Learnt(system)
        self.program = Program(system) if len(self.quick.open) else None
        self.tree, self.begun = SignTree(problem, self.quick.open), False
        self.points = PatternWitnesses(problem, problem if original is None else original, bracket, self.quick)
        self.queue: Queue[int] = Queue()
        self.costs: dict[int, Array] = {}
        self.stuck = 0.0  # the largest bound of whole patterns that nothing can be done about
        self.finished: set[int] = set()  # these patterns
        self.programs = 0
        self.unproved = self.fresh = 0  # leaves that the proof has to bound, and patterns since they were counted
        self.proving = 0.0  # seconds for a leaf, when last measured
        self.known = PatternAnswers(len(self.quick.open))
        self.crowded = False  # whether more kinks were seen to meet in a point than there are inputs
        self.inside = PatternAnswers(len(self.quick.open))  # points inside cells, asked for since then

    @property
    def threshold(self) -> float:
        """Patterns end below this; a little less than asked, for the rounding of the comparison."""
        return max(self.bracket.lower * (1.0 + 0.999 * self.bracket.settings.gap) - self.price, 0.0)

    @property
    def upper(self) -> float:
        """About what the tree proves of the original problem."""
        return max(self.threshold, self.stuck, self.queue.top if self.begun else math.inf) + self.price

    @property
    def state(self) -> SignState:
        counts = (len(self.queue), len(self.tree), self.programs, self.learnt.count)
        return SignState(self.bracket.lower, self.upper, *counts)

    @property
    def done(self) -> bool:
        """Whether there is nothing left to split."""
        return self.begun and self.queue.top <= self.threshold

    def run(self, budget: Budget) -> None:
        """Go on until everything is decided, the budget is over (but for the proof), or Ctrl-C."""
        with budget.threads(self.quick.count):
            super().run(budget)

    def begin(self) -> None:
        if self.interrupted or not self.begun:
            self._reopen()

    def certificate(self) -> Certificate:
        """The certificate of the tree so far."""
        with np.errstate(all="ignore"), self.budget.threads(self.quick.count):
            if not self.begun:
                self._reopen()
            target = self.upper - self.price
            self._prove(target)
            proof, upper = self.tree.proof(target, self.learnt)
        return Certificate.of(self.problem, proof, upper)

    def _reopen(self) -> None:
        """Push every pattern that is not decided; after an interruption some may be missing."""
        self.queue, self.costs, self.begun = Queue(), {}, True
        open_ = np.flatnonzero(self.tree.is_open & (self.tree.own > self.threshold))
        tips = [n for n in open_.tolist() if n not in self.finished]
        self._bound(tips, [math.inf] * len(tips))

    def _bound(self, nodes: list[int], above: list[float]) -> None:
        """Bound patterns, and push those that need more; `above` bounds them already."""
        if not nodes:
            return
        with self.budget.measured(SIGNS_QUICK * self.quick.numbers * len(nodes), THIN):
            own, costs = self.quick.bounds(self.tree.signs[nodes])
        self.budget.charge(SIGNS_CALLS * len(nodes), SCALAR)
        self.fresh += len(nodes)
        self.tree.own[nodes] = own
        if self.problem.whole_map:
            self.tree.proved_alone[nodes] = own
        threshold = self.threshold
        for node, value, cost, limit in zip(nodes, own.tolist(), costs, above, strict=True):
            if value > threshold:
                self._push(node, min(value, limit), cost)

    def _push(self, node: int, upper: float, cost: Array) -> None:
        self.costs[node] = cost
        self.queue.push(node, upper)

    def over(self) -> bool:
        """Whether no more than the time of the proof is left."""
        if self.fresh > max(SIGNS_MOST, len(self.tree) // SIGNS_PART):
            linear = self.tree.cut(self.upper - self.price)[2]
            self.unproved, self.fresh = self.tree.unproved(linear), 0
        leaves = self.unproved + self.fresh
        expected = self.budget.expected(SIGNS_PROOF * self.quick.numbers * leaves, THIN)
        return self.budget.left() <= max(expected, self.proving * leaves)

    def step(self) -> bool:
        """The patterns with the largest bounds: refuse them, or split them. When none is left, prove the leaves."""
        if self.done:
            return not self._settled()
        size = min(max(len(self.queue) // SIGNS_PART, SIGNS_FEWEST), SIGNS_MOST)
        taken = list(islice(self.queue.above(self.threshold), size))
        divided: list[tuple[int, float]] = []
        for upper, node in taken:
            if self.budget.over():
                self._push(node, upper, self.costs[node])
            elif upper > self.threshold and self._possible(node):  # a point of the last one may have closed it
                divided.append((node, upper))
        self._divide(divided)
        return True

    def _possible(self, node: int) -> bool:
        """Whether this pattern has to be split; if not, it is refused or finished."""
        signs = self.tree.signs[node]
        nogood = int(self.learnt.refusing(signs[None])[0])
        if nogood < 0 and not self.known.allows(signs):
            nogood = self._ask(signs)
        if nogood < 0 and self.crowded and not np.all(signs) and not self.inside.allows(signs):
            nogood = self._ask_inside(signs)
        if nogood < 0 and np.all(signs):
            nogood = self._finish(node)
            if nogood < 0:
                return False
        if nogood >= 0:
            self.tree.nogood[node] = nogood
            self.costs.pop(node, None)
        return nogood < 0

    def _ask(self, signs: Signs) -> int:
        """The linear program: the number of a nogood, or -1 and perhaps a point."""
        if self.program is None:
            return -1
        afford = self.budget.affordable(self.budget.left(), SPARSE) / (SIGNS_PIVOT * self.program.entries)
        most = int(min(max(afford, SIGNS_PIVOTS), 1e9))
        with self.budget.measured(0.0, SPARSE) as work:
            answer = self.program.ask(signs, most)
            looks = SIGNS_ASK * answer.programs + SIGNS_PIVOT * answer.pivots
            work.operations = self.program.entries * looks
        self.budget.charge(SIGNS_CALLS, SCALAR)
        self.programs += 1
        if answer.y is not None and answer.t is not None:
            return self.learnt.learn(answer.y, answer.t, signs)
        if answer.point is not None:
            self.known.add(answer.against)
            self.points.offer(answer.point, self.budget)
            self.crowded = self.crowded or self._meets_many(answer)
        return -1

    def _meets_many(self, answer: Answer) -> bool:
        """Whether more kinks of affine neurons and sides of the box meet in the answer's point than there are inputs.

        Then patterns of them have a point and perhaps no interior, which the program cannot tell. In general position
        no point is such a one.
        """
        point, box = answer.point, self.learnt.system.box
        on, off = np.split(answer.against, 2)
        affine = self.quick.forms(np.zeros(len(on), dtype=np.int8))[2][self.quick.open]
        meeting = np.count_nonzero(affine & ~on & ~off)
        sides = np.count_nonzero((point == box.lo) | (point == box.hi))
        return bool(meeting and meeting + sides > self.problem.network.inputs)

    def _ask_inside(self, signs: Signs) -> int:
        """A nogood of a pattern that has points but no interior, or -1 and perhaps a point inside."""
        point, multipliers = self.points.realise.point(signs, self.budget)
        self.budget.charge(SIGNS_CALLS, SCALAR)
        self.programs += 1
        if multipliers is not None:
            return self.learnt.learn(*multipliers, signs)
        if point is not None:
            found = self.quick.patterns(point[None])[0]
            self.inside.add(np.concatenate([found < 0, found > 0]))
            self.points.offer(point, self.budget)
        return -1

    def _finish(self, node: int) -> int:
        """A whole pattern has one gradient: a point shows it, or the pattern is refused, or it stays as a bound."""
        signs = self.tree.signs[node].copy()
        multipliers = self.points.whole(signs, self.budget)
        nogood = -1 if multipliers is None else self.learnt.learn(*multipliers, signs)
        if nogood < 0 and self.tree.own[node] > self.threshold:
            self.stuck = max(self.stuck, float(self.tree.own[node]))
            self.finished.add(node)
        self.costs.pop(node, None)
        return nogood

    def _divide(self, nodes: list[tuple[int, float]]) -> None:
        """Both children of every node, with the signs that follow; those that are not refused are bounded."""
        if not nodes:
            return
        tree, divided = self.tree, np.array([node for node, _ in nodes])
        tips = tree.divide(divided, np.array([self._column(node) for node, _ in nodes])).tolist()
        above = [upper for _, upper in nodes for _ in range(2)]
        signs = tree.signs[tips]
        for k, follows in enumerate(self.learnt.follow(signs)):
            for column, sign, nogood in follows.forced:
                refused = np.array([nogood, -1] if sign > 0 else [-1, nogood])
                tips[k] = int(tree.divide(np.array([tips[k]]), np.array([column]), refused)[int(sign > 0)])
            tree.nogood[tips[k]] = follows.refused
        kept = [k for k, tip in enumerate(tips) if tree.nogood[tip] < 0]
        self._bound([tips[k] for k in kept], [above[k] for k in kept])

    def _column(self, node: int) -> int:
        """The open sign that costs most. Where kinks meet, that of a neuron which is affine under the pattern: others
        refuse nothing there."""
        cost = self.costs.pop(node)
        if self.crowded:
            affine = self.quick.forms(self.tree.signs[node])[2][self.quick.open]
            cost = np.where(affine | ~np.any(affine & (cost >= 0)), cost, -1.0)
        return int(np.argmax(cost))

    def _settled(self) -> bool:
        """Whether the proved bound of every leaf is below the threshold. A leaf whose proof is weaker than its estimate
        returns to the queue."""
        linear, tree = self._prove(max(self.threshold, self.stuck)), self.tree
        open_ = tree.is_open[linear] & ~np.all(tree.signs[linear], axis=1)
        worse = linear[open_ & (tree.prove(linear) > self.threshold)].tolist()
        worse = [n for n in worse if n not in self.finished]
        if not worse:
            return True
        _, costs = self.quick.bounds(tree.signs[worse])
        tree.own[worse] = tree.proved_alone[worse]
        for node, cost in zip(worse, costs, strict=True):
            self._push(node, float(tree.own[node]), cost)
        return False

    def _prove(self, target: float) -> Index:
        """The linear leaves of the smallest tree for this bound, with their proofs made."""
        linear = self.tree.cut(target)[2]
        fresh = self.tree.unproved(linear)
        before = self.budget.now()
        with self.budget.measured(SIGNS_PROOF * self.quick.numbers * fresh, THIN):
            self.tree.prove(linear)
        if fresh:
            self.proving = (self.budget.now() - before) / fresh
        self.unproved = self.fresh = 0
        return linear

    def report(self) -> None:
        """The bound on the way is plain floating point, so it is a word of the stage, not a bound of the progress."""
        state = self.state
        self.bracket.stage = f"signs: {state.open:,} open of {state.nodes:,}, about {state.upper:.6g}"
        self.bracket.report()


def search_refusal(problem: Problem) -> str | None:
    """Why this problem cannot be searched; None when it can."""
    reason, net = refusal(problem), problem.network
    if reason is None and cut_short(problem):
        return "the time was over before the pre-activation bounds were done; give more"
    if reason is None and net.neurons * (net.neurons + net.inputs) > SIGNS_ENTRIES:
        return f"branching over signs lays {net.neurons:,} neurons and {net.inputs:,} inputs flat; collapse them first"
    return reason
