"""From the outcomes of a job to estimates: what became of each entry, in a number or in a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lipcert.errors import SoundnessError
from lipcert.jobs import Outcome
from lipcert.paper.entries import Entry
from lipcert.paper.estimators import FAILED, TIME, Estimate

MEMORY, NOT_RUN, NOT_TRIED = "memory", "not run", "not tried"


@dataclass(frozen=True)
class Attained:
    """The norm of a gradient, which method found it, and the point."""

    value: float
    method: str
    point: tuple[float, ...] | None

    @property
    def written(self) -> str:
        """The point as text from which it can be read back to the last bit."""
        return "" if self.point is None else " ".join(map(repr, self.point))


class Findings:
    """The estimates of all entries that were asked for; refuses contradictions."""

    def __init__(self, entries: Iterable[Entry], outcomes: Mapping[str, Outcome]) -> None:
        self.entries = [*entries]
        self._found = {entry.name: estimate_of(outcomes.get(entry.name)) for entry in self.entries}
        self._witness: dict[tuple[str, str], Attained] = {}
        for entry in self.entries:
            found, key = self[entry], (entry.network.name, entry.region)
            if found.lower is not None and (key not in self._witness or found.lower > self._witness[key].value):
                self._witness[key] = Attained(found.lower, entry.method, found.point)
        for entry in self.entries:
            upper, lower = self[entry].upper, self.lower(entry)
            if upper is not None and lower is not None and upper < lower:
                raise SoundnessError(
                    f"{entry.name}: the bound {upper!r} lies below a gradient norm {lower!r} of the same region: "
                    "a bug in lipcert, please report it"
                )

    def __getitem__(self, entry: Entry) -> Estimate:
        return self._found.get(entry.name, Estimate(ended=NOT_RUN))

    def lower(self, entry: Entry) -> float | None:
        """The largest gradient norm that any method found for this network and region."""
        witness = self.witness(entry)
        return None if witness is None else witness.value

    def witness(self, entry: Entry) -> Attained | None:
        """Where it was found."""
        return self._witness.get((entry.network.name, entry.region))


def estimate_of(outcome: Outcome | None) -> Estimate:
    if outcome is None:
        return Estimate(ended=NOT_RUN)
    if outcome.value is None:
        return Estimate(ended=error_word(outcome.error or ""), note=outcome.error or "")
    point = outcome.value.get("point")
    return Estimate(**{**outcome.value, "point": None if point is None else tuple(point)})


def error_word(error: str) -> str:
    """Running out of something reads the same whoever noticed it; a program that is too large to build is memory."""
    text = error.lower()
    if "out of memory" in text or "products here; the limit" in text or "too large" in text:
        return MEMORY
    return TIME if "out of time" in text else FAILED
