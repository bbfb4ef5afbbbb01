"""Options for norms with weights, and for changes of some inputs only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from lipcert.cli.options import gathered
from lipcert.cli.paths import INPUT
from lipcert.errors import InputError
from lipcert.files.tables import read_table

_MOST = 10**6  # inputs in a list
_FILE = "FILE"
_OPTIONS = [
    click.option(
        "--input-weights",
        type=INPUT,
        metavar=_FILE,
        help="Weights of input changes, .npy, .csv or .txt: one > 0 for every input, or for norm 2 a definite matrix.",
    ),
    click.option(
        "--output-weights",
        type=INPUT,
        metavar=_FILE,
        help="With --output all: weights of output changes, a vector or a matrix.",
    ),
    click.option(
        "--inputs", metavar="LIST", help="Inputs that change, such as 0:3,7; the others move within the region only."
    ),
]


@dataclass(frozen=True)
class Weights:
    """Weights and chosen inputs, as typed."""

    input_weights: str | None
    output_weights: str | None
    inputs: str | None

    def wishes(self) -> dict[str, Any]:
        """As `bound` takes them."""
        files = {"input_weights": self.input_weights, "output_weights": self.output_weights}
        found: dict[str, Any] = {name: None if path is None else read_table(path) for name, path in files.items()}
        return found | {"inputs": None if self.inputs is None else parse_list("--inputs", self.inputs)}


def parse_list(option: str, text: str) -> list[int]:
    """0, 1, 2, 7 for 0:3,7."""
    found: list[int] = []
    for word in text.split(","):
        first, colon, last = word.strip().partition(":")
        if not first.isdecimal() or (colon and not last.isdecimal()) or len(word) > 20:
            raise InputError(f"{option} {text}: give numbers and ranges, such as 0:3,7 for 0, 1, 2 and 7")
        start, stop = int(first), int(last) if colon else int(first) + 1
        if stop <= start:
            raise InputError(f"{option} {text}: the range {word.strip()} is empty")
        if stop - start + len(found) > _MOST:
            raise InputError(f"{option} {text[:40]}: more than {_MOST:,} numbers")
        found += range(start, stop)
    return found


def weights_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `Weights`; the command receives them as one argument `weights`."""
    return gathered(command, "weights", Weights, _OPTIONS)
