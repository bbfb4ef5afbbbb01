"""From the outcomes of a job to found values: what a cell says, in a number or in a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lipcert.errors import SoundnessError
from lipcert.jobs import Outcome
from lipcert.paper.cells import LBS, Cell
from lipcert.paper.estimators import Estimate

TIME, MEMORY, FAILED, NOT_RUN = "time", "memory", "failed", "not run"


@dataclass(frozen=True)
class Found:
    """A cell with its estimate, or the word that stands in its place."""

    cell: Cell
    estimate: Estimate | None = None
    word: str = NOT_RUN

    @property
    def value(self) -> float | None:
        """The method's own value; None when it did not come to its end."""
        if self.estimate is None or self.word:
            return None
        return self.estimate.lower if self.cell.method == LBS else self.estimate.upper

    @property
    def upper(self) -> float | None:
        """A proved upper bound, also when the method was stopped."""
        return None if self.estimate is None else self.estimate.upper

    @property
    def lower(self) -> float | None:
        return None if self.estimate is None else self.estimate.lower


class Findings:
    """All cells of a job that were asked for, by name; refuses contradictions."""

    def __init__(self, cells: Iterable[Cell], outcomes: Mapping[str, Outcome]) -> None:
        self._found = {cell.name: _found(cell, outcomes.get(cell.name)) for cell in cells}
        self._lower: dict[tuple[str, str], float] = {}
        for found in self._found.values():
            if found.lower is not None:
                key = (found.cell.network.name, found.cell.region)
                self._lower[key] = max(found.lower, self._lower.get(key, 0.0))
        self._check()

    def __getitem__(self, cell: Cell) -> Found:
        return self._found.get(cell.name, Found(cell))

    def __iter__(self) -> Iterator[Found]:
        return iter(self._found.values())

    def lower(self, cell: Cell) -> float | None:
        """The largest gradient norm that any method found for this network and region."""
        return self._lower.get((cell.network.name, cell.region))

    def _check(self) -> None:
        for found in self._found.values():
            lower = self.lower(found.cell)
            if found.upper is not None and lower is not None and found.upper < lower:
                raise SoundnessError(
                    f"{found.cell.name}: the bound {found.upper!r} lies below a gradient norm {lower!r} of the same "
                    "region: a bug in lipcert, please report it"
                )


def _found(cell: Cell, outcome: Outcome | None) -> Found:
    if outcome is None:
        return Found(cell)
    if outcome.value is None:
        return Found(cell, None, error_word(outcome.error or ""))
    estimate = Estimate(**outcome.value)
    return Found(cell, estimate, FAILED if estimate.ended == "solver" else estimate.ended)


def error_word(error: str) -> str:
    """Running out of something reads the same whoever noticed it; a program that is too large to build is memory."""
    text = error.lower()
    if "out of memory" in text or "products here; the limit" in text or "too large" in text:
        return MEMORY
    return TIME if "out of time" in text else FAILED
