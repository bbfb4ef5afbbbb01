"""A piece of work, and what became of it: values that can be sent to another process and kept as a file."""

from __future__ import annotations

import json
import re
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lipcert.errors import InputError, PieceLost
from lipcert.files import contents

_EXTENSION = re.compile(r"[a-z0-9]{1,16}")
_OURS = ("json", "log")  # the record of a piece, and the traceback of one that failed
_LONGEST_ERROR = 500


@dataclass(frozen=True)
class Answer:
    """A return value of a piece with files beside the JSON value: extension -> contents of a file kept beside it."""

    value: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for extension in self.files:
            check_extension(extension)


def check_extension(extension: str) -> str:
    """The ending of a file that a piece may keep; a name that leads elsewhere is refused."""
    if not _EXTENSION.fullmatch(extension) or extension in _OURS:
        ours = ", ".join(_OURS)
        raise InputError(f"Answer: {extension!r} cannot be a file's extension; use a-z and 0-9, not {ours}")
    return extension


@dataclass(frozen=True)
class Piece:
    """work(*arguments): a pure module-level function of picklable values that returns a JSON-able dict or an Answer."""

    name: str
    work: Callable[..., Mapping[str, Any] | Answer]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """Exactly one of `value` and `error`; the error is one line. Files are bytes in memory, paths in a job folder."""

    name: str
    value: dict[str, Any] | None
    error: str | None
    seconds: float
    files: Mapping[str, bytes | Path] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return self.error is not None

    def read(self, extension: str) -> bytes:
        """The contents of one of the files."""
        file = self.files[extension]
        return contents(file) if isinstance(file, Path) else file


@dataclass(frozen=True)
class Finished:
    """An outcome on its way from the worker, with the traceback of a failure for the log."""

    outcome: Outcome
    trace: str | None = None


def execute(piece: Piece) -> Finished:
    """Do the piece here. An exception that it raises is its outcome; Ctrl-C ends the whole job."""
    start = time.perf_counter()
    try:
        answer = piece.work(*piece.arguments)
        if not isinstance(answer, Answer):
            answer = Answer(answer)
        # Through JSON and back, so that a fresh outcome equals the one that is read from a file. Infinity and NaN pass.
        value = json.loads(json.dumps(dict(answer.value)))
        files = {extension: bytes(contents) for extension, contents in answer.files.items()}
    except (Exception, SystemExit) as error:
        outcome = Outcome(piece.name, None, describe(error), time.perf_counter() - start)
        return Finished(outcome, traceback.format_exc())
    return Finished(Outcome(piece.name, value, None, time.perf_counter() - start, files))


def lost(piece: Piece, error: BaseException, seconds: float) -> Finished:
    """The outcome of a piece that did not come back from its worker."""
    trace = "".join(traceback.format_exception(error))
    return Finished(Outcome(piece.name, None, describe(error), seconds), trace)


def describe(error: BaseException) -> str:
    """One line: type and message; running out of memory or time reads the same whoever noticed it."""
    message = " ".join(str(error).split())
    if isinstance(error, PieceLost):
        line = message
    else:
        kind = "out of memory" if isinstance(error, MemoryError) else type(error).__name__
        line = f"{kind}: {message}" if message else kind
    return line if len(line) <= _LONGEST_ERROR else line[: _LONGEST_ERROR - 3] + "..."
