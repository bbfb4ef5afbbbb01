"""The page of the results, its pictures, and the tables that other pages quote: all made of rows, nothing by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks._measure import ROOT
from benchmarks._rows import Row, Setting, latest
from benchmarks.results import _pictures, _tables

HEAD = """# Results

This page is generated: `make results` measures, `python -m benchmarks.results page` writes it from the rows in
[results/](results) (one JSON object a line). Every bracket is made with counted work (`bound(work=...)`), so that the
same commit on the same machine gives the same digits; seconds depend on the machine and on what else runs on it, and do
not count starting Python and loading modules. An upper bound is proved, and its certificate was verified again where
the table says so. A peer's number is what its program or formula returned, without a proof of rounding."""

QUOTE = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


@dataclass(frozen=True)
class Section:
    """A part of the page: its key is the section of its rows. A picture may use rows of others too."""

    key: str
    title: str
    text: str
    table: Callable[[Sequence[Row]], str]
    picture: Callable[[Sequence[Row]], str] | None = None


SECTIONS = (
    Section("start", "Starting", "Fresh processes, median of five; the last is one run.", _tables.start),
    Section(
        "first",
        "First bounds by cheap methods",
        "Upper bound and processor seconds, without a search for a lower bound; `slopes` with counted work up to 5.",
        _tables.first,
    ),
    Section(
        "relaxations",
        "Relaxations",
        "Each without a lower bound of its own; `search` is the lower bound that they are held against. `tight` is "
        "ended by its counted work.",
        _tables.relaxations,
        _pictures.relaxations,
    ),
    Section(
        "tightness",
        "Where the constant is known",
        "The paper's networks (10,10), s = 20, with their exact constants by enumeration of all sign patterns.",
        _tables.tightness,
    ),
    Section(
        "exact",
        "Branch and bound to the end",
        "These end by themselves, or at the gap that they were given.",
        _tables.brackets,
    ),
    Section(
        "anytime",
        "The bracket against time",
        "`auto` with counted work up to 60, told against the wall clock of that one run.",
        _tables.anytime,
        _pictures.anytime,
    ),
    Section(
        "turns",
        "auto beside single methods",
        "`python -m benchmarks.turns`: `auto` and single methods that cover the question, each once with a limit "
        "of time, so that another run may differ. The upper bound of `auto` over the smallest of theirs at the same "
        "time (above 1: `auto` is behind), and its witness over their largest (below 1: behind); means are geometric. "
        "A single method that is given longer may plan otherwise than one that is given less. Constants of `auto` are "
        "chosen on half A of the questions.",
        _tables.turns,
    ),
    Section("norms", "Other norms, regions and whole maps", "", _tables.brackets),
    Section(
        "directions",
        "Published values of two hidden layers",
        "Published HR-1 (and a series HRs2), its program with two ranges of t (not bounds), and the constant: by "
        "`auto`, by sampling at the paper's own points, or the smallest of 200,000 gradients in a cube around the box.",
        _tables.directions,
    ),
    Section(
        "depth",
        "Depth",
        "Whole maps from norm 2 to norm 2 on the whole space. `slopes` has one multiplier for every neuron. "
        "ECLipsE-Fast's closed form is evaluated in plain floating point. Networks: `benchmarks/_random_chains.py`.",
        _tables.depth,
    ),
    Section(
        "growth",
        "How cost grows with neurons and depth",
        "`backward` without a lower bound, He-normal networks with 30 inputs, a box of radius 0.1.",
        _tables.growth,
        _pictures.growth,
    ),
    Section(
        "scale",
        "From a thousand neurons on",
        "Random residual networks (`benchmarks/_residual_networks.py`), 3 x 8 x 8 to 3 x 32 x 32 inputs, a "
        "box of radius 0.0001, one score, `auto` with counted work up to 30. Processor seconds; memory is "
        "that of the whole process before it verifies.",
        _tables.scale,
        _pictures.scale,
    ),
    Section("large", "Networks too large for one matrix", "`auto` with counted work up to 300.", _tables.brackets),
    Section(
        "peers",
        "Beside other methods",
        "`python -m benchmarks.peers`: the same question in the same process. ECLipsE of its package, LipSDP-Neuron's "
        "and GeoLIP's programs by SCS, CSDP on the rows of `hr2` or `backward`, auto_LiRPA's bounds of Jacobians.",
        _tables.peers,
    ),
    Section("limits", "Limits of time", "`auto` with a limit of time: brackets are not repeatable.", _tables.limits),
    Section("reading", "Reading", "One read, after another file was read in the same process.", _tables.reading),
    Section(
        "certification",
        "A certified data set",
        "The digits that ship with the package, one constant for every pair of classes.",
        _tables.certification,
    ),
    Section(
        "polynomial",
        "Polynomial problems",
        "Problems with known optima (`tests/polynomial_problems.py` names the sources).",
        _tables.polynomial,
    ),
    Section("partition", "Cells", "Constants on all cells of a box of radius 1, output 0.", _tables.partition),
)
PICTURES = "images"
FRONT = "bracket.svg"


@dataclass(frozen=True)
class Page:
    """The page's text, and every picture by its file name."""

    text: str
    pictures: dict[str, str]
    quotes: dict[str, str]


def make_page(rows: Sequence[Row]) -> Page:
    """All of it from rows, in memory; the same rows give the same page."""
    kept = latest(rows)
    good = [row for row in kept if row.counts]
    parts, pictures, quotes = [HEAD, _settings(good)], {}, {}
    for section in SECTIONS:
        own = [row for row in good if row.section == section.key]
        if not own:
            continue
        quotes[section.key] = section.table(own)
        parts += [f"## {section.title}", section.text]
        if section.picture is not None:
            name = f"results-{section.key}.svg"
            pictures[name] = section.picture(good)
            parts.append(f"![{section.title}]({PICTURES}/{name})")
        parts.append(quotes[section.key])
    quotes["verification"] = _tables.verification(good)
    parts += ["## Verifying", "All certificates of the tables above.", quotes["verification"]]
    if left := [row for row in kept if not row.counts]:
        parts += ["## Not measured", _tables.missing(left)]
    pictures[FRONT] = _pictures.front(good)
    return Page("\n\n".join(part for part in parts if part) + "\n", pictures, quotes)


def _settings(rows: Sequence[Row]) -> str:
    """Which code and which machine, with the loads that tell whether it was quiet."""
    by_setting: dict[Setting, list[Row]] = {}
    for row in rows:
        by_setting.setdefault(row.setting, []).append(row)
    lines = []
    for s, own in by_setting.items():
        loads = [load for row in own for load in (row.load_before, row.load_after)]
        days = sorted(row.when[:10] for row in own)
        lines.append(
            (
                f"{s.version}, {s.commit or 'no commit'}",
                f"{days[0]}" if days[0] == days[-1] else f"{days[0]} to {days[-1]}",
                f"{s.processor}, {s.cores} cores",
                f"Python {s.python}, numpy {s.numpy}, scipy {s.scipy}, {s.blas}, {s.threads} BLAS thread(s)",
                f"{min(loads):.1f} to {max(loads):.1f}",
                f"{len(own)}",
            )
        )
    head = ("lipcert, commit", "day", "machine", "software", "load average", "rows")
    return _tables.table(head, lines) + "\n\n" + _quiet(rows)


def _quiet(rows: Sequence[Row]) -> str:
    """A run alone has a load of about one: more says that wall times are longer than they need be."""
    busy = [row for row in rows if max(row.load_before, row.load_after) > 0.75 * row.setting.cores + 0.5]
    if not busy:
        return "The machine had nothing else to do."
    return f"Of {len(rows)} rows {len(busy)} were measured while other programs ran: their wall times are upper limits."


def quoted(text: str, quotes: dict[str, str]) -> str:
    """A page with its quoted tables up to date; a table without rows says so."""

    def fill(match: re.Match[str]) -> str:
        told = quotes.get(match[2]) or "(not measured yet: `make results`)"
        return f"{match[1]}{told}\n{match[3]}"

    return QUOTE.sub(fill, text)


def quoting_pages(root: Path = ROOT) -> list[Path]:
    """README and the pages of docs that quote a table."""
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    return [page for page in pages if page.exists() and QUOTE.search(page.read_text(encoding="utf-8"))]


def write_page(path: Path, rows: Sequence[Row]) -> None:
    """The page, its pictures beside it, and, for the page of the project, the quotes in the others."""
    page = make_page(rows)
    (path.parent / PICTURES).mkdir(parents=True, exist_ok=True)
    path.write_text(page.text, encoding="utf-8")
    for name, picture in page.pictures.items():
        (path.parent / PICTURES / name).write_text(picture, encoding="utf-8")
    if path.resolve() == (ROOT / "docs" / "results.md").resolve():
        for other in quoting_pages():
            other.write_text(quoted(other.read_text(encoding="utf-8"), page.quotes), encoding="utf-8")
