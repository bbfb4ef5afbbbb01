"""JSON of strangers: every value is asked for with its type, and what is wrong is said in one line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lipcert.errors import FileFormatError
from lipcert.files import check_readable
from lipcert.files.boundary import clean, located, quoted

MAX_JSON_BYTES = 64 << 20
MAX_ITEMS = 1 << 20


class Fields:
    """One JSON object, read field by field."""

    def __init__(self, values: Mapping[str, Any], where: str = "") -> None:
        self.values = values
        self._where = where

    def has(self, name: str) -> bool:
        """Whether there is such a field, and it is not null."""
        return self.values.get(name) is not None

    def text(self, name: str) -> str:
        return clean(self._get(name, (str,), "text"))

    def texts(self, name: str) -> tuple[str, ...]:
        items = self._items(name)
        if not all(isinstance(item, str) for item in items):
            raise self._wrong(name, "be a list of texts")
        return tuple(clean(item) for item in items)

    def flag(self, name: str) -> bool:
        return bool(self._get(name, (bool,), "true or false"))

    def whole(self, name: str, most: int = 1 << 40) -> int:
        value = self._get(name, (int,), "a whole number")
        if not 0 <= value <= most:
            raise self._wrong(name, f"be between 0 and {most}")
        return int(value)

    def wholes(self, name: str) -> tuple[int, ...]:
        values = self._items(name)
        if not all(isinstance(v, int) and not isinstance(v, bool) and 0 < v < 1 << 31 for v in values):
            raise self._wrong(name, "be a list of whole numbers > 0")
        return tuple(values)

    def number(self, name: str) -> float:
        """A finite number >= 0: radii, bounds, seconds."""
        return self._finite(name, self._get(name, (int, float), "a number"), negative=False)

    def numbers(self, name: str, *, negative: bool = False) -> tuple[float, ...]:
        return tuple(self._finite(name, value, negative=negative) for value in self._items(name))

    def inner(self, name: str) -> Fields:
        return Fields(self._get(name, (dict,), "an object"), f"{self._where}{name}.")

    def each(self, name: str) -> list[Fields]:
        items = self._items(name)
        if not all(isinstance(item, dict) for item in items):
            raise self._wrong(name, "be a list of objects")
        return [Fields(item, f"{self._where}{name}[{k}].") for k, item in enumerate(items)]

    def scalar(self, name: str) -> str:
        """Whatever was stated, as text."""
        value = self.values.get(name)
        return clean(value) if isinstance(value, str) else json.dumps(value)

    def _get(self, name: str, kinds: tuple[type, ...], words: str) -> Any:
        if name not in self.values:
            raise FileFormatError(f"{quoted(self._where + name)} is missing")
        value = self.values[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self._wrong(name, f"be {words}")
        return value

    def _items(self, name: str) -> list[Any]:
        items = self._get(name, (list,), "a list")
        if len(items) > MAX_ITEMS:
            raise self._wrong(name, f"have at most {MAX_ITEMS} items, not {len(items)}")
        return list(items)

    def _finite(self, name: str, value: Any, *, negative: bool) -> float:
        number = math.nan
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
        if not math.isfinite(number) or (number < 0 and not negative):
            raise self._wrong(name, f"hold finite numbers{'' if negative else ' >= 0'}")
        return number

    def _wrong(self, name: str, words: str) -> FileFormatError:
        return FileFormatError(f"{quoted(self._where + name)} should {words}")


def read_fields(path: Path) -> Fields:
    """The one object in a JSON file."""
    check_readable(path)
    with located(path):
        if path.stat().st_size > MAX_JSON_BYTES:
            raise FileFormatError(f"more than {MAX_JSON_BYTES >> 20} MiB, which no job writes")
        try:
            values = json.loads(path.read_bytes(), parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise FileFormatError("not readable JSON; the file is damaged") from None
        if not isinstance(values, dict):
            raise FileFormatError("not a JSON object; the file is damaged")
        return Fields(values)


def _refuse(constant: str) -> float:
    raise ValueError(constant)
