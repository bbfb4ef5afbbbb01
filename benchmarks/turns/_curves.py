"""Brackets at marks of one run, and `auto` beside the best single method: from rows alone, nothing is measured here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from benchmarks._rows import Measured, Point, Row

AUTO = "auto"
MARKS = (1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0)
LATE, LATE_SHARE = 1.0, 0.1  # seconds, and share of the limit, after which an answer that came back counts as late


def marks_upto(limit: float) -> list[float]:
    """The marks that a run with this limit has, and the limit itself."""
    return sorted({mark for mark in MARKS if mark < limit} | {limit})


def limit_of(measured: Measured) -> float:
    """The number of "10 s", "10 processor s" and "work 10"."""
    return float(next(word for word in measured.limit.split() if word[0].isdigit()))


def in_time(curve: Iterable[Point], limit: float) -> tuple[Point, ...]:
    """The points where the bracket changed; one that came after the limit, but no later than is allowed, came at it."""
    kept: list[Point] = []
    for at, lower, upper in curve:
        upper = None if upper is None or math.isinf(upper) else upper
        if (lower, upper) != (kept[-1][1:] if kept else (None, None)):
            kept.append((limit if limit < at <= limit * (1 + LATE_SHARE) + LATE else at, lower, upper))
    return tuple(kept)


def at(measured: Measured, mark: float) -> tuple[float | None, float | None]:
    """The bracket at a mark; an end that there was none of is None."""
    seen = [point for point in measured.curve if point[0] <= mark]
    lowers = [lower for _, lower, _ in seen if lower is not None]
    uppers = [upper for _, _, upper in seen if upper is not None]
    return max(lowers, default=None), min(uppers, default=None)


@dataclass(frozen=True)
class Beside:
    """`auto` at one mark of one question, and the best end of the bracket that any single method has there."""

    question: str
    half: str
    mark: float
    lower: float | None
    upper: float | None
    best_lower: float | None
    best_upper: float | None
    lower_by: str
    upper_by: str

    @property
    def upper_ratio(self) -> float | None:
        """Above one where `auto` is behind; None where no single method has a bound."""
        return _ratio(self.upper, self.best_upper, math.inf)

    @property
    def lower_ratio(self) -> float | None:
        """Below one where `auto` is behind; None where no single method has a witness."""
        return _ratio(self.lower, self.best_lower, 0.0)


def _ratio(ours: float | None, best: float | None, nothing: float) -> float | None:
    if best is None:
        return None
    if ours is None:
        return nothing
    return 1.0 if ours == best else ours / best if best else math.inf


def by_question(rows: Iterable[Row]) -> dict[str, dict[str, Measured]]:
    """The runs of each question by their methods."""
    found: dict[str, dict[str, Measured]] = {}
    for row in rows:
        if row.counts:
            found.setdefault(row.measured.network, {})[row.measured.method] = row.measured
    return found


def beside(runs: dict[str, Measured], mark: float) -> Beside:
    """`auto` and the best single methods at a mark; the first method of those that are equal."""
    ours = runs[AUTO]
    ends = {method: at(m, mark) for method, m in runs.items() if method != AUTO}
    lowers = {method: lower for method, (lower, _) in ends.items() if lower is not None}
    uppers = {method: upper for method, (_, upper) in ends.items() if upper is not None}
    low = max(lowers, key=lambda method: lowers[method], default="-")
    up = min(uppers, key=lambda method: uppers[method], default="-")
    half = str(ours.facts.get("half", ""))
    return Beside(ours.network, half, mark, *at(ours, mark), lowers.get(low), uppers.get(up), low, up)


def all_beside(rows: Iterable[Row], marks: Sequence[float] = ()) -> list[Beside]:
    """Every question that has `auto` and a single method, at every mark of its limit, or at those given."""
    return [
        beside(runs, mark)
        for runs in by_question(rows).values()
        if AUTO in runs and len(runs) > 1
        for mark in marks or marks_upto(limit_of(runs[AUTO]))
    ]


@dataclass(frozen=True)
class Ratios:
    """Ratios of many questions: how many, their geometric mean, and the worst with its question."""

    count: int
    mean: float
    worst: float
    question: str


def summary(found: Iterable[tuple[str, float | None]], worst_is_largest: bool) -> Ratios | None:
    """None where there is no ratio. A ratio of 0 or infinity (one of the two had nothing) is not in the mean."""
    known = [(ratio, name) for name, ratio in found if ratio is not None]
    if not known:
        return None
    worst, name = (max if worst_is_largest else min)(known)
    finite = [ratio for ratio, _ in known if 0 < ratio < math.inf]
    return Ratios(len(known), geometric_mean(finite) if finite else math.nan, worst, name)


def summaries(found: Iterable[Beside]) -> dict[tuple[str, float], tuple[Ratios | None, Ratios | None]]:
    """Ratios of upper bounds and of witnesses for each half and for both ("A", "B", "both"), at each mark."""
    groups: dict[tuple[str, float], list[Beside]] = {}
    for one in found:
        for half in (one.half, "both"):
            groups.setdefault((half, one.mark), []).append(one)
    return {
        key: (
            summary(((b.question, b.upper_ratio) for b in group), True),
            summary(((b.question, b.lower_ratio) for b in group), False),
        )
        for key, group in sorted(groups.items())
    }


def compact(rows: Sequence[Row]) -> list[Row]:
    """What the tables need: `auto` and the methods that are best somewhere, with their curves at the marks alone."""
    best = {(b.question, name) for b in all_beside(rows) for name in (AUTO, b.lower_by, b.upper_by)}
    kept = []
    for row in rows:
        m = row.measured
        if row.counts and (m.network, m.method) in best:
            points = tuple((mark, *at(m, mark)) for mark in marks_upto(limit_of(m)))
            kept.append(replace(row, measured=replace(m, curve=in_time(points, limit_of(m)))))
    return kept
