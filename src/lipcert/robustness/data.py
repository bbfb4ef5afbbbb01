"""Data sets of strangers: inputs and labels from .npy, .npz, idx (.gz) and CSV files, with the scaling stated.

Nothing is unpickled, sizes are checked against what a header declares before data are read, and whole numbers are never
guessed to be pixels: they need a scale.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lipcert.errors import FileFormatError, InputError, shown
from lipcert.files import MAX_WEIGHTS, check_readable, opened, text_of
from lipcert.files.archive import Archive, Expected, read_npy
from lipcert.files.boundary import located, parsing
from lipcert.files.tables import fault_of, quotient
from lipcert.problem.arrays import array_of, floats_of
from lipcert.rounding import Array

Labels = NDArray[np.int64]

INPUT_NAMES = ("inputs", "images", "x", "X", "data", "x_test", "X_test")
LABEL_NAMES = ("labels", "y", "targets", "y_test")
_MAX_AXES = 4
_NAMES = re.compile(r"[A-Za-z]\w{0,63}")
_IDX = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_HINT = "make the file again"


@dataclass(frozen=True)
class Scale:
    """Inputs are raw * numerator / denominator: `1/255` is a division, correctly rounded."""

    text: str = "1"
    numerator: float = 1.0
    denominator: float = 1.0

    def __call__(self, raw: NDArray[Any]) -> Array:
        values = raw.astype(np.float64)
        return values if self.numerator == self.denominator == 1.0 else values * self.numerator / self.denominator


@dataclass(frozen=True)
class Origin:
    """The files of a data set and how they were read: enough to read it again."""

    path: str
    labels: str | None = None
    scale: str | None = None
    first: int | None = None
    label_column: str | None = None

    def read(self) -> DataSet:
        """The data set, from its files."""
        data = read_data(self.path, self.labels, self.scale, self.label_column)
        return data if self.first is None else data.first(self.first)


@dataclass(frozen=True, eq=False)
class DataSet:
    """Inputs as rows, labels where there are any, and what a report needs to know of where they come from."""

    inputs: Array
    labels: Labels | None
    source: str | None = None
    scale: str = "1"
    image_shape: tuple[int, ...] | None = None
    origin: Origin | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def sha256(self) -> str:
        """A hash of inputs and labels."""
        digest = hashlib.sha256(f"{self.inputs.shape}".encode())
        digest.update(self.inputs.astype("<f8").tobytes())
        if self.labels is not None:
            digest.update(self.labels.astype("<i8").tobytes())
        return digest.hexdigest()

    def first(self, count: int) -> DataSet:
        """The first inputs alone."""
        labels = None if self.labels is None else self.labels[:count]
        origin = None if self.origin is None else replace(self.origin, first=min(count, len(self)))
        return replace(self, inputs=self.inputs[:count], labels=labels, origin=origin)


def parse_scale(text: str) -> Scale:
    """A number, or a quotient of two: 1/255."""
    try:
        top, bottom = quotient(text)
    except ValueError:
        top = bottom = math.nan
    if not (math.isfinite(top) and math.isfinite(bottom) and top != 0):
        raise InputError.about("scale", f"{text}: give a number or a quotient, such as 1/255")
    return Scale(text.strip(), top, bottom)


def read_data(
    path: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    scale: str | float | None = None,
    label_column: str | int | None = None,
) -> DataSet:
    """The data set of one file of inputs and, where given, one of labels; an .npz or a .csv may hold both.

    path: .npy, .npz, idx (as MNIST comes, .gz too) or .csv; inputs along the first axis.
    labels: a file of the same kinds.
    scale: inputs are the file's numbers times this, "1/255" say; must be given when they are whole numbers.
    label_column: of a .csv, the column of labels: its name in the first line, or its number from 0; -1 is the last.
    """
    for name, given in (("path", path), ("labels", labels)):
        if not isinstance(given, str | os.PathLike) and (given is not None or name == "path"):
            raise InputError(f"{name}={shown(given)}: give the path of a file")
    path, labels = os.fspath(path), None if labels is None else os.fspath(labels)
    scale, label_column = (None if given is None else str(given) for given in (scale, label_column))
    factor = None if scale is None else parse_scale(scale)
    if label_column is not None and (labels is not None or not path.lower().endswith(".csv")):
        rest = "for a .csv file of inputs, and without labels of their own"
        raise InputError.about("label_column", f"{label_column}: {rest}")
    raw, inside = _read(path, INPUT_NAMES) if label_column is None else _columns(path, label_column)
    if raw.dtype.kind in "iu" and factor is None:
        need = f"{path}: whole numbers up to {int(raw.max(initial=0))} need a scale; give"
        raise InputError(
            f"{need} scale='1/255' for pixels, scale='1' to take them as they are",
            f"{need} --scale 1/255 for pixels, --scale 1 to take them as they are",
        )
    marks = inside if labels is None else _read(labels, LABEL_NAMES, own_labels=True)[0]
    factor = factor or Scale()
    inputs, checked = as_inputs(factor(raw), path), None if marks is None else as_labels(marks, labels or path)
    if checked is not None and len(checked) != len(inputs):
        raise InputError(f"{labels or path}: {len(checked)} labels for {len(inputs)} inputs; give one label each")
    origin = Origin(path, labels, scale, label_column=label_column)
    return DataSet(inputs, checked, Path(path).name, factor.text, _image_shape(raw.shape), origin)


def as_data_set(inputs: ArrayLike | DataSet, labels: ArrayLike | None) -> DataSet:
    """Arrays as a data set; labels given beside a data set replace its own."""
    for name, given in (("inputs", inputs), ("labels", labels)):
        if isinstance(given, str | os.PathLike):
            read = "lipcert.read_data(path, labels=..., scale=...)"
            raise InputError(f"{name}={shown(os.fspath(given))}: an array is needed; {read} reads a file of them")
    if not isinstance(inputs, DataSet):
        return DataSet(as_inputs(inputs), None if labels is None else as_labels(labels))
    return inputs if labels is None else replace(inputs, labels=as_labels(labels), origin=None)


def as_inputs(values: ArrayLike, where: str = "inputs") -> Array:
    """Rows of finite numbers: images are flattened, in the order in which they are stored."""
    try:
        array = floats_of(values)
    except (TypeError, ValueError):
        raise InputError(f"{where}: the inputs must be an array of numbers, one row or image each") from None
    if array.ndim < 2 or array.size == 0:
        raise InputError(f"{where}: the inputs have the shape {array.shape}; one row or image for each is needed")
    rows = np.ascontiguousarray(array.reshape(len(array), -1))
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise InputError(f"{where}: {bad.size} of the inputs are not finite, the first is number {bad[0]}")
    return rows


def as_labels(values: ArrayLike, where: str = "labels") -> Labels:
    """One whole number for each input; shape (n,) or (n, 1)."""
    try:
        array = array_of(values)
    except (TypeError, ValueError):
        raise InputError(f"{where}: labels must be one whole number for each input") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise InputError(f"{where}: labels must be one whole number for each input, not an array of {array.shape}")
    if not np.all(np.isfinite(array)) or np.any(array != np.floor(array)) or np.any(np.abs(array) > 2**31):
        raise InputError(f"{where}: labels must be whole numbers")
    return array.astype(np.int64)


def check_fits(data: DataSet, inputs: int, classes: int, domain: tuple[float, float] | None) -> None:
    """Refuse data of another shape than the network's, labels that are no classes, values outside the domain."""
    where = data.source or "inputs"
    if data.inputs.shape[1] != inputs:
        raise _misfit(data, f"{where}: an input has {data.inputs.shape[1]} values, the network takes {inputs}", inputs)
    if data.labels is not None:
        if len(data.labels) != len(data):
            raise InputError(f"{where}: {len(data.labels)} labels for {len(data)} inputs; give one label each")
        if data.labels.min() < 0 or data.labels.max() >= classes:
            found = f"{data.labels.min()} to {data.labels.max()}"
            raise InputError(f"{_place_of_labels(data)}: labels {found}; the network's classes are 0 to {classes - 1}")
    if domain is not None:
        outside = np.flatnonzero((data.inputs.min(axis=1) < domain[0]) | (data.inputs.max(axis=1) > domain[1]))
        if outside.size:
            found = f"{data.inputs.min():g} to {data.inputs.max():g}"
            raise InputError(
                f"{where}: {outside.size} inputs have values outside the domain [{domain[0]:g}, {domain[1]:g}] "
                f"(values {found}), the first is number {outside[0]}; check the scale"
            )


def _misfit(data: DataSet, what: str, inputs: int) -> InputError:
    """With a hint where a table has just one column too many: most often that of its classes."""
    table = data.labels is None and data.origin is not None and data.origin.path.lower().endswith(".csv")
    if not table or data.inputs.shape[1] != inputs + 1:
        return InputError(what)
    hint = "if a column holds the classes, name it with"
    return InputError(f"{what}; {hint} label_column", f"{what}; {hint} --label-column C")


def _place_of_labels(data: DataSet) -> str:
    """The file that the labels came from, as far as it is known."""
    if data.origin is None:
        return "labels"
    return Path(data.origin.labels).name if data.origin.labels is not None else data.source or "labels"


def _read(path: str, wanted: tuple[str, ...], own_labels: bool = False) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The array asked for, and the labels that lie beside it in an .npz."""
    file = check_readable(path)
    suffixes = [s.lower() for s in file.suffixes]
    with located(file):
        match suffixes[-1:]:
            case [".npy"]:
                return read_npy(file, _MAX_AXES), None
            case [".npz"]:
                return _of_archive(file, wanted, own_labels)
            case [".csv"]:
                return _csv(file), None
            case [".gz"]:
                with opened(file) as packed, gzip.open(packed, "rb") as stream:
                    return _idx(stream), None
            case _ if "idx" in file.name.lower():
                with opened(file) as plain:
                    return _idx(plain), None
        raise FileFormatError("unknown kind of data; use .npy, .npz, idx (also .gz) or .csv")


def _of_archive(file: Path, wanted: tuple[str, ...], own_labels: bool) -> tuple[NDArray[Any], NDArray[Any] | None]:
    arrays = Archive(file, Expected(_NAMES, "a data set", _HINT, axes=_MAX_AXES))
    name = next((n for n in wanted if n in arrays), None)
    if name is None and len(arrays) == 1:
        name = next(iter(arrays))
    if name is None:
        raise FileFormatError(f"none of the arrays {', '.join(wanted)}; it holds {', '.join(sorted(arrays)[:8])}")
    marks = None if own_labels else next((arrays[n] for n in LABEL_NAMES if n in arrays), None)
    return arrays[name], marks


def _idx(stream: IO[bytes] | gzip.GzipFile) -> NDArray[Any]:
    """The format of the MNIST files: two zeros, a type, the number of axes, their lengths, the numbers."""
    with parsing("the idx data", _HINT):
        magic = stream.read(4)
        kind = _IDX.get(magic[2]) if len(magic) == 4 and magic[:2] == b"\0\0" else None
        axes = magic[3] if len(magic) == 4 else 0
        if kind is None or not 1 <= axes <= _MAX_AXES:
            raise FileFormatError("not an idx file: it does not begin with two zeros, a known type and 1 to 4 axes")
        lengths = stream.read(4 * axes)
        if len(lengths) != 4 * axes:
            raise FileFormatError("the idx header is cut short")
        shape = tuple(int(n) for n in np.frombuffer(lengths, dtype=">u4"))
        count, dtype = math.prod(shape), np.dtype(kind)
        if count > MAX_WEIGHTS:
            raise FileFormatError(f"the idx header declares {count:,} numbers; the limit is {MAX_WEIGHTS:,}")
        data = stream.read(count * dtype.itemsize + 1)  # a byte more shows whether there is more
        if len(data) != count * dtype.itemsize:
            raise FileFormatError(f"the idx header declares the shape {shape}, but the data are not of that length")
        return np.frombuffer(data, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _columns(path: str, column: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The inputs of a .csv, and the column of it that holds their labels."""
    file = check_readable(path)
    with located(file):
        names, body = _lines(file)
        values = _numbers(body, names)
        place = _place(column, names, values.shape[1])
        return np.delete(values, place, axis=1), values[:, place]


def _place(column: str, names: list[str], count: int) -> int:
    if column in names:
        if len(names) != count:
            raise FileFormatError(f"{len(names)} names in the first line, {count} numbers in the others")
        return names.index(column)
    if not re.fullmatch(r"-?\d{1,9}", column):
        known = f"the columns are {', '.join(names[:8])}" if names else "the file has no line of names; give a number"
        raise InputError.about("label_column", f"{column}: no such column; {known}")
    if not -count <= int(column) < count or count < 2:
        raise InputError.about("label_column", f"{column}: the table has {count} columns, 0 to {count - 1}")
    return int(column) % count


def _lines(file: Path) -> tuple[list[str], str]:
    """The names in the first line, when it is one of words, and the text below them."""
    with parsing("the text", _HINT):
        text = text_of(file)
    first, _, rest = text.partition("\n")
    if not re.search(r"[A-DF-Za-df-z_]", first.replace("nan", "").replace("inf", "")):
        return [], text
    return [name.strip().strip('"') for name in first.split(",")], rest


def _csv(file: Path) -> NDArray[Any]:
    """Numbers between commas, one input in a line; a first line of words is skipped."""
    names, body = _lines(file)
    return _numbers(body, names)


def _numbers(body: str, names: list[str]) -> NDArray[Any]:
    """Whole numbers stay whole."""
    if not body.strip():
        raise FileFormatError("no lines with numbers")
    try:
        values = np.loadtxt(io.StringIO(body), delimiter=",", ndmin=2, comments=None)
    except ValueError:
        raise FileFormatError(f"not a table of numbers: {_fault(body, 2 if names else 1)}") from None
    whole = not re.search(r"[.eEnN]", body)
    return values.astype(np.int64) if whole and np.abs(values).max() < 2**53 else values


def _fault(body: str, first: int) -> str:
    """The fault that makes a text no table; `first` is the number of its first line in the file."""
    lines = enumerate(body.splitlines(), start=first)
    rows = [(number, [word.strip() for word in line.split(",")]) for number, line in lines if line.strip()]
    found = fault_of(rows, "write classes as numbers from 0, and leave other words out")
    return found or "give numbers with commas between, one input in a line"


def _image_shape(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Height and width when the raw array held grey images."""
    sides = tuple(n for n in shape[1:] if n > 1) if len(shape) == 4 else shape[1:]
    return (int(sides[0]), int(sides[1])) if len(shape) > 2 and len(sides) == 2 else None
