"""The reports on random networks: the four figures and Table 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from lipcert.chart.lines import Panel, Quartiles, Series
from lipcert.paper.comparison import (
    LOWEST,
    Comparison,
    ComparisonRow,
    agreement,
    lower_bounds_than_ours,
    refutes,
    summarise,
)
from lipcert.paper.entries import LBS, OURS, RandomNetwork, TargetEntry, shape_words
from lipcert.paper.estimators import NOT_RUN, Estimate, Findings
from lipcert.paper.published import (
    MIXED,
    TABLE1,
    TABLE1_SPARSITIES,
    Printed,
    known_fault,
    proved_fault,
    published_value,
)
from lipcert.paper.report import (
    Record,
    Report,
    drawing,
    estimate_record,
    number,
    printed_agreement,
    seconds,
    spread,
    table,
)

_PRINTED = 5e-3 + 2e-3  # Table 1 has two decimals
_OF_TEN = 10  # networks, in a printed mean
_EXPLAIN = (
    "Medians over the networks that finished, quartiles in brackets; LBS is a lower bound, the others are proved upper "
    "bounds. *time* and *memory* stand for methods that ran out of it, *not tried* for networks that are no smaller "
    "than two of these. `published` and `ratio` (ours / published) are over the networks that finished here and were "
    "published. *agrees*: to 2e-3; *ours is lower*: the same method, proved; *refuted*: a gradient is larger than a "
    "published upper bound, the point is in the file of refuted values; *out of reach*: none finished here. The figure "
    "has every method over the networks that ours finished."
)


def figure_report(target: str, entries: Sequence[TargetEntry], findings: Findings) -> Report:
    """Bounds and running times against the sparsity, for each size."""
    rows = summarise(entries, findings)
    layers, region = rows[0].layers, rows[0].region
    words = "one hidden layer" if layers == 1 else "two hidden layers"
    title = f"{region.capitalize()} Lipschitz constants, {words}, infinity norm"
    agree, lowest = str(agreement(rows)), _lowest(rows)
    paragraphs = [_EXPLAIN, f"Medians: {agree}.", f"{lowest}."]
    for size in dict.fromkeys(r.size for r in rows):
        paragraphs += [f"## {shape_words(layers, size)}", table([_row_words(r) for r in rows if r.size == size])]
    tables = {target: [_row_record(r) for r in rows], f"{target}-networks": _network_records(entries, findings)}
    refuted = _refuted_records(entries, findings)
    if refuted:
        tables[f"{target}-refuted"] = refuted
        paragraphs += ["## Published values that are refuted", table([_refuted_words(r) for r in refuted])]
    return Report(
        target, title, paragraphs, tables, drawing(title, random_panels(entries, findings)), (agree, lowest), rows
    )


def _lowest(rows: Sequence[ComparisonRow]) -> str:
    """A sentence about the entries where ours is not the lowest valid upper bound."""
    own = [r for r in rows if r.method == OURS and r.values is not None]
    if not own:
        return "ours finished no entry"
    lost = [r for r in own if any(text.startswith("NOT LOWEST") for text in r.remarks)]
    where = "; ".join(f"{shape_words(r.layers, r.size)} s={r.sparsity} {r.region}" for r in lost)
    found = f"{len(own) - len(lost)} of {len(own)} entries have ours as the lowest valid upper bound (to {LOWEST:g})"
    return f"{found}; not in {where}" if lost else found


def _row_words(r: ComparisonRow) -> dict[str, str]:
    return {
        "s": str(r.sparsity),
        "method": r.method,
        "bound": spread(r.values, r.words),
        "time": seconds(r.seconds.median if r.seconds else None),
        "published": number(r.published),
        "ratio": number(r.ratio),
        "verdict": r.verdict.value or "-",
        "remarks": "; ".join(r.remarks) or "-",
    }


def _row_record(r: ComparisonRow) -> Record:
    """A line of TARGET.csv."""

    def three(names: Sequence[str], values: Quartiles | None) -> Record:
        numbers = (None, None, None) if values is None else (values.median, values.low, values.high)
        return dict(zip(names, numbers, strict=True))

    return {
        "network": shape_words(r.layers, r.size),
        "size": r.size,
        "sparsity": r.sparsity,
        "region": r.region,
        "method": r.method,
        "networks": r.attempted,
        **three(("median", "low_quartile", "high_quartile"), r.values),
        **three(("seconds_median", "seconds_low", "seconds_high"), r.seconds),
        "unfinished": r.words,
        "median_beside_published": r.ours,
        "published_median": r.published,
        "ratio": r.ratio,
        "verdict": r.verdict.value,
        "remarks": "; ".join(r.remarks),
    }


def _network_records(entries: Sequence[TargetEntry], findings: Findings) -> list[Record]:
    return [_network_record(e, e.network, findings) for e in entries if isinstance(e.network, RandomNetwork)]


def _network_record(entry: TargetEntry, network: RandomNetwork, findings: Findings) -> Record:
    """A line of TARGET-networks.csv."""
    found, told = findings[entry], published_value(entry)
    fault = ""
    if told is not None and entry.method != LBS:
        fault = known_fault(entry) or proved_fault(told, found.floor, findings.lower(entry))
    notes = [found.note] if found.note else []
    if entry.method == OURS:
        notes += [f"NOT LOWEST: {name}" for name in lower_bounds_than_ours(entry, findings)]
    return {
        "network": network.words,
        "size": network.size,
        "sparsity": network.sparsity,
        "seed": network.seed,
        "region": entry.region,
        "method": entry.method,
        **estimate_record(found),
        "published": told,
        "fault": fault,
        "note": "; ".join(notes),
    }


def _refuted_records(entries: Sequence[TargetEntry], findings: Findings) -> list[Record]:
    """Every published upper bound that a gradient exceeds, with the point where: anyone can evaluate it."""
    records: list[Record] = []
    for entry in entries:
        witness = findings.witness(entry)
        if isinstance(entry.network, RandomNetwork) and witness is not None and refutes(entry, findings):
            records.append(
                {
                    "network": entry.network.words,
                    "sparsity": entry.network.sparsity,
                    "seed": entry.network.seed,
                    "region": entry.region,
                    "method": entry.method,
                    "published": published_value(entry),
                    "gradient": witness.value,
                    "found_by": witness.method,
                    "point": witness.written,
                }
            )
    return records


def _refuted_words(r: Record) -> dict[str, str]:
    columns = {key: str(r[key]) for key in ("network", "sparsity", "seed", "method")}
    return columns | {"published": number(r["published"], 6), "a gradient's norm": number(r["gradient"], 6)}


def random_panels(entries: Sequence[TargetEntry], findings: Findings) -> list[Panel]:
    """Bounds and times against the sparsity. All methods are drawn over the same networks, those that ours finished: a
    median over the few that a slow method finished would be of other networks.
    """
    sheets: dict[tuple[int, int, str], dict[int, list[TargetEntry]]] = {}
    for e in entries:
        if isinstance(e.network, RandomNetwork):
            sheet = sheets.setdefault((e.network.layers, e.network.size, e.region), {})
            sheet.setdefault(e.network.sparsity, []).append(e)
    panels = []
    for (layers, size, _), sheet in sheets.items():
        drawn = {s: _drawn(own, findings) for s, own in sheet.items()}
        bounds, times = [], []
        told: list[tuple[float, Quartiles]] = []
        for method in dict.fromkeys(e.method for own in sheet.values() for e in own):
            chosen = {
                s: [e for e in own if e.method == method and e.network.seed in drawn[s]] for s, own in sheet.items()
            }
            found = {s: [findings[e] for e in own] for s, own in chosen.items() if len(own) == len(drawn[s])}
            found = {s: own for s, own in found.items() if all(f.value is not None for f in own)}
            bounds.append(Series(method, _series({s: [f.value for f in own] for s, own in found.items()})))
            times.append(Series(method, _series({s: [f.seconds for f in own] for s, own in found.items()})))
            told += _series({s: [published_value(e) for e in own] for s, own in chosen.items()})
        name = shape_words(layers, size)
        rings = [Series("as published", tuple((s, Quartiles.one(q.median)) for s, q in told))] if told else []
        panels.append(Panel(f"{name}, bounds", "sparsity s", "Lipschitz constant", (*rings, *bounds)))
        panels.append(Panel(f"{name}, running time", "sparsity s", "time (s, log scale)", tuple(times), log=True))
    return panels


def _drawn(entries: Sequence[TargetEntry], findings: Findings) -> set[int]:
    """The seeds that ours finished; where there is none, those of the method with the most."""
    done: dict[str, set[int]] = {}
    for e in entries:
        if findings[e].value is not None:
            done.setdefault(e.method, set()).add(e.network.seed)
    return done.get(OURS) or max(done.values(), key=len, default=set())


def _series(values: Mapping[int, Sequence[float | None]]) -> tuple[tuple[float, Quartiles], ...]:
    """The quartiles of each sparsity whose values are all known."""
    points = []
    for s, own in values.items():
        known = [v for v in own if v is not None]
        middle = Quartiles.of(known) if len(known) == len(own) else None
        if middle is not None:
            points.append((float(s), middle))
    return tuple(points)


def table1_report(entries: Sequence[TargetEntry], findings: Findings) -> Report:
    """Network 0 and the mean over all networks, beside the printed number, which is one or the other."""
    title = "Table 1: global constants of (80,80) and (40,40,10)"
    groups: dict[tuple[tuple[int, int, int], str], list[TargetEntry]] = {}
    for entry in entries:
        if isinstance(entry.network, RandomNetwork):
            groups.setdefault((entry.network.group, entry.method), []).append(entry)
    records = [_table1_record(own, findings) for own in groups.values()]
    rows = summarise(entries, findings)
    note = f"{printed_agreement(records)} (to two decimals and 2e-3)"
    paragraphs = [
        f"The printed rows have {MIXED}. Both are here; `ratio` is to the one that was printed. "
        "The printed HR-1 of two hidden layers were computed with t in [0,1] and are not upper bounds.",
        f"{note}.",
        f"{_lowest(rows)}.",
        table([_table1_words(r) for r in records]),
    ]
    tables = {"table1": records, "table1-networks": _network_records(entries, findings)}
    return Report(
        "table1",
        title,
        paragraphs,
        tables,
        drawing(title, random_panels(entries, findings)),
        (note, _lowest(rows)),
        rows,
    )


def _table1_record(entries: Sequence[TargetEntry], findings: Findings) -> Record:
    """A line of table1.csv; `published` is one of the two statistics."""
    first, network = entries[0], entries[0].network
    assert isinstance(network, RandomNetwork)
    found = [findings[e] for e in entries]
    values = [f.value for f in found if f.value is not None]
    head, mean = found[0], fmean(values) if len(values) == len(found) else None
    remarks = [known_fault(first)] if known_fault(first) else []
    if first.method == OURS:
        beaten = dict.fromkeys(name for e in entries for name in lower_bounds_than_ours(e, findings))
        remarks += [f"NOT LOWEST: {name}" for name in beaten]
    printed, statistic, printed_seconds = _printed(network, first.method)
    if statistic == "mean" and len(values) < _OF_TEN:
        remarks.append(f"mean of {len(values)} networks, the printed one is of 10")
    beside = mean if statistic == "mean" else head.value
    verdict = _printed_verdict(first, printed, statistic, beside, found, findings)
    return {
        "network": network.words,
        "sparsity": network.sparsity,
        "method": first.method,
        "seed_0": head.value,
        "word": head.ended,
        "mean": mean,
        "networks": len(values),
        "seconds_seed_0": None if head.value is None else head.seconds,
        "published": printed,
        "published_statistic": statistic,
        "ratio": beside / printed if beside is not None and isinstance(printed, float) else None,
        "published_seconds": printed_seconds,
        "verdict": verdict.value,
        "remarks": "; ".join(remarks),
    }


def _printed_verdict(
    entry: TargetEntry,
    printed: Printed | None,
    statistic: str,
    beside: float | None,
    found: list[Estimate],
    findings: Findings,
) -> Comparison:
    """The verdict on a printed number, against the statistic that it turned out to be."""
    one = statistic != "mean"
    if not isinstance(printed, float) or any(f.ended == NOT_RUN for f in (found[:1] if one else found)):
        return Comparison.NOTHING
    if not one and len(found) < _OF_TEN:
        return Comparison.NOTHING  # a mean of others
    lower = findings.lower(entry)
    if one and entry.method != LBS and lower is not None and printed + _PRINTED < lower:
        return Comparison.REFUTED
    if beside is None:
        return Comparison.OUT_OF_REACH
    if abs(beside - printed) <= _PRINTED:
        return Comparison.AGREES
    if known_fault(entry):
        return Comparison.EXPLAINED
    return Comparison.LOWER if entry.method != LBS and beside < printed else Comparison.DIFFERS


def _printed(network: RandomNetwork, method: str) -> tuple[Printed | None, str, Printed | None]:
    """The printed number, which statistic it is, and the printed time; nothing where the table has no such line."""
    for line in TABLE1:
        if (line.layers, line.size, line.method) == (network.layers, network.size, method):
            k = TABLE1_SPARSITIES.index(network.sparsity)
            return line.values[k], line.statistic, line.seconds[k] if line.seconds else None
    return None, "", None


def _table1_words(r: Record) -> dict[str, str]:
    return {
        "network": str(r["network"]),
        "s": str(r["sparsity"]),
        "method": str(r["method"]),
        "network 0": number(r["seed_0"]) if r["seed_0"] is not None else str(r["word"] or "-"),
        "mean (networks)": f"{number(r['mean'])} ({r['networks']})",
        "time, network 0": seconds(r["seconds_seed_0"]),
        "published": number(r["published"], 2),
        "is a": str(r["published_statistic"] or "-"),
        "ratio": number(r["ratio"]),
        "published time": seconds(r["published_seconds"]),
        "verdict": str(r["verdict"] or "-"),
        "remarks": str(r["remarks"] or "-"),
    }
