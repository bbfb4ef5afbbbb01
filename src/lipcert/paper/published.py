"""The values that [CLMP20] published, and why one differs from ours.

The bounds of the random networks, network by network, are in `data/published.csv`; the numbers printed in the tables
are here. A difference is explained by known faults of the publication, or by what our own numbers prove.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import median

from lipcert.paper.entries import HR1, HR2, LBS, LIPOPT3, LIPOPT4, SHOR, RandomNetwork, TargetEntry
from lipcert.paper.estimators import Estimate

Printed = float | str  # a number, or why there is none


@dataclass(frozen=True)
class Values:
    """The values of networks 0, 1, .., and the median over ten networks, where it was published by itself."""

    seeds: tuple[float, ...] = ()
    median: float | None = None

    def of(self, seed: int) -> float | None:
        return self.seeds[seed] if seed < len(self.seeds) else None

    @property
    def middle(self) -> float | None:
        """The median that was published, or that of the networks that were."""
        return self.median if self.median is not None or not self.seeds else median(self.seeds)


Key = tuple[int, str, int, int, str]  # hidden layers, region, size, sparsity, method


@cache
def random_networks() -> dict[Key, Values]:
    """All published bounds of the random networks."""
    text = (files("lipcert") / "data" / "published.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    found: dict[Key, Values] = {}
    for r in rows:
        key = (int(r["layers"]), r["region"], int(r["size"]), int(r["sparsity"]), r["method"])
        numbers, before = tuple(float(v) for v in r["values"].split()), found.get(key, Values())
        if r["statistic"] == "median":
            found[key] = Values(before.seeds, numbers[0])
        else:
            found[key] = Values(numbers, before.median)
    return found


def published(layers: int, region: str, size: int, sparsity: int, method: str) -> Values:
    return random_networks().get((layers, region, size, sparsity, method), Values())


def published_value(entry: TargetEntry) -> float | None:
    """The published value of one random network; None for other networks and where nothing was published."""
    n = entry.network
    if not isinstance(n, RandomNetwork):
        return None
    return published(n.layers, entry.region, n.size, n.sparsity, entry.method).of(n.seed)


@dataclass(frozen=True)
class Table1Line:
    """A line of Table 1: one value for each sparsity, and which statistic over the networks it turned out to be."""

    layers: int
    size: int
    method: str
    values: tuple[Printed, ...]
    seconds: tuple[Printed, ...]
    statistic: str  # "mean" of ten networks, or "seed 0"


_OOM = "memory"
TABLE1_SPARSITIES = (20, 40, 60, 80)
TABLE1 = (
    Table1Line(1, 80, LBS, (1.05, 1.56, 1.65, 1.86), (), "seed 0"),
    Table1Line(1, 80, HR2, (1.45, 2.05, 2.41, 2.68), (3.14, 7.78, 8.61, 9.82), "mean"),
    Table1Line(1, 80, LIPOPT3, (1.55, 2.86, 3.85, 4.68), (2.44, 10.36, 20.99, 71.49), "seed 0"),
    Table1Line(1, 80, LIPOPT4, (1.43, _OOM, _OOM, _OOM), (127.99, _OOM, _OOM, _OOM), "seed 0"),
    Table1Line(2, 40, LBS, (0.20, 0.48, 0.61, 0.62), (), "seed 0"),
    Table1Line(2, 40, HR1, (0.50, 1.16, 1.82, 2.05), (271.34, 165.68, 174.86, 174.02), "seed 0"),
    Table1Line(2, 40, LIPOPT3, (0.56, 1.68, 3.01, 3.57), (3.84, 4.83, 7.91, 6.33), "seed 0"),
    Table1Line(2, 40, LIPOPT4, (0.29, 0.85, _OOM, _OOM), (321.89, 28034.27, _OOM, _OOM), "seed 0"),
)

# Table 2: region -> method -> (bound, seconds), of the network whose content hash follows.
TABLE2: dict[str, dict[str, tuple[Printed, Printed]]] = {
    "global": {LBS: (9.69, "-"), SHOR: (17.85, 2869.0), HR2: (14.56, 12246.0), LIPOPT3: (_OOM, _OOM)},
    "local": {LBS: (8.20, "-"), SHOR: (16.07, 4217.0), HR2: (12.70, 20596.0), LIPOPT3: (_OOM, _OOM)},
}
TABLE2_NETWORK = "aa93258d525b7b400a404aa6dbf8af9b67076192734703b1f88ddaf0b5cfbc01"

EPSILONS = tuple(round(0.01 * k, 2) for k in range(1, 11))
# Table 3: % of points of the binary task certified at these epsilons, by the paper's own network.
TABLE3 = {
    HR2: (87.51, 75.02, 62.46, 49.89, 37.22, 24.36, 8.15, 2.75, 0.76, 0.12),
    LIPOPT3: (69.03, 37.84, 4.78, 0.15, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
}
# Table 4: % of 10,000 test images certified by HR-2 at these epsilons; the network was not published.
TABLE4 = (98.80, 97.24, 95.16, 92.84, 90.18, 87.10, 83.01, 78.34, 73.54, 67.63)
# The constants L_ij behind it, rows i = 0 .. 8 of the upper triangle.
MATRIX = (
    (7.94, 7.89, 8.28, 8.64, 8.10, 7.66, 8.04, 7.46, 8.14),
    (7.74, 7.36, 7.68, 8.81, 8.06, 7.55, 7.36, 8.66),
    (7.63, 8.81, 10.23, 8.18, 8.13, 7.74, 9.08),
    (8.52, 7.74, 9.47, 8.01, 7.37, 7.96),
    (9.44, 7.98, 8.65, 8.49, 7.47),
    (8.26, 9.26, 8.17, 8.55),
    (10.18, 8.00, 9.83),
    (8.28, 7.65),
    (7.87,),
)


DROPPED = "monomials were dropped: not an upper bound"
POSITIVE_SIGNS = "computed with t in [0,1]: not an upper bound"
BELOW_LOWER = "published value is below the norm of a gradient there"
BELOW_OPTIMUM = "published value is below the optimum of its own program"
ABOVE = "the same method proves less here: the published program was looser or not solved to its end"
OTHER_POINTS = "other random points: the paper's are not known"
MIXED = "mixed statistics: HR-2 is a mean of ten networks, the others are network 0"
OTHER_NETWORK = "another network than the paper's, which is not published"
_SLACK = 1e-5  # six decimals were published, of solvers that end a little above or below an optimum


def known_fault(entry: TargetEntry) -> str:
    """The known fault of a published value, whatever we compute; empty when none is known."""
    network = entry.network
    if not isinstance(network, RandomNetwork):
        return ""
    if entry.method == LIPOPT4 and network.layers == 1 and network.sparsity == 4:
        return DROPPED
    if entry.method in (HR1, HR2) and network.layers == 2:
        return POSITIVE_SIGNS
    return ""


def proved_fault(value: float, floor: float | None, lower: float | None) -> str:
    """The fault that our numbers prove of a published upper bound.

    They are the floor of its relaxation, and the largest gradient norm that is known there.
    """
    if lower is not None and value < lower - _SLACK:
        return BELOW_LOWER
    return BELOW_OPTIMUM if floor is not None and value < floor - _SLACK else ""


def explanation(entry: TargetEntry, value: float, estimate: Estimate, lower: float | None) -> str:
    """Why the published value is not ours; empty when nothing explains it."""
    if entry.method == LBS:
        return OTHER_POINTS if estimate.note else ""
    fault = known_fault(entry) or proved_fault(value, estimate.floor, lower)
    if fault or estimate.upper is None:
        return fault
    return ABOVE if value > estimate.upper else ""


def is_valid(entry: TargetEntry, value: float, floor: float | None, lower: float | None) -> bool:
    """Whether a published upper bound stands, as far as is known."""
    return not known_fault(entry) and not proved_fault(value, floor, lower)
