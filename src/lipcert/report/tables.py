"""Tables and lists of facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from lipcert.report.figures import count, down, near, percent, plain, up
from lipcert.report.histogram import Bins, span
from lipcert.report.job import ATTACKED, CERTIFIED, UNDECIDED, Job, Pair, Points
from lipcert.report.markup import Markup, tag, together

_ROWS = 2000  # of brackets in one page


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], left: frozenset[int] = frozenset()
) -> Markup:
    """A table that scrolls inside its own frame when it is larger than the page; `left` are columns of words."""
    head = tag("tr", *(tag("th", h, scope="col", class_=_side(k, left)) for k, h in enumerate(heads)))
    body = together(_row(cells, left) for cells in rows)
    inner = tag("table", tag("thead", head), tag("tbody", body), aria_label=caption)
    frame = tag("div", inner, class_="scroll", role="region", aria_label=caption, tabindex=0)
    return tag("div", tag("p", caption, class_="soft"), frame)


def facts(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Names and values."""
    return tag("dl", *(together([tag("dt", name), tag("dd", value)]) for name, value in pairs))


def radius_table(job: Job) -> Markup:
    """How the inputs end at every radius that was asked."""
    heads = ("radius ε", "proved robust", "undecided", "attacked", "at most")
    rows = [
        (
            plain(t.radius),
            f"{count(t.certified)} ({percent(t.certified, job.count)})",
            count(t.undecided),
            count(t.attacked),
            percent(job.correct - t.attacked, job.count, ceiling=True),
        )
        for t in job.tallies
    ]
    caption = f"{count(job.count)} inputs, {count(job.misclassified)} of them misclassified at every radius"
    return tag("div", table(caption, heads, rows), class_="narrow")


def bracket_table(job: Job) -> Markup:
    """The brackets of the constants."""
    shown = job.pairs
    if len(shown) > _ROWS:
        shown = tuple(sorted(shown, key=lambda p: math.inf if p.upper is None else p.upper, reverse=True)[:_ROWS])
    heads = ("scores", "lower", "upper", "gap", "method", "time", "certificate")
    rows = [
        (
            f"{p.i} and {p.j}",
            down(p.lower, 6),
            up(p.upper, 6),
            _gap(p.lower, p.upper),
            p.method,
            f"{near(p.seconds)} s",
            _certificate(p),
        )
        for p in shown
    ]
    caption = "Brackets of the constants; lower bounds are rounded down, upper bounds up, gap = (upper - lower) / lower"
    if len(shown) < len(job.pairs):
        caption = f"The {count(len(shown))} largest of {count(len(job.pairs))} constants. {caption}"
    return table(caption, heads, rows, frozenset({0, 4, 6}))


def bins_table(caption: str, bins: Bins) -> Markup:
    """The numbers of a histogram."""
    edges, counts = bins.edges.tolist(), bins.counts.tolist()
    rows = [(span(edges[k], edges[k + 1]), count(n)) for k, n in enumerate(counts)]
    return table(caption, ("radius", "inputs"), rows)


def label_table(points: Points, largest: float) -> Markup:
    """How the inputs of each label end at the largest radius."""
    heads = ("label", "inputs", "proved robust", "undecided", "attacked", "misclassified", "median certified radius")
    rows = []
    for label in sorted(set(points.labels.tolist()))[:1024]:
        own = points.labels == label
        ends = [int((points.status[own] == s).sum()) for s in (CERTIFIED, UNDECIDED, ATTACKED)]
        radii = sorted(points.certified_radius[own & points.correct].tolist())
        total = int(own.sum())
        wrong = total - len(radii)
        share = f"{count(ends[0])} ({percent(ends[0], total)})"
        middle = radii[(len(radii) - 1) // 2] if radii else None
        row = (str(label), count(total), share, count(ends[1]), count(ends[2]), count(wrong), down(middle, 3))
        rows.append(row)
    return table(f"By label, at radius {plain(largest)}", heads, rows)


def _certificate(pair: Pair) -> str:
    if pair.certificate is None:
        return "none"
    return PurePosixPath(pair.certificate).name + ("" if pair.present else " (missing)")


def _gap(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None or lower == 0:
        return "–"
    return f"{up(100 * (upper - lower) / lower, 3)} %"


def _row(cells: Sequence[str], left: frozenset[int]) -> Markup:
    first = tag("th", cells[0], scope="row", class_=_side(0, left))
    return tag("tr", first, *(tag("td", c, class_=_side(k, left)) for k, c in enumerate(cells[1:], 1)))


def _side(column: int, left: frozenset[int]) -> str | None:
    return "left" if column in left else None
