"""The matrix of the constants L_ij: a number in each square, light to dark, so that grey is enough."""

from __future__ import annotations

import numpy as np

from lipcert.chart.numbers import down, plain, up
from lipcert.chart.shapes import Box, Drawing, Paint, Shape, Text
from lipcert.robustness.pairs import PairConstant
from lipcert.robustness.result import Certification

_LIGHT, _DARK = np.array([241.0, 246.0, 252.0]), np.array([8.0, 48.0, 107.0])
BALANCE = 0.179  # the luminance on which black and white stand out equally
_NUMBERS = 12  # classes up to which a square has room for its number
_LEFT, _TOP, _WIDTH = 34.0, 40.0, 402.0  # of the matrix


def heat_map(result: Certification) -> Drawing | None:
    """The drawing; None before any constant is proved."""
    proved = [p.upper for p in result.pairs if p.upper is not None]
    if not proved:
        return None
    n, lo, hi = result.classes, min(proved), max(proved)
    side = _WIDTH / n
    known = {(p.i, p.j): p for p in result.pairs}
    shapes: list[Shape] = []
    for row in range(n):
        for column in range(n):
            square = (_LEFT + column * side, _TOP + row * side, side, side)
            if row == column:
                shapes.append(Box(*square, Paint(fill="panel")))
            else:
                i, j = min(row, column), max(row, column)
                hint = f"scores {i} and {j}: "
                shapes += _square(known.get((i, j)), square, (lo, hi), hint, n <= _NUMBERS)
    return Drawing(
        "constants",
        "Proved Lipschitz constants of all pairs of scores",
        f"A symmetric matrix of {n} by {n} squares; darker is larger, from {up(lo)} to {up(hi)}. "
        "All numbers are in the table of brackets.",
        _LEFT + _WIDTH + 4,
        _TOP + _WIDTH + 58,
        [*shapes, *_names(n, side), *_scale(_TOP + _WIDTH + 12, lo, hi)],
    )


def _square(
    pair: PairConstant | None,
    square: tuple[float, float, float, float],
    span: tuple[float, float],
    hint: str,
    numbers: bool,
) -> list[Shape]:
    """The square of one pair, with its number where there is room."""
    x, y, side, _ = square
    if pair is None or pair.upper is None:
        missing = Text(x + side / 2, y + side / 2 + 4, "?", bold=True)
        return [Box(*square, Paint(hatch="hatch"), f"{hint}no constant proved"), missing]
    level = (pair.upper - span[0]) / ((span[1] - span[0]) or 1.0)
    hint += f"at most {up(pair.upper)}" + ("" if pair.lower is None else f", at least {down(pair.lower)}")
    paint = Paint(fill=shade(level), stroke="paper", width=1 if numbers else 0.3)
    box = Box(*square, paint, hint, kind="cell" if numbers else "cell dense")
    if not numbers:
        return [box]
    label = up(pair.upper, 3)
    ink = "#ffffff" if luminance(level) < BALANCE else "#000000"
    size = min(12.9, 1.65 * side / max(len(label), 3), 0.5 * side)
    return [box, Text(x + side / 2, y + side / 2 + 0.36 * size, label, colour=ink, size=size)]


def luminance(level: float) -> float:
    """Relative luminance of a square, as the web's guidelines for contrast define it."""
    part = (_LIGHT + (_DARK - _LIGHT) * level) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def shade(level: float) -> str:
    """The colour of a level from 0, light, to 1, dark."""
    red, green, blue = np.rint(_LIGHT + (_DARK - _LIGHT) * level).astype(int).tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


def _names(classes: int, side: float) -> list[Shape]:
    shown = range(0, classes, max(1, -(-classes // 20)))
    above = [Text(_LEFT + (k + 0.5) * side, _TOP - 6, str(k)) for k in shown]
    beside = [Text(_LEFT - 6, _TOP + (k + 0.5) * side + 4.5, str(k), "end") for k in shown]
    return [*above, *beside, Text(_LEFT + _WIDTH / 2, 14, "score i against score j", colour="soft")]


def _scale(y: float, lo: float, hi: float) -> list[Shape]:
    """What light and dark mean, in numbers."""
    pieces, width = 24, _WIDTH / 24
    colours = [Paint(fill=shade(k / (pieces - 1))) for k in range(pieces)]
    right = _LEFT + _WIDTH
    return [
        *(Box(_LEFT + k * width, y, width + 0.5, 12, colour) for k, colour in enumerate(colours)),
        Box(_LEFT, y, _WIDTH, 12, Paint(stroke="soft")),
        Text(_LEFT, y + 28, up(lo), "start"),
        Text(_LEFT + _WIDTH / 2, y + 28, f"middle: {plain(float(f'{(lo + hi) / 2:.4g}'))}"),
        Text(right, y + 28, up(hi), "end"),
    ]
