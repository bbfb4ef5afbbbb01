"""Inputs that shared constants leave open, one by one: bounds of the margins on the input's own box.

Linear bounds first; for the rivals that they leave, the margin relaxation (`quadratic/margin.py`), solved by the
interior point until its multipliers prove a margin below zero, or until its primal says that they never will.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.activation import IDENTITY
from lipcert.certificate.multipliers import prove
from lipcert.jobs import Outcome, Piece
from lipcert.network import Affine, Network
from lipcert.propagation import Interval, preactivation_bounds
from lipcert.quadratic.margin import Margin, applies, margin
from lipcert.region import Box
from lipcert.robustness.decision import Classified
from lipcert.rounding import Array
from lipcert.solvers import Progress

Domain = tuple[float, float] | None

SECONDS_EACH = 60.0
LARGEST = 2500  # order of the margin relaxation that is worth trying
KEPT = (100, 240)  # neurons of the last hidden layer with a variable: see PERFORMANCE.md
_HOPELESS = 10.0  # times the infeasibility: how far above zero a primal value must be to count


@dataclass(frozen=True, eq=False)
class Ball:
    """An input and the radii at which it is open, in increasing order."""

    index: int
    center: Array
    label: int
    radii: tuple[float, ...]
    limits: Domain
    rivals: Array  # the radius within which each class stays behind already, by the shared constants

    @property
    def promise(self) -> float:
        """Certified radius over the largest open one."""
        return float(self.rivals.min() / self.radii[-1])

    @classmethod
    def open_ones(
        cls,
        inputs: Array,
        classified: Classified,
        rivals: Array,
        attacked: Array,
        radii: tuple[float, ...],
        limits: Domain,
    ) -> list[Ball]:
        """What is neither certified nor attacked at some radius, most promising first."""
        balls, certified = [], rivals.min(axis=1)
        candidates = ~classified.wrong & (classified.lead.min(axis=1) > 0)
        for k in np.flatnonzero(candidates):
            left = tuple(r for r in radii if certified[k] < r < attacked[k])
            if left:
                balls.append(cls(int(k), inputs[k], int(classified.labels[k]), left, limits, rivals[k]))
        return sorted(balls, key=lambda ball: -ball.promise)


@dataclass(frozen=True)
class Verdict:
    """Whether the class holds on the whole box, by which means, and the largest margin bound of a rival."""

    proved: bool
    how: str
    worst: float


def refine_pieces(net: Network, balls: list[Ball], seconds: float) -> list[Piece]:
    """One piece for every open input."""
    each = min(SECONDS_EACH, seconds)
    return [Piece(f"input-{ball.index}", refine_input, (net, ball, each)) for ball in balls]


def refined_radii(certified: Array, outcomes: Mapping[str, Outcome]) -> tuple[Array, NDArray[np.bool_]]:
    """The certified radii with what refinement added, and which inputs were looked at."""
    radii, seen = certified.copy(), np.zeros(len(certified), dtype=bool)
    for outcome in outcomes.values():
        if outcome.value is not None:
            k = int(outcome.value["input"])
            radii[k] = max(radii[k], float(outcome.value["radius"]))
            seen[k] = True
    return radii, seen


def refine_input(net: Network, ball: Ball, seconds: float) -> dict[str, Any]:
    """The largest of the open radii that can be proved: the largest first, then by bisection."""
    deadline = time.monotonic() + seconds
    attempts: list[dict[str, Any]] = []
    best, low, high, probe = 0.0, -1, len(ball.radii), len(ball.radii) - 1
    while low < probe < high:
        start = time.monotonic()
        if start > deadline and attempts:
            break
        radius = ball.radii[probe]
        still = np.flatnonzero(ball.rivals < radius)
        verdict = prove_ball(net, Box(ball.center, radius, ball.limits), ball.label, still, deadline)
        spent = round(time.monotonic() - start, 3)
        worst = verdict.worst if np.isfinite(verdict.worst) else None
        attempts.append(
            {"radius": radius, "proved": verdict.proved, "how": verdict.how, "worst": worst, "seconds": spent}
        )
        if verdict.proved:
            best, low = radius, probe
        else:
            high = probe
        probe = (low + high) // 2
    return {"input": ball.index, "radius": best, "attempts": attempts}


def prove_ball(net: Network, box: Box, label: int, rivals: NDArray[np.intp], deadline: float) -> Verdict:
    """Whether `label` beats each of the rivals on the whole box; the hardest rival is asked first."""
    rows = np.array([against(net, label, int(i)) for i in rivals])
    pre, linear = linear_margins(net, box, rows)
    still = np.flatnonzero(~(linear < 0))
    if not still.size:
        return Verdict(True, "linear", float(linear.max()))
    order = 1 + net.inputs + sum(int(np.sum((z.lo < 0) & (z.hi > 0))) for z in pre)
    finite = all(np.all(np.isfinite(z.lo)) and np.all(np.isfinite(z.hi)) for z in pre)
    if not (applies(net) and finite and order <= LARGEST):
        return Verdict(False, "linear", float(linear.max()))
    worst = float(np.max(linear[linear < 0], initial=-np.inf))
    for k in still[np.argsort(-linear[still])]:
        upper = rival_bound(net, box, rows[k], pre, deadline)
        worst = max(worst, upper)
        if not upper < 0:
            return Verdict(False, "margin", worst)
    return Verdict(True, "margin", worst)


def rival_bound(net: Network, box: Box, row: Array, pre: tuple[Interval, ...], deadline: float) -> float:
    """A proved upper bound of row @ scores: with few variables first, with more where that does not settle it."""
    upper = np.inf
    open_ones = int(np.sum((pre[-1].lo < 0) & (pre[-1].hi > 0)))
    for keep in KEPT:
        upper = min(upper, margin_bound(margin(net, box, row, pre, keep), deadline))
        if upper < 0 or open_ones <= keep:
            break
    return upper


def against(net: Network, label: int, rival: int) -> Array:
    """c with c'scores = score_rival - score_label."""
    if net.outputs == 1:
        return np.array([1.0 if rival == 1 else -1.0])
    c = np.zeros(net.outputs)
    c[rival], c[label] = 1.0, -1.0
    return c


def linear_margins(net: Network, box: Box, rows: Array) -> tuple[tuple[Interval, ...], Array]:
    """Pre-activation bounds on the box, and upper bounds of rows @ scores: the rows as one more layer."""
    count = len(rows)
    longer = Network(
        (*net.affines, Affine(rows, np.zeros(count)), Affine(np.eye(count), np.zeros(count))),
        (*net.activations, IDENTITY, IDENTITY),
    )
    bounds = preactivation_bounds(longer, box)
    return bounds[: net.depth], bounds[-1].hi


def margin_bound(problem: Margin, deadline: float) -> float:
    """A proved upper bound of the margin: the first below zero, or what is known when it is hopeless or late."""
    from lipcert.solvers.rank_two import Options, solve_rank_two  # here, so that importing lipcert stays fast

    seconds = deadline - time.monotonic()
    if seconds <= 0:
        return np.inf
    watcher = _Watcher(problem)
    result = solve_rank_two(problem.relaxation.problem, Options(tolerance=1e-5, time_limit=seconds), watcher)
    if not watcher.best < 0:
        watcher.prove(result.y)
    return watcher.best


class _Watcher:
    """Stops the interior point as soon as the question is settled."""

    def __init__(self, problem: Margin) -> None:
        self.problem, self.best = problem, np.inf

    def __call__(self, progress: Progress) -> bool:
        lift = self.problem.lift
        if progress.dual < lift * (1.0 - 1e-9):
            self.prove(progress.y)
            return bool(self.best < 0)
        return progress.primal - lift > _HOPELESS * max(progress.primal_infeasibility, 1e-6) * lift

    def prove(self, y: Array) -> None:
        upper = prove(self.problem.relaxation, y).upper
        self.best = min(self.best, float(np.nextafter(upper - self.problem.lift, np.inf)))
