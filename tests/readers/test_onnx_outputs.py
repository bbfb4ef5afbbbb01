"""Which of several outputs of an ONNX file is read, and what is said about it; batches that are part of the input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert.cli.app import run
from lipcert.errors import FileFormatError, InputError, UnsupportedOperator
from lipcert.readers import load
from tests.onnx_tools import build
from tests.reader_tools import refuse

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
helper = onnx.helper

RNG = np.random.default_rng(8)
W = RNG.normal(size=(4, 3)).astype(np.float32)
FLOAT, INTEGER, MAPS = 1, 7, "maps"
DICTIONARIES = helper.make_sequence_type_proto(
    helper.make_map_type_proto(INTEGER, helper.make_tensor_type_proto(1, []))
)


def write(path: Path, outputs: Sequence[tuple[str, Any]], batch: int | str = 1) -> Path:
    """Scores, their ReLU, the best label, and the scores as dictionaries; of these, some outputs with their types."""
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["scores"]),
        helper.make_node("Relu", ["scores"], ["positive"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
        helper.make_node("ZipMap", ["scores"], ["dictionaries"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
    ]
    made = []
    for name, kind in outputs:
        if kind == MAPS:
            made.append(helper.make_value_info(name, DICTIONARIES))
        elif kind is None:
            made.append(onnx.ValueInfoProto(name=name))
        else:
            made.append(helper.make_tensor_value_info(name, kind, None))
    start = helper.make_tensor_value_info("x", 1, (batch, 4))
    graph = helper.make_graph(nodes, "net", [start], made, [onnx.numpy_helper.from_array(W, "W")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    return path


LABEL, SCORES, POSITIVE = ("label", INTEGER), ("scores", FLOAT), ("positive", FLOAT)
DICTS = ("dictionaries", MAPS)


@pytest.mark.parametrize(
    ("outputs", "wanted", "relu", "words"),
    [
        ([SCORES], None, False, []),
        ([SCORES], "scores", False, []),
        ([("scores", None)], None, False, []),
        ([("scores", 0)], None, False, []),
        ([LABEL, SCORES], None, False, ["of the 2 outputs 'scores' is read; left out: 'label'"]),
        ([LABEL, POSITIVE], None, True, ["of the 2 outputs 'positive' is read; left out: 'label'"]),
        ([SCORES, POSITIVE], "positive", True, ["'positive' is read; left out: 'scores'"]),
        ([SCORES, POSITIVE], "scores", False, ["'scores' is read; left out: 'positive'"]),
        ([LABEL, DICTS], None, False, ["'dictionaries' is read; left out: 'label'", "the tensor they are made of"]),
        ([DICTS], None, False, ["the tensor they are made of"]),
        ([POSITIVE, DICTS], "dictionaries", False, ["left out: 'positive'", "the tensor they are made of"]),
        ([POSITIVE, DICTS], None, True, ["left out: 'dictionaries'"]),
    ],
)
def test_the_output_and_its_notes(
    tmp_path: Path, outputs: list[tuple[str, Any]], wanted: str | None, relu: bool, words: list[str]
) -> None:
    network = load(write(tmp_path / "net.onnx", outputs), onnx_output=wanted)
    x = RNG.normal(size=(10, 4))
    scores = x @ W.astype(float)
    np.testing.assert_allclose(network.forward(x), np.maximum(scores, 0) if relu else scores, rtol=1e-12)
    assert len(network.notes) == len(words)
    for note, word in zip(network.notes, words, strict=True):
        assert word in note


@pytest.mark.parametrize(
    ("outputs", "wanted", "words", "kind"),
    [
        ([SCORES, LABEL, POSITIVE], None, ["'scores', 'positive'; ", "--onnx-output NAME"], UnsupportedOperator),
        ([LABEL], None, ["no output is a tensor of floating point", "'label'"], UnsupportedOperator),
        ([SCORES, LABEL], "label", ["'label' is not a tensor of floating point"], UnsupportedOperator),
        ([SCORES, LABEL], "odd\n", ["no output 'odd\\n'; there are 'scores', 'label'"], FileFormatError),
        ([SCORES], "", ["no output ''; there are 'scores'"], FileFormatError),
        ([SCORES], "x", ["no output 'x'"], FileFormatError),
        ([(f"o{i}", FLOAT) for i in range(99)], None, ["99 outputs", "'o11' and 87 more"], UnsupportedOperator),
    ],
)  # fmt: skip
def test_choices_that_are_refused(
    tmp_path: Path, outputs: list[tuple[str, Any]], wanted: str | None, words: list[str], kind: type[InputError]
) -> None:
    path = write(tmp_path / "net.onnx", outputs)
    refuse(path, *words, kind=kind, reader=lambda p: load(p, onnx_output=wanted))


@pytest.mark.parametrize("extension", ["npz", "mat", "nnet"])
def test_other_formats_have_no_names_of_outputs(tmp_path: Path, extension: str) -> None:
    refuse(tmp_path / f"net.{extension}", ".onnx files only", reader=lambda p: load(p, onnx_output="y"))


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write(tmp_path / "net.onnx", [SCORES, POSITIVE, LABEL]))

    def call(*words: str) -> tuple[int, str]:
        code, said = run(words), capsys.readouterr()
        return code, said.out + said.err

    for words in (["info"], ["bound", "--radius", "1", "--output", "0", "--time-limit", "1"]):
        code, text = call(words[0], path, *words[1:])
        assert code == 2
        assert "--onnx-output NAME" in text
        code, text = call(words[0], path, *words[1:], "--onnx-output", "positive")
        assert code == 0
        assert "note" in text
        assert "left out: 'scores', 'label'" in " ".join(text.split())
    proof = str(tmp_path / "proof.npz")
    asked = ["--radius", "1", "--output", "0", "--method", "interval", "--onnx-output", "positive"]
    assert call("bound", path, *asked, "--certificate", proof)[0] == 0
    assert call("verify", proof, "--network", path, "--onnx-output", "positive")[0] == 0
    assert call("verify", proof, "--network", path, "--onnx-output", "scores")[0] == 1
    for command in ("bound", "certify", "export", "info", "verify"):
        assert "--onnx-output NAME" in call(command, "--help")[1]


def test_names_from_files_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Square brackets are a name's own, not markup."""
    path = write(tmp_path / "a[bold].onnx", [SCORES, ("[/bold]", INTEGER)])
    for words in (["info"], ["bound", "--radius", "1", "--output", "0", "--method", "product", "--no-lower"]):
        assert run([words[0], str(path), *words[1:]]) == 0
        said = capsys.readouterr().out
        assert "'[/bold]'" in said
        assert "a[bold].onnx" in said


@pytest.mark.parametrize("batch", [1, "batch"])
def test_a_batch_of_one_or_left_open_is_one_input(tmp_path: Path, batch: int | str) -> None:
    network = load(write(tmp_path / "net.onnx", [SCORES], batch))
    assert (network.inputs, network.notes) == (4, ())


def test_a_fixed_batch_is_refused_unless_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "net.onnx", [SCORES], 3)
    refuse(path, "has a batch of 3: export with batch size 1, or give onnx_batch=True")
    network = load(path, onnx_batch=True)
    assert network.inputs == 12
    assert "the network is 3 copies side by side" in network.notes[0]
    assert run(["info", str(path)]) == 2
    assert "give --onnx-batch to read the copies side by side" in capsys.readouterr().err
    assert run(["info", str(path), "--onnx-batch"]) == 0
    mixed = {"L": np.ones((3, 3), np.float32), "V": np.ones((4, 2), np.float32)}
    rows = [("MatMul", ["_", "V"]), ("Relu", ["_"]), ("MatMul", ["L", "_"])]
    (tmp_path / "mixed.onnx").write_bytes(build(rows, (3, 4), mixed))
    assert load(tmp_path / "mixed.onnx").notes == ()  # one input of three rows, which depend on each other
    network.save(tmp_path / "net.npz")
    refuse(tmp_path / "net.npz", ".onnx files only", reader=lambda p: load(p, onnx_batch=True))
