"""The options of the command line: each one is declared here, once, by the keyword that takes its value in Python.

A verb names the options that it takes; where an option means something else for the verb, the verb changes its help or
its default (`options("workers", time_limit={"help": ...})`). An option of one verb alone is declared in its module.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lipcert.cli.paths import CERTIFICATE, FOLDER, INPUT, PNG, SVG, OutputFile, OutputKind
from lipcert.files import write_bytes
from lipcert.problem.network import Network
from lipcert.readers import load

if TYPE_CHECKING:
    from lipcert.chart.shapes import Drawing

Command = TypeVar("Command", bound=Callable[..., Any])
_FLAG = {"is_flag": True}


def _shown(value: Any) -> dict[str, Any]:
    """A default that --help tells."""
    return {"default": value, "show_default": True}


# For each keyword: the option as a user types it, what click needs to know, and the help.
OPTIONS: dict[str, tuple[str, dict[str, Any], str]] = {
    # The region.
    "center": (
        "--center",
        {"type": INPUT, "metavar": "FILE|zero|VALUES"},
        "Centre of the box or ball: a file (.npy, .csv, .txt, or .mat with x00), 'zero', one value for all inputs, or "
        "one for each with commas between. Default: zero.",
    ),
    "radius": (
        "--radius",
        {"type": INPUT, "metavar": "R|R,R,...|FILE"},
        "Half-width of the box, or radius of the ball, around the centre, such as 8/255; for a box also one for each "
        "input, with commas between or in a file (.npy, .csv, .txt).",
    ),
    "clip": (
        "--clip",
        {"type": float, "nargs": 2, "metavar": "LO HI"},
        "Keep the box within [LO, HI], e.g. 0 1 for pixels.",
    ),
    "vnnlib": (
        "--vnnlib",
        {"type": INPUT, "metavar": "FILE"},
        "The inputs of a VNN-LIB property (.vnnlib, .vnnlib.gz) as the region.",
    ),
    "everywhere": ("--global", _FLAG, "The whole input space instead of a box."),
    "ball": ("--ball", _FLAG, "A Euclidean ball of this radius instead of a box."),
    "halfspaces": (
        "--halfspaces",
        {"type": INPUT, "metavar": "FILE"},
        "Cut the box or ball: rows a_1 .. a_n, b of a'x <= b in a .csv, .txt or .npy, or A and b in an .npz.",
    ),
    # The output and the norms.
    "output": ("--output", {"metavar": "K|all"}, "Bound score K, or the map of all scores."),
    "versus": ("--versus", {"type": int, "nargs": 2, "metavar": "I J"}, "Bound score I minus score J."),
    "norm": ("--norm", {**_shown("inf"), "metavar": "NORM"}, "Norm of input changes: inf, 2, 1."),
    "output_norm": (
        "--output-norm",
        {"metavar": "NORM"},
        "With --output all: norm of output changes. Default: as --norm.",
    ),
    "input_weights": (
        "--input-weights",
        {"type": INPUT, "metavar": "FILE"},
        "Weights of input changes, .npy, .csv or .txt: one > 0 for every input, or for norm 2 a definite matrix.",
    ),
    "output_weights": (
        "--output-weights",
        {"type": INPUT, "metavar": "FILE"},
        "With --output all: weights of output changes, a vector or a matrix.",
    ),
    "inputs": (
        "--inputs",
        {"metavar": "LIST"},
        "Inputs that change, such as 0:3,7; the others move within the region only.",
    ),
    # How to answer, and how long.
    "method": ("--method", {**_shown("auto"), "metavar": "NAME"}, "How to prove it."),
    "explain": ("--explain", _FLAG, "Show which engine of auto or exact worked when, and what came of it."),
    "literal": ("--literal", _FLAG, "Solve shor or hr2 as the paper states them, by a general solver."),
    "solver": ("--solver", {**_shown("auto"), "metavar": "NAME"}, "The solver of relaxations."),
    "time_limit": ("--time-limit", {"type": float, **_shown(60.0), "metavar": "S"}, "Seconds to spend at most."),
    "work": (
        "--work",
        {"type": float, "metavar": "W"},
        "Counted work instead of seconds, about W seconds of one core: the same answer on a busy machine.",
    ),
    "gap": (
        "--gap",
        {"type": float, **_shown(0.0), "metavar": "G"},
        "Relative gap to stop at; 0: exact, to 1e-6.",
    ),
    "below": (
        "--below",
        {"type": float, "metavar": "B"},
        "Stop when it is decided whether the constant is below B.",
    ),
    "lower": ("--lower/--no-lower", _shown(True), "Look for a lower bound, or not."),
    "seed": ("--seed", {"type": int, **_shown(0), "metavar": "N"}, "Seed of the lower bound's search."),
    "workers": ("--workers", {"type": int, **_shown(1), "metavar": "N"}, "Processes to use."),
    "scheduler": (
        "--cluster",
        {"metavar": "ADDRESS"},
        "A Dask scheduler, tcp://host:port, instead of processes.",
    ),
    "memory": (
        "--memory",
        {"metavar": "SIZE"},
        "Memory to use at most: 4G, 500M, or 75% of the machine. Default: 75%.",
    ),
    "max_cells": ("--max-cells", {"type": int, **_shown(1_000_000), "metavar": "N"}, "Largest number of cells."),
    # Files, and what is printed.
    "folder": ("--out", {"type": FOLDER, "metavar": "DIR"}, "Keep the job in this folder."),
    "resume": ("--resume", _FLAG, "Go on with the job in --out."),
    "certificate": (
        "--certificate",
        {"type": OutputFile(CERTIFICATE), "metavar": "FILE.npz"},
        "Write the proof to a file that `lipcert verify` checks.",
    ),
    "as_json": ("--json", _FLAG, "Print one JSON object instead of a table."),
    "csv": ("--csv", {"metavar": "FILE.csv"}, "Write a table."),
    "npz": ("--npz", {"metavar": "FILE.npz"}, "Write arrays."),
    "plot": ("--plot", {"type": OutputFile(SVG, PNG), "metavar": "FILE.svg"}, "Draw a picture (.svg or .png)."),
    # How a network file is read.
    "onnx_output": ("--onnx-output", {"metavar": "NAME"}, "For .onnx: which of several outputs to read."),
    "onnx_batch": (
        "--onnx-batch",
        _FLAG,
        "For .onnx: read a fixed batch of several inputs as one network of copies.",
    ),
    "normalize": ("--normalize", _FLAG, "For .nnet: fold the file's input and output normalisation in."),
    # A data set.
    "data": ("--data", {"type": INPUT, "metavar": "DATA"}, "The inputs."),
    "labels": ("--labels", {"type": INPUT, "metavar": "FILE"}, "True classes (.npy, .npz, idx, .csv)."),
    "label_column": (
        "--label-column",
        {"metavar": "C"},
        "For a .csv: the column of classes, by name or number (-1: the last).",
    ),
    "scale": ("--scale", {"metavar": "S"}, "Inputs are DATA times S, e.g. 1/255; needed for whole numbers."),
    "first": ("--first", {"type": click.IntRange(min=1), "metavar": "N"}, "Take the first N inputs only."),
}
REGION = ("center", "radius", "clip", "vnnlib", "everywhere", "ball")
OUTPUT = ("output", "versus", "norm", "output_norm")
WEIGHTS = ("input_weights", "output_weights", "inputs")
LIMITS = ("time_limit", "work", "workers", "scheduler", "memory")

network_argument = click.argument("network", metavar="NETWORK", type=INPUT)


def flag_of(keyword: str) -> str:
    """The option of a keyword, as a user types it."""
    return OPTIONS[keyword][0]


def options(*keywords: str, **changes: dict[str, Any]) -> Callable[[Command], Command]:
    """Add options to a verb, which receives each by its keyword.

    A change, such as `seed={"help": "Seed of the attacks."}`, replaces what is declared here for all verbs.
    """

    def add(command: Command) -> Command:
        for keyword in reversed([*keywords, *(name for name in changes if name not in keywords)]):
            flag, declared, words = OPTIONS[keyword]
            command = click.option(flag, keyword, **{"help": words, **declared, **changes.get(keyword, {})})(command)
        return command

    return add


def gathered(kind: type[Any], name: str, **changes: dict[str, Any]) -> Callable[[Command], Command]:
    """Add an option for each field of a dataclass; the verb receives all of them as one argument of this name."""
    keywords = [field.name for field in fields(kind)]

    def add(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(**arguments: Any) -> Any:
            return command(**{name: kind(**{key: arguments.pop(key) for key in keywords})}, **arguments)

        return options(*keywords, **changes)(wrapped)  # type: ignore[return-value]

    return add


@dataclass(frozen=True)
class ReadingOptions:
    """How to read a network file, as typed."""

    onnx_output: str | None
    onnx_batch: bool
    normalize: bool

    def network(self, path: str) -> Network:
        """The network in a file."""
        return load(path, normalize=self.normalize, onnx_output=self.onnx_output, onnx_batch=self.onnx_batch)


reading_options = gathered(ReadingOptions, "reading")


@dataclass(frozen=True)
class TargetOptions:
    """Files to write about a result, as typed; None for a file that nobody asked for."""

    csv: str | None
    npz: str | None
    certificate: str | None
    plot: str | None

    def write(self, found: Any, draw: Callable[[], Drawing]) -> None:
        """Write the files about a `Partition` or a `Jacobian`; `draw` makes the picture."""
        for place in (self.csv, self.npz):
            if place is not None:
                found.save(place)
        if self.certificate is not None:
            found.certificate.save(self.certificate)
        if self.plot is not None:
            write_drawing(self.plot, draw())


def target_options(table: OutputKind, arrays: OutputKind, what: str, picture: str) -> Callable[[Command], Command]:
    """Add the options of `TargetOptions`, which the verb receives as one argument `targets`.

    `table` and `arrays` are the kinds of its .csv and .npz files, `what` is in them, `picture` describes the plot.
    """
    return gathered(
        TargetOptions,
        "targets",
        csv={"type": OutputFile(table), "help": f"Write {what} as a table."},
        npz={"type": OutputFile(arrays), "help": f"Write {what} as arrays."},
        plot={"help": f"{picture} (.svg or .png)."},
    )


def write_drawing(place: str | os.PathLike[str], drawing: Drawing) -> None:
    """Write a picture as PNG or SVG; the ending of the file says which."""
    from lipcert.chart.render import document, png  # here, because most commands draw nothing

    write_bytes(place, png(drawing) if os.fspath(place).lower().endswith(".png") else document(drawing).encode())


# Share of a time limit that is left for the work however long reading took, so that something can be proved.
_LEAST_SHARE = 0.02


def time_left(limit: float) -> float:
    """Seconds of a time limit that are left for the work; loading the program and reading files have used the rest."""
    started: float | None = click.get_current_context().obj
    if started is None or not limit > 0:  # nobody noted the start, or the limit is refused elsewhere
        return limit
    return max(limit - (time.monotonic() - started), _LEAST_SHARE * limit)
