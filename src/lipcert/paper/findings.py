"""From the outcomes of a job to estimates: what became of each entry, in a number or in a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lipcert.errors import SoundnessError
from lipcert.jobs import Outcome
from lipcert.paper.entries import Entry
from lipcert.paper.estimators import FAILED, TIME, Estimate

MEMORY, NOT_RUN = "memory", "not run"


class Findings:
    """The estimates of all entries that were asked for; refuses contradictions."""

    def __init__(self, entries: Iterable[Entry], outcomes: Mapping[str, Outcome]) -> None:
        self.entries = [*entries]
        self._found = {entry.name: _estimate(outcomes.get(entry.name)) for entry in self.entries}
        self._lower: dict[tuple[str, str], float] = {}
        for entry in self.entries:
            lower, key = self[entry].lower, (entry.network.name, entry.region)
            if lower is not None:
                self._lower[key] = max(lower, self._lower.get(key, 0.0))
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
        return self._lower.get((entry.network.name, entry.region))


def _estimate(outcome: Outcome | None) -> Estimate:
    if outcome is None:
        return Estimate(ended=NOT_RUN)
    return Estimate(ended=error_word(outcome.error or "")) if outcome.value is None else Estimate(**outcome.value)


def error_word(error: str) -> str:
    """Running out of something reads the same whoever noticed it; a program that is too large to build is memory."""
    text = error.lower()
    if "out of memory" in text or "products here; the limit" in text or "too large" in text:
        return MEMORY
    return TIME if "out of time" in text else FAILED
