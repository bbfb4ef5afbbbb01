"""Errors about files: every failure of a reader becomes a one-line message that names the file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from lipcert.errors import FileFormatError, InputError, UnsupportedOperator


@contextmanager
def located(where: object) -> Iterator[None]:
    """Put `where` in front of the message of every error raised inside, and silence warnings of libraries."""
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
    """The messages for Python and for the command line, each with the place in front, once."""
    start = f"{where}: "
    first, second = (text if text.startswith(start) else start + text for text in (str(error), error.typed))
    return first, second


@contextmanager
def parsing(what: str, advice: str = "export the network again") -> Iterator[None]:
    """Turn any exception of a library about damaged bytes into a FileFormatError; wrap calls of libraries only."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise FileFormatError(f"{what} is damaged ({type(error).__name__}); {advice}") from None


def quoted(text: str | bytes) -> str:
    """The repr of text from a file, shortened for a message; protobuf gives bytes where the text is not valid."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    return repr(text if len(text) <= 60 else text[:57] + "...")


def clean(text: str) -> str:
    """A stranger's text with characters that cannot be printed replaced: controls, text direction marks, surrogates."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
