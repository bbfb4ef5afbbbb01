"""One ONNX node, with its inputs looked up and its attributes checked on the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, UnsupportedOperator
from lipcert.files import MAX_WEIGHTS
from lipcert.files.boundary import parsing, quoted

# TensorProto.DataType -> numpy. Truth values are there for Dropout's switch; weights may not be.
TENSOR_TYPES = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32,
    7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64,
}  # fmt: skip

_TYPE_NAMES = {8: "text", 14: "complex numbers", 15: "complex numbers", 16: "bfloat16", 21: "uint4", 22: "int4"}
EXTERNAL = 1  # TensorProto.EXTERNAL


@dataclass(frozen=True)
class Live:
    """A tensor that depends on the network's input."""

    name: str
    shape: tuple[int, ...]


Value = NDArray[Any] | Live | None


@dataclass(frozen=True)
class Operation:
    """A node: its operator, its inputs (None where one is left out) and its attributes."""

    kind: str
    name: str
    inputs: list[Value]
    attributes: dict[str, Any]

    @classmethod
    def of(cls, node: Any, inputs: Sequence[Value]) -> Operation:
        from onnx import helper

        name = node.name or node.output[0]
        if node.domain not in ("", "ai.onnx"):
            raise UnsupportedOperator(
                f"operator {quoted(node.op_type)} (node {quoted(name)}) is of the domain {quoted(node.domain)}; "
                "only standard ONNX operators are supported"
            )
        with parsing(f"node {quoted(name)}"):
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        return cls(node.op_type, name, list(inputs), attributes)

    def __str__(self) -> str:
        return f"{self.kind if str(self.kind).isidentifier() else quoted(self.kind)} (node {quoted(self.name)})"

    def refused(self, why: str) -> UnsupportedOperator:
        return UnsupportedOperator(f"operator {self}: {why}")

    def unknown(self, supported: Sequence[str]) -> UnsupportedOperator:
        return UnsupportedOperator(f"operator {self} is not supported; supported: {', '.join(supported)}")

    def damaged(self, why: str) -> FileFormatError:
        return FileFormatError(f"operator {self}: {why}")

    def check(self, attributes: Sequence[str], fewest: int, most: int) -> None:
        """Refuse attributes that are not known here: ignoring one might change the function."""
        for name in self.attributes:
            if name not in attributes:
                known = ", ".join(attributes) or "none"
                raise self.refused(f"attribute {quoted(name)} is not supported; known: {known}")
        if not fewest <= len(self.inputs) <= most:
            raise self.damaged(f"{len(self.inputs)} inputs; expected {fewest} to {most}")

    def constant(self, i: int, what: str) -> NDArray[Any]:
        """Input i, which must be a constant."""
        value = self.optional(i, what)
        if value is None:
            raise self.damaged(f"its {what} is missing")
        return value

    def optional(self, i: int, what: str) -> NDArray[Any] | None:
        """Input i, which must be a constant or left out."""
        value = self.inputs[i] if i < len(self.inputs) else None
        if isinstance(value, Live):
            raise self.refused(f"its {what} depends on the input; a constant is needed")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.attributes.get(name, default)
        if not isinstance(value, (int, float)):
            raise self.damaged(f"attribute {name} must be a number")
        return float(value)

    def integer(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise self.damaged(f"attribute {name} must be a whole number")
        return value

    def text(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default.encode())
        if not isinstance(value, bytes):
            raise self.damaged(f"attribute {name} must be text")
        return value.decode("latin-1")

    def integers(self, name: str, count: int, default: Sequence[int]) -> tuple[int, ...]:
        """A list attribute with `count` entries."""
        value = self.attributes.get(name, default)
        if not isinstance(value, Sequence) or len(value) != count or not all(isinstance(n, int) for n in value):
            raise self.damaged(f"attribute {name} must be {count} whole numbers")
        return tuple(value)

    def list_of_integers(self, attribute: str, i: int) -> tuple[int, ...] | None:
        """Axes or a shape: an attribute in old files, input i in new ones; None if in neither."""
        if attribute in self.attributes:
            return self.integers(attribute, len(np.atleast_1d(self.attributes[attribute])), ())
        value = self.optional(i, attribute)
        if value is None:
            return None
        if value.dtype.kind not in "iu" or value.ndim > 1:
            raise self.damaged(f"its {attribute} must be a list of whole numbers")
        return tuple(int(n) for n in value.reshape(-1))


def tensor_array(tensor: Any) -> NDArray[Any]:
    """The numbers of a tensor that is kept within the file, or was fetched from beside it (onnx_external.py)."""
    from onnx import numpy_helper

    what = f"tensor {quoted(tensor.name)}"
    if tensor.data_type not in TENSOR_TYPES:
        kind = _TYPE_NAMES.get(tensor.data_type, f"type {tensor.data_type}")
        raise UnsupportedOperator(f"{what} holds {kind}; float16, float32, float64 or integers of 8 bits or more only")
    if tensor.data_location == EXTERNAL or tensor.external_data:
        raise FileFormatError(f"{what} is kept in another file, which is not read; save the model as one file")
    if any(n < 0 for n in tensor.dims) or np.prod([float(n) for n in tensor.dims]) > MAX_WEIGHTS:
        raise FileFormatError(f"{what} has the shape {quoted(str(list(tensor.dims)))}, beyond the limits")
    with parsing(what):
        return np.asarray(numpy_helper.to_array(tensor))
