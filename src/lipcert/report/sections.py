"""The sections of the page, each a function from the job to markup."""

from __future__ import annotations

import json
import shlex

import numpy as np
from numpy.typing import NDArray

from lipcert.report.curve import LEGEND, certified_curve, swatch
from lipcert.report.figures import count, duration, percent, plain, several
from lipcert.report.gallery import galleries
from lipcert.report.heatmap import heat_map
from lipcert.report.histogram import bins_of, histogram
from lipcert.report.job import Job, Points
from lipcert.report.markup import Markup, clean, tag, together
from lipcert.report.tables import bins_table, bracket_table, facts, label_table, radius_table


def summary(job: Job) -> Markup:
    """The answer in one sentence and four numbers."""
    if job.last is None:
        return tag("p", "No radius has been decided yet.", class_="lead")
    t, n = job.last, job.count
    sentence = (
        f"Of {count(n)} inputs, {count(t.certified)} ({percent(t.certified, n)}) are classified correctly and proved "
        f"to stay so under every change of at most {plain(t.radius)} in the {job.norm}-norm. Attacks leave at most "
        f"{percent(job.correct - t.attacked, n, ceiling=True)} possible."
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


def asked(job: Job) -> Markup:
    """The question."""
    region = "not stated" if job.domain is None else f"inputs in [{plain(job.domain[0])}, {plain(job.domain[1])}]"
    region += "; changed inputs stay in it" if job.clip else ""
    radii = ", ".join(plain(r) for r in job.radii)
    given = facts(
        (
            ("network", _file(job.network)),
            ("layers", "-".join(map(str, job.shape))),
            ("content hash", tag("code", job.sha256)),
            ("data", together([_file(job.data), f", {count(job.count)} inputs, scale {job.scale}"])),
            ("domain", region),
            ("change", f"radius {radii or 'not given'} in the {job.norm}-norm, in the units of the scaled inputs"),
            ("method", job.method),
            ("classes", f"{job.classes}, {several(job.expected_pairs, 'pair')} of scores"),
            *([("on their own", f"{several(job.refined, 'open input')} looked at")] if job.refined else []),
            ("time", duration(job.seconds)),
            ("version", f"lipcert {job.version}"),
            *(("note", note) for note in job.notes),
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


def curve_section(job: Job) -> Markup:
    """The curve beside its numbers."""
    drawing = certified_curve(job)
    if drawing is None:
        return tag("p", "No curve yet: no radius has been decided.")
    legend = tag("ul", *(tag("li", swatch(kind), words) for kind, words in LEGEND), class_="legend")
    return tag("div", tag("figure", drawing, legend), radius_table(job), class_="two table")


def constants_section(job: Job) -> Markup:
    """The matrix and the brackets."""
    words = tag(
        "p",
        "The constant of a pair bounds how fast the difference of two scores can change, per unit of change of the "
        "input. The upper bound is proved; the lower one is a gradient that the network has at a point of the region.",
    )
    if not job.pairs:
        return together([words, tag("p", "No constant is finished yet.")])
    drawing = heat_map(job)
    if drawing is None:
        return together([words, bracket_table(job)])  # two classes, or more than a drawing holds
    note = "Proved upper bounds, rounded up; darker is larger. A hatched cell with ? has no proved constant."
    figure = tag("figure", drawing, tag("figcaption", note))
    return together([words, tag("div", figure, bracket_table(job), class_="two table")])


def radii_section(job: Job) -> Markup:
    """Histograms of certified radii and of counterexamples, and the labels one by one."""
    points = job.points
    if points is None or not np.any(points.correct):
        return tag("p", "No radii yet.")
    largest = max(job.radii, default=0.0)
    certified = points.certified_radius[points.correct]
    top = max(largest, float(certified[np.isfinite(certified)].max(initial=0.0))) or 1.0
    figures = [_radii_figure(job, points, top)]
    attacked = points.attack_radius[points.correct & np.isfinite(points.attack_radius)]
    if attacked.size:
        figures.append(_attack_figure(job, attacked.astype(np.float64), max(top, float(attacked.max()))))
    return together([tag("div", *figures, class_="two"), tag("h3", "Label by label"), label_table(points, largest)])


def _radii_figure(job: Job, points: Points, top: float) -> Markup:
    radii = points.certified_radius[points.correct]
    bins = bins_of(np.minimum(radii, top), top)
    title = "Certified radii"
    largest = max(job.radii, default=0.0)
    drawing = histogram("radii", title, bins, f"certified radius, {job.norm}-norm", largest)
    full = int((radii >= top).sum())
    note = f"The {count(radii.size)} correctly classified inputs."
    if full and top == largest:
        note += f" {count(full)} of them reach {plain(top)}, the end of the axis."
    numbers = tag("details", tag("summary", "The numbers"), bins_table(title, bins))
    return tag("figure", tag("h3", title), drawing, tag("figcaption", note), numbers)


def _attack_figure(job: Job, radii: NDArray[np.float64], top: float) -> Markup:
    bins = bins_of(radii, top)
    title = "Smallest known counterexamples"
    drawing = histogram(
        "attacks",
        title,
        bins,
        f"radius of the counterexample, {job.norm}-norm",
        max(job.radii, default=0.0),
        hatched=True,
    )
    note = f"{count(radii.size)} correctly classified inputs for which an attack found one."
    numbers = tag("details", tag("summary", "The numbers"), bins_table(title, bins))
    return tag("figure", tag("h3", title), drawing, tag("figcaption", note), numbers)


def inputs_section(job: Job) -> Markup:
    """The galleries."""
    shown = galleries(job)
    if shown is None:
        return tag("p", "The inputs of this job are not pictures, or were not kept.")
    radius = f"Status at radius {plain(max(job.radii, default=0.0))}. "
    words = "“Proved to” is the certified radius, rounded down; “refuted at” the size of the smallest counterexample."
    return together([tag("p", radius + words, class_="soft"), shown])


def verify_section(job: Job) -> Markup:
    """What a reader who trusts nobody runs."""
    network = "NETWORK" if job.network is None else shlex.quote(job.network)
    kept = [p.certificate for p in job.pairs if p.certificate is not None]
    if not kept:
        return tag("p", "This job kept no certificates.")
    one = f"lipcert verify {shlex.quote(kept[0])} --network {network}"
    every = f'for c in pieces/pair-*.npz; do lipcert verify "$c" --network {network} || echo "NOT PROVED: $c"; done'
    steps = (
        ("Check that you have the same network; its content hash is above:", tag("pre", f"lipcert info {network}")),
        ("In the folder of the job, with the network there or its full path, check one constant:", tag("pre", one)),
        (f"Or all {len(kept)}:", tag("pre", every)),
    )
    words = (
        "Every upper bound has a certificate: the multipliers of its proof. Checking one needs the network and no "
        "solver; the bound is computed again from the file, rounded outward, and compared with the claim."
    )
    last = (
        "Given the constants, the decision for an input is the inequality under “What was asked”. An input that needed "
        "a bound of its own is proved by the run that found it, not by these certificates."
    )
    items = tag("ol", *(tag("li", *parts) for parts in steps))
    return together([tag("p", words), items, tag("p", last)])


def failures(job: Job) -> Markup:
    """What went wrong, piece by piece."""
    return tag("ul", *(tag("li", tag("code", name), f": {error}") for name, error in job.failed))
