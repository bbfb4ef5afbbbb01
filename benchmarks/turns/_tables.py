"""Lines of text about `auto` beside single methods, and about two sets of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from benchmarks._rows import Row
from benchmarks.turns._curves import (
    AUTO,
    Beside,
    Ratios,
    at,
    by_question,
    limit_of,
    marks_upto,
    summaries,
    summary,
)

BETTER, WORSE = 0.995, 1.005  # a ratio of two runs of the same question between these counts as the same


def number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else format(value, ".6g")


def ratio(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else format(value, ".3f")


def question_lines(found: Iterable[Beside]) -> list[str]:
    """A line for every question and mark: both ends of `auto`, the best of single methods, and the ratios."""
    head = ("question", "", "mark", "lower", "best", "ratio", "by", "upper", "best", "ratio", "by")
    return _columns(
        [
            head,
            *(
                (
                    b.question,
                    b.half,
                    f"{b.mark:g}",
                    number(b.lower),
                    number(b.best_lower),
                    ratio(b.lower_ratio),
                    b.lower_by,
                    number(b.upper),
                    number(b.best_upper),
                    ratio(b.upper_ratio),
                    b.upper_by,
                )
                for b in found
            ),
        ]
    )


def summary_lines(found: Iterable[Beside]) -> list[str]:
    """For each half and mark the mean and the worst ratio of upper bounds and of witnesses."""
    lines = [("half", "mark", "questions", "upper: mean", "worst", "on", "witness: mean", "worst", "on")]
    for (half, mark), (upper, lower) in summaries(found).items():
        count = str(max(r.count if r else 0 for r in (upper, lower)))
        lines.append((half, f"{mark:g}", count, *_ratio_cells(upper), *_ratio_cells(lower)))
    return _columns(lines)


def _ratio_cells(found: Ratios | None) -> tuple[str, str, str]:
    return ("-", "-", "-") if found is None else (ratio(found.mean), ratio(found.worst), found.question)


def before_and_after(before: Sequence[Row], after: Sequence[Row], marks: Sequence[float] = ()) -> list[str]:
    """`auto` in two sets of rows: both ends at every mark, their ratios after to before, and a summary."""
    one, other = by_question(before), by_question(after)
    lines = [("question", "mark", "lower before", "after", "ratio", "upper before", "after", "ratio")]
    ratios: dict[float, list[tuple[str, float | None, float | None]]] = {}
    for name in (n for n in other if AUTO in other[n] and AUTO in one.get(n, {})):
        old, new = one[name][AUTO], other[name][AUTO]
        for mark in marks or marks_upto(min(limit_of(old), limit_of(new))):
            (low, up), (lower, upper) = at(old, mark), at(new, mark)
            both = (lower / low if low and lower is not None else None, upper / up if up and upper else None)
            ratios.setdefault(mark, []).append((name, *both))
            cells = (number(low), number(lower), ratio(both[0]), number(up), number(upper), ratio(both[1]))
            lines.append((name, f"{mark:g}", *cells))
    return [*_columns(lines), "", *(_changes(mark, found) for mark, found in sorted(ratios.items()))]


def _changes(mark: float, found: Sequence[tuple[str, float | None, float | None]]) -> str:
    uppers = [u for _, _, u in found if u is not None]
    better, worse = sum(u < BETTER for u in uppers), sum(u > WORSE for u in uppers)
    upper = _ratio_cells(summary(((name, u) for name, _, u in found), True))
    lower = _ratio_cells(summary(((name, low) for name, low, _ in found), False))
    return (
        f"at {mark:g}: upper after / before: mean {upper[0]}, worst {upper[1]} ({upper[2]}), {better} better, "
        f"{worse} worse of {len(uppers)}; witness: mean {lower[0]}, worst {lower[1]} ({lower[2]})"
    )


def unproved(rows: Iterable[Row]) -> list[str]:
    """Runs that failed, and certificates that do not verify."""
    failed = [f"FAILED {row.case}: {row.measured.remark}" for row in rows if row.measured.status == "failed"]
    return failed + [f"NOT PROVED {row.case}: {row.measured.remark}" for row in rows if row.measured.proved is False]


def _columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Text in columns as wide as their widest cell."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
