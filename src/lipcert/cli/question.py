"""The question as a user types it: where, about which output, and in which norms. All verbs share these options.

A verb names the options that it takes (`question_options`). It may also name options that it refuses: these are not in
its help, and a user who types one is told the reason.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lipcert.cli.options import Command, flag_of, options
from lipcert.errors import InputError
from lipcert.files.tables import number, read_table, read_vector
from lipcert.problem.output import ALL, OutputChoice
from lipcert.problem.region import Ball, Box, Everywhere, Polytope, Region
from lipcert.readers.halfspaces import read_halfspaces
from lipcert.readers.mat import read_center
from lipcert.readers.vnnlib import read_property
from lipcert.rounding import Array

_BOXES = "--radius R (a box around --center) or --vnnlib FILE"
_REGIONS = "--radius R (a box around --center), --vnnlib FILE or --global"
ONLY_BOXES = dict.fromkeys(("everywhere", "ball"), f"only a box has cells; give {_BOXES}")


@dataclass(frozen=True)
class QuestionOptions:
    """A question about a network, as typed; a field whose option a verb does not have is as if nothing was typed."""

    center: str | None = None
    radius: str | None = None
    clip: tuple[float, float] | None = None
    vnnlib: str | None = None
    everywhere: bool = False
    ball: bool = False
    halfspaces: str | None = None
    output: str | None = None
    versus: tuple[int, int] | None = None
    norm: str = "inf"
    output_norm: str | None = None
    input_weights: str | None = None
    output_weights: str | None = None
    inputs: str | None = None

    def check(self, regions: str) -> None:
        """Refuse contradictions before any file is read; `regions` names the options that give a region."""
        if self.output is not None and self.versus is not None:
            raise InputError("--output and --versus exclude each other; give one of them")
        if self.output is not None and self.output != ALL and not self.output.removeprefix("-").isdecimal():
            raise InputError(f"--output {self.output}: give the number of a score, or all")
        if self.output_norm is not None and self.output != ALL:
            raise InputError("--output-norm belongs to --output all")
        self._check_region(regions)
        if self.radius is not None:
            _check_radius(self.radius, self.ball)
        if self.center is not None:
            _check_center(self.center)

    def _check_region(self, regions: str) -> None:
        given = (("--radius", self.radius), ("--center", self.center), ("--clip", self.clip))
        for name, value in (*given, ("--ball", self.ball or None)):
            if self.everywhere and value is not None:
                raise InputError(f"{name} and --global exclude each other; give a box or the whole space")
            if self.vnnlib is not None and value is not None:
                raise InputError(f"{name} and --vnnlib exclude each other; the property's box is the region")
        if self.everywhere and self.vnnlib is not None:
            raise InputError("--vnnlib and --global exclude each other; give a box or the whole space")
        if self.everywhere and self.halfspaces is not None:
            raise InputError("--halfspaces and --global exclude each other; half-spaces cut a box or a ball")
        if not self.everywhere and self.radius is None and self.vnnlib is None:
            raise InputError(f"no region: give {regions}")

    def regions(self, inputs: int) -> tuple[tuple[Region, ...], tuple[str, ...]]:
        """The regions, several where a property has several, and notes about them for the user."""
        found, notes = self._uncut(inputs)
        if self.halfspaces is None:
            return found, notes
        sides = read_halfspaces(self.halfspaces, inputs)
        return tuple(_cut(region, *sides) for region in found), notes

    def region(self, inputs: int) -> tuple[Region, tuple[str, ...]]:
        """The region, for a verb that takes one, and notes about it for the user."""
        found, notes = self.regions(inputs)
        if len(found) > 1:
            raise InputError(f"{self.vnnlib}: the property has {len(found)} regions; only bound takes several")
        return found[0], notes

    def _uncut(self, inputs: int) -> tuple[tuple[Region, ...], tuple[str, ...]]:
        if self.vnnlib is not None:
            read = read_property(self.vnnlib)
            if read.regions[0].size != inputs:
                raise InputError(f"{self.vnnlib}: the property has {read.regions[0].size} inputs, the network {inputs}")
            return read.regions, read.notes
        if self.radius is None:
            return (Everywhere(),), ()
        center, radius = _center(self.center, inputs), _radius(self.radius, inputs)
        return (Ball(center, float(radius[0]), self.clip) if self.ball else Box(center, radius, self.clip),), ()

    @property
    def choice(self) -> OutputChoice:
        """The output as `bound` takes it in Python."""
        if self.versus is not None or self.output is None:
            return self.versus
        return ALL if self.output == ALL else int(self.output)

    def keywords(self) -> dict[str, Any]:
        """Everything but the region, by the names that `bound` and `partition` have for it in Python."""
        files = {"input_weights": self.input_weights, "output_weights": self.output_weights}
        return {
            "output": self.choice,
            "norm": self.norm,
            "output_norm": self.output_norm,
            "inputs": None if self.inputs is None else parse_list("--inputs", self.inputs),
            **{name: None if path is None else read_table(path) for name, path in files.items()},
        }


def question_options(*keywords: str, refused: Mapping[str, str] | None = None) -> Callable[[Command], Command]:
    """Add options to a verb, which receives them as one checked argument `question`.

    `keywords` are fields of `QuestionOptions`. `refused` are fields whose options are hidden, each with the reason that
    a user who types the option is told.
    """
    reasons = {} if refused is None else refused

    def add(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(**arguments: Any) -> Any:
            for name, reason in reasons.items():
                if arguments.pop(name) not in (None, False):
                    raise InputError(f"{flag_of(name)}: {reason}")
            question = QuestionOptions(**{name: arguments.pop(name) for name in keywords})
            question.check(_BOXES if "everywhere" in reasons else _REGIONS)
            return command(question=question, **arguments)

        return options(*keywords, **{name: {"hidden": True} for name in reasons})(wrapped)  # type: ignore[return-value]

    return add


def _cut(region: Region, A: Array, b: Array) -> Polytope:
    """The part of a box or ball with A x <= b."""
    assert not isinstance(region, Everywhere)  # refused by `check`
    if isinstance(region, Polytope):  # a property has half-spaces of its own
        return Polytope(region.base, np.vstack([region.A, A]), np.concatenate([region.b, b]))
    return Polytope(region, A, b)


_MOST_NUMBERS = 10**6  # in a list such as --inputs; a longer range is a slip of the keyboard


def parse_list(option: str, text: str) -> list[int]:
    """The numbers 0, 1, 2, 7 for the text 0:3,7."""
    found: list[int] = []
    for word in text.split(","):
        first, colon, last = word.strip().partition(":")
        if not first.isdecimal() or (colon and not last.isdecimal()) or len(word) > 20:
            raise InputError(f"{option} {text}: give numbers and ranges, such as 0:3,7 for 0, 1, 2 and 7")
        start, stop = int(first), int(last) if colon else int(first) + 1
        if stop <= start:
            raise InputError(f"{option} {text}: the range {word.strip()} is empty")
        if stop - start + len(found) > _MOST_NUMBERS:
            raise InputError(f"{option} {text[:40]}: more than {_MOST_NUMBERS:,} numbers")
        found += range(start, stop)
    return found


_CENTER_ENDINGS = (".npy", ".csv", ".txt", ".mat")


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
    if values is not None or Path(text).suffix.lower() in _CENTER_ENDINGS:
        return
    if os.path.exists(text):  # pathlib raises on a name that is too long
        raise InputError(
            f"{text}: a center is read from {', '.join(_CENTER_ENDINGS[:-1])} or {_CENTER_ENDINGS[-1]} files"
        )
    raise InputError(
        f"--center {_short(text)}: no such file; give a number, one for each input with commas between (1,2,3), "
        f"or a file ({', '.join(_CENTER_ENDINGS)})"
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
    """Numbers or quotients with commas between; None when it is something else."""
    try:
        return np.array([number(part) for part in text.split(",")])
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
