"""MATLAB files: the two layouts, written by scipy, and files that are damaged or of another kind."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from scipy import sparse

from lipcert.errors import FileFormatError
from lipcert.readers import load
from lipcert.readers.mat import read_center
from tests.reader_tools import accuracy, data_file, refuse, survive

RNG = np.random.default_rng(7)
A, b, c, x00 = RNG.normal(size=(6, 4)), RNG.normal(size=6), RNG.normal(size=6), RNG.normal(size=4)


def cells(*matrices: Any) -> Any:
    array = np.empty((1, len(matrices)), dtype=object)
    for i, m in enumerate(matrices):
        array[0, i] = m
    return array


def write(path: Path, variables: dict[str, Any], **options: Any) -> Path:
    scipy.io.savemat(path, variables, **options)
    return path


@pytest.mark.parametrize("oned_as", ["row", "column"])
@pytest.mark.parametrize("compressed", [False, True])
def test_one_output(tmp_path: Path, oned_as: str, compressed: bool) -> None:
    variables = {"A": A, "b": b, "c": c, "x00": x00, "name": "a text", "s": {"field": 1.0}}
    path = write(tmp_path / "net.mat", variables, oned_as=oned_as, do_compression=compressed)
    x = RNG.normal(size=(9, 4))
    np.testing.assert_allclose(load(path).forward(x)[:, 0], np.maximum(x @ A.T + b, 0) @ c, rtol=1e-12)
    center = read_center(path)
    assert center is not None
    np.testing.assert_array_equal(center, x00)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "float32"])
def test_other_number_types(tmp_path: Path, dtype: str) -> None:
    small = np.arange(24).reshape(6, 4).astype(dtype)
    network = load(write(tmp_path / "net.mat", {"A": small, "b": b, "c": c}))
    np.testing.assert_array_equal(network.affines[0].weight, small)


def test_sparse_matrix(tmp_path: Path) -> None:
    matrix = sparse.csc_array(np.where(A > 0, A, 0.0))
    network = load(write(tmp_path / "net.mat", {"A": matrix, "b": b, "c": sparse.csc_array(c[:, None])}))
    np.testing.assert_array_equal(network.affines[0].weight.toarray(), matrix.toarray())


def test_big_endian(tmp_path: Path) -> None:
    """A file written by hand as on a big-endian machine: A, b and c are all the 1 x 1 matrix (2)."""
    body = b"".join(big_endian_matrix(name, 2.0) for name in (b"A", b"b", b"c"))
    (tmp_path / "net.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI" + body)
    np.testing.assert_allclose(load(tmp_path / "net.mat").forward(np.array([3.0])), [16.0])


def big_endian_matrix(name: bytes, value: float) -> bytes:
    parts = struct.pack(">IIII", 6, 8, 6, 0) + struct.pack(">IIii", 5, 8, 1, 1)
    parts += struct.pack(">HH", 1, 1) + name.ljust(4, b"\0") + struct.pack(">IId", 9, 8, value)
    return struct.pack(">II", 14, len(parts)) + parts


def test_chain_without_biases(tmp_path: Path) -> None:
    B = RNG.normal(size=(3, 6))
    network = load(write(tmp_path / "net.mat", {"weights": cells(A, B)}))
    x = RNG.normal(size=(9, 4))
    np.testing.assert_allclose(network.forward(x), np.maximum(x @ A.T, 0) @ B.T, rtol=1e-12)
    assert network.notes == ()
    assert read_center(tmp_path / "net.mat") is None


def test_chain_with_biases_and_transposed(tmp_path: Path) -> None:
    B, d = RNG.normal(size=(3, 6)), RNG.normal(size=3)
    path = write(tmp_path / "net.mat", {"weights": cells(A.T, B.T), "biases": cells(b, d)}, do_compression=True)
    network = load(path)
    x = RNG.normal(size=(9, 4))
    np.testing.assert_allclose(network.forward(x), np.maximum(x @ A.T + b, 0) @ B.T + d, rtol=1e-12)
    assert "transposed" in network.notes[0]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"A": A, "b": b}, ["expected A, b, c", "'A', 'b'"]),
        ({"B": A}, ["found the variables 'B'"]),
        ({"A": A, "b": b[:4], "c": c}, ["b has 4 entries, A has 6 rows", "(out, in)"]),
        ({"A": A, "b": b, "c": c[:5]}, ["c has 5 entries"]),
        ({"A": A, "b": A, "c": c}, ["'b' has the shape (6, 4)"]),
        ({"A": A + 1j, "b": b, "c": c}, ["'A' is complex"]),
        ({"A": "text", "b": b, "c": c}, ["'A' is text"]),
        ({"A": {"f": 1}, "b": b, "c": c}, ["'A' is struct"]),
        ({"A": np.ones((2, 2, 2)), "b": b, "c": c}, ["'A' has the shape (2, 2, 2)"]),
        ({"A": cells(A), "b": b, "c": c}, ["'A' is a cell array"]),
        ({"A": A * np.inf, "b": b, "c": c}, ["not finite"]),
        ({"A": np.zeros((0, 0)), "b": b, "c": c}, ["0 rows"]),
        ({"weights": A}, ["cell array of matrices"]),
        ({"weights": cells()}, ["cell array of matrices"]),
        ({"weights": cells(A, "text")}, ["weights{2}", "text"]),
        ({"weights": cells(A, cells(A))}, ["weights{2}", "a cell array in another"]),
        ({"weights": cells(A, A)}, ["do not follow one another"]),
        ({"weights": cells(A), "biases": b}, ["'biases' must be a cell array"]),
        ({"weights": cells(A), "biases": cells(b, b)}, ["one vector per layer"]),
        ({"weights": cells(A), "biases": cells(A)}, ["biases{1}"]),
        ({"weights": cells(A), "biases": cells(c[:5])}, ["5 entries"]),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, variables: dict[str, Any], words: list[str]) -> None:
    refuse(write(tmp_path / "net.mat", variables), *words, kind=FileFormatError)


def test_center_must_be_a_finite_vector(tmp_path: Path) -> None:
    path = write(tmp_path / "net.mat", {"x00": np.array([1.0, np.nan])})
    refuse(path, "not finite", kind=FileFormatError, reader=read_center)
    write(path, {"x00": np.ones((2, 2))})
    refuse(path, "'x00' has the shape (2, 2)", kind=FileFormatError, reader=read_center)


@pytest.mark.parametrize("start", [b"MATLAB 7.3 MAT-file", b"\x89HDF\r\n\x1a\n"])
def test_hdf5_files_say_what_to_do(tmp_path: Path, start: bytes) -> None:
    (tmp_path / "net.mat").write_bytes(start.ljust(600))
    refuse(tmp_path / "net.mat", "'-v7'", "HDF5", kind=FileFormatError)


def test_other_variables_are_not_unpacked(tmp_path: Path) -> None:
    """A variable that claims two gigabytes does no harm where nobody asks for it."""
    scipy.io.savemat(tmp_path / "net.mat", {"weights": cells(A)})
    bomb = struct.pack("<II", 14, 1 << 31) + matrix(6, (1 << 14, 1 << 14), b"other")[8:].ljust(5000, b"\0")
    with open(tmp_path / "net.mat", "ab") as file:
        packed = zlib.compress(bomb)
        file.write(struct.pack("<II", 15, len(packed)) + packed)
    assert load(tmp_path / "net.mat").shape == (4, 6)


def test_version_4_files_say_what_to_do(tmp_path: Path) -> None:
    refuse(write(tmp_path / "net.mat", {"A": A}, format="4"), "'-v7'", kind=FileFormatError)


def element(kind: int, data: bytes) -> bytes:
    return struct.pack("<II", kind, len(data)) + data.ljust(-(-len(data) // 8) * 8, b"\0")


def matrix(kind: int, shape: tuple[int, int], name: bytes, *parts: bytes) -> bytes:
    head = element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack("<ii", *shape)) + element(1, name)
    return element(14, head + b"".join(parts))


BIG = matrix(6, (1, 1), b"A")[8:].ljust(5000, b"\0")
NUMBER = element(9, struct.pack("<d", 1.0))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (matrix(6, (1 << 30, 1 << 30), b"A", NUMBER), ["'A' has the shape"]),
        (matrix(6, (-1, -1), b"A", NUMBER), ["'A' has the shape"]),
        (matrix(6, (2, 2), b"A", NUMBER), ["but 1 numbers"]),
        (matrix(6, (1, 1), b"A"), ["truncated"]),
        (matrix(6, (1, 1), b"A", element(9, b"123")), ["truncated"]),
        (matrix(6, (1, 1), b"A", element(8, b"12345678")), ["unknown type"]),
        (matrix(6, (1, 1), b"A", NUMBER) * 2, ["stored twice"]),
        (matrix(1, (1 << 30, 1 << 30), b"weights"), ["cells"]),
        (matrix(1, (1, 2), b"weights", matrix(6, (1, 1), b"", NUMBER)), ["cell 2 of 'weights' holds no matrix"]),
        (matrix(1, (1, 1), b"weights", element(14, b"")), ["cell 1"]),
        (matrix(5, (2, 1), b"A", element(5, b"\7\0\0\0"), element(5, b"\0\0\0\0\1\0\0\0"), NUMBER), ["sparse"]),
        (matrix(5, (2, 1), b"A", element(5, b"\0\0\0\0"), element(5, b"\0\0\0\0\7\0\0\0"), NUMBER), ["sparse"]),
        (matrix(5, (0, 0), b"A", element(5, b""), element(5, b"\0\0\0\0"), element(9, b"")), ["empty"]),
        (element(9, b"12345678"), ["other than a variable"]),
        (element(14, element(6, b"1234")), ["truncated"]),
        (element(14, element(6, b"1234") * 3), ["header of a variable"]),
        (element(14, NUMBER + NUMBER + NUMBER), ["whole numbers"]),
        (struct.pack("<II", 9 << 16 | 1, 0), ["short element"]),
        (element(15, zlib.compress(struct.pack("<II", 14, 1 << 31) + BIG)), ["beyond the limit"]),
        (matrix(6, (1 << 20, 1 << 10), b"A", NUMBER), ["beyond the limit"]),
        (element(15, zlib.compress(b"123")), ["truncated"]),
        (element(15, zlib.compress(struct.pack("<II", 14, 100))), ["truncated"]),
        (element(15, b"not zlib"), ["compressed variable is damaged"]),
    ],
)
def test_lies_are_found_before_anything_is_allocated(tmp_path: Path, body: bytes, words: list[str]) -> None:
    (tmp_path / "net.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + body)
    refuse(tmp_path / "net.mat", *words, kind=FileFormatError)


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_files(tmp_path: Path, compressed: bool) -> None:
    path = write(tmp_path / "net.mat", {"weights": cells(A, A.T)}, do_compression=compressed)
    survive(path, path.read_bytes())
    write(path, {"A": sparse.csc_array(A), "b": b, "c": c, "x00": x00}, do_compression=compressed)
    data = path.read_bytes()
    survive(path, data)
    survive(path, data, reader=read_center, cuts=10)


def test_the_instance_of_the_paper() -> None:
    path = data_file("sdp_nn/sdp_nn_paper.mat")
    network, center = load(path), read_center(path)
    assert network.shape == (784, 500, 1)
    theirs = scipy.io.loadmat(path)
    assert center is not None
    np.testing.assert_array_equal(center, theirs["x00"][:, 0])
    hidden = np.maximum(theirs["A"] @ theirs["x00"] + theirs["b"], 0.0)
    np.testing.assert_allclose(network.forward(center), (theirs["c"].T @ hidden)[0], rtol=1e-12)


def test_accuracy_of_lipsdp() -> None:
    assert accuracy(load(data_file("nets/lipsdp_784-50-10.mat"))) == 96.78
