"""The fields of an ONNX file are counted before they are parsed: as protobuf counts them, up to a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert.errors import FileFormatError
from lipcert.readers.onnx import wire
from tests.constants import set_constant
from tests.reader_tools import refuse

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
helper = onnx.helper

KIND = onnx.ModelProto.DESCRIPTOR


def field(number: int, content: bytes) -> bytes:
    """A field with a length."""
    size, count = [], len(content)
    while count >= 128:
        size.append(count & 127 | 128)
        count >>= 7
    return bytes([number << 3 | 2, *size, count]) + content


def fields_of(message: Any) -> int:
    """Counted by protobuf, where numbers in lists are packed or not as the format says."""
    total = 0
    for kind, value in message.ListFields():
        values = value if hasattr(value, "append") else [value]
        total += 1 if kind.GetOptions().packed else len(values)
        if kind.message_type is not None:
            total += sum(fields_of(inner) for inner in values)
    return total


def test_fields_are_counted() -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.arange(300.0), "v")),
        helper.make_node("Constant", [], ["d"], value_floats=[1.0, 2.0, 3.0]),
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[-1, 2, 1 << 40, 0]),
    ]
    ends = [helper.make_tensor_value_info(name, 1, ("batch", 3, 300)) for name in "xy"]
    weight = helper.make_tensor("w", 1, (2, 3), np.ones(6))
    model = helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:], [weight]))
    data = model.SerializeToString()
    assert wire._count(data, KIND) == fields_of(model) > 50


@pytest.mark.parametrize("inside", [b"\x0a\x00", b"\x2a\x00", b"\x0a\x02\x2a\x00", b"\x2a\x02\x08\x01"])
def test_files_of_nothing_but_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bytes) -> None:
    """Empty nodes, initializers, attributes, and sizes one by one: refused before the parser sees them."""
    set_constant(monkeypatch, "MAX_FIELDS", 1000)
    path = tmp_path / "net.onnx"
    path.write_bytes(field(7, inside * 600))
    if len(inside) == 2:
        refuse(path, "no operators" if inside[0] == 0x2A else "0 inputs", kind=FileFormatError)
        path.write_bytes(field(7, inside * 1001))
    monkeypatch.setattr(onnx.ModelProto, "FromString", None)
    refuse(path, "more than 1,000 fields", kind=FileFormatError)


@pytest.mark.parametrize(
    "data",
    [
        b"\x3a\x05\x0a\x00",  # a length past the end
        b"\x3a",
        b"\x80" * 11,  # a number that does not end
        b"\x3a\x03\x0a\x02\x00",  # a message past the end of the one around it
        b"\x0b\x0c",  # a group
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x3a\x02\x0d\x00",
    ],
)
def test_damaged_lengths(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(FileFormatError, match="the file is damaged"):
        wire.check_fields(data, KIND)
    (tmp_path / "net.onnx").write_bytes(data)
    refuse(tmp_path / "net.onnx", "damaged", kind=FileFormatError)
