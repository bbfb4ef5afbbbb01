"""The job folder of `certify`, read as a stranger's: types, sizes and shapes are checked, nothing is unpickled.

`read_job` gives the report what the folder says, and refuses contradictions. `read_claims` gives `verify_folder` every
claim before any of them is proved. `read_sources` says which files the network and the data came from.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError, SoundnessError
from lipcert.files import check_readable, write_bytes
from lipcert.files.archive import Archive, Expected
from lipcert.files.boundary import located
from lipcert.files.json_kinds import (
    Kind,
    an_object,
    anything,
    flag,
    many,
    maybe,
    number,
    read_json,
    record,
    size,
    text,
    verbatim,
    whole,
)
from lipcert.jobs.folder import read_job_file
from lipcert.problem.norms import Norm
from lipcert.robustness.attack import Counterexamples
from lipcert.robustness.data import DataSet, Labels, Origin
from lipcert.robustness.decision import STATUSES
from lipcert.robustness.pairs import MAX_CLASSES, PairConstant
from lipcert.robustness.refine import NAMES
from lipcert.robustness.result import Certification
from lipcert.rounding import Array

_ARRAY_NAMES = re.compile(r"[a-z_]{1,40}")
_FORMAT = 1
_NOTHING = {
    name: np.zeros(0, dtype=np.int64) for name in ("labels", "predicted", "status", "certified_radius", "attack_radius")
}

Arrays = Mapping[str, NDArray[Any]]
_WHOLES = many(whole(least=1, most=1 << 31), "be a list of whole numbers > 0")
JOB = record(question=an_object)
_BRACKET = record(upper=maybe(size), lower=maybe(size), method=text, seconds=size, certificate=maybe(text))
RESULT = record(
    complete=flag,
    network=record(file=maybe(text), sha256=text, shape=_WHOLES),
    data=record(file=maybe(text), count=whole(), scale=anything, image_shape=maybe(_WHOLES)),
    norm=anything,
    domain=maybe(many(number, "hold finite numbers")),
    clip=maybe(flag, instead=False),
    radii=many(size, "hold finite numbers >= 0"),
    method=text,
    classes=whole(MAX_CLASSES),
    pairs=many(an_object, "be a list of objects"),
    counts=record(correct=whole(), misclassified=whole()),
    per_radius=many(record(radius=size, certified=whole(), attacked=whole(), undecided=whole())),
    refined=maybe(whole(), instead=0),
    failed=many(record(name=text, error=text)),
    notes=maybe(many(text, "be a list of texts"), instead=()),
    seconds=size,
    version=text,
)
_PAIR_CLAIM = record(i=whole(), j=whole(), upper=maybe(size), lower=maybe(size))
_POINT = record(value=record(witness=maybe(many(number))))
SOURCES = "sources.json"
_PATH = maybe(verbatim)
_DATA = record(path=verbatim, labels=_PATH, scale=_PATH, first=maybe(whole(least=1)), label_column=_PATH)
_SOURCES_RECORD = record(network=_PATH, data=maybe(_DATA))


@dataclass(frozen=True)
class Tally:
    """How the correctly classified inputs end at one radius."""

    radius: float
    certified: int
    attacked: int
    undecided: int


@dataclass(frozen=True, eq=False)
class StoredJob:
    """A folder that `lipcert certify --out` filled.

    `result` has no inputs while the folder has no arrays.npz: only the counts are known then. It has the inputs that
    were kept, and does not say which were refined; `refined` is their number.
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
    if place.is_file():
        raise InputError(f"{place}: a file, not a folder; give the one that 'lipcert certify --out' wrote")
    if not place.is_dir():
        raise InputError(f"{place}: no such folder; give the one that 'lipcert certify --out' wrote")
    _check_finished(place)
    question = read_part(place / "job.json", JOB)["question"]
    content = read_part(place / "result.json", RESULT)
    with located(place / "result.json"):
        summary, tallies = _summary(content, place), _tallies(content)
    counts = (content["data"]["count"], content["counts"]["correct"], content["counts"]["misclassified"])
    path = place / "arrays.npz"
    here = content["complete"] or path.exists()
    with located(path):
        arrays = read_arrays(path) if here else _NOTHING
        values = _inputs(arrays, counts[0] if here else 0, summary["data"])
    try:
        result = Certification(**{**summary, **values})
    except SoundnessError as error:
        raise SoundnessError(f"{path}: {error}") from None
    agrees = not here or _agrees(result, arrays["status"], tallies, counts[2])
    return StoredJob(place, question, result, *counts, tallies, content["refined"], content["version"], agrees)


def read_arrays(path: Path) -> Arrays:
    """The arrays of arrays.npz."""
    check_readable(path)
    return Archive(path, Expected(_ARRAY_NAMES, "the arrays of a job", "run the job again"))


def read_part(path: Path, kind: Kind) -> dict[str, Any]:
    """The values of job.json or result.json."""
    value = read_json(path)
    with located(path):
        about = record(format=whole(), kind=text)(value, "")
        if about["format"] != _FORMAT:
            raise FileFormatError(f"format {about['format']} is not known here; this program reads {_FORMAT}")
        if about["kind"] != "certify":
            raise FileFormatError(f"a job of kind {about['kind']!r}; reports are made of 'certify' jobs")
        return dict(kind(value, ""))


def _summary(content: dict[str, Any], place: Path) -> dict[str, Any]:
    """The members of a Certification that are in result.json; its data set has no inputs yet."""
    domain, radii, data = content["domain"], content["radii"], content["data"]
    if domain is not None and (len(domain) != 2 or domain[0] > domain[1]):
        raise FileFormatError("'domain' should be two numbers, the smaller one first")
    if not radii or min(radii) == 0:
        raise FileFormatError("'radii' should be one or more numbers > 0")
    pairs = [_pair(value, f"pairs[{k}]", place, content["classes"]) for k, value in enumerate(content["pairs"])]
    if len({(p.i, p.j) for p in pairs}) < len(pairs):
        raise FileFormatError("a pair of classes occurs twice")
    same = ("network", "domain", "clip", "method", "classes", "seconds", "complete", "notes")
    return {name: content[name] for name in same} | {
        "data": DataSet(np.zeros((0, 0)), None, data["file"], data["scale"], _picture_shape(data["image_shape"])),
        "radii": tuple(sorted(radii)),
        "pairs": tuple(sorted(pairs, key=lambda p: (p.i, p.j))),
        "failed": tuple((each["name"], each["error"]) for each in content["failed"]),
        "norm": Norm(content["norm"]),
    }


def _picture_shape(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """None when the inputs are no pictures that can be shown: neither grey nor of three colours."""
    if shape is None or len(shape) == 2:
        return shape
    return shape if len(shape) == 3 and (shape[-1] in (1, 3) or shape[0] in (1, 3)) else None


def _pair(value: dict[str, Any], name: str, place: Path, classes: int) -> PairConstant:
    i, j = record(i=whole(), j=whole())(value, name).values()
    if i == j or max(i, j) >= classes:
        raise FileFormatError(f"the pair ({i}, {j}) is none of {classes} classes")
    pair = PairConstant(min(i, j), max(i, j), **_BRACKET(value, name))
    if pair.upper is not None and pair.lower is not None and pair.lower > pair.upper:
        bounds = f"a lower bound {pair.lower!r} above its upper bound {pair.upper!r}"
        raise SoundnessError(f"{place}: pair ({i}, {j}) has {bounds}")
    return pair


def _tallies(content: dict[str, Any]) -> tuple[Tally, ...]:
    count, (correct, wrong) = content["data"]["count"], content["counts"].values()
    if correct + wrong > count:
        raise FileFormatError(f"{correct} correct and {wrong} misclassified of {count} inputs")
    tallies = tuple(sorted((Tally(**each) for each in content["per_radius"]), key=lambda t: t.radius))
    for t in tallies:
        if t.certified + t.attacked + t.undecided > correct:
            raise FileFormatError(f"more outcomes at radius {t.radius:g} than correctly classified inputs")
    return tallies


def _inputs(arrays: Arrays, count: int, data: DataSet) -> dict[str, Any]:
    """The members of a Certification that arrays.npz holds."""
    if not np.all(np.isin(wholes(arrays, "status", count), range(len(STATUSES)))):
        raise FileFormatError("array status should hold 0, 1, 2 and 3 only")
    return {
        "labels": wholes(arrays, "labels", count),
        "predicted": wholes(arrays, "predicted", count),
        "certified_radius": radii_of(arrays, "certified_radius", count),
        "data": replace(data, inputs=_pictures(arrays, "images", data.image_shape)),
        "counterexamples": _examples(arrays, count, data.image_shape),
        "refined": np.zeros(0, dtype=bool),
    }


def wholes(arrays: Arrays, name: str, count: int) -> Labels:
    """One whole number for each input."""
    array = arrays[name]
    _check_shape(name, array, count)
    if array.dtype.kind not in "iu":
        raise FileFormatError(f"array {name} should hold whole numbers")
    return array.astype(np.int64)


def radii_of(arrays: Arrays, name: str, count: int) -> Array:
    """One radius for each input."""
    array = arrays[name]
    _check_shape(name, array, count)
    if not np.all(array >= 0):
        raise FileFormatError(f"array {name} should hold radii >= 0")
    return array.astype(np.float64)


def _check_shape(name: str, array: NDArray[Any], count: int) -> None:
    if array.shape != (count,):
        raise FileFormatError(f"array {name} has the shape {array.shape}, but there are {count} inputs")


def _pictures(arrays: Arrays, name: str, shape: tuple[int, ...] | None) -> Array:
    """Rows that can be shown as pictures; none when they are not pictures."""
    if name not in arrays or shape is None:
        return np.zeros((0, 0))
    array = arrays[name]
    if array.ndim != 2 or array.shape[1] != math.prod(shape):
        raise FileFormatError(f"array {name} has the shape {array.shape}, but pictures are {shape}")
    return array.astype(np.float64)


def _examples(arrays: Arrays, count: int, shape: tuple[int, ...] | None) -> Counterexamples:
    radius, points = radii_of(arrays, "attack_radius", count), _pictures(arrays, "examples", shape)
    owners = arrays["example_index"] if "examples" in arrays else np.zeros(0, dtype=np.int64)
    expected = (len(arrays["examples"]),) if "examples" in arrays else (0,)
    if owners.dtype.kind not in "iu" or owners.shape != expected or not np.all((owners >= 0) & (owners < count)):
        raise FileFormatError("array example_index does not say whose examples there are")
    classes = example_classes(arrays, len(owners))
    return Counterexamples(
        radius, owners[: len(points)].astype(np.intp), points, None if classes is None else classes[: len(points)]
    )


def example_classes(arrays: Arrays, count: int) -> Labels | None:
    """The class that each counterexample gets; None in folders from before it was kept."""
    return wholes(arrays, "example_class", count) if "example_class" in arrays else None


def _agrees(result: Certification, status: NDArray[Any], tallies: tuple[Tally, ...], wrong: int) -> bool:
    """Whether the status of every input follows from its radii, and the last tally counts these."""
    if not np.array_equal(status, result.status()):
        return False
    undecided, certified, attacked, misclassified = np.bincount(status, minlength=len(STATUSES)).tolist()
    counted = Tally(tallies[-1].radius, certified, attacked, undecided) if tallies else None
    return counted is None or (counted == tallies[-1] and misclassified == wrong)


def _check_finished(folder: Path) -> None:
    """Refuse a folder that holds no job of `certify`, or one that has written no result yet."""
    if not (folder / "job.json").is_file():
        raise FileFormatError(f"{folder}: no job.json in it; give a folder that 'lipcert certify --out' wrote")
    if not (folder / "result.json").is_file():
        raise FileFormatError(f"{folder}: no result.json yet; let 'lipcert certify --resume' write one")


@dataclass(frozen=True)
class PairClaim:
    """lower <= L_ij <= upper; None where nothing is claimed."""

    i: int
    j: int
    upper: float | None
    lower: float | None

    @property
    def name(self) -> str:
        """The name of its piece."""
        return f"pair-{self.i}-{self.j}"


@dataclass(frozen=True, eq=False)
class Claims:
    """All claims of a folder: the radii and the status of every input, the constant of every pair, and the question."""

    folder: Path
    question: dict[str, Any]
    result: dict[str, Any]  # the values of result.json
    pairs: tuple[PairClaim, ...]
    labels: Labels
    predicted: Labels
    status: NDArray[np.int64]
    certified: Array
    counterexamples: Counterexamples
    images: NDArray[Any]

    def file(self, name: str) -> Path:
        """The path at which the certificate of a piece should be."""
        return self.folder / "pieces" / f"{name}.npz"

    def margins(self, k: int) -> tuple[Path, ...]:
        """The paths at which certificates of margins of an input may be; the last one where none is there."""
        places = [self.file(f"{name}-{k}") for name in NAMES]
        return tuple(place for place in places if place.is_file()) or (places[-1],)

    def point(self, pair: PairClaim) -> tuple[float, ...] | None:
        """The point of a pair's lower bound, from the record of its piece; None when there is none."""
        try:
            content = _POINT(read_json(self.folder / "pieces" / f"{pair.name}.json"), "")
        except InputError:
            return None
        found: tuple[float, ...] | None = content["value"]["witness"]
        return found


def read_claims(folder: Path) -> Claims:
    """The claims of a job, finished or not."""
    _check_finished(folder)
    question = read_job_file(folder / "job.json")["question"]
    content = read_part(folder / "result.json", RESULT)
    with located(folder / "result.json"):
        pairs = tuple(PairClaim(**_PAIR_CLAIM(pair, f"pairs[{k}]")) for k, pair in enumerate(content["pairs"]))
        if len({(p.i, p.j) for p in pairs}) < len(pairs) or not all(p.i < p.j < content["classes"] for p in pairs):
            raise FileFormatError("'pairs' should hold every pair i < j of classes once")
    path = folder / "arrays.npz"
    with located(path):
        return Claims(folder, question, content, pairs, **_claimed_arrays(read_arrays(path), content["data"]["count"]))


def _claimed_arrays(arrays: Arrays, count: int) -> dict[str, Any]:
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


@dataclass(frozen=True)
class Sources:
    """None where it is not known: the call had arrays, not files."""

    network: str | None = None
    data: Origin | None = None


def write_sources(folder: Path, network: str | None, data: DataSet) -> None:
    """Keep the places as absolute paths."""
    origin = data.origin
    source = None
    if origin is not None:
        source = asdict(origin) | {"path": _absolute(origin.path), "labels": _absolute(origin.labels)}
    sources = {"network": _absolute(network), "data": source}
    write_bytes(folder / SOURCES, (json.dumps(sources, indent=1) + "\n").encode())


def read_sources(folder: Path) -> Sources:
    """The sources that the folder names; none if it names none."""
    path = folder / SOURCES
    if not path.exists():
        return Sources()
    with located(path):
        content = _SOURCES_RECORD(read_json(path), "")
    return Sources(content["network"], None if content["data"] is None else Origin(**content["data"]))


def _absolute(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(path)
