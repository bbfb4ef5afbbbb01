"""Best first: the part with the largest bound is bounded better, or split; parts below the threshold are closed.

    threshold = lower (1 + gap):  a part whose proved bound is at most that needs no more work.

A part is bounded by intervals when it is made (all halves that are tried in one batch), then by a relaxation where
that is worth its time, then split. Every moment there is a bracket: the largest bound of the open parts and the best
witness.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass

import numpy as np

from lipcert.bounds import bounds_of, interval_uppers, whole
from lipcert.errors import MethodError
from lipcert.jobs.executors import worker_count
from lipcert.method.branching.choose import Halves, open_neurons, try_splits
from lipcert.method.branching.node import Node, certificate_of
from lipcert.method.branching.realise import realise
from lipcert.method.branching.relax import Question, Reply, relax
from lipcert.method.branching.worth import Worth
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Region
from lipcert.proof import Certificate, Tree
from lipcert.proof.leaves import BY_INTERVALS, Leaf
from lipcert.relaxation.specification import check_relaxation
from lipcert.rounding import Array
from lipcert.witness import Witness, evaluate

EXACT = 1e-6  # the relative gap at which a bracket is called closed
LARGEST = 2000  # neurons, or inputs
_BATCH = 16  # nodes split at a time
_ROUNDS_AT_ROOT = 4  # of cuts, which all parts inherit
_SHARE = 0.25  # of the time left, at most, for one relaxation


def check_branching(net: Network, region: Region, norm: Norm) -> None:
    """Refuse what parts cannot decide, by name."""
    if norm.out is not None:
        raise MethodError("method exact is for one output, not for the whole map; use tight")
    if isinstance(region, Ball):
        raise MethodError("method exact works on boxes, not on balls; use tight, or a box")
    if net.depth == 0:
        raise MethodError("method exact needs a hidden layer; an affine network is exact with interval")
    if max(net.neurons, net.inputs) > LARGEST:
        raise MethodError(f"method exact is for networks of up to {LARGEST:,} inputs and neurons; use tight")


@dataclass(frozen=True)
class State:
    """The bracket in hand, how many parts are open and how many were made."""

    lower: float
    upper: float
    open: int
    parts: int


@dataclass(frozen=True, eq=False)
class Outcome:
    """The certificate of the tree, the best witness, and how it ended."""

    certificate: Certificate
    witness: Witness | None
    closed: bool
    interrupted: bool
    state: State

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return self.certificate.proof.leaves if isinstance(self.certificate.proof, Tree) else ()


def branch(
    problem: Problem,
    *,
    gap: float,
    deadline: float,
    executor: Executor,
    witness: Witness | None = None,
    known: float = math.inf,
    on_state: Callable[[State, Witness | None], None] | None = None,
) -> Outcome:
    """Split and bound until upper <= lower (1 + gap), or until the deadline (time.monotonic) or Ctrl-C.

    `known` is an upper bound on the region that was proved elsewhere: parts are not worked on to be worse than that.
    """
    check_branching(problem.network, problem.region, problem.norm)
    search = _Search(problem, gap, deadline, executor, witness, known, on_state)
    interrupted = False
    try:
        with np.errstate(all="ignore"):
            search.run()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        search.withdraw()
    return search.outcome(interrupted)


class _Search:
    """The mutable side of one call."""

    def __init__(
        self,
        problem: Problem,
        gap: float,
        deadline: float,
        executor: Executor,
        witness: Witness | None,
        known: float,
        on_state: Callable[[State, Witness | None], None] | None,
    ) -> None:
        self.problem = problem.on(problem.region)  # goes to other processes: without what was derived from it
        self.net, self.region, self.norm, self.c = problem.network, problem.region, problem.norm, problem.c
        self.gap, self.deadline, self.executor = max(gap, EXACT), deadline, executor
        self.witness, self.on_state = witness, on_state
        self.count = itertools.count()
        self.heap: list[tuple[float, int, Node]] = []
        self.under_way: dict[Future[Reply], Node] = {}
        self.worth = Worth(self._relaxes())
        part = whole(self.net, self.region)
        bounds = bounds_of(self.net, [part])
        own = float(interval_uppers(self.net, bounds, self.norm, self.c)[0])
        open_ = int(open_neurons(self.net, bounds.pre, self.c)[0].sum())
        self.root = Node(part, bounds, min(own, known), own, BY_INTERVALS, open_)
        self.parts = 1
        self.stuck = 0.0  # the largest bound of parts that nothing can be done about
        self._push(self.root)

    def _relaxes(self) -> bool:
        if self.problem.has_cases:  # as many relaxations as cases for every part: intervals alone are the better deal
            return False
        try:
            check_relaxation(self.problem, "tight")
        except MethodError:
            return False
        return True

    @property
    def lower(self) -> float:
        return 0.0 if self.witness is None else self.witness.value

    @property
    def threshold(self) -> float:
        """Closed parts end below this; a little less than asked, for the rounding of the comparison."""
        return self.lower * (1.0 + 0.999 * self.gap)

    @property
    def upper(self) -> float:
        """Of all parts: the open ones, those under way, and the closed ones."""
        return max([self.threshold, self.stuck, *(n.upper for n in self.under_way.values()), -self._top()])

    def _top(self) -> float:
        return self.heap[0][0] if self.heap else 0.0

    def run(self) -> None:
        self._report()
        while time.monotonic() < self.deadline and (self.under_way or -self._top() > self.threshold):
            self._split(self._take())
            self._collect()
            self._report()

    def _take(self) -> list[Node]:
        """The parts with the largest bounds: some are handed to the executor for a relaxation, the others are split."""
        chosen: list[Node] = []
        free = worker_count(self.executor) + 1 if worker_count(self.executor) > 1 else 1
        while self.heap and len(chosen) < _BATCH and -self.heap[0][0] > self.threshold:
            node = heapq.heappop(self.heap)[2]
            if self.worth.relaxes(node, self.net, self.threshold):
                if len(self.under_way) >= free:
                    self._push(node)
                    break
                self._submit(node)
            else:
                chosen.append(node)
        return chosen

    def _submit(self, node: Node) -> None:
        left = max(self.deadline - time.monotonic(), 0.01)
        question = Question(
            self.problem,
            node.part,
            node.alone.of(0),
            self.threshold,
            max(_SHARE * left, 1.0),
            node.cuts,
            _ROUNDS_AT_ROOT if node is self.root else 1,
        )
        try:
            self.under_way[self.executor.submit(relax, question)] = node
        except (RuntimeError, OSError):  # the executor is broken: intervals alone from now on
            self.worth.possible = False
            self._push(node)

    def _collect(self) -> None:
        """Take in what has come back; wait only when there is nothing to split."""
        if not self.under_way:
            return
        idle = not self.heap or -self._top() <= self.threshold or len(self.under_way) > worker_count(self.executor)
        left = max(0.0, self.deadline - time.monotonic())
        for future in wait(self.under_way, min(left, 1.0) if idle else 0.0, FIRST_COMPLETED).done:
            node = self.under_way.pop(future)
            try:
                reply = future.result()
            except Exception:  # its process died, twice: the part is split instead
                node.relaxed = True
                self._push(node)
                continue
            self._relaxed(node, reply)

    def _relaxed(self, node: Node, reply: Reply) -> None:
        self.worth.learn(node, self.net, reply.upper <= self.threshold, reply.seconds)
        node.relaxed = True
        if reply.upper < node.own:
            node.own, node.leaf = reply.upper, reply.leaf
        node.upper = min(node.upper, node.own)
        node.cuts, node.doubt = reply.cuts, reply.doubt
        if reply.point is not None:
            self._offer(reply.point[None, :], "parts")
        self._push(node)

    def _split(self, nodes: list[Node]) -> None:
        if not nodes:
            return
        start = time.process_time()  # on a busy machine the clock would make splits look dear
        ready = [node for node in nodes if not self._decided(node)]
        for node, found in zip(ready, try_splits(self.net, self.norm, self.c, ready, self.threshold), strict=True):
            if found is None:
                self.stuck = max(self.stuck, node.upper)
            else:
                self._divide(node, found)
        self.worth.split(time.process_time() - start, len(nodes))

    def _decided(self, node: Node) -> bool:
        """A part without open signs has one gradient: it holds a point, or it is empty."""
        if node.open:
            return False
        point, leaf = realise(self.net, self.c, node)
        if point is not None:
            self._offer(point[None, :], "parts")
        if leaf is not None:
            node.own = node.upper = 0.0
            node.leaf = leaf
        return leaf is not None or node.upper <= self.threshold

    def _divide(self, node: Node, found: Halves) -> None:
        node.split = found.split
        children = []
        for part, bounds, own, still_open in zip(found.parts, found.bounds, found.uppers, found.open, strict=True):
            upper = min(node.upper, float(own))
            child = Node(part, bounds, upper, float(own), BY_INTERVALS, int(still_open), cuts=node.cuts)
            child.doubt = node.doubt
            children.append(child)
        node.halves, node.bounds = tuple(children), None
        self.parts += 2
        if found.split.layer == 0:
            self._offer(np.stack([part.region.center for part in found.parts]), "parts")  # type: ignore[union-attr]
        for child in children:
            if child.upper > self.threshold:
                self._push(child)
            else:
                child.bounds = None  # closed for good

    def _push(self, node: Node) -> None:
        heapq.heappush(self.heap, (-node.upper, next(self.count), node))

    def _offer(self, points: Array, method: str) -> None:
        """Keep a point whose gradient is larger than the best so far, as `evaluate` proves it."""
        norms = self.norm.dual.of(self.net.gradient(points, self.c))
        best = int(np.argmax(norms))
        if norms[best] <= self.lower * (1 + 1e-12):
            return
        value = evaluate(self.net, points[best], self.c, self.norm)
        if value > self.lower and self.region.contains(points[best]):
            self.witness = Witness(points[best], value, method)

    def _report(self) -> None:
        if self.on_state is not None:
            self.on_state(self._state(), self.witness)

    def _state(self) -> State:
        return State(self.lower, self.upper, len(self.heap) + len(self.under_way), self.parts)

    def withdraw(self) -> None:
        for future, node in self.under_way.items():
            future.cancel()
            self._push(node)
        self.under_way = {}

    def outcome(self, interrupted: bool) -> Outcome:
        certificate = certificate_of(self.root, self.problem)
        closed = certificate.upper <= self.lower * (1 + self.gap)
        return Outcome(certificate, self.witness, closed, interrupted, self._state())
