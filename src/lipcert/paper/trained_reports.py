"""The reports on trained networks: Tables 2, 3, 4 and the matrix of constants.

`trained_page` makes a page from the records and the facts alone, both of a new report and from the files of an old one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from lipcert.chart.lines import Panel, Quartiles, Series
from lipcert.chart.render import document
from lipcert.paper.comparison import Comparison, lower_bounds_than_ours
from lipcert.paper.entries import HR2, LBS, OURS, REGIONS, TargetEntry, TrainedNetwork
from lipcert.paper.estimators import NOT_RUN, Estimate, Findings
from lipcert.paper.published import (
    BELOW_LOWER,
    EPSILONS,
    MATRIX,
    OTHER_NETWORK,
    OTHER_POINTS,
    TABLE2,
    TABLE2_NETWORK,
    TABLE3,
    TABLE4,
    Printed,
)
from lipcert.paper.report import (
    Record,
    Report,
    Tables,
    Value,
    drawing,
    estimate_record,
    number,
    page,
    printed_agreement,
    seconds,
    table,
)
from lipcert.report.heatmap import heat_map
from lipcert.robustness.result import Certification

_HEADS = [f"{e:g}" for e in EPSILONS]  # columns of Table 3
_DIGITS = 5e-3  # two decimals
_PRINTED = _DIGITS + 1e-2  # and a hundredth for solvers


TITLES = {
    "table2": "Table 2: one score of a trained (784,500) network",
    "table3": "Table 3: certified points of the binary task, (80,80)",
    "table4": "Table 4: certified images, 45 constants",
    "matrix": "The matrix of constants L_ij",
}


def trained_page(target: str, tables: Tables, facts: Record) -> str:
    """The Markdown of one of these targets."""
    return page(target, TITLES[target], _paragraphs(target, tables, facts))


def _paragraphs(target: str, tables: Tables, facts: Record) -> list[str]:
    return {"table2": _table2, "table3": _table3, "table4": _table4, "matrix": _matrix}[target](tables, facts)


def _report(target: str, tables: Tables, facts: Record, plot: str | Sequence[Panel], line: str) -> Report:
    drawn = plot if isinstance(plot, str) else drawing(TITLES[target], plot)
    return Report(target, TITLES[target], _paragraphs(target, tables, facts), tables, drawn, (line,), facts=facts)


def table2_report(entries: Sequence[TargetEntry], findings: Findings, about: str) -> Report:
    """One score of a (784,500) network, on a large and on a small box; the published column with the paper's alone."""
    network = entries[0].network
    paper = isinstance(network, TrainedNetwork) and network.network.sha256 == TABLE2_NETWORK
    records = [_table2_record(e, findings, paper) for e in entries]
    tables = {"table2": records}
    refuted = [_table2_refuted(e, findings) for e, r in zip(entries, records, strict=True) if _is_refuted(r)]
    if refuted:
        tables["table2-refuted"] = refuted
    panels = [_table2_panel(region, [r for r in records if r["region"] == region]) for region in REGIONS]
    note = printed_agreement(records) if paper else "nothing compared: another network than the paper's"
    return _report("table2", tables, {"network": about, "compares": paper}, panels, note)


def _table2(tables: Tables, facts: Record) -> list[str]:
    paper = bool(facts["compares"])
    compare = "Another network than the paper's, so that its numbers are not beside; give the paper's with --weights."
    if paper:
        compare = "The weights are those of the paper, so the columns compare."
    paragraphs = [str(facts["network"]), compare, table([_table2_words(r, paper) for r in tables["table2"]])]
    if tables.get("table2-refuted"):
        paragraphs.append("The points whose gradients refute published values are in `table2-refuted.csv`.")
    return paragraphs


def _is_refuted(record: Record) -> bool:
    return record["verdict"] == Comparison.REFUTED.value


def _table2_refuted(entry: TargetEntry, findings: Findings) -> Record:
    """The witness against a printed upper bound."""
    witness = findings.witness(entry)
    assert witness is not None
    return {
        "region": entry.region,
        "method": entry.method,
        "published": TABLE2[entry.region][entry.method][0],
        "gradient": witness.value,
        "found_by": witness.method,
        "point": witness.written,
    }


def _table2_record(entry: TargetEntry, findings: Findings, paper: bool) -> Record:
    """A line of table2.csv; `upper` is proved also where the method was stopped and has no value."""
    found, lower = findings[entry], findings.lower(entry)
    printed, time = TABLE2[entry.region].get(entry.method, (None, None)) if paper else (None, None)
    ratio = found.value / printed if found.value is not None and isinstance(printed, float) else None
    remarks = []
    if entry.method == OURS:
        remarks += [f"NOT LOWEST: {name} is lower" for name in lower_bounds_than_ours(entry, findings)]
    if entry.method == LBS and ratio is not None and abs(ratio - 1) > 1e-3:
        remarks.append(OTHER_POINTS)
    refuted = entry.method != LBS and lower is not None and isinstance(printed, float) and printed + _DIGITS < lower
    if refuted:
        remarks.append(f"{BELOW_LOWER}: {lower:.6f}")
    return {
        "region": entry.region,
        "method": entry.method,
        **estimate_record(found),
        "published": printed,
        "ratio": ratio,
        "published_seconds": time,
        "verdict": _table2_verdict(found, printed, refuted, entry.method).value,
        "remarks": "; ".join(remarks),
    }


def _table2_verdict(found: Estimate, printed: Printed | None, refuted: bool, method: str) -> Comparison:
    if refuted or not isinstance(printed, float):
        return Comparison.REFUTED if refuted else Comparison.NOTHING
    if found.value is None:
        return Comparison.NOTHING if found.ended == NOT_RUN else Comparison.OUT_OF_REACH
    if abs(found.value - printed) <= _PRINTED:
        return Comparison.AGREES
    if method == LBS:
        return Comparison.EXPLAINED
    return Comparison.LOWER if found.value < printed else Comparison.DIFFERS


def _table2_words(r: Record, paper: bool) -> dict[str, str]:
    """For a method that was stopped, the word and what it had proved."""
    bound = number(r["value"])
    if r["value"] is None:
        bound = str(r["word"]) if r["upper"] is None else f"{r['word']}: at most {number(r['upper'])}"
    ours = {"region": str(r["region"]), "method": str(r["method"]), "bound": bound, "time": seconds(r["seconds"])}
    beside = {
        "published": number(r["published"], 2),
        "ratio": number(r["ratio"]),
        "published time": seconds(r["published_seconds"]),
        "verdict": str(r["verdict"] or "-"),
    }
    return ours | (beside if paper else {}) | {"remarks": str(r["remarks"] or "-")}


def _table2_panel(region: str, records: Sequence[Record]) -> Panel:
    def series(name: str, column: str) -> Series:
        values = [(float(k), r[column]) for k, r in enumerate(records)]
        return Series(name, tuple((k, Quartiles.one(v)) for k, v in values if isinstance(v, float)))

    title = f"{region} (radius {'10' if region == 'global' else '0.1'})"
    names = tuple(str(r["method"]) for r in records)
    both = (series("computed", "value"), series("published", "published"))
    return Panel(title, "method", "Lipschitz constant", tuple(s for s in both if s.points), names=names)


def table3_report(
    entries: Sequence[TargetEntry], findings: Findings, shares: Mapping[str, Any], accuracy: float
) -> Report:
    """% of points that one constant certifies, at ten epsilons."""
    rows: list[tuple[str, Sequence[float]]] = []
    for place, words in (("box", f"{shares['points']:,} points of the box"), ("task", "4,000 points of the task")):
        rows += [(f"{words}, {method}", values) for method, values in shares[place].items()]
    rows += [(f"published, {method}", values) for method, values in TABLE3.items()]
    records: list[Record] = [{"points": name} | dict(zip(_HEADS, values, strict=True)) for name, values in rows]
    constants: list[Record] = [{"method": e.method, **estimate_record(findings[e])} for e in entries]
    panels = [
        _share_panel("the task's own points", shares["task"]),
        _share_panel("points of the box, and published", {**shares["box"], "published": TABLE3[HR2]}),
    ]
    tables = {"table3": records, "table3-constants": constants}
    return _report("table3", tables, {"right_percent": 100 * accuracy}, panels, OTHER_NETWORK)


def _table3(tables: Tables, facts: Record) -> list[str]:
    constants = [
        {
            "method": str(r["method"]),
            "constant on [-3, 3]^80": number(r["word"] or r["value"]),
            "time": seconds(r["seconds"]),
        }
        for r in tables["table3-constants"]
    ]
    shares = [
        {"% certified at": str(r["points"])} | {head: number(r[head], 2) for head in _HEADS} for r in tables["table3"]
    ]
    return [
        f"The classifier is trained here ({number(facts['right_percent'], 2)} % of fresh points are right), "
        f"{OTHER_NETWORK}: its rows below are to look at. "
        "Points of the box lie far outside both spheres, where a well-trained network is sure; the task's own points "
        "are harder.",
        table(constants),
        table(shares),
    ]


def _share_panel(title: str, shares: Mapping[str, Sequence[float]]) -> Panel:
    series = [
        Series(name, tuple((e, Quartiles.one(v)) for e, v in zip(EPSILONS, values, strict=True)))
        for name, values in shares.items()
    ]
    return Panel(title, "epsilon (infinity norm)", "certified (% of points)", tuple(series))


def table4_report(result: Certification, about: str, given: bool) -> Report:
    """% of images that the 45 constants certify, at ten epsilons; beside the published where the network was given."""
    total = len(result.labels)
    shares = [100 * result.counts(e)["certified"] / total for e in EPSILONS]
    right = 100 * (total - int(result.wrong.sum())) / total
    told = TABLE4 if given else (None,) * len(EPSILONS)
    rows = [(e, s, p, None if p is None else s / p) for e, s, p in zip(EPSILONS, shares, told, strict=True)]
    columns = ("epsilon", "certified_percent", "published_percent", "ratio")
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    series = {OURS: shares} | ({"published": TABLE4} if given else {})
    facts = _facts(result, about, given) | {"right_percent": right, "images": total}
    return _report("table4", {"table4": records}, facts, [_share_panel("share of the images", series)], _verdict(given))


def _facts(result: Certification, about: str, given: bool) -> dict[str, Value]:
    return {"network": about, "given": given, "method": result.method}


def _table4(tables: Tables, facts: Record) -> list[str]:
    given = bool(facts["given"])
    shown = [
        {"epsilon": f"{r['epsilon']:g}", "certified %": number(r["certified_percent"], 2)}
        | ({"published %": number(r["published_percent"], 2), "ratio": number(r["ratio"])} if given else {})
        for r in tables["table4"]
    ]
    return [
        f"{facts['network']} {number(facts['right_percent'], 2)} % of its {facts['images']:,} images are classified "
        "correctly; an image counts as certified when it is correct and keeps its class. "
        f"Constants by `{facts['method']}`. {_beside(given)}",
        table(shown),
    ]


def matrix_report(result: Certification, about: str, given: bool) -> Report:
    """The constants L_ij, beside the published ones where the network was given."""
    known = {(p.i, p.j): p for p in result.pairs}
    records: list[Record] = []
    for i, j in combinations(range(result.classes), 2):
        pair = known.get((i, j))
        ours, took = (None, None) if pair is None else (pair.upper, pair.seconds)
        theirs = MATRIX[i][j - i - 1] if given and result.classes == 10 else None
        ratio = ours / theirs if ours is not None and theirs is not None else None
        records.append({"i": i, "j": j, "upper": ours, "seconds": took, "published": theirs, "ratio": ratio})
    facts = _facts(result, about, given) | {"classes": result.classes}
    picture = heat_map(result)
    return _report("matrix", {"matrix": records}, facts, [] if picture is None else document(picture), _verdict(given))


def _matrix(tables: Tables, facts: Record) -> list[str]:
    given, n = bool(facts["given"]), int(facts["classes"] or 0)
    records = {(r["i"], r["j"]): r for r in tables["matrix"]}

    def text(i: int, j: int) -> str:
        if i == j:
            return "*"
        return number(records[i, j]["upper"], 3) if i < j else number(records[j, i]["published"], 2)

    below = "; below: published" if any(r["published"] is not None for r in records.values()) else ""
    return [
        f"{facts['network']} Above the diagonal: proved here (`{facts['method']}`){below}. {_beside(given)}",
        table([{"i / j": str(i)} | {str(j): text(i, j) for j in range(n)} for i in range(n)]),
    ]


def _beside(given: bool) -> str:
    if given:
        return (
            "The published column compares only if the network that was given is the paper's, which is not published."
        )
    return "The paper's network is not published, so that its numbers are not beside."


def _verdict(given: bool) -> str:
    if given:
        return "compares with the published column only if the network is the paper's, which is not published"
    return "nothing compared: the paper's network is not published"
