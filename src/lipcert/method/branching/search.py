"""Best first: the cell with the largest bound is bounded better, or split; cells below the threshold are closed.

    threshold = lower (1 + gap) - price:  a cell whose proved bound is at most that needs no more work.

A cell has linear bounds when it is made (all halves that are tried in one batch), then a relaxation where that is
worth its time, then it is split. Every moment there is a bracket: the largest bound of the open cells and the best
witness.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait

import numpy as np

from lipcert.bounds import Cell, root_bounds
from lipcert.budget import Budget
from lipcert.jobs.executors import worker_count
from lipcert.method.bracket import Bracket
from lipcert.method.branching.choose import Halves, look_operations, try_splits
from lipcert.method.branching.judge import Half, judged
from lipcert.method.branching.node import CellTree, Node
from lipcert.method.branching.realise import REALISE_SECONDS, realise
from lipcert.method.branching.refute import Refusals
from lipcert.method.branching.relax import RelaxationReply, RelaxationTask, relax
from lipcert.method.branching.worth import Worth
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull
from lipcert.proof.leaves import BY_LINES, Leaf
from lipcert.relaxation.specification import refusal as relaxation_refusal
from lipcert.rounding import Array
from lipcert.search.loop import BestFirst, Queue, SearchOutcome, SearchState
from lipcert.search.scores import cell_operations
from lipcert.steps import SCALAR, SPARSE, THIN
from lipcert.witness import Witness, evaluate, steepness

# Measured on the paper's small networks and ACAS Xu 1_1.
CELLS_AT_ONCE = 64  # nodes split at a time
CELLS_STEP = 0.1  # share of the remaining budget, at most, for one batch
BOXES_GAIN = 0.95  # the split of a box gained little if it left more than this share of the bound
ROUNDS_AT_ROOT = 4  # rounds of cuts at the root, which all cells inherit
CELL_SHARE = 0.25  # share of the remaining budget, at most, for one relaxation
CELL_LEAST = 1.0  # seconds, at least, for one relaxation
CELL_CALLS = 40.0  # calls around the cheap bounds of one cell
# Operations of a cell's cheap bounds, relative to those of all forms: without open signs, and more by the share of
# signs that are open (ACAS Xu 2_1).
CELL_CLOSED, CELL_OPEN = 0.5, 4.0
POLISH_ROUNDS, POLISH_POINTS = 8, 128  # around the center of a cell that is a new witness


def refusal(problem: Problem) -> str | None:
    """Why cells cannot decide this problem; None when they can."""
    if problem.network.depth == 0:
        return "method exact needs a hidden layer; an affine network is exact with linear"
    return None


OnState = Callable[[SearchState, Witness | None], None]


def branch(
    problem: Problem, bracket: Bracket, budget: Budget, executor: Executor, on_state: OnState | None = None
) -> SearchOutcome:
    """Split and bound until upper <= lower (1 + gap) with the bracket's gap, or until the budget is over, or Ctrl-C.

    The bracket's witness is where the search starts from, and cells are not worked on to be worse than its upper bound;
    the bracket itself is left to the caller.
    """
    search = CellSearch(problem, bracket, executor, on_state)
    search.run(budget)
    return search.outcome()


class CellSearch(BestFirst):
    """The tree of cells, the open ones in a queue, and the relaxations that are under way.

    Witnesses are points of the `original` problem, whose collapse `problem` may be, with the `price` of collapsing.
    """

    def __init__(
        self,
        problem: Problem,
        bracket: Bracket,
        executor: Executor,
        on_state: OnState | None = None,
        original: Problem | None = None,
        price: float = 0.0,
    ) -> None:
        super().__init__()
        self.problem, self.net, self.executor, self.bracket = problem, problem.network, executor, bracket
        self.original, self.price = problem if original is None else original, price
        self.gap, self.witness, self.on_state = bracket.settings.gap, bracket.witness, on_state
        self.queue: Queue[Node] = Queue()  # by bound; where the bracket is below it, by a cell's own
        self.under_way: dict[Future[RelaxationReply], Node] = {}
        # As many relaxations as cases for every cell: intervals alone are the better deal.
        self.worth = Worth(not problem.has_cases and relaxation_refusal(problem, "tight") is None)
        cell, bounds = root_bounds(problem)
        first = judged(problem, [cell], bounds).half(0)
        self.tree, self.refusals = CellTree(self.net), Refusals(self.net)
        self.stuck: list[float] = []  # the bounds of cells that nothing can be done about
        self.late: list[Node] = []  # cells whose linear program may have had too little time: the next run asks again
        self.each = cell_operations(problem)
        root = self._node(first, min(first.upper, bracket.upper), 0)
        self.tree.prove(root)
        self._push(root)

    def begin(self) -> None:
        """Start from the best witness that is known by now."""
        if self.bracket.witness is not None and self.bracket.witness.value > self.lower:
            self.witness = self.bracket.witness
        late, self.late = self.late, []
        for node in late:
            self._push(node)
        self.report()

    @property
    def lower(self) -> float:
        return 0.0 if self.witness is None else self.witness.value

    @property
    def threshold(self) -> float:
        """Closed cells end below this; a little less than asked, for the rounding of the comparison."""
        return max(self.lower * (1.0 + 0.999 * self.gap) - self.price, 0.0)

    @property
    def upper(self) -> float:
        """The largest bound of all cells: the open ones, those under way, and the closed ones; the price is added."""
        others = (n.upper for n in (*self.under_way.values(), *self.late))
        return max([self.threshold, *self.stuck, *others, self.queue.top]) + self.price

    @property
    def done(self) -> bool:
        """Whether there is nothing left to split, in this run or in another one."""
        return not self.late and self._idle

    @property
    def waits(self) -> bool:
        """Whether all that is left needs a longer run."""
        return bool(self.late) and self._idle

    @property
    def _idle(self) -> bool:
        return not self.under_way and self.queue.top <= self.threshold

    def step(self) -> bool:
        """Hand the worst cells to the executor for a relaxation, or split them, and take in what has come back."""
        if self._idle:
            return False
        self._split(self._take())
        self._collect()
        return True

    def _take(self) -> list[Node]:
        """The cells with the largest bounds: some are handed to the executor for a relaxation, the others are split."""
        chosen: list[Node] = []
        workers = worker_count(self.executor)
        free = workers + 1 if workers > 1 else 1
        # A batch must not outlast the budget: how long a split takes is known from the last ones.
        fit = max(1, int(CELLS_STEP * max(self.budget.left(), 0.0) / self.worth.seconds))
        most = min(CELLS_AT_ONCE, fit) * workers
        while len(chosen) < most and self.queue.top > self.threshold:
            node = self.queue.pop()[1]
            if self.worth.relaxes(node, self.net, self.threshold):
                if len(self.under_way) >= free:
                    self._push(node)
                    break
                self._submit(node)
            else:
                chosen.append(node)
        return chosen

    def _submit(self, node: Node) -> None:
        seconds = max(CELL_SHARE * max(self.budget.left(), 0.01), CELL_LEAST)
        problem = self.problem.on(node.cell.region, preactivations=node.alone.of(0))
        rounds = ROUNDS_AT_ROOT if node.number == 0 else 1
        allowed = seconds, self.budget.repeatable, node.cuts, rounds, self.budget.memory.limit
        task = RelaxationTask(problem, node.cell, self.threshold, *allowed)
        try:
            self.under_way[self.executor.submit(relax, task)] = node
        except (RuntimeError, OSError):  # the executor is broken: intervals alone from now on
            self.worth.possible = False
            self._push(node)

    def _collect(self) -> None:
        """Take in what has come back; wait only when there is nothing to split."""
        if not self.under_way:
            return
        idle = self.queue.top <= self.threshold or len(self.under_way) > worker_count(self.executor)
        patience = 0.0 if self.budget.repeatable or not idle else min(max(self.budget.left(), 0.0), 1.0)
        for future in wait(self.under_way, patience, FIRST_COMPLETED).done:
            node = self.under_way.pop(future)
            try:
                reply = future.result()
            except Exception:  # its process died, twice: the cell is split instead
                node.relaxed = True
                self._push(node)
                continue
            self._relaxed(node, reply)

    def _relaxed(self, node: Node, reply: RelaxationReply) -> None:
        self.budget.add(reply.counted)
        self.worth.learn(node, self.net, reply.upper <= self.threshold, reply.effort)
        node.relaxed = True
        if reply.upper < node.own:
            node.own, node.leaf = reply.upper, reply.leaf
            self.tree.prove(node)
        node.upper = min(node.upper, node.own)
        node.cuts, node.doubt = reply.cuts, reply.doubt
        if reply.point is not None:
            self._offer(reply.point[None, :], "cells")
        self._push(node)

    def _split(self, nodes: list[Node]) -> None:
        if not nodes:
            return
        start = self.budget.effort()
        known = self.refusals.of(nodes)
        for node, leaf in zip(nodes, known, strict=True):
            if leaf is not None:
                self._close(node, leaf)
        ready = [node for node, leaf in zip(nodes, known, strict=True) if leaf is None and not self._decided(node)]
        tried = try_splits(self.problem, ready, self.threshold, self.executor)
        found = [(node, halves) for node, halves in zip(ready, tried.best, strict=True) if halves is not None]
        for node, halves in zip(ready, tried.best, strict=True):
            if halves is None and self._hurried:
                self.late.append(node)
            elif halves is None:
                self.stuck.append(node.upper)
        self._divide(found)
        self._offer_centers([halves.judged.cells[halves.first + k] for _, halves in found for k in range(2)])
        self.budget.charge(tried.cells * self.each * (CELL_CLOSED + CELL_OPEN * tried.open))
        self.budget.charge(look_operations(self.problem, tried), SPARSE)
        self.budget.charge(CELL_CALLS * (tried.cells + len(nodes)), SCALAR)
        self.worth.split(self.budget.effort() - start, len(nodes))

    @property
    def _hurried(self) -> bool:
        """Whether a linear program of the last cells may have had less time than it should have."""
        return self.budget.over() or (not self.budget.repeatable and self.budget.left() < REALISE_SECONDS)

    def _decided(self, node: Node) -> bool:
        """A cell without open signs has one gradient: it holds a point, or it is empty. One of the whole space with few
        open signs may be empty."""
        leaf: Leaf | None = None
        if node.open:
            if hull(self.problem.region) is None and node.open <= self.refusals.most_open:
                leaf = self.refusals.look(node, self.budget.upto(REALISE_SECONDS))
        else:
            point, leaf = realise(self.problem, node, self.refusals, self.budget)
            if point is not None:
                self._offer(point[None, :], "cells")
        if leaf is not None:
            self._close(node, leaf)
        return leaf is not None or node.upper <= self.threshold

    def _close(self, node: Node, leaf: Leaf) -> None:
        """Write down the proof of a cell without interior."""
        node.own, node.upper, node.leaf = 0.0, 0.0, leaf
        self.tree.prove(node)

    def _divide(self, found: list[tuple[Node, Halves]]) -> None:
        """Write down both halves of every node, and open those that are above the threshold."""
        if not found:
            return
        nodes, splits = [node for node, _ in found], [halves.split for _, halves in found]
        uppers = np.concatenate([halves.judged.uppers[halves.first : halves.first + 2] for _, halves in found])
        numbers, threshold = self.tree.divide(nodes, splits, uppers), self.threshold
        for k, number in enumerate(numbers):
            node, halves = found[k // 2]
            own = float(uppers[k])
            if min(node.upper, own) <= threshold:
                continue
            child = self._node(halves.judged.half(halves.first + k % 2), min(node.upper, own), number)
            child.cuts, child.doubt = node.cuts, node.doubt
            if halves.split.layer:
                child.idle = node.idle
            elif own > BOXES_GAIN * node.own:
                child.idle = node.idle + 1
            self._push(child)

    def _node(self, half: Half, upper: float, number: int) -> Node:
        ranks = (half.free, half.neurons, half.coordinates)
        return Node(half.cell, half.bounds, upper, half.upper, BY_LINES, half.open, *ranks, number)

    def _push(self, node: Node) -> None:
        self.queue.push(node, node.upper, node.own)

    def _offer_centers(self, cells: list[Cell]) -> None:
        boxes = [box for box in (hull(cell.region) for cell in cells) if box is not None]
        if not boxes:
            return
        before, reach = self.lower, max(float(box.radius.max()) for box in boxes)
        self._offer(self.problem.region.project(np.stack([box.center for box in boxes])), "cells")
        if self.lower > before:
            self._polish(reach)

    def _polish(self, reach: float) -> None:
        """Points around a new record, nearer and nearer: a center is seldom the best point of its neighbourhood."""
        rng, box = np.random.default_rng(len(self.tree)), self.problem.region
        for scale in reach * np.exp2(-np.arange(POLISH_ROUNDS)):
            assert self.witness is not None
            around = self.witness.point + scale * rng.uniform(-1.0, 1.0, (POLISH_POINTS, self.net.inputs))
            self._offer(box.project(around), "cells")
        self.budget.charge(2.0 * POLISH_ROUNDS * POLISH_POINTS * self.net.entries, THIN)

    def _offer(self, points: Array, method: str) -> None:
        """Keep a point whose gradient is larger than the best so far, as `evaluate` proves it."""
        norms = steepness(self.problem, points)
        best = int(np.argmax(norms))
        if norms[best] <= self.lower * (1 + 1e-12):
            return
        value = evaluate(self.original, points[best])
        if value > self.lower and self.problem.region.contains(points[best]):
            self.witness = Witness(points[best], value, method)

    def report(self) -> None:
        if self.on_state is not None:
            self.on_state(self.state, self.witness)

    @property
    def state(self) -> SearchState:
        return SearchState(
            self.lower, self.upper, len(self.queue) + len(self.under_way) + len(self.late), len(self.tree)
        )

    def end(self) -> None:
        """Take back the relaxations that are under way."""
        for future, node in self.under_way.items():
            future.cancel()
            self._push(node)
        self.under_way = {}

    def outcome(self) -> SearchOutcome:
        """The certificate of the tree so far."""
        certificate = self.tree.certificate(self.problem)
        stuck = sum(upper > self.threshold for upper in self.stuck)
        closed = certificate.upper + self.price <= self.lower * (1 + self.gap)
        return SearchOutcome(certificate, self.state, closed, self.interrupted, self.witness, stuck)
