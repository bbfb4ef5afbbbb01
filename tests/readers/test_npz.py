"""NumPy archives: plain ones, saved networks, and archives that lie."""

from __future__ import annotations

import io
import pickle
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lipcert import Everywhere, bound
from lipcert.errors import FileFormatError
from lipcert.problem.activations import Activation
from lipcert.problem.blocks import Affine
from lipcert.problem.network import Network
from lipcert.readers import load
from tests.conftest import ROOT
from tests.reader_tools import accuracy, data_file, refuse, survive

RNG = np.random.default_rng(3)
PLAIN: dict[str, Any] = {
    "W1": RNG.normal(size=(4, 3)).astype(np.float32),
    "b1": RNG.normal(size=4),
    "W2": np.asfortranarray(RNG.integers(-3, 3, size=(2, 4))),
    "b2": np.zeros(2, dtype=np.float16),
}


def saved() -> Network:
    weight = sparse.random_array((80, 5), density=0.2, rng=np.random.default_rng(1), format="csr")
    kinds = [Activation("leaky_relu", 0.3), Activation("elu", 2.0), Activation("tanh")]
    sizes = [80, 6, 3, 2]
    maps = [Affine(weight, RNG.normal(size=80))]
    maps += [Affine(RNG.normal(size=(m, n)), RNG.normal(size=m)) for n, m in pairwise(sizes)]
    return Network(tuple(maps), tuple(kinds))


def write(path: Path, arrays: dict[str, Any]) -> Path:
    with open(path, "wb") as file:
        np.savez(file, **arrays)
    return path


def test_plain_archive_is_a_relu_network(tmp_path: Path) -> None:
    network = load(write(tmp_path / "net.npz", PLAIN))
    x = RNG.normal(size=(7, 3))
    hidden = np.maximum(x @ PLAIN["W1"].astype(float).T + PLAIN["b1"], 0)
    np.testing.assert_allclose(network.forward(x), hidden @ PLAIN["W2"].T, rtol=1e-12)


def test_compressed_archive(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "net.npz", **PLAIN)
    assert load(tmp_path / "net.npz").shape == (3, 4, 2)


def test_saved_network_comes_back_with_its_hash(tmp_path: Path) -> None:
    network = saved()
    network.save(tmp_path / "net.npz")
    again = load(tmp_path / "net.npz")
    assert again.sha256 == network.sha256
    assert again.activations == network.activations
    assert sparse.issparse(again.affines[0].weight)


def test_single_affine_layer(tmp_path: Path) -> None:
    network = Network.from_weights([np.ones((2, 3))])
    network.save(tmp_path / "net.npz")
    assert load(tmp_path / "net.npz").sha256 == network.sha256


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"W1": None}, ["W1 is missing"]),
        ({"b2": None}, ["b2 is missing"]),
        ({"W1": None, "b1": None}, ["W1 is missing"]),
        ({"W1": None, "b1": None, "W2": None, "b2": None, "format": np.array(1)}, ["no weights"]),
        ({"W4": np.ones((1, 2)), "b4": np.ones(1)}, ["W3 is missing"]),
        ({"weights": np.ones(3)}, ["unexpected array 'weights'"]),
        ({"W01": np.ones(3)}, ["unexpected array 'W01'"]),
        ({"W1": np.ones((4, 3, 1))}, ["shape"]),
        ({"W1": np.ones(4)}, ["W1 has 1 dimensions"]),
        ({"W1": np.ones((3, 4))}, ["b1", "(out, in)"]),
        ({"b1": np.ones((4, 1))}, ["b1 has the shape (4, 1)"]),
        ({"W2": np.ones((2, 5))}, ["layer 1 has 4 outputs, layer 2 expects 5 inputs"]),
        ({"W1": np.ones((4, 3), dtype=complex)}, ["complex128", "real numbers"]),
        ({"W1": np.full((4, 3), "x")}, ["W1 has type"]),
        ({"W1": np.zeros((4, 3), dtype=[("a", "f8")])}, ["W1 has type"]),
        ({"W1": np.zeros((4, 3), dtype=bool)}, ["W1 has type 'bool'"]),
        ({"W1": np.full((4, 3), np.nan)}, ["not finite"]),
        ({"W1": np.zeros((0, 3)), "b1": np.zeros(0)}, ["not empty"]),
        ({"activations": np.array(["glu"]), "alphas": np.zeros(1)}, ["unknown activation 'glu'"]),
        ({"activations": np.array(["relu", "relu"]), "alphas": np.zeros(1)}, ["1 entries"]),
        ({"activations": np.array(["relu"])}, ["alphas is missing"]),
        ({"alphas": np.zeros(1)}, ["activations is missing"]),
        ({"activations": np.array(["elu"]), "alphas": np.array([-1.0])}, ["alpha must be"]),
        ({"activations": np.array([3]), "alphas": np.zeros(1)}, ["activations has type"]),
        ({"format": np.array(99)}, ["format 99", "upgrade"]),
        ({"format": np.array([1, 2])}, ["format must be"]),
        ({"W1_data": np.ones(1)}, ["dense and sparse"]),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, change: dict[str, Any], words: list[str]) -> None:
    arrays = {name: a for name, a in (PLAIN | change).items() if a is not None}
    refuse(write(tmp_path / "net.npz", arrays), *words, kind=FileFormatError)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"W1_indices": np.array([0, 3])}, ["out of range"]),
        ({"W1_indices": np.array([0, -1])}, ["out of range"]),
        ({"W1_indices": np.array([0.0, 1.0])}, ["whole numbers"]),
        ({"W1_indices": np.array([0])}, ["do not fit together"]),
        ({"W1_indptr": np.array([0, 2, 1])}, ["out of range"]),
        ({"W1_indptr": np.array([1, 1, 2])}, ["out of range"]),
        ({"W1_indptr": np.array([0, 1, 2], dtype=np.uint64)}, []),
        ({"W1_shape": np.array([2, 3, 1])}, ["two for its shape"]),
        ({"W1_shape": np.array([2, 1 << 40])}, ["the limit is"]),
        ({"W1_shape": np.array([-2, 3])}, ["the limit is"]),
        ({"W1_data": None}, ["W1_data is missing"]),
    ],
)
def test_sparse_structure_is_checked(tmp_path: Path, change: dict[str, Any], words: list[str]) -> None:
    parts: dict[str, Any] = {
        "W1_data": np.array([1.0, 2.0]),
        "W1_indices": np.array([0, 2]),
        "W1_indptr": np.array([0, 1, 2]),
        "W1_shape": np.array([2, 3]),
        "b1": np.zeros(2),
    }
    path = write(tmp_path / "net.npz", {k: v for k, v in (parts | change).items() if v is not None})
    if words:
        refuse(path, *words, kind=FileFormatError)
    else:
        np.testing.assert_array_equal(load(path).affines[0].weight.toarray(), [[1, 0, 0], [0, 0, 2]])


def member(header: bytes, body: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    length = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + length + header + body


def test_a_certificate_is_said_to_be_one(tmp_path: Path) -> None:
    for path in (ROOT / "tests" / "data" / "version-1.0.0" / "bound").glob("interval*.npz"):
        refuse(path, "a certificate, not a network; give the file of the network")
    net = Network.from_weights([np.ones((1, 2))])
    bound(net, Everywhere(), method="product").certificate.save(tmp_path / "proof.npz")
    refuse(tmp_path / "proof.npz", "a certificate, not a network; give the file of the network")


def test_object_arrays_are_not_unpickled(tmp_path: Path) -> None:
    body = pickle.dumps(np.array([object], dtype=object))
    data = member(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n", body)
    with zipfile.ZipFile(tmp_path / "net.npz", "w") as archive:
        archive.writestr("W1.npy", data)
    refuse(tmp_path / "net.npz", "W1", "real numbers", kind=FileFormatError)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (member(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000)}\n"), ["W1 has the shape"]),
        (member(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1073741824, 2)}\n"), ["W1 has the shape"]),
        (member(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2)}\n"), ["W1 has the shape"]),
        (member(b"[" * 3000), ["W1 is damaged"]),
        (member(b"x" * 60000), ["W1 is damaged"]),
        (member(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}\n", b"\0" * 8, b"\x03\x00"), ["npy version"]),
        (b"not npy", ["W1 is damaged"]),
    ],
)
def test_absurd_headers(tmp_path: Path, data: bytes, words: list[str]) -> None:
    with zipfile.ZipFile(tmp_path / "net.npz", "w") as archive:
        archive.writestr("W1.npy", data)
    refuse(tmp_path / "net.npz", *words, kind=FileFormatError)


def test_zip_bombs_are_refused_by_their_declared_size(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("W1.npy", b"\0" * 1000)
    data = bytearray((tmp_path / "net.npz").read_bytes())
    central = data.rfind(b"PK\x01\x02")
    data[central + 24 : central + 28] = (3 << 30).to_bytes(4, "little")
    (tmp_path / "net.npz").write_bytes(data)
    refuse(tmp_path / "net.npz", "declare more than", kind=FileFormatError)


def test_small_numbers_count_as_weights(tmp_path: Path) -> None:
    """134 million bytes would become eight times as many once they are floating point numbers."""
    with zipfile.ZipFile(tmp_path / "net.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        head = member(b"{'descr': '|i1', 'fortran_order': False, 'shape': (16385, 8192)}\n")
        archive.writestr("W1.npy", head + bytes(16385 * 8192))
    refuse(tmp_path / "net.npz", "more than the limit", kind=FileFormatError)


def test_too_many_or_repeated_members(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net.npz", "w") as archive:
        for i in range(5000):
            archive.writestr(f"W{i}.npy", b"")
    refuse(tmp_path / "net.npz", "5000 arrays", kind=FileFormatError)
    one = io.BytesIO()
    np.save(one, np.ones((2, 2)))
    with zipfile.ZipFile(tmp_path / "two.npz", "w") as archive:
        archive.writestr("W1.npy", one.getvalue())
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("W1.npy", one.getvalue())
    refuse(tmp_path / "two.npz", "unexpected array 'W1'", kind=FileFormatError)


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_archives(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "net.npz"
    saved().save(path)
    if compressed:
        with np.load(path) as arrays:
            np.savez_compressed(path, **arrays)
    survive(path, path.read_bytes())


def test_accuracy_of_sdp_nn() -> None:
    assert accuracy(load(data_file("sdp_nn/sdp_nn_rsl18a.npz"))) == 95.82
