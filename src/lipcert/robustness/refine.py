"""Inputs one by one: bounds of the margins on the input's own box or ball, where shared constants leave it open.

Linear bounds first, on balls with slopes by descent; for the rivals that they leave, the margin relaxation
(`relaxation.margin`), solved by the interior point until its multipliers prove a margin below zero, or until its primal
says that they never will. A data set has the linear bounds of all its inputs before the first relaxation is solved.

A margin of -d on the ball of radius r holds further out by the shared constant: within r + d / L the rival is behind.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.budget import Budget
from lipcert.budget.memory import Memory, as_size
from lipcert.jobs import Answer, Outcome, Piece
from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Box
from lipcert.proof.margins import MarginProof, Place, certificate_of, linear_margins, prove_margin
from lipcert.relaxation.margin import Margin, applies, margin
from lipcert.robustness.decision import Classified
from lipcert.robustness.descent import prove_by_descent
from lipcert.rounding import Array, add_down, down
from lipcert.solver import Progress, Status

Domain = tuple[float, float] | None

SECONDS_EACH = 60.0
NAMES = ("lines", "input")  # of the pieces of one input: by linear bounds alone, and by relaxations too
LARGEST = 2500  # order of the margin relaxation that is worth trying
KEPT = (100, 240)  # neurons of the last hidden layer with a variable: docs/experiments/neurons-with-a-variable.md
_HOPELESS = 10.0  # times the infeasibility: how far above zero a primal value must be to count


@dataclass(frozen=True, eq=False)
class SharedRadii:
    """The radii that `rival_radii` derives from the shared constants, with these constants and their reach; and the
    radii that proofs of single inputs have reached since."""

    rivals: Array
    constants: Array | None = None
    reach: Array | None = None
    single: Array | None = None

    @property
    def certified(self) -> Array:
        """The certified radius of every input."""
        least = np.asarray(self.rivals.min(axis=1), dtype=np.float64)
        return least if self.single is None else np.maximum(least, self.single)


@dataclass(frozen=True, eq=False)
class OpenInput:
    """An input and the radii at which it is open, in increasing order."""

    index: int
    center: Array
    label: int
    radii: tuple[float, ...]
    limits: Domain
    rivals: Array  # the radius within which each class stays behind already, by the shared constants
    slopes: Array | None = None  # the constant of each class's lead, infinite where none is proved
    reach: float = np.inf  # the radius up to which the constants hold
    norm: Norm = INF

    def region(self, radius: float) -> Place:
        """All perturbed inputs at a radius; in norm 1 those of the Euclidean ball around them."""
        kind = Box if self.norm == INF else Ball
        return kind(self.center, radius, self.limits)

    def beyond(self, radius: float, rivals: NDArray[np.intp], margins: Array) -> float:
        """The radius within which all classes stay behind, if `rivals` have upper bounds `margins` within `radius`.

        A point further out is nearer than the difference to its projection on the ball, which the limits keep.
        """
        furthest = self.rivals.copy()
        slopes = np.full(len(rivals), np.inf) if self.slopes is None else self.slopes[rivals]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steps = np.where(slopes > 0, down(-margins / slopes), np.inf)
            steps = np.where(np.isfinite(slopes) & (margins < 0), np.clip(steps, 0.0, 1e300), 0.0)
            furthest[rivals] = np.maximum(add_down(np.full(len(rivals), radius), steps), radius)
        return max(radius, min(float(furthest.min()), self.reach))

    @property
    def promise(self) -> float:
        """The certified radius divided by the largest open one: large where little is missing."""
        return float(self.rivals.min() / self.radii[-1])

    @classmethod
    def most_promising_first(
        cls,
        inputs: Array,
        classified: Classified,
        shared: SharedRadii,
        attacked: Array,
        radii: tuple[float, ...],
        within: tuple[Domain, Norm],
    ) -> list[OpenInput]:
        """The inputs that are neither certified nor attacked at some radius."""
        rivals, constants, reach = shared.rivals, shared.constants, shared.reach
        found, certified = [], shared.certified
        candidates = ~classified.wrong & (classified.lead.min(axis=1) > 0)
        for k in np.flatnonzero(candidates):
            left = tuple(r for r in radii if certified[k] < r < attacked[k])
            if left:
                label = int(classified.labels[k])
                known = None if constants is None or reach is None else constants[label]
                furthest = np.inf if reach is None else float(reach[k])
                found.append(cls(int(k), inputs[k], label, left, within[0], rivals[k], known, furthest, within[1]))
        return sorted(found, key=lambda one: -one.promise)


@dataclass(frozen=True)
class Refinement:
    """Whether the class holds on the whole region, by which means, and the largest margin bound of a rival."""

    proved: bool
    how: str
    worst: float
    proofs: tuple[MarginProof, ...] = ()
    rivals: tuple[int, ...] = ()  # the rival of each proof


def refine_pieces(
    net: Network, inputs: list[OpenInput], seconds: float, memory: int | float | str | None = None
) -> list[Piece]:
    """One piece for every open input; `memory` is of the process that proves it. Zero seconds are for linear bounds
    alone, which have pieces of another name: relaxations that fail take nothing away from what they proved."""
    each, name = min(SECONDS_EACH, seconds), NAMES[seconds > 0]
    return [Piece(f"{name}-{one.index}", refine_input, (net, one, each, memory)) for one in inputs]


def refined_radii(certified: Array, outcomes: Mapping[str, Outcome]) -> tuple[Array, NDArray[np.bool_]]:
    """The certified radii with what refinement added, and which inputs were looked at."""
    radii, seen = certified.copy(), np.zeros(len(certified), dtype=bool)
    for outcome in outcomes.values():
        if outcome.value is not None:
            k = int(outcome.value["input"])
            radii[k] = max(radii[k], float(outcome.value["radius"]))
            seen[k] = True
    return radii, seen


def refine_input(net: Network, given: OpenInput, seconds: float, memory: int | float | str | None = None) -> Answer:
    """The largest of the open radii that can be proved, the largest first, then by bisection, and what follows from it
    with the shared constants. The proofs go with it.
    """
    budget = Budget.of_seconds(seconds, Memory(as_size(memory)))
    attempts: list[dict[str, Any]] = []
    files: dict[str, bytes] = {}
    best, low, high, probe = 0.0, -1, len(given.radii), len(given.radii) - 1
    while low < probe < high:
        start = time.monotonic()
        if budget.over() and attempts and seconds > 0:
            break
        radius = given.radii[probe]
        still = np.flatnonzero(given.rivals < radius)
        region = given.region(radius)
        verdict = prove_class(net, region, given.label, still, budget)
        spent = round(time.monotonic() - start, 3)
        worst = verdict.worst if np.isfinite(verdict.worst) else None
        attempts.append(
            {"radius": radius, "proved": verdict.proved, "how": verdict.how, "worst": worst, "seconds": spent}
        )
        if verdict.proved:
            margins = np.array([proof.claim for proof in verdict.proofs])  # the file states these
            best, low = given.beyond(radius, np.array(verdict.rivals, dtype=np.intp), margins), probe
            files = {"npz": certificate_of(net, region, verdict.proofs).to_bytes()}
        else:
            high = probe
        probe = (low + high) // 2
    return Answer({"input": given.index, "label": given.label, "radius": best, "attempts": attempts}, files)


def prove_class(net: Network, region: Place, label: int, rivals: NDArray[np.intp], budget: Budget) -> Refinement:
    """Whether `label` beats each of the rivals on the whole region, from cheap to dear: linear bounds, on balls linear
    bounds with better slopes, and relaxations while the budget lasts; these begin with the hardest rival."""
    rows = np.array([against(net, label, int(i)) for i in rivals])
    pre, least = linear_margins(net, region, rows)
    proofs = {int(k): MarginProof(rows[k], float(least[k])) for k in np.flatnonzero(least < 0)}
    still, how = np.flatnonzero(~(least < 0)), "linear"
    if still.size and applies(net) and all(np.all(np.isfinite(z.lo) & np.isfinite(z.hi)) for z in pre):
        if isinstance(region, Ball):
            how, (values, found) = "descent", prove_by_descent(net, region, rows[still], pre)
            least[still] = np.fmin(least[still], values)
            proofs |= {int(still[k]): proof for k, proof in found.items()}
            still = np.array([k for k in still if int(k) not in proofs], dtype=np.intp)
        order = 1 + net.inputs + sum(int(np.sum((z.lo < 0) & (z.hi > 0))) for z in pre)
        for k in still[np.argsort(-least[still])] if order <= LARGEST else ():
            if budget.over():
                break
            how, proof = "margin", prove_rival(net, region, rows[k], pre, budget)
            if proof is None or not proof.upper < 0:
                return Refinement(False, how, np.inf if proof is None else proof.upper)
            proofs[int(k)] = proof
    if len(proofs) < len(rows):
        return Refinement(False, how, float(least.max()))
    worst = max(proof.upper for proof in proofs.values())
    return Refinement(True, how, worst, tuple(proofs.values()), tuple(int(rivals[k]) for k in proofs))


def prove_rival(
    net: Network, region: Place, row: Array, pre: tuple[Interval, ...], budget: Budget, kept: tuple[int, ...] = KEPT
) -> MarginProof | None:
    """A proved upper bound of row @ scores: with few variables first, with more where that does not settle it."""
    best: MarginProof | None = None
    problem = Problem.of(net, region, row).on(region, preactivations=pre)
    open_ones = int(np.sum((pre[-1].lo < 0) & (pre[-1].hi > 0)))
    for keep in kept:
        proof = solve_margin(margin(problem, keep), row, keep, budget)
        if proof is not None and (best is None or proof.upper < best.upper):
            best = proof
        if open_ones <= keep or (best is not None and best.upper < 0):
            break
    return best


def against(net: Network, label: int, rival: int) -> Array:
    """c with c'scores = score_rival - score_label."""
    if net.outputs == 1:
        return np.array([1.0 if rival == 1 else -1.0])
    c = np.zeros(net.outputs)
    c[rival], c[label] = 1.0, -1.0
    return c


def solve_margin(problem: Margin, row: Array, keep: int, budget: Budget) -> MarginProof | None:
    """The first proof of a margin below zero, else the best proof when that is hopeless or late; None without one."""
    # Imported here, so that importing lipcert stays fast.
    from lipcert.solver.costs import solve_numbers
    from lipcert.solver.rank_two import Options, solve_rank_two

    if budget.over() or not budget.holds(solve_numbers(problem.relaxation.problem)):
        return None
    watcher = _Watcher(problem, row, keep)
    result = solve_rank_two(problem.relaxation.problem, Options(tolerance=1e-5), watcher, budget=budget)
    if result.status is Status.INTERRUPTED and not watcher.ended:  # by Ctrl-C: the job is to end, not this margin
        raise KeyboardInterrupt
    if not watcher.settled:
        watcher.prove(result.y)
    return watcher.best


class _Watcher:
    """Stops the interior point as soon as the question is settled."""

    def __init__(self, problem: Margin, row: Array, keep: int) -> None:
        self.problem, self.row, self.keep = problem, row, keep
        self.best: MarginProof | None = None
        self.ended = False

    @property
    def settled(self) -> bool:
        return self.best is not None and self.best.upper < 0

    def __call__(self, progress: Progress) -> bool:
        self.ended = self._is_over(progress)
        return self.ended

    def _is_over(self, progress: Progress) -> bool:
        lift = self.problem.lift
        if progress.dual < lift * (1.0 - 1e-9):
            self.prove(progress.y)
            return self.settled
        return progress.primal - lift > _HOPELESS * max(progress.primal_infeasibility, 1e-6) * lift

    def prove(self, y: Array) -> None:
        proof = prove_margin(self.problem, self.row, self.keep, y)
        if self.best is None or proof.upper < self.best.upper:
            self.best = proof
