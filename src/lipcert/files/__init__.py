"""Reading files of strangers within limits of size, and writing files atomically."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError

MAX_FILE_BYTES = 1 << 30
MAX_WEIGHTS = 1 << 27  # stored numbers in one network
MAX_WIDTH = 1 << 22  # neurons in one layer


def check_readable(path: str | os.PathLike[str]) -> Path:
    """The path of a regular file, or of a link to one, that is readable and within the limit of size."""
    p = Path(path)
    try:
        _check_regular(p, os.stat(p))
    except (FileNotFoundError, NotADirectoryError):
        raise FileFormatError(f"{p}: no such file") from None
    except OSError as error:
        raise FileFormatError(f"{p}: cannot be read ({error.strerror})") from None
    except ValueError as error:  # a name that this system cannot have, or a FileFormatError of our own
        raise error if isinstance(error, FileFormatError) else FileFormatError(f"{p}: no such file") from None
    if not os.access(p, os.R_OK):
        raise FileFormatError(f"{p}: no permission to read it")
    return p


def opened(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading bytes; every file of a stranger is opened here.

    Refuse devices and FIFOs, also behind a link. The file is opened without blocking and its kind is checked again
    after opening, because another file may have taken the name between the check and the opening.
    """
    p = check_readable(path)
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        file = os.fdopen(os.open(p, flags), "rb")
    except OSError as error:
        raise FileFormatError(f"{p}: cannot be read ({error.strerror})") from None
    try:
        _check_regular(p, os.fstat(file.fileno()))
    except FileFormatError:
        file.close()
        raise
    return file


def contents(path: str | os.PathLike[str]) -> bytes:
    """Read all bytes of a stranger's file."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1)
    if len(data) != size:
        raise FileFormatError(f"{path}: it changed while it was read; try again")
    return data


def text_of(path: str | os.PathLike[str], encoding: str = "utf-8", errors: str = "strict") -> str:
    """Read the text of a stranger's file with plain line ends; raises UnicodeDecodeError where it is no text."""
    return contents(path).decode(encoding, errors).replace("\r\n", "\n").replace("\r", "\n")


def _check_regular(p: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise FileFormatError(f"{p}: not a file")
    if found.st_size == 0:
        raise FileFormatError(f"{p}: the file is empty")
    if found.st_size > MAX_FILE_BYTES:
        size, limit = found.st_size / 2**30, MAX_FILE_BYTES / 2**30
        raise FileFormatError(f"{p}: {size:.1f} GiB is more than the limit of {limit:.0f} GiB")


def write_atomically(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Call write(file) on a temporary file in the same folder, then rename it to `path`: all or nothing."""
    p = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=p.parent, prefix=f".{p.name}.")
    except OSError as error:
        raise InputError(f"{p}: cannot write there ({error.strerror})") from None
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # mkstemp makes files private; a saved model is an ordinary file
        os.replace(name, p)
    except OSError as error:
        raise InputError(f"{p}: cannot write there ({error.strerror})") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def write_bytes(path: str | os.PathLike[str], contents: bytes) -> None:
    """Write a file with these contents atomically."""
    write_atomically(path, lambda file: file.write(contents))


def write_json(path: str | os.PathLike[str], value: Mapping[str, Any], what: str = "a result") -> None:
    """Write one object to a .json file atomically; NaN and infinity are refused."""
    if Path(path).suffix.lower() != ".json":
        raise InputError(f"{path}: {what} is saved as .json; give the file that ending")
    write_bytes(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], what: str = "a certificate") -> None:
    """Write an uncompressed .npz atomically; arrays of Python objects, which need pickle, are refused."""
    if Path(path).suffix.lower() != ".npz":  # readers choose the format by the ending
        raise InputError(f"{path}: {what} is saved as .npz; give the file that ending")
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise TypeError(f"array {name!r} holds Python objects")
    write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **arrays))
