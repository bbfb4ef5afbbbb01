"""Everything that lipcert raises on purpose.

LipcertError
├── InputError            the caller gave something that cannot be used (exit code 2)
│   ├── FileFormatError   a file is missing, damaged, too large or not what its name says
│   │   └── UnsupportedOperator   a well-formed network with an operator that we do not read
│   └── MethodError       an unknown method, or one that does not apply to this network, region or norm
├── PieceLost             a piece of a job whose process died or was stopped; recorded as its outcome
└── SoundnessError        a proved bound contradicts a witness: a bug of ours, never hidden

Each message is one line: what was wrong, where, what to do. It speaks in keywords; `InputError.typed` says the same in
the options of the command line, where these are other words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self


def how_to_install(extra: str) -> str:
    """The command that adds an extra of the package: of the clone that this runs from, or of the published one."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file():
        return f"pip install 'lipcert[{extra}]'"
    return f"pip install '{'.' if root == Path.cwd() else root}[{extra}]'"


def shown(value: object) -> str:
    """A caller's value in a message: on one line, and not long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


class LipcertError(Exception):
    """The root of the tree."""


class InputError(LipcertError, ValueError):
    """The caller gave something that cannot be used."""

    def __init__(self, message: str = "", typed: str | None = None) -> None:
        super().__init__(message)
        self._typed = typed

    @classmethod
    def about(cls, keyword: str, what: str) -> Self:
        """What is wrong with the value of a keyword, which is an option of the same name on the command line."""
        return cls(f"{keyword} {what}", f"--{keyword.replace('_', '-')} {what}")

    @property
    def typed(self) -> str:
        """As the command line says it."""
        return str(self) if self._typed is None else self._typed


class FileFormatError(InputError):
    """A file is missing, damaged, too large or not what its name says."""


class UnsupportedOperator(FileFormatError):  # noqa: N818 - named for what it is
    """A well-formed network with an operator that is not read."""


class MethodError(InputError):
    """An unknown method, or one that does not apply here."""


class PieceLost(LipcertError):  # noqa: N818 - named for what it is
    """A piece of a job whose process died or was stopped."""


class SoundnessError(LipcertError):
    """A proved upper bound lies below a witness: a bug of ours, never hidden."""
