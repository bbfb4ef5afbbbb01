"""Certification: what became of every input, and everything needed to defend it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert._version import __version__
from lipcert.chart.facts import Facts, Shown
from lipcert.errors import SoundnessError
from lipcert.files import write_json, write_npz
from lipcert.problem.norms import INF, Norm
from lipcert.robustness.attack import Counterexamples
from lipcert.robustness.data import DataSet, Labels
from lipcert.robustness.decision import ATTACKED, CERTIFIED, STATUSES, UNDECIDED, Codes, decide
from lipcert.robustness.pairs import PairConstant
from lipcert.robustness.question import data_sentence
from lipcert.rounding import Array

PREDICTED = "no labels were given: the classes that the network predicts count as the true ones"
_IMAGES_KEPT = 2000
NUMBERS_KEPT = 1 << 26  # numbers of counterexamples in one archive, half of its limit


@dataclass(frozen=True, eq=False, repr=False)
class Certification(Shown):
    """For every input: its certified radius (0 where none is), and the nearest counterexample where one is known.

    `certified_radius[k]` is proved: no input within that distance has another class. `attack_radius[k]` is attained by
    a point where another class is proved to win, infinite where none was found.
    """

    network: dict[str, Any]
    data: DataSet
    domain: tuple[float, float] | None
    clip: bool
    radii: tuple[float, ...]
    method: str
    classes: int
    pairs: tuple[PairConstant, ...]
    labels: Labels
    predicted: Labels
    certified_radius: Array
    counterexamples: Counterexamples
    refined: NDArray[np.bool_]  # the inputs that were looked at one by one
    seconds: float
    complete: bool = True
    failed: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = field(default=())
    norm: Norm = INF

    def __post_init__(self) -> None:
        contradicted = np.flatnonzero(~self.wrong & (self.attack_radius <= self.certified_radius))
        if contradicted.size:
            k = int(contradicted[0])
            raise SoundnessError(
                f"input {k} is certified up to {self.certified_radius[k]!s} and has a counterexample at "
                f"{self.attack_radius[k]!s}: a bug in lipcert, please report it with the network"
            )

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """The inputs whose label is not the predicted one."""
        return np.asarray(self.labels != self.predicted)

    @property
    def attack_radius(self) -> Array:
        """The distance of the nearest counterexample known, infinite where there is none."""
        return self.counterexamples.radius

    def status(self, radius: float | None = None) -> Codes:
        """0 undecided, 1 certified, 2 attacked, 3 misclassified, for every input, at the largest radius or another."""
        r = self.radii[-1] if radius is None else radius
        return decide(r, self.certified_radius, self.attack_radius, self.wrong)

    def words(self, radius: float | None = None) -> list[str]:
        """The status of every input as a word."""
        return [STATUSES[code] for code in self.status(radius)]

    def counterexample(self, k: int) -> Array | None:
        """A point near input k where another class wins, None when none is known."""
        place = np.flatnonzero(self.counterexamples.places == k)
        return None if not place.size else self.counterexamples.points[place[0]]

    def counterexample_class(self, k: int) -> int | None:
        """The class that is above the label of input k at its counterexample, None when it is not known."""
        place = np.flatnonzero(self.counterexamples.places == k)
        classes = self.counterexamples.classes
        return None if classes is None or not place.size else int(classes[place[0]])

    def counts(self, radius: float) -> dict[str, int]:
        """How many inputs are certified, attacked and undecided at a radius; misclassified ones are in none."""
        status = self.status(radius)
        codes = {"certified": CERTIFIED, "attacked": ATTACKED, "undecided": UNDECIDED}
        return {name: int(np.sum(status == code)) for name, code in codes.items()}

    def facts(self) -> Facts:
        """The short table that a person reads first."""
        wrong, total = int(self.wrong.sum()), len(self.labels)
        rows = [] if PREDICTED in self.notes else [("classified right", f"{total - wrong} of {total}")]
        for r in self.radii:
            counts = ", ".join(f"{count} {word}" for word, count in self.counts(r).items())
            rows.append((f"radius {r:g}", counts))
        proved = sum(pair.upper is not None for pair in self.pairs)
        known = f"{proved} of {len(self.pairs)} pairs of classes proved ({self.method})" if self.pairs else "none"
        rows.append(("constants", known))
        rows.append(("time", f"{self.seconds:.2f} s{'' if self.complete else '   not complete'}"))
        rows += [("failed", f"{name}: {error}") for name, error in self.failed]
        rows += [("note", note) for note in self.notes]
        return Facts(self.sentence, rows)

    @property
    def sentence(self) -> str:
        """The question for a person."""
        return data_sentence(len(self.labels), self.radii, self.norm, self.domain, self.clip)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: everything but the arrays."""
        wrong = int(self.wrong.sum())
        shape = self.data.image_shape
        return {
            "format": 1,
            "kind": "certify",
            "complete": self.complete,
            "network": self.network,
            "data": {
                "file": self.data.source,
                "count": len(self.data),
                "scale": self.data.scale,
                "image_shape": None if shape is None else list(shape),
            },
            "statement": {"sentence": self.sentence},
            "norm": str(self.norm),
            "domain": None if self.domain is None else list(self.domain),
            "clip": self.clip,
            "radii": list(self.radii),
            "method": self.method,
            "classes": self.classes,
            "pairs": [pair.to_dict() for pair in self.pairs],
            "counts": {"correct": len(self.labels) - wrong, "misclassified": wrong},
            "per_radius": [{"radius": r, **self.counts(r)} for r in self.radii],
            "refined": int(self.refined.sum()),
            "failed": [{"name": name, "error": error} for name, error in self.failed],
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
            "version": __version__,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The values of every input, by name, as they are saved."""
        few = self.counterexamples.places[: NUMBERS_KEPT // max(1, self.counterexamples.points.shape[1])]
        classes = self.counterexamples.classes
        named = {} if classes is None else {"example_class": classes[: len(few)]}
        return named | {
            "labels": self.labels,
            "predicted": self.predicted,
            "certified_radius": self.certified_radius,
            "attack_radius": self.attack_radius,
            "status": self.status(),
            "images": self.data.inputs[:_IMAGES_KEPT].astype(np.float32),
            "examples": self.counterexamples.points[: len(few)],
            "example_index": few.astype(np.int64),
        }

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write arrays.npz, then result.json, into a folder that exists."""
        write_npz(Path(folder) / "arrays.npz", self.arrays())
        write_json(Path(folder) / "result.json", self.to_dict())
