"""Damage to ONNX files: bytes, the parts of the protobuf, and the file with the external data."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

DATA = "model.onnx.data"
Random = np.random.Generator
# Numbers that break arithmetic on sizes and axes.
WILD = (0, -1, -2, 1, 2, 3, 7, 17, 1000, 2**20, 2**31 - 1, 2**31, -(2**31), 2**32 + 1, 2**62, 2**63 - 1, -(2**63))
OPERATORS = (
    "Relu", "Add", "MatMul", "Conv", "Gemm", "MaxPool", "Concat", "Split", "Slice", "Gather", "Reshape", "Resize",
    "Pad", "Expand", "Tile", "ConstantOfShape", "Where", "TopK", "ReduceMean", "ConvTranspose", "Clip", "Squeeze",
    "Einsum",
)  # fmt: skip


@dataclass
class Source:
    """A file to be damaged: the protobuf, and the bytes beside it where its tensors are kept there."""

    name: str
    model: bytes
    data: bytes | None = None


def outside(name: str, model: bytes) -> Source:
    """The same model with all its tensors in the file beside it."""
    proto = onnx.ModelProto.FromString(model)
    data = b""
    for tensor in proto.graph.initializer:
        content = onnx.numpy_helper.to_array(tensor).tobytes()
        place = {"location": DATA, "offset": str(len(data)), "length": str(len(content))}
        for field in ("raw_data", "float_data", "int64_data", "int32_data", "double_data"):
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in place.items():
            tensor.external_data.add(key=key, value=value)
        data += content
    return Source(f"{name} outside", proto.SerializeToString(), data)


def damage(source: Source, rng: Random, folder: Path) -> str:
    """Write a damaged copy as model.onnx in the folder; returns the kind of damage."""
    for old in folder.iterdir():
        old.unlink()
    kinds = [_flip, _cut, _splice, *PARTS] + ([*DATA_PARTS] * 3 if source.data is not None else [])
    harm = kinds[rng.integers(len(kinds))]
    model, data = source.model, source.data
    if harm in (_flip, _cut, _splice):
        model = harm(model, rng)
    elif harm in PARTS:
        proto = onnx.ModelProto.FromString(model)
        for _ in range(int(rng.integers(1, 4))):
            harm(proto, rng)
        model = proto.SerializeToString()
    else:
        model, data = harm(model, data or b"", rng, folder)
    (folder / "model.onnx").write_bytes(model)
    if data is not None and not (folder / DATA).is_symlink():
        (folder / DATA).write_bytes(data)
    return str(harm.__name__).strip("_")


def left_the_folder(folder: Path) -> bool:
    """Whether the model has a tensor whose data lie elsewhere than in a plain file of its folder."""
    graph = onnx.ModelProto.FromString((folder / "model.onnx").read_bytes()).graph
    used = {name for node in graph.node for name in node.input}
    places = {e.value for t in graph.initializer if t.name in used for e in t.external_data if e.key == "location"}
    return any("/" in place or place in ("", ".", "..") or (folder / place).is_symlink() for place in places)


def _flip(content: bytes, rng: Random) -> bytes:
    changed = bytearray(content)
    for place in rng.integers(0, max(len(changed), 1), size=int(rng.integers(1, 6))):
        if changed:
            changed[place] = int(rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))]))
    return bytes(changed)


def _cut(content: bytes, rng: Random) -> bytes:
    return content[: int(rng.integers(0, max(len(content), 1)))]


def _splice(content: bytes, rng: Random) -> bytes:
    a, b = sorted(int(n) for n in rng.integers(0, len(content) + 1, size=2))
    return content[:b] + content[a:] if rng.random() < 0.5 else content[:a] + content[b:]


def _pick(items: Any, rng: Random) -> Any:
    return items[int(rng.integers(len(items)))] if len(items) else None


def _wild(rng: Random) -> int:
    return int(WILD[int(rng.integers(len(WILD)))])


def _attribute(proto: Any, rng: Random) -> None:
    """An attribute of some node gets another value, name or type, or goes."""
    node = _pick([n for n in proto.graph.node if n.attribute], rng)
    if node is None:
        return
    attribute = _pick(node.attribute, rng)
    match int(rng.integers(6)):
        case 0:
            attribute.i = _wild(rng)
        case 1 if attribute.ints:
            attribute.ints[int(rng.integers(len(attribute.ints)))] = _wild(rng)
        case 2:
            attribute.ints.extend([_wild(rng)] * int(rng.choice([1, 2, 5, 1000])))
        case 3:
            attribute.f = float(rng.choice([np.nan, np.inf, -1.0, 1e38]))
        case 4:
            attribute.type = int(rng.integers(0, 15))
        case _:
            attribute.name = str(rng.choice(["axis", "pads", "kernel_shape", "strides", "x", ""]))


def _tensor(proto: Any, rng: Random) -> None:
    """An initializer gets other dimensions, another type, another name, or numbers that break arithmetic."""
    tensor = _pick(proto.graph.initializer, rng)
    if tensor is None:
        return
    match int(rng.integers(6)):
        case 0 if tensor.dims:
            tensor.dims[int(rng.integers(len(tensor.dims)))] = _wild(rng)
        case 1:
            tensor.dims.extend([_wild(rng)] * int(rng.choice([1, 3, 100])))
        case 2:
            tensor.data_type = int(rng.integers(0, 26))
        case 3:
            tensor.name = str(rng.choice(["X", "Y", "", "W"]))
        case 4 if tensor.data_type == onnx.TensorProto.INT64 and tensor.raw_data:
            numbers = np.frombuffer(tensor.raw_data, dtype="<i8").copy()
            if numbers.size:
                numbers[int(rng.integers(numbers.size))] = _wild(rng)
            tensor.raw_data = numbers.tobytes()
        case _ if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.raw_data) >= 4:
            numbers32 = np.frombuffer(tensor.raw_data[: len(tensor.raw_data) // 4 * 4], dtype="<f4").copy()
            numbers32[int(rng.integers(numbers32.size))] = rng.choice([np.nan, np.inf, 1e38, 0.0, -1.0])
            tensor.raw_data = numbers32.tobytes()
        case _:
            del tensor.dims[:]


def _node(proto: Any, rng: Random) -> None:
    """A node becomes another operator, reads another tensor, is repeated, moved or dropped."""
    graph = proto.graph
    node = _pick(graph.node, rng)
    if node is None:
        return
    names = [name for n in graph.node for name in (*n.input, *n.output)] + ["X", "Y", ""]
    match int(rng.integers(7)):
        case 0:
            node.op_type = str(rng.choice(OPERATORS))
        case 1 if node.input:
            node.input[int(rng.integers(len(node.input)))] = str(rng.choice(names))
        case 2:
            node.input.extend([str(rng.choice(names))] * int(rng.choice([1, 2, 500])))
        case 3 if node.output:
            node.output[int(rng.integers(len(node.output)))] = str(rng.choice(names))
        case 4:
            graph.node.append(node)
        case 5:
            graph.node.remove(node)
        case _:
            node.domain = str(rng.choice(["ai.onnx", "ai.onnx.ml", "x\ny", ""]))


def _model(proto: Any, rng: Random) -> None:
    """The input, the output or the operator sets are not what they were."""
    graph = proto.graph
    dims = graph.input[0].type.tensor_type.shape.dim if graph.input else []
    match int(rng.integers(6)):
        case 0 if len(dims):
            _pick(dims, rng).dim_value = _wild(rng)
        case 1 if len(dims):
            graph.input[0].type.tensor_type.shape.dim.add().dim_value = _wild(rng)
        case 2 if len(dims):
            _pick(dims, rng).dim_param = str(rng.choice(["N", "a\nb", ""]))
        case 3 if graph.output:
            graph.output[0].name = str(rng.choice(["X", "Z", "", "W"]))
        case 4 if proto.opset_import:
            proto.opset_import[0].version = _wild(rng)
        case _ if graph.input:
            graph.input[0].type.tensor_type.elem_type = int(rng.integers(0, 26))
        case _:
            proto.ir_version = _wild(rng)


def _place(model: bytes, data: bytes, rng: Random, folder: Path) -> tuple[bytes, bytes]:
    """A tensor is said to be elsewhere: outside the folder, past the end, at a negative place, in a link."""
    del folder
    proto = onnx.ModelProto.FromString(model)
    tensor = _pick([t for t in proto.graph.initializer if t.external_data], rng)
    if tensor is None:
        return model, data
    far = [str(n) for n in WILD] + ["", "x", "1e3", "0x10", "９", str(len(data)), str(10**30)]
    wheres = [
        "../x",
        "/etc/passwd",
        "a/../../x",
        "",
        ".",
        "model.onnx",
        "missing",
        "/dev/zero",
        "\x00",
        "x\ny",
        "sub/x",
    ]
    key = str(rng.choice(["location", "offset", "length"]))
    for entry in tensor.external_data:
        if entry.key == key:
            entry.value = str(rng.choice(wheres if key == "location" else far))
    if rng.random() < 0.2:
        tensor.external_data.add(key=str(rng.choice(["location", "offset", "x"])), value="0")
    return proto.SerializeToString(), data


def _link(model: bytes, data: bytes, rng: Random, folder: Path) -> tuple[bytes, bytes]:
    """The file beside it is a link: to a file elsewhere, to a device, to itself, to nothing."""
    target = str(rng.choice(["/etc/passwd", "/dev/zero", "/dev/stdin", DATA, "missing", "model.onnx"]))
    os.symlink(target, folder / DATA)
    return model, data


def _beside(model: bytes, data: bytes, rng: Random, folder: Path) -> tuple[bytes, bytes]:
    """The file beside it is damaged."""
    del folder
    return model, (_flip, _cut, _splice)[int(rng.integers(3))](data, rng)


PARTS: tuple[Callable[..., Any], ...] = (_attribute, _tensor, _node, _model)
DATA_PARTS: tuple[Callable[..., Any], ...] = (_place, _link, _beside)
