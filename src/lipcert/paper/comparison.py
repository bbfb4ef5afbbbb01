"""Medians and quartiles over the networks of a group, beside the published ones, with a verdict for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from lipcert.chart.lines import Quartiles
from lipcert.paper.entries import LBS, OURS, UPPER, RandomNetwork, TargetEntry
from lipcert.paper.estimators import NOT_RUN, NOT_TRIED, Findings
from lipcert.paper.published import (
    ABOVE,
    BELOW_LOWER,
    Values,
    explanation,
    is_valid,
    proved_fault,
    published,
    published_value,
)

TOLERANCE = 2e-3  # relative difference of a median from the published one
LOWEST = 1e-4  # relative: how far above another bound ours may lie and still count as the lowest
NOTHING_COMPARED = "nothing to compare: no entry with a published counterpart finished"
_ALL_SEEDS = 10


class Comparison(Enum):
    """How a row compares with the publication."""

    AGREES = "agrees"
    LOWER = "ours is lower"  # the same method, proved
    REFUTED = "refuted"  # a gradient is larger than a published upper bound, for one of the networks at least
    EXPLAINED = "explained"
    DIFFERS = "differs"
    OUT_OF_REACH = "out of reach"  # published; tried here, or something smaller was, and none finished
    NOTHING = ""  # not published, or not run here

    def of(self, number: int) -> str:
        """The verdict with a number: 1 agrees, 21 agree."""
        several = {Comparison.AGREES: "agree", Comparison.DIFFERS: "differ"}
        return f"{number} {self.value if number == 1 else several.get(self, self.value)}"


@dataclass(frozen=True)
class ComparisonRow:
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
    verdict: Comparison
    remarks: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        if self.ours is None or not self.published:
            return None
        return self.ours / self.published


def summarise(entries: Iterable[TargetEntry], findings: Findings) -> list[ComparisonRow]:
    """One row for each method and group of networks, in the order of the entries."""
    groups: dict[tuple[tuple[int, int, int], str, str], list[TargetEntry]] = {}
    for entry in entries:
        if isinstance(entry.network, RandomNetwork):
            groups.setdefault((entry.network.group, entry.region, entry.method), []).append(entry)
    return [_row(*group, region, method, own, findings) for (group, region, method), own in groups.items()]


def _row(
    layers: int, size: int, sparsity: int, region: str, method: str, entries: list[TargetEntry], findings: Findings
) -> ComparisonRow:
    found = [findings[e] for e in entries]
    words = Counter(f.ended for f in found if f.ended)
    ours, theirs, verdict, remarks = _compare(entries, published(layers, region, size, sparsity, method), findings)
    if method == OURS:
        remarks += _not_lowest(entries, findings)
    return ComparisonRow(
        *(layers, size, sparsity, region, method),
        attempted=sum(f.ended not in (NOT_RUN, NOT_TRIED) for f in found),
        values=Quartiles.of([f.value for f in found if f.value is not None]),
        seconds=Quartiles.of([f.seconds for f in found if f.value is not None and f.seconds is not None]),
        words=", ".join(word if n == len(found) else f"{n} of {len(found)}: {word}" for word, n in words.items()),
        ours=ours,
        published=theirs,
        verdict=verdict,
        remarks=tuple(remarks),
    )


def _compare(
    entries: list[TargetEntry], told: Values, findings: Findings
) -> tuple[float | None, float | None, Comparison, list[str]]:
    """Medians over the same networks: all ten where that median was published, else those that finished and were."""
    done = [(e, value) for e in entries if (value := findings[e].value) is not None]
    both = [(e, mine, theirs) for e, mine in done if (theirs := told.of(e.network.seed)) is not None]
    refuted = _refuted(entries, findings)
    if told.median is not None and len(done) == _ALL_SEEDS:
        ours, theirs = float(np.median([mine for _, mine in done])), told.median
    elif both:
        ours, theirs = float(np.median([mine for _, mine, _ in both])), float(np.median([t for _, _, t in both]))
    else:
        return (None, told.middle, *_unfinished(entries, told, findings, refuted))
    far = [(e, theirs) for e, mine, theirs in both if abs(mine - theirs) > TOLERANCE]
    reasons = [explanation(e, value, findings[e], findings.lower(e)) for e, value in far]
    said = [*refuted, *dict.fromkeys(reason for reason in reasons if reason and reason != BELOW_LOWER)]
    return ours, theirs, _verdict(abs(ours - theirs) <= TOLERANCE, bool(refuted), reasons), said


def _verdict(near: bool, refuted: bool, reasons: list[str]) -> Comparison:
    if refuted:
        return Comparison.REFUTED
    if near:
        return Comparison.AGREES
    if not reasons or not all(reasons):
        return Comparison.DIFFERS
    return Comparison.LOWER if {*reasons} == {ABOVE} else Comparison.EXPLAINED


def _unfinished(
    entries: list[TargetEntry], told: Values, findings: Findings, refuted: list[str]
) -> tuple[Comparison, list[str]]:
    """The verdict where no published network finished here, and what is known of them all the same."""
    if refuted:
        return Comparison.REFUTED, refuted
    if told.middle is None or all(findings[e].ended in ("", NOT_RUN) for e in entries):
        return Comparison.NOTHING, []
    pairs = [(findings[replace(e, method=OURS)].value, told.of(e.network.seed)) for e in entries]
    known = [ours < theirs for ours, theirs in pairs if ours is not None and theirs is not None]
    return Comparison.OUT_OF_REACH, [f"ours is lower in {sum(known)} of {len(known)} networks"] if known else []


def _refuted(entries: list[TargetEntry], findings: Findings) -> list[str]:
    seeds = [str(e.network.seed) for e in entries if refutes(e, findings)]
    return [f"{BELOW_LOWER}: seed {', '.join(seeds)}"] if seeds else []


def refutes(entry: TargetEntry, findings: Findings) -> bool:
    """Whether a gradient is known that is larger than the upper bound published for this entry."""
    value = None if entry.method == LBS else published_value(entry)
    return value is not None and proved_fault(value, None, findings.lower(entry)) == BELOW_LOWER


def _not_lowest(entries: list[TargetEntry], findings: Findings) -> list[str]:
    """Networks in which another valid upper bound, computed here or published, is lower than ours."""
    lost: dict[str, list[str]] = {}
    for entry in entries:
        for name in lower_bounds_than_ours(entry, findings):
            lost.setdefault(name, []).append(str(entry.network.seed))
    return [f"NOT LOWEST: {name} is lower for seed {', '.join(seeds)}" for name, seeds in lost.items()]


def lower_bounds_than_ours(ours: TargetEntry, findings: Findings) -> list[str]:
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
    """How the published rows compare, by verdict."""

    verdicts: tuple[tuple[Comparison, int], ...]

    def of(self, verdict: Comparison) -> int:
        return dict(self.verdicts).get(verdict, 0)

    @property
    def published(self) -> int:
        """How many rows have a verdict."""
        return sum(n for _, n in self.verdicts)

    def to_dict(self) -> dict[str, int]:
        return {verdict.name.lower(): n for verdict, n in self.verdicts}

    def __str__(self) -> str:
        """ "agrees" within the tolerance; a verdict that no row has is left out."""
        if not self.published:
            return NOTHING_COMPARED
        first, *others = [verdict.of(n) for verdict, n in self.verdicts]
        return f"of {self.published} published entries {', '.join([first, *others])} (to {TOLERANCE:g})"


def agreement(rows: Iterable[ComparisonRow]) -> Agreement:
    """Rows that more than one target shows count once."""
    unique = {(r.layers, r.size, r.sparsity, r.region, r.method): r for r in rows}.values()
    count = Counter(r.verdict for r in unique)
    return Agreement(tuple((v, count[v]) for v in Comparison if v is not Comparison.NOTHING and count[v]))
