"""The nodes of an ONNX model in order: calls of the model's own functions are replaced by the nodes of the function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lipcert.errors import FileFormatError, UnsupportedOperator
from lipcert.files.boundary import quoted

MAX_NODES = 100_000
STANDARD = ("", "ai.onnx")
_DEPTH = 16  # the most functions that may call each other in a chain
_OPSET = 1  # the version of the operators in a model that names none


@dataclass(frozen=True)
class OnnxNode:
    """A node with the version of its operators; attributes by their names, as the file holds them."""

    kind: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[tuple[str, Any], ...]
    opset: int


def nodes_of(model: Any) -> list[OnnxNode]:
    """All nodes of a model's graph, functions written out."""
    functions = {(_domain(f.domain), str(f.name)): f for f in model.functions}
    for domain, name in functions:
        if domain in STANDARD:
            raise UnsupportedOperator(f"the model defines the standard operator {quoted(name)} anew; export it without")
    inlined = _Inlined(functions)
    inlined.add(_plain(model.graph.node, _opsets(model.opset_import)), 0)
    return inlined.nodes


def needed_nodes(nodes: Sequence[OnnxNode], output: str) -> list[OnnxNode]:
    """The nodes that the output depends on, in the file's order."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.outputs if name}
    wanted: set[int] = set()
    stack = [output]
    while stack:
        i = makers.get(stack.pop(), -1)
        if i >= 0 and i not in wanted:
            wanted.add(i)
            stack += nodes[i].inputs
    kept = [nodes[i] for i in sorted(wanted)]
    if any(not any(node.outputs) for node in kept):
        raise FileFormatError("a node has no output; the file is damaged")
    return kept


class _Inlined:
    """Nodes as they come, and those of functions in place of calls; limited in number before they are made."""

    def __init__(self, functions: dict[tuple[str, str], Any]) -> None:
        self._functions = functions
        self._calls = 0
        self.nodes: list[OnnxNode] = []

    def add(self, nodes: Iterable[OnnxNode], depth: int) -> None:
        for node in nodes:
            function = self._functions.get((node.domain, node.kind))
            if function is not None:
                self._call(node, function, depth)
                continue
            self.nodes.append(node)
            if len(self.nodes) > MAX_NODES:
                raise FileFormatError(f"more than {MAX_NODES:,} nodes are beyond the limit")

    def _call(self, call: OnnxNode, function: Any, depth: int) -> None:
        self._calls += 1
        if depth >= _DEPTH or self._calls > MAX_NODES:
            raise FileFormatError(f"function {quoted(call.kind)} calls functions too often or too deeply")
        if len(call.inputs) > len(function.input) or len(call.outputs) > len(function.output):
            raise FileFormatError(f"function {quoted(call.kind)} is called with too many inputs or outputs")
        # Inputs that are left out have an empty name, and so do outputs that are not used.
        names = dict.fromkeys(function.input, "")
        names |= dict(zip(function.input, call.inputs, strict=False))
        names |= {made: name for made, name in zip(function.output, call.outputs, strict=False) if name}
        given = {a.name: a for a in function.attribute_proto} | dict(call.attributes)
        prefix = f"{call.name or call.outputs[0] if call.outputs else ''}#{self._calls}/"
        inside = _plain(function.node, _opsets(function.opset_import))
        self.add((_renamed(node, names, prefix, given) for node in inside), depth + 1)


def _renamed(node: OnnxNode, names: dict[str, str], prefix: str, given: dict[str, Any]) -> OnnxNode:
    """A node of a function as a call has it: its own names, and the attributes that the call gives."""

    def own(name: str) -> str:
        return names.get(name, prefix + name) if name else ""

    return OnnxNode(
        node.kind,
        node.domain,
        prefix + node.name if node.name else "",
        tuple(own(name) for name in node.inputs),
        tuple(own(name) for name in node.outputs),
        tuple(_attributes(node.attributes, given)),
        node.opset,
    )


def _attributes(attributes: Iterable[tuple[str, Any]], given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, attribute in attributes:
        if not attribute.ref_attr_name:
            yield name, attribute
        elif attribute.ref_attr_name in given:  # else the operator's default holds
            yield name, given[attribute.ref_attr_name]


def _plain(nodes: Iterable[Any], opsets: dict[str, int]) -> Iterator[OnnxNode]:
    for node in nodes:
        domain = _domain(node.domain)
        opset = opsets.get(domain, _OPSET)
        attributes = tuple((a.name, a) for a in node.attribute)
        yield OnnxNode(node.op_type, domain, node.name, tuple(node.input), tuple(node.output), attributes, opset)


def _opsets(imports: Iterable[Any]) -> dict[str, int]:
    return {_domain(entry.domain): int(entry.version) for entry in imports}


def _domain(name: Any) -> str:
    """The domain's name; the standard one has two."""
    return "" if name in STANDARD else name
