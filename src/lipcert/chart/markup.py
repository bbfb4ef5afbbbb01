"""HTML and SVG elements as values. Text is escaped unless it is `Markup`, so forgetting to escape is not possible."""

from __future__ import annotations

import html
from collections.abc import Iterable


class Markup(str):
    """Text that is markup already. Formatting or adding gives a plain str again, which will be escaped."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | float | None) -> Markup:
    """One element; `class_` stands for class, and an underscore for a hyphen (stroke_width)."""
    return Markup(f"{_opening(name, attributes)}{together(children)}</{name}>")


def void(name: str, /, **attributes: str | float | None) -> Markup:
    """One HTML element that never has content: meta, img, br."""
    return Markup(_opening(name, attributes))


def together(parts: Iterable[str]) -> Markup:
    """Elements and texts, one after another."""
    return Markup("".join(part if isinstance(part, Markup) else html.escape(part) for part in parts))


def _opening(name: str, attributes: dict[str, str | float | None]) -> str:
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>"


def _value(value: str | float) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")  # pixels: two decimals are plenty
    return str(value)
