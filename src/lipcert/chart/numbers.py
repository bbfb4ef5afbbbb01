"""Numbers as people read them. Proved numbers are rounded outward: upper bounds up, lower bounds and radii down."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

_NONE = "–"


def up(value: float | None, digits: int = 4) -> str:
    """`value` rounded up, with all its digits."""
    return _rounded(value, digits, ROUND_CEILING)


def down(value: float | None, digits: int = 4) -> str:
    """`value` rounded down, with all its digits."""
    return _rounded(value, digits, ROUND_FLOOR)


def near(value: float | None, digits: int = 3) -> str:
    """Close to `value`, for what is measured and not proved."""
    return _rounded(value, digits, ROUND_HALF_EVEN)


def rounded_up(value: float, digits: int = 7) -> str:
    """`value` rounded up, as text prints numbers: without zeros at the end, and with inf and nan as words."""
    return _trimmed(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 7) -> str:
    """`value` rounded down, as text prints numbers."""
    return _trimmed(value, digits, ROUND_FLOOR)


def plain(value: float) -> str:
    """A number that was typed, as it was typed."""
    return f"{value:.12g}"


def percent(part: int, total: int, *, ceiling: bool = False) -> str:
    """part / total with two decimals, rounded down (or up) in whole numbers."""
    if total == 0:
        return _NONE
    hundredths = -(-part * 10000 // total) if ceiling else part * 10000 // total
    return f"{hundredths // 100}.{hundredths % 100:02d}\N{NO-BREAK SPACE}%"


def count(number: int) -> str:
    """A whole number with thin spaces between the thousands."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def several(number: int, thing: str) -> str:
    """1 pair, 45 pairs."""
    return f"{count(number)} {thing}{'' if number == 1 else 's'}"


def counted(number: int, thing: str, things: str | None = None) -> str:
    """For a terminal: 1 pair, 1,200 pairs; the plural where it is no s."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 60:
        return f"{near(seconds)} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def _rounded(value: float | None, digits: int, rounding: str) -> str:
    if value is None or not math.isfinite(value):
        return _NONE
    if value == 0:
        return "0"
    result = _quantized(value, digits, rounding)
    return f"{result:f}" if -5 <= result.adjusted() < digits + 2 else f"{result:.{digits - 1}e}"


def _trimmed(value: float, digits: int, rounding: str) -> str:
    rounded = _quantized(value, digits, rounding) if value and math.isfinite(value) else value
    return f"{float(rounded):.{digits}g}"


def _quantized(value: float, digits: int, rounding: str) -> Decimal:
    """A number that is not zero, to so many digits."""
    exact = Decimal(repr(float(value)))  # the shortest decimal that is this float: 0.1 stays 0.1 when rounded up
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=rounding)
