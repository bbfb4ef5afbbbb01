"""ONNX models with their weights in another file: read from the same folder, and every way to cheat refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert.errors import FileFormatError, UnsupportedOperator
from lipcert.files import MAX_FILE_BYTES, MAX_WEIGHTS
from lipcert.readers import load
from tests.reader_tools import refuse, survive

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

RNG = np.random.default_rng(3)
W = {"A": RNG.normal(size=(5, 7)), "b": RNG.normal(size=7), "C": RNG.normal(size=(7, 2))}
DATA = "net.onnx.data"
Change = Callable[[Any], object]


def model(dtype: Any = np.float32) -> Any:
    """Two layers; the weight of the second is the value of a Constant node."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    tensors = {name: numpy_helper.from_array(array.astype(dtype), name) for name, array in W.items()}
    nodes = [
        helper.make_node("Gemm", ["x", "A", "b"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Constant", [], ["C"], value=tensors.pop("C")),
        helper.make_node("MatMul", ["r", "C"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, kind, shape) for name, shape in (("x", (1, 5)), ("y", (1, 2)))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], list(tensors.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(folder: Path, made: Any, **options: Any) -> Path:
    """As exporters do: all tensors in one file beside the model, those of Constant nodes too."""
    path = folder / "net.onnx"
    settings = {"location": DATA, "size_threshold": 0, "convert_attribute": True} | options
    onnx.save(made, path, save_as_external_data=True, **settings)
    return path


def edited(folder: Path, change: Change) -> Path:
    """A saved model whose first weight was tampered with: `change` gets its tensor."""
    path = save(folder, model())
    stored = onnx.load(path, load_external_data=False)
    change(stored.graph.initializer[0])
    path.write_bytes(stored.SerializeToString())
    return path


def entry(key: str, value: str) -> Change:
    def change(tensor: Any) -> None:
        kept = [(e.key, e.value) for e in tensor.external_data if e.key != key]
        tensor.ClearField("external_data")
        for k, v in [*kept, (key, value)]:
            tensor.external_data.add(key=k, value=v)

    return change


def without(key: str) -> Change:
    def change(tensor: Any) -> None:
        kept = [(e.key, e.value) for e in tensor.external_data if e.key != key]
        tensor.ClearField("external_data")
        for k, v in kept:
            tensor.external_data.add(key=k, value=v)

    return change


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all files that are opened by descriptor, without the model itself."""
    names: list[str] = []
    real = os.open

    def counted(path: Any, *rest: Any, **more: Any) -> int:
        if not os.fspath(path).endswith(".onnx"):
            names.append(os.fspath(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", counted)
    return names


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("one_file", [True, False])
def test_weights_beside_the_model(tmp_path: Path, dtype: Any, one_file: bool) -> None:
    made = model(dtype)
    whole = tmp_path / "whole.onnx"
    whole.write_bytes(made.SerializeToString())
    path = save(tmp_path, made, all_tensors_to_one_file=one_file)
    assert len(list(tmp_path.iterdir())) == (3 if one_file else 5)
    assert all(t.data_location == 1 for t in onnx.load(path, load_external_data=False).graph.initializer)
    network = load(path)
    assert network.sha256 == load(whole).sha256
    assert network.notes == ()
    a, b, c = (W[name].astype(dtype).astype(float) for name in "AbC")
    x = RNG.normal(size=(4, 5))
    np.testing.assert_allclose(network.forward(x), np.maximum(x @ a + b, 0) @ c, rtol=1e-12)


def test_only_what_is_named_is_opened(tmp_path: Path, opened: list[str]) -> None:
    path = save(tmp_path, model())
    load(path)
    assert set(opened) == {str(tmp_path / DATA)}


def test_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is the model's, whatever the current one is."""
    (tmp_path / "a").mkdir()
    save(tmp_path / "a", model())
    monkeypatch.chdir(tmp_path / "a")
    here = load("net.onnx").sha256
    monkeypatch.chdir(tmp_path)
    assert load("a/net.onnx").sha256 == here
    os.rename(tmp_path / "a" / DATA, tmp_path / DATA)
    refuse(Path("a/net.onnx"), f"{DATA} is not beside the file; copy both, or export with external_data=False")


@pytest.mark.parametrize("change", [without("length"), without("checksum"), entry("checksum", "0" * 40)])
def test_length_and_checksum_may_be_left_out(tmp_path: Path, change: Change) -> None:
    expected = load(save(tmp_path, model())).sha256
    assert load(edited(tmp_path, change)).sha256 == expected


def test_tensors_may_share_their_place(tmp_path: Path) -> None:
    """Tied weights: two names for the same bytes."""
    w = RNG.normal(size=(3, 3)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "V"], ["h"]), helper.make_node("MatMul", ["h", "W"], ["y"])]
    ends = [helper.make_tensor_value_info(name, 1, (1, 3)) for name in "xy"]
    graph = helper.make_graph(nodes, "tied", ends[:1], ends[1:], [numpy_helper.from_array(w, n) for n in "VW"])
    path = save(tmp_path, helper.make_model(graph, ir_version=8))
    stored = onnx.load(path, load_external_data=False)
    for tensor in stored.graph.initializer:
        entry("offset", "0")(tensor)
    path.write_bytes(stored.SerializeToString())
    (tmp_path / DATA).write_bytes(w.tobytes())
    x = RNG.normal(size=3)
    np.testing.assert_allclose(load(path).forward(x), x @ w.astype(float) @ w.astype(float), rtol=1e-12)


SECRET = "secret.bin"
NAMES = [
    "", ".", "..", f"../{SECRET}", f"..\\{SECRET}", f"/etc/{SECRET}", "/etc/passwd", f"./{DATA}", f"inner/{DATA}",
    "C:net", f"\\\\host\\{DATA}", f"{DATA}:stream", f"{DATA}\0", f"{DATA}/", f"{DATA}/.", "file:///etc/passwd",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_locations_that_are_not_plain_names(tmp_path: Path, opened: list[str], name: str) -> None:
    (tmp_path / SECRET).write_bytes(bytes(10_000))
    (tmp_path / "folder").mkdir()
    path = edited(tmp_path / "folder", entry("location", name))
    refuse(path, "tensor 'A' is kept in", "only a file in the same folder", kind=FileFormatError)
    assert opened == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("location"), ["kept in ''"]),
        (entry("location", "nowhere.bin"), ["nowhere.bin is not beside the file"]),
        (entry("location", "no\nwhere"), ["'no\\nwhere' is not beside the file"]),
        (entry("location", "a" * 1000), ["cannot be read"]),
        (entry("offset", "-4"), ["the offset '-4'", "whole number"]),
        (entry("offset", "4.0"), ["the offset '4.0'"]),
        (entry("offset", " 4"), ["the offset ' 4'"]),
        (entry("offset", "1_0"), ["the offset '1_0'"]),
        (entry("offset", "\u0664"), ["the offset"]),
        (entry("offset", "9" * 30), ["the offset"]),
        (entry("offset", "9" * 18), ["ends at byte 1,000,000,000,000,000,139"]),
        (entry("offset", "5000"), ["ends at byte 5,140"]),
        (entry("length", "-1"), ["the length '-1'"]),
        (entry("length", "0"), ["140 bytes by its shape", "0 by length"]),
        (entry("length", "139"), ["139 by length"]),
        (entry("length", "144"), ["144 by length"]),
        (entry("basepath", ".."), ["'basepath' twice, or it is not known"]),
        (lambda t: t.external_data.add(key="location", value=DATA), ["'location' twice"]),
        (lambda t: setattr(t, "raw_data", bytes(140)), ["both in the file and in another one"]),
        (lambda t: t.float_data.extend([1.0]), ["both in the file and in another one"]),
        (lambda t: t.dims.append(MAX_WEIGHTS), ["beyond the limits"]),
        (lambda t: t.dims.append(-1), ["beyond the limits"]),
        (lambda t: t.dims.extend([1] * 70), ["beyond the limits"]),
        (lambda t: t.dims.append(2), ["280 bytes by its shape"]),
        (lambda t: setattr(t, "data_type", 16), ["holds bfloat16"]),
        (lambda t: setattr(t, "data_type", 22), ["holds int4"]),
        (lambda t: setattr(t, "data_type", 99), ["holds type 99"]),
        (lambda t: setattr(t, "data_type", 11), ["280 bytes by its shape"]),
        (lambda t: setattr(t, "data_location", 0), ["kept in another file, which is not read"]),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, opened: list[str], change: Change, words: list[str]) -> None:
    refuse(edited(tmp_path, change), *words, kind=FileFormatError)
    assert set(opened) <= {str(tmp_path / DATA)}


def test_data_cut_short(tmp_path: Path) -> None:
    path = save(tmp_path, model())
    data = (tmp_path / DATA).read_bytes()
    (tmp_path / DATA).write_bytes(data[:-1])
    refuse(path, f"of '{DATA}', which has {len(data) - 1:,}", "cut short")
    (tmp_path / DATA).write_bytes(b"")
    refuse(path, "which has 0", "cut short")


def test_links_devices_and_folders(tmp_path: Path, opened: list[str]) -> None:
    path = save(tmp_path, model())
    data = tmp_path / DATA
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    refuse(path, "is a link, which is not followed")
    data.unlink()
    data.symlink_to("/dev/zero")
    refuse(path, "is a link")
    data.unlink()
    os.mkfifo(data)  # opening it would wait for a writer
    refuse(path, "is not a plain file")
    data.unlink()
    data.mkdir()
    refuse(path, "is not a plain file")
    assert opened == []


def test_a_link_that_comes_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was a file when it was looked at and is a link, or something else, when it is opened."""
    path = save(tmp_path, model())
    looked = os.lstat(tmp_path / DATA)
    (tmp_path / DATA).unlink()
    monkeypatch.setattr("lipcert.readers.onnx.external.os.lstat", lambda _: looked)
    os.mkfifo(tmp_path / DATA)
    refuse(path, "is not a plain file")
    (tmp_path / DATA).unlink()
    (tmp_path / DATA).symlink_to("/etc/passwd")
    refuse(path, "cannot be read")


def test_limits_hold_before_anything_is_read(tmp_path: Path, opened: list[str]) -> None:
    """Sparse files: large by what they say, small on the disk."""
    path = save(tmp_path, model())
    os.truncate(tmp_path / DATA, MAX_FILE_BYTES + 1)
    refuse(path, f"'{DATA}': 1.0 GiB is more than the limit of 1 GiB")
    os.truncate(tmp_path / DATA, MAX_FILE_BYTES)
    stored = onnx.load(path, load_external_data=False)
    for i in range(3):  # each is allowed, and all are the same bytes
        tensor = stored.graph.initializer.add(name=f"large{i}", data_type=1, data_location=1, dims=[MAX_WEIGHTS - 1])
        tensor.external_data.add(key="location", value=DATA)
    path.write_bytes(stored.SerializeToString())
    opened.clear()
    refuse(path, "kept in other files are more than 1 GiB")
    assert opened == []


def test_large_models_are_refused_by_their_size(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"")
    os.truncate(path, MAX_FILE_BYTES + 1)
    refuse(path, "1.0 GiB is more than the limit of 1 GiB")


def test_empty_tensors_need_no_bytes(tmp_path: Path) -> None:
    made = model()
    made.graph.initializer.append(numpy_helper.from_array(np.zeros((0, 4), np.float32), "nothing"))
    path = save(tmp_path, made)
    stored = onnx.load(path, load_external_data=False)
    tensor = stored.graph.initializer[-1]
    tensor.ClearField("raw_data")
    tensor.ClearField("external_data")
    tensor.data_location = 1
    tensor.external_data.add(key="location", value=DATA)
    path.write_bytes(stored.SerializeToString())
    assert load(path).inputs == 5


def test_the_data_may_be_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path, model())

    open_as_usual = os.open

    def denied(name: Any, *rest: Any, **more: Any) -> int:
        if str(name).endswith(DATA):
            raise PermissionError(13, "Permission denied")
        return open_as_usual(name, *rest, **more)

    monkeypatch.setattr("lipcert.readers.onnx.external.os.open", denied)
    refuse(path, f"'{DATA}' beside the file cannot be read (Permission denied)")


def test_types_that_are_not_read_are_refused_where_they_are_used(tmp_path: Path) -> None:
    path = edited(tmp_path, lambda t: setattr(t, "data_type", 16))
    refuse(path, "tensor 'A' holds bfloat16", kind=UnsupportedOperator)


def test_damaged_models_with_external_data(tmp_path: Path) -> None:
    path = save(tmp_path, model())
    survive(path, path.read_bytes(), cuts=30, flips=300)


def test_truth_values_are_zero_and_one(tmp_path: Path) -> None:
    """Other bytes mean one thing to some programs and another to others."""
    made = model()
    truth = numpy_helper.from_array(np.array([[True, False]]), "T")
    made.graph.node[-1].output[0] = "m"
    made.graph.node.append(helper.make_node("Where", ["T", "m", "m"], ["y"]))
    made.graph.initializer.append(truth)
    path = tmp_path / "net.onnx"
    onnx.save(made, path)
    assert load(path).outputs == 2
    made.graph.initializer[-1].raw_data = b"\x01\x02"
    onnx.save(made, path)
    refuse(path, "truth values other than 0 and 1", "T", kind=FileFormatError)


def test_a_node_that_makes_nothing_is_no_traceback(tmp_path: Path) -> None:
    """Beside a Tanh, where activations that are written out are looked for: it is left out, as nobody needs it."""
    made = model()
    made.graph.node[1].op_type = "Tanh"
    made.graph.node.insert(2, helper.make_node("Mul", ["h", "h"], []))
    path = tmp_path / "net.onnx"
    onnx.save(made, path)
    assert load(path).outputs == 2
