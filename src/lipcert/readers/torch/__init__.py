"""PyTorch modules. torch is never imported by this package: a module of torch that is given has imported it.

A module is read as in evaluation mode: batch normalisation uses its running statistics and dropout does nothing.
Modules of torch are traced by torch.fx; others that look like them, by class names, are walked through.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.network import Network
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.layers import LAYERS, SHAPELESS, apply_layer, check_hooks, kind_of, label
from lipcert.readers.torch.trace import check_scripted, first_features, has_tracer, in_training, trace

_NO_SHAPE = "no layer tells the number of inputs; give input_shape, such as (channels, height, width)"


def from_torch(module: Any, input_shape: Sequence[int] | int | None = None) -> Network:
    """The network of a torch module: layers, branches and functions in a forward of its own, in evaluation mode.

    input_shape: the shape of one input without the batch axis, such as (channels, height, width); taken from the first
        linear layer where that comes first. The network's input is that tensor flattened in C order.

    The forward is followed with torch.fx for one input of shape (1, *input_shape); docs/operators.md lists the layers
    and functions that are read. A Softmax or LogSoftmax at the end is left out (see `Network.notes`). The module is not
    changed. Raises UnsupportedOperator for what cannot be read, such as branches that depend on values, and InputError
    for shapes that do not fit.
    """
    traced = has_tracer(module)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if traced:
                check_scripted(module)
            layers = list(_layers(module, "", traced=traced))
            shape = _first_shape(module, layers, traced) if input_shape is None else _given_shape(input_shape)
            graph = Graph((1, *shape))
            graph.notes += _training_note(module)
            return trace(module, graph) if traced else graph.network(_walk(graph, layers))
    except InputError as error:
        raise type(error)(f"from_torch: {error}") from None


def _given_shape(shape: Sequence[int] | int) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if not sizes or not all(isinstance(n, (int, np.integer)) and n >= 1 for n in sizes):
        raise InputError(f"input_shape={shape!r} must be sizes of at least 1, such as (channels, height, width)")
    return tuple(int(n) for n in sizes)


def _layers(module: Any, name: str, *, traced: bool) -> Iterator[tuple[str, Any, str]]:
    """The layers of nested Sequentials in order, each with its dotted name and its class in the table."""
    kind = kind_of(module) if traced else type(module).__name__
    if not kind and type(module).__name__ == "Sequential":
        kind = "Sequential"
    if kind in LAYERS or kind == "Sequential":
        check_hooks(name, module, computing=kind in LAYERS)
    if kind == "Sequential":
        for key, child in module.named_children():
            yield from _layers(child, f"{name}.{key}" if name else str(key), traced=traced)
    else:
        yield name, module, kind


def _walk(graph: Graph, layers: Sequence[tuple[str, Any, str]]) -> Tensor:
    """Look-alikes, one after the other."""
    x = graph.input
    for name, layer, kind in layers:
        if kind not in LAYERS:
            raise _unknown(name, layer)
        x = apply_layer(graph, name, layer, kind, x)
    return x


def _first_shape(module: Any, layers: Sequence[tuple[str, Any, str]], traced: bool) -> tuple[int, ...]:
    """The input's shape, from the first layer that tells it."""
    for name, layer, kind in layers:
        if kind == "Linear":
            return (int(layer.in_features),)
        if kind == "BatchNorm1d":
            return (int(layer.num_features),)
        if kind not in LAYERS:
            if not traced:
                raise _unknown(name, layer)
            return _traced_shape(module)
        if LAYERS[kind].apply is None:
            raise UnsupportedOperator(f"{label(name, layer)}: {LAYERS[kind].words}")
        if kind not in SHAPELESS:
            raise InputError(f"{label(name, layer)} needs the input's size; give input_shape=(channels, height, width)")
    raise InputError(_NO_SHAPE)


def _traced_shape(module: Any) -> tuple[int, ...]:
    try:
        features = first_features(module)
    except UnsupportedOperator:  # its forward may depend on the shape
        features = None
    if features is None:
        raise InputError(_NO_SHAPE)
    return (features,)


def _training_note(module: Any) -> list[str]:
    found = in_training(module) if hasattr(module, "named_modules") else []
    if not found:
        return []
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return [f"{found[0]}{more}: in training mode, read as in evaluation mode"]


def _unknown(name: str, layer: Any) -> UnsupportedOperator:
    return UnsupportedOperator(
        f"layer {label(name, layer)} is not supported; docs/operators.md has the list of what is"
    )
