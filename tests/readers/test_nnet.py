"""The .nnet text format against a direct evaluation, and files that are not quite .nnet."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from lipcert.errors import FileFormatError
from lipcert.readers import load
from lipcert.rounding import Array
from tests.reader_tools import accuracy, data_file, refuse, survive

SIZES = [3, 4, 5, 2]
RNG = np.random.default_rng(5)
WEIGHTS = [RNG.normal(size=(m, n)) for n, m in pairwise(SIZES)]
BIASES = [RNG.normal(size=m) for m in SIZES[1:]]
MEANS, RANGES = RNG.normal(size=4), np.array([2.0, 0.5, 3.0, 10.0])


def row(values: Array) -> str:
    return ",".join(repr(float(v)) for v in np.ravel(values)) + ","


def text(means: Array = MEANS, ranges: Array = RANGES) -> str:
    lines = ["// a comment", "3,3,2,5,", "3,4,5,2,", "0,", "-1.0,-1.0,-1.0,", "1.0,1.0,1.0,", row(means), row(ranges)]
    for weight, bias in zip(WEIGHTS, BIASES, strict=True):
        lines += [row(r) for r in weight] + [row(b) for b in bias]
    return "\n".join(lines) + "\n"


def evaluate(x: Array) -> Array:
    for weight, bias in zip(WEIGHTS[:-1], BIASES[:-1], strict=True):
        x = np.maximum(x @ weight.T + bias, 0.0)
    return x @ WEIGHTS[-1].T + BIASES[-1]


def test_raw_weights_by_default(tmp_path: Path) -> None:
    (tmp_path / "net.nnet").write_text(text())
    network = load(tmp_path / "net.nnet")
    x = RNG.normal(size=(20, 3))
    np.testing.assert_allclose(network.forward(x), evaluate(x), rtol=1e-12)
    assert "not applied" in network.notes[0]


@pytest.mark.parametrize("header", ["3,3,2,", "3,3,2,5,0,", "3,3,2,5,7,", "3,", "3 "])
def test_headers_of_other_lengths(tmp_path: Path, header: str) -> None:
    """A fifth number is left aside; the number of layers alone is enough, as the sizes follow."""
    (tmp_path / "net.nnet").write_text(text())
    (tmp_path / "other.nnet").write_text(text().replace("3,3,2,5,", header, 1))
    assert load(tmp_path / "other.nnet").sha256 == load(tmp_path / "net.nnet").sha256


def test_controllers_without_normalisation(tmp_path: Path) -> None:
    """One zero for each of the lines that the normalisation would have."""
    lines = text().splitlines()
    (tmp_path / "net.nnet").write_text("\n".join(["3 ", "3, 4, 5, 2 ", "0", "0", "0", "0", "0", *lines[8:]]))
    x = RNG.normal(size=(20, 3))
    for normalize in (False, True):
        network = load(tmp_path / "net.nnet", normalize=normalize)
        np.testing.assert_allclose(network.forward(x), evaluate(x), rtol=1e-12)
        assert network.notes == ()
    (tmp_path / "net.nnet").write_text("\n".join(["3 ", "3, 4, 5, 2 ", "0", "0", "0", "0", "2", *lines[8:]]))
    refuse(tmp_path / "net.nnet", "one number for 3 inputs", kind=FileFormatError)


def test_normalisation_is_folded_on_request(tmp_path: Path) -> None:
    (tmp_path / "net.nnet").write_text(text())
    network = load(tmp_path / "net.nnet", normalize=True)
    x = RNG.normal(size=(20, 3))
    expected = evaluate((x - MEANS[:-1]) / RANGES[:-1]) * RANGES[-1] + MEANS[-1]
    np.testing.assert_allclose(network.forward(x), expected, rtol=1e-11)
    assert "clipping" in network.notes[0]


def test_trivial_normalisation_needs_no_note(tmp_path: Path) -> None:
    (tmp_path / "net.nnet").write_text(text(np.zeros(3), np.ones(4)))
    assert load(tmp_path / "net.nnet").notes == ()
    assert load(tmp_path / "net.nnet", normalize=True).sha256 == load(tmp_path / "net.nnet").sha256


def test_windows_line_ends_blank_lines_and_late_comments(tmp_path: Path) -> None:
    (tmp_path / "a.nnet").write_text(text())
    loose = text().replace("\n0,\n", "\n\n// flag\n 0 , \n").replace(",\n", "\n").replace("\n", "\r\n")
    (tmp_path / "b.nnet").write_bytes(loose.encode())
    assert load(tmp_path / "a.nnet").sha256 == load(tmp_path / "b.nnet").sha256


def test_single_layer(tmp_path: Path) -> None:
    (tmp_path / "net.nnet").write_text("1,2,1,2\n2,1\n0\n0,0\n1,1\n0,0,0\n2,4,8\n3,5\n7\n")
    network = load(tmp_path / "net.nnet", normalize=True)
    np.testing.assert_allclose(network.forward(np.array([1.0, 2.0])), [(1.5 + 2.5 + 7) * 8])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("3,3,2,5,", "3,3,2,5,1,7,", ["line 2", "needs 4 or 3 or 5 or 1 numbers, found 6"]),
        ("3,3,2,5,", "3,3,2,5,-1,", ["line 2", "whole numbers"]),
        ("3,3,2,5,", "3,3,2,5,0.5,", ["line 2", "whole numbers"]),
        ("3,3,2,5,", "0,", ["line 2", "whole numbers"]),
        ("3,3,2,5,", "3,x,2,5,", ["line 2", "'x'"]),
        ("3,3,2,5,", "3,-3,2,5,", ["line 2", "whole numbers"]),
        ("3,3,2,5,", "2,3,2,5,", ["line 3", "layer sizes"]),
        ("3,3,2,5,", "3,4,2,5,", ["header says 4 inputs", "sizes say 3"]),
        ("3,4,5,2,", "3,4000000,4000000,2,", ["more than"]),
        ("3,4,5,2,", "3,4e9,5,2,", ["line 3", "whole numbers"]),
        ("3,4,5,2,", "3,nan,5,2,", ["line 3", "not a finite number"]),
        ("1.0,1.0,1.0,", "1.0,1.0,", ["line 6", "largest inputs"]),
        (row(MEANS), "1,2,", ["line 7", "the means needs 4 or 3 or 1 numbers"]),
        (row(WEIGHTS[1][2]), "1,2,", ["line 19", "weight of layer 2", "found 2"]),
        (row(WEIGHTS[1][2]), "1,2,abc,4,", ["line 19", "'abc'"]),
        (row(WEIGHTS[1][2]), "1,2,,4,", ["line 19", "''"]),
        (row(WEIGHTS[1][2]), "1,2,1_0,4,", ["line 19", "'1_0'"]),
        (row(WEIGHTS[1][2]), "1,2,inf,4,", ["line 19", "'inf'"]),
        (row(BIASES[2][1]), "", ["ends before the bias of layer 3", "1 lines are missing"]),
        (row(BIASES[2][1]), "1\n2\n", ["line 31", "more lines"]),
        ("// a comment", "\udcff", ["not a text file"]),
    ],
)
def test_mistakes_are_found_with_their_line(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    assert old in text()
    path = tmp_path / "net.nnet"
    path.write_text(text().replace(old, new, 1), errors="surrogateescape")
    refuse(path, *words, kind=FileFormatError)


def test_zero_range_cannot_be_applied(tmp_path: Path) -> None:
    (tmp_path / "net.nnet").write_text(text(ranges=np.array([1.0, 0.0, 1.0, 1.0])))
    load(tmp_path / "net.nnet")
    with pytest.raises(FileFormatError, match="a range is zero"):
        load(tmp_path / "net.nnet", normalize=True)


def test_damaged_files(tmp_path: Path) -> None:
    survive(tmp_path / "net.nnet", text().encode())


def test_acas() -> None:
    path = data_file("nets/ACASXU_experimental_v2a_1_1.nnet")
    assert load(path).shape == (5, 50, 50, 50, 50, 50, 50, 5)
    x = np.array([30000.0, 0.3, -0.2, 700.0, 500.0])
    mean, scale = (
        np.array([19791.091, 0.0, 0.0, 650.0, 600.0]),
        np.array([60261.0, 6.28318530718, 6.28318530718, 1100.0, 1200.0]),
    )
    raw = load(path).forward((x - mean) / scale)
    expected = raw * 373.94992 + 7.5188840201005975
    np.testing.assert_allclose(load(path, normalize=True).forward(x), expected, rtol=1e-9)


def test_marabou_mnist() -> None:
    network = load(data_file("nets/marabou_mnist10x10.nnet"))
    assert network.shape == (784, *[10] * 11)
    assert accuracy(network) > 90.0
