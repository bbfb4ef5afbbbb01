"""Convolutions, pooling and padding of torch, as functions with torch's own parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.convolution import Window
from lipcert.problem.maps import Index
from lipcert.readers.graph import layers, rewrites
from lipcert.readers.graph.linear_maps import check_entries, check_width
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.values import (
    Entry,
    flag,
    number,
    optional,
    real,
    refused,
    sizes,
    tensor,
    whole,
    wholes,
)
from lipcert.rounding import Array

MODES = {"constant": "constant", "zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
Function = Callable[..., Tensor]


def convolution(axes: int) -> Function:
    """conv1d, conv2d or conv3d."""

    def apply(
        graph: Graph, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: Any = 1, padding_mode: str = "zeros",
    ) -> Tensor:  # fmt: skip
        x, kernel = tensor(input), _kernel(weight, axes)
        window = _window(kernel.shape[2:], stride, padding, dilation)
        if padding_mode != "zeros":
            x = surround(graph, x, window.before, window.after, padding_mode)
            window = replace(window, before=(0,) * axes, after=(0,) * axes)
        return layers.convolve(graph, x, kernel, optional(bias, "bias"), whole(groups, "groups"), window)

    return apply


def transposed(axes: int) -> Function:
    """conv_transpose1d, conv_transpose2d or conv_transpose3d."""

    def apply(
        graph: Graph, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: Any = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        kernel, count = _kernel(weight, axes), whole(groups, "groups")
        window, extra = _window(kernel.shape[2:], stride, padding, dilation), sizes(output_padding, axes)
        return layers.convolve_transposed(graph, tensor(input), kernel, optional(bias, "bias"), count, window, extra)

    return apply


def max_pool(axes: int) -> Function:
    """max_pool1d, max_pool2d or max_pool3d."""

    def apply(
        graph: Graph, input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: Any = False, return_indices: Any = False,
    ) -> Tensor:  # fmt: skip
        if return_indices:
            raise UnsupportedOperator("returns indices, which jump; return_indices=False is supported")
        kernel = sizes(kernel_size, axes)
        window = _window(kernel, _stride(stride, kernel), padding, dilation, flag(ceil_mode, "ceil_mode"))
        return rewrites.max_pool(graph, tensor(input), window)

    return apply


def average_pool(axes: int) -> Function:
    """avg_pool1d, avg_pool2d or avg_pool3d."""

    def apply(
        graph: Graph, input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: Any = False,
        count_include_pad: Any = True, divisor_override: Any = None,
    ) -> Tensor:  # fmt: skip
        x, kernel = tensor(input), sizes(kernel_size, axes)
        window = _window(kernel, _stride(stride, kernel), padding, 1, flag(ceil_mode, "ceil_mode"))
        if divisor_override is None:
            return layers.average(graph, x, window, flag(count_include_pad, "count_include_pad"))
        divisor, channels = number(divisor_override, "divisor_override"), channels_of(x, axes)
        if not divisor:
            raise InputError("divides by zero")
        check_entries(channels * math.prod(kernel))
        ones = np.full((channels, 1, *kernel), 1.0 / divisor)
        return layers.convolve(graph, x, ones, None, channels, window.without_ceil_mode(x.shape[2:]))

    return apply


def adaptive_average(axes: int) -> Function:
    """adaptive_avg_pool1d, adaptive_avg_pool2d or adaptive_avg_pool3d."""

    def apply(graph: Graph, input: Any, output_size: Any) -> Tensor:
        x = tensor(input)
        window, ends = _adaptive(x, output_size, axes)
        if window is not None:
            return layers.average(graph, x, window)
        for axis, (first, last) in enumerate(ends, start=2):
            places = np.arange(x.shape[axis])
            inside = (places >= first[:, None]) & (places < last[:, None])
            x = layers.along(graph, x, axis, inside / (last - first)[:, None])
        return x

    return apply


def adaptive_max(axes: int) -> Function:
    """adaptive_max_pool1d, adaptive_max_pool2d or adaptive_max_pool3d."""

    def apply(graph: Graph, input: Any, output_size: Any, return_indices: Any = False) -> Tensor:
        if return_indices:
            raise UnsupportedOperator("returns indices, which jump; return_indices=False is supported")
        x = tensor(input)
        window, ends = _adaptive(x, output_size, axes)
        if window is not None:
            return rewrites.max_pool(graph, x, window)
        for axis, (first, last) in enumerate(ends, start=2):
            taps = first[:, None] + np.arange((last - first).max())
            x = rewrites.max_along(graph, x, axis, np.where(taps < last[:, None], taps, -1))
        return x

    return apply


def pad(graph: Graph, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """F.pad: pairs of pads, those of the last axis first."""
    x, pads = tensor(input), wholes(pad, "pad")
    axes = len(pads) // 2
    if len(pads) % 2 or axes > len(x.shape):
        raise InputError(f"pads {pads} do not fit a tensor of shape {x.shape}")
    filling = 0.0 if value is None else number(value, "value")
    return surround(graph, x, pads[::2][::-1], pads[1::2][::-1], mode, filling)


def surround(
    graph: Graph, x: Tensor, before: Sequence[int], after: Sequence[int], mode: str, value: float = 0.0
) -> Tensor:
    """Pads of the last axes; `mode` as torch names it."""
    if mode not in MODES:
        raise UnsupportedOperator(f"padding_mode={mode!r} is not supported; known: {', '.join(MODES)}")
    rest = (0,) * (len(x.shape) - len(before))
    return layers.pad(graph, x, (*rest, *before), (*rest, *after), MODES[mode], value)


def _window(kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any, ceil_mode: bool = False) -> Window:
    axes = len(kernel)
    dilations = sizes(dilation, axes)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise UnsupportedOperator(f"padding={padding!r} is not supported")
        totals = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilations, kernel, strict=True)]
        before, after = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    else:
        before = after = sizes(padding, axes)
    return Window(kernel, sizes(stride, axes), dilations, before, after, ceil_mode)


def _kernel(weight: Any, axes: int) -> Array:
    kernel = real(weight, "weight")
    if kernel.ndim != axes + 2:
        raise InputError(f"its weight has the shape {kernel.shape}; {axes + 2} axes are needed")
    return kernel


def _stride(stride: Any, kernel: tuple[int, ...]) -> Any:
    """Pooling moves by its kernel where no stride is given."""
    return kernel if stride is None or (isinstance(stride, (tuple, list)) and not stride) else stride


def channels_of(x: Tensor, axes: int) -> int:
    if len(x.shape) != axes + 2:
        raise InputError(f"a window over {axes} axes does not fit a tensor of shape {x.shape}")
    return x.shape[1]


def _adaptive(x: Tensor, output_size: Any, axes: int) -> tuple[Window | None, list[tuple[Index, Index]]]:
    """The windows of adaptive pooling: one for all where the sizes divide, else where each begins and ends."""
    channels_of(x, axes)
    wanted = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * axes
    filled = [n if m is None else m for n, m in zip(x.shape[2:], wanted, strict=True)]
    counts, spatial = sizes(filled, axes), x.shape[2:]
    if min(counts) < 1:
        raise InputError(f"output_size={output_size} must be at least 1")
    check_width(math.prod(x.shape[:2]) * math.prod(counts))
    if all(n % m == 0 for n, m in zip(spatial, counts, strict=True)):
        steps = tuple(n // m for n, m in zip(spatial, counts, strict=True))
        return Window(steps, steps, (1,) * axes, (0,) * axes, (0,) * axes), []
    numbered = [(np.arange(m), n, m) for n, m in zip(spatial, counts, strict=True)]
    return None, [(i * n // m, -(-(i + 1) * n // m)) for i, n, m in numbered]


def _each_axis(name: str, make: Callable[[int], Function], how: Any, words: str) -> dict[str, Entry]:
    return {name.format(axes): Entry(make(axes), how, words) for axes in (1, 2, 3)}


_INDICES = [f"{name}{axes}d_with_indices" for name in ("max_pool", "adaptive_max_pool") for axes in (1, 2, 3)]
WINDOWS: dict[str, Entry] = {
    **_each_axis("conv{}d", convolution, "read", "affine"),
    **_each_axis("conv_transpose{}d", transposed, "read", "affine"),
    **_each_axis("max_pool{}d", max_pool, "rewritten", "a tournament of ReLUs; indices are refused"),
    **_each_axis("avg_pool{}d", average_pool, "read", "affine"),
    **_each_axis("adaptive_avg_pool{}d", adaptive_average, "read", "affine"),
    **_each_axis("adaptive_max_pool{}d", adaptive_max, "rewritten", "a tournament of ReLUs; indices are refused"),
    **dict.fromkeys(_INDICES, refused("returns indices, which jump")),
    "pad": Entry(pad, "read", "constant, reflect, replicate and circular"),
}
