"""Modules with a forward of their own: torch.fx runs it, and every call in it is read as it comes.

Because values are known while the forward runs, shapes are plain numbers: loops over them, branches on them and
assertions are followed as Python does. Branches on values are refused. torch is imported when a module of torch is
there, and never otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lipcert.errors import LipcertError, UnsupportedOperator
from lipcert.problem.network import Network
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.layers import DROPOUTS, NORMS, kind_of, label
from lipcert.readers.torch.nodes import shortened
from lipcert.rounding import Array

_EXPORT = (
    "export it with torch.onnx.export(module, (x,), 'model.onnx') and load that file, unless it branches on values: an "
    "export keeps only the branches that its example takes"
)
_BRANCHES = (
    "its forward branches on values of the input, and an ONNX export would keep one branch only; bound each branch as "
    "a module of its own"
)
_SEED = 0


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
    from lipcert.readers.torch.tracer import Tracer

    with _evaluation(module) as root:
        seen = _guarded(module, lambda: Tracer(None).trace(root))
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
    from lipcert.readers.torch.tracer import Tracer

    tracer = Tracer(graph)
    made, nodes = tracer.trace(root), tracer.nodes
    assert nodes is not None
    output = nodes.run(next(n for n in made.nodes if n.op == "output"))
    if not isinstance(output, Tensor):
        raise UnsupportedOperator("its forward returns something else than one tensor; wrap it in a module that does")
    if not output.dropped:
        graph.notes[:] = [note for note in graph.notes if "at the end is left out" not in note]
    return output, nodes.scores


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

    if type(module).__name__ == "OptimizedModule":  # torch.compile returns such a module
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
