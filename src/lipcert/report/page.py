"""The page: one file, no script, no request to anywhere (a policy in the page forbids them)."""

from __future__ import annotations

from pathlib import PurePath

from lipcert.chart.markup import Markup, tag, void
from lipcert.chart.numbers import several
from lipcert.files.boundary import clean
from lipcert.report.sections import (
    asked,
    constants_section,
    curve_section,
    failures,
    inputs_section,
    radii_section,
    summary,
    verify_section,
)
from lipcert.report.style import STYLE
from lipcert.robustness.result import PREDICTED
from lipcert.robustness.stored import StoredJob

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(job: StoredJob) -> str:
    """The whole report as HTML."""
    result = job.result
    title = f"Robustness of {_name(result.network['file'], 'a network')} on {_name(result.data.source, 'a data set')}"
    head = tag(
        "head",
        void("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="generator", content=f"lipcert {job.version}"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    body = tag("body", tag("header", tag("h1", title), _notices(job), summary(job)), _main(job), _footer(job))
    return "<!DOCTYPE html>\n" + tag("html", head, "\n", body, lang="en") + "\n"


def _main(job: StoredJob) -> Markup:
    sections = [
        ("asked", "What was asked", asked(job)),
        ("curve", "Proved robust, against the radius", curve_section(job)),
        ("constants", "Lipschitz constants", constants_section(job)),
        ("radii", "Radii of single inputs", radii_section(job)),
        ("inputs", "Inputs", inputs_section(job)),
        ("verify", "How to verify the certificates", verify_section(job)),
    ]
    if job.result.failed:
        sections.append(("failed", "What failed", failures(job)))
    return tag(
        "main",
        *(
            tag("section", tag("h2", title, id=f"{name}-head"), content, aria_labelledby=f"{name}-head")
            for name, title, content in sections
        ),
    )


def notices(job: StoredJob) -> list[str]:
    """What a reader must know before any number."""
    result = job.result
    found = [] if result.complete else ["The job has not finished. This page shows what there is so far."]
    if PREDICTED in result.notes:
        found.append(f"{PREDICTED[0].upper()}{PREDICTED[1:]}.")
    proved, expected = sum(p.upper is not None for p in result.pairs), result.classes * (result.classes - 1) // 2
    if proved < expected:
        found.append(f"{proved} of {several(expected, 'constant')} proved.")
    if result.failed:
        found.append(f"{several(len(result.failed), 'failure')}, listed at the end.")
    absent = sum(p.certificate is not None and not job.keeps(p.certificate) for p in result.pairs)
    if absent:
        found.append(f"{several(absent, 'certificate')} no longer in the folder.")
    if not job.has_inputs:
        found.append("The results of single inputs are not here: no curve by input, no radii, no pictures.")
    elif not job.agrees:
        found.append("The table of radii and the results of single inputs do not agree; run the job again.")
    return found


def _notices(job: StoredJob) -> Markup:
    found = notices(job)
    if not found:
        return Markup("")
    head = "Please note" if job.result.complete else "Incomplete"
    return tag("div", tag("strong", head), tag("ul", *(tag("li", n) for n in found)), class_="notice", role="note")


def _footer(job: StoredJob) -> Markup:
    made = f"Made by lipcert report from the job folder {clean(job.folder.resolve().name)}"
    return tag("footer", f"{made}; computed with lipcert {job.version}.", class_="soft")


def _name(path: str | None, instead: str) -> str:
    return instead if path is None else PurePath(path).name or path
