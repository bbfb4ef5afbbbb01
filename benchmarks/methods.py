"""Bound against time for every method on three networks that anyone can regenerate: a CSV and a plot.

    python -m benchmarks.methods [--seconds 60] [--add] [--csv FILE] [--plot FILE] [--only-plot]

    (80,80)          the paper's network of seed 0, s = 80, box of radius 0.1
    (40,40,10)       the paper's network of seed 0, s = 40, box of radius 10
    784-100-100-10   He-normal weights, score 0 against score 1, box of radius 0.01 around a point of the unit cube

Every certified bound that `bound` reports on its way is a row of the CSV, and so is the end of every method. Times are
processor seconds of the whole process (set OPENBLAS_NUM_THREADS=1 for one thread), so that other work on the machine
matters little; the limit is of wall time, half as much again for the last network. The lower bound comes from a
search of its own. The plot needs matplotlib: pip install matplotlib.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lipcert
from benchmarks._measure import ROOT
from benchmarks.large import he_normal
from lipcert.budget import Budget
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

# marker and shade; the paper's own estimators, as it states them, are hollow
STYLES: dict[str, tuple[str, str]] = {
    "product": ("v", "0.5"),
    "interval": ("s", "0.5"),
    "mixed": ("D", "0.5"),
    "shor": ("o", "0.0"),
    "hr2": ("^", "0.0"),
    "backward": ("<", "0.0"),
    "forward": (">", "0.0"),
    "both": ("P", "0.0"),
    "backward-free": ("h", "0.0"),
    "both-free": ("X", "0.0"),
    "tight": ("*", "0.0"),
    "lipopt3": ("o", "1.0"),
    "hr1": ("s", "1.0"),
    "hr2 literal": ("^", "1.0"),
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
    try:
        import matplotlib as mpl
    except ImportError:
        raise SystemExit("the plot needs matplotlib, which is not installed: pip install matplotlib") from None
    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "lipcert", "svg.fonttype": "none", "font.family": "sans-serif"})
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(r["network"] for r in rows))
    figure, panels = plt.subplots(1, len(names), figsize=(4.2 * len(names), 4.8), constrained_layout=True)
    for axes, name in zip(panels, names, strict=True):
        _panel(axes, name, [r for r in rows if r["network"] == name])
    panels[0].set_ylabel("certified upper bound above the best lower bound")
    _legend(figure, panels)
    figure.savefig(path, metadata={"Date": None})


def _panel(axes: Any, name: str, rows: list[dict[str, str]]) -> None:
    lower = next(float(r["upper"]) for r in rows if r["method"] == "lower")
    for method in dict.fromkeys(r["method"] for r in rows):
        own = [r for r in rows if r["method"] == method]
        gaps = [100 * max(float(r["upper"]) / lower - 1, LEAST) for r in own]
        if method != "lower" and math.isfinite(gaps[-1]):
            _method_mark(axes, method, [max(float(r["seconds"]), FIRST) for r in own], gaps)
    axes.set(xscale="log", yscale="log", xlabel="processor seconds", title=name, xlim=(FIRST / 1.6, 400))
    axes.set_ylim(bottom=axes.get_ylim()[0] / 1.6)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g} %")
    axes.grid(True, which="major", linewidth=0.3, color="0.85")


def _method_mark(axes: Any, method: str, seconds: list[float], gaps: list[float]) -> None:
    """The end of a method; the way of `tight` as a staircase."""
    marker, shade = STYLES[method]
    if method == "tight":
        axes.step(seconds, gaps, where="post", color="0.6", linewidth=1.0, zorder=1)
    edge = "black" if shade == "1.0" else "white"
    size = 13 if method == "tight" else 9
    style = {"markerfacecolor": shade, "markeredgecolor": edge, "markeredgewidth": 0.8, "markersize": size}
    axes.plot(seconds[-1:], gaps[-1:], marker, linestyle="none", label=method, zorder=3, **style)


def _legend(figure: Any, panels: Any) -> None:
    """One for all panels, in the order of STYLES."""
    found = {label: mark for axes in panels for mark, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    labels = [method for method in STYLES if method in found]
    figure.legend([found[m] for m in labels], labels, loc="outside lower center", ncol=7, frameon=False)


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
