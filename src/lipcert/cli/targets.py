"""Files that `cells` and `jacobian` write about their result, and pictures."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from lipcert.chart.render import document, png
from lipcert.chart.shapes import Drawing
from lipcert.cli.options import certificate_option, gathered
from lipcert.cli.paths import PNG, SVG, Kind, OutputFile
from lipcert.files import write_bytes


@dataclass(frozen=True)
class Targets:
    """Where to write a result, as typed; None where nobody asked for the file."""

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


def target_options(table: Kind, arrays: Kind, what: str, picture: str) -> Callable[[Callable[..., Any]], Any]:
    """Add the options of `Targets`, which the command receives as one argument `targets`.

    `table` and `arrays` are the kinds of its .csv and .npz files, `what` is in them, `picture` describes the plot.
    """
    options = [
        click.option("--csv", type=OutputFile(table), metavar="FILE.csv", help=f"Write {what} as a table."),
        click.option("--npz", type=OutputFile(arrays), metavar="FILE.npz", help=f"Write {what} as arrays."),
        certificate_option,
        click.option("--plot", type=OutputFile(SVG, PNG), metavar="FILE.svg", help=f"{picture} (.svg or .png)."),
    ]
    return lambda command: gathered(command, "targets", Targets, options)


def write_drawing(place: str | os.PathLike[str], drawing: Drawing) -> None:
    """Write a picture as PNG or SVG; the ending of the file says which."""
    write_bytes(place, png(drawing) if os.fspath(place).lower().endswith(".png") else document(drawing).encode())
