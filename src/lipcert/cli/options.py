"""Options that several commands share, and the question they ask: which output, where, in which norm."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from lipcert.errors import InputError
from lipcert.files.tables import read_vector
from lipcert.problem.network import Network
from lipcert.problem.output import ALL, OutputChoice
from lipcert.problem.region import Ball, Box, Everywhere, Region
from lipcert.readers import load
from lipcert.readers.mat import read_center
from lipcert.readers.vnnlib import read_property
from lipcert.rounding import Array

network_argument = click.argument("network", metavar="NETWORK")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
memory_option = click.option(
    "--memory",
    metavar="SIZE",
    help="Memory to use at most: 4G, 500M, or 75% of the machine. Default: 75%.",
)
_READING = [
    click.option("--onnx-output", metavar="NAME", help="For .onnx: which of several outputs to read."),
    click.option("--normalize", is_flag=True, help="For .nnet: fold the file's input and output normalisation in."),
]

_CENTER = (
    "Centre of the box or ball: an .npy file (or a .mat with x00), 'zero', or one value for all inputs. Default: zero."
)
_QUESTION = [
    click.option("--center", metavar="FILE|zero|VALUE", help=_CENTER),
    click.option("--radius", type=float, metavar="R", help="Half-width of the box, or radius of the ball, around it."),
    click.option("--global", "everywhere", is_flag=True, help="The whole input space instead of a box."),
    click.option(
        "--clip", type=float, nargs=2, metavar="LO HI", help="Keep the box within [LO, HI], e.g. 0 1 for pixels."
    ),
    click.option(
        "--vnnlib", metavar="FILE", help="The input box of a VNN-LIB property (.vnnlib, .vnnlib.gz) as the region."
    ),
    click.option("--ball", is_flag=True, help="A Euclidean ball of this radius instead of a box."),
    click.option("--output", metavar="K|all", help="Bound score K, or the map of all scores."),
    click.option("--versus", type=int, nargs=2, metavar="I J", help="Bound score I minus score J."),
    click.option("--norm", default="inf", show_default=True, metavar="NORM", help="Norm of input changes: inf, 2, 1."),
    click.option(
        "--output-norm", metavar="NORM", help="With --output all: norm of output changes. Default: as --norm."
    ),
]


@dataclass(frozen=True)
class Reading:
    """How a network file is to be read, as typed."""

    onnx_output: str | None
    normalize: bool

    def network(self, path: str) -> Network:
        return load(path, normalize=self.normalize, onnx_output=self.onnx_output)


def check_target(target: str) -> None:
    """Refuse a place for an SDPA file before any work."""
    if not target.endswith(".dat-s"):
        raise InputError(f"{target}: the SDPA sparse format has the ending .dat-s")
    if not Path(target).parent.is_dir():
        raise InputError(f"{target}: no such folder to write to")


@dataclass(frozen=True)
class Question:
    """What is asked about a network, as typed."""

    center: str | None
    radius: float | None
    everywhere: bool
    clip: tuple[float, float] | None
    vnnlib: str | None
    ball: bool
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
        given_region = (("--radius", self.radius), ("--center", self.center), ("--clip", self.clip))
        for name, given in (*given_region, ("--ball", self.ball or None)):
            if self.everywhere and given is not None:
                raise InputError(f"{name} and --global exclude each other; give a box or the whole space")
            if self.vnnlib is not None and given is not None:
                raise InputError(f"{name} and --vnnlib exclude each other; the property's box is the region")
        if self.everywhere and self.vnnlib is not None:
            raise InputError("--vnnlib and --global exclude each other; give a box or the whole space")
        if not self.everywhere and self.radius is None and self.vnnlib is None:
            raise InputError("no region: give --radius R (a box around --center), --vnnlib FILE or --global")
        if self.radius is not None and not (math.isfinite(self.radius) and self.radius >= 0):
            raise InputError(f"--radius {self.radius:g}: the radius must be finite and >= 0")

    @property
    def choice(self) -> OutputChoice:
        if self.versus is not None or self.output is None:
            return self.versus
        return ALL if self.output == ALL else int(self.output)

    def region(self, inputs: int) -> Region:
        return self.place(inputs)[0]

    def place(self, inputs: int) -> tuple[Region, tuple[str, ...]]:
        """The region, and what is to be said about it."""
        if self.vnnlib is not None:
            read = read_property(self.vnnlib)
            if read.box.size != inputs:
                raise InputError(f"{self.vnnlib}: the property has {read.box.size} inputs, the network {inputs}")
            return read.box, read.notes
        if self.radius is None:
            return Everywhere(), ()
        center = _center(self.center, inputs)
        return (Ball if self.ball else Box)(center, self.radius, self.clip), ()


def question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a `Question`; the command receives them as one argument `question`."""
    return gathered(command, "question", Question, _QUESTION)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a `Reading`; the command receives them as one argument `reading`."""
    return gathered(command, "reading", Reading, _READING)


def gathered(
    command: Callable[..., Any], name: str, kind: type[Any], options: Sequence[Callable[..., Any]]
) -> Callable[..., Any]:
    """Add options to a command, which receives them as one argument of this name and kind."""

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> Any:
        value = kind(**{field: arguments.pop(field) for field in kind.__dataclass_fields__})
        return command(**{name: value}, **arguments)

    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def _center(text: str | None, inputs: int) -> Array:
    if text is None or text == "zero":
        return np.zeros(inputs)
    if not text:
        raise InputError("--center is empty; give an .npy file, 'zero' or one value")
    try:
        value = float(text)
    except ValueError:
        vector = _center_of_file(text)
        if vector.size != inputs:
            raise InputError(f"{text}: the center has {vector.size} numbers, the network has {inputs} inputs") from None
        return vector
    if not math.isfinite(value):
        raise InputError(f"--center {text}: the center must be finite")
    return np.full(inputs, value)


def _center_of_file(path: str) -> Array:
    if not path.lower().endswith(".mat"):
        return read_vector(path)
    center = read_center(path)
    if center is None:
        raise InputError(f"{path}: no center 'x00' in it; give an .npy file")
    return center
