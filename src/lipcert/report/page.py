"""The page: one file, no script, no request to anywhere (a policy in the page forbids them)."""

from __future__ import annotations

from pathlib import PurePath

from lipcert.report.job import Job
from lipcert.report.markup import Markup, clean, tag, together, void
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

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(job: Job) -> str:
    """The whole report as HTML."""
    title = f"Robustness of {_name(job.network, 'a network')} on {_name(job.data, 'a data set')}"
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


def _main(job: Job) -> Markup:
    sections = [
        ("asked", "What was asked", asked(job)),
        ("curve", "Proved robust, against the radius", curve_section(job)),
        ("constants", "Lipschitz constants", constants_section(job)),
        ("radii", "Radii of single inputs", radii_section(job)),
        ("inputs", "Inputs", inputs_section(job)),
        ("verify", "How to verify the certificates", verify_section(job)),
    ]
    if job.failed:
        sections.append(("failed", "What failed", failures(job)))
    return tag(
        "main",
        *(
            tag("section", tag("h2", title, id=f"{name}-head"), content, aria_labelledby=f"{name}-head")
            for name, title, content in sections
        ),
    )


def _notices(job: Job) -> Markup:
    notices = job.notices
    if not notices:
        return Markup("")
    head = "Incomplete" if not job.complete else "Please note"
    return tag("div", tag("strong", head), tag("ul", *(tag("li", n) for n in notices)), class_="notice", role="note")


def _footer(job: Job) -> Markup:
    made = f"Made by lipcert report from the job folder {clean(job.folder.resolve().name)}; computed with lipcert "
    return tag("footer", together([f"{made}{job.version}."]), class_="soft")


def _name(path: str | None, instead: str) -> str:
    return instead if path is None else PurePath(path).name or path
