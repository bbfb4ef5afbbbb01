"""A certification read back from its job folder. The folder is a stranger's: types, sizes and shapes are checked,
nothing is unpickled, contradictions are named.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError, SoundnessError
from lipcert.files import check_readable
from lipcert.files.archive import Archive
from lipcert.files.boundary import located
from lipcert.files.fields import Fields, read_fields
from lipcert.problem.norms import Norm
from lipcert.robustness.attack import Counterexamples, no_counterexamples
from lipcert.robustness.data import DataSet, Labels
from lipcert.robustness.decision import MISCLASSIFIED
from lipcert.robustness.pairs import MAX_CLASSES, PairConstant
from lipcert.robustness.result import Certification
from lipcert.rounding import Array

_ARRAY_NAMES = re.compile(r"[a-z_]{1,40}")
_FORMAT = 1


@dataclass(frozen=True)
class Tally:
    """How the correctly classified inputs end at one radius."""

    radius: float
    certified: int
    attacked: int
    undecided: int


@dataclass(frozen=True, eq=False)
class StoredJob:
    """What `lipcert certify --out` left in a folder.

    `result` has no inputs while the folder has no arrays.npz: the counts are then all that is known of them. Of the
    inputs it has those that were kept, and it does not say which were refined, only `refined` how many.
    """

    folder: Path
    question: Mapping[str, Any]
    result: Certification
    count: int
    correct: int
    misclassified: int
    tallies: tuple[Tally, ...]  # by radius, from result.json
    refined: int
    version: str
    agrees: bool  # result.json and arrays.npz say the same

    @property
    def has_inputs(self) -> bool:
        """Whether the results of single inputs are here."""
        return len(self.result.labels) > 0

    @property
    def last(self) -> Tally | None:
        """The tally at the largest radius."""
        return self.tallies[-1] if self.tallies else None

    def keeps(self, certificate: str) -> bool:
        """Whether a certificate is a file inside the folder."""
        path = PurePosixPath(certificate)
        if path.is_absolute() or ".." in path.parts or "\0" in certificate or len(certificate) >= 200:
            return False
        return (self.folder / certificate).is_file()


def read_job(folder: str | os.PathLike[str]) -> StoredJob:
    """The job in a folder, finished or not."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place}: no such folder; give the one that 'lipcert certify --out' wrote")
    for name, advice in (
        ("job.json", "in it; give a folder that 'lipcert certify --out' wrote"),
        ("result.json", "yet; let 'lipcert certify --resume' write one"),
    ):
        if not (place / name).exists():
            raise FileFormatError(f"{place}: no {name} {advice}")
    asked, told, arrays = read_fields(place / "job.json"), read_fields(place / "result.json"), place / "arrays.npz"
    with located(place / "job.json"):
        _check_kind(asked)
        question = dict(asked.inner("question").values)
    with located(place / "result.json"):
        _check_kind(told)
        count, complete = told.inner("data").whole("count"), told.flag("complete")
        summary = _summary(told, place)
        counts = told.inner("counts")
        correct, wrong = counts.whole("correct"), counts.whole("misclassified")
        tallies = _tallies(told, count, correct, wrong)
        refined = told.whole("refined") if told.has("refined") else 0
        version = told.text("version")
    if complete:
        check_readable(arrays)
    values, status = _no_inputs(), None
    if arrays.exists():
        values, status = _inputs(arrays, count, summary["data"])
    try:
        result = Certification(**{**summary, **values})
    except SoundnessError as error:
        raise SoundnessError(f"{arrays}: {error}") from None
    agrees = status is None or _agrees(result, status, tallies, wrong)
    return StoredJob(place, question, result, count, correct, wrong, tallies, refined, version, agrees)


def _check_kind(fields: Fields) -> None:
    if fields.whole("format") != _FORMAT:
        raise FileFormatError(f"format {fields.whole('format')} is not known here; this program reads {_FORMAT}")
    if fields.text("kind") != "certify":
        raise FileFormatError(f"a job of kind {fields.text('kind')!r}; reports are made of 'certify' jobs")


def _summary(fields: Fields, place: Path) -> dict[str, Any]:
    """The members of a Certification that are in result.json; its data set has no inputs yet."""
    network, data = fields.inner("network"), fields.inner("data")
    domain = fields.numbers("domain", negative=True) if fields.has("domain") else None
    if domain is not None and (len(domain) != 2 or domain[0] > domain[1]):
        raise FileFormatError("'domain' should be two numbers, the smaller one first")
    radii = fields.numbers("radii")
    if not radii or min(radii) == 0:
        raise FileFormatError("'radii' should be one or more numbers > 0")
    classes = fields.whole("classes", MAX_CLASSES)
    pairs = sorted((_pair(each, place, classes) for each in fields.each("pairs")), key=lambda p: (p.i, p.j))
    if len({(p.i, p.j) for p in pairs}) < len(pairs):
        raise FileFormatError("a pair of classes occurs twice")
    name = network.text("file") if network.has("file") else None
    source = data.text("file") if data.has("file") else None
    return {
        "network": {"file": name, "sha256": network.text("sha256"), "shape": network.wholes("shape")},
        "data": DataSet(np.zeros((0, 0)), None, source, data.scalar("scale"), _image_shape(data)),
        "domain": domain,
        "clip": fields.has("clip") and fields.flag("clip"),
        "radii": tuple(sorted(radii)),
        "method": fields.text("method"),
        "classes": classes,
        "pairs": tuple(pairs),
        "seconds": fields.number("seconds"),
        "complete": fields.flag("complete"),
        "failed": tuple((each.text("name"), each.text("error")) for each in fields.each("failed")),
        "notes": fields.texts("notes") if fields.has("notes") else (),
        "norm": Norm(fields.scalar("norm")),
    }


def _image_shape(data: Fields) -> tuple[int, ...] | None:
    """None when the inputs are no pictures that can be shown: neither grey nor of three colours."""
    if not data.has("image_shape"):
        return None
    shape = data.wholes("image_shape")
    colour = len(shape) == 3 and (shape[-1] in (1, 3) or shape[0] in (1, 3))
    return shape if len(shape) == 2 or colour else None


def _pair(fields: Fields, place: Path, classes: int) -> PairConstant:
    i, j = fields.whole("i"), fields.whole("j")
    if i == j or max(i, j) >= classes:
        raise FileFormatError(f"the pair ({i}, {j}) is none of {classes} classes")
    upper, lower = (fields.number(name) if fields.has(name) else None for name in ("upper", "lower"))
    if upper is not None and lower is not None and lower > upper:
        raise SoundnessError(f"{place}: pair ({i}, {j}) has a lower bound {lower!r} above its upper bound {upper!r}")
    certificate = fields.text("certificate") if fields.has("certificate") else None
    about = (fields.text("method"), fields.number("seconds"), certificate)
    return PairConstant(min(i, j), max(i, j), upper, lower, *about)


def _tallies(fields: Fields, count: int, correct: int, wrong: int) -> tuple[Tally, ...]:
    if correct + wrong > count:
        raise FileFormatError(f"{correct} correct and {wrong} misclassified of {count} inputs")
    found = []
    for each in fields.each("per_radius"):
        ends = [each.whole(name) for name in ("certified", "attacked", "undecided")]
        radius = each.number("radius")
        if sum(ends) > correct:
            raise FileFormatError(f"more outcomes at radius {radius:g} than correctly classified inputs")
        found.append(Tally(radius, *ends))
    return tuple(sorted(found, key=lambda t: t.radius))


def _no_inputs() -> dict[str, Any]:
    """The members of a Certification that arrays.npz would hold."""
    none = np.zeros(0, dtype=np.int64)
    return {
        "labels": none,
        "predicted": none,
        "certified_radius": np.zeros(0),
        "counterexamples": no_counterexamples(0, 0),
        "refined": np.zeros(0, dtype=bool),
    }


def _inputs(path: Path, count: int, data: DataSet) -> tuple[dict[str, Any], Labels]:
    """The members of a Certification that arrays.npz holds, and the status of every input as it was stored."""
    check_readable(path)
    with located(path):
        archive = Archive(path, _ARRAY_NAMES, content="the arrays of a job", advice="run the job again")
        labels, status = _wholes(archive, "labels", count), _wholes(archive, "status", count)
        if status.size and not 0 <= status.min() <= status.max() <= MISCLASSIFIED:
            raise FileFormatError("array status should hold 0, 1, 2 and 3 only")
        pictures = _pictures(archive, "images", data.image_shape)
        return {
            "data": replace(data, inputs=pictures),
            "labels": labels,
            "predicted": _wholes(archive, "predicted", count),
            "certified_radius": _radii(archive, "certified_radius", count),
            "counterexamples": _examples(archive, count, data.image_shape),
            "refined": np.zeros(0, dtype=bool),
        }, status


def _vector(archive: Archive, name: str, size: int) -> NDArray[Any]:
    array = archive[name]
    if array.shape != (size,):
        raise FileFormatError(f"array {name} has the shape {array.shape}, but there are {size} inputs")
    return array


def _wholes(archive: Archive, name: str, size: int) -> Labels:
    array = _vector(archive, name, size)
    if array.dtype.kind not in "iu":
        raise FileFormatError(f"array {name} should hold whole numbers")
    return array.astype(np.int64)


def _radii(archive: Archive, name: str, size: int) -> Array:
    array = _vector(archive, name, size).astype(np.float64)
    if not np.all(array >= 0):
        raise FileFormatError(f"array {name} should hold radii >= 0")
    return array


def _pictures(archive: Archive, name: str, shape: tuple[int, ...] | None) -> Array:
    """Rows that can be shown as pictures; none when they are not pictures."""
    if name not in archive or shape is None:
        return np.zeros((0, 0))
    array = archive[name]
    if array.ndim != 2 or array.shape[1] != math.prod(shape):
        raise FileFormatError(f"array {name} has the shape {array.shape}, but pictures are {shape}")
    return array.astype(np.float64)


def _examples(archive: Archive, count: int, shape: tuple[int, ...] | None) -> Counterexamples:
    radius, points = _radii(archive, "attack_radius", count), _pictures(archive, "examples", shape)
    if "examples" not in archive:
        return Counterexamples(radius, np.zeros(0, dtype=np.intp), points)
    owners = archive["example_index"]
    whole = owners.dtype.kind in "iu" and owners.shape == (len(archive["examples"]),)
    if not whole or (owners.size and not 0 <= owners.min() <= owners.max() < count):
        raise FileFormatError("array example_index does not say whose examples there are")
    return Counterexamples(radius, owners[: len(points)].astype(np.intp), points)


def _agrees(result: Certification, status: Labels, tallies: tuple[Tally, ...], wrong: int) -> bool:
    if not np.array_equal(status, result.status()):
        return False
    ends = np.bincount(status, minlength=4).tolist()
    last = tallies[-1] if tallies else None
    return last is None or ends == [last.undecided, last.certified, last.attacked, wrong]
