"""The nodes of a traced forward, one after the other: each makes a tensor of ours, a constant or a Python value.

A node is anything with op, target, args, kwargs and name, as torch.fx has them; torch itself is not needed. Functions
of constants alone are called as they are. In-place functions change all that shares their memory: what is the very
same tensor gets the new value, views of it may not be read any more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.files.boundary import quoted
from lipcert.readers.graph import Entry
from lipcert.readers.graph.recognised import Condition
from lipcert.readers.graph.tensors import Graph
from lipcert.readers.torch.blocks import BLOCKS
from lipcert.readers.torch.functions import FUNCTIONS, METHODS, RANDOM
from lipcert.readers.torch.layers import LAYERS, apply_layer, label
from lipcert.readers.torch.values import Unread, constant, is_live, tensor

# Where torch keeps its functions; those of the same name elsewhere may be others.
_TORCH = {
    "torch": "torch",
    "torch.functional": "torch",
    "torch._C": "torch",
    "torch._tensor": "torch",
    "torch.nn.functional": "torch.nn.functional",
    "torch._C._nn": "torch.nn.functional",
    "torch._C._special": "torch.special",
    "torch._C._linalg": "torch.linalg",
    "_operator": "operator",
    "operator": "operator",
}
_IN_PLACE = frozenset({"iadd", "isub", "imul", "itruediv", "imatmul"})
_REFLECTED = {"radd": "add", "rsub": "sub", "rmul": "mul", "rtruediv": "truediv", "rmatmul": "matmul", "rdiv": "div"}
_RENAMED = {"axis": "dim", "keepdims": "keepdim"}
_IGNORED = ("inplace", "_stacklevel", "memory_format", "non_blocking", "copy", "device", "layout")


@dataclass(eq=False)
class Slot:
    """A node's value; `memory` is shared by views, and `stale` says that an in-place function has changed it."""

    value: Any
    memory: object = field(default_factory=object)
    stale: bool = False


class Nodes:
    """Values of nodes so far. `attribute` finds a parameter by its dotted name, `layer` a module and its kind."""

    def __init__(
        self, graph: Graph, attribute: Callable[[str], Any], layer: Callable[[str], tuple[str, Any, str]]
    ) -> None:
        self._graph, self._attribute, self._layer = graph, attribute, layer
        self._slots: dict[str, Slot] = {}
        self._attributes: dict[str, Slot] = {}
        self._inputs = 0
        self.scores: tuple[int, ...] = ()  # the shape of what entered a softmax that was left out

    def run(self, node: Any, where: str = "") -> Any:
        """The value of a node, which is kept for those that read it; `where` names the forward it is in."""
        match node.op:
            case "placeholder":
                self._inputs += 1
                if self._inputs > 1:
                    raise UnsupportedOperator("a forward with several inputs is not supported; wrap it in one of one")
                slot = Slot(self._graph.input)
            case "get_attr":
                slot = self._parameter(node.target)
            case "call_module":
                slot = self._call_module(node)
            case "output":
                slot = Slot(self.resolved(node.args[0]))
            case _:
                slot = self._call(node, where)
        self._slots[node.name] = slot
        first = next(_nodes_in(node.args), None)
        if getattr(slot.value, "dropped", "") and first and not getattr(self.value(first), "dropped", ""):
            self.scores = slot.value.shape
        return slot.value

    def value(self, node: Any) -> Any:
        """The value of a node that was run, or of a parameter."""
        return self._slot(node).value

    def resolved(self, argument: Any) -> Any:
        """An argument with values in place of nodes."""
        if _is_node(argument):
            return self._usable(argument)
        if isinstance(argument, (tuple, list)):
            values = [self.resolved(part) for part in argument]
            return tuple(values) if isinstance(argument, tuple) else values
        if isinstance(argument, dict):
            return {key: self.resolved(value) for key, value in argument.items()}
        if isinstance(argument, slice):
            return slice(*(self.resolved(end) for end in (argument.start, argument.stop, argument.step)))
        return argument

    def _usable(self, node: Any) -> Any:
        slot = self._slot(node)
        if slot.stale:
            raise UnsupportedOperator(
                f"node {quoted(node.name)} is read after a view of it was changed in place; write that without inplace"
            )
        if isinstance(slot.value, Unread):
            raise UnsupportedOperator(slot.value.why)
        return slot.value

    def _slot(self, node: Any) -> Slot:
        if node.name not in self._slots and node.op == "get_attr":
            self._slots[node.name] = self._parameter(node.target)
        return self._slots[node.name]

    def _parameter(self, target: str) -> Slot:
        if target not in self._attributes:
            self._attributes[target] = Slot(
                constant(self._attribute(target), f"parameter {quoted(target.removeprefix('0.'))}")
            )
        return self._attributes[target]

    def _call_module(self, node: Any) -> Slot:
        name, layer, kind = self._layer(node.target)
        args, kwargs = self.resolved(tuple(node.args)), self.resolved(dict(node.kwargs))
        entry = LAYERS[kind]
        values = [*args, *kwargs.values()]
        if kind in BLOCKS:
            return Slot(apply_layer(self._graph, name, layer, kind, *args, **kwargs))
        if len(values) != 1 or isinstance(values[0], (Condition, tuple, list)):
            why = entry.words if entry.apply is None else "it is given something else than one tensor"
            raise UnsupportedOperator(f"{label(name, layer)}: {why}")
        result = apply_layer(self._graph, name, layer, kind, tensor(values[0]))
        changes = not entry.is_view and getattr(layer, "inplace", False) is True
        return self._stored(node, result, entry.is_view, changes)

    def _call(self, node: Any, where: str) -> Slot:
        name, title = _name(node)
        title = f"{title} (node {quoted(node.name)}{', ' if where else ''}{where})"
        try:
            args, kwargs = self.resolved(tuple(node.args)), self.resolved(dict(node.kwargs))
            if name.rstrip("_") in RANDOM:
                raise UnsupportedOperator("draws random numbers")
            if not is_live([*args, *kwargs.values()]):
                return self._stored(node, _native(node, args, kwargs), True, False)
            base, changes, args = _base(name, args)
            entry = METHODS.get(base) if node.op == "call_method" else None
            entry = entry or FUNCTIONS.get(base)
            changes = changes or kwargs.get("inplace") is True
            result = _applied(self._graph, entry, args, kwargs)
            return self._stored(node, result, entry is not None and entry.is_view, changes)
        except UnsupportedOperator as error:
            raise UnsupportedOperator(f"{title}: {error}") from None
        except InputError as error:
            raise InputError(f"{title}: {error}") from None
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise InputError(f"{title}: {shortened(error)}") from None

    def _stored(self, node: Any, result: Any, is_view: bool, changes: bool) -> Slot:
        """The slot of a result: its own, one that shares memory, or that of the argument which was changed."""
        first = next(_nodes_in((node.args, node.kwargs)), None)
        if first is None:
            return Slot(result)
        source = self._slot(first)
        if not changes:
            return Slot(result, source.memory) if is_view else Slot(result)
        if not is_view:
            if getattr(result, "shape", None) != tuple(getattr(source.value, "shape", ())):
                raise InputError("changes a tensor in place to another shape")
            for slot in (*self._slots.values(), *self._attributes.values()):
                slot.stale = slot.stale or (slot.memory is source.memory and slot is not source)
        source.value = result
        return source


def shortened(error: BaseException) -> str:
    """An error of torch or of a forward in one short line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else text[:157] + "..."


def _applied(graph: Graph, entry: Entry | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if entry is None:
        raise UnsupportedOperator("is not supported; docs/operators.md has the list of what is")
    if entry.apply is None:
        raise UnsupportedOperator(entry.words)
    named = {_RENAMED.get(key, key): value for key, value in kwargs.items() if key not in _IGNORED}
    for key in ("dtype", "out"):
        if key in named and (named[key] is None or getattr(named[key], "is_floating_point", False)):
            del named[key]
    try:
        inspect.signature(entry.apply).bind(graph, *args, **named)
    except TypeError as error:
        raise UnsupportedOperator(f"is called in a way that is not known here ({error})") from None
    return entry.apply(graph, *args, **named)


def _native(node: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of constants as it is."""
    if node.op == "call_method":
        return getattr(args[0], node.target)(*args[1:], **kwargs)
    return node.target(*args, **kwargs)


def _base(name: str, args: tuple[Any, ...]) -> tuple[str, bool, tuple[Any, ...]]:
    """The name without what says that it works in place or with its arguments exchanged."""
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        if name in _REFLECTED:
            return _REFLECTED[name], False, (args[1], args[0], *args[2:])
    if name in _IN_PLACE:
        return name, True, args
    if name.endswith("_") and name not in FUNCTIONS:
        return name[:-1], True, args
    return name, False, args


def _name(node: Any) -> tuple[str, str]:
    """A function's name in the table and in messages; "" where it is no function of torch or Python's operators."""
    if node.op == "call_method":
        return str(node.target), f"Tensor.{node.target}"
    own = str(getattr(node.target, "__name__", type(node.target).__name__))
    home = str(getattr(node.target, "__module__", ""))
    if home in _TORCH or node.target is getattr:
        return own, f"{_TORCH.get(home, home)}.{own}"
    return "", f"{home}.{own}"


def _is_node(value: Any) -> bool:
    return hasattr(value, "op") and hasattr(value, "target")


def _nodes_in(value: Any) -> Iterator[Any]:
    if _is_node(value):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _nodes_in(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _nodes_in(part)
