"""Readers of data sets: every format, explicit scaling, damaged files in one line."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from lipcert import InputError, read_data
from lipcert.robustness.data import parse_scale


def idx(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


IMAGES = (np.arange(2 * 3 * 4) * 10).astype(np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a-idx3-ubyte", "a-idx3-ubyte.gz", "a.csv"])
def test_formats_agree(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    match path.suffix:
        case ".npy":
            np.save(path, IMAGES)
        case ".npz":
            np.savez(path, images=IMAGES, labels=np.array([1, 0]))
        case ".csv":
            np.savetxt(path, IMAGES.reshape(2, -1), fmt="%d", delimiter=",", header="pixel,pixel", comments="")
        case ".gz":
            path.write_bytes(gzip.compress(idx(IMAGES)))
        case _:
            path.write_bytes(idx(IMAGES))
    data = read_data(str(path), scale="1/255")
    assert np.array_equal(data.inputs, IMAGES.reshape(2, 12) / 255)
    assert data.image_shape == (None if name == "a.csv" else (3, 4))
    assert (data.labels is not None) == (name == "a.npz")
    assert len(data.first(1)) == 1
    with pytest.raises(InputError, match="need a scale"):
        read_data(str(path))
    assert np.array_equal(read_data(str(path), scale="1").inputs, IMAGES.reshape(2, 12))


def test_labels_and_floats(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.asfortranarray(np.array([[0.5, 1.5], [2.5, -3.0]])))
    (tmp_path / "y.csv").write_text("label\n1\n0\n")
    (tmp_path / "y-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.array([1, 0], dtype=np.uint8))))
    for labels in ("y.csv", "y-idx1-ubyte.gz"):
        data = read_data(str(tmp_path / "x.npy"), str(tmp_path / labels))
        assert data.inputs[1].tolist() == [2.5, -3.0]
        assert data.labels is not None
        assert data.labels.tolist() == [1, 0]
    np.save(tmp_path / "y.npy", np.zeros(3, dtype=int))
    with pytest.raises(InputError, match="3 labels for 2 inputs"):
        read_data(str(tmp_path / "x.npy"), str(tmp_path / "y.npy"))
    (tmp_path / "x.csv").write_text("0.5,1.5\n2.5,-3\n")
    assert np.array_equal(read_data(str(tmp_path / "x.csv")).inputs, data.inputs)
    assert read_data(str(tmp_path / "x.csv")).sha256 != data.sha256  # labels count


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("a.npy", b"", "empty"),
        ("a.npy", b"\x93NUMPY\x01\x00 nonsense", "damaged"),
        ("a.npz", b"PK nonsense", "damaged"),
        ("a-idx3-ubyte", idx(IMAGES)[:-1], "not of that length"),
        ("a-idx3-ubyte", idx(IMAGES) + b"x", "not of that length"),
        ("a-idx3-ubyte", b"\0\0\x08\x03\0\0", "cut short"),
        ("a-idx3-ubyte", b"\0\0\x08\x02\xff\xff\xff\xff\xff\xff\xff\xff", "limit"),
        ("a-idx3-ubyte", b"\0\0\x07\x02", "not an idx file"),
        ("a-idx3-ubyte.gz", gzip.compress(idx(IMAGES), mtime=0)[:-9], "damaged"),
        ("a-idx3-ubyte.gz", b"plain", "damaged"),
        ("a.csv", b"1,2\n3\n", "not a table of numbers: line 2 has 1 value, those before it 2"),
        ("a.csv", b"a,b,c\n1,2,3\n\n1,2,3,4\n", "line 4 has 4 values, those before it 3; give every line as many$"),
        ("a.csv", b"a,b,class\n1,2,0\n1,2,cat\n", "line 3, column 3: 'cat' is no number; write classes as numbers"),
        ("a.csv", b"1,2\n3,\n", "line 2, column 2: '' is no number"),
        ("a.csv", b"1,2\n3,1_0\n", "not a table of numbers: give numbers with commas between"),
        ("a.csv", b"one,two\n", "no lines"),
        ("a.csv", b"1.0,nan\n", "not finite"),
        ("a.csv", b"\xff\xfe", "damaged"),
        ("a.png", b"\x89PNG", "unknown kind"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, contents: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(contents)
    with pytest.raises(InputError, match=message) as caught:
        read_data(str(path), scale="1")
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_archives_that_say_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, one=np.zeros((2, 2)), two=np.zeros((2, 2)))
    with pytest.raises(InputError, match="it holds one, two"):
        read_data(str(path))
    np.savez(path, only=np.ones((2, 2)))
    assert read_data(str(path)).inputs.sum() == 4
    np.savez(path, images=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="real numbers"):
        read_data(str(path))
    np.save(tmp_path / "five.npy", np.zeros((1, 1, 1, 1, 1)))
    with pytest.raises(InputError, match="shape"):
        read_data(str(tmp_path / "five.npy"))


@pytest.mark.parametrize("text", ["", "a", "1/0", "0", "1/", "inf", "1/2/3", "--1"])
def test_bad_scales(text: str) -> None:
    with pytest.raises(InputError, match="1/255"):
        parse_scale(text)
