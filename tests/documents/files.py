"""The files that commands in the documentation name, made small, so that every command can be run."""

from __future__ import annotations

import gzip
import shutil
import struct
from pathlib import Path

import numpy as np

import lipcert
from lipcert.problem.network import Network
from tests.conftest import ROOT
from tests.documents import pages
from tests.onnx_tools import build

_RNG = np.random.default_rng(3)


def make_files(folder: Path) -> None:
    """model.onnx: 64 inputs, 10 scores; controller.onnx and .nnet: 3 inputs, 1 output; net.npz: 9 inputs, 4 scores."""
    _onnx(folder / "model.onnx", (64, 8, 10))
    data = Path(lipcert.__file__).parent / "data"
    shutil.copy(data / "digits_net.npz", folder)
    with np.load(data / "digits_images.npz") as digits:
        np.save(folder / "image.npy", digits["images"][0] / 16)  # that of the tutorial: how long it takes is known
    _onnx(folder / "ACASXU_2_1.onnx", (5, 8, 5))
    (folder / "prop_3.vnnlib.gz").write_bytes(gzip.compress(_property(5).encode()))
    (folder / "property.vnnlib").write_text(_property(3))
    for name in ("controller.onnx", "vdp.onnx"):
        _onnx(folder / name, (3, 8, 1))
    _nnet(folder / "controller.nnet", (3, 6, 1))
    net = Network.from_weights([_RNG.normal(size=(6, 9)), _RNG.normal(size=(4, 6))], [np.zeros(6), np.zeros(4)])
    net.save(folder / "net.npz")
    _data(folder, net)
    np.savetxt(folder / "scales.csv", [1.0, 2.0, 0.5])
    np.savetxt(folder / "A.csv", 0.3 * np.eye(3), delimiter=",")
    np.savetxt(folder / "B.csv", 0.01 * np.ones((3, 1)), delimiter=",")
    np.save(folder / "P.npy", np.eye(3))
    for name, text in pages.named_files(pages.read("polynomials.md"), "pop").items():
        (folder / name).write_text(text)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.py", "*.ipynb"))


def _property(inputs: int) -> str:
    """A VNN-LIB property: a box of inputs, and a condition on outputs."""
    ranges = [f"(assert (>= X_{i} -0.1))\n(assert (<= X_{i} 0.1))" for i in range(inputs)]
    declared = [f"(declare-const {name}_{i} Real)" for name in "XY" for i in range(inputs)]
    return "\n".join([*declared, *ranges, "(assert (<= Y_0 Y_1))"])


def _data(folder: Path, net: Network) -> None:
    images = _RNG.integers(0, 256, (5, 3, 3)).astype(np.uint8)
    labels = np.argmax(net.forward(images.reshape(5, 9) / 255), axis=1)
    np.save(folder / "images.npy", images.reshape(5, 9) / 255)
    np.save(folder / "labels.npy", labels)
    for name, array in (("images-idx3", images), ("labels-idx1", labels.astype(np.uint8))):
        head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        with gzip.open(folder / f"t10k-{name}-ubyte.gz", "wb") as file:
            file.write(head + array.tobytes())


def _onnx(path: Path, sizes: tuple[int, int, int]) -> None:
    inputs, hidden, outputs = sizes
    constants = {"A": _RNG.normal(size=(hidden, inputs)), "b": _RNG.normal(size=hidden)}
    constants |= {"C": _RNG.normal(size=(outputs, hidden)), "d": _RNG.normal(size=outputs)}
    nodes = [("Gemm", ["_", "A", "b"], {"transB": 1}), ("Relu", ["_"]), ("Gemm", ["_", "C", "d"], {"transB": 1})]
    path.write_bytes(build(nodes, (1, inputs), {k: v.astype(np.float32) for k, v in constants.items()}))


def _nnet(path: Path, sizes: tuple[int, int, int]) -> None:
    inputs, hidden, outputs = sizes
    lines = ["// controller", f"2,{inputs},{outputs},{max(sizes)},", f"{inputs},{hidden},{outputs},", "0,"]
    lines += [_row(np.full(inputs, -1.0)), _row(np.ones(inputs)), _row(np.zeros(inputs + 1)), _row(np.ones(inputs + 1))]
    for a, b in ((inputs, hidden), (hidden, outputs)):
        lines += [_row(row) for row in _RNG.normal(size=(b, a))] + [_row(_RNG.normal(size=1)) for _ in range(b)]
    path.write_text("\n".join(lines) + "\n")


def _row(values: np.ndarray) -> str:
    return ",".join(repr(float(v)) for v in values) + ","
