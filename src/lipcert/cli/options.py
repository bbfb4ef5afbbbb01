"""Options that several commands share, besides those of the question (`lipcert.cli.question`)."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import click

from lipcert.cli.paths import CERTIFICATE, INPUT, OutputFile
from lipcert.problem.network import Network
from lipcert.readers import load

network_argument = click.argument("network", metavar="NETWORK", type=INPUT)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
memory_option = click.option(
    "--memory",
    metavar="SIZE",
    help="Memory to use at most: 4G, 500M, or 75% of the machine. Default: 75%.",
)
cluster_option = click.option(
    "--cluster", "scheduler", metavar="ADDRESS", help="A Dask scheduler, tcp://host:port, instead of processes."
)
time_option = click.option(
    "--time-limit", type=float, default=60.0, show_default=True, metavar="S", help="Seconds to spend at most."
)
work_option = click.option(
    "--work", type=float, metavar="W", help="Counted work instead of seconds, as in `lipcert bound`."
)
max_cells_option = click.option(
    "--max-cells", type=int, default=1_000_000, show_default=True, metavar="N", help="Largest number of cells."
)
certificate_option = click.option(
    "--certificate",
    type=OutputFile(CERTIFICATE),
    metavar="FILE.npz",
    help="Write the proof to a file that `lipcert verify` checks.",
)
_READING = [
    click.option("--onnx-output", metavar="NAME", help="For .onnx: which of several outputs to read."),
    click.option(
        "--onnx-batch", is_flag=True, help="For .onnx: read a fixed batch of several inputs as one network of copies."
    ),
    click.option("--normalize", is_flag=True, help="For .nnet: fold the file's input and output normalisation in."),
]


@dataclass(frozen=True)
class Reading:
    """Options of how to read a network file, as typed."""

    onnx_output: str | None
    onnx_batch: bool
    normalize: bool

    def network(self, path: str) -> Network:
        """The network in a file."""
        return load(path, normalize=self.normalize, onnx_output=self.onnx_output, onnx_batch=self.onnx_batch)


# Share of a time limit that is left for the work however long reading took, so that something can be proved.
_LEAST_SHARE = 0.02


def time_left(limit: float) -> float:
    """Seconds of a time limit that are left for the work; loading the program and reading files have used the rest."""
    started: float | None = click.get_current_context().obj
    if started is None or not limit > 0:  # nobody noted the start, or the limit is refused elsewhere
        return limit
    return max(limit - (time.monotonic() - started), _LEAST_SHARE * limit)


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
