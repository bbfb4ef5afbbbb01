"""The sections of the page, each a function from the job to markup, and their tables."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from lipcert.chart.markup import Markup, tag, together
from lipcert.chart.numbers import count, down, duration, near, percent, plain, several, up
from lipcert.chart.render import inline
from lipcert.files.boundary import clean
from lipcert.report.curves import Histogram, certified_curve, certified_radii, counterexample_radii
from lipcert.report.heatmap import heat_map
from lipcert.report.pictures import galleries
from lipcert.robustness.decision import ATTACKED, CERTIFIED, UNDECIDED
from lipcert.robustness.result import Certification
from lipcert.robustness.stored import StoredJob

_ROWS = 2000  # brackets in one page
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


_DRAWN = 64  # classes up to which a square of the matrix is still seen


def summary(job: StoredJob) -> Markup:
    """The answer in one sentence and four numbers."""
    if job.last is None:
        return tag("p", "No radius has been decided yet.", class_="lead")
    t, n = job.last, job.count
    sentence = (
        f"Of {count(n)} inputs, {count(t.certified)} ({percent(t.certified, n)}) are classified correctly and proved "
        f"to stay so under every change of at most {plain(t.radius)} in the {job.result.norm}-norm. Attacks leave at "
        f"most {percent(job.correct - t.attacked, n, ceiling=True)} possible."
    )
    cards = (
        ("proved robust", t.certified, f"at radius {plain(t.radius)}"),
        ("undecided", t.undecided, "neither proved nor refuted"),
        ("attacked", t.attacked, "a counterexample is known"),
        ("misclassified", job.misclassified, "wrong without any change"),
    )
    items = [
        tag("li", name, tag("strong", count(k)), tag("span", f"{percent(k, n)}, {words}", class_="soft"))
        for name, k, words in cards
    ]
    return together([tag("p", sentence, class_="lead"), tag("ul", *items, class_="cards")])


def asked(job: StoredJob) -> Markup:
    """The question."""
    r, n = job.result, job.result.classes
    region = "not stated" if r.domain is None else f"inputs in [{plain(r.domain[0])}, {plain(r.domain[1])}]"
    region += "; changed inputs stay in it" if r.clip else ""
    radii = ", ".join(plain(radius) for radius in r.radii)
    given = facts(
        (
            ("network", _file(r.network["file"])),
            ("layers", "-".join(map(str, r.network["shape"]))),
            ("content hash", tag("code", r.network["sha256"])),
            ("data", together([_file(r.data.source), f", {count(job.count)} inputs, scale {r.data.scale}"])),
            ("domain", region),
            ("change", f"radius {radii} in the {r.norm}-norm, in the units of the scaled inputs"),
            ("method", r.method),
            ("classes", f"{n}, {several(n * (n - 1) // 2, 'pair')} of scores"),
            *([("on their own", f"{several(job.refined, 'open input')} looked at")] if job.refined else []),
            ("time", duration(r.seconds)),
            ("version", f"lipcert {job.version}"),
            *(("note", note) for note in r.notes),
        )
    )
    words = (
        "An input is proved robust at radius ε when its label keeps the largest score under every change of norm at "
        "most ε, whatever the change. With shared constants the proof is: for every label i other than the input's "
        "label r, score i minus score r, plus ε times the proved Lipschitz constant of that difference, is below 0."
    )
    whole = clean(json.dumps(job.question, indent=2, ensure_ascii=False))
    details = tag("details", tag("summary", "The question as it was stored"), tag("pre", whole))
    return together([tag("p", words), given, details])


def _file(name: str | None) -> Markup:
    return tag("code", name) if name is not None else tag("span", "from memory, no file")


def curve_section(job: StoredJob) -> Markup:
    """The curve beside its numbers."""
    drawing = certified_curve(job)
    if drawing is None:
        return tag("p", "No curve yet: no radius has been decided.")
    return tag("div", tag("figure", inline(drawing)), radius_table(job), class_="two table")


def constants_section(job: StoredJob) -> Markup:
    """The matrix and the brackets."""
    words = tag(
        "p",
        "The constant of a pair bounds how fast the difference of two scores can change, per unit of change of the "
        "input. The upper bound is proved; the lower one is a gradient that the network has at a point of the region.",
    )
    if not job.result.pairs:
        return together([words, tag("p", "No constant is finished yet.")])
    drawing = heat_map(job.result) if 3 <= job.result.classes <= _DRAWN else None
    if drawing is None:
        return together([words, bracket_table(job)])  # one constant needs no matrix, and very many have no room in it
    note = "Proved upper bounds, rounded up; darker is larger. A hatched square with ? has no proved constant."
    figure = tag("figure", inline(drawing), tag("figcaption", note))
    return together([words, tag("div", figure, bracket_table(job), class_="two table")])


def radii_section(job: StoredJob) -> Markup:
    """Histograms of certified radii and of counterexamples, and the labels one by one."""
    result = job.result
    certified, attacked = certified_radii(result), counterexample_radii(result)
    if certified is None:
        return tag("p", "No radii yet.")
    note = f"The {count(sum(certified.counts))} correctly classified inputs."
    end = certified.edges[-1]
    full = int((result.certified_radius[~result.wrong] >= end).sum())
    if full and end == result.radii[-1]:
        note += f" {count(full)} of them reach {plain(end)}, the end of the axis."
    figures = [_radii_figure(certified, note)]
    if attacked is not None:
        found = f"{count(sum(attacked.counts))} correctly classified inputs for which an attack found one."
        figures.append(_radii_figure(attacked, found))
    return together([tag("div", *figures, class_="two"), tag("h3", "Label by label"), label_table(result)])


def _radii_figure(histogram: Histogram, note: str) -> Markup:
    rows = [(words, count(n)) for words, n in histogram.rows]
    numbers = tag("details", tag("summary", "The numbers"), table(histogram.title, ("radius", "inputs"), rows))
    drawing = inline(histogram.drawing())
    return tag("figure", tag("h3", histogram.title), drawing, tag("figcaption", note), numbers)


def inputs_section(job: StoredJob) -> Markup:
    """The galleries."""
    shown = galleries(job.result)
    if shown is None:
        return tag("p", "The inputs of this job are not pictures, or were not kept.")
    radius = f"Status at radius {plain(job.result.radii[-1])}. "
    words = "“Proved to” is the certified radius, rounded down; “refuted at” the size of the smallest counterexample."
    return together([tag("p", radius + words, class_="soft"), shown])


def verify_section(job: StoredJob) -> Markup:
    """The commands with which a reader checks everything."""
    file = job.result.network["file"]
    network = "NETWORK" if file is None else shlex.quote(file)
    kept = [p.certificate for p in job.result.pairs if p.certificate is not None]
    if not kept:
        return tag("p", "This job kept no certificates.")
    one = f"lipcert verify {shlex.quote(kept[0])} --network {network}"
    every = f"lipcert verify . --network {network} --data DATA"
    steps = (
        ("Check that you have the same network; its content hash is above:", tag("pre", f"lipcert info {network}")),
        ("In the folder of the job, with the network there or its full path, check one constant:", tag("pre", one)),
        (f"Or everything, {len(kept)} constants, every input and every counterexample:", tag("pre", every)),
    )
    words = (
        "Every upper bound has a certificate: the multipliers of its proof. Checking one needs the network and no "
        "solver; the bound is computed again from the file, rounded outward, and compared with the claim."
    )
    last = (
        "Given the constants, the decision for an input is the inequality under “What was asked”. An input that needed "
        "a bound of its own has a certificate too, of the margins on its own box. Network and data may be left out "
        "where they still are in the files that the job read."
    )
    items = tag("ol", *(tag("li", *parts) for parts in steps))
    return together([tag("p", words), items, tag("p", last)])


def failures(job: StoredJob) -> Markup:
    """The failures, piece by piece."""
    return tag("ul", *(tag("li", tag("code", name), f": {error}") for name, error in job.result.failed))
