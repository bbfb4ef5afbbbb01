"""A job folder of a stranger, read with care: typed fields, limited sizes, nothing unpickled, contradictions named."""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError, SoundnessError
from lipcert.files import check_readable
from lipcert.files.archive import Archive
from lipcert.files.boundary import located
from lipcert.report.fields import Fields, read_fields
from lipcert.report.job import Job, Pair, Points, Tally

_NAMES = re.compile(r"[a-z_]{1,40}")
_FORMAT = 1
_MAX_CLASSES = 1024


def read_job(folder: str | os.PathLike[str]) -> Job:
    """Everything that the report shows."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place}: no such folder; give the one that 'lipcert certify --out' wrote")
    if not (place / "job.json").exists():
        raise FileFormatError(f"{place}: no job.json in it; give a folder that 'lipcert certify --out' wrote")
    question = _question(place / "job.json")
    path = place / "result.json"
    if not path.exists():
        raise FileFormatError(f"{place}: no result.json yet; let 'lipcert certify --resume' write one")
    fields = read_fields(path)
    with located(path):
        _check_kind(fields)
        job = _job(place, question, fields)
    return _with_points(job, place / "arrays.npz")


def _question(path: Path) -> dict[str, Any]:
    fields = read_fields(path)
    with located(path):
        _check_kind(fields)
        return dict(fields.inner("question").values)


def _check_kind(fields: Fields) -> None:
    if fields.whole("format") != _FORMAT:
        raise FileFormatError(f"format {fields.whole('format')} is not known here; this program reads {_FORMAT}")
    if fields.text("kind") != "certify":
        raise FileFormatError(f"a job of kind {fields.text('kind')!r}; reports are made of 'certify' jobs")


def _job(place: Path, question: dict[str, Any], fields: Fields) -> Job:
    network, data, counts = fields.inner("network"), fields.inner("data"), fields.inner("counts")
    classes = fields.whole("classes", _MAX_CLASSES)
    job = Job(
        folder=place,
        question=question,
        complete=fields.flag("complete"),
        network=network.text_or_none("file"),
        sha256=network.text("sha256"),
        shape=network.wholes("shape"),
        data=data.text_or_none("file"),
        count=data.whole("count"),
        scale=data.scalar("scale"),
        image_shape=_image_shape(data),
        norm=fields.scalar("norm"),
        domain=None if fields.values.get("domain") is None else fields.numbers("domain", negative=True),
        clip="clip" in fields.values and fields.flag("clip"),
        radii=fields.numbers("radii"),
        method=fields.text("method"),
        classes=classes,
        pairs=tuple(sorted((_pair(place, f, classes) for f in fields.each("pairs")), key=lambda p: (p.i, p.j))),
        correct=counts.whole("correct"),
        misclassified=counts.whole("misclassified"),
        tallies=tuple(sorted((_tally(f) for f in fields.each("per_radius")), key=lambda t: t.radius)),
        failed=tuple((f.text("name"), f.text("error")) for f in fields.each("failed")),
        refined=fields.whole("refined") if "refined" in fields.values else 0,
        notes=fields.texts("notes"),
        seconds=fields.number("seconds"),
        version=fields.text("version"),
        points=None,
    )
    _check_counts(job)
    return job


def _image_shape(data: Fields) -> tuple[int, ...] | None:
    if data.values.get("image_shape") is None:
        return None
    shape = data.wholes("image_shape")
    grey = len(shape) == 2
    colour = len(shape) == 3 and (shape[-1] in (1, 3) or shape[0] in (1, 3))
    return shape if grey or colour else None  # anything else is not a picture that can be shown


def _pair(place: Path, fields: Fields, classes: int) -> Pair:
    i, j = fields.whole("i"), fields.whole("j")
    if i == j or max(i, j) >= classes:
        raise FileFormatError(f"the pair ({i}, {j}) is none of {classes} classes")
    upper, lower = fields.number_or_none("upper"), fields.number_or_none("lower")
    if upper is not None and lower is not None and lower > upper:
        raise SoundnessError(f"{place}: pair ({i}, {j}) has a lower bound {lower!r} above its upper bound {upper!r}")
    name = fields.text_or_none("certificate")
    return Pair(
        *(min(i, j), max(i, j), upper, lower),
        method=fields.text("method"),
        seconds=fields.number("seconds"),
        certificate=name,
        present=name is not None and _inside(name) and (place / name).is_file(),
    )


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in name and len(name) < 200


def _tally(fields: Fields) -> Tally:
    counts = (fields.whole("certified"), fields.whole("attacked"), fields.whole("undecided"))
    return Tally(fields.number("radius"), *counts)


def _check_counts(job: Job) -> None:
    if job.domain is not None and (len(job.domain) != 2 or job.domain[0] > job.domain[1]):
        raise FileFormatError("'domain' should be two numbers, the smaller one first")
    if len({(p.i, p.j) for p in job.pairs}) < len(job.pairs):
        raise FileFormatError("a pair of classes occurs twice")
    if job.correct + job.misclassified > job.count:
        raise FileFormatError(f"{job.correct} correct and {job.misclassified} misclassified of {job.count} inputs")
    for t in job.tallies:
        if t.certified + t.attacked + t.undecided > job.correct:
            raise FileFormatError(f"more outcomes at radius {t.radius:g} than correctly classified inputs")


def _with_points(job: Job, path: Path) -> Job:
    if not path.exists() and not job.complete:
        return job
    check_readable(path)
    with located(path):
        archive = Archive(path, _NAMES, content="the arrays of a job", advice="run the job again")
        points = Points(
            labels=_whole(archive, "labels", job.count),
            predicted=_whole(archive, "predicted", job.count),
            certified_radius=_radii(archive, "certified_radius", job.count),
            attack_radius=_radii(archive, "attack_radius", job.count),
            status=_status(archive, job.count),
            images=_inputs(archive, "images", job),
            examples=_inputs(archive, "examples", job),
            example_index=_indices(archive, job.count) if "examples" in archive else None,
        )
    _check_points(points, path)
    return replace(job, points=points)


def _vector(archive: Archive, name: str, size: int | None) -> NDArray[Any]:
    array = archive[name]
    if array.ndim != 1 or (size is not None and array.size != size):
        raise FileFormatError(f"array {name} has the shape {array.shape}, but there are {size} inputs")
    return array


def _whole(archive: Archive, name: str, size: int | None) -> NDArray[np.int64]:
    array = _vector(archive, name, size)
    if array.dtype.kind not in "iu":
        raise FileFormatError(f"array {name} should hold whole numbers")
    return array.astype(np.int64)


def _radii(archive: Archive, name: str, size: int) -> NDArray[np.float64]:
    array = _vector(archive, name, size).astype(np.float64)
    if not np.all(array >= 0):
        raise FileFormatError(f"array {name} should hold radii >= 0")
    return array


def _status(archive: Archive, size: int) -> NDArray[np.uint8]:
    array = _whole(archive, "status", size)
    if array.size and not 0 <= array.min() <= array.max() <= 3:
        raise FileFormatError("array status should hold 0, 1, 2 and 3 only")
    return array.astype(np.uint8)


def _indices(archive: Archive, size: int) -> NDArray[np.int64]:
    array = _whole(archive, "example_index", None)
    if array.size != len(archive["examples"]) or (array.size and not 0 <= array.min() <= array.max() < size):
        raise FileFormatError("array example_index does not say whose examples there are")
    return array


def _inputs(archive: Archive, name: str, job: Job) -> NDArray[np.float32] | None:
    """Rows that can be shown as pictures; None when they are not pictures."""
    if name not in archive or job.image_shape is None:
        return None
    array = archive[name]
    if array.ndim != 2 or array.shape[1] != math.prod(job.image_shape):
        raise FileFormatError(f"array {name} has the shape {array.shape}, but pictures are {job.image_shape}")
    return array.astype(np.float32)


def _check_points(points: Points, path: Path) -> None:
    """A certified input with a counterexample inside its radius is never shown as if it were an answer."""
    wrong = (points.certified_radius > 0) & (points.certified_radius >= points.attack_radius)
    if np.any(wrong):
        k = int(np.argmax(wrong))
        radii = f"{points.certified_radius[k]!s}, counterexample at {points.attack_radius[k]!s}"
        raise SoundnessError(f"{path}: input {k} is certified up to radius {radii}; one of them is wrong")
