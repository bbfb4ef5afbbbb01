"""What a job of `lipcert certify` left in its folder, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.report.figures import several

UNDECIDED, CERTIFIED, ATTACKED, MISCLASSIFIED = range(4)


@dataclass(frozen=True)
class Pair:
    """The bracket of one constant L_ij; `upper` is None where nothing was proved."""

    i: int
    j: int
    upper: float | None
    lower: float | None
    method: str
    seconds: float
    certificate: str | None
    present: bool  # the certificate is a file in the folder


@dataclass(frozen=True)
class Tally:
    """How the inputs end at one radius."""

    radius: float
    certified: int
    attacked: int
    undecided: int


@dataclass(frozen=True)
class Points:
    """One entry per input."""

    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    certified_radius: NDArray[np.float64]
    attack_radius: NDArray[np.float64]
    status: NDArray[np.uint8]
    images: NDArray[np.float32] | None
    examples: NDArray[np.float32] | None
    example_index: NDArray[np.int64] | None

    @property
    def correct(self) -> NDArray[np.bool_]:
        answer: NDArray[np.bool_] = self.status != MISCLASSIFIED
        return answer


@dataclass(frozen=True)
class Job:
    """The question and the answers; `points` is None while the job has not got to them."""

    folder: Path
    question: Mapping[str, Any]
    complete: bool
    network: str | None  # None: it came from memory, not from a file
    sha256: str
    shape: tuple[int, ...]
    data: str | None
    count: int
    scale: str
    image_shape: tuple[int, ...] | None
    norm: str
    domain: tuple[float, ...] | None
    clip: bool
    radii: tuple[float, ...]
    method: str
    classes: int
    pairs: tuple[Pair, ...]
    correct: int
    misclassified: int
    tallies: tuple[Tally, ...]
    refined: int
    failed: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    seconds: float
    version: str
    points: Points | None

    @property
    def expected_pairs(self) -> int:
        return self.classes * (self.classes - 1) // 2

    @property
    def last(self) -> Tally | None:
        """The tally at the largest radius."""
        return self.tallies[-1] if self.tallies else None

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader must know before any number."""
        found = [] if self.complete else ["The job has not finished. This page shows what there is so far."]
        proved = sum(p.upper is not None for p in self.pairs)
        if proved < self.expected_pairs:
            found.append(f"{proved} of {several(self.expected_pairs, 'constant')} proved.")
        if self.failed:
            found.append(f"{several(len(self.failed), 'failure')}, listed at the end.")
        absent = sum(p.certificate is not None and not p.present for p in self.pairs)
        if absent:
            found.append(f"{several(absent, 'certificate')} no longer in the folder.")
        if self.points is None:
            found.append("The results of single inputs are not here: no curve by input, no radii, no pictures.")
        elif self.last is not None and not self._agree(self.points, self.last):
            found.append("The table of radii and the results of single inputs do not agree; run the job again.")
        return tuple(found)

    def _agree(self, points: Points, last: Tally) -> bool:
        counts: list[int] = np.bincount(points.status, minlength=4).tolist()
        return counts == [last.undecided, last.certified, last.attacked, self.misclassified]
