"""Which relaxations of a network to solve, in which order, given its size and the time: cheap ones first.

The whole network in one moment matrix comes last, where it fits. Before it, or in its place, come parts
(`relaxation.reduction`): the Euclidean reductions behind each cut, the x-free lift, and, where even that is too large,
the neurons and signs that cost most to leave out. Every step stands by itself, so the best of them is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.bounds.propagation import preactivations, slope_bounds
from lipcert.problem.problem import Problem
from lipcert.relaxation.reduced import gains_of, share_of
from lipcert.relaxation.reduction import Mask, Reduction, Share, everything, losses, open_signs

LARGEST = 4000  # order of a moment matrix that is worth trying
_EASY = 0.6  # of the time: when the whole network takes less, parts of it are not needed
_QUICK = 0.5  # seconds: nothing needs to come before a whole network that takes less
_FIRST = 0.02  # of the time: parts that come before a whole network that fits
_MOST = 0.85  # of the time that one step may be expected to take
_RATE = 5e10  # operations per second, as the interior point's own estimate
_TWO_SIDED = 6e-10  # seconds times the order cubed: alternation is quick, its two proofs are not
_PARTS = 5  # steps besides the whole network


@dataclass(frozen=True, eq=False)
class Step:
    """A part of the network (None: all of it), the order of its matrix, and about how long it takes."""

    reduction: Reduction | None
    order: int
    seconds: float


def expected_order(problem: Problem, signs: int | None = None) -> int:
    """About the order of the moment matrix: the inputs, `signs` of the ends (as many as inputs where left out), up to
    three times the neurons whose slope is open."""
    net = problem.network
    free = [int(np.sum(s.hi > s.lo)) for s in slope_bounds(net, preactivations(problem))]
    return 1 + net.inputs + (net.inputs if signs is None else signs) + 3 * sum(free[:-1]) + free[-1]


def expected_work(inner: int, order: int, ties: int) -> float:
    """About the seconds of an interior point: `ties` rows for each of the `inner` neurons besides the diagonal."""
    rows = 0.8 * (order + ties * inner)
    return float(14 * (rows**3 / 3 + 6.0 * order**3) / _RATE)


def plan(problem: Problem, in_parts: bool, seconds: float, signs: int | None = None) -> list[Step]:
    """The steps in the order in which to take them; only the whole network can be one unless `in_parts`."""
    net, free = problem.network, open_signs(preactivations(problem))
    order = expected_order(problem, signs)
    inner = sum(int(mask.sum()) for mask in free[:-1])
    whole = Step(None, order, expected_work(inner, order, 14) if net.depth > 1 else expected_work(order, order, 2))
    fits = order <= LARGEST
    if not in_parts or (fits and whole.seconds <= min(_QUICK, _EASY * seconds)):
        return [whole] if fits else []
    parts = [step for step in _parts(problem, free, seconds) if step.order > 1]
    chosen = sorted(parts, key=lambda step: step.seconds)[:_PARTS]
    if fits and whole.seconds <= _EASY * seconds:  # a first bound, in case the whole takes longer than expected
        chosen = [step for step in chosen if step.seconds <= _FIRST * seconds][:2]
    return [*chosen, whole] if fits else chosen


def _parts(problem: Problem, free: tuple[Mask, ...], seconds: float) -> list[Step]:
    """Parts that fit the time and are not plainly worse than the others."""
    steps, net, known = [], problem.network, gains_of(problem)
    for cut in range(net.depth):
        whole = everything(cut, net.shape)
        share = share_of(problem, whole)
        by_signs = float(share.weights @ share.gradients[0].magnitude)
        by_norm = known.reach[cut] * float(np.linalg.norm(share.gradients[0].magnitude))
        signs = Reduction(cut, losses(share, free[cut:])[0] > 0, whole.neurons)
        euclid = Reduction(cut, np.zeros_like(whole.inputs), whole.neurons, euclid=True)
        for part, worth in ((euclid, by_norm < 4 * by_signs), (signs, by_signs < 2 * by_norm or cut == 0)):
            if not (worth and np.isfinite(by_signs)):
                continue
            step = _step(part, free)
            if step.order <= LARGEST and step.seconds <= _MOST * seconds:
                steps.append(step)
            elif not part.euclid:
                step, lost = _trimmed(problem, part, free, seconds)
                steps += [step] if lost < min(by_signs, by_norm) else []
    return steps


def _step(part: Reduction, free: tuple[Mask, ...]) -> Step:
    kept = [int(np.sum(mask & own)) for mask, own in zip(part.neurons, free[part.cut :], strict=True)]
    inner, signs = sum(kept[:-1]), int(part.inputs.sum())
    order = 1 + signs + 2 * inner + kept[-1]
    two_sided = len(kept) == 1 and not part.euclid
    return Step(part, order, _TWO_SIDED * order**3 if two_sided else expected_work(inner, order, 7))


def _trimmed(problem: Problem, part: Reduction, free: tuple[Mask, ...], seconds: float) -> tuple[Step, float]:
    """The part with as many signs and neurons as fit, those that cost most to leave out first; and what is lost."""
    nothing = Reduction(part.cut, np.zeros_like(part.inputs), tuple(np.zeros_like(m) for m in part.neurons))
    share = share_of(problem, nothing)  # with neurons left out only intervals are bounds
    few, many = 0, LARGEST
    while many - few > 20:
        budget = (few + many) // 2
        step = _step(_most_costly(part, share, free[part.cut :], budget), free)
        few, many = (budget, many) if step.seconds <= _MOST * seconds / 2 else (few, budget)
    kept = _most_costly(part, share, free[part.cut :], few)
    inputs, neurons = losses(share, free[part.cut :])
    lost = sum(float(n[~own].sum()) for n, own in zip(neurons, kept.neurons, strict=True))
    return _step(kept, free), lost + float(inputs[~kept.inputs].sum())


def _most_costly(part: Reduction, share: Share, free: tuple[Mask, ...], budget: int) -> Reduction:
    """The variables in the order of their price per entry of the matrix, up to `budget` entries."""
    inputs, neurons = losses(share, free)
    entries = [np.ones(len(inputs))] + [np.full(len(n), 2.0) for n in neurons[:-1]] + [np.ones(len(neurons[-1]))]
    price, size = np.concatenate([inputs, *neurons]), np.concatenate(entries)
    ranked = np.argsort(-price / size, kind="stable")
    kept = np.zeros(len(price), dtype=bool)
    kept[ranked] = np.cumsum(size[ranked]) <= budget
    masks = np.split(kept & (price > 0), np.cumsum([len(inputs), *(len(n) for n in neurons)])[:-1])
    return Reduction(part.cut, masks[0], tuple(masks[1:]))
