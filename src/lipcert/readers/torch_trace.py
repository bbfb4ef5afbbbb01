"""Modules with a forward of their own: torch.fx runs it, and every call in it is read as it comes.

Because values are known while the forward runs, shapes are plain numbers: loops over them, branches on them and
assertions are followed as Python does. Branches on values are refused. torch is imported when a module of torch is
there, and never otherwise.
"""
# mypy: disable-error-code="misc"

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from lipcert.errors import InputError, LipcertError, UnsupportedOperator
from lipcert.readers.tensors import Graph, Tensor
from lipcert.readers.torch_layers import DROPOUTS, LAYERS, NORMS, has_hooks, label
from lipcert.readers.torch_nodes import Nodes, shortened
from lipcert.readers.torch_values import is_live

_EXPORT = "export it with torch.onnx.export(module, (x,), 'model.onnx') and load that file"
_INNER = ("forward", "_conv_forward", "_output_padding")  # what a subclass may not change if it is to be the layer
_PLAIN = ("shape", "ndim", "is_cuda", "requires_grad", "is_sparse", "is_quantized")


def has_tracer(module: Any) -> bool:
    """Whether this is a module of the torch that is loaded."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(module, torch.nn.Module)


def kind_of(module: Any) -> str:
    """The class in the table that a module is, "" where its forward is its own."""
    mine = type(module)
    for cls in mine.__mro__:
        if cls.__module__.startswith("torch.nn.") and cls.__name__ in LAYERS:
            changed = any(getattr(mine, n, None) is not getattr(cls, n, None) or n in vars(module) for n in _INNER)
            return "" if changed else str(cls.__name__)
    return ""


def trace(module: Any, graph: Graph) -> Tensor:
    """The output of the module for the graph's input, as in evaluation mode. The module is left as it was."""
    with _evaluation(module) as root:
        output = _guarded(module, lambda: _run(root, graph))
        _check(root, module, graph, output)
    return output


def first_features(module: Any) -> int | None:
    """How many inputs the first linear layer or batch norm reads, if it is the first thing of any size; else None."""
    with _evaluation(module) as root:
        seen = _guarded(module, lambda: _classes()[0](None).trace(root))
        stack, layers = [next(iter(seen.nodes))], dict(root.named_modules())
        while stack:
            for user in stack.pop().users:
                layer = layers.get(user.target) if user.op == "call_module" else None
                kind = "" if layer is None else kind_of(layer)
                if kind in ("Linear", "BatchNorm1d"):
                    return int(layer.in_features if kind == "Linear" else layer.num_features)
                if kind in ("Flatten", "Identity", *DROPOUTS) or user.target in ("flatten", "view", "reshape"):
                    stack.append(user)
    return None


def _run(root: Any, graph: Graph) -> Tensor:
    tracer = _classes()[0](graph)
    made = tracer.trace(root)
    output = tracer.nodes.run(next(n for n in made.nodes if n.op == "output"))
    if not isinstance(output, Tensor):
        raise UnsupportedOperator(
            "its forward returns something else than one tensor; wrap it in a module that picks one"
        )
    if not output.dropped:
        graph.notes[:] = [note for note in graph.notes if "at the end is left out" not in note]
    return output


def _guarded(module: Any, run: Callable[[], Any]) -> Any:
    """Whatever the forward of a stranger raises while it is traced, in one line."""
    try:
        return run()
    except (LipcertError, MemoryError):
        raise
    except Exception as error:
        raise UnsupportedOperator(f"{label('', module)} cannot be traced ({shortened(error)}); {_EXPORT}") from None


@contextmanager
def _evaluation(module: Any) -> Iterator[Any]:
    """The module inside another one, in evaluation mode; all attributes of its modules are put back at the end."""
    import torch

    if type(module).__name__ == "OptimizedModule":  # what torch.compile returns
        module = getattr(module, "_orig_mod", module)
    before = [(part, dict(vars(part))) for part in module.modules()]
    noise = torch.random.get_rng_state()
    try:
        with torch.no_grad():
            for part, _ in before:
                part.training = False
            # A root has its hooks and its instance's own forward passed over: let it be a part instead.
            yield torch.nn.Sequential(module)
        if not torch.equal(noise, torch.random.get_rng_state()):
            raise UnsupportedOperator(f"{label('', module)} draws random numbers in its forward")
    finally:
        torch.random.set_rng_state(noise)
        for part, state in before:
            vars(part).clear()
            vars(part).update(state)


def in_training(module: Any) -> list[str]:
    """Batch norms and dropouts that are in training mode."""
    found = []
    for name, part in module.named_modules():
        if getattr(part, "training", False) and type(part).__name__ in (*NORMS, *DROPOUTS):
            found.append(label(name, part))
    return found


def _check(root: Any, module: Any, graph: Graph, output: Tensor) -> None:
    """Python can hide from a tracer what it does: the network must give what the module gives, at some points."""
    import torch

    first = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(()))
    points = np.random.default_rng(0).normal(size=(2, *graph.shape[1:]))
    try:
        x = torch.tensor(points, dtype=first.dtype, device=first.device)
        there = torch.stack([root(x[i : i + 1]) for i in range(len(x))]).double().cpu().numpy()
    except Exception:  # half precision that this machine does not compute, and the like: nothing to compare with
        return
    here = graph.network(output).forward(x.double().cpu().numpy().reshape(2, -1))
    if output.dropped:
        return
    error, size = np.abs(here - there.reshape(2, -1)).max(), np.abs(there).max()
    if np.isfinite(size) and not error <= 0.01 * size + 1e-6:
        raise UnsupportedOperator(f"{label('', module)} does something that tracing does not see; {_EXPORT}")


@cache
def _classes() -> tuple[Any, Any]:
    """The tracer and its proxies, made when torch is there."""
    import operator

    import torch
    from torch import fx

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
                return super().__len__()
            value = self.tracer.nodes.value(self.node)
            return len(value) if isinstance(value, (tuple, list)) else int(value.shape[0])

        def __iter__(self) -> Iterator[Any]:
            return super().__iter__() if self.tracer.nodes is None else iter([self[i] for i in range(len(self))])

    for name in ("iadd", "isub", "imul", "itruediv", "imatmul"):  # fx would read them as out of place

        def change(self: Any, other: Any, function: Any = getattr(operator, name)) -> Any:
            return self.tracer.create_proxy("call_function", function, (self, other), {})

        setattr(Proxy, f"__{name}__", change)

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
            if not kind_of(m) and (m._forward_hooks or m._forward_pre_hooks):
                raise has_hooks(self.path_of_module(m).partition(".")[2], m)
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

    return Tracer, Proxy
