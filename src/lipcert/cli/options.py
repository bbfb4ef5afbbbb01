"""Options that several commands share, and the question they ask: which output, where, in which norm."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import click
import numpy as np

from lipcert.cli.paths import INPUT
from lipcert.errors import InputError
from lipcert.files.tables import read_table, read_vector
from lipcert.problem.network import Network
from lipcert.problem.output import ALL, OutputChoice
from lipcert.problem.region import Ball, Box, Everywhere, Region
from lipcert.readers import load
from lipcert.readers.mat import read_center
from lipcert.readers.vnnlib import Property, read_property
from lipcert.rounding import Array

network_argument = click.argument("network", metavar="NETWORK", type=INPUT)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
memory_option = click.option(
    "--memory",
    metavar="SIZE",
    help="Memory to use at most: 4G, 500M, or 75% of the machine. Default: 75%.",
)
_READING = [
    click.option("--onnx-output", metavar="NAME", help="For .onnx: which of several outputs to read."),
    click.option(
        "--onnx-batch", is_flag=True, help="For .onnx: read a fixed batch of several inputs as one network of copies."
    ),
    click.option("--normalize", is_flag=True, help="For .nnet: fold the file's input and output normalisation in."),
]

_CENTER = (
    "Centre of the box or ball: a file (.npy, .csv, .txt, or .mat with x00), 'zero', one value for all inputs, or "
    "one for each with commas between. Default: zero."
)
_RADIUS = (
    "Half-width of the box, or radius of the ball, around it; for a box also one for each input, with commas between "
    "or in a file (.npy, .csv, .txt)."
)
_BOX = [
    click.option("--center", type=INPUT, metavar="FILE|zero|VALUES", help=_CENTER),
    click.option("--radius", type=INPUT, metavar="R|R,R,...|FILE", help=_RADIUS),
    click.option(
        "--clip", type=float, nargs=2, metavar="LO HI", help="Keep the box within [LO, HI], e.g. 0 1 for pixels."
    ),
    click.option(
        "--vnnlib",
        type=INPUT,
        metavar="FILE",
        help="The inputs of a VNN-LIB property (.vnnlib, .vnnlib.gz) as the region.",
    ),
]
_PLACE = [
    *_BOX,
    click.option("--global", "everywhere", is_flag=True, help="The whole input space instead of a box."),
    click.option("--ball", is_flag=True, help="A Euclidean ball of this radius instead of a box."),
]
_NO_BOX = [  # known where they are refused, so that the reason is said
    click.option("--global", "everywhere", is_flag=True, hidden=True),
    click.option("--ball", is_flag=True, hidden=True),
]
norm_option = click.option(
    "--norm", default="inf", show_default=True, metavar="NORM", help="Norm of input changes: inf, 2, 1."
)
_OUTPUT = [
    click.option("--output", metavar="K|all", help="Bound score K, or the map of all scores."),
    click.option("--versus", type=int, nargs=2, metavar="I J", help="Bound score I minus score J."),
    norm_option,
    click.option(
        "--output-norm", metavar="NORM", help="With --output all: norm of output changes. Default: as --norm."
    ),
]
_ENDINGS = (".npy", ".csv", ".txt", ".mat")  # of files that hold a center


@dataclass(frozen=True)
class Reading:
    """How a network file is to be read, as typed."""

    onnx_output: str | None
    onnx_batch: bool
    normalize: bool

    def network(self, path: str) -> Network:
        return load(path, normalize=self.normalize, onnx_output=self.onnx_output, onnx_batch=self.onnx_batch)


_LEAST_SHARE = 0.02  # of a time limit, which the work has however long reading took: something is to be proved


def time_left(limit: float) -> float:
    """What a time limit leaves for the work itself: loading the program and reading files count from the start on."""
    started: float | None = click.get_current_context().obj
    if started is None or not limit > 0:  # nobody noted the start; or no limit, which is refused elsewhere
        return limit
    return max(limit - (time.monotonic() - started), _LEAST_SHARE * limit)


@dataclass(frozen=True)
class Place:
    """Where something is asked about a network, as typed."""

    center: str | None
    radius: str | None
    clip: tuple[float, float] | None
    vnnlib: str | None
    everywhere: bool
    ball: bool

    regions: ClassVar[str] = "--radius R (a box around --center), --vnnlib FILE or --global"

    def check(self) -> None:
        """Refuse contradictions before any file is read."""
        given_region = (("--radius", self.radius), ("--center", self.center), ("--clip", self.clip))
        for name, given in (*given_region, ("--ball", self.ball or None)):
            if self.everywhere and given is not None:
                raise InputError(f"{name} and --global exclude each other; give a box or the whole space")
            if self.vnnlib is not None and given is not None:
                raise InputError(f"{name} and --vnnlib exclude each other; the property's box is the region")
        if self.everywhere and self.vnnlib is not None:
            raise InputError("--vnnlib and --global exclude each other; give a box or the whole space")
        if not self.everywhere and self.radius is None and self.vnnlib is None:
            raise InputError(f"no region: give {self.regions}")
        if self.radius is not None:
            _check_radius(self.radius, self.ball)
        if self.center is not None:
            _check_center(self.center)

    def region(self, inputs: int) -> Region:
        return self.place(inputs)[0]

    def place(self, inputs: int) -> tuple[Region, tuple[str, ...]]:
        """The region, and what is to be said about it."""
        if self.vnnlib is not None:
            read = self._property(inputs)
            if len(read.regions) > 1:
                raise InputError(
                    f"{self.vnnlib}: the property has {len(read.regions)} regions; only bound takes several"
                )
            return read.regions[0], read.notes
        if self.radius is None:
            return Everywhere(), ()
        center, radius = _center(self.center, inputs), _radius(self.radius, inputs)
        return Ball(center, float(radius[0]), self.clip) if self.ball else Box(center, radius, self.clip), ()

    def places(self, inputs: int) -> tuple[tuple[Region, ...], tuple[str, ...]]:
        """The regions, several where a property has several, and what is to be said about them."""
        if self.vnnlib is None:
            region, notes = self.place(inputs)
            return (region,), notes
        read = self._property(inputs)
        return read.regions, read.notes

    def _property(self, inputs: int) -> Property:
        assert self.vnnlib is not None
        read = read_property(self.vnnlib)
        if read.regions[0].size != inputs:
            raise InputError(f"{self.vnnlib}: the property has {read.regions[0].size} inputs, the network {inputs}")
        return read


@dataclass(frozen=True)
class Question(Place):
    """What is asked about a network, as typed."""

    output: str | None
    versus: tuple[int, int] | None
    norm: str
    output_norm: str | None

    def check(self) -> None:
        """Refuse contradictions before any file is read."""
        if self.output is not None and self.versus is not None:
            raise InputError("--output and --versus exclude each other; give one of them")
        if self.output is not None and self.output != ALL and not self.output.removeprefix("-").isdecimal():
            raise InputError(f"--output {self.output}: give the number of a score, or all")
        if self.output_norm is not None and self.output != ALL:
            raise InputError("--output-norm belongs to --output all")
        super().check()

    @property
    def choice(self) -> OutputChoice:
        if self.versus is not None or self.output is None:
            return self.versus
        return ALL if self.output == ALL else int(self.output)


class BoxQuestion(Question):
    """What is asked about a network on a box, as typed."""

    regions = "--radius R (a box around --center) or --vnnlib FILE"

    def check(self) -> None:
        """Refuse contradictions, and other regions, before any file is read."""
        if self.everywhere or self.ball:
            raise InputError(f"--{'global' if self.everywhere else 'ball'}: only a box has cells; give {self.regions}")
        super().check()


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a `Place`; the command receives them as one argument `place`."""
    return gathered(command, "place", Place, _PLACE)


def question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a `Question`; the command receives them as one argument `question`."""
    return gathered(command, "question", Question, [*_PLACE, *_OUTPUT])


def box_question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a `BoxQuestion`, which has no other region; the command receives them as `question`."""
    return gathered(command, "question", BoxQuestion, [*_BOX, *_NO_BOX, *_OUTPUT])


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a `Reading`; the command receives them as one argument `reading`."""
    return gathered(command, "reading", Reading, _READING)


def gathered(
    command: Callable[..., Any], name: str, kind: type[Any], options: Sequence[Callable[..., Any]]
) -> Callable[..., Any]:
    """Add options to a command, which receives them as one argument of this name and kind."""

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> Any:
        value = kind(**{field.name: arguments.pop(field.name) for field in fields(kind)})
        return command(**{name: value}, **arguments)

    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def _center(text: str | None, inputs: int) -> Array:
    if text is None or text == "zero":
        return np.zeros(inputs)
    values = _values(text)
    if values is None:
        return _of_size(_center_of_file(text), inputs, text, "center")
    return _spread(values, inputs, f"--center {_short(text)}", "center")


def _check_center(text: str) -> None:
    """Refuse numbers that are no center, and what cannot be a file, before any file is read."""
    if not text:
        raise InputError("--center is empty; give a file, 'zero', one value or one for each input")
    if text == "zero":
        return
    values = _values(text)
    if values is not None and not np.all(np.isfinite(values)):
        raise InputError(f"--center {_short(text)}: the center must be finite")
    if values is not None or Path(text).suffix.lower() in _ENDINGS:
        return
    if os.path.exists(text):  # pathlib raises on a name that is too long
        raise InputError(f"{text}: a center is read from {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]} files")
    raise InputError(
        f"--center {_short(text)}: no such file; give a number, one for each input with commas between (1,2,3), "
        f"or a file ({', '.join(_ENDINGS)})"
    )


def _check_radius(text: str, ball: bool) -> None:
    """Refuse numbers that are no radii, and what cannot be a file, before any file is read."""
    values = _values(text)
    if values is None and not Path(text).suffix:
        raise InputError(f"--radius {_short(text)}: give a number, one for each input with commas between, or a file")
    if values is not None and not (np.all(np.isfinite(values)) and np.all(values >= 0)):
        raise InputError(f"--radius {_short(text)}: the radius must be finite and >= 0")
    if ball and (values is None or values.size > 1):
        raise InputError(f"--radius {_short(text)}: a ball has one radius; give one number, or leave --ball out")


def _radius(text: str, inputs: int) -> Array:
    values = _values(text)
    if values is None:
        return _of_size(read_table(text).reshape(-1), inputs, text, "radius")
    return _spread(values, inputs, f"--radius {_short(text)}", "radius")


def _values(text: str) -> Array | None:
    """Numbers with commas between; None when it is something else."""
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        return None


def _spread(values: Array, inputs: int, where: str, what: str) -> Array:
    """Numbers as typed: one alone is for all inputs."""
    return np.full(inputs, values[0]) if values.size == 1 else _of_size(values, inputs, where, what)


def _of_size(vector: Array, inputs: int, where: str, what: str) -> Array:
    """The vector, when it has one number for each input."""
    if vector.size != inputs:
        several = what == "center" and vector.size % inputs == 0
        hint = f"; it is a batch of {vector.size // inputs}: give one of them" if several else ""
        raise InputError(f"{where}: the {what} has {vector.size} numbers, the network has {inputs} inputs{hint}")
    return vector


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


def _center_of_file(path: str) -> Array:
    ending = Path(path).suffix.lower()
    if ending in (".csv", ".txt"):
        return read_table(path).reshape(-1)
    if ending == ".npy":
        return read_vector(path)
    center = read_center(path)
    if center is None:
        raise InputError(f"{path}: no center 'x00' in it; give an .npy file")
    return center
