"""LBS [CLMP20]: the largest gradient norm at sampled points."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np

from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Everywhere, Region
from lipcert.rounding import Array
from lipcert.witness.record import OnProgress, Record
from lipcert.witness.screen import Batch, Screen
from lipcert.witness.witness import Witness

ELITE = 16  # sampled points that a search may start from
_PIECE = 4096


def sampling(
    net: Network,
    region: Region,
    c: Array,
    norm: Norm,
    *,
    samples: int = 50_000,
    rng: np.random.Generator,
    seconds: float = np.inf,
    on_progress: OnProgress | None = None,
) -> Witness:
    """The best of `samples` random points, found in single precision and recomputed in double precision.

    Points are uniform in a box or ball. Everywhere, they are normal around zero at lengths of 1, 10, 100 and 1000
    times the median distance of the origin from the first layer's kinks, in equal shares. Stops early when `seconds`
    are over.
    """
    record = Record(net, region, c, norm, rng=rng, seconds=seconds, on_progress=on_progress)
    sample(record, Screen(net, record.chart, record.c, norm), samples)
    return record.best


def sample_points(
    net: Network,
    points: Array | Iterable[Array],
    c: Array,
    norm: Norm,
    *,
    region: Region | None = None,
    on_progress: OnProgress | None = None,
) -> Witness:
    """The best of the given points: an array (points, inputs) or an iterable of such chunks, all in double precision.

    With a region, a point outside is refused.
    """
    where = Everywhere() if region is None else region
    record = Record(net, where, c, norm, rng=np.random.default_rng(0), on_progress=on_progress, center=False)
    for chunk in [points] if isinstance(points, np.ndarray) else points:
        rows = np.atleast_2d(chunk)
        if not where.contains(rows):
            raise InputError("sample_points: a point lies outside the region")
        for start in range(0, len(rows), _PIECE):
            piece = rows[start : start + _PIECE]
            with np.errstate(all="ignore"):
                norms = np.broadcast_to(norm.dual.of(net.gradient(piece, record.c)), len(piece))
            record.offer(piece, np.where(np.isfinite(norms), norms, 0.0), "given points")
    if record.best.value < 0:
        raise InputError("sample_points: no point was given")
    return record.best


def sample(record: Record, screen: Screen, samples: int, seconds: float = np.inf) -> Batch:
    """Offer the best of `samples` points to the record; the ELITE best ones in chart coordinates, best first."""
    end = min(record.deadline, time.monotonic() + seconds)
    elite = np.zeros((1, screen.scale.size), dtype=screen.dtype)
    values = np.zeros(1, dtype=screen.dtype)
    done = 0
    while done < samples and time.monotonic() < end:
        v = record.chart.draw(record.rng, min(screen.chunk, samples - done), screen.dtype)
        done += len(v)
        with np.errstate(all="ignore"):
            norms = np.broadcast_to(screen.norms(screen.forward(v)), len(v))
        top = np.argpartition(-norms, min(ELITE, len(v)) - 1)[:ELITE]
        elite, values = np.concatenate([elite, v[top]]), np.concatenate([values, norms[top]])
        order = np.argsort(-values, kind="stable")[:ELITE]
        elite, values = elite[order], values[order]
    record.offer(record.chart.points(elite), values, "sampling")
    return elite
