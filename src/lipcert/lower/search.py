"""Everything in turn: sampling, smoothed ascent, and patterns and cells where they apply."""

from __future__ import annotations

import numpy as np

from lipcert.lower import drift
from lipcert.lower.cells import walk
from lipcert.lower.patterns import applies, hunt, realise
from lipcert.lower.program import Patterns, Program
from lipcert.lower.record import OnProgress, Record
from lipcert.lower.sampling import ELITE, sample
from lipcert.lower.screen import Batch, Screen
from lipcert.lower.smooth import climb
from lipcert.lower.witness import Witness
from lipcert.network import Network
from lipcert.norms import Norm
from lipcert.region import Region
from lipcert.rounding import Array

_SAMPLING_SHARE = 0.4  # of the time, at most
_HUNTING_SHARE = 0.2  # of the time left then
_DRIFTING_SHARE = 0.3  # of the time left then
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
    """Drift, ascent and walk in turn, each from what the others found, until a round gains nothing."""
    while record.left > 0:
        before = record.best.value
        if drift.applies(record):
            starts = np.concatenate([drift.drift(record, screen, starts, _DRIFTING_SHARE * record.left), starts])
        elite = climb(record, screen, starts, _CLIMBING_SHARE * record.left)
        walk(record, screen, program, elite)
        if record.best.value <= before * (1 + 1e-6):
            return
        starts = elite
