"""Vectors and matrices of numbers in small files: .npy, or text with one row per line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError
from lipcert.files import check_readable, text_of
from lipcert.files.archive import read_npy
from lipcert.files.boundary import located, quoted

MAX_BYTES = 1 << 26  # largest file that holds a vector or matrix
_MAX_AXES = 8  # most axes of an array that is flattened to a vector
_TEXT = (".csv", ".txt")


def read_table(path: str | os.PathLike[str]) -> NDArray[np.float64]:
    """Read a vector or a matrix of finite numbers; a text with a single row or a single column is a vector."""
    file = check_readable(path)
    if file.stat().st_size > MAX_BYTES:
        raise FileFormatError(f"{file}: larger than {MAX_BYTES:,} bytes; give fewer numbers")
    ending = file.suffix.lower()
    if ending != ".npy" and ending not in _TEXT:
        raise FileFormatError(f"{file}: numbers are read from .npy, .csv and .txt files")
    with located(file):
        values = read_npy(file, 2) if ending == ".npy" else _of_text(file)
        if values.ndim not in (1, 2):
            raise FileFormatError("expected a vector or a matrix of real numbers")
        return _finite(values)


def read_vector(path: str | os.PathLike[str]) -> NDArray[np.float64]:
    """Read a vector of finite numbers from an .npy file; an array of any shape is flattened."""
    file = check_readable(path)
    if file.suffix.lower() != ".npy":
        raise FileFormatError(f"{file}: expected an .npy file with one vector of numbers")
    with located(file):
        return _finite(read_npy(file, _MAX_AXES)).reshape(-1)


def _finite(values: NDArray[Any]) -> NDArray[np.float64]:
    if not values.size or not np.all(np.isfinite(values)):
        raise FileFormatError("it is empty, or a number in it is not finite")
    return np.asarray(values, dtype=np.float64)


def fault_of(rows: Iterable[tuple[int, Sequence[str]]], advice: str) -> str | None:
    """Describe the first fault that keeps rows of words from being a table of numbers; None where there is none.

    Each row comes with the number of its line. Lines and columns are counted from 1, as editors do. `advice` tells the
    user what to do about a word that is no number.
    """
    expected = 0
    for line, words in rows:
        for column, word in enumerate(words, start=1):
            if not is_number(word):
                return f"line {line}, column {column}: {quoted(word)} is no number; {advice}"
        if expected and len(words) != expected:
            some = "1 value" if len(words) == 1 else f"{len(words)} values"
            return f"line {line} has {some}, those before it {expected}; give every line as many"
        expected = len(words)
    return None


_QUOTIENT = re.compile(r"([-+.\deE]+)/([-+.\deE]+)")


def quotient(text: str) -> tuple[float, float]:
    """Numerator and denominator of a number as people write it: 0.1 is 0.1 over 1, 8/255 is 8 over 255.

    Raises ValueError where the text is neither, or divides by zero.
    """
    match = _QUOTIENT.fullmatch(text.strip())
    if match is None:
        return float(text), 1.0
    top, bottom = float(match[1]), float(match[2])
    if not bottom:
        raise ValueError("division by zero")
    return top, bottom


def number(text: str) -> float:
    """The number that a text names: 0.1 or 8/255."""
    top, bottom = quotient(text)
    return top / bottom


def is_number(word: str) -> bool:
    """Whether Python reads a word as a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _of_text(file: Path) -> NDArray[np.float64]:
    try:
        rows = _rows(text_of(file))
    except ValueError:
        raise FileFormatError("not a readable text; give numbers, rows of equal length") from None
    fault = fault_of(rows, "give numbers alone, without a line of names")
    if fault is not None:
        raise FileFormatError(fault)
    table = np.array([[float(word) for word in words] for _, words in rows], dtype=np.float64)
    return table.reshape(-1) if 1 in table.shape else table


def _rows(text: str) -> list[tuple[int, list[str]]]:
    """The words of every line that is not empty, with the number of the line; text after a # is a comment."""
    lines = ((number, line.partition("#")[0]) for number, line in enumerate(text.splitlines(), start=1))
    return [(n, line.replace(",", " ").replace(";", " ").split()) for n, line in lines if line.strip()]
