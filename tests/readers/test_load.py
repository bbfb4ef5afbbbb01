"""`load`: the choice of a reader, and what it refuses before one is asked."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lipcert.errors import FileFormatError, InputError
from lipcert.problem.network import Network
from lipcert.readers import load
from tests.reader_tools import refuse


@pytest.mark.parametrize("name", ["net.txt", "net", "net.tar.gz"])
def test_an_unknown_extension_lists_the_known_ones(tmp_path: Path, name: str) -> None:
    refuse(tmp_path / name, ".npz, .mat, .nnet, .onnx", kind=FileFormatError)


@pytest.mark.parametrize("name", ["net.pt", "net.PTH", "net.pkl", "net.ckpt"])
def test_pickles_are_never_read(tmp_path: Path, name: str) -> None:
    refuse(tmp_path / name, "from_torch", "ONNX", kind=FileFormatError)


@pytest.mark.parametrize("extension", ["npz", "mat", "nnet", "onnx"])
def test_missing_empty_and_foreign_files(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"net.{extension}"
    refuse(path, "no such file", kind=FileFormatError)
    path.write_bytes(b"")
    refuse(path, "empty", kind=FileFormatError)
    path.write_bytes(b"GIF89a" * 100)
    refuse(path, kind=FileFormatError)
    path.unlink()
    path.mkdir()
    refuse(path, "not a file", kind=FileFormatError)


def test_the_extension_may_be_in_capitals(tmp_path: Path) -> None:
    network = Network.from_weights([np.ones((2, 3)), np.ones((1, 2))])
    network.save(tmp_path / "net.npz")
    shutil.move(tmp_path / "net.npz", tmp_path / "NET.NPZ")
    assert load(str(tmp_path / "NET.NPZ")).sha256 == network.sha256


@pytest.mark.parametrize("extension", ["npz", "mat", "onnx"])
def test_normalize_is_for_nnet_only(tmp_path: Path, extension: str) -> None:
    with pytest.raises(InputError, match=r"normalize=True applies to \.nnet files only"):
        load(tmp_path / f"net.{extension}", normalize=True)


@pytest.mark.parametrize("given", [None, 3, np.zeros((50, 50))])
def test_what_is_no_path_is_refused(given: object) -> None:
    with pytest.raises(InputError, match=r"^load\(.*\): give the path of a network file, \.npz, ") as caught:
        load(given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_importing_is_light() -> None:
    code = "import sys, lipcert.readers, lipcert.readers.torch; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"onnx", "onnxruntime", "torch", "scipy.io"} & set(modules)
