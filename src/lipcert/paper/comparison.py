"""Medians and quartiles over the networks of a group, beside the published ones, with a verdict for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from lipcert.chart.lines import Quartiles
from lipcert.paper.entries import OURS, UPPER, Entry, Random
from lipcert.paper.faults import explanation, is_valid
from lipcert.paper.findings import NOT_RUN, Findings, Found
from lipcert.paper.published import Values, published, published_value

TOLERANCE = 2e-3  # of a median against the published one
LOWEST = 1e-4  # relative: how far above another bound ours may lie and still count as the lowest
_ALL_SEEDS = 10


class Verdict(Enum):
    """How a row compares with the publication."""

    AGREES = "agrees"
    EXPLAINED = "explained"
    DIFFERS = "differs"
    NOTHING = ""  # not published, or not finished here


@dataclass(frozen=True)
class Row:
    """One method on the networks of a group: those that finished, and words for those that did not.

    `ours` and `published` are medians over the same networks, see `_compare`.
    """

    layers: int
    size: int
    sparsity: int
    region: str
    method: str
    attempted: int
    values: Quartiles | None
    seconds: Quartiles | None
    words: str
    ours: float | None
    published: float | None
    verdict: Verdict
    remarks: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        if self.ours is None or not self.published:
            return None
        return self.ours / self.published


def summarise(entries: Iterable[Entry], findings: Findings) -> list[Row]:
    """One row for each method and group of networks, in the order of the entries."""
    groups: dict[tuple[tuple[int, int, int], str, str], list[Found]] = {}
    for entry in entries:
        if isinstance(entry.network, Random):
            groups.setdefault((entry.network.group, entry.region, entry.method), []).append(findings[entry])
    return [_row(key[0], key[1], key[2], found, findings) for key, found in groups.items()]


def _row(group: tuple[int, int, int], region: str, method: str, found: list[Found], findings: Findings) -> Row:
    layers, size, sparsity = group
    values = [f.value for f in found if f.value is not None]
    seconds = [f.estimate.seconds for f in found if f.estimate is not None and f.value is not None]
    words = Counter(f.word for f in found if f.value is None and f.word)
    told = published(layers, region, size, sparsity, method)
    ours, theirs, verdict, reasons = _compare(found, told, findings)
    remarks = [*reasons, *(_not_lowest(found, findings) if method == OURS else [])]
    return Row(
        *(layers, size, sparsity, region, method),
        sum(f.word != NOT_RUN for f in found),
        Quartiles.of(values),
        Quartiles.of(seconds),
        ", ".join(word if n == len(found) else f"{n} of {len(found)}: {word}" for word, n in words.items()),
        ours,
        theirs,
        verdict,
        tuple(remarks),
    )


def _compare(
    found: list[Found], told: Values, findings: Findings
) -> tuple[float | None, float | None, Verdict, list[str]]:
    """Medians over the same networks: all ten where that median was published, else those that finished and were."""
    done = [(f, f.value, told.of(f.entry.network.seed)) for f in found if f.value is not None]
    both = [(f, mine, theirs) for f, mine, theirs in done if theirs is not None]
    if told.median is not None and len(done) == _ALL_SEEDS:
        ours, theirs = float(np.median([mine for _, mine, _ in done])), told.median
    elif both:
        ours, theirs = float(np.median([mine for _, mine, _ in both])), float(np.median([t for _, _, t in both]))
    else:
        return None, told.median, Verdict.NOTHING, []
    reasons, unexplained = _reasons(both, findings)
    if abs(ours - theirs) <= TOLERANCE:
        return ours, theirs, Verdict.AGREES, reasons
    return ours, theirs, Verdict.EXPLAINED if reasons and not unexplained else Verdict.DIFFERS, reasons


def _reasons(both: list[tuple[Found, float, float]], findings: Findings) -> tuple[list[str], bool]:
    """Why single networks differ, and whether one differs without a reason."""
    reasons: dict[str, None] = {}
    unexplained = False
    for f, mine, theirs in both:
        if abs(mine - theirs) > TOLERANCE and f.estimate is not None:
            reason = explanation(f.entry, theirs, f.estimate, findings.lower(f.entry))
            unexplained |= not reason
            reasons |= {reason: None} if reason else {}
    return [*reasons], unexplained


def _not_lowest(found: list[Found], findings: Findings) -> list[str]:
    """Networks in which another valid upper bound, computed here or published, is lower than ours."""
    lost: dict[str, list[str]] = {}
    for f in found:
        for name in lower_bounds_than_ours(f, findings):
            lost.setdefault(name, []).append(str(f.entry.network.seed))
    return [f"NOT LOWEST: {name} is lower for seed {', '.join(seeds)}" for name, seeds in lost.items()]


def lower_bounds_than_ours(ours: Found, findings: Findings) -> list[str]:
    """The methods whose valid upper bound of the same network and region lies below ours, here or as published."""
    if ours.value is None:
        return []
    limit, beaten = ours.value / (1 + LOWEST), []
    for method in UPPER:
        if method == OURS:
            continue
        entry = replace(ours.entry, method=method)
        other, told = findings[entry], published_value(entry)
        if other.upper is not None and other.upper < limit:
            beaten.append(method)
        elif told is not None and told < limit and is_valid(entry, told, other.estimate, findings.lower(entry)):
            beaten.append(f"published {method}")
    return beaten


@dataclass(frozen=True)
class Agreement:
    """How many rows agree with the publication."""

    agree: int
    explained: int
    differ: int
    unfinished: int  # published, attempted, not finished here

    @property
    def compared(self) -> int:
        return self.agree + self.explained + self.differ

    def __str__(self) -> str:
        left = f"; {self.unfinished} not finished here (time, memory)" if self.unfinished else ""
        return (
            f"{self.agree} of {self.compared} entries agree to {TOLERANCE:g}, {self.explained} explained, "
            f"{self.differ} not{left}"
        )


def agreement(rows: Iterable[Row]) -> Agreement:
    """Rows that more than one target shows count once."""
    unique = {(r.layers, r.size, r.sparsity, r.region, r.method): r for r in rows}.values()
    count = Counter(r.verdict for r in unique)
    stuck = sum(r.ours is None and bool(r.words) and r.attempted > 0 and _was_published(r) for r in unique)
    return Agreement(count[Verdict.AGREES], count[Verdict.EXPLAINED], count[Verdict.DIFFERS], stuck)


def _was_published(row: Row) -> bool:
    told = published(row.layers, row.region, row.size, row.sparsity, row.method)
    return bool(told.seeds) or told.median is not None
