"""Small files that ask for much: packed members that grow, sizes that lie, characters that there are not."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from lipcert.errors import FileFormatError
from lipcert.files.boundary import located
from lipcert.files.tables import read_table, read_vector
from lipcert.proof.file import load_certificate, load_proof
from lipcert.readers import load, mat5
from lipcert.robustness.data import read_data
from lipcert.robustness.stored import read_arrays
from tests.reader_tools import refuse

Reader = Callable[[Path], object]
LITTLE = 8 << 20  # bytes that refusing a file may take
NETWORK: dict[str, Any] = {"W1": np.ones((2, 3)), "b1": np.zeros(2)}


def _job(path: Path) -> object:
    with located(path):
        return read_arrays(path)


# Whoever reads an archive, and the name of an array in it that is read as numbers.
READERS: dict[str, tuple[Reader, str]] = {
    "network": (load, "W1"),
    "certificate": (load_certificate, "lo"),
    "cells": (load_proof, "lo"),
    "margins": (load_proof, "lo"),
    "data": (lambda path: read_data(str(path)), "images"),
    "job": (_job, "radii"),
}


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _zip(path: Path, name: str, content: bytes, kind: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.npy", content, compress_type=kind)
    return path


def _restated(path: Path, size: int, crc: int) -> Path:
    """The archive with another size and checksum of its one member, in both of its headers."""
    data = bytearray(path.read_bytes())
    directory = data.rindex(b"PK\x01\x02")
    for at in (14, directory + 16):  # the checksum; the packed size follows, and then the size
        data[at : at + 4] = crc.to_bytes(4, "little")
        data[at + 8 : at + 12] = size.to_bytes(4, "little")
    path.write_bytes(data)
    return path


def _cheaply_refused(path: Path, reader: Reader, *words: str) -> None:
    reader_of_nothing = path.with_name("nothing.npz")
    with pytest.raises(FileFormatError):  # so that what is imported late is not counted
        reader(reader_of_nothing)
    tracemalloc.start()
    try:
        refuse(path, *words, kind=FileFormatError, reader=reader)
        assert tracemalloc.get_traced_memory()[1] < LITTLE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("who", READERS)
def test_only_stored_and_deflated_members_are_read(who: str, kind: int, tmp_path: Path) -> None:
    reader, name = READERS[who]
    path = _zip(tmp_path / "small.npz", name, _npy(np.zeros(1 << 22)), kind)
    assert path.stat().st_size < 8192
    _cheaply_refused(path, reader, "neither stored nor deflated")


@pytest.mark.parametrize("who", READERS)
def test_a_member_cannot_grow_beyond_its_size(who: str, tmp_path: Path) -> None:
    reader, name = READERS[who]
    few = _npy(np.zeros(3))
    path = _zip(tmp_path / "small.npz", name, few + bytes(64 << 20))
    _cheaply_refused(_restated(path, len(few), zlib.crc32(few)), reader, f"declares {len(few)} bytes")


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("less", [-8, -1, 1, 8])
def test_a_member_holds_what_it_declares(kind: int, less: int, tmp_path: Path) -> None:
    whole = _npy(np.ones((40, 30)))
    path = _zip(tmp_path / "net.npz", "W1", whole, kind)
    size = len(whole) - less
    refuse(_restated(path, size, zlib.crc32(whole[:size])), kind=FileFormatError)


def test_a_short_stream_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.npz"
    np.savez_compressed(path, **NETWORK)
    assert load(path).shape == (3, 2)
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    cut = (engine.compress(_npy(np.ones((40, 30)))) + engine.flush(zlib.Z_SYNC_FLUSH))[:-1]
    data = _zip(path, "W1", cut, zipfile.ZIP_STORED).read_bytes()
    directory = data.rindex(b"PK\x01\x02")
    packed = bytearray(data)
    packed[8:10] = packed[directory + 10 : directory + 12] = zipfile.ZIP_DEFLATED.to_bytes(2, "little")
    path.write_bytes(packed)
    whole = _npy(np.ones((40, 30)))
    refuse(_restated(path, len(whole) + 1, zlib.crc32(whole)), kind=FileFormatError)


@pytest.mark.parametrize("code", [0x110000, 0xFFFFFFFF, 0xD800])
@pytest.mark.parametrize("who", ["certificate", "cells", "margins"])
def test_text_that_is_none_is_refused(who: str, code: int, tmp_path: Path) -> None:
    word = np.array("2" * 8)
    content = _npy(word)[: -word.nbytes] + code.to_bytes(4, "little") * 8
    refuse(_zip(tmp_path / "c.npz", "network", content), "characters", kind=FileFormatError, reader=READERS[who][0])


@pytest.mark.parametrize("reader", [read_table, read_vector, lambda path: read_data(str(path))])
def test_headers_of_npy_files_are_not_believed(reader: Reader, tmp_path: Path) -> None:
    """One that declares more numbers than there are, one that is longer than any header, and an archive in disguise."""
    path = tmp_path / "numbers.npy"
    path.write_bytes(_npy(np.zeros(8)).replace(b"(8,), }", b"(1<<40"))
    refuse(path, kind=FileFormatError, reader=reader)
    path.write_bytes(_npy(np.zeros(8)).replace(b"(8,), }         ", b"(99999999999,), }"[:16]))
    refuse(path, kind=FileFormatError, reader=reader)
    long = b"\x93NUMPY\x02\x00" + (32 << 20).to_bytes(4, "little") + b" " * (32 << 20)
    path.write_bytes(long)
    _cheaply_refused(path, reader, "damaged")
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    path.write_bytes((tmp_path / "x.npz").read_bytes())
    refuse(path, kind=FileFormatError, reader=reader)


def _mat(variables: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    scipy.io.savemat(stream, variables, do_compression=True)
    return stream.getvalue()


def test_variables_of_matlab_hold_what_they_declare(tmp_path: Path) -> None:
    path, data = tmp_path / "net.mat", _mat({"A": np.ones((3, 2))})
    body = zlib.decompress(data[136:])
    packed = zlib.compress(body + bytes(64 << 20), 9)
    path.write_bytes(data[:132] + len(packed).to_bytes(4, "little") + packed)
    _cheaply_refused(path, load, "truncated or damaged")


def test_variables_of_matlab_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "net.mat"
    data = _mat({"x00": np.ones(1)})
    path.write_bytes(data[:128] + data[128:] * (mat5.MAX_VARIABLES + 1))
    refuse(path, f"{mat5.MAX_VARIABLES:,} variables", kind=FileFormatError)


def test_packed_idx_data_hold_what_they_declare(tmp_path: Path) -> None:
    path = tmp_path / "images.idx.gz"
    head = b"\0\0\x08\x01" + (8).to_bytes(4, "big")
    for count in (7, 9, 64 << 20):
        path.write_bytes(gzip.compress(head + bytes(count)))
        _cheaply_refused(path, lambda p: read_data(str(p)), "not of that length")


def test_running_out_of_memory_blames_no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    from lipcert.cli import app, pop

    def full(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(pop, "load_problem", full)
    (tmp_path / "p.pop").write_text("minimize x\n-1 <= x <= 1\n")
    assert app.run(["pop", str(tmp_path / "p.pop")]) == 2
    said = capsys.readouterr().err
    assert "out of memory" in said
    assert "network" not in said
