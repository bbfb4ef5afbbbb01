"""The exceptions that lipcert raises on purpose.

LipcertError
├── InputError            the caller gave something that cannot be used (exit code 2)
│   ├── FileFormatError   a file is missing, damaged, too large or not what its name says
│   │   └── UnsupportedOperator   a well-formed network with an operator that we do not read
│   └── MethodError       an unknown method, or one that does not apply to this network, region or norm
├── PieceLost             a piece of a job whose process died or was stopped; recorded as its outcome
└── SoundnessError        a proved bound contradicts a witness: a bug of ours, never hidden

Each message is one line: what was wrong, where, what to do. It uses the names of Python keywords; `InputError.typed` is
the same message with the names of command-line options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self


def how_to_install(extra: str) -> str:
    """The pip command that installs an extra: from the clone that this module lies in, or from the index."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file():
        return f"pip install 'lipcert[{extra}]'"
    return f"pip install '{'.' if root == Path.cwd() else root}[{extra}]'"


def shown(value: object) -> str:
    """The repr of a caller's value for a message: on one line, at most 40 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


class LipcertError(Exception):
    """The root of all exceptions of lipcert."""


class InputError(LipcertError, ValueError):
    """The caller gave something that cannot be used."""

    def __init__(self, message: str = "", typed: str | None = None) -> None:
        super().__init__(message)
        self._typed = typed

    @classmethod
    def about(cls, keyword: str, what: str) -> Self:
        """An error about the value of a keyword whose command-line option has the same name."""
        return cls(f"{keyword} {what}", f"--{keyword.replace('_', '-')} {what}")

    @property
    def typed(self) -> str:
        """The message for the command line."""
        return str(self) if self._typed is None else self._typed


class FileFormatError(InputError):
    """A file is missing, damaged, too large or not what its name says."""


class UnsupportedOperator(FileFormatError):  # noqa: N818 - named for what it is
    """A well-formed network file has an operator that no reader supports."""


class MethodError(InputError):
    """An unknown method, or one that does not apply here."""


class PieceLost(LipcertError):  # noqa: N818 - named for what it is
    """The process of one piece of a job died or was stopped."""


class SoundnessError(LipcertError):
    """A proved upper bound lies below a witness: a bug of ours, never hidden."""
