"""Tables and lists of facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from lipcert.chart.markup import Markup, tag, together
from lipcert.chart.numbers import count, down, near, percent, plain, up
from lipcert.robustness.decision import ATTACKED, CERTIFIED, UNDECIDED
from lipcert.robustness.result import Certification
from lipcert.robustness.stored import StoredJob

_ROWS = 2000  # of brackets in one page
_LABELS = 1024


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], left: frozenset[int] = frozenset()
) -> Markup:
    """A table that scrolls inside its own frame when it is larger than the page; `left` are columns of words."""
    sides = ["left" if k in left else None for k in range(len(heads))]
    head = tag("tr", *(tag("th", h, scope="col", class_=side) for h, side in zip(heads, sides, strict=True)))
    body = []
    for first, *rest in rows:
        others = (tag("td", value, class_=side) for value, side in zip(rest, sides[1:], strict=True))
        body.append(tag("tr", tag("th", first, scope="row", class_=sides[0]), *others))
    inner = tag("table", tag("thead", head), tag("tbody", *body), aria_label=caption)
    frame = tag("div", inner, class_="scroll", role="region", aria_label=caption, tabindex=0)
    return tag("div", tag("p", caption, class_="soft"), frame)


def facts(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Names and values."""
    return tag("dl", *(together([tag("dt", name), tag("dd", value)]) for name, value in pairs))


def radius_table(job: StoredJob) -> Markup:
    """How the inputs end at every radius that was asked."""
    heads = ("radius ε", "proved robust", "undecided", "attacked", "at most")
    rows = [
        (
            plain(t.radius),
            *(f"{count(n)} ({percent(n, job.count)})" for n in (t.certified, t.undecided, t.attacked)),
            percent(job.correct - t.attacked, job.count, ceiling=True),
        )
        for t in job.tallies
    ]
    caption = f"{count(job.count)} inputs, {count(job.misclassified)} of them misclassified at every radius"
    return tag("div", table(caption, heads, rows), class_="narrow")


def bracket_table(job: StoredJob) -> Markup:
    """The brackets of the constants."""
    pairs = job.result.pairs
    shown = pairs
    if len(pairs) > _ROWS:
        shown = tuple(sorted(pairs, key=lambda p: math.inf if p.upper is None else p.upper, reverse=True)[:_ROWS])
    heads = ("scores", "lower", "upper", "gap", "method", "time", "certificate")
    rows = [
        (
            f"{p.i} and {p.j}",
            down(p.lower, 6),
            up(p.upper, 6),
            _gap(p.lower, p.upper),
            p.method,
            f"{near(p.seconds)} s",
            _certificate(job, p.certificate),
        )
        for p in shown
    ]
    caption = "Brackets of the constants; lower bounds are rounded down, upper bounds up, gap = (upper - lower) / lower"
    if len(shown) < len(pairs):
        caption = f"The {count(len(shown))} largest of {count(len(pairs))} constants. {caption}"
    return table(caption, heads, rows, frozenset({0, 4, 6}))


def label_table(result: Certification) -> Markup:
    """How the inputs of each label end at the largest radius."""
    heads = ("label", "inputs", "proved robust", "undecided", "attacked", "misclassified", "median certified radius")
    status = result.status()
    rows = []
    for label in sorted(set(result.labels.tolist()))[:_LABELS]:
        own = result.labels == label
        certified, undecided, attacked = (int((status[own] == s).sum()) for s in (CERTIFIED, UNDECIDED, ATTACKED))
        radii = sorted(result.certified_radius[own & ~result.wrong].tolist())
        total = int(own.sum())
        share = f"{count(certified)} ({percent(certified, total)})"
        ends = (share, count(undecided), count(attacked), count(total - len(radii)))
        middle = radii[(len(radii) - 1) // 2] if radii else None
        rows.append((str(label), count(total), *ends, down(middle, 3)))
    return table(f"By label, at radius {plain(result.radii[-1])}", heads, rows)


def _certificate(job: StoredJob, name: str | None) -> str:
    if name is None:
        return "none"
    return PurePosixPath(name).name + ("" if job.keeps(name) else " (missing)")


def _gap(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None or lower == 0:
        return "–"
    return f"{up(100 * (upper - lower) / lower, 3)} %"
