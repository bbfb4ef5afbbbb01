"""Half-spaces A x <= b from a file: rows of the numbers a_1 .. a_n, b; or the arrays A and b of an .npz."""

from __future__ import annotations

import os
import re

import numpy as np

from lipcert.errors import FileFormatError, InputError
from lipcert.files import check_readable
from lipcert.files.archive import Archive, Expected
from lipcert.files.tables import read_table
from lipcert.rounding import Array

_NAMES = re.compile("A|b")


def read_halfspaces(path: str | os.PathLike[str], inputs: int) -> tuple[Array, Array]:
    """A, (m, inputs), and b, (m,); raises FileFormatError, one line with the file's name."""
    file = check_readable(path)
    if file.suffix.lower() == ".npz":
        A, b = _read_archive(path)
    else:
        table = np.atleast_2d(read_table(file))
        if table.shape[1] == 1 and table.shape[0] == inputs + 1:
            table = table.T  # one number per line is one half-space
        A, b = table[:, :-1], table[:, -1]
    if A.shape[1] != inputs:
        raise FileFormatError(
            f"{file}: rows of {A.shape[1] + 1} numbers, but {inputs} inputs need {inputs + 1}: a_1 .. a_{inputs}, b"
        )
    return A, b


def _read_archive(path: str | os.PathLike[str]) -> tuple[Array, Array]:
    file = check_readable(path)
    try:
        arrays = Archive(file, Expected(_NAMES, "half-spaces, the arrays A and b", "save it again"))
        A, b = (arrays[name] if name in arrays else None for name in ("A", "b"))  # noqa: SIM401
    except InputError as error:
        raise FileFormatError(f"{file}: {error}") from None
    if A is None or b is None or A.dtype.kind not in "fiu" or b.dtype.kind not in "fiu":
        raise FileFormatError(f"{file}: half-spaces are two arrays of numbers, A and b")
    if A.ndim != 2 or b.shape != A.shape[:1] or not b.size:
        raise FileFormatError(f"{file}: A has the shape {A.shape} and b {b.shape}; give a row of A for each b")
    if not (np.all(np.isfinite(A)) and np.all(np.isfinite(b))):
        raise FileFormatError(f"{file}: a number in it is not finite")
    return A.astype(np.float64), b.astype(np.float64)
