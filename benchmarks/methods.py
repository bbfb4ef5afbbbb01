"""Bound against time for every method on three networks that anyone can regenerate: a CSV and a plot.

    python -m benchmarks.methods [--seconds 60] [--add] [--csv FILE] [--plot FILE] [--only-plot]

    (80,80)          the paper's network of seed 0, s = 80, box of radius 0.1
    (40,40,10)       the paper's network of seed 0, s = 40, box of radius 10
    784-100-100-10   He-normal weights, score 0 against score 1, box of radius 0.01 around a point of the unit cube

Every certified bound that `bound` reports on its way is a row of the CSV, and so is the end of every method. Times are
processor seconds of the whole process (set OPENBLAS_NUM_THREADS=1 for one thread), so that other work on the machine
matters little; the limit is of wall time, half as much again for the last network. The lower bound comes from a
search of its own.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import lipcert
from benchmarks._measure import ROOT
from benchmarks.large import he_normal
from lipcert.budget import Budget
from lipcert.chart.lines import Look, Panel, Quartiles, Series, line_chart
from lipcert.chart.svg import document
from lipcert.paper.networks import paper_network, paper_region
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.rounding import Array
from lipcert.witness import search

CHEAP = ("product", "interval", "mixed")
COLUMNS = ("network", "method", "seconds", "wall", "upper", "event")
Row = dict[str, Any]

FIRST, LEAST = 1e-3, 1e-4  # seconds and gap below which the plot does not look

_BLACK, _GREY = "#000000", "#808080"
# the paper's own estimators, as it states them, are hollow
LOOKS = {
    "product": Look(_GREY, "", "triangle-down"),
    "interval": Look(_GREY, "", "square"),
    "mixed": Look(_GREY, "", "diamond"),
    "shor": Look(_BLACK, "", "circle"),
    "hr2": Look(_BLACK, "", "triangle"),
    "backward": Look(_BLACK, "", "triangle-left"),
    "forward": Look(_BLACK, "", "triangle-right"),
    "both": Look(_BLACK, "", "plus"),
    "backward-free": Look(_BLACK, "", "hexagon"),
    "both-free": Look(_BLACK, "", "cross"),
    "tight": Look(_BLACK, "", "star"),
    "way of tight": Look("#999999", "", "", width=1.0),
    "lipopt3": Look(_BLACK, "", "circle", hollow=True),
    "hr1": Look(_BLACK, "", "square", hollow=True),
    "hr2 literal": Look(_BLACK, "", "triangle", hollow=True),
}


@dataclass(frozen=True)
class Case:
    """One network, and the methods that apply to it."""

    name: str
    make: Callable[[], tuple[Network, Box]]
    weights: tuple[float, ...]
    methods: tuple[str, ...]
    patience: float = 1.0  # times the limit


def _paper(size: int, sparsity: int, layers: int, region: str) -> tuple[Network, Box]:
    return paper_network(size, sparsity, 0, layers), paper_region(size, 0, region)


def _wide() -> tuple[Network, Box]:
    return he_normal((784, 100, 100, 10)), Box(np.random.default_rng(1).uniform(size=784), 0.01)


CASES = (
    Case(
        "(80,80), radius 0.1",
        lambda: _paper(80, 80, 1, "local"),
        (1.0,),
        (*CHEAP, "shor", "hr2", "tight", "lipopt3", "hr2 literal"),
    ),
    Case(
        "(40,40,10), radius 10",
        lambda: _paper(40, 40, 2, "global"),
        (1.0,),
        (*CHEAP, "backward", "forward", "both", "tight", "lipopt3", "hr1"),
    ),
    Case(
        "784-100-100-10, radius 0.01",
        _wide,
        (1.0, -1.0, *(0.0,) * 8),
        (*CHEAP, "backward-free", "both-free", "backward", "forward", "both", "tight"),
        1.5,
    ),
)


class Clock:
    """Processor and wall seconds since it was made."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def row(self, case: Case, method: str, upper: float, event: str) -> Row:
        seconds, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        return dict(zip(COLUMNS, (case.name, method, round(seconds, 4), round(wall, 4), upper, event), strict=True))


def measure(case: Case, seconds: float, known: set[tuple[str, str]]) -> Iterable[Row]:
    """The lower bound first, then method after method; what is `known` is left out."""
    net, box = case.make()
    c, limit = np.array(case.weights), case.patience * seconds
    if (case.name, "lower") not in known:
        clock = Clock()
        found = search(Problem.of(net, box, c), Budget.of_seconds(seconds / 2))
        yield clock.row(case, "lower", found.value, "done")
    for method in case.methods:
        if (case.name, method) not in known:
            yield from _method(case, net, box, c, method, limit)


def _method(case: Case, net: Network, box: Box, c: Array, method: str, limit: float) -> Iterable[Row]:
    seen: list[Row] = []

    def watch(p: lipcert.Progress) -> None:
        if math.isfinite(p.upper) and (not seen or p.upper < seen[-1]["upper"]):
            seen.append(clock.row(case, method, p.upper, "progress"))

    name, literal = method.removesuffix(" literal"), method.endswith(" literal")
    clock = Clock()
    result = lipcert.bound(
        net, box, output=c, method=name, literal=literal, time_limit=limit, lower=False, on_progress=watch
    )
    yield from seen
    yield clock.row(case, method, result.upper, result.status.name.lower())


def draw(rows: list[dict[str, str]], path: Path) -> None:
    names = dict.fromkeys(r["network"] for r in rows)
    panels = [_panel(name, [r for r in rows if r["network"] == name]) for name in names]
    title = "Certified upper bounds against time"
    path.write_text(document(line_chart(title, panels, LOOKS, columns=len(panels))), encoding="utf-8")


def _panel(name: str, rows: list[dict[str, str]]) -> Panel:
    """The end of every method, in the order of LOOKS; the way of `tight` as a staircase."""
    lower = next(float(r["upper"]) for r in rows if r["method"] == "lower")
    points: dict[str, list[tuple[float, float]]] = {}
    for r in rows:
        gap = 100 * max(float(r["upper"]) / lower - 1, LEAST)
        if r["method"] != "lower" and math.isfinite(gap):
            points.setdefault(r["method"], []).append((max(float(r["seconds"]), FIRST), gap))
    way = points.get("tight", [])
    corners = [p for (_, before), (later, gap) in pairwise(way) for p in ((later, before), (later, gap))]
    shown = {method: found[-1:] for method, found in points.items()} | {"way of tight": [*way[:1], *corners]}
    series = [Series(m, tuple((s, Quartiles.one(gap)) for s, gap in shown[m])) for m in LOOKS if m in shown]
    y_title = "upper above lower bound (%)"
    return Panel(name, "processor seconds", y_title, tuple(series), log=True, log_x=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for each method")
    parser.add_argument("--csv", type=Path, default=ROOT / "docs" / "methods.csv")
    parser.add_argument("--plot", type=Path, default=ROOT / "docs" / "images" / "methods.svg")
    parser.add_argument("--add", action="store_true", help="keep the CSV and measure what it lacks")
    parser.add_argument("--only-plot", action="store_true", help="draw the CSV that is there")
    options = parser.parse_args()
    rows = _read(options.csv) if options.add or options.only_plot else []
    if not options.only_plot:
        known = {(r["network"], r["method"]) for r in rows}
        for case in CASES:
            for row in measure(case, options.seconds, known):
                rows.append({key: str(value) for key, value in row.items()})
                if row["event"] != "progress":
                    print(*row.values(), flush=True)
                    _write(options.csv, rows)
    draw(rows, options.plot)


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    """Network by network, in the order of the cases."""
    places = {case.name: k for k, case in enumerate(CASES)}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda r: places.get(r["network"], len(places))))


if __name__ == "__main__":
    main()
