"""ONNX operators with sliding windows: convolutions and pooling."""

from __future__ import annotations

from dataclasses import replace

from lipcert.problem.convolution import Window
from lipcert.readers.graph import layers, rewrites
from lipcert.readers.graph.linear_maps import same_padding
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Entry, Operation, real
from lipcert.rounding import Array


def _conv(op: Operation, graph: Graph) -> Tensor:
    op.check(("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"), 2, 3)
    weight, bias = _weights(op)
    x = op.tensor()
    window = _window(op, x, _kernel(op, x, weight))
    return layers.convolve(graph, x, weight, bias, op.integer("group", 1), window)


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
    return layers.convolve_transposed(graph, x, weight, bias, op.integer("group", 1), window, extra)


def _fitted(
    op: Operation, x: Tensor, window: Window, extra: tuple[int, ...], sizes: tuple[int, ...], *, upper: bool
) -> Window:
    """The window with pads that give outputs of these sizes; an odd one goes to the end if `upper`."""
    parts = zip(x.shape[2:], window.strides, window.dilations, window.kernel, extra, sizes, strict=True)
    totals = [(n - 1) * s + d * (k - 1) + 1 + e - size for n, s, d, k, e, size in parts]
    if min(totals) < 0:
        raise op.refused(f"its output_shape {list(sizes)} is larger than its windows reach")
    halves = tuple(total // 2 for total in totals)
    rest = tuple(total - half for total, half in zip(totals, halves, strict=True))
    before, after = (halves, rest) if upper else (rest, halves)
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
    return layers.average(graph, x, _pool_window(op, x), bool(op.integer("count_include_pad", 0)))


def _max_pool(op: Operation, graph: Graph) -> Tensor:
    op.check(("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"), 1, 1)
    x = op.tensor()
    return rewrites.max_pool(graph, x, _pool_window(op, x))


def _global_average(op: Operation, graph: Graph) -> Tensor:
    op.check((), 1, 1)
    return layers.average(graph, op.tensor(), None)


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
            before, after = same_padding(x.shape[2:], kernel, strides, dilations, upper=mode == "SAME_UPPER")
            return replace(window, before=before, after=after) if same else replace(window, before=zeros, after=zeros)
    raise op.damaged("its auto_pad is unknown")


WINDOWS: dict[str, Entry] = {
    "AveragePool": Entry(_average_pool),
    "Conv": Entry(_conv, words="with a constant kernel, in any number of axes"),
    "ConvTranspose": Entry(_conv_transpose, words="with a constant kernel"),
    "GlobalAveragePool": Entry(_global_average),
    "GlobalMaxPool": Entry(_global_max, "rewritten", "maxima of pairs, by ReLUs"),
    "MaxPool": Entry(_max_pool, "rewritten", "maxima of pairs, by ReLUs; its second output, the indices, is refused"),
}
