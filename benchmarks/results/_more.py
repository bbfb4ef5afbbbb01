"""Cases of other norms, of growth with size, of networks too large for one matrix, and of limits of time."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

import lipcert
from benchmarks import _large_networks as large
from benchmarks._networks import Made, he_normal
from benchmarks._rows import Measured
from benchmarks.results._bounds import ENOUGH, WIDE, alone, named, one
from benchmarks.results._case import BOTH, ONLY_FULL, Case, Question, Stopwatch
from lipcert import Ball, Box, Everywhere
from lipcert.paper.entries import paper_network
from lipcert.problem.region import Region

GROWTH, GROWTH_FULL = (20, 50, 100, 200), (500, 1000)
DEPTHS = (1, 2, 4)
LIMIT = 5.0


def _growth(depth: int, neurons: int) -> Question:
    def make() -> Made:
        net = he_normal((30, *(max(1, neurons // depth),) * depth, 1), seed=depth)
        return net, Box(np.random.default_rng(1).uniform(size=30), 0.1), None, "inf"

    return Question(f"{depth} hidden, {neurons} neurons", make)


def _on(region: Region, norm: str) -> Question:
    words = "everywhere" if isinstance(region, Everywhere) else region.words
    return Question(
        f"(80,80) s=80 seed 0, norm {norm}, {words}", lambda: (paper_network(80, 80, 0), region, None, norm)
    )


def _map(norm: str) -> Question:
    def make() -> Made:
        net = he_normal((4, 12, 12, 5))
        return net, Box(np.random.default_rng(1).uniform(size=4), 0.3), "all", norm

    return Question(f"4-12-12-5 He-normal, all scores, {norm} to {norm}", make)


def _large(name: str) -> Question:
    def make() -> Made:
        net, box = large.made(name)
        return net, box, (0, 1), "inf"

    return Question(f"{name} He-normal", make)


def limited(question: Question, seconds: float) -> Iterable[Measured]:
    """`auto` with a limit of time: what counts is when it came back. The bracket is not repeatable."""
    net, region, output, norm = question.make()
    watch = Stopwatch()
    result = lipcert.bound(net, region, output=output, norm=norm, time_limit=seconds)
    yield Measured(
        question.network,
        "auto",
        region.words,
        norm,
        result.lower,
        result.upper,
        status=result.status.name.lower().replace("_", " "),
        limit=f"{seconds:g} s",
        work=result.work,
        wall=watch.wall,
        cpu=watch.cpu,
        remark="ended by the clock: another run may differ",
    )


def _norms() -> list[Case]:
    zero = np.zeros(80)
    quick = [(_on(Everywhere(), "1"), "auto", 20.0), (_on(Ball(zero, 0.1), "2"), "auto", 20.0)]
    quick += [(_map(norm), "exact", ENOUGH) for norm in ("inf", "2", "1")]
    full = [(_on(Everywhere(), "2"), "auto", 60.0), (_on(Box(zero, 0.1), "2"), "auto", 60.0)]
    full += [(_on(Box(zero, 0.1), "1"), "auto", 60.0)]
    return [
        Case(f"norms/{q.network}", "norms", partial(alone, q, method, work), sets)
        for table, sets in ((quick, BOTH), (full, ONLY_FULL))
        for q, method, work in table
    ]


def cases() -> list[Case]:
    growth = [
        Case(f"growth/{q.network}", "growth", partial(one, q, "backward", ENOUGH), sets)
        for sizes, sets in ((GROWTH, BOTH), (GROWTH_FULL, ONLY_FULL))
        for neurons in sizes
        for q in (_growth(depth, neurons) for depth in DEPTHS)
    ]
    big = [
        Case(f"large/{name}", "large", partial(alone, _large(name), "auto", 300.0), ONLY_FULL)
        for name in large.NETWORKS
    ]
    limits = [
        Case(f"limits/{q.network}", "limits", partial(limited, q, LIMIT))
        for q in (named("(80,80) local"), named("tanh 4-30-30-30"), WIDE)
    ]
    return [*_norms(), *growth, *big, *limits]
