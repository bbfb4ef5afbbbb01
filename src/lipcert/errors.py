"""Everything that lipcert raises on purpose.

LipcertError
├── InputError            the caller gave something that cannot be used (exit code 2)
│   ├── FileFormatError   a file is missing, damaged, too large or not what its name says
│   │   └── UnsupportedOperator   a well-formed network with an operator that we do not read
│   └── MethodError       an unknown method, or one that does not apply to this network, region or norm
├── PieceLost             a piece of a job whose process died or was stopped; recorded as its outcome
└── SoundnessError        a proved bound contradicts a witness: a bug of ours, never hidden

Each message is one line: what was wrong, where, what to do.
"""

from pathlib import Path


def how_to_install(extra: str) -> str:
    """The command that adds an extra of the package: of the clone that this runs from, or of the published one."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file():
        return f"pip install 'lipcert[{extra}]'"
    return f"pip install '{'.' if root == Path.cwd() else root}[{extra}]'"


class LipcertError(Exception):
    """The root of the tree."""


class InputError(LipcertError, ValueError):
    """The caller gave something that cannot be used."""


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
