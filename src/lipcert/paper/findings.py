"""From the outcomes of a job to found values: what an entry says, in a number or in a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lipcert.errors import SoundnessError
from lipcert.jobs import Outcome
from lipcert.paper.entries import LBS, Entry
from lipcert.paper.estimators import Estimate

TIME, MEMORY, FAILED, NOT_RUN = "time", "memory", "failed", "not run"


@dataclass(frozen=True)
class Found:
    """An entry with its estimate, or the word that stands in its place."""

    entry: Entry
    estimate: Estimate | None = None
    word: str = NOT_RUN

    @property
    def value(self) -> float | None:
        """The method's own value; None when it did not come to its end."""
        if self.estimate is None or self.word:
            return None
        return self.estimate.lower if self.entry.method == LBS else self.estimate.upper

    @property
    def upper(self) -> float | None:
        """A proved upper bound, also when the method was stopped."""
        return None if self.estimate is None else self.estimate.upper

    @property
    def lower(self) -> float | None:
        return None if self.estimate is None else self.estimate.lower

    @property
    def seconds(self) -> float | None:
        return None if self.estimate is None else self.estimate.seconds

    def record(self) -> dict[str, float | str | None]:
        """The columns of a CSV file that every table has."""
        own = {"value": self.value, "upper": self.upper, "lower": self.lower}
        return {**own, "word": self.word, "seconds": self.seconds}


class Findings:
    """All entries of a job that were asked for, by name; refuses contradictions."""

    def __init__(self, entries: Iterable[Entry], outcomes: Mapping[str, Outcome]) -> None:
        self._found = {entry.name: _found(entry, outcomes.get(entry.name)) for entry in entries}
        self._lower: dict[tuple[str, str], float] = {}
        for found in self._found.values():
            if found.lower is not None:
                key = (found.entry.network.name, found.entry.region)
                self._lower[key] = max(found.lower, self._lower.get(key, 0.0))
        self._check()

    def __getitem__(self, entry: Entry) -> Found:
        return self._found.get(entry.name, Found(entry))

    def __iter__(self) -> Iterator[Found]:
        return iter(self._found.values())

    def lower(self, entry: Entry) -> float | None:
        """The largest gradient norm that any method found for this network and region."""
        return self._lower.get((entry.network.name, entry.region))

    def _check(self) -> None:
        for found in self._found.values():
            lower = self.lower(found.entry)
            if found.upper is not None and lower is not None and found.upper < lower:
                raise SoundnessError(
                    f"{found.entry.name}: the bound {found.upper!r} lies below a gradient norm {lower!r} of the same "
                    "region: a bug in lipcert, please report it"
                )


def _found(entry: Entry, outcome: Outcome | None) -> Found:
    if outcome is None:
        return Found(entry)
    if outcome.value is None:
        return Found(entry, None, error_word(outcome.error or ""))
    estimate = Estimate(**outcome.value)
    return Found(entry, estimate, FAILED if estimate.ended == "solver" else estimate.ended)


def error_word(error: str) -> str:
    """Running out of something reads the same whoever noticed it; a program that is too large to build is memory."""
    text = error.lower()
    if "out of memory" in text or "products here; the limit" in text or "too large" in text:
        return MEMORY
    return TIME if "out of time" in text else FAILED
