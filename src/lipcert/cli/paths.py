"""Paths that a command reads and writes.

Every command declares each of its paths by one of the types here. They are checked before any work begins: an output
never replaces an input, nor an existing file of another kind.
"""

from __future__ import annotations

import copy
import functools
import os
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lipcert.errors import InputError
from lipcert.files import opened
from lipcert.files.archive import holds

_HEAD_BYTES = 2048  # read from an existing file to recognise its kind
_OVERWRITE = "lipcert.overwrite"


@dataclass(frozen=True)
class OutputKind:
    """A kind of file that a command writes: its name, its ending, and a test for existing files of the kind."""

    words: str
    ending: str
    is_one: Callable[[Path], bool]


def _has_arrays(*choices: Collection[str]) -> Callable[[Path], bool]:
    """Whether a file is an .npz that holds all arrays of one of the choices."""

    def is_one(path: Path) -> bool:
        return any(all(holds(path, name) for name in choice) for choice in choices)

    return is_one


def _begins(*starts: bytes, within: bytes = b"") -> Callable[[Path], bool]:
    """Whether a file begins with one of `starts` and has the bytes `within` near its beginning."""

    def is_one(path: Path) -> bool:
        with opened(path) as file:
            head = file.read(_HEAD_BYTES)
        return head.startswith(starts) and within in head

    return is_one


_PROOFS = ("certificate", "cells", "jacobian", "union", "margins", "polynomial")  # each certificate has one of them
CERTIFICATE = OutputKind("a certificate", ".npz", _has_arrays(*((name,) for name in _PROOFS)))
NETWORK = OutputKind("a network", ".npz", _has_arrays(("format", "b1", "activations", "alphas")))
CELLS = OutputKind("a file of cells", ".npz", _has_arrays(("lo", "hi", "lower", "upper", "points")))
ENTRIES = OutputKind("a file of entries", ".npz", _has_arrays(("lower", "upper", "seen_least", "seen_most", "points")))
CELL_TABLE = OutputKind("a table of cells", ".csv", _begins(b"lo_0,"))
ENTRY_TABLE = OutputKind("a table of entries", ".csv", _begins(b"output,input,lower,upper,"))
NORM_TABLE = OutputKind("a table of norms", ".csv", _begins(b"layer,source,kind,"))
NORM_ARRAYS = OutputKind("a file of norms", ".npz", _has_arrays(("layer", "source", "norm_2", "product_2")))
NORM_SUMMARY = OutputKind("a summary of norms", ".json", _begins(b"{", within=b'"norm_2"'))
SVG = OutputKind("a chart", ".svg", _begins(b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -34 '))
PNG = OutputKind("a chart", ".png", _begins(b"\x89PNG", within=b"lipcert"))
PAGE = OutputKind("a report", ".html", _begins(b"<!doctype html>", b"<!DOCTYPE html>", within=b'content="lipcert '))
PROGRAM = OutputKind("a semidefinite program", ".dat-s", _begins(b'"', within=b"bound = "))
PROBLEM = OutputKind("a polynomial problem", ".pop", _begins(b"variables "))


class InputPath(click.Path):
    """A file or a folder that the command reads; other text is allowed, for options such as `--center zero`."""


class OutputFolder(click.Path):
    """A folder that the command fills."""


class OutputFile(click.Path):
    """A file that the command writes, of one of several kinds; its ending says which kind."""

    def __init__(self, *kinds: OutputKind) -> None:
        super().__init__()
        self.kinds = kinds

    def kind(self, option: str, place: str) -> OutputKind:
        """The kind that the ending names."""
        for kind in self.kinds:
            if place.lower().endswith(kind.ending):
                return kind
        endings = " or ".join(f"{kind.ending} ({kind.words})" for kind in self.kinds)
        raise InputError(f"{option} {place}: give the file the ending {endings}")


INPUT = InputPath()
FOLDER = OutputFolder()
_overwrite_option = click.Option(
    ["--overwrite"],
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _, value: ctx.meta.__setitem__(_OVERWRITE, value),
    help="Replace existing files of any kind; inputs are never replaced.",
)


def guarded(command: click.Command) -> click.Command:
    """The command with a check of its paths before every call, and with --overwrite if it writes files."""
    found, callback = copy.copy(command), command.callback
    assert callback is not None
    if any(isinstance(param.type, OutputFile) for param in command.params):
        found.params = [*command.params, _overwrite_option]

    @functools.wraps(callback)
    def checked(*arguments: Any, **named: Any) -> Any:
        check_paths(click.get_current_context())
        return callback(*arguments, **named)

    found.callback = checked
    return found


def check_paths(context: click.Context) -> None:
    """Refuse a call whose outputs cannot be written, or would replace an input or a file of another kind."""
    outputs = [
        (option, place, param.type.kind(option, place))
        for param, option, place in _given(context)
        if isinstance(param.type, OutputFile)
    ]
    folders = [(option, place) for param, option, place in _given(context) if isinstance(param.type, OutputFolder)]
    for option, place, kind in outputs:
        _check_file(option, Path(place), kind, context)
    _check_together([(option, place) for option, place, _ in outputs], folders)
    for option, folder in folders:
        for name, place in _inputs(context):
            if _is_same(Path(folder), place):
                raise InputError(f"{option} {folder}: the same as {name} {place}; choose another folder")
            if os.path.exists(place) and _lies_in(place, folder):
                raise InputError(f"{option} {folder}: {name} {place} is in that folder; choose another one")


def also_writes(files: Mapping[Path, OutputKind]) -> None:
    """Check files that the running command writes without an option that names them."""
    context = click.get_current_context()
    for path, kind in files.items():
        _check_file("", path, kind, context)


def _given(context: click.Context) -> Iterator[tuple[click.Parameter, str, str]]:
    """The paths of a call: for each the parameter, its name as the user types it, and the path."""
    for param in context.command.params:
        if isinstance(param.type, InputPath | OutputFile | OutputFolder):
            value = context.params.get(param.name or "")
            name = param.opts[0] if isinstance(param, click.Option) else param.make_metavar(context)
            for place in value if isinstance(value, tuple) else (value,):
                if place is not None:
                    yield param, name, place


def _inputs(context: click.Context) -> list[tuple[str, str]]:
    return [(name, place) for param, name, place in _given(context) if isinstance(param.type, InputPath)]


def _check_file(option: str, path: Path, kind: OutputKind, context: click.Context) -> None:
    where = f"{option} {path}".strip()
    for name, place in _inputs(context):
        if _is_same(path, place):
            raise InputError(f"{where}: the same file as {name} {place}, which would be lost; choose another name")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"{where}: no such folder to write to")
    if path.is_dir() or not _writable(folder):
        raise InputError(f"{where}: cannot write there; give another place")
    if not context.meta.get(_OVERWRITE) and not _may_replace(path, kind):
        raise InputError(f"{where}: exists and is not {kind.words}; choose another name, or give --overwrite")
    if kind is PNG:
        from lipcert.chart.render import check_matplotlib  # here, because most commands draw nothing

        check_matplotlib()


def _check_together(files: list[tuple[str, str]], folders: list[tuple[str, str]]) -> None:
    """Refuse outputs of one call that are the same file, or lie in a folder that the call fills."""
    seen: dict[str, str] = {}
    for option, place in files:
        first = seen.setdefault(os.path.normcase(os.path.realpath(place)), option)
        if first != option:
            raise InputError(f"{option} {place}: the same file as {first}; give each its own name")
        for name, folder in folders:
            if _lies_in(place, folder):
                raise InputError(f"{option} {place}: in the folder of {name}, which has its own files; choose another")


def _is_same(path: Path, other: str) -> bool:
    """Whether two paths lead to the same file, through links or by another spelling."""
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # a path does not exist, or is not a valid path
        return False


def _lies_in(place: str, folder: str) -> bool:
    inside, outside = (os.path.normcase(os.path.realpath(path)) for path in (place, folder))
    return inside == outside or inside.startswith(os.path.join(outside, ""))


def _may_replace(path: Path, kind: OutputKind) -> bool:
    """Whether the path is free, or has an empty file or one of the same kind."""
    try:
        found = path.stat()
    except OSError:
        return not path.is_symlink()  # a broken link may be wanted by somebody
    if not stat.S_ISREG(found.st_mode):
        return False
    try:
        return found.st_size == 0 or kind.is_one(path)
    except OSError:
        return False


def _writable(folder: Path) -> bool:
    """Whether a file can be made in the folder; permission bits do not tell for a superuser or on a full disk."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
