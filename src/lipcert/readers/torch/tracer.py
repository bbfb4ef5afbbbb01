"""A torch.fx tracer that reads every node when it is made. Only functions import this module, as it imports torch."""
# mypy: disable-error-code="misc"

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

from lipcert.readers.graph.tensors import Graph
from lipcert.readers.torch.layers import check_hooks, kind_of
from lipcert.readers.torch.nodes import Nodes
from lipcert.readers.torch.values import is_live

_PLAIN = ("shape", "ndim", "is_cuda", "requires_grad", "is_sparse", "is_quantized")


class Proxy(fx.Proxy):
    """Stands for a tensor; knows its shape where values are read."""

    def __getattr__(self, name: str) -> Any:
        nodes = self.tracer.nodes
        if nodes is not None and name in (*_PLAIN, "dtype", "device"):
            value = nodes.value(self.node)
            if not is_live(value):
                return getattr(value, name)
            if name in ("dtype", "device"):
                return torch.float64 if name == "dtype" else torch.device("cpu")
            return torch.Size(value.shape) if name == "shape" else len(value.shape) if name == "ndim" else False
        return super().__getattr__(name)

    def __len__(self) -> int:
        if self.tracer.nodes is None:
            return int(super().__len__())
        value = self.tracer.nodes.value(self.node)
        return len(value) if isinstance(value, (tuple, list)) else int(value.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return super().__iter__() if self.tracer.nodes is None else iter([self[i] for i in range(len(self))])


def _in_place(function: Any) -> Any:
    return lambda self, other: self.tracer.create_proxy("call_function", function, (self, other), {})


for function in (operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.imatmul):
    setattr(Proxy, f"__{function.__name__}__", _in_place(function))  # fx would read them as out of place


class Tracer(fx.Tracer):
    """Reads every node when it is made."""

    proxy_buffer_attributes = True

    def __init__(self, graph: Graph | None) -> None:
        super().__init__()
        self.nodes = None if graph is None else Nodes(graph, self._attribute, self._layer)
        self._quiet = False
        self._inside: list[str] = []

    def _attribute(self, target: str) -> Any:
        found = self.root
        for part in target.split("."):
            found = getattr(found, part)
        return found

    def _layer(self, target: str) -> tuple[str, Any, str]:
        layer = self.root.get_submodule(target)
        return target.partition(".")[2], layer, kind_of(layer)

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:  # noqa: ARG002
        return bool(kind_of(m))

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        return attr_val if self._quiet else super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(self, m: Any, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self._quiet:
            return forward(*args, **kwargs)
        if type(m).__name__ == "ParametrizationList":
            with self._silence():
                return forward(*args, **kwargs).detach()
        check_hooks(self.path_of_module(m).partition(".")[2], m, computing=bool(kind_of(m)))
        self._inside.append(type(m).__name__)
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self._inside.pop()

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *others: Any, **named: Any) -> Any:
        proxy = super().create_proxy(kind, target, args, kwargs, *others, **named)
        if self.nodes is None:
            return proxy
        with self._silence():
            where = f"forward of {self._inside[-1]}" if self._inside else ""
            value = self.nodes.run(proxy.node, where)
        # Numbers, sizes and types are themselves, so that Python can branch on them.
        plain = value is None or isinstance(value, (int, float, str, torch.Size, torch.dtype, torch.device))
        plain = plain or (isinstance(value, tuple) and all(isinstance(part, int) for part in value))
        return value if plain and target is not getattr else proxy

    def proxy(self, node: Any) -> Any:
        return Proxy(node, self)

    def to_bool(self, obj: Any) -> bool:
        value = None if self.nodes is None else self.nodes.value(obj.node)
        if value is None or is_live(value):
            return bool(super().to_bool(obj))
        return bool(value)

    @contextmanager
    def _silence(self) -> Iterator[None]:
        """Modules are themselves inside, and give their own attributes."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before
