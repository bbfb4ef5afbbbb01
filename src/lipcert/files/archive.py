"""NumPy archives of strangers: sizes and headers are checked before any data are read, and nothing is unpickled.

Members of zip files are unpacked up to the size that they declare: a small file cannot take more memory than that.
Python's zipfile unpacks a whole chunk before it looks at the declared size, and its bz2 and lzma members grow a million
times. This module reads stored and deflated members alone, which grow a thousand times at most, and refuses a member
whose contents are longer or shorter than it declares.
"""

from __future__ import annotations

import io
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from lipcert.errors import FileFormatError
from lipcert.files import MAX_WEIGHTS, opened
from lipcert.files.boundary import parsing, quoted

_LOCAL = struct.Struct("<4s5H3L2H")  # the local header before a member's data
_SIGNATURE = b"PK\x03\x04"
_ENCRYPTED = 0x1


def packed(file: IO[bytes], member: zipfile.ZipInfo) -> bytes:
    """Read the bytes of a member as they are stored, before decompression."""
    name = quoted(member.filename)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & _ENCRYPTED:
        raise FileFormatError(f"member {name} is neither stored nor deflated; write it with numpy.savez")
    file.seek(member.header_offset)
    head = file.read(_LOCAL.size)
    if len(head) != _LOCAL.size or not head.startswith(_SIGNATURE):
        raise damaged(name)
    *_, name_length, extra_length = _LOCAL.unpack(head)
    file.seek(name_length + extra_length, 1)
    data = file.read(member.compress_size)
    if len(data) != member.compress_size:
        raise damaged(name)
    return data


def unpacked(data: bytes, member: zipfile.ZipInfo, most: int | None = None) -> bytes:
    """Decompress a member and check its size and checksum; with `most`, return only its first bytes.

    At most one byte more than the declared size is decompressed.
    """
    name, size = quoted(member.filename), member.file_size
    wanted = size if most is None else min(most, size)
    if member.compress_type == zipfile.ZIP_STORED:
        if len(data) != size:
            raise lying(name, size)
        found, ended = data[:wanted], True
    else:
        engine = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            found = engine.decompress(data, wanted + 1)  # one byte more shows that the stream is too long
        except zlib.error:
            raise damaged(name) from None
        ended = engine.eof
    if most is not None:
        if len(found) < wanted:
            raise lying(name, size)
        return found[:wanted]
    if len(found) != size or not ended:
        raise lying(name, size)
    if zlib.crc32(found) != member.CRC:
        raise damaged(name)
    return found


def damaged(name: str) -> FileFormatError:
    """The error about a member that cannot be decompressed."""
    return FileFormatError(f"member {name} is damaged; write the file again")


def lying(name: str, size: int) -> FileFormatError:
    """The error about a member that is longer or shorter than it declares."""
    return FileFormatError(f"member {name} declares {size:,} bytes, which it does not hold; write the file again")


MAX_MEMBERS = 4096  # arrays in one archive
MAX_HEADER = 4096  # bytes of the dictionary in an array's header
MAX_TEXT = 64  # characters of one word in an array of text
_PEEK = 16 + MAX_HEADER  # bytes at the start of a member that hold its whole header
_UNICODE, _SURROGATES = 0x110000, (0xD800, 0xDFFF)  # the first number past Unicode; code points that are no characters


@dataclass(frozen=True)
class _ArrayHeader:
    """The shape and type that an array's header declares, and where its data begin."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int


@dataclass(frozen=True)
class Expected:
    """The arrays that a kind of file may hold.

    Every name must match `names`, and every array has at most `axes` axes. `texts` are the names of arrays of text.
    Arrays whose name ends in one of `indices` do not count towards the limit of numbers. For error messages, `content`
    says what the file should hold and `advice` what to do about a damaged one.
    """

    names: re.Pattern[str]
    content: str
    advice: str
    texts: frozenset[str] = frozenset()
    indices: tuple[str, ...] = ()
    axes: int = 2


class Archive(Mapping[str, NDArray[Any]]):
    """The arrays of an .npz file; data are read after all headers passed their checks."""

    def __init__(self, path: Path | IO[bytes], expected: Expected) -> None:
        self._advice = advice = expected.advice
        with opened(path) if isinstance(path, Path) else nullcontext(path) as file:
            members = members_of(file, advice)
            if len(members) > MAX_MEMBERS:
                raise FileFormatError(f"{len(members)} arrays are more than the limit of {MAX_MEMBERS}")
            if sum(m.file_size for m in members) > 8 * MAX_WEIGHTS + MAX_MEMBERS * MAX_HEADER:
                raise FileFormatError(f"the arrays declare more than {MAX_WEIGHTS:,} numbers")
            headers: dict[str, _ArrayHeader] = {}
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name == member.filename or not expected.names.fullmatch(name) or name in headers:
                    raise FileFormatError(f"unexpected array {quoted(name)} in {expected.content}")
                with parsing(f"array {name}", advice):
                    start = io.BytesIO(unpacked(packed(file, member), member, _PEEK))
                    headers[name] = _header(start, name, member.file_size, name in expected.texts, expected.axes)
            numbers = sum(math.prod(h.shape) for name, h in headers.items() if not name.endswith(expected.indices))
            if numbers > MAX_WEIGHTS:
                raise FileFormatError(f"the arrays hold {numbers:,} numbers, more than the limit of {MAX_WEIGHTS:,}")
            both = zip(headers.items(), members, strict=True)
            self._arrays = {name: self._read(file, name, header, member) for (name, header), member in both}

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

    def _read(self, file: IO[bytes], name: str, header: _ArrayHeader, member: zipfile.ZipInfo) -> NDArray[Any]:
        with parsing(f"array {name}", self._advice):
            data = np.frombuffer(unpacked(packed(file, member), member), dtype=header.dtype, offset=header.offset)
            if header.dtype.kind == "U" and not _is_text(data):
                raise FileFormatError(f"array {name} holds characters that there are not; {self._advice}")
            return data.reshape(header.shape, order="F" if header.fortran else "C")


def holds(path: str | os.PathLike[str], name: str) -> bool:
    """Whether a file is an archive with an array of this name; only the directory of the archive is read."""
    with opened(path) as file:
        try:
            return any(member.filename == f"{name}.npy" for member in members_of(file, ""))
        except FileFormatError:
            return False


def members_of(file: IO[bytes], advice: str) -> list[zipfile.ZipInfo]:
    """The entries in the directory of an archive."""
    with parsing("the archive", advice):
        try:
            return zipfile.ZipFile(file).infolist()
        except NotImplementedError:
            raise FileFormatError(f"the archive says that it needs a newer zip program; {advice}") from None


def read_npy(path: Path, axes: int) -> NDArray[Any]:
    """Read the numbers of an .npy file with at most `axes` axes; the header is checked before any data are read."""
    with opened(path) as file:
        with parsing("the header", "save it again with numpy.save"):
            header = _header(io.BytesIO(file.read(_PEEK)), "of the file", path.stat().st_size, False, axes)
        if math.prod(header.shape) > MAX_WEIGHTS:
            raise FileFormatError(f"{math.prod(header.shape):,} numbers are more than the limit of {MAX_WEIGHTS:,}")
        file.seek(header.offset)
        data = np.frombuffer(file.read(), dtype=header.dtype)
    return data.reshape(header.shape, order="F" if header.fortran else "C")


def _header(file: IO[bytes], name: str, size: int, text: bool, axes: int) -> _ArrayHeader:
    """Read the header at the start of a member and check the declared shape against the member's size."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise FileFormatError(f"array {name} has the unknown npy version {version}; save it with numpy.savez")
    reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = reader(file, max_header_size=MAX_HEADER)
    if dtype.hasobject or dtype.kind not in ("U" if text else "fiu") or dtype.itemsize > (4 * MAX_TEXT if text else 16):
        wanted = "text is" if text else "real numbers are"
        raise FileFormatError(f"array {name} has type {quoted(str(dtype))}; {wanted} needed")
    if any(n < 0 for n in shape) or len(shape) > axes or max(shape, default=0) > MAX_WEIGHTS:
        raise FileFormatError(f"array {name} has the shape {quoted(str(shape))}, which is not possible here")
    offset = file.tell()
    if offset + math.prod(shape) * dtype.itemsize != size:
        raise FileFormatError(f"array {name} has the shape {shape}, but {max(size - offset, 0)} bytes of data")
    return _ArrayHeader(shape, fortran, dtype, offset)


def _is_text(data: NDArray[np.str_]) -> bool:
    """Whether all characters are characters of Unicode; NumPy accepts any four bytes as a character."""
    codes = data.view(np.dtype(np.uint32).newbyteorder(data.dtype.byteorder))
    surrogate = (codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1])
    return bool(np.all(codes < _UNICODE) and not np.any(surrogate))
