"""Vectors and matrices of numbers in small files: .npy, or text with one row per line."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError
from lipcert.files import check_readable

MAX_BYTES = 1 << 26
_TEXT = (".csv", ".txt")


def read_table(path: str | os.PathLike[str]) -> NDArray[np.float64]:
    """A vector or a matrix of finite numbers; a text with one row, or one number in every row, is a vector."""
    file = check_readable(path)
    if file.stat().st_size > MAX_BYTES:
        raise FileFormatError(f"{file}: larger than {MAX_BYTES:,} bytes; give fewer numbers")
    ending = file.suffix.lower()
    if ending != ".npy" and ending not in _TEXT:
        raise FileFormatError(f"{file}: numbers are read from .npy, .csv and .txt files")
    try:
        values = _of_text(file.read_text(encoding="utf-8")) if ending in _TEXT else np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError, MemoryError):
        raise FileFormatError(f"{file}: not a readable file of numbers, rows of equal length") from None
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu" or values.ndim not in (1, 2):
        raise FileFormatError(f"{file}: expected a vector or a matrix of real numbers")
    if not values.size or not np.all(np.isfinite(values)):
        raise FileFormatError(f"{file}: it is empty, or a number in it is not finite")
    return values.astype(np.float64)


def _of_text(text: str) -> NDArray[np.float64]:
    lines = [line for line in (line.partition("#")[0].strip() for line in text.splitlines()) if line]
    rows = [[float(word) for word in line.replace(",", " ").replace(";", " ").split()] for line in lines]
    table = np.array(rows, dtype=np.float64)
    return table.reshape(-1) if 1 in table.shape else table
