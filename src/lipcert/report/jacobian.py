"""The entries of a Jacobian as a matrix: scores down, inputs across; the sign in each square, light to dark by size."""

from __future__ import annotations

import numpy as np

from lipcert.chart.numbers import down, up
from lipcert.chart.shapes import Box, Drawing, Paint, Shape, Text
from lipcert.report.heatmap import BALANCE, luminance, shade
from lipcert.search.jacobian.goal import Verdict
from lipcert.search.jacobian.result import Jacobian

_LEFT, _TOP, _WIDTH = 56.0, 40.0, 520.0  # of the matrix
_SIDE = 92.0  # the largest side of a square,
_HIGH = 8.0  # and the least height of a row
_NUMBERS, _SIGNS = 60.0, 12.0  # sides from which a square has room for numbers, and for a sign
_NAMED = 20  # rows and columns that have their number beside them, at most
MARKS = {
    Verdict.INCREASING.value: "+",
    Verdict.DECREASING.value: "\N{MINUS SIGN}",
    Verdict.ZERO.value: "0",
    Verdict.BOTH.value: "\N{PLUS-MINUS SIGN}",
    Verdict.OPEN.value: "?",
}


def entry_map(found: Jacobian) -> Drawing:
    """The drawing; a square is as dark as the largest |value| that its entry may have."""
    rows, columns = found.lower.shape
    across = min(_WIDTH / columns, _SIDE)
    high = max(min(across, _SIDE), _HIGH)
    size = np.maximum(np.abs(found.lower), np.abs(found.upper))
    finite = size[np.isfinite(size)]
    most = float(finite.max(initial=0.0))
    shapes: list[Shape] = []
    for i in range(rows):
        for j in range(columns):
            place = (_LEFT + j * across, _TOP + i * high, across, high)
            shapes += _square(found, i, j, place, float(size[i, j]) / (most or 1.0))
    counts = ", ".join(f"{count:,} {word}" for word, count in found.counts.items() if count)
    below, width = _TOP + rows * high, max(columns * across, 420.0)
    legend = "   ".join(f"{mark} {word}" for word, mark in MARKS.items())
    return Drawing(
        "jacobian",
        f"Proved bounds of the Jacobian, {rows} x {columns} entries",
        f"Scores down, inputs across; darker is larger, up to {up(most)}. {counts}",
        _LEFT + width + 16,
        below + 88,
        [
            *shapes,
            *_names(found, across, high),
            Text(_LEFT, below + 24, legend, "start", colour="soft"),
            *_scale(below + 38, width, most),
        ],
    )


def _square(found: Jacobian, i: int, j: int, place: tuple[float, float, float, float], level: float) -> list[Shape]:
    x, y, width, height = place
    lower, upper, word = float(found.lower[i, j]), float(found.upper[i, j]), str(found.verdicts[i, j])
    hint = f"d score {found.scores[i]} / d input {found.inputs[j]}: "
    if not np.isfinite(level):
        return [Box(*place, Paint(hatch="hatch"), f"{hint}no bound proved")]
    hint += f"from {down(lower)} to {up(upper)}, {word}"
    shapes: list[Shape] = [Box(*place, Paint(fill=shade(level), stroke="paper", width=0.5), hint)]
    ink, middle = "#ffffff" if luminance(level) < BALANCE else "#000000", x + width / 2
    if min(width, height) >= _SIGNS:
        numbers = min(width, height) >= _NUMBERS
        raised = y + height / 2 + (-6.0 if numbers else 4.5)
        shapes.append(Text(middle, raised, MARKS[word], colour=ink, bold=True))
        if numbers:
            label = (down(lower, 3), up(upper, 3))
            small = min(11.0, 1.6 * width / max(map(len, label)))
            shapes += [Text(middle, y + height / 2 + 10 + 13 * k, label[k], colour=ink, size=small) for k in (0, 1)]
    return shapes


def _names(found: Jacobian, across: float, high: float) -> list[Shape]:
    rows, columns = found.lower.shape
    named = [range(0, count, max(1, -(-count // _NAMED))) for count in (rows, columns)]
    beside = [Text(_LEFT - 6, _TOP + (i + 0.5) * high + 4.5, str(found.scores[i]), "end") for i in named[0]]
    above = [Text(_LEFT + (j + 0.5) * across, _TOP - 6, str(found.inputs[j])) for j in named[1]]
    titles = [
        Text(_LEFT + columns * across / 2, 14, "input", colour="soft"),
        Text(14, _TOP + rows * high / 2, "score", colour="soft", turned=True),
    ]
    return [*beside, *above, *titles]


def _scale(y: float, width: float, most: float) -> list[Shape]:
    """What light and dark mean, in numbers."""
    pieces = 24
    step = width / pieces
    colours = [Paint(fill=shade(k / (pieces - 1))) for k in range(pieces)]
    return [
        *(Box(_LEFT + k * step, y, step + 0.5, 12, colour) for k, colour in enumerate(colours)),
        Box(_LEFT, y, width, 12, Paint(stroke="soft")),
        Text(_LEFT, y + 28, "0", "start"),
        Text(_LEFT + width, y + 28, f"|entry| up to {up(most)}", "end"),
    ]
