"""Pictures of the page, drawn from its rows by the charts of the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks._rows import Measured, Row
from benchmarks.results._tables import by_network
from lipcert.chart.lines import Look, Panel, Quartiles, Series, line_chart
from lipcert.chart.render import document

_BLACK, _GREY, _RED, _BLUE, _GREEN = "#000000", "#808080", "#c0392b", "#2471a3", "#1e8449"
FIRST, LEAST = 1e-3, 1e-6  # seconds and gap below which a picture does not look
PEER_LOOKS = ("square", "diamond", "triangle", "hexagon", "triangle-down", "star", "plus")
SHOWN = 3  # panels of the picture for the front page
PREFERRED = ("SDP-NN 0.1", "256x2 0.05", "ACAS 1_1 0.05")
METHODS = (
    "circle",
    "triangle",
    "triangle-left",
    "triangle-right",
    "plus",
    "hexagon",
    "star",
    "cross",
    "square",
    "diamond",
)

Pair = tuple[float, float]


def _series(name: str, points: Sequence[Pair]) -> Series:
    return Series(name, tuple((x, Quartiles.one(y)) for x, y in points))


def _staircase(points: Sequence[Pair]) -> list[Pair]:
    """A value holds until the next one."""
    steps: list[Pair] = []
    for x, y in points:
        steps += [(x, steps[-1][1]), (x, y)] if steps else [(x, y)]
    return steps


def _way(m: Measured, end: int) -> list[Pair]:
    """The lower (1) or upper (2) end of the bracket against seconds."""
    found = [(max(point[0], 0.01), point[end]) for point in m.curve]
    return _staircase([(t, value) for t, value in found if value is not None and value > 0])


def _ends(m: Measured) -> list[Series]:
    """Both ends of a bracket: a line for the way, a mark where it ended."""
    ways = [(name, _way(m, end)) for name, end in (("upper bound", 2), ("lower bound", 1))]
    lines = [_series(f"way of the {name}", way) for name, way in ways]
    return lines + [_series(name, way[-1:]) for name, way in ways]


ENDS = {
    "way of the upper bound": Look(_RED, "", ""),
    "way of the lower bound": Look(_BLUE, "", ""),
    "upper bound": Look(_RED, "", "circle"),
    "lower bound": Look(_BLUE, "", "circle", hollow=True),
}


def _short(peer: str) -> str:
    """Without how it was run, which the page tells."""
    return peer.split(" (")[0]


def front(rows: Sequence[Row]) -> str:
    """The bracket of `auto` against time, and peers: at their seconds, or a line where these are not known."""
    chosen = _front_networks(rows)
    peers = [m.peer for _, found in chosen for m in found if m.peer_value is not None and m.peer]
    names = dict.fromkeys(map(_short, peers))
    looks = ENDS | {name: Look(_GREY, "5 4", mark) for name, mark in zip(names, PEER_LOOKS, strict=False)}
    panels = []
    for network, found in chosen:
        ours = next(m for m in found if m.curve and m.method == "auto")
        series, span = _ends(ours), (0.01, max(ours.wall or 1.0, 1.0))
        for m in found:
            if m.peer is not None and m.peer_value is not None:
                at = span if m.peer_seconds is None else (max(m.peer_seconds, 0.01),)
                series.append(_series(_short(m.peer), [(t, m.peer_value) for t in at]))
        panels.append(Panel(network, "seconds", "Lipschitz constant", tuple(series), log=True, log_x=True))
    title = "The bracket of auto against time, and what others give"
    return document(line_chart(title, panels, looks, columns=SHOWN))


def _front_networks(rows: Sequence[Row]) -> list[tuple[str, list[Measured]]]:
    """Networks with a way and a peer: the preferred ones where they were measured, else those that took longest."""
    groups: dict[str, list[Measured]] = {}
    for row in rows:
        if row.section in ("anytime", "peers"):
            groups.setdefault(row.measured.network, []).append(row.measured)
    full = [
        (network, found)
        for network, found in groups.items()
        if any(m.curve and m.method == "auto" for m in found) and any(m.peer_value is not None for m in found)
    ]
    kept = [(n, [m for m in found if m.peer or (m.curve and m.method == "auto")]) for n, found in full]
    preferred = [pair for name in PREFERRED for pair in kept if pair[0] == name]
    longest = sorted(kept, key=lambda pair: -max(m.work or 0.0 for m in pair[1]))
    return (preferred or longest)[:SHOWN]


def anytime(rows: Sequence[Row]) -> str:
    """Both ends of the bracket for every network."""
    looks = ENDS | {"peer": Look(_GREY, "5 4", "square", hollow=True)}
    panels = []
    for m in (r.measured for r in rows if r.section == "anytime"):
        series = _ends(m)
        if m.peer_value is not None:
            series.append(_series("peer", [(t, m.peer_value) for t in (0.01, max(m.wall or 1.0, 0.1))]))
        panels.append(Panel(m.network, "seconds", "bracket", tuple(series), log=True, log_x=True))
    return document(line_chart("The bracket of auto against time", panels, looks, columns=3))


def relaxations(rows: Sequence[Row]) -> str:
    """How far every method ends above the best lower bound, against its processor seconds."""
    networks = {r.measured.network for r in rows if r.section == "relaxations"}
    rows = [r for r in rows if r.section in ("first", "relaxations") and r.measured.network in networks]
    methods = list(dict.fromkeys(r.measured.method for r in rows if r.measured.upper is not None))
    looks = {m: Look(_BLACK, "", METHODS[k % len(METHODS)], k >= len(METHODS)) for k, m in enumerate(methods)}
    panels = []
    for network, found in by_network(rows).items():
        floor = max((m.lower for m in found if m.lower is not None), default=None)
        if floor is None:
            continue
        points = [
            _series(m.method, [(max(m.cpu or 0.0, FIRST), 100 * max(m.upper / floor - 1, LEAST))])
            for m in found
            if m.upper is not None
        ]
        axis = "upper above lower bound (%)"
        panels.append(Panel(network, "processor seconds", axis, tuple(points), log=True, log_x=True))
    return document(line_chart("Certified upper bounds against time", panels, looks, columns=3))


def growth(rows: Sequence[Row]) -> str:
    """Counted work and wall time against the number of neurons, a line for every depth."""
    depths: dict[str, list[Measured]] = {}
    for m in (r.measured for r in rows if r.section == "growth"):
        depths.setdefault(m.network.split(",")[0], []).append(m)
    marks = zip(depths, PEER_LOOKS, (_BLACK, _BLUE, _GREEN, _RED), strict=False)
    looks = {name: Look(colour, "", mark) for name, mark, colour in marks}

    def neurons(m: Measured) -> float:
        return float(m.network.split(",")[1].split()[0])

    def panel(title: str, pick: Callable[[Measured], float | None]) -> Panel:
        points = {
            name: sorted((neurons(m), max(value, FIRST)) for m in found if (value := pick(m)) is not None)
            for name, found in depths.items()
        }
        series = tuple(_series(name, own) for name, own in points.items())
        return Panel(f"backward: {title}", "hidden neurons", title, series, log=True, log_x=True)

    panels = [panel("counted work", lambda m: m.work), panel("wall seconds", lambda m: m.wall)]
    return document(line_chart("What a semidefinite bound costs", panels, looks))


def scale(rows: Sequence[Row]) -> str:
    """Processor seconds and memory against the number of neurons."""
    found = sorted((r.measured for r in rows if r.section == "scale"), key=lambda m: float(m.facts["neurons"]))
    names = {"reading": "read", "within twice the last bound": "useful", "verifying": "verified"}
    marks = zip((*names, "most memory"), PEER_LOOKS, (_BLACK, _BLUE, _GREEN, _RED), strict=False)
    looks = {name: Look(colour, "", mark) for name, mark, colour in marks}

    def points(fact: str) -> list[Pair]:
        told = [m for m in found if fact in m.facts]
        return [(float(m.facts["neurons"]), max(float(m.facts[fact]), FIRST)) for m in told]

    times = tuple(_series(name, points(fact)) for name, fact in names.items() if points(fact))
    memory = _series("most memory", [(float(m.facts["neurons"]), m.gigabytes) for m in found if m.gigabytes])
    panels = [
        Panel("time", "neurons", "processor seconds", times, log=True, log_x=True),
        Panel("memory", "neurons", "gigabytes", (memory,), log=True, log_x=True),
    ]
    return document(line_chart("Networks of convolutions, from a thousand neurons on", panels, looks))
