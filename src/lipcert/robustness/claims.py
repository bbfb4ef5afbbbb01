"""What a job folder claims, read as a stranger's: result.json and arrays.npz, before anything of it is proved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError
from lipcert.files.boundary import located
from lipcert.files.json_kinds import many, maybe, number, read_json, record, size, whole
from lipcert.jobs.folder import read_job_file
from lipcert.robustness.attack import Counterexamples
from lipcert.robustness.data import Labels
from lipcert.robustness.stored import RESULT, Arrays, example_classes, radii_of, read_arrays, read_part, wholes
from lipcert.rounding import Array

_PAIR = record(i=whole(), j=whole(), upper=maybe(size), lower=maybe(size))
_POINT = record(value=record(witness=maybe(many(number))))


@dataclass(frozen=True)
class PairClaim:
    """lower <= L_ij <= upper; None where nothing is claimed."""

    i: int
    j: int
    upper: float | None
    lower: float | None

    @property
    def name(self) -> str:
        """That of its piece."""
        return f"pair-{self.i}-{self.j}"


@dataclass(frozen=True, eq=False)
class Claims:
    """Of every input the radii and the status; of every pair the constant; and what was asked, as the folder says."""

    folder: Path
    question: dict[str, Any]
    told: dict[str, Any]  # result.json
    pairs: tuple[PairClaim, ...]
    labels: Labels
    predicted: Labels
    status: NDArray[np.int64]
    certified: Array
    counterexamples: Counterexamples
    images: NDArray[Any]

    def file(self, name: str) -> Path:
        """Where the certificate of a piece should be."""
        return self.folder / "pieces" / f"{name}.npz"

    def point(self, pair: PairClaim) -> tuple[float, ...] | None:
        """The point of a pair's lower bound, from the record of its piece; None when there is none."""
        try:
            told = _POINT(read_json(self.folder / "pieces" / f"{pair.name}.json"), "")
        except InputError:
            return None
        found: tuple[float, ...] | None = told["value"]["witness"]
        return found


def read_claims(folder: Path) -> Claims:
    """The claims of a job, finished or not."""
    if not (folder / "job.json").is_file():
        raise FileFormatError(f"{folder}: no job.json in it; give a folder that 'lipcert certify --out' wrote")
    if not (folder / "result.json").is_file():
        raise FileFormatError(f"{folder}: no result.json yet; let 'lipcert certify --resume' write one")
    question = read_job_file(folder / "job.json")["question"]
    told = read_part(folder / "result.json", RESULT)
    with located(folder / "result.json"):
        pairs = tuple(PairClaim(**_PAIR(pair, f"pairs[{k}]")) for k, pair in enumerate(told["pairs"]))
        if len({(p.i, p.j) for p in pairs}) < len(pairs) or not all(p.i < p.j < told["classes"] for p in pairs):
            raise FileFormatError("'pairs' should hold every pair i < j of classes once")
    path = folder / "arrays.npz"
    with located(path):
        return Claims(folder, question, told, pairs, **_of_arrays(read_arrays(path), told["data"]["count"]))


def _of_arrays(arrays: Arrays, count: int) -> dict[str, Any]:
    attacked = radii_of(arrays, "attack_radius", count)
    points, images, owners = arrays["examples"], arrays["images"], arrays["example_index"]
    if points.ndim != 2 or images.ndim != 2 or any(a.dtype.kind != "f" for a in (points, images)):
        raise FileFormatError("the arrays examples and images should hold one row of numbers for each input")
    if owners.dtype.kind not in "iu" or owners.shape != (len(points),) or not np.all((owners >= 0) & (owners < count)):
        raise FileFormatError("array example_index does not say whose examples there are")
    return {
        "labels": wholes(arrays, "labels", count),
        "predicted": wholes(arrays, "predicted", count),
        "status": wholes(arrays, "status", count),
        "certified": radii_of(arrays, "certified_radius", count),
        "counterexamples": Counterexamples(
            attacked, owners.astype(np.intp), points.astype(np.float64), example_classes(arrays, len(owners))
        ),
        "images": images,
    }
