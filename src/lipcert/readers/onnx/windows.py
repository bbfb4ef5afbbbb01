"""ONNX operators with windows: convolutions, pooling, padding and resizing, as every opset writes their arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lipcert.files import MAX_WIDTH
from lipcert.problem.convolution import Window
from lipcert.readers.graph import Entry, rewrites, windows
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Operation, real
from lipcert.rounding import Array

_RESIZE = (
    "antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value",
    "keep_aspect_ratio_policy", "mode", "nearest_mode",
)  # fmt: skip


def _conv(op: Operation, graph: Graph) -> Tensor:
    op.check(("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"), 2, 3)
    weight, bias = _weights(op)
    x = op.tensor()
    window = _window(op, x, _kernel(op, x, weight))
    return windows.convolve(graph, x, weight, bias, op.integer("group", 1), window)


def _conv_transpose(op: Operation, graph: Graph) -> Tensor:
    names = ("auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape", "pads", "strides")
    op.check(names, 2, 3)
    weight, bias = _weights(op)
    x = op.tensor()
    kernel = _kernel(op, x, weight)
    axes = len(kernel)
    extra = op.integers("output_padding", axes, (0,) * axes)
    mode = op.text("auto_pad", "NOTSET")
    window = _window(op, x, kernel, same=False)
    if "output_shape" in op.attributes or mode.startswith("SAME"):
        sizes = tuple(n * s for n, s in zip(x.shape[2:], window.strides, strict=True))
        window = _fitted(op, x, window, extra, op.integers("output_shape", axes, sizes), upper=mode == "SAME_UPPER")
    return windows.convolve_transposed(graph, x, weight, bias, op.integer("group", 1), window, extra)


def _fitted(
    op: Operation, x: Tensor, window: Window, extra: tuple[int, ...], sizes: tuple[int, ...], *, upper: bool
) -> Window:
    """The window with pads that give outputs of these sizes; an odd one goes to the end if `upper`."""
    parts = zip(x.shape[2:], window.strides, window.dilations, window.kernel, extra, sizes, strict=True)
    totals = [(n - 1) * s + d * (k - 1) + 1 + e - size for n, s, d, k, e, size in parts]
    if min(totals) < 0:
        raise op.refused(f"its output_shape {list(sizes)} is larger than its windows reach")
    before, after = windows.halves(totals, upper)
    return replace(window, before=before, after=after)


def _weights(op: Operation) -> tuple[Array, Array | None]:
    bias = op.optional(2, "bias")
    return real(op.constant(1, "kernel")), None if bias is None else real(bias)


def _kernel(op: Operation, x: Tensor, weight: Array) -> tuple[int, ...]:
    if weight.ndim != len(x.shape) or weight.ndim < 3:
        raise op.damaged(f"a kernel of shape {list(weight.shape)} for a tensor of shape {list(x.shape)}")
    kernel = tuple(weight.shape[2:])
    if op.integers("kernel_shape", len(kernel), kernel) != kernel:
        raise op.damaged("its kernel_shape is not the kernel's")
    return kernel


def _average_pool(op: Operation, graph: Graph) -> Tensor:
    names = ("auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides")
    op.check(names, 1, 1)
    x = op.tensor()
    return windows.average(graph, x, _pool_window(op, x), bool(op.integer("count_include_pad", 0)))


def _max_pool(op: Operation, graph: Graph) -> Tensor:
    op.check(("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"), 1, 1)
    x = op.tensor()
    return rewrites.max_pool(graph, x, _pool_window(op, x))


def _global_average(op: Operation, graph: Graph) -> Tensor:
    op.check((), 1, 1)
    return windows.average(graph, op.tensor(), None)


def _global_max(op: Operation, graph: Graph) -> Tensor:
    op.check((), 1, 1)
    x = op.tensor()
    if len(x.shape) < 3:
        raise op.damaged(f"pools a tensor of shape {list(x.shape)}, which has no axes for it")
    return rewrites.largest(graph, x, range(2, len(x.shape)), keep=True)


def _pool_window(op: Operation, x: Tensor) -> Window:
    if len(x.shape) < 3:
        raise op.damaged(f"pools a tensor of shape {list(x.shape)}, which has no axes for it")
    kernel = op.integers("kernel_shape", len(x.shape) - 2, ())
    if (
        op.text("auto_pad", "NOTSET").startswith("SAME")
        and max(op.integers("dilations", len(kernel), (1,) * len(kernel))) > 1
    ):
        raise op.refused("pads by itself around windows with dilations, which runtimes do in several ways; give pads")
    return _window(op, x, kernel, ceil_mode=bool(op.integer("ceil_mode", 0)))


def _window(op: Operation, x: Tensor, kernel: tuple[int, ...], *, ceil_mode: bool = False, same: bool = True) -> Window:
    """The window of a node; pads by themselves only if `same`, which a transposed convolution computes otherwise."""
    axes = len(kernel)
    ones, zeros = (1,) * axes, (0,) * axes
    strides, dilations = op.integers("strides", axes, ones), op.integers("dilations", axes, ones)
    pads = op.integers("pads", 2 * axes, zeros * 2)
    window = Window(kernel, strides, dilations, pads[:axes], pads[axes:], ceil_mode)
    match op.text("auto_pad", "NOTSET"):
        case "NOTSET":
            return window
        case "VALID":
            return replace(window, before=zeros, after=zeros)
        case "SAME_UPPER" | "SAME_LOWER" as mode:
            before, after = windows.same_padding(x.shape[2:], kernel, strides, dilations, upper=mode == "SAME_UPPER")
            return replace(window, before=before, after=after) if same else replace(window, before=zeros, after=zeros)
    raise op.damaged("its auto_pad is unknown")


def _pad(op: Operation, graph: Graph) -> Tensor:
    op.check(("mode", "pads", "paddings", "value") if op.opset < 11 else ("mode",), 1, 1 if op.opset < 11 else 4)
    x = op.tensor()
    pads = op.list_of_integers("paddings" if "paddings" in op.attributes else "pads", 1)
    named = op.list_of_integers("axes", 3)
    axes = tuple(range(len(x.shape))) if named is None else op.axes(named, len(x.shape))
    if pads is None or len(pads) != 2 * len(axes):
        raise op.damaged(f"its pads are missing or do not fit a tensor of shape {x.shape}")
    before, after = [0] * len(x.shape), [0] * len(x.shape)
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[len(axes) + i]
    given = op.optional(2, "constant_value")
    value = op.number("value", 0.0) if given is None or not given.size else float(real(given).reshape(-1)[0])
    return windows.pad(graph, x, before, after, op.text("mode", "constant"), value)


def _resize(op: Operation, graph: Graph) -> Tensor:
    op.check(_RESIZE if op.opset >= 11 else ("mode",), 2, 4 if op.opset >= 11 else 2)
    x = op.tensor()
    if op.opset < 11:
        return _upsampled(op, graph, x, _scales(op, 1))
    if op.integer("antialias", 0) or op.integer("exclude_outside", 0):
        raise op.refused("antialias and exclude_outside are not supported")
    if op.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise op.refused("only keep_aspect_ratio_policy 'stretch' is supported")
    named = op.attributes.get("axes")
    axes = tuple(range(len(x.shape))) if named is None else op.axes(op.integers("axes", len(named), ()), len(x.shape))
    sizes = op.list_of_integers("sizes", 3)
    factors = [m / x.shape[a] for m, a in zip(sizes, axes, strict=True)] if sizes else _scales(op, 2)
    changed = _changed(op, x, axes, factors, sizes)
    how = op.text("coordinate_transformation_mode", "half_pixel")
    return _resampled(op, graph, x, changed, how, op.text("nearest_mode", "round_prefer_floor"))


def _upsample(op: Operation, graph: Graph) -> Tensor:
    """Upsample is Resize of opset 10: its factors are an attribute up to opset 8, an input later."""
    op.check(("mode", "scales", "height_scale", "width_scale"), 1, 2 if op.opset >= 9 else 1)
    if op.opset >= 9:
        factors = _scales(op, 1)
    elif op.opset >= 7:
        factors = list(op.numbers("scales"))
    else:
        factors = [1.0, 1.0, op.number("height_scale", 1.0), op.number("width_scale", 1.0)]
    return _upsampled(op, graph, op.tensor(), factors)


def _upsampled(op: Operation, graph: Graph, x: Tensor, factors: Sequence[float]) -> Tensor:
    changed = _changed(op, x, range(len(x.shape)), factors, None)
    return _resampled(op, graph, x, changed, "asymmetric", "floor")


def _scales(op: Operation, i: int) -> list[float]:
    scales = op.optional(i, "scales")
    if scales is None or not scales.size:
        raise op.damaged("its scales are missing")
    return list(real(scales).reshape(-1))


_Resized = dict[int, tuple[int, float]]  # maps each axis that changes to its new length and the factor


def _changed(
    op: Operation, x: Tensor, axes: Sequence[int], factors: Sequence[float], sizes: Sequence[int] | None
) -> _Resized:
    """The axes that are resized by factors, to sizes where they are given."""
    if len(factors) != len(axes) or not all(math.isfinite(f) and 0 < f <= MAX_WIDTH for f in factors):
        raise op.damaged(f"its scales or sizes do not fit a tensor of shape {x.shape}")
    # Runtimes multiply in single precision: 10 entries by 0.7 are 7, not 6.
    lengths = sizes or [int(np.float32(x.shape[a]) * np.float32(f)) for a, f in zip(axes, factors, strict=True)]
    changed = {a: (n, f) for a, n, f in zip(axes, lengths, factors, strict=True) if n != x.shape[a] or f != 1.0}
    if changed and all(n == x.shape[a] for a, (n, _) in changed.items()):
        raise op.refused("its scales leave all sizes as they are, which runtimes read in several ways; leave it out")
    op.check_size(x.width // math.prod(x.shape[a] for a in changed) * math.prod(n for n, _ in changed.values()))
    return changed


def _resampled(op: Operation, graph: Graph, x: Tensor, changed: _Resized, how: str, rounding: str) -> Tensor:
    positions = {a: windows.resized_positions(x.shape[a], n, f, how) for a, (n, f) in changed.items()}
    match op.text("mode", "nearest"):
        case "nearest":
            return windows.resize_nearest(graph, x, positions, rounding)
        case "linear" | "bilinear":
            return windows.resize_linear(graph, x, positions)
    raise op.refused("modes nearest and linear are supported; export the network with one of them")


WINDOWS: dict[str, Entry] = {
    "AveragePool": Entry(_average_pool),
    "Conv": Entry(_conv, words="with a constant kernel, in any number of axes"),
    "ConvTranspose": Entry(_conv_transpose, words="with a constant kernel"),
    "GlobalAveragePool": Entry(_global_average),
    "GlobalMaxPool": Entry(_global_max, "rewritten", "maxima of pairs, by ReLUs"),
    "MaxPool": Entry(_max_pool, "rewritten", "maxima of pairs, by ReLUs; its second output, the indices, is refused"),
    "Pad": Entry(_pad, words="constant, reflect, edge, wrap; by constant amounts, negative ones too"),
    "Resize": Entry(_resize, words="nearest and linear, by constant factors or sizes"),
    "Upsample": Entry(_upsample, words="nearest and linear, by constant factors"),
}
