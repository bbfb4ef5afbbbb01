"""JSON of strangers: every value is checked against the kind that is expected, and errors are one line.

A kind is a function of a value and its name, which returns the value or raises FileFormatError.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lipcert.errors import FileFormatError
from lipcert.files import check_readable, contents
from lipcert.files.boundary import clean, located, quoted

MAX_JSON_BYTES = 64 << 20
MAX_ITEMS = 1 << 20  # in one list

Kind = Callable[[Any, str], Any]


def text(value: Any, name: str) -> str:
    _check(isinstance(value, str), name, "be text")
    return clean(value)


def verbatim(value: Any, name: str) -> str:
    """Text exactly as it stands in the file, to be compared; `text` is for showing."""
    _check(isinstance(value, str), name, "be text")
    return str(value)


def anything(value: Any, _: str) -> str:
    """Any value, as text to be shown."""
    return clean(value) if isinstance(value, str) else json.dumps(value)


def an_object(value: Any, name: str) -> dict[str, Any]:
    """An object with any fields."""
    _check(isinstance(value, dict), name, "be an object")
    return dict(value)


def flag(value: Any, name: str) -> bool:
    _check(isinstance(value, bool), name, "be true or false")
    return bool(value)


def whole(most: int = 1 << 40, least: int = 0) -> Kind:
    def kind(value: Any, name: str) -> int:
        _check(isinstance(value, int) and not isinstance(value, bool), name, "be a whole number")
        _check(least <= value <= most, name, f"be between {least} and {most}")
        return int(value)

    return kind


def number(value: Any, name: str) -> float:
    """A finite number."""
    _check(isinstance(value, (int, float)) and not isinstance(value, bool), name, "be a number")
    _check(abs(value) < 1 << 1023 and math.isfinite(value), name, "be finite")
    return float(value)


def size(value: Any, name: str) -> float:
    """A finite number >= 0: radii, bounds, seconds."""
    found = number(value, name)
    _check(found >= 0, name, "be at least 0")
    return found


def maybe(kind: Kind, instead: Any = None) -> Kind:
    """A kind whose value may be null or left out; it is then `instead`."""
    return lambda value, name: instead if value is None else kind(value, name)


def many(kind: Kind, words: str = "") -> Kind:
    """A list of values of a kind; `words`, where given, replace the messages about single items."""

    def check(value: Any, name: str) -> tuple[Any, ...]:
        _check(isinstance(value, list), name, "be a list")
        _check(len(value) <= MAX_ITEMS, name, f"have at most {MAX_ITEMS} items")
        try:
            return tuple(kind(item, f"{name}[{k}]") for k, item in enumerate(value))
        except FileFormatError:
            _check(not words, name, words)
            raise

    return check


def record(**kinds: Kind) -> Kind:
    """An object with these fields; other fields are ignored, and a missing field counts as null."""

    def check(value: Any, name: str) -> dict[str, Any]:
        inside, fields = f"{name}." if name else "", an_object(value, name)
        return {key: kind(fields.get(key), inside + key) for key, kind in kinds.items()}

    return check


def read_json(path: Path, constants: bool = False) -> Any:
    """Read the value in a JSON file; NaN and Infinity are refused unless `constants` is true."""
    check_readable(path)
    with located(path):
        if path.stat().st_size > MAX_JSON_BYTES:
            raise FileFormatError(f"more than {MAX_JSON_BYTES >> 20} MiB, which no job writes")
        try:
            return json.loads(contents(path), parse_constant=None if constants else _refuse)
        except (ValueError, RecursionError):
            raise FileFormatError("not readable JSON; the file is damaged") from None


def _check(good: bool, name: str, words: str) -> None:
    if not good:
        raise FileFormatError(f"{quoted(name)} should {words}" if name else f"the file is damaged: it should {words}")


def _refuse(constant: str) -> float:
    raise ValueError(constant)
