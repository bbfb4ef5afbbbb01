"""Shown: the base of all results and verifications, with a short table for people, one for notebooks, and a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from lipcert.files import write_json

if TYPE_CHECKING:
    from lipcert.chart.facts import Facts


class Shown:
    """A result that is printed and shown in a notebook by its `facts`, and saved by its `to_dict`."""

    kind: ClassVar[str] = "a result"  # for messages

    def facts(self) -> Facts:
        """The short table that a person reads first."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.facts().text()

    def _repr_html_(self) -> str:
        return self.facts().html()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as .json."""
        write_json(path, self.to_dict(), self.kind)
