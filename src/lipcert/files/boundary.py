"""The boundary between a file and the package: every failure becomes one line that names the file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from lipcert.errors import FileFormatError, InputError, UnsupportedOperator


@contextmanager
def located(where: object) -> Iterator[None]:
    """Put `where` in front of every error raised inside, and keep warnings of libraries from leaking."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    except UnsupportedOperator as error:
        raise UnsupportedOperator(*_placed(where, error)) from None
    except InputError as error:
        raise FileFormatError(*_placed(where, error)) from None
    except OSError as error:
        raise FileFormatError(f"{where}: cannot be read ({error.strerror or 'input error'})") from None
    except MemoryError:
        raise FileFormatError(f"{where}: not enough memory to read it") from None


def _placed(where: object, error: InputError) -> tuple[str, str]:
    """The message with the place in front, once, in Python's words and in those of the command line."""
    start = f"{where}: "
    first, second = (text if text.startswith(start) else start + text for text in (str(error), error.typed))
    return first, second


@contextmanager
def parsing(what: str, advice: str = "export the network again") -> Iterator[None]:
    """Turn whatever a library raises on damaged bytes into a FileFormatError; only around calls into libraries."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise FileFormatError(f"{what} is damaged ({type(error).__name__}); {advice}") from None


def quoted(text: str | bytes) -> str:
    """Text from a file, made safe for a one-line message; protobuf gives bytes where it is not valid text."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    return repr(text if len(text) <= 60 else text[:57] + "...")


def clean(text: str) -> str:
    """A stranger's text without what is invisible or turns the line around: controls, formats, surrogates."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
