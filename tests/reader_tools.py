"""What the reader tests share: the data folder, error checks and damaged copies of files."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.readers import load
from lipcert.rounding import Array
from tests.counting import calls

ROOT = Path(__file__).resolve().parent.parent


def data_file(name: str) -> Path:
    """A file of the shared data; the test is skipped where it is absent."""
    folder = Path(os.environ.get("LIPCERT_DATA", ROOT.parent / "shared" / "data"))
    path = folder / name
    if not path.exists():
        pytest.skip(f"{name} is not in {folder}; set LIPCERT_DATA to the folder that holds it")
    return path


def mnist_test_set() -> tuple[Array, NDArray[np.uint8]]:
    """The 10,000 test images as rows of pixels in [0, 1], and their labels."""
    images = gzip.decompress(data_file("mnist/t10k-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress(data_file("mnist/t10k-labels-idx1-ubyte.gz").read_bytes())
    pixels = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784) / 255.0
    return pixels, np.frombuffer(labels, np.uint8, offset=8)


def accuracy(network: Network) -> float:
    """The percentage of MNIST test images whose largest score is at the label."""
    images, labels = mnist_test_set()
    best = [network.forward(batch).argmax(axis=1) for batch in np.split(images, 50)]
    return round(100.0 * float(np.mean(np.concatenate(best) == labels)), 2)


def refuse(
    path: Path, *words: str, kind: type[InputError] = InputError, reader: Callable[[Path], object] = load
) -> str:
    """Reading must fail with one line that starts with the path and holds the words."""
    with pytest.raises(kind) as caught:
        reader(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    for word in words:
        assert word in message, message
    return message


def damaged(data: bytes, rng: np.random.Generator, cuts: int, flips: int) -> Iterator[bytes]:
    """Copies that are cut short, have a few bytes changed, or have bytes repeated."""
    for end in np.unique(np.linspace(1, len(data) - 1, cuts).astype(int)):
        yield data[:end]
    for i in range(flips):
        copy = bytearray(data)
        # Half of the changes fall where headers are.
        reach = len(copy) if i % 2 else min(len(copy), 600)
        for place in rng.integers(0, reach, size=rng.integers(1, 5)):
            copy[place] = rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))])
        yield bytes(copy)
    for _ in range(flips // 10):
        a, b = sorted(rng.integers(0, len(data), size=2))
        yield data[:b] + data[a:]


def survive(path: Path, data: bytes, cuts: int = 60, flips: int = 300, reader: Callable[[Path], object] = load) -> None:
    """Every damaged copy is either read or refused as it should be, with little work and little memory."""
    rng = np.random.default_rng(0)
    refused = 0
    for copy in damaged(data, rng, cuts, flips):
        path.write_bytes(copy)
        message, cost, memory = _attempt(path, reader)
        if message:
            refused += 1
            assert message.startswith(f"{path}: "), message
            assert "\n" not in message, message
        assert cost < 20_000  # a copy that is whole takes up to 7,000
        assert memory < 2**26
    assert refused > cuts // 2


def _attempt(path: Path, reader: Callable[[Path], object]) -> tuple[str, int, int]:
    """How a file is refused, "" if it is read; the calls that took, and the bytes of memory."""

    def read() -> str:
        try:
            reader(path)
        except InputError as error:
            return str(error)
        return ""

    tracemalloc.start()
    try:
        return *calls(read), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
