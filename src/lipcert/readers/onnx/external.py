"""External data of ONNX: tensors whose numbers are in a file beside the model, as exporters write them today.

A location is believed as far as one plain file name in the model's own folder: no other folder, no link, no device.
Sizes are checked against the declared shape, and all of them together, before anything is read, and then that slice
alone.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lipcert.errors import FileFormatError, InputError
from lipcert.files import MAX_FILE_BYTES, MAX_WEIGHTS
from lipcert.files.boundary import quoted
from lipcert.readers.onnx.operation import EXTERNAL, TENSOR_TYPES

_KEYS = ("location", "offset", "length", "checksum")
_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)
_PLAIN = re.compile(r"[\w.+-]{1,60}")
# Separators of every system, drives and streams of Windows, and the end of a name in C.
_NO_NAME = re.compile(r"[/\\:\0]")


def fetch_external(graph: Any, folder: Path) -> None:
    """Put the numbers of all external tensors of a graph into it, as if the model were one file.

    Tensors of types that are not read stay as they are; so do those of inner graphs, which no operator reads.
    Raises FileFormatError where a location, an offset, a length or a file is not as it should be.
    """
    found = [t for t in _tensors(graph) if t.data_location == EXTERNAL and t.data_type in TENSOR_TYPES]
    sizes = [_declared_bytes(tensor) for tensor in found]
    if sum(sizes) > MAX_FILE_BYTES:
        raise FileFormatError(f"the tensors kept in other files are more than {MAX_FILE_BYTES / 2**30:.0f} GiB")
    places = [_place(tensor, size) for tensor, size in zip(found, sizes, strict=True)]
    for tensor, size, (name, offset) in zip(found, sizes, places, strict=True):
        data = _slice(folder, name, offset, size, _what(tensor))
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
        tensor.raw_data = data


def _tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _what(tensor: Any) -> str:
    return f"tensor {quoted(tensor.name)}"


def _declared_bytes(tensor: Any) -> int:
    """The number of bytes that follows from the shape and the type."""
    what = _what(tensor)
    sizes = [int(n) for n in tensor.dims]
    if len(sizes) > 64 or min(sizes, default=0) < 0 or math.prod(sizes) > MAX_WEIGHTS:
        raise FileFormatError(f"{what} has the shape {quoted(str(sizes))}, beyond the limits")
    if any(len(getattr(tensor, f"{kind}_data")) for kind in ("raw", "float", "double", "int32", "int64", "uint64")):
        raise FileFormatError(f"{what} has numbers both in the file and in another one; export the network again")
    return math.prod(sizes) * int(np.dtype(TENSOR_TYPES[tensor.data_type]).itemsize)


def _place(tensor: Any, size: int) -> tuple[str, int]:
    """The name of the file and where in it the tensor begins."""
    what = _what(tensor)
    entries: dict[Any, Any] = {}
    for entry in tensor.external_data:
        if entry.key not in _KEYS or entry.key in entries:
            raise FileFormatError(f"{what}: its external data have {quoted(entry.key)} twice, or it is not known")
        entries[entry.key] = entry.value
    name = entries.get("location", "")
    if not isinstance(name, str) or name in ("", ".", "..") or _NO_NAME.search(name):
        raise FileFormatError(
            f"{what} is kept in {quoted(name)}; only a file in the same folder is read, named without any folder"
        )
    for key in ("offset", "length"):
        value = entries.get(key, "0")
        if not isinstance(value, str) or not _WHOLE.fullmatch(value):
            raise FileFormatError(f"{what}: the {key} {quoted(value)} of its external data is not a whole number >= 0")
    if "length" in entries and int(entries["length"]) != size:
        raise FileFormatError(f"{what} asks for {size:,} bytes by its shape, for {int(entries['length']):,} by length")
    return name, int(entries.get("offset", "0"))


def _slice(folder: Path, name: str, offset: int, size: int, what: str) -> bytes:
    """These bytes of a plain file in the folder."""
    shown = quoted(name)
    try:
        with os.fdopen(_opened(folder / name, shown), "rb") as file:
            found = os.fstat(file.fileno())
            _check_file(found, shown)
            if offset + size > found.st_size:
                raise FileFormatError(
                    f"{what} ends at byte {offset + size:,} of {shown}, which has {found.st_size:,}; "
                    "it is cut short, or of another model"
                )
            file.seek(offset)
            data = file.read(size)
    except InputError:
        raise
    except FileNotFoundError:
        plain = name if _PLAIN.fullmatch(name) else shown
        raise FileFormatError(
            f"{plain} is not beside the file; copy both, or export with external_data=False"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a name that this system cannot have
        reason = getattr(error, "strerror", None) or "no name of a file here"
        raise FileFormatError(f"{shown} beside the file cannot be read ({reason})") from None
    if len(data) != size:
        raise FileFormatError(f"{shown} changed while it was read; try again")
    return data


def _opened(path: Path, name: str) -> int:
    """Open a regular file. Refuse symbolic links, and do not block on a FIFO."""
    _check_file(os.lstat(path), name)
    flags = os.O_RDONLY
    for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, flag, 0)
    return os.open(path, flags)


def _check_file(found: os.stat_result, name: str) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise FileFormatError(f"{name} beside the file is a link, which is not followed; put the file itself there")
    if not stat.S_ISREG(found.st_mode):
        raise FileFormatError(f"{name} beside the file is not a plain file")
    if found.st_size > MAX_FILE_BYTES:
        size, limit = found.st_size / 2**30, MAX_FILE_BYTES / 2**30
        raise FileFormatError(f"{name}: {size:.1f} GiB is more than the limit of {limit:.0f} GiB")
