"""The search for a witness: sampling, smoothed ascent, and patterns and linear pieces where they apply, in turn.

The whole map is searched along directions d of the outputs: each search is one for a single output, c = d, and the
point that it finds gives the next d.
"""

from __future__ import annotations

import numpy as np

from lipcert.budget import Budget
from lipcert.problem.problem import Problem
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array
from lipcert.steps import SCALAR, THIN
from lipcert.witness.chart import Batch
from lipcert.witness.directions import jacobian, leading, steepest
from lipcert.witness.moments import candidates
from lipcert.witness.patterns import REALISING_SHARE, hunt, patterns_apply, pursue, realise, walk
from lipcert.witness.population import anneal, anneal_applies, drift, drift_applies
from lipcert.witness.program import PatternProgram, Patterns
from lipcert.witness.record import ELITE, TRIED, OnWitness, WitnessSearch, sample
from lipcert.witness.screen import Screen
from lipcert.witness.smooth import climb
from lipcert.witness.witness import Witness, evaluate

# Shares were chosen on ERAN 3_50, ACAS Xu 1_1, a convolution of MNIST, and (80,80), (40,40,10) and SDP-NN of the paper
# with seed 0, and compared with other seeds: docs/experiments/lower-bounds.md. Each is a share of the budget that
# remains at that point.
SAMPLING_SHARE = 0.4  # random points
HUNTING_SHARE = 0.2  # patterns of one hidden layer
DRIFTING_SHARE = 0.3  # random moves, in every round
CLIMBING_SHARE = 0.4  # gradient ascent, where a walk follows
CHASING_SHARE = 0.4  # patterns of a moment matrix
ANNEAL_SHARE = 0.5  # annealing, for one output
ANNEAL_WHOLE_SHARE = 0.8  # annealing, for a whole map: on 16 layers of 16, work 4 gave 0.18 with it and 0.14 without
ANNEAL_SAMPLING_SHARE = 0.05  # Jacobians at random points before annealing
DIRECTION_SAMPLING_SHARE = 0.2  # Jacobians at random points before searches along directions
DIRECTION_SHARE = 0.5  # the search along one direction of the outputs
DIRECTION_SAMPLES = 200  # random points whose Jacobians are computed
DIRECTION_CLOSE = 0.95  # cosine from which a direction counts as one that was searched along before
DIRECTION_ROUNDS = 8  # directions that are searched along; in the infinity norm every output is one
DIRECTION_POINTS = 5_000  # random points of each of these searches


def search(
    problem: Problem,
    budget: Budget,
    *,
    seed: int = 0,
    samples: int = 50_000,
    starts: Array | None = None,
    on_witness: OnWitness | None = None,
    middle: bool = True,
) -> Witness:
    """A point of the region with a large gradient or Jacobian: sampling, then ascent from the best samples.

    Stops when nothing improves any more, at the latest when the budget is over; the middle of the region is looked at
    first, unless `middle` says that this was done. The same seed and the same counted budget give the same witness.
    `starts` are points to begin from beside the samples. `on_witness` is called with every improvement.
    """
    record = WitnessSearch(problem, budget, rng=np.random.default_rng(seed), on_witness=on_witness)
    if middle:
        record.begin()
    if problem.whole_map:
        _search_directions(record, seed, starts)
    elif not (_constant(record) or budget.over()):
        screen = Screen(problem, budget)
        elite = sample(record, screen, samples, budget.share(SAMPLING_SHARE))
        if starts is not None:
            points = problem.region.project(np.atleast_2d(starts))
            elite = np.concatenate([record.chart.coordinates(points).astype(screen.dtype), elite])
        with np.errstate(all="ignore"):
            _ascend(record, screen, elite)
    return record.best


def glance(problem: Problem, budget: Budget, *, seed: int = 0, on_witness: OnWitness | None = None) -> Witness:
    """A witness at the middle of the region, or beside it, in the time of some passes through the network."""
    record = WitnessSearch(problem, budget, rng=np.random.default_rng(seed), on_witness=on_witness)
    record.begin()
    return record.best


def improve(
    problem: Problem,
    known: Witness,
    relaxation: Relaxation,
    X: Array,
    budget: Budget,
    *,
    seed: int = 0,
    on_witness: OnWitness | None = None,
) -> Witness:
    """The better of a known witness and the best one from the moment matrix of a relaxation within the budget.

    The matrix gives points and patterns. Points with these patterns are looked for, and the best points are the start
    of ascents and walks. A meaningless matrix costs the budget, no more.
    """
    record = WitnessSearch(problem, budget, rng=np.random.default_rng(seed), on_witness=on_witness, known=known)
    if problem.whole_map:
        along = problem.along(leading(problem, relaxation, X, known.point), part=True)
        start = Witness(known.point, evaluate(along, known.point), known.method)
        found = improve(along, start, relaxation, X, budget, seed=seed)
        record.consider(found.point, found.method)
    elif not _constant(record) and PatternProgram.applies(problem.network):
        with np.errstate(all="ignore"):
            _follow(record, relaxation, X)
    return record.best


def _constant(record: WitnessSearch) -> bool:
    """Whether the gradient is the same everywhere, or the region is a point."""
    return record.problem.network.depth == 0 or not record.chart.scale.any()


def _follow(record: WitnessSearch, relaxation: Relaxation, X: Array) -> None:
    """Pursue the points and patterns of a moment matrix."""
    problem, budget = record.problem, record.budget
    found = candidates(problem.network, relaxation, X, record.rng, budget)
    if not len(found.points) or budget.over():
        return
    program = PatternProgram.of(problem, budget)
    if program.needed.any() and program.fits(budget):
        screen = Screen(problem, budget)
        starts = pursue(record, screen, program, found, budget.share(CHASING_SHARE))
        elite = climb(record, screen, starts, budget.share(CLIMBING_SHARE))
        walk(record, screen, program, elite, budget)


def _ascend(record: WitnessSearch, screen: Screen, starts: Batch) -> None:
    problem, budget = record.problem, record.budget
    if not PatternProgram.applies(problem.network):
        climb(record, screen, starts, budget)
        return
    if budget.over():
        return
    program = PatternProgram.of(problem, budget)
    if not program.needed.any():  # one gradient on the whole region
        return
    patterns: Patterns = np.zeros((0, problem.network.neurons), dtype=bool)
    if patterns_apply(problem.network) and program.fits(budget):
        patterns, found = hunt(record, screen, program, starts, budget.share(HUNTING_SHARE))
        starts = np.concatenate([found[:ELITE], starts])
    realise(record, program, patterns, budget.share(REALISING_SHARE), "patterns")
    if anneal_applies(problem.network):
        members = anneal(record, starts, budget.share(ANNEAL_SHARE))
        starts = np.concatenate([members[:ELITE].astype(screen.dtype), starts])
    while not budget.over():  # each begins from what the others found, until the walk gains nothing
        if drift_applies(record):
            members = drift(record, screen, starts, budget.share(DRIFTING_SHARE))
            starts = np.concatenate([members, starts])
        share = CLIMBING_SHARE if program.fits(budget) else 1.0  # the rest is for the walk
        starts = climb(record, screen, starts, budget.share(share))
        before = record.best.value
        walk(record, screen, program, starts, budget)
        if record.best.value <= before * (1 + 1e-6):
            return


def _search_directions(record: WitnessSearch, seed: int, starts: Array | None) -> None:
    """Searches for one output along directions of Jacobians: at the starts and at samples, the largest first.

    The direction at a point that such a search finds is next, as long as the point is better.
    """
    problem, budget = record.problem, record.budget
    if problem.network.outputs == 1:
        record.consider(search(problem.along(np.ones(1), part=True), budget, seed=seed, starts=starts).point, "search")
        return
    deep = anneal_applies(problem.network) and not _constant(record)
    share = ANNEAL_SAMPLING_SHARE if deep else DIRECTION_SAMPLING_SHARE
    found = _sample_jacobians(record, budget.share(share))
    for point, _ in found[:TRIED]:
        record.consider(point, "sampling")
    given = [] if starts is None else [steepest(jacobian(problem, x[None, :]), problem.norm) for x in starts]
    members = np.zeros((0, problem.network.inputs))
    if deep:
        with np.errstate(all="ignore"):
            some = anneal(record, None, budget.share(ANNEAL_WHOLE_SHARE))
        members = record.chart.points(some[:ELITE])
        given.insert(0, steepest(jacobian(problem, record.best.point), problem.norm))
    every = problem.norm.out == "inf"  # every output gets its turn
    waiting = [*given, *(d for _, d in found)]
    better: list[Array] = []  # the direction at a point that was just found, which may be close to the last one
    tried: list[Array] = []
    while (waiting or better) and not budget.over():
        close = 1.0 - 1e-12 if better else DIRECTION_CLOSE
        d = better.pop() if better else waiting.pop(0)
        if any(_cosine(d, other) >= close for other in tried):
            continue
        if len(tried) == (len(problem.c) if every else DIRECTION_ROUNDS):
            return
        tried.append(d)
        part, begin = budget.share(DIRECTION_SHARE), np.vstack([record.best.point, members])
        one = search(problem.along(d, part=True), part, seed=seed + len(tried), samples=DIRECTION_POINTS, starts=begin)
        before = record.best.value
        record.consider(one.point, one.method)
        if not every and record.best.value > before * (1 + 1e-7):
            better = [steepest(jacobian(problem, one.point), problem.norm)]


def _cosine(a: Array, b: Array) -> float:
    """The |cosine| of the angle between two vectors; zero where one of them is zero."""
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return abs(float(a @ b)) / size if size > 0 else 0.0


def _sample_jacobians(record: WitnessSearch, budget: Budget) -> list[tuple[Array, Array]]:
    """Points and their directions, best first; the middle of the region is always one of them."""
    problem, net = record.problem, record.problem.network
    drawn = record.chart.draw(record.rng, DIRECTION_SAMPLES, np.float64)
    points = record.chart.points(np.concatenate([np.zeros((1, net.inputs)), drawn]))
    found: list[tuple[float, Array, Array]] = []
    for point in points:
        if found and budget.over():
            break
        if problem.region.contains(point):
            budget.charge(2 * (1 + net.outputs) * net.entries, THIN)
            budget.charge((1 + net.outputs) * len(net.blocks), SCALAR)
            J = jacobian(problem, point)
            d = steepest(J, problem.norm)
            found.append((float(problem.norm.dual.of(d @ J)), point, d))
    if problem.norm.out == "inf":
        found += [(0.0, points[0], e) for e in np.eye(net.outputs)]
    found.sort(key=lambda entry: -entry[0])
    return [(point, d) for _, point, d in found]
