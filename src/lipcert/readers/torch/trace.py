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

from lipcert.errors import LipcertError, UnsupportedOperator
from lipcert.problem.network import Network
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.layers import DROPOUTS, LAYERS, NORMS, check_hooks, label
from lipcert.readers.torch.nodes import Nodes, shortened
from lipcert.readers.torch.values import is_live
from lipcert.rounding import Array

_EXPORT = (
    "export it with torch.onnx.export(module, (x,), 'model.onnx') and load that file, unless it branches on values: an "
    "export keeps only the branches that its example takes"
)
_BRANCHES = (
    "its forward branches on values of the input, and an ONNX export would keep one branch only; bound each branch as "
    "a module of its own"
)
_INNER = ("forward", "_conv_forward", "_output_padding")  # what a subclass may not change if it is to be the layer
_SEED = 0
_PLAIN = ("shape", "ndim", "is_cuda", "requires_grad", "is_sparse", "is_quantized")


def has_tracer(module: Any) -> bool:
    """Whether this is a module of the torch that is loaded."""
    nn = getattr(sys.modules.get("torch"), "nn", None)
    return nn is not None and isinstance(module, nn.Module)


def check_scripted(module: Any) -> None:
    """Refuse what torch.jit has made of a module: it has no forward in Python that could be followed."""
    for name, part in module.named_modules():
        if any(cls.__name__ == "ScriptModule" for cls in type(part).__mro__):
            where = f" ({name})" if name else ""
            raise UnsupportedOperator(
                f"a module of torch.jit{where} cannot be followed; give the module that it was made of, or load an "
                "ONNX file of it"
            )


def kind_of(module: Any) -> str:
    """The class in the table that a module is, "" where its forward is its own."""
    mine = type(module)
    for cls in mine.__mro__:
        if cls.__module__.startswith("torch.nn.") and cls.__name__ in LAYERS:
            changed = any(getattr(mine, n, None) is not getattr(cls, n, None) or n in vars(module) for n in _INNER)
            return "" if changed else str(cls.__name__)
    return ""


def trace(module: Any, graph: Graph) -> Network:
    """The network of the module, as in evaluation mode. The module is left as it was."""
    with _evaluation(module) as root:
        output, scores = _guarded(module, lambda: _run(root, graph))
        _check_noise(module)
        network = graph.network(output)
        _check(root, network, graph.shape, scores if output.dropped else ())
    return network


def first_features(module: Any) -> int | None:
    """The inputs of the first linear layer or batch norm, if no layer with a size comes before it; else None."""
    with _evaluation(module) as root:
        seen = _guarded(module, lambda: _tracer_class()(None).trace(root))
        stack, layers = [next(iter(seen.nodes))], dict(root.named_modules())
        while stack:
            for user in stack.pop().users:
                layer: Any = layers.get(user.target) if user.op == "call_module" else None
                kind = "" if layer is None else kind_of(layer)
                if kind in ("Linear", "BatchNorm1d"):
                    return int(layer.in_features if kind == "Linear" else layer.num_features)
                function = getattr(user.target, "__name__", user.target)
                if kind in ("Flatten", "Identity", *DROPOUTS) or function in ("flatten", "view", "reshape"):
                    stack.append(user)
    return None


def _run(root: Any, graph: Graph) -> tuple[Tensor, tuple[int, ...]]:
    """The output, and the shape of the scores before a softmax that was left out."""
    tracer = _tracer_class()(graph)
    made = tracer.trace(root)
    output = tracer.nodes.run(next(n for n in made.nodes if n.op == "output"))
    if not isinstance(output, Tensor):
        raise UnsupportedOperator("its forward returns something else than one tensor; wrap it in a module that does")
    if not output.dropped:
        graph.notes[:] = [note for note in graph.notes if "at the end is left out" not in note]
    return output, tracer.nodes.scores


def _guarded(module: Any, run: Callable[[], Any]) -> Any:
    """Whatever the forward of a stranger raises while it is traced, in one line."""
    try:
        return run()
    except (LipcertError, MemoryError):
        raise
    except Exception as error:
        if type(error).__name__ == "TraceError" and "control flow" in str(error):
            raise UnsupportedOperator(f"{label('', module)}: {_BRANCHES}") from None
        raise UnsupportedOperator(f"{label('', module)} cannot be traced ({shortened(error)}); {_EXPORT}") from None


@contextmanager
def _evaluation(module: Any) -> Iterator[Any]:
    """The module inside another one, in evaluation mode; all attributes of its modules are put back at the end."""
    import torch

    if type(module).__name__ == "OptimizedModule":  # what torch.compile returns
        module = getattr(module, "_orig_mod", module)
    everywhere = torch.nn.modules.module
    if everywhere._global_forward_hooks or everywhere._global_forward_pre_hooks:
        raise UnsupportedOperator("forward hooks for all modules are set; remove them")
    before = [(part, {name: _copied(name, value) for name, value in vars(part).items()}) for part in module.modules()]
    values = [(b, b.clone()) for b in module.buffers() if not type(b).__name__.startswith("Uninitialized")]
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            for part, _ in before:
                part.training = False
            torch.random.manual_seed(_SEED)
            # A root has its hooks and its instance's own forward passed over: let it be a part instead.
            yield torch.nn.Sequential(module)
    finally:
        for part, state in before:
            vars(part).clear()
            vars(part).update(state)
        for buffer, value in values:
            if not torch.equal(buffer, value):
                buffer.copy_(value)


def _check_noise(module: Any) -> None:
    import torch

    with torch.random.fork_rng(devices=[]):
        started = torch.random.manual_seed(_SEED).get_state()
    if not torch.equal(started, torch.random.get_rng_state()):
        raise UnsupportedOperator(f"{label('', module)} draws random numbers in its forward")


def _copied(name: str, value: Any) -> Any:
    """The registers of a module change when something is added to them; other attributes are kept as they are."""
    return value.copy() if name in ("_parameters", "_buffers", "_modules") else value


def in_training(module: Any) -> list[str]:
    """Batch norms and dropouts that are in training mode."""
    found = []
    for name, part in module.named_modules():
        if getattr(part, "training", False) and type(part).__name__ in (*NORMS, *DROPOUTS):
            found.append(label(name, part))
    return found


def _check(root: Any, network: Network, shape: tuple[int, ...], scores: tuple[int, ...]) -> None:
    """Python can hide from a tracer what it does: the network must give what the module gives, at some points."""
    import torch

    first = next((p for p in root.parameters() if p.is_floating_point()), torch.zeros(()))
    points = np.random.default_rng(0).normal(size=(2, *shape[1:]))
    try:
        x = torch.tensor(points, dtype=first.dtype, device=first.device)
        there = np.stack([root(x[i : i + 1]).double().cpu().numpy().reshape(-1) for i in range(len(x))])
    except Exception as error:
        if first.dtype in (torch.float32, torch.float64):
            raise UnsupportedOperator(f"{label('', root[0])} fails in torch itself ({shortened(error)})") from None
        return  # half precision that this machine does not compute: nothing to compare with
    here = network.forward(x.double().cpu().numpy().reshape(2, -1))
    likely = [here, *(s for axis in range(1, len(scores)) for s in _softmaxes(here.reshape(2, *scores[1:]), axis))]
    size = np.abs(there).max()
    if np.isfinite(size) and not any(np.abs(h.reshape(2, -1) - there).max() <= 0.01 * size + 1e-6 for h in likely):
        raise UnsupportedOperator(f"{label('', root[0])} does something that tracing does not see; {_EXPORT}")


def _softmaxes(scores: Array, axis: int) -> tuple[Array, Array]:
    """Softmax along an axis, and its logarithm."""
    shifted = scores - scores.max(axis=axis, keepdims=True)
    logarithm = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return np.exp(logarithm), logarithm


@cache
def _proxy_class() -> Any:
    """The class of what stands for a tensor while tracing, made when torch is there."""
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
                return int(super().__len__())
            value = self.tracer.nodes.value(self.node)
            return len(value) if isinstance(value, (tuple, list)) else int(value.shape[0])

        def __iter__(self) -> Iterator[Any]:
            return super().__iter__() if self.tracer.nodes is None else iter([self[i] for i in range(len(self))])

    def in_place(function: Any) -> Any:
        return lambda self, other: self.tracer.create_proxy("call_function", function, (self, other), {})

    for function in (operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.imatmul):
        setattr(Proxy, f"__{function.__name__}__", in_place(function))  # fx would read them as out of place
    return Proxy


@cache
def _tracer_class() -> Any:
    """The class of tracers, made when torch is there."""
    import torch
    from torch import fx

    proxies = _proxy_class()

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
            return proxies(node, self)

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

    return Tracer
