"""Forged certificates: the arrays of an honest file, changed by a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WORDS = ("wording", "sentence")


def wordless(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays without the words of the statement, which would give a changed question away before any proof."""
    return {name: value for name, value in arrays.items() if name not in WORDS}
