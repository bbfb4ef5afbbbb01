"""Forged certificates: the arrays of an honest file, changed by a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from lipcert.problem.region import Region

C = TypeVar("C")

WORDS = ("wording", "sentence")


def wordless(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays without the words of the statement, which would give a changed question away before any proof."""
    return {name: value for name, value in arrays.items() if name not in WORDS}


def asking(certificate: C, *, region: Region | None = None, **changes: Any) -> C:
    """The certificate with another question, and the proof that it had."""
    kept: Any = certificate
    places = {} if region is None else {"regions": (region,)}
    forged: C = replace(kept, question=replace(kept.question, **places, **changes))
    return forged
