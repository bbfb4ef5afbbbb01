"""How far a job is, and how long it will take."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """`done` counts the `failed` ones too; `remaining` is an estimate in seconds, None while nothing is known."""

    done: int
    failed: int
    total: int
    seconds: float
    remaining: float | None
    last: str | None = None

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        left = "" if self.remaining is None else f", about {in_words(self.remaining)} left"
        return f"{self.done} of {self.total} done{failed}, {in_words(self.seconds)}{left}"


def estimate(mean: float | None, ages: Collection[float], waiting: int, workers: int) -> float | None:
    """Seconds until all is done, if running pieces (their ages) and waiting ones take the mean of the finished ones.

    A piece already older than the mean is expected to take half its age more, so that one long piece at the
    end does not read "0 s left" for an hour. Shared by the workers, but never less than the longest single piece.
    """
    if not ages and not waiting:
        return 0.0
    if mean is None:
        return None
    running = [mean - age if age < 2 / 3 * mean else age / 2 for age in ages]
    single = max([*running, mean if waiting else 0.0])
    return max(single, (sum(running) + waiting * mean) / max(workers, 1))


def in_words(seconds: float) -> str:
    """12 s, 3 min 20 s, 5 h 4 min, 2 d 3 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
