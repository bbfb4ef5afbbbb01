"""Layers of torch that are several operations: attention with heads, transformer encoders, recurrent layers unrolled.

Each takes the arguments of the layer's forward. Recurrent layers take as many steps as the input has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.activations import RELU, Activation
from lipcert.readers.graph import Entry, products
from lipcert.readers.graph.tensors import Graph, Tensor, constant_tensor
from lipcert.readers.torch.functions import FUNCTIONS
from lipcert.readers.torch.norms import attention, mask_of
from lipcert.readers.torch.values import Unread, optional, parameter, tensor

_SIGMOID, _TANH = Activation("sigmoid"), Activation("tanh")
_WEIGHTS = Unread("uses the weights of an attention layer, which are not read; use its output")


def _function(name: str) -> Any:
    return FUNCTIONS[name].apply


def _linear(graph: Graph, x: Tensor, weight: Any, bias: Any) -> Tensor:
    return _function("linear")(graph, x, parameter(weight, "weight"), bias)  # type: ignore[no-any-return]


# --- attention --------------------------------------------------------------------------------------------------------


def _multihead(
    graph: Graph, layer: Any, query: Any, key: Any, value: Any, key_padding_mask: Any = None, *_: Any, **settings: Any
) -> tuple[Tensor, Unread]:
    """The output of attention with heads, and its weights, which are not read."""
    if key_padding_mask is not None or layer.bias_k is not None or layer.add_zero_attn:
        raise UnsupportedOperator("masks keys by place, or adds keys of its own; only attn_mask is supported")
    given = [tensor(x, "query, key or value") for x in (query, key, value)]
    rank, first = len(given[0].shape), layer.batch_first
    given = [x.reshaped((1, *x.shape)) if rank == 2 else x if first else graph.transpose(x, (1, 0, 2)) for x in given]
    found = _heads(graph, layer, given, mask_of(settings.get("attn_mask"), shut=True))
    if rank == 2:
        return found.reshaped(found.shape[1:]), _WEIGHTS
    return found if first else graph.transpose(found, (1, 0, 2)), _WEIGHTS


def _heads(graph: Graph, layer: Any, given: Sequence[Tensor], mask: Any) -> Tensor:
    """Attention of tensors (batch, place, feature)."""
    count = layer.num_heads
    if layer.in_proj_weight is None:
        weights = [parameter(w, "weight") for w in (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)]
    else:
        weights = np.split(parameter(layer.in_proj_weight, "weight"), 3)
    bias = optional(layer.in_proj_bias, "bias")
    shifts = [None] * 3 if bias is None else np.split(bias, 3)
    parts = []
    for x, weight, shift in zip(given, weights, shifts, strict=True):
        y = _linear(graph, x, weight, shift)
        apart = y.reshaped((*y.shape[:2], count, y.shape[2] // count))
        parts.append(graph.transpose(apart, (0, 2, 1, 3)))
    if mask is not None and mask.ndim == 3:
        mask = mask.reshape(-1, count, *mask.shape[1:])
    query, key, value = parts
    found = graph.transpose(attention(graph, query, key, value, mask, layer.head_dim**-0.5), (0, 2, 1, 3))
    joined = found.reshaped((*found.shape[:2], layer.embed_dim))
    return _linear(graph, joined, layer.out_proj.weight, optional(layer.out_proj.bias, "bias"))


def _encoder_layer(graph: Graph, layer: Any, src: Any, src_mask: Any = None, *padding: Any, **settings: Any) -> Tensor:
    """Attention and a network of two linear layers, each added to what enters it, with layer norms."""
    if any(part is not None for part in padding[:1]) or settings.get("src_key_padding_mask") is not None:
        raise UnsupportedOperator("masks keys by place; only src_mask is supported")
    x = tensor(src, "src")

    def attended(y: Tensor) -> Tensor:
        return _multihead(graph, layer.self_attn, y, y, y, attn_mask=src_mask)[0]

    def fed(y: Tensor) -> Tensor:
        first, second = layer.linear1, layer.linear2
        inner = _activation(graph, layer, _linear(graph, y, first.weight, optional(first.bias, "bias")))
        return _linear(graph, inner, second.weight, optional(second.bias, "bias"))

    for step, norm in ((attended, layer.norm1), (fed, layer.norm2)):
        x = graph.add(x, step(_norm(graph, norm, x))) if layer.norm_first else _norm(graph, norm, graph.add(x, step(x)))
    return x


def _activation(graph: Graph, layer: Any, x: Tensor) -> Tensor:
    name = getattr(layer.activation, "__name__", type(layer.activation).__name__.lower())
    entry = FUNCTIONS.get(name)
    if entry is None or entry.apply is None:
        raise UnsupportedOperator(f"its activation {name} is not read")
    return entry.apply(graph, x)  # type: ignore[no-any-return]


def _norm(graph: Graph, norm: Any, x: Tensor) -> Tensor:
    weight, bias = optional(norm.weight, "weight"), optional(norm.bias, "bias")
    return _function("layer_norm")(graph, x, norm.normalized_shape, weight, bias, norm.eps)  # type: ignore[no-any-return]


def _encoder(graph: Graph, layer: Any, src: Any, mask: Any = None, *padding: Any, **settings: Any) -> Tensor:
    """Encoder layers one after the other."""
    x = tensor(src, "src")
    for part in layer.layers:
        x = _encoder_layer(graph, part, x, mask, *padding, **settings)
    return x if layer.norm is None else _norm(graph, layer.norm, x)


# --- recurrent layers -------------------------------------------------------------------------------------------------

State = tuple[Tensor, ...]


def _step(graph: Graph, kind: str, gates: tuple[Tensor, Tensor], state: State) -> State:
    """The next state from the products of the input and of the state with their weights."""
    own, others = gates
    if kind.startswith("RNN"):
        return (graph.activate(graph.add(own, others), RELU if kind.endswith("RELU") else _TANH),)
    if kind.startswith("LSTM"):
        i, f, g, o = _split(graph, graph.add(own, others), 4)
        i, f, o = (graph.activate(gate, _SIGMOID) for gate in (i, f, o))
        cell = graph.add(products.multiply(graph, f, state[1]), products.multiply(graph, i, graph.activate(g, _TANH)))
        return products.multiply(graph, o, graph.activate(cell, _TANH)), cell
    (r, z, n), (hr, hz, hn) = _split(graph, own, 3), _split(graph, others, 3)
    r, z = (graph.activate(graph.add(a, b), _SIGMOID) for a, b in ((r, hr), (z, hz)))
    new = graph.activate(graph.add(n, products.multiply(graph, r, hn)), _TANH)
    return (graph.add(new, products.multiply(graph, z, graph.subtract(state[0], new))),)


def _split(graph: Graph, x: Tensor, count: int) -> list[Tensor]:
    return [graph.pick(x, part) for part in np.split(x.places, count, -1)]


def _gates(graph: Graph, layer: Any, ends: str, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """The products of x and of the state with the weights whose names end in this way."""
    found = []
    for y, name in ((x, "ih"), (h, "hh")):
        bias = getattr(layer, f"bias_{name}{ends}", None)
        found.append(_linear(graph, y, getattr(layer, f"weight_{name}{ends}"), optional(bias, "bias")))
    return found[0], found[1]


def _kind(layer: Any) -> str:
    name, mode = type(layer).__name__.removesuffix("Cell"), getattr(layer, "mode", "")
    return f"RNN_{getattr(layer, 'nonlinearity', '').upper()}" if name == "RNN" else str(mode or name)


def _start(kind: str, given: Any, rows: int, size: int) -> list[Tensor]:
    """The state before the first step: what is given, or zeros."""
    count = 2 if kind.startswith("LSTM") else 1
    if given is None:
        return [constant_tensor(np.zeros((rows, size)))] * count
    parts = given if isinstance(given, (tuple, list)) else (given,)
    return [tensor(part, "state") for part in parts]


def _cell(graph: Graph, layer: Any, x: Any, hx: Any = None) -> Any:
    """One step."""
    x, kind = tensor(x, "input"), _kind(layer)
    if len(x.shape) != 2:
        raise InputError(f"it does not fit an input of shape {x.shape}")
    state = _start(kind, hx, x.shape[0], layer.hidden_size)
    found = _step(graph, kind, _gates(graph, layer, "", x, state[0]), tuple(state))
    return found if len(found) > 1 else found[0]


def _recurrent(graph: Graph, layer: Any, x: Any, hx: Any = None) -> tuple[Tensor, Any]:
    """All steps: the states of the last layer side by side, and the last state of every layer."""
    x, kind = tensor(x, "input"), _kind(layer)
    if hx is not None or getattr(layer, "proj_size", False):
        raise UnsupportedOperator("begins with a state that is given, or projects its states; unroll its cell instead")
    rank = len(x.shape)
    x = x.reshaped((1, *x.shape)) if rank == 2 else x if layer.batch_first else graph.transpose(x, (1, 0, 2))
    last: list[State] = []
    for k in range(layer.num_layers):
        parts = []
        for ends in (f"_l{k}", f"_l{k}_reverse")[: 2 if layer.bidirectional else 1]:
            steps = range(x.shape[1])[:: -1 if ends.endswith("reverse") else 1]
            made: dict[int, Tensor] = {}
            state = tuple(_start(kind, None, x.shape[0], layer.hidden_size))
            for t in steps:
                now = graph.pick(x, x.places[:, t])
                state = _step(graph, kind, _gates(graph, layer, ends, now, state[0]), state)
                made[t] = state[0].reshaped((state[0].shape[0], 1, state[0].shape[1]))
            last.append(state)
            parts.append(graph.concatenate([made[t] for t in range(x.shape[1])], 1))
        x = graph.concatenate(parts, 2)
    ends_ = [graph.concatenate([s[i].reshaped((1, *s[i].shape)) for s in last], 0) for i in range(len(last[0]))]
    out = x.reshaped(x.shape[1:]) if rank == 2 else x if layer.batch_first else graph.transpose(x, (1, 0, 2))
    return out, tuple(ends_) if len(ends_) > 1 else ends_[0]


_UNROLLED = "unrolled for the steps of the input; gates are products by squares"
BLOCKS: dict[str, Entry] = {
    "MultiheadAttention": Entry(_multihead, "rewritten", "products by squares; constant masks of scores"),
    "TransformerEncoder": Entry(_encoder, "rewritten", "its layers one after the other"),
    "TransformerEncoderLayer": Entry(_encoder_layer, "rewritten", "attention, layer norms and linear layers"),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), Entry(_recurrent, "rewritten", _UNROLLED)),
    **dict.fromkeys(("LSTMCell", "GRUCell", "RNNCell"), Entry(_cell, "rewritten", "gates are products by squares")),
}
