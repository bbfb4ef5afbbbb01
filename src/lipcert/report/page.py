"""The page: one file, no script, no request to anywhere (a policy in the page forbids them).

It has one column on a phone, two on a desk; it is black on white on paper, and light on dark where preferred.
"""

from __future__ import annotations

from pathlib import PurePath

from lipcert.chart.markup import Markup, tag, void
from lipcert.chart.numbers import several
from lipcert.chart.shapes import PALETTE
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
from lipcert.robustness.result import PREDICTED
from lipcert.robustness.stored import StoredJob

_LIGHT = "".join(f"--{name}: {colour}; " for name, colour in PALETTE.items())
STYLE = (
    f":root {{ color-scheme: light dark; {_LIGHT}--warn: #fff3d6; --warn-line: #b07d00; }}"
    + """
@media (prefers-color-scheme: dark) { :root { --paper: #12171e; --ink: #e6eaf0; --soft: #a4afbd; --line: #343d49;
  --panel: #1b222c; --proof: #7db4f0; --proof-area: #24466b; --attack: #f0935f; --warn: #3a2f10; --warn-line: #d9a520;
  --hatch: #7a8694; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.25rem 0 .5rem; }
p { margin: .5rem 0; max-width: 46rem; }
.lead { font-size: 1.1rem; }
.soft, figcaption { color: var(--soft); font-size: .9rem; }
.notice { background: var(--warn); border-left: 5px solid var(--warn-line); padding: .6rem .9rem; margin: 1rem 0; }
.notice ul { margin: .3rem 0; padding-left: 1.2rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1rem 0;
  padding: 0; list-style: none; }
.cards li { background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem; }
.cards strong { display: block; font-size: 1.5rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.two { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1.5rem; align-items: start; }
@media (min-width: 56rem) { .two { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); }
  .two.table { grid-template-columns: minmax(0, 5fr) minmax(0, 6fr); } }
figure { margin: 0; }
.chart { display: block; width: 100%; height: auto; max-width: 36rem; }
.chart text { fill: var(--ink); font-size: 13px; font-family: inherit; font-variant-numeric: tabular-nums;
  pointer-events: none; }
.scroll { overflow: auto; max-height: 30rem; border: 1px solid var(--line); border-radius: .3rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; overflow-wrap: normal; }
thead th { position: sticky; top: 0; background: var(--panel); white-space: normal; overflow-wrap: normal; }
tbody th { position: sticky; left: 0; background: var(--paper); }
@media (max-width: 30rem) { table { font-size: .8rem; } th, td { padding: .25rem .3rem; }
  .narrow td { white-space: normal; } }
.left { text-align: left; }
dl { display: grid; grid-template-columns: minmax(6.5rem, max-content) minmax(0, 1fr); gap: .3rem 1rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .88rem; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: .3rem; padding: .6rem .8rem;
  margin: .5rem 0; white-space: pre-wrap; }
details { margin: .75rem 0; } summary { cursor: pointer; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(7.4rem, 1fr)); gap: .75rem; padding: 0;
  list-style: none; }
.gallery.pairs { grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); }
@media (max-width: 30rem) { .gallery { grid-template-columns: repeat(auto-fill, minmax(6.2rem, 1fr)); } }
.gallery .pictures { display: flex; gap: .3rem; }
.gallery img { flex: 1 1 0; width: 100%; min-width: 0; max-width: 9rem; height: auto; image-rendering: pixelated;
  border: 1px solid var(--line); }
.gallery figcaption { font-size: .8rem; line-height: 1.35; }
footer { margin: 2.5rem 0 1rem; padding-top: .75rem; border-top: 1px solid var(--line); }
@media print { :root { --paper: #fff; --ink: #000; --soft: #333; --panel: #f4f4f4; --line: #bbb; --proof: #1f5fa8;
    --proof-area: #cfe0f3; --attack: #a8430f; --warn: #fff; --hatch: #777; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  .scroll { max-height: none; overflow: visible; border: 0; } th { position: static !important; }
  figure, .cards li, tr, .gallery li { break-inside: avoid; } h2, h3 { break-after: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""
)


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
    """The warnings that a reader needs before any number."""
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
