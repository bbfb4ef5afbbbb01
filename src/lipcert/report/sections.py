"""The sections of the page, each a function from the job to markup."""

from __future__ import annotations

import json
import shlex

from lipcert.chart.markup import Markup, tag, together
from lipcert.chart.numbers import count, duration, percent, plain, several
from lipcert.chart.svg import inline
from lipcert.files.boundary import clean
from lipcert.report.curve import certified_curve
from lipcert.report.heatmap import heat_map
from lipcert.report.histogram import Histogram, certified_radii, counterexample_radii
from lipcert.report.pictures import galleries
from lipcert.report.tables import bracket_table, facts, label_table, radius_table, table
from lipcert.robustness.stored import StoredJob

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
    """What a reader who trusts nobody runs."""
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
    """What went wrong, piece by piece."""
    return tag("ul", *(tag("li", tag("code", name), f": {error}") for name, error in job.result.failed))
