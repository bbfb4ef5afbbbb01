"""The numbers of a stranger's file: the reader of each array states its kind, its shape and its inclusive range.

Every number that a checker takes from a file passes `checked`. The comparison is low <= x <= high in the array's own
type: nothing is cast, wrapped or made positive before the comparison. Therefore three traps do not pass: the least
int64, which has no absolute value; a uint64 of 2^63, which is negative as int64; and NaN, which compares as false.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError

LARGEST = sys.float_info.max  # the range of finite numbers is -LARGEST to LARGEST
LARGEST_WHOLE = (1 << 63) - 1
_EXACT = 1 << 53  # a whole number up to this size is a float64 exactly
_WIDEST = 8  # bytes of a float64; a wider number would be rounded

Shape = tuple[int | None, ...]  # None stands for any length


def checked(
    arrays: Mapping[str, Any], name: str, kind: Literal["whole", "real"], shape: Shape, low: float, high: float
) -> NDArray[Any]:
    """Return the array of this name as int64 or float64 after its kind, shape and range are checked.

    Whole numbers are integers by type; a float that happens to be whole is refused. Real numbers are floats of at most
    eight bytes, or integers that a float64 holds exactly. NaN is in no range, an infinity only where an end is one.
    """
    if name not in arrays:
        raise FileFormatError(f"array {name} is missing")
    array = arrays[name]
    if array.dtype.kind not in ("iu" if kind == "whole" else "fiu") or array.dtype.itemsize > _WIDEST:
        raise FileFormatError(f"array {name} has type {array.dtype}; {_KINDS[kind]} are needed")
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        wanted = " x ".join("any" if n is None else str(n) for n in shape) or "one number"
        raise FileFormatError(f"array {name} has the shape {array.shape}; it must be {wanted}")
    if array.size:
        least, most = array.min().item(), array.max().item()  # both are NaN where the array has a NaN
        if array.dtype.kind in "iu" and kind == "real":
            low, high = max(low, -_EXACT), min(high, _EXACT)
        if not (low <= least and most <= high):
            raise FileFormatError(f"array {name} has numbers from {least} to {most}; they must be {_words(low, high)}")
    return np.asarray(array, dtype=np.int64 if kind == "whole" else np.float64)


_KINDS = {"whole": "whole numbers", "real": "real numbers of at most 8 bytes"}


def _words(low: float, high: float) -> str:
    """A range in words, for a message."""
    if high in (LARGEST, LARGEST_WHOLE, math.inf):
        below = "finite" if high == LARGEST else "numbers"
        return below if low in (-LARGEST, -math.inf) else f"{low:g} or more"
    return f"between {low} and {high}" if low <= high else "none at all"


def whole(arrays: Mapping[str, Any], name: str, shape: Shape, low: int, high: int) -> NDArray[np.int64]:
    """An array of whole numbers from low to high."""
    return checked(arrays, name, "whole", shape, low, high)


def real(
    arrays: Mapping[str, Any], name: str, shape: Shape, low: float = -LARGEST, high: float = LARGEST
) -> NDArray[np.float64]:
    """An array of numbers from low to high: finite ones unless an end is infinite."""
    return checked(arrays, name, "real", shape, low, high)


def one_whole(arrays: Mapping[str, Any], name: str, low: int, high: int) -> int:
    """One whole number from low to high, in an array without axes."""
    return int(whole(arrays, name, (), low, high))


def one_real(arrays: Mapping[str, Any], name: str, low: float = -LARGEST, high: float = LARGEST) -> float:
    """One number from low to high, in an array without axes."""
    return float(real(arrays, name, (), low, high))


def within(table: NDArray[np.int64], lows: list[int], highs: list[int]) -> bool:
    """Whether every column of a table of whole numbers is in its own inclusive range."""
    return bool(np.all((table >= lows) & (table <= highs)))


def word(arrays: Mapping[str, Any], name: str) -> str:
    """One word, in an array of text without axes."""
    if name not in arrays:
        raise FileFormatError(f"array {name} is missing")
    value = arrays[name]
    if value.shape != () or value.dtype.kind != "U":
        raise FileFormatError(f"{name} must be one word")
    return str(value)
