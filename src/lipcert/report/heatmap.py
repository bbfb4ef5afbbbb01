"""The matrix of the constants L_ij: numbers in the cells, light to dark, so that grey is enough."""

from __future__ import annotations

import numpy as np

from lipcert.report.figures import down, plain, up
from lipcert.report.job import Job, Pair
from lipcert.report.markup import Markup, tag, together
from lipcert.report.svg import WIDTH, hatching, picture, text

_LIGHT, _DARK = np.array([241.0, 246.0, 252.0]), np.array([8.0, 48.0, 107.0])
BALANCE = 0.179  # the luminance on which black and white stand out equally
_DRAWN = 64  # classes up to which a cell is still seen
_NUMBERS = 12  # classes up to which a cell has room for its number


def heat_map(job: Job) -> Markup | None:
    """The drawing; None for two classes (one constant needs no matrix), for very many, and before any is proved."""
    proved = [p.upper for p in job.pairs if p.upper is not None]
    if not 3 <= job.classes <= _DRAWN or not proved:
        return None
    lo, hi = min(proved), max(proved)
    left, top = 34.0, 40.0
    side = (WIDTH - left - 4) / job.classes
    bottom = top + side * job.classes
    known = {(p.i, p.j): p for p in job.pairs}
    cells = [
        _cell(known.get((min(r, c), max(r, c))), (r, c), (left + c * side, top + r * side, side), (lo, hi), job.classes)
        for r in range(job.classes)
        for c in range(job.classes)
    ]
    return picture(
        "constants",
        "Proved Lipschitz constants of all pairs of scores",
        f"A symmetric matrix of {job.classes} by {job.classes} cells; darker is larger, from {up(lo)} to {up(hi)}. "
        "All numbers are in the table of brackets.",
        bottom + 58,
        hatching("constants-hatch", "hatch"),
        *cells,
        _names(job.classes, left, top, side),
        _bar(left, bottom + 12, lo, hi),
    )


def _cell(
    pair: Pair | None, at: tuple[int, int], box: tuple[float, float, float], span: tuple[float, float], classes: int
) -> Markup:
    (r, c), (x, y, side) = at, box
    square = {"x": x, "y": y, "width": side, "height": side}
    if r == c:
        return tag("rect", **square, class_="diagonal")
    where = f"scores {min(at)} and {max(at)}: "
    if pair is None or pair.upper is None:
        parts = [tag("title", where + "no constant proved"), tag("rect", **square, fill="url(#constants-hatch)")]
        return tag("g", *parts, text(x + side / 2, y + side / 2 + 4, "?", class_="absent"))
    level = (pair.upper - span[0]) / ((span[1] - span[0]) or 1.0)
    lower = "" if pair.lower is None else f", at least {down(pair.lower)}"
    parts = [
        tag("title", f"{where}at most {up(pair.upper)}{lower}"),
        tag("rect", **square, style=f"fill:{_colour(level)}", class_="cell" if classes <= _NUMBERS else "cell dense"),
    ]
    if classes <= _NUMBERS:
        label = up(pair.upper, 3)
        ink = "#ffffff" if luminance(level) < BALANCE else "#000000"
        size = min(13.0, 1.65 * side / max(len(label), 3), 0.5 * side)
        style = f"fill:{ink};font-size:{size:.1f}px"
        parts.append(text(x + side / 2, y + side / 2 + 0.36 * size, label, style=style))
    return tag("g", *parts)


def luminance(level: float) -> float:
    """Relative luminance of a cell, as the web's guidelines for contrast define it."""
    part = (_LIGHT + (_DARK - _LIGHT) * level) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _colour(level: float) -> str:
    red, green, blue = np.rint(_LIGHT + (_DARK - _LIGHT) * level).astype(int).tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


def _names(classes: int, left: float, top: float, side: float) -> Markup:
    shown = range(0, classes, max(1, -(-classes // 20)))
    parts = [text(left + (k + 0.5) * side, top - 6, str(k)) for k in shown]
    parts += [text(left - 6, top + (k + 0.5) * side + 4.5, str(k), "end") for k in shown]
    parts.append(text((left + WIDTH - 4) / 2, 14, "score i against score j", class_="name"))
    return together(parts)


def _bar(left: float, y: float, lo: float, hi: float) -> Markup:
    """What light and dark mean, in numbers."""
    pieces, width = 24, (WIDTH - left - 4) / 24
    parts = [
        tag("rect", x=left + k * width, y=y, width=width + 0.5, height=12, style=f"fill:{_colour(k / (pieces - 1))}")
        for k in range(pieces)
    ]
    parts.append(tag("rect", x=left, y=y, width=pieces * width, height=12, class_="outline"))
    labels = ((left, "start", up(lo)), (WIDTH - 4, "end", up(hi)))
    parts += [text(x, y + 28, label, anchor) for x, anchor, label in labels]
    parts.append(text((left + WIDTH - 4) / 2, y + 28, f"middle: {plain(float(f'{(lo + hi) / 2:.4g}'))}"))
    return together(parts)
