"""The reports on random networks: the four figures and Table 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from lipcert.paper.cells import LBS, OURS, Cell, Random, shape_words
from lipcert.paper.faults import MIXED, known_fault, proved_fault
from lipcert.paper.outcomes import Findings
from lipcert.paper.plot import Panel, Series, drawing
from lipcert.paper.published import TABLE1, TABLE1_SPARSITIES, Line, published
from lipcert.paper.report import Report, number, records, seconds, spread, summary, table
from lipcert.paper.statistics import LOWEST, Quartiles, Row, agreement, lower_bounds_than_ours, summarise

_PRINTED = 5e-3 + 2e-3  # Table 1 has two decimals
_EXPLAIN = (
    "Medians over the networks that finished, quartiles in brackets; LBS is a lower bound, the others are proved upper "
    "bounds. *time* and *memory* stand for methods that ran out of it. `published` and `ratio` (ours / published) are "
    "over the networks that finished here and were published."
)


@dataclass(frozen=True)
class RowRecord:
    """A line of TARGET.csv."""

    network: str
    size: int
    sparsity: int
    region: str
    method: str
    networks: int
    median: float | None
    low_quartile: float | None
    high_quartile: float | None
    seconds_median: float | None
    seconds_low: float | None
    seconds_high: float | None
    unfinished: str
    median_beside_published: float | None
    published_median: float | None
    ratio: float | None
    verdict: str
    remarks: str


@dataclass(frozen=True)
class CellRecord:
    """A line of TARGET-networks.csv."""

    network: str
    size: int
    sparsity: int
    seed: int
    region: str
    method: str
    value: float | None
    upper: float | None
    lower: float | None
    word: str
    seconds: float | None
    published: float | None
    fault: str
    note: str


@dataclass(frozen=True)
class Table1Record:
    """A line of table1.csv; `published` is one of the two statistics."""

    network: str
    sparsity: int
    method: str
    seed_0: float | None
    word: str
    mean: float | None
    networks: int
    seconds_seed_0: float | None
    published: float | str | None = None
    published_statistic: str = ""
    ratio: float | None = None
    published_seconds: float | str | None = None
    remarks: str = ""


def figure_report(target: str, cells: Sequence[Cell], findings: Findings) -> Report:
    """Bounds and running times against the sparsity, for each size."""
    rows = summarise(cells, findings)
    layers, region = rows[0].layers, rows[0].region
    words = "one hidden layer" if layers == 1 else "two hidden layers"
    title = f"{region.capitalize()} Lipschitz constants, {words}, infinity norm"
    parts = [
        f"# {title}\n",
        f"![{title}: bounds and running times against the sparsity]({target}.svg)\n",
        f"{_EXPLAIN}\n",
    ]
    parts.append(f"{summary(agreement(rows))}\n\n{_lowest(rows)}\n")
    for size in dict.fromkeys(r.size for r in rows):
        parts.append(f"## {shape_words(layers, size)}\n")
        parts.append(_markdown([r for r in rows if r.size == size]))
    tables = (
        (target, records([_row_record(r) for r in rows])),
        (f"{target}-networks", records(_cell_records(cells, findings))),
    )
    return Report(target, "\n".join(parts), tables, drawing(title, _panels(rows)), _lines(rows), tuple(rows))


def _lines(rows: Sequence[Row]) -> tuple[str, ...]:
    return (str(agreement(rows)), _lowest(rows))


def _lowest(rows: Sequence[Row]) -> str:
    """Where ours is not the lowest valid upper bound."""
    own = [r for r in rows if r.method == OURS and r.values is not None]
    lost = [r for r in own if any(text.startswith("NOT LOWEST") for text in r.remarks)]
    where = "; ".join(f"{shape_words(r.layers, r.size)} s={r.sparsity} {r.region}" for r in lost)
    found = f"{len(own) - len(lost)} of {len(own)} cells have ours as the lowest valid upper bound (to {LOWEST:g})"
    return f"{found}; not in {where}" if lost else found


def _markdown(rows: Sequence[Row]) -> str:
    heads = ("s", "method", "bound", "time", "published", "ratio", "verdict", "remarks")
    return table(
        heads,
        [
            (
                str(r.sparsity),
                r.method,
                spread(r.values, r.words),
                seconds(r.seconds.median if r.seconds else None),
                number(r.published),
                number(r.ratio),
                r.verdict.value or "-",
                "; ".join(r.remarks) or "-",
            )
            for r in rows
        ],
    )


def _three(values: Quartiles | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if values is None else (values.median, values.low, values.high)


def _row_record(r: Row) -> RowRecord:
    middle, low, high = _three(r.values)
    typical, fast, slow = _three(r.seconds)
    return RowRecord(
        network=shape_words(r.layers, r.size),
        size=r.size,
        sparsity=r.sparsity,
        region=r.region,
        method=r.method,
        networks=r.attempted,
        median=middle,
        low_quartile=low,
        high_quartile=high,
        seconds_median=typical,
        seconds_low=fast,
        seconds_high=slow,
        unfinished=r.words,
        median_beside_published=r.ours,
        published_median=r.published,
        ratio=r.ratio,
        verdict=r.verdict.value,
        remarks="; ".join(r.remarks),
    )


def _cell_records(cells: Sequence[Cell], findings: Findings) -> list[CellRecord]:
    return [_cell_record(c, c.network, findings) for c in cells if isinstance(c.network, Random)]


def _cell_record(cell: Cell, n: Random, findings: Findings) -> CellRecord:
    found = findings[cell]
    told = published(n.layers, cell.region, n.size, n.sparsity, cell.method).of(n.seed)
    fault = ""
    if told is not None and cell.method != LBS:
        fault = known_fault(cell) or proved_fault(told, found.estimate, findings.lower(cell))
    e = found.estimate
    took, note = (e.seconds, e.note) if e is not None else (None, "")
    notes = [note] if note else []
    if cell.method == OURS:
        notes += [f"NOT LOWEST: {name}" for name in lower_bounds_than_ours(found, findings)]
    place = (n.words, n.size, n.sparsity, n.seed, cell.region, cell.method)
    own = (found.value, found.upper, found.lower, found.word, took)
    return CellRecord(*place, *own, told, fault, "; ".join(notes))


def _panels(rows: Sequence[Row]) -> list[Panel]:
    panels = []
    for layers, size, region in dict.fromkeys((r.layers, r.size, r.region) for r in rows):
        own = [r for r in rows if (r.layers, r.size, r.region) == (layers, size, region)]
        methods = list(dict.fromkeys(r.method for r in own))
        bounds = [
            Series(m, tuple((float(r.sparsity), r.values) for r in own if r.method == m and r.values)) for m in methods
        ]
        times = [
            Series(m, tuple((float(r.sparsity), r.seconds) for r in own if r.method == m and r.seconds))
            for m in methods
        ]
        name = shape_words(layers, size)
        panels.append(Panel(f"{name}, bounds", "sparsity s", "Lipschitz constant", tuple(bounds)))
        panels.append(Panel(f"{name}, running time", "sparsity s", "time (s, log scale)", tuple(times), log=True))
    return panels


def table1_report(cells: Sequence[Cell], findings: Findings) -> Report:
    """Network 0 and the mean over all networks, beside the printed number, which is one or the other."""
    title = "Table 1: global constants of (80,80) and (40,40,10)"
    groups: dict[tuple[tuple[int, int, int], str], list[Cell]] = {}
    for cell in cells:
        if isinstance(cell.network, Random):
            groups.setdefault((cell.network.group, cell.method), []).append(cell)
    found = [_table1_record(own, findings) for own in groups.values()]
    rows = summarise(cells, findings)
    compared = [r for r in found if r.ratio is not None and isinstance(r.published, float) and not r.remarks]
    agree = sum(abs((r.ratio or 0) - 1) * float(r.published or 0) <= _PRINTED for r in compared)
    note = f"{agree} of {len(compared)} printed numbers without a known fault agree to their two decimals (and 2e-3)"
    heads = ("network", "s", "method", "network 0", "mean (networks)", "time, network 0", "published", "is a", "ratio")
    text = [
        f"# {title}\n",
        f"![{title}](table1.svg)\n",
        f"The printed rows have {MIXED}. Both are here; `ratio` is to the one that was printed. "
        "The printed HR-1 of two hidden layers were computed with t in [0,1] and are not upper bounds.\n",
        f"{note}.\n\n{_lowest(rows)}.\n",
        table((*heads, "published time", "remarks"), [_table1_words(r) for r in found]),
    ]
    tables = (("table1", records(found)), ("table1-networks", records(_cell_records(cells, findings))))
    return Report("table1", "\n".join(text), tables, drawing(title, _panels(rows)), (note, _lowest(rows)), tuple(rows))


def _table1_record(cells: Sequence[Cell], findings: Findings) -> Table1Record:
    first, network = cells[0], cells[0].network
    assert isinstance(network, Random)
    found = [findings[c] for c in cells]
    values = [f.value for f in found if f.value is not None]
    head, mean = found[0], fmean(values) if len(values) == len(found) else None
    took = head.estimate.seconds if head.estimate is not None and head.value is not None else None
    own = Table1Record(
        network=network.words,
        sparsity=network.sparsity,
        method=first.method,
        seed_0=head.value,
        word=head.word,
        mean=mean,
        networks=len(values),
        seconds_seed_0=took,
    )
    remarks = [known_fault(first)] if known_fault(first) else []
    if first.method == OURS:
        beaten = dict.fromkeys(name for f in found for name in lower_bounds_than_ours(f, findings))
        remarks += [f"NOT LOWEST: {name}" for name in beaten]
    line = _printed(network, first.method)
    if line is None:
        return replace(own, remarks="; ".join(remarks))
    k = TABLE1_SPARSITIES.index(network.sparsity)
    value, time = line.values[k], line.seconds[k] if line.seconds else None
    beside = mean if line.statistic == "mean" else head.value
    if line.statistic == "mean" and len(values) < 10:
        remarks.append(f"mean of {len(values)} networks, the printed one is of 10")
    ratio = beside / value if beside is not None and isinstance(value, float) else None
    told = replace(own, published=value, published_statistic=line.statistic, ratio=ratio, published_seconds=time)
    return replace(told, remarks="; ".join(remarks))


def _printed(network: Random, method: str) -> Line | None:
    return next((x for x in TABLE1 if (x.layers, x.size, x.method) == (network.layers, network.size, method)), None)


def _table1_words(r: Table1Record) -> tuple[str, ...]:
    one = number(r.seed_0) if r.seed_0 is not None else r.word or "-"
    own = (r.network, str(r.sparsity), r.method, one, f"{number(r.mean)} ({r.networks})", seconds(r.seconds_seed_0))
    told = (number(r.published, 2), r.published_statistic or "-", number(r.ratio), seconds(r.published_seconds))
    return (*own, *told, r.remarks or "-")
