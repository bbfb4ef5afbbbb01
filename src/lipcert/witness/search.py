"""Everything in turn: sampling, smoothed ascent, and patterns and cells where they apply."""

from __future__ import annotations

import numpy as np

from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Region
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array
from lipcert.witness import drift
from lipcert.witness.cells import walk
from lipcert.witness.moments import candidates
from lipcert.witness.patterns import applies, hunt, pursue, realise
from lipcert.witness.program import Patterns, Program
from lipcert.witness.record import OnProgress, Record
from lipcert.witness.sampling import ELITE, sample
from lipcert.witness.screen import Batch, Screen
from lipcert.witness.smooth import climb
from lipcert.witness.witness import Witness

_SAMPLING_SHARE = 0.4  # of the time, at most
_HUNTING_SHARE = 0.2  # of the time left then
_DRIFTING_SHARE = 0.3  # of the time left then
_CHASING_SHARE = 0.4  # of the time for a moment matrix
_CLIMBING_SHARE = 0.4  # of the time left then, where cells are searched afterwards


def search(
    net: Network,
    region: Region,
    c: Array,
    norm: Norm,
    *,
    seconds: float,
    seed: int = 0,
    samples: int = 50_000,
    on_progress: OnProgress | None = None,
) -> Witness:
    """A point of the region with a large gradient norm: sampling, then ascent from the best samples.

    Stops when nothing improves any more, at the latest after about `seconds`. The same seed gives the same witness
    unless time runs out. `on_progress` is called with every improvement.
    """
    record = Record(net, region, c, norm, rng=np.random.default_rng(seed), seconds=seconds, on_progress=on_progress)
    if _constant(record):
        return record.best
    screen = Screen(net, record.chart, record.c, norm)
    elite = sample(record, screen, samples, _SAMPLING_SHARE * seconds)
    _ascend(record, screen, elite)
    return record.best


def ascent(
    net: Network,
    region: Region,
    c: Array,
    norm: Norm,
    *,
    rng: np.random.Generator,
    starts: Array | None = None,
    seconds: float = np.inf,
    on_progress: OnProgress | None = None,
) -> Witness:
    """Smoothed ascent from random points and `starts`; where the gradient is piecewise constant, then over its cells.

    One hidden layer of ReLU or leaky ReLU: also the alternating search among all patterns.
    """
    record = Record(net, region, c, norm, rng=rng, seconds=seconds, on_progress=on_progress)
    if _constant(record):
        return record.best
    screen = Screen(net, record.chart, record.c, norm)
    points = np.zeros((0, net.inputs)) if starts is None else region.project(np.atleast_2d(starts))
    _ascend(record, screen, record.chart.coordinates(points).astype(screen.dtype))
    return record.best


def improve(
    net: Network,
    region: Region,
    c: Array,
    norm: Norm,
    known: Witness,
    relaxation: Relaxation,
    X: Array,
    *,
    seconds: float,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Witness:
    """The better of a known witness and what the moment matrix of a relaxation leads to within about `seconds`.

    Its points are valued as they are, its patterns are chased and asked for points, and the best of all are climbed
    and walked from. A matrix that means nothing costs the time, no more.
    """
    rng = np.random.default_rng(seed)
    record = Record(net, region, c, norm, rng=rng, seconds=seconds, on_progress=on_progress, known=known)
    if _constant(record) or not Program.applies(net):
        return record.best
    with np.errstate(all="ignore"):
        program = Program.of(net, record.chart, record.c)
        found = candidates(net, relaxation, X, rng)
        if program.needed.any() and len(found.points):
            screen = Screen(net, record.chart, record.c, norm)
            starts = pursue(record, screen, program, found, _CHASING_SHARE * record.left)
            elite = climb(record, screen, starts, _CLIMBING_SHARE * record.left)
            walk(record, screen, program, elite)
    return record.best


def _constant(record: Record) -> bool:
    """One gradient everywhere, or one point."""
    return record.net.depth == 0 or not record.chart.scale.any()


def _ascend(record: Record, screen: Screen, starts: Batch) -> None:
    with np.errstate(all="ignore"):
        if not Program.applies(record.net):
            climb(record, screen, starts)
            return
        program = Program.of(record.net, record.chart, record.c)
        if not program.needed.any():  # one gradient on the whole region
            return
        patterns: Patterns = np.zeros((0, record.net.neurons), dtype=bool)
        if applies(record.net):
            patterns, found = hunt(record, screen, program, starts, _HUNTING_SHARE * record.left)
            starts = np.concatenate([found[:ELITE], starts])
        realise(record, program, patterns)
        _rounds(record, screen, program, starts)


def _rounds(record: Record, screen: Screen, program: Program, starts: Batch) -> None:
    """Drift, ascent and walk in turn, each from what the others found, until the walk gains nothing."""
    while record.left > 0:
        if drift.applies(record):
            starts = np.concatenate([drift.drift(record, screen, starts, _DRIFTING_SHARE * record.left), starts])
        elite = climb(record, screen, starts, _CLIMBING_SHARE * record.left)
        before = record.best.value
        walk(record, screen, program, elite)
        if record.best.value <= before * (1 + 1e-6):
            return
        starts = elite
