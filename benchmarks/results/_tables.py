"""Tables of the page, one function for each section: rows in, lines of Markdown out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import geometric_mean, median

from benchmarks._rows import Measured, Row
from benchmarks.turns._curves import AUTO, Ratios, all_beside, summaries

MARKS = (1.0, 3.0, 10.0, 30.0, 60.0)
SHARES = ("certified", "attacked", "undecided", "misclassified")
CLOSED = 1e-6  # a relative gap below which a bracket counts as closed


def number(value: float | None, digits: int = 6) -> str:
    return "-" if value is None else f"{value:.{digits}g}"


def seconds(value: float | None) -> str:
    """With as many digits as a clock deserves."""
    if value is None:
        return "-"
    return f"{value:.3f} s" if value < 0.1 else f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def gap_of(m: Measured) -> float | None:
    if m.lower is None or m.upper is None or m.lower <= 0:
        return None
    return m.upper / m.lower - 1


def gap(m: Measured) -> str:
    """As a percentage, or that nothing is left."""
    found = gap_of(m)
    if found is None:
        return "-"
    return "closed" if found <= CLOSED else f"{100 * found:.2g} %" if found < 10 else f"{found + 1:.3g} times"


def verified(m: Measured) -> str:
    if m.proved is None:
        return "-"
    return f"in {seconds(m.verify_seconds)}" if m.proved else "NOT PROVED"


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Markdown; no line, no table."""
    body = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body]) if body else ""


def by_network(rows: Sequence[Row]) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {}
    for row in rows:
        found.setdefault(row.measured.network, []).append(row.measured)
    return found


def start(rows: Sequence[Row]) -> str:
    return table(("what", "wall time"), ((f"`{r.measured.method}`", seconds(r.measured.wall)) for r in rows))


def first(rows: Sequence[Row]) -> str:
    """Upper bound and processor seconds, a column for each method."""
    methods = list(dict.fromkeys(r.measured.method for r in rows))
    lines = []
    for network, found in by_network(rows).items():
        cells = {m.method: f"{number(m.upper, 5)}, {seconds(m.cpu)}" for m in found}
        lines.append((network, *(cells.get(method, "-") for method in methods)))
    return table(("network", *(f"`{m}`" for m in methods)), lines)


def relaxations(rows: Sequence[Row]) -> str:
    lines = []
    for network, found in by_network(rows).items():
        floor = max((m.lower for m in found if m.lower is not None), default=None)
        for m in found:
            above = "-" if floor is None or m.upper is None else f"{100 * (m.upper / floor - 1):.3g} %"
            bound = f"lower {number(m.lower)}" if m.upper is None else number(m.upper)
            lines.append((network, f"`{m.method}`", bound, above, number(m.work, 3), seconds(m.cpu), verified(m)))
    head = ("network", "method", "upper", "above the lower bound", "counted work", "processor", "verified")
    return table(head, lines)


def tightness(rows: Sequence[Row]) -> str:
    """Upper bound over the enumerated constant: mean, largest, and how many are closed."""
    groups: dict[tuple[str, str], list[Measured]] = {}
    for row in rows:
        region = "local" if " local" in row.case else "global"
        groups.setdefault((region, row.measured.method), []).append(row.measured)
    lines = []
    for (region, method), found in groups.items():
        ratios = [m.upper / m.known for m in found if m.upper is not None and m.known]
        shut = sum(ratio - 1 <= CLOSED for ratio in ratios)
        times = median(m.cpu for m in found if m.cpu is not None)
        mean, most = f"{sum(ratios) / len(ratios):.6f}", f"{max(ratios):.4f}"
        lines.append((region, f"`{method}`", mean, most, f"{shut} of {len(ratios)}", seconds(times)))
    return table(("networks", "method", "mean upper / exact", "largest", "closed", "median processor"), lines)


def brackets(rows: Sequence[Row]) -> str:
    """The common table of brackets."""
    lines = [
        (
            m.network,
            f"`{m.method}`",
            number(m.lower),
            number(m.upper),
            gap(m),
            number(m.work, 3),
            seconds(m.wall),
            verified(m),
        )
        for m in (r.measured for r in rows)
    ]
    return table(("network", "method", "lower", "upper", "gap", "counted work", "wall time", "verified"), lines)


def upper_at(m: Measured, mark: float) -> float | None:
    return min((upper for t, _, upper in m.curve if t <= mark and upper is not None), default=None)


def anytime(rows: Sequence[Row]) -> str:
    """Upper bounds after so many seconds of one run; after its end nothing stands there."""
    lines = []
    for m in (r.measured for r in rows):
        way = [number(upper_at(m, mark)) if mark <= (m.wall or 0) else "" for mark in MARKS]
        end = f"{number(m.upper)} ({seconds(m.wall)}, {gap(m)})"
        lines.append((m.network, number(m.lower), *way, end, number(m.peer_value, 5)))
    peers = [r.measured.peer for r in rows if r.measured.peer]
    head = ("network", "lower", *(f"{mark:g} s" for mark in MARKS), "at the end", *peers[:1])
    return table(head, (line[: len(head)] for line in lines))


def turns(rows: Sequence[Row]) -> str:
    """`auto` beside the best single method: mean and worst ratios at every mark, for each half and for both."""
    lines = []
    for (half, mark), (upper, lower) in summaries(all_beside(rows)).items():
        count = str(max(r.count if r else 0 for r in (upper, lower)))
        lines.append((half, f"{mark:g} s", count, *_ratios(upper), *_ratios(lower)))
    head = ("half", "after", "questions", "upper: mean", "worst", "where", "witness: mean", "worst", "where")
    limits, loads = sorted({r.measured.limit for r in rows}), sorted(r.load_before for r in rows)
    asked = ", ".join(sorted({r.measured.network for r in rows}))
    best = ", ".join(f"`{method}`" for method in sorted({r.measured.method for r in rows} - {AUTO}))
    return f"""{table(head, lines)}

Limit of every run: {", ".join(limits)}; seconds of the processor are nearly those of a free machine on a busy one.
Load of the machine before a run: {loads[0]:.1f} to {loads[-1]:.1f}. Single methods that are best somewhere: {best}.
Questions: {asked}."""


def _ratios(found: Ratios | None) -> tuple[str, str, str]:
    return ("-", "-", "-") if found is None else (f"{found.mean:.3f}", f"{found.worst:.3f}", found.question)


def depth(rows: Sequence[Row]) -> str:
    lines = []
    for m in (r.measured for r in rows):
        product = m.facts.get("product")
        theirs = "-" if m.peer_value is None else f"{number(m.peer_value, 5)}, {seconds(m.peer_seconds)}"
        ours = f"{number(m.upper, 7)}, {seconds(m.wall)}"
        lines.append((m.network, number(product if isinstance(product, float) else None, 4), theirs, ours, verified(m)))
    return table(("network", "product of norms", "ECLipsE-Fast, closed form", "`slopes`", "verified"), lines)


def peers(rows: Sequence[Row]) -> str:
    """Values side by side; who has none is told below the table, with the reason."""
    lines, silent = [], Counter[tuple[str, str]]()
    for m in (r.measured for r in rows):
        if m.peer is None:
            continue
        if m.peer_value is None:
            silent[m.peer, m.remark] += 1
            continue
        ours = f"`{m.method}` {number(m.upper)}, {seconds(m.wall)}"
        note = f" ({m.remark})" if m.remark else ""
        value = f"{number(m.peer_value)}, {seconds(m.peer_seconds)}{note}"
        lines.append((m.network, m.norm, number(m.lower), ours, m.peer, value))
    head = ("network, region", "norm", "lower", "ours, proved", "peer", "its value, not proved")
    told = [f"{peer} has no value on {count} of these networks: {why}." for (peer, why), count in silent.items()]
    return "\n\n".join([table(head, lines), *told])


def reading(rows: Sequence[Row]) -> str:
    lines = []
    for m in (r.measured for r in rows):
        size = float(m.facts["bytes"]) / 1e6
        lines.append((m.network, f"{m.facts['inputs']}, {m.facts['neurons']}", f"{size:.2f} MB", seconds(m.wall)))
    return table(("file", "inputs, neurons", "size", "wall time"), lines)


def certification(rows: Sequence[Row]) -> str:
    lines = []
    for m in (r.measured for r in rows):
        total = float(m.facts["inputs"])
        shares = [f"{100 * float(m.facts[k]) / total:.2f} %" for k in SHARES]
        lines.append((m.network, f"`{m.method}`", f"{m.facts['radius']:g}", *shares, seconds(m.wall), verified(m)))
    return table(("data set", "method", "radius", *SHARES, "all radii together", "all claims verified"), lines)


def polynomial(rows: Sequence[Row]) -> str:
    lines = []
    for m in (r.measured for r in rows):
        bound = m.lower if m.lower is not None else m.upper
        how = f"{m.facts['sense']}, {m.facts['variables']} variables"
        lines.append((m.network, how, m.method, number(bound, 8), number(m.known, 8), seconds(m.cpu)))
    return table(("problem", "sense", "relaxation", "proved bound", "known optimum", "processor"), lines)


def partition(rows: Sequence[Row]) -> str:
    lines = []
    for m in (r.measured for r in rows):
        largest = f"[{number(m.lower)}, {number(m.upper)}]"
        lines.append((m.network, m.method, f"{int(float(m.facts['cells'])):,}", largest, seconds(m.wall), verified(m)))
    return table(("network", "how", "cells", "constant of the box", "wall time", "verified"), lines)


def growth(rows: Sequence[Row]) -> str:
    return table(
        ("network", "upper", "counted work", "wall time"),
        ((m.network, number(m.upper), number(m.work, 3), seconds(m.wall)) for m in (r.measured for r in rows)),
    )


def scale(rows: Sequence[Row]) -> str:
    def told(m: Measured, fact: str) -> str:
        return seconds(float(m.facts[fact])) if fact in m.facts else "-"

    return table(
        (
            "network",
            "reading",
            "twice the last bound after",
            "verifying",
            "most memory",
            "bracket then",
            "by intervals",
        ),
        (
            (
                m.network,
                told(m, "read"),
                told(m, "useful"),
                told(m, "verified"),
                f"{m.gigabytes or 0:.2f} GB",
                f"[{number(m.lower)}, {number(m.upper)}]",
                number(float(m.facts["intervals"])),
            )
            for m in (r.measured for r in rows)
        ),
    )


def limits(rows: Sequence[Row]) -> str:
    return table(
        ("network", "limit", "came back after", "bracket then"),
        (
            (m.network, m.limit, seconds(m.wall), f"[{number(m.lower)}, {number(m.upper)}]")
            for m in (r.measured for r in rows)
        ),
    )


def verification(rows: Sequence[Row]) -> str:
    """Over all rows with a certificate, by method."""
    groups: dict[str, list[Measured]] = {}
    for m in (r.measured for r in rows if r.measured.verify_seconds is not None and r.measured.peer is None):
        groups.setdefault(m.method, []).append(m)
    lines = []
    for method, found in sorted(groups.items()):
        times = [m.verify_seconds or 0.0 for m in found]
        shares = [max(t, 1e-4) / max(m.wall or 0.0, 1e-4) for t, m in zip(times, found, strict=True)]
        proved = f"{sum(bool(m.proved) for m in found)} of {len(found)}"
        lines.append(
            (
                f"`{method}`",
                proved,
                seconds(median(times)),
                seconds(max(times)),
                f"{100 * geometric_mean(shares):.2g} %",
            )
        )
    head = ("method", "proved again", "median time", "longest", "of the time that the bound took (geometric mean)")
    return table(head, lines)


def missing(rows: Sequence[Row]) -> str:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reasons.setdefault(f"{row.measured.status}: {row.measured.remark}", []).append(f"`{row.case}`")
    return "\n".join(f"- {reason}: {', '.join(cases)}" for reason, cases in reasons.items())


def directions(rows: Sequence[Row]) -> str:
    """Published values of two hidden layers: the two programs and the constant, or a gradient beside them."""
    lines = []
    for m in (r.measured for r in rows):
        told, half, whole, least = (
            float(v) if (v := m.facts.get(key)) is not None else None
            for key in ("published", "t in [0, 1]", "t in [-1, 1]", "smallest of 200,000")
        )
        lower = m.lower if least is None else least
        known = f"[{number(m.lower)}, {number(m.upper)}]" if m.upper is not None else f"at least {number(lower)}"
        below = told is not None and lower is not None and told < lower - 1e-5
        programs = (number(half), number(whole))
        lines.append((m.network, m.method, number(told), *programs, known, "refuted" if below else "-"))
    head = ("network", "by", "published", "its program, t in [0, 1]", "t in [-1, 1]", "constant", "the published value")
    return table(head, lines)
