"""The reports on trained networks: Tables 2, 3, 4 and the matrix of constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from lipcert.paper import spheres
from lipcert.paper.cells import HR2, LBS, OURS, REGIONS, Cell, Given
from lipcert.paper.faults import BELOW_LOWER, OTHER_NETWORK, OTHER_POINTS, REFUTED
from lipcert.paper.outcomes import Findings, Found
from lipcert.paper.plot import Panel, Series, drawing
from lipcert.paper.published import EPSILONS, MATRIX, TABLE2, TABLE2_NETWORK, TABLE4
from lipcert.paper.report import Report, Text, number, records, seconds, table
from lipcert.paper.statistics import Quartiles, lower_bounds_than_ours
from lipcert.robustness.result import Certification

_PRINTED = 5e-3 + 1e-2  # two decimals, and a hundredth for solvers


@dataclass(frozen=True)
class Table2Record:
    """A line of table2.csv; `upper` is proved also where the method was stopped and has no value."""

    region: str
    method: str
    value: float | None
    upper: float | None
    lower: float | None
    word: str
    seconds: float | None
    published: float | str | None
    ratio: float | None
    published_seconds: float | str | None
    remarks: str


def table2_report(cells: Sequence[Cell], findings: Findings, about: str) -> Report:
    """One score of a (784,500) network, on a large and on a small box."""
    network = cells[0].network
    paper = isinstance(network, Given) and network.network.sha256 == TABLE2_NETWORK
    title = "Table 2: one score of a trained (784,500) network"
    found = [_table2_record(findings[c], findings, paper) for c in cells]
    heads = ("region", "method", "bound", "time", "published", "ratio", "published time", "remarks")
    shown = [_table2_words(r) for r in found]
    text = [f"# {title}\n", f"![{title}](table2.svg)\n", f"{about}\n", _same_network(paper), table(heads, shown)]
    panels = [_table2_panel(region, [r for r in found if r.region == region]) for region in REGIONS]
    good = [r for r in found if r.ratio is not None and isinstance(r.published, float)]
    agree = sum(abs((r.value or 0) - float(r.published or 0)) <= _PRINTED for r in good)
    explained = sum(abs((r.value or 0) - float(r.published or 0)) > _PRINTED and bool(r.remarks) for r in good)
    note = f"{agree} of {len(good)} printed numbers agree, {explained} explained"
    note = note if paper else "another network than the paper's"
    return Report("table2", "\n".join(text), (("table2", records(found)),), drawing(title, panels), (note,))


def _table2_record(found: Found, findings: Findings, paper: bool) -> Table2Record:
    cell = found.cell
    value, time = TABLE2[cell.region].get(cell.method, (None, None))
    ratio = found.value / value if paper and found.value is not None and isinstance(value, float) else None
    remarks = []
    if cell.method == OURS:
        remarks += [f"NOT LOWEST: {name} is lower" for name in lower_bounds_than_ours(found, findings)]
    lower = findings.lower(cell)
    if cell.method == LBS and ratio is not None and abs(ratio - 1) > 1e-3:
        remarks.append(OTHER_POINTS)
    if (cell.method, cell.region) == (HR2, "global"):
        beaten = paper and lower is not None and isinstance(value, float) and value < lower
        remarks.append(f"{BELOW_LOWER}: {lower:.4f}" if beaten else REFUTED)
    took = None if found.estimate is None else found.estimate.seconds
    own = (found.value, found.upper, found.lower, found.word, took)
    return Table2Record(cell.region, cell.method, *own, value, ratio, time, "; ".join(remarks))


def _table2_words(r: Table2Record) -> tuple[str, ...]:
    """For a method that was stopped, the word and what it had proved."""
    bound = number(r.value)
    if r.value is None:
        bound = r.word if r.upper is None else f"{r.word}: at most {number(r.upper)}"
    told = (number(r.published, 2), number(r.ratio), seconds(r.published_seconds))
    return (r.region, r.method, bound, seconds(r.seconds), *told, r.remarks or "-")


def _same_network(paper: bool) -> str:
    if paper:
        return "The weights are those of the paper, so the columns compare.\n"
    return "The published column is the paper's; this is another network. Give the paper's with --weights to compare.\n"


def _table2_panel(region: str, found: Sequence[Table2Record]) -> Panel:
    names = tuple(r.method for r in found)
    ours = tuple((float(k), _point(r.value)) for k, r in enumerate(found) if r.value is not None)
    told = tuple((float(k), _point(r.published)) for k, r in enumerate(found) if isinstance(r.published, float))
    title = f"{region} (radius {'10' if region == 'global' else '0.1'})"
    return Panel(
        title, "method", "Lipschitz constant", (Series("computed", ours), Series("published", told)), names=names
    )


def _point(value: float) -> Quartiles:
    return Quartiles(value, value, value)


def table3_report(cells: Sequence[Cell], findings: Findings, shares: Mapping[str, Any], accuracy: float) -> Report:
    """% of points that one constant certifies, at ten epsilons."""
    title = "Table 3: certified points of the binary task, (80,80)"
    points = int(shares["points"])
    rows: list[tuple[str, Sequence[float]]] = []
    for place, words in (("box", f"{points:,} points of the box"), ("task", "4,000 points of the task")):
        rows += [(f"{words}, {method}", values) for method, values in shares[place].items()]
    rows += [(f"published, {method}", values) for method, values in spheres.PUBLISHED.items()]
    constants = [
        (
            f.cell.method,
            number(f.value) if f.value is not None else f.word,
            seconds(f.estimate.seconds if f.estimate else None),
        )
        for f in (findings[c] for c in cells)
    ]
    lines: list[tuple[Text, ...]] = [("points", *EPSILONS)]
    lines += [(name, *values) for name, values in rows]
    text = [
        f"# {title}\n",
        f"![{title}](table3.svg)\n",
        f"The classifier is trained here ({100 * accuracy:.2f} % of fresh points are right): {OTHER_NETWORK}. "
        "Points of the box lie far outside both spheres, where a well-trained network is sure; the task's own points "
        "are harder.\n",
        table(("method", "constant on [-3, 3]^80", "time"), constants),
        table(
            ("% certified at", *(f"{e:g}" for e in EPSILONS)),
            [(name, *(f"{v:.2f}" for v in values)) for name, values in rows],
        ),
    ]
    panels = [
        _share_panel("the task's own points", [(m, v) for m, v in shares["task"].items()]),
        _share_panel(
            "points of the box, and published", [*shares["box"].items(), ("published", spheres.PUBLISHED[HR2])]
        ),
    ]
    return Report("table3", "\n".join(text), (("table3", tuple(lines)),), drawing(title, panels), (OTHER_NETWORK,))


def _share_panel(title: str, rows: Sequence[tuple[str, Sequence[float]]]) -> Panel:
    series = tuple(
        Series(name, tuple((e, _point(v)) for e, v in zip(EPSILONS, values, strict=True))) for name, values in rows
    )
    return Panel(title, "epsilon (infinity norm)", "certified (% of points)", series)


def table4_report(result: Certification, about: str) -> Report:
    """% of images that the 45 constants certify, at ten epsilons."""
    title = "Table 4: certified images, 45 constants"
    total = len(result.labels)
    shares = [100 * result.counts(e)["certified"] / total for e in EPSILONS]
    right = 100 * (total - int(result.wrong.sum())) / total
    lines: list[tuple[Text, ...]] = [("epsilon", "certified_percent", "published_percent", "ratio")]
    lines += [(e, s, p, s / p) for e, s, p in zip(EPSILONS, shares, TABLE4, strict=True)]
    text = [
        f"# {title}\n",
        f"![{title}](table4.svg)\n",
        f"{about} {right:.2f} % of its {total:,} images are classified correctly; an image counts as certified when it "
        f"is correct and keeps its class. Constants by `{result.method}`. The published column: {OTHER_NETWORK}.\n",
        table(
            ("epsilon", "certified %", "published %", "ratio"),
            [
                (f"{e:g}", f"{s:.2f}", f"{p:.2f}", f"{s / p:.4f}")
                for e, s, p in zip(EPSILONS, shares, TABLE4, strict=True)
            ],
        ),
    ]
    panel = _share_panel("share of the images", [(OURS, shares), ("published", TABLE4)])
    return Report("table4", "\n".join(text), (("table4", tuple(lines)),), drawing(title, [panel]), (OTHER_NETWORK,))


def matrix_report(result: Certification, plot: str, about: str) -> Report:
    """The constants L_ij beside the published ones."""
    title = "The matrix of constants L_ij"
    known = {(p.i, p.j): p for p in result.pairs}
    lines: list[tuple[Text, ...]] = [("i", "j", "upper", "seconds", "published", "ratio")]
    for i, j in combinations(range(result.classes), 2):
        pair = known.get((i, j))
        told = MATRIX[i][j - i - 1] if result.classes == 10 else None
        upper = None if pair is None else pair.upper
        ratio = upper / told if upper is not None and told is not None else None
        lines.append((i, j, upper, None if pair is None else pair.seconds, told, ratio))
    grid = {(p.i, p.j): number(p.upper, 3) for p in result.pairs}
    shown = [
        (str(i), *(_entry(grid, i, j, result.classes) for j in range(result.classes))) for i in range(result.classes)
    ]
    text = [
        f"# {title}\n",
        f"![{title}](matrix.svg)\n",
        f"{about} Above the diagonal: proved here (`{result.method}`); below: published, of {OTHER_NETWORK}.\n",
        table(("i / j", *map(str, range(result.classes))), shown),
    ]
    return Report("matrix", "\n".join(text), (("matrix", tuple(lines)),), plot, (OTHER_NETWORK,))


def _entry(proved: Mapping[tuple[int, int], str], i: int, j: int, classes: int) -> str:
    if i == j:
        return "*"
    if i < j:
        return proved.get((i, j), "-")
    return number(MATRIX[j][i - j - 1], 2) if classes == 10 else "-"
