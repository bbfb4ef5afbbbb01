"""How long networks of convolutions take from a thousand neurons on: reading, a useful bound, verifying."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

import lipcert
from benchmarks._residual_networks import residual
from benchmarks._rows import Measured
from benchmarks.results._case import BOTH, ONLY_FULL, Case, Stopwatch, gigabytes, warm
from lipcert.bounds.propagation import plain
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import prove_interval

SIZES = ((2, 8), (2, 16), (4, 32), (16, 32))  # channels of the first stage, side of the image
SIZES_FULL = ((64, 32), (128, 32))
WORK = 30.0  # nominal seconds
USEFUL = 2.0  # times the last bound: the first bound below that is a useful one
RADIUS = 1e-4


def scale(width: int, side: int) -> Iterable[Measured]:
    """`auto` with counted work on one score, and when its bound was first within a factor of the last one."""
    made = residual(width, side)
    box = lipcert.Box(np.random.default_rng(1).uniform(size=made.inputs), RADIUS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.npz"
        made.save(path)
        watch = Stopwatch()
        net = lipcert.load(path)
        read = watch.cpu
    warm("auto", True, False)
    by_intervals = prove_interval(plain(Problem.of(net, box, 0))).claim
    way: list[tuple[float, float]] = []
    watch = Stopwatch()

    def tell(now: lipcert.Progress) -> None:
        way.append((watch.cpu, now.upper))

    result = lipcert.bound(net, box, output=0, work=WORK, on_progress=tell)
    wall, cpu, peak = watch.wall, watch.cpu, gigabytes()
    watch = Stopwatch()
    proved = lipcert.verify(result.certificate, net).proved
    facts: dict[str, float | str] = {
        "neurons": net.neurons,
        "read": read,
        "intervals": by_intervals,
        "verified": watch.cpu,
        "useful": next((cpu for cpu, upper in way if upper <= USEFUL * result.upper), cpu),
    }
    yield Measured(
        f"{net.neurons:,} neurons",
        "auto",
        box.words,
        "inf",
        result.lower,
        result.upper,
        status=result.status.name.lower().replace("_", " "),
        limit=f"work {WORK:g}",
        work=result.work,
        wall=wall,
        cpu=cpu,
        gigabytes=peak,
        proved=proved,
        verify_seconds=watch.wall,
        facts=facts,
    )


def cases() -> list[Case]:
    return [
        Case(f"scale/{width} channels, {side} x {side}", "scale", partial(scale, width, side), sets)
        for sizes, sets in ((SIZES, BOTH), (SIZES_FULL, ONLY_FULL))
        for width, side in sizes
    ]
