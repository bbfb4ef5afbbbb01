"""MATLAB 5 to 7 files: real matrices, sparse matrices and cell arrays of them, from bytes that are not trusted.

scipy.io reads the same files, but it trusts what they say of themselves: a few flipped bytes in a cell array crash the
interpreter. Here every length is checked against the bytes that are there before it is used.
[MAT] MathWorks, MAT-File Format, the chapter on level 5 files.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.errors import FileFormatError
from lipcert.files import MAX_WEIGHTS, MAX_WIDTH
from lipcert.files.boundary import quoted
from lipcert.problem.norms import Matrix

Variable = Matrix | list[Any]  # a matrix, or a cell array's contents in column order

MAX_CELLS = 4096
MAX_VARIABLES = 4096
MAX_BYTES = 8 * MAX_WEIGHTS + (1 << 20)
_PEEK = 1 << 12  # enough for the header of a variable
_PADDING = 8  # bytes that may follow a variable in its stream
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CELL, _SPARSE = 1, 5
_DENSE = range(6, 16)
_CLASSES = {2: "struct", 3: "object", 4: "text", 16: "function", 17: "object"}
_COMPLEX = 0x800


@dataclass(frozen=True)
class _Element:
    kind: int
    data: memoryview


def read_variables(data: bytes, wanted: frozenset[str]) -> tuple[dict[str, Variable], list[str]]:
    """The wanted variables by name, and the names of the others, whose contents are not looked at."""
    order = _byte_order(data)
    found: dict[str, Variable] = {}
    others: list[str] = []
    left = MAX_BYTES
    for count, element in enumerate(_elements(memoryview(data)[128:], order)):
        if count == MAX_VARIABLES:
            raise FileFormatError(f"more than the limit of {MAX_VARIABLES:,} variables; save the network alone")
        name = _VariableHeader.read(_elements(_body(element, order, _PEEK), order), order).name
        if name not in wanted:
            others.append(name)
            continue
        if name in found:
            raise FileFormatError(f"variable {quoted(name)} is stored twice")
        body = _body(element, order, left, whole=True)
        left -= len(body)
        parts = _elements(body, order)
        found[name] = _contents(_VariableHeader.read(parts, order), parts, order, name)
    return found, others


def _byte_order(data: bytes) -> str:
    if data[:4] == b"\x89HDF" or data[:10] == b"MATLAB 7.3" or data[512:516] == b"\x89HDF":
        raise FileFormatError("a MATLAB 7.3 (HDF5) file; save it in MATLAB with save(..., '-v7')")
    mark = data[126:128]
    if len(data) < 136 or mark not in (b"IM", b"MI"):
        raise FileFormatError("not a MATLAB 5 to 7 file, or a damaged one; save it in MATLAB with save(..., '-v7')")
    return "<" if mark == b"IM" else ">"


def _elements(data: memoryview, order: str) -> Iterator[_Element]:
    """Tagged elements one after the other; a short one keeps its length and up to four bytes within the tag."""
    at = 0
    while at < len(data):
        if at + 8 > len(data):
            raise _truncated()
        first, size = (int(n) for n in np.frombuffer(data[at : at + 8], dtype=order + "u4"))
        if first >> 16:
            kind, size, start, step = first & 0xFFFF, first >> 16, at + 4, 8
            if size > 4:
                raise FileFormatError("a short element of the file is damaged; save it again with '-v7'")
        else:
            kind, start = first, at + 8
            step = 8 + (size if kind == _COMPRESSED else size + -size % 8)
        # The padding of the last element may be left out.
        if start + size > len(data):
            raise _truncated()
        yield _Element(kind, data[start : start + size])
        at += step


def _body(element: _Element, order: str, limit: int, whole: bool = False) -> memoryview:
    """The body of a variable, unpacked if need be: all of it if `whole`, or no more than the first `limit` bytes."""
    if element.kind == _COMPRESSED:
        engine = zlib.decompressobj()
        try:
            tag = engine.decompress(element.data, 8)
            if len(tag) < 8:
                raise _truncated()
            kind, size = (int(n) for n in np.frombuffer(tag, dtype=order + "u4"))
            if whole and size > limit:
                raise FileFormatError(f"a variable of {size:,} bytes is beyond the limit of {MAX_BYTES:,} in all")
            wanted = min(size, limit)
            body = engine.decompress(engine.unconsumed_tail, wanted) if wanted else b""
            more = engine.decompress(engine.unconsumed_tail, _PADDING + 1) if whole else b""
        except zlib.error:
            raise FileFormatError("a compressed variable is damaged; save the file again with '-v7'") from None
        if len(body) < wanted or len(more) > _PADDING:
            raise _truncated()
        element = _Element(kind, memoryview(body))
    if element.kind != _MATRIX:
        raise FileFormatError("something other than a variable is stored; save the file again with '-v7'")
    return element.data


@dataclass(frozen=True)
class _VariableHeader:
    """The type, the shape and the name that stand before the contents of a variable."""

    kind: int
    is_complex: bool
    shape: tuple[int, ...]
    name: str

    @classmethod
    def read(cls, parts: Iterator[_Element], order: str) -> _VariableHeader:
        flags = _whole_numbers(next(parts, None), order)
        shape = _whole_numbers(next(parts, None), order)
        name = next(parts, None)
        if name is None or flags.size != 2 or not 2 <= shape.size <= 32:
            raise FileFormatError("the header of a variable is damaged; save the file again with '-v7'")
        word = int(flags[0])
        text = bytes(name.data).decode("latin-1")
        return cls(word & 0xFF, bool(word & _COMPLEX), tuple(int(n) for n in shape), text)


def _contents(
    header: _VariableHeader, parts: Iterator[_Element], order: str, name: str, nested: bool = False
) -> Variable:
    what = f"variable {quoted(name)}"
    if header.kind == _CELL and not nested:
        return _cells(header, parts, order, name)
    if header.kind not in (*_DENSE, _SPARSE) or header.is_complex:
        kind = "complex" if header.is_complex else _CLASSES.get(header.kind, "a cell array in another")
        raise FileFormatError(f"{what} is {kind}; a real matrix is needed")
    if len(header.shape) != 2 or not all(0 <= n <= MAX_WIDTH for n in header.shape):
        raise FileFormatError(f"{what} has the shape {header.shape}; a matrix with sides up to {MAX_WIDTH:,} is needed")
    if math.prod(header.shape) > MAX_WEIGHTS and header.kind != _SPARSE:
        raise FileFormatError(f"{what} has the shape {header.shape}, beyond the limit of {MAX_WEIGHTS:,} numbers")
    if header.kind == _SPARSE:
        return _sparse(header, parts, order, what)
    values = _numbers(next(parts, None), order)
    if values.size != math.prod(header.shape):
        raise FileFormatError(f"{what} has the shape {header.shape}, but {values.size} numbers")
    return np.asarray(values.reshape(header.shape, order="F"), dtype=np.float64)


def _cells(header: _VariableHeader, parts: Iterator[_Element], order: str, name: str) -> list[Any]:
    count = math.prod(header.shape)
    if not 0 <= count <= MAX_CELLS:
        raise FileFormatError(f"variable {quoted(name)} has {count:,} cells, more than the limit of {MAX_CELLS:,}")
    cells: list[Any] = []
    for i in range(1, count + 1):
        element = next(parts, None)
        if element is None or element.kind != _MATRIX or not element.data:
            raise FileFormatError(f"cell {i} of {quoted(name)} holds no matrix")
        inner = _elements(element.data, order)
        cells.append(_contents(_VariableHeader.read(inner, order), inner, order, f"{name}{{{i}}}", nested=True))
        if sum(math.prod(c.shape) for c in cells if isinstance(c, np.ndarray)) > MAX_WEIGHTS:
            raise FileFormatError(f"variable {quoted(name)} holds more than the limit of {MAX_WEIGHTS:,} numbers")
    return cells


def _sparse(header: _VariableHeader, parts: Iterator[_Element], order: str, what: str) -> Matrix:
    rows, columns = header.shape
    index, starts = (_whole_numbers(next(parts, None), order) for _ in range(2))
    values = _numbers(next(parts, None), order)
    fits = starts.size == columns + 1 and starts[0] == 0 and bool(np.all(starts[1:] >= starts[:-1]))
    # MATLAB may allocate more room than the last start says it uses.
    if not fits or starts[-1] > min(index.size, values.size):
        raise FileFormatError(f"{what} is a damaged sparse matrix")
    used = int(starts[-1])
    index, values = index[:used], np.asarray(values[:used], dtype=np.float64)
    if np.any(index < 0) or np.any(index >= rows):
        raise FileFormatError(f"{what} is a damaged sparse matrix")
    if not rows or not columns:
        raise FileFormatError(f"{what} is empty")
    return sparse.csr_array(sparse.csc_array((values, index, starts), shape=header.shape))


def _numbers(element: _Element | None, order: str) -> NDArray[Any]:
    if element is None:
        raise _truncated()
    code = _NUMBERS.get(element.kind)
    if code is None:
        raise FileFormatError("numbers of an unknown type are stored; save the file again with '-v7'")
    dtype = np.dtype(order + code)
    if len(element.data) % dtype.itemsize:
        raise _truncated()
    return np.frombuffer(element.data, dtype=dtype)


def _whole_numbers(element: _Element | None, order: str) -> NDArray[np.int64]:
    values = _numbers(element, order)
    if values.dtype.kind not in "iu":
        raise FileFormatError("sizes are not whole numbers; save the file again with '-v7'")
    return values.astype(np.int64)


def _truncated() -> FileFormatError:
    return FileFormatError("the file is truncated or damaged; save it again with '-v7'")
