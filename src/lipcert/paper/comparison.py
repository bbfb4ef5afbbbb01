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
from lipcert.paper.findings import NOT_RUN, Findings
from lipcert.paper.published import Values, published, published_value

TOLERANCE = 2e-3  # of a median against the published one
LOWEST = 1e-4  # relative: how far above another bound ours may lie and still count as the lowest
NOTHING_COMPARED = "nothing to compare: no entry with a published counterpart finished"
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
    groups: dict[tuple[tuple[int, int, int], str, str], list[Entry]] = {}
    for entry in entries:
        if isinstance(entry.network, Random):
            groups.setdefault((entry.network.group, entry.region, entry.method), []).append(entry)
    return [_row(*group, region, method, own, findings) for (group, region, method), own in groups.items()]


def _row(
    layers: int, size: int, sparsity: int, region: str, method: str, entries: list[Entry], findings: Findings
) -> Row:
    found = [findings[e] for e in entries]
    words = Counter(f.ended for f in found if f.ended)
    ours, theirs, verdict, remarks = _compare(entries, published(layers, region, size, sparsity, method), findings)
    if method == OURS:
        remarks += _not_lowest(entries, findings)
    return Row(
        *(layers, size, sparsity, region, method),
        attempted=sum(f.ended != NOT_RUN for f in found),
        values=Quartiles.of([f.value for f in found if f.value is not None]),
        seconds=Quartiles.of([f.seconds for f in found if f.value is not None and f.seconds is not None]),
        words=", ".join(word if n == len(found) else f"{n} of {len(found)}: {word}" for word, n in words.items()),
        ours=ours,
        published=theirs,
        verdict=verdict,
        remarks=tuple(remarks),
    )


def _compare(
    entries: list[Entry], told: Values, findings: Findings
) -> tuple[float | None, float | None, Verdict, list[str]]:
    """Medians over the same networks: all ten where that median was published, else those that finished and were."""
    done = [(e, value) for e in entries if (value := findings[e].value) is not None]
    both = [(e, mine, theirs) for e, mine in done if (theirs := told.of(e.network.seed)) is not None]
    if told.median is not None and len(done) == _ALL_SEEDS:
        ours, theirs = float(np.median([mine for _, mine in done])), told.median
    elif both:
        ours, theirs = float(np.median([mine for _, mine, _ in both])), float(np.median([t for _, _, t in both]))
    else:
        return None, told.median, Verdict.NOTHING, []
    far = [(e, theirs) for e, mine, theirs in both if abs(mine - theirs) > TOLERANCE]
    reasons = [explanation(e, value, findings[e], findings.lower(e)) for e, value in far]
    said = [*dict.fromkeys(reason for reason in reasons if reason)]
    if abs(ours - theirs) <= TOLERANCE:
        return ours, theirs, Verdict.AGREES, said
    return ours, theirs, Verdict.EXPLAINED if reasons and all(reasons) else Verdict.DIFFERS, said


def _not_lowest(entries: list[Entry], findings: Findings) -> list[str]:
    """Networks in which another valid upper bound, computed here or published, is lower than ours."""
    lost: dict[str, list[str]] = {}
    for entry in entries:
        for name in lower_bounds_than_ours(entry, findings):
            lost.setdefault(name, []).append(str(entry.network.seed))
    return [f"NOT LOWEST: {name} is lower for seed {', '.join(seeds)}" for name, seeds in lost.items()]


def lower_bounds_than_ours(ours: Entry, findings: Findings) -> list[str]:
    """The methods whose valid upper bound of the same network and region lies below ours, here or as published."""
    value, beaten = findings[ours].value, []
    for method in UPPER if value is not None else ():
        entry = replace(ours, method=method)
        other, told = findings[entry], published_value(entry)
        if method != OURS and _above(value, other.upper):
            beaten.append(method)
        elif _above(value, told) and told is not None and is_valid(entry, told, other.floor, findings.lower(entry)):
            beaten.append(f"published {method}")
    return beaten


def _above(value: float | None, other: float | None) -> bool:
    return value is not None and other is not None and value > other * (1 + LOWEST)


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
        if not self.compared:
            return f"{NOTHING_COMPARED}{left}"
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
