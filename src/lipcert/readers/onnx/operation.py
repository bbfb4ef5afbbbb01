"""Operation: one ONNX node with the values of its inputs; its methods check inputs and attributes and convert them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError, UnsupportedOperator
from lipcert.files import MAX_WEIGHTS, MAX_WIDTH
from lipcert.files.boundary import parsing, quoted
from lipcert.readers.graph.recognised import Condition
from lipcert.readers.graph.tensors import Graph, Tensor, constant_tensor
from lipcert.readers.onnx.nodes import OnnxNode
from lipcert.rounding import Array

# TensorProto.DataType -> numpy. Truth values are there for Dropout's switch; weights may not be.
TENSOR_TYPES = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32,
    7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64,
}  # fmt: skip


_TYPE_NAMES = {8: "text", 14: "complex numbers", 15: "complex numbers", 16: "bfloat16", 21: "uint4", 22: "int4"}
EXTERNAL = 1  # TensorProto.EXTERNAL
MAX_WORK = 1 << 31  # numbers that are read or made while computing constants
_OLD = ("consumed_inputs",)  # attributes of the first opsets that say nothing about the function

Value = NDArray[Any] | Tensor | Condition | None


@dataclass
class FoldingWork:
    """The limit of work on constants: how many more numbers may be read or made in this file."""

    left: int = MAX_WORK

    def spend(self, numbers: int) -> None:
        self.left -= max(numbers, 0)
        if self.left < 0:
            raise FileFormatError("its constants take too long to compute; export the network with constants folded")


@dataclass(frozen=True)
class Operation:
    """A node: its operator, its inputs (None where one is left out), its attributes, and which outputs are needed."""

    kind: str
    name: str
    inputs: list[Value]
    attributes: dict[str, Any]
    opset: int
    domain: str = ""
    outputs: tuple[str, ...] = ("",)  # the names, "" where one is left out
    needed: tuple[bool, ...] = (True,)
    work: FoldingWork = field(default_factory=FoldingWork)

    @classmethod
    def from_node(cls, node: OnnxNode, inputs: Sequence[Value], needed: Sequence[bool], work: FoldingWork) -> Operation:
        from onnx import helper

        name = node.name or node.outputs[0]
        with parsing(f"node {quoted(name)}"):
            attributes = {key: helper.get_attribute_value(a) for key, a in node.attributes}
        if node.opset < 6:
            attributes = {key: value for key, value in attributes.items() if key not in _OLD}
        return cls(
            node.kind, name, list(inputs), attributes, node.opset, node.domain, node.outputs, tuple(needed), work
        )

    def __str__(self) -> str:
        return f"{self.kind if str(self.kind).isidentifier() else quoted(self.kind)} (node {quoted(self.name)})"

    def refused(self, why: str) -> UnsupportedOperator:
        """The error to raise for an operator or a form of it that is not supported; it names the node."""
        return UnsupportedOperator(f"operator {self}: {why}")

    def damaged(self, why: str) -> FileFormatError:
        """The error to raise for a node that no exporter writes; it names the node."""
        return FileFormatError(f"operator {self}: {why}")

    @contextmanager
    def naming_node(self) -> Iterator[None]:
        """Put the node's name in front of every error raised inside; what numpy cannot do is damage."""
        try:
            yield
        except UnsupportedOperator as error:
            raise error if str(self) in str(error) else self.refused(str(error)) from None
        except InputError as error:
            raise error if str(self) in str(error) else self.damaged(str(error)) from None
        except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError):
            raise self.damaged("its inputs do not fit together") from None

    def check(self, attributes: Sequence[str], fewest: int, most: int) -> None:
        """Refuse attributes that are not known here: ignoring one might change the function."""
        for name in self.attributes:
            if name not in attributes:
                known = ", ".join(attributes) or "none"
                raise self.refused(f"attribute {quoted(name)} is not supported; known: {known}")
        if not fewest <= len(self.inputs) <= most:
            raise self.damaged(f"{len(self.inputs)} inputs; expected {fewest} to {most}")

    def check_size(self, size: int) -> None:
        """Refuse to make a tensor or a constant of this size if it is above the limit."""
        limit, what = (MAX_WIDTH, "tensor") if self.is_live else (MAX_WEIGHTS, "constant")
        if size > limit:
            raise self.damaged(f"a {what} of {size:,} numbers is beyond the limit of {limit:,}")

    # --- inputs -----------------------------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        """Whether an input depends on the network's input."""
        return any(isinstance(value, (Tensor, Condition)) for value in self.inputs)

    def value(self, i: int, what: str = "input") -> NDArray[Any] | Tensor | Condition:
        """Input i, which must be there."""
        value = self.inputs[i] if i < len(self.inputs) else None
        if value is None:
            raise self.damaged(f"its {what} is missing")
        return value

    def operand(self, i: int, what: str = "input") -> Tensor | Array:
        """Input i as a tensor or numbers; not a comparison."""
        value = self.value(i, what)
        if isinstance(value, Condition):
            raise self.refused(f"its {what} is a comparison of tensors, whose value jumps")
        return value if isinstance(value, Tensor) else real(value)

    def comparable(self, i: int, what: str = "input") -> Tensor | Array | Condition:
        """Input i as a tensor, numbers or a comparison."""
        value = self.value(i, what)
        return real(value) if isinstance(value, np.ndarray) else value

    def tensor(self, i: int = 0, what: str = "input") -> Tensor:
        """Input i as a tensor, a constant too."""
        value = self.operand(i, what)
        return value if isinstance(value, Tensor) else constant_tensor(value)

    def constant(self, i: int, what: str) -> NDArray[Any]:
        """Input i, which must be a constant."""
        value = self.optional(i, what)
        if value is None:
            raise self.damaged(f"its {what} is missing")
        return value

    def optional(self, i: int, what: str) -> NDArray[Any] | None:
        """Input i, which must be a constant or left out."""
        value = self.inputs[i] if i < len(self.inputs) else None
        if isinstance(value, (Tensor, Condition)):
            raise self.refused(f"its {what} depends on the input; a constant is needed")
        return value

    # --- attributes ---------------------------------------------------------------------------------------------------

    def attribute(self, name: str, default: float | str) -> float | str:
        """An attribute of the type of its default."""
        if isinstance(default, str):
            return self.text(name, default)
        return self.integer(name, default) if isinstance(default, int) else self.number(name, default)

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

    def numbers(self, name: str) -> Array:
        """A list of numbers, empty where the attribute is left out."""
        value = self.attributes.get(name, [])
        if not isinstance(value, Sequence) or not all(isinstance(n, (int, float)) for n in value):
            raise self.damaged(f"attribute {name} must be a list of numbers")
        return np.array(value, dtype=np.float64)

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

    def axes(self, axes: Sequence[int], count: int) -> tuple[int, ...]:
        """These axes of `count`, counted from the front, if they are there and each is named once."""
        if not all(-count <= a < count for a in axes) or len({a % count for a in axes}) != len(axes):
            raise self.damaged(f"axes {list(axes)[:16]} are out of range or repeated")
        return tuple(a % count for a in axes)

    def axis(self, count: int, default: int) -> int:
        """The attribute `axis`, counted from the front."""
        axis = self.integer("axis", default)
        if not -count <= axis < count:
            raise self.damaged(f"axis {axis} is out of range")
        return axis % count

    def reduced_axes(self, rank: int, changed: int) -> tuple[int, ...]:
        """The axes that a Reduce operator reduces: input 1 from opset `changed` on, an attribute before."""
        self.check(("axes", "keepdims", "noop_with_empty_axes"), 1, 2 if self.opset >= changed else 1)
        axes = self.list_of_integers("axes", 1)
        if axes:
            return self.axes(axes, rank)
        return () if self.integer("noop_with_empty_axes", 0) else tuple(range(rank))


Results = Value | Sequence[Value]
Apply = Callable[[Operation, Graph], Results]


def call(
    function: Callable[..., Value], *inputs: Callable[[Operation, int], Value], **attributes: float | str
) -> Apply:
    """An entry of the operator table that calls function(graph, input, .., attribute, ..), in the order given here.

    inputs: how each is read, a method of `Operation`; one tensor by default. Each attribute is given as its default,
        whose type says what it must be: a number, a whole number or text.
    """
    methods = inputs or (Operation.tensor,)

    def apply(op: Operation, graph: Graph) -> Value:
        op.check(tuple(attributes), len(methods), len(methods))
        values = [read(op, i) for i, read in enumerate(methods)]
        return function(graph, *values, *(op.attribute(name, default) for name, default in attributes.items()))

    return apply


def cast_type(op: Operation) -> Any:
    """The numpy type that a Cast gives."""
    op.check(("to", "saturate", "round_mode"), 1, 1)
    code: object = op.attributes.get("to")
    if op.opset < 6 and isinstance(code, bytes):  # a name, such as FLOAT
        code = {"FLOAT": 1, "INT32": 6, "INT64": 7, "BOOL": 9, "FLOAT16": 10, "DOUBLE": 11}.get(code.decode("latin-1"))
    if code not in TENSOR_TYPES:
        raise op.refused("casts to float16, float32, float64 and integers only")
    return TENSOR_TYPES[code]


def real(array: NDArray[Any]) -> Array:
    """Numbers as float64; truth values are none."""
    if array.dtype.kind == "b":
        raise InputError("a constant holds truth values; numbers are needed")
    return np.asarray(array, dtype=np.float64)


def tensor_array(tensor: Any) -> NDArray[Any]:
    """The numbers of a tensor that is kept within the file, or was fetched from beside it (external.py)."""
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
        array = np.asarray(numpy_helper.to_array(tensor))
    if array.dtype.kind == "b" and np.any(np.ascontiguousarray(array).view(np.uint8) > 1):
        raise FileFormatError(f"{what} holds truth values other than 0 and 1; export the model again")
    return array
