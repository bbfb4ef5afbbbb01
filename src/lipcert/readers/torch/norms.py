"""Softmax, norms, normalisations and attention of torch, as functions and as layers without weights of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.readers.graph import Entry, linear, norms, products
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.values import as_given, axes_of, call, number, numbers, optional, tensor, whole, wholes
from lipcert.rounding import Array


def softmax(graph: Graph, x: Tensor, dim: Any, name: str) -> Tensor:
    """A softmax along an axis, or its logarithm; at the end of the network it is left out."""
    x = graph.opened(x)
    axis = (0 if len(x.shape) in (0, 1, 3) else 1) if dim is None else x.axis(whole(dim, "dim"))
    logarithm = "log" in name.lower()
    return graph.drop(x, name, lambda scores: products.softmax(graph, scores, (axis,), logarithm=logarithm))


def _softmax(name: str) -> Callable[..., Tensor]:
    def apply(graph: Graph, x: Tensor, dim: Any, *_: Any) -> Tensor:
        return softmax(graph, x, dim, name)

    return call(apply, dim=(as_given, None), stacklevel=(as_given, 3), dtype=(as_given, None))


def _norm(graph: Graph, x: Tensor, order: Any, dim: Any, keepdim: bool, *_: Any) -> Tensor:
    """A vector norm; of matrices without axes torch takes the same, over all entries."""
    p = 2.0 if order is None or order == "fro" else number(order, "order")
    return norms.norm(graph, x, axes_of(x, dim), keepdim, p)


def _normalize(graph: Graph, x: Tensor, p: float, dim: int, eps: float) -> Tensor:
    """x / max(|x|, eps); where the norm is below eps, by default 1e-12, it is another function, which is neglected."""
    if eps > _LEAST:
        raise UnsupportedOperator(f"divides by a norm of at least {eps:g}; up to {_LEAST:g} is supported")
    return norms.divided_by_norm(graph, x, axes_of(x, dim), p)


def _log_sum_exp(graph: Graph, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    return norms.log_sum_exp(graph, x, axes_of(x, dim), keepdim)


def _last_axes(x: Tensor, shape: Any) -> tuple[int, ...]:
    sizes = wholes(shape, "normalized_shape")
    if not sizes or x.shape[-len(sizes) :] != sizes:
        raise InputError(f"its normalized_shape {sizes} does not fit a tensor of shape {x.shape}")
    return tuple(range(len(x.shape) - len(sizes), len(x.shape)))


def _layer_norm(graph: Graph, x: Tensor, shape: Any, weight: Array | None, bias: Array | None, eps: float) -> Tensor:
    return norms.layer_norm(graph, x, _last_axes(x, shape), (weight, bias), eps)


def _rms_norm(graph: Graph, x: Tensor, shape: Any, weight: Array | None, eps: Any) -> Tensor:
    least = float(np.finfo(np.float32).eps) if eps is None else number(eps, "eps")
    return norms.rms_norm(graph, x, _last_axes(x, shape), weight, least)


def _group_norm(graph: Graph, x: Tensor, groups: int, weight: Array | None, bias: Array | None, eps: float) -> Tensor:
    return norms.group_norm(graph, x, groups, (weight, bias), eps)


def _instance_norm(graph: Graph, x: Tensor, *settings: Any) -> Tensor:
    mean, _, weight, bias, by_input, _, eps = settings
    if mean is not None and not by_input:
        raise UnsupportedOperator("normalises by running statistics; batch norm does the same and is read")
    return norms.group_norm(graph, x, x.shape[1], (weight, bias), eps)


def attention(graph: Graph, query: Tensor, key: Tensor, value: Tensor, mask: Array | None, scale: float) -> Tensor:
    """softmax(scale query key' + mask) value over the last two axes."""
    rank = len(key.shape)
    turned = graph.transpose(key, [*range(rank - 2), rank - 1, rank - 2])
    scores = linear.matmul(graph, graph.scale_and_shift(query, scale, 0.0), turned)
    if mask is not None:
        return _masked(graph, scores, mask, value)
    return linear.matmul(graph, products.softmax(graph, scores, (len(scores.shape) - 1,)), value)


def _masked(graph: Graph, scores: Tensor, mask: Array, value: Tensor) -> Tensor:
    """Attention with a constant mask: numbers that are added, and places at minus infinity, which are left out."""
    mask = np.broadcast_to(mask, scores.shape)
    shut = np.isneginf(mask)
    if np.all(shut, axis=-1).any():
        raise UnsupportedOperator("its mask leaves a row without any entry")
    scores = graph.scale_and_shift(scores, 1.0, np.where(shut, 0.0, mask))
    share = products.softmax(graph, scores, (len(scores.shape) - 1,), without=shut)
    return linear.matmul(graph, share, value)


def mask_of(value: Any, *, shut: bool = False) -> Array | None:
    """A constant mask as numbers that are added to scores: truth values say which places count, or do not (`shut`)."""
    if value is None:
        return None
    array = numbers(value, "mask")
    return np.where(array == shut, -np.inf, 0.0) if array.dtype.kind == "b" else array.astype(np.float64)


def _scaled_attention(graph: Graph, query: Tensor, key: Any, value: Any, *settings: Any) -> Tensor:
    mask, _, causal, scale, grouped = settings
    k, v = tensor(key, "key"), tensor(value, "value")
    if grouped:
        raise UnsupportedOperator("repeats the heads of keys (enable_gqa); repeat them before")
    given = mask_of(mask)
    if causal:
        given = np.where(np.tri(query.shape[-2], k.shape[-2], dtype=bool), 0.0, -np.inf)
    factor = query.shape[-1] ** -0.5 if scale is None else number(scale, "scale")
    return attention(graph, query, k, v, given, factor)


_LEAST = 1e-6
_SQUARES = "by squares, and a power of their sum"
_INVERSE = "by squares, and the power -1/2 of their mean"
_SOFTMAX = "exponentials of differences; left out at the end, with a note"
_DIMS: dict[str, Any] = {"dim": (as_given, None), "keepdim": False}
_WEIGHTS: dict[str, Any] = {"weight": (optional, None), "bias": (optional, None)}
_NORM: Sequence[str] = ("vector_norm", "linalg_vector_norm", "linalg_norm")
NORMS: dict[str, Entry] = {
    **{name: Entry(_softmax(name), "rewritten", _SOFTMAX) for name in ("softmax", "log_softmax")},
    "norm": Entry(call(_norm, p=(as_given, 2.0), **_DIMS, dtype=(as_given, None)), "rewritten", _SQUARES),
    **dict.fromkeys(_NORM, Entry(call(_norm, ord=(as_given, 2.0), **_DIMS), "rewritten", _SQUARES)),
    "normalize": Entry(call(_normalize, p=2.0, dim=1, eps=1e-12), "rewritten", "times the reciprocal of the norm"),
    "layer_norm": Entry(
        call(_layer_norm, normalized_shape=as_given, **_WEIGHTS, eps=1e-5), "rewritten", _INVERSE
    ),
    "rms_norm": Entry(
        call(_rms_norm, normalized_shape=as_given, weight=(optional, None), eps=(as_given, None)), "rewritten", _INVERSE
    ),
    "group_norm": Entry(call(_group_norm, num_groups=whole, **_WEIGHTS, eps=1e-5), "rewritten", _INVERSE),
    "instance_norm": Entry(
        call(
            _instance_norm, running_mean=(optional, None), running_var=(optional, None), **_WEIGHTS,
            use_input_stats=True, momentum=(as_given, 0.1), eps=1e-5,
        ),
        "rewritten", _INVERSE,
    ),
    "logsumexp": Entry(call(_log_sum_exp, **_DIMS), "rewritten", "exponentials, and the logarithm of their sum"),
    "scaled_dot_product_attention": Entry(
        call(
            _scaled_attention, key=as_given, value=as_given, attn_mask=(as_given, None), dropout_p=(as_given, 0.0),
            is_causal=False, scale=(as_given, None), enable_gqa=(as_given, False),
        ),
        "rewritten", "products by squares; constant masks",
    ),
}  # fmt: skip
