"""NumPy archives of strangers: sizes and headers checked before any data are read, nothing ever unpickled."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from lipcert.errors import FileFormatError
from lipcert.files import MAX_WEIGHTS
from lipcert.files.boundary import parsing, quoted

MAX_MEMBERS = 4096
MAX_HEADER = 4096


@dataclass(frozen=True)
class _Header:
    """What an array's header declares."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int


class Archive(Mapping[str, NDArray[Any]]):
    """The arrays of an .npz file whose names match `names`, read once all their headers are checked.

    `texts` names the arrays of text among the numbers, `indices` are endings of arrays that do not count as numbers
    kept, `content` says what the file should hold and `advice` what to do when it is damaged, for the error messages;
    arrays have at most `axes` axes.
    """

    def __init__(
        self,
        path: Path | IO[bytes],
        names: re.Pattern[str],
        *,
        content: str,
        texts: frozenset[str] = frozenset(),
        indices: tuple[str, ...] = (),
        axes: int = 2,
        advice: str = "export the network again",
    ) -> None:
        self._advice = advice
        with parsing("the archive", advice):
            self._zip = zipfile.ZipFile(path)
        with self._zip:
            members = self._zip.infolist()
            if len(members) > MAX_MEMBERS:
                raise FileFormatError(f"{len(members)} arrays are more than the limit of {MAX_MEMBERS}")
            if sum(m.file_size for m in members) > 8 * MAX_WEIGHTS + MAX_MEMBERS * MAX_HEADER:
                raise FileFormatError(f"the arrays declare more than {MAX_WEIGHTS:,} numbers")
            self._headers: dict[str, _Header] = {}
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name == member.filename or not names.fullmatch(name) or name in self._headers:
                    raise FileFormatError(f"unexpected array {quoted(name)} in {content}")
                with parsing(f"array {name}", advice), self._zip.open(member) as file:
                    self._headers[name] = _header(file, name, member.file_size, name in texts, axes)
            numbers = sum(math.prod(h.shape) for name, h in self._headers.items() if not name.endswith(indices))
            if numbers > MAX_WEIGHTS:
                raise FileFormatError(f"the arrays hold {numbers:,} numbers, more than the limit of {MAX_WEIGHTS:,}")
            self._arrays = {name: self._read(name) for name in self._headers}

    def __getitem__(self, name: str) -> NDArray[Any]:
        try:
            return self._arrays[name]
        except KeyError:
            raise FileFormatError(f"array {name} is missing") from None

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def _read(self, name: str) -> NDArray[Any]:
        header = self._headers[name]
        with parsing(f"array {name}", self._advice), self._zip.open(f"{name}.npy") as file:
            file.read(header.offset)
            data = np.frombuffer(file.read(), dtype=header.dtype)
            return data.reshape(header.shape, order="F" if header.fortran else "C")


def read_npy(path: Path, axes: int) -> NDArray[Any]:
    """The numbers of an .npy file with at most `axes` axes; its header is checked before any data are read."""
    with path.open("rb") as file:
        with parsing("the header", "save it again with numpy.save"):
            header = _header(file, "of the file", path.stat().st_size, False, axes)
        if math.prod(header.shape) > MAX_WEIGHTS:
            raise FileFormatError(f"{math.prod(header.shape):,} numbers are more than the limit of {MAX_WEIGHTS:,}")
        data = np.frombuffer(file.read(), dtype=header.dtype)
    return data.reshape(header.shape, order="F" if header.fortran else "C")


def _header(file: IO[bytes], name: str, size: int, text: bool, axes: int) -> _Header:
    """The header at the start of a member, with its claims checked against the member's size."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise FileFormatError(f"array {name} has the unknown npy version {version}; save it with numpy.savez")
    reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = reader(file, max_header_size=MAX_HEADER)
    if dtype.hasobject or dtype.kind not in ("U" if text else "fiu") or dtype.itemsize > (256 if text else 16):
        wanted = "text is" if text else "real numbers are"
        raise FileFormatError(f"array {name} has type {quoted(str(dtype))}; {wanted} needed")
    if any(n < 0 for n in shape) or len(shape) > axes or max(shape, default=0) > MAX_WEIGHTS:
        raise FileFormatError(f"array {name} has the shape {quoted(str(shape))}, which is not possible here")
    offset = file.tell()
    if offset + math.prod(shape) * dtype.itemsize != size:
        raise FileFormatError(f"array {name} has the shape {shape}, but {max(size - offset, 0)} bytes of data")
    return _Header(shape, fortran, dtype, offset)
