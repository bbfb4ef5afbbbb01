"""Convolutions, pooling, padding and resizing of torch, by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.convolution import Window
from lipcert.readers.graph import Entry, refused, rewrites, windows
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.graph.terms import check_width
from lipcert.readers.torch.values import Converter, as_given, call, number, optional, real, sizes, whole, wholes
from lipcert.rounding import Array

MODES = {"constant": "constant", "zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _kernel(axes: int) -> Converter:
    """A kernel for windows over this many axes."""

    def convert(value: Any, what: str) -> Array:
        kernel = real(value, what)
        if kernel.ndim != axes + 2:
            raise InputError(f"its {what} has the shape {kernel.shape}; {axes + 2} axes are needed")
        return kernel

    return convert


def _each(axes: int) -> Converter:
    """One whole number for all axes, or one for each."""
    return lambda value, what: sizes(value, axes)  # noqa: ARG005


def _sizes_to_make(axes: int) -> Converter:
    """One size for all axes, or one for each, of which some may be None: that of the input."""

    def convert(value: Any, what: str) -> tuple[int | None, ...]:
        given = value if isinstance(value, (tuple, list)) else (value,)
        found = tuple(None if n is None else whole(n, what) for n in given)
        found = found * axes if len(found) == 1 else found
        if len(found) != axes:
            raise InputError(f"{value!r} does not give a size for each of {axes} axes")
        return found

    return convert


def _convolve(graph: Graph, x: Tensor, kernel: Array, bias: Array | None, *settings: Any) -> Tensor:
    strides, padding, dilations, groups, mode = settings
    window = _window(kernel.shape[2:], strides, padding, dilations)
    if mode != "zeros":
        x = _surrounded(graph, x, window.before, window.after, mode)
        nothing = (0,) * len(window.kernel)
        window = replace(window, before=nothing, after=nothing)
    return windows.convolve(graph, x, kernel, bias, groups, window)


def _convolve_transposed(graph: Graph, x: Tensor, kernel: Array, bias: Array | None, *settings: Any) -> Tensor:
    strides, padding, extra, groups, dilations = settings
    window = _window(kernel.shape[2:], strides, padding, dilations)
    return windows.convolve_transposed(graph, x, kernel, bias, groups, window, extra)


def _max_pool(graph: Graph, x: Tensor, kernel: tuple[int, ...], stride: Any, *settings: Any) -> Tensor:
    padding, dilations, ceil_mode, indices = settings
    _check_values(indices)
    return rewrites.max_pool(graph, x, _window(kernel, _stride(stride, kernel), padding, dilations, ceil_mode))


def _average_pool(graph: Graph, x: Tensor, kernel: tuple[int, ...], stride: Any, *settings: Any) -> Tensor:
    padding, ceil_mode, include_padding, divisor = settings
    window = _window(kernel, _stride(stride, kernel), padding, (1,) * len(kernel), ceil_mode)
    if divisor is None:
        return windows.average(graph, x, window, include_padding)
    return windows.window_sums(graph, x, window, number(divisor, "divisor_override"))


def _adaptive_average(graph: Graph, x: Tensor, wanted: tuple[int | None, ...]) -> Tensor:
    return windows.adaptive_average(graph, x, _counts(x, wanted))


def _adaptive_max(graph: Graph, x: Tensor, wanted: tuple[int | None, ...], indices: Any) -> Tensor:
    _check_values(indices)
    return windows.adaptive_max(graph, x, _counts(x, wanted))


def _check_values(indices: Any) -> None:
    if indices:
        raise UnsupportedOperator("returns indices, which jump; return_indices=False is supported")


def _counts(x: Tensor, wanted: tuple[int | None, ...]) -> tuple[int, ...]:
    """The sizes that adaptive pooling makes; None keeps that of the input."""
    if len(x.shape) != len(wanted) + 2:
        raise InputError(f"a window over {len(wanted)} axes does not fit a tensor of shape {x.shape}")
    return tuple(n if m is None else m for n, m in zip(x.shape[2:], wanted, strict=True))


def _pad(graph: Graph, x: Tensor, pads: tuple[int, ...], mode: str, value: Any) -> Tensor:
    """F.pad: pairs of pads, those of the last axis first."""
    if len(pads) % 2 or len(pads) // 2 > len(x.shape):
        raise InputError(f"pads {pads} do not fit a tensor of shape {x.shape}")
    filling = 0.0 if value is None else number(value, "value")
    return _surrounded(graph, x, pads[::2][::-1], pads[1::2][::-1], mode, filling)


def _surrounded(
    graph: Graph, x: Tensor, before: Sequence[int], after: Sequence[int], mode: str, value: float = 0.0
) -> Tensor:
    """Pads of the last axes; `mode` as torch names it."""
    if mode not in MODES:
        raise UnsupportedOperator(f"padding_mode={mode!r} is not supported; known: {', '.join(MODES)}")
    rest = (0,) * (len(x.shape) - len(before))
    return windows.pad(graph, x, (*rest, *before), (*rest, *after), MODES[mode], value)


def _window(
    kernel: tuple[int, ...], strides: Any, padding: Any, dilations: tuple[int, ...], ceil_mode: bool = False
) -> Window:
    axes = len(kernel)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise UnsupportedOperator(f"padding={padding!r} is not supported")
        sums = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilations, kernel, strict=True)]
        before, after = windows.halves(sums)
    else:
        before = after = sizes(padding, axes)
    return Window(kernel, sizes(strides, axes), dilations, before, after, ceil_mode)


def _stride(stride: Any, kernel: tuple[int, ...]) -> Any:
    """Pooling moves by its kernel where no stride is given."""
    return kernel if stride is None or (isinstance(stride, (tuple, list)) and not stride) else stride


def _interpolate(graph: Graph, x: Tensor, size: Any, scale_factor: Any, mode: str, *settings: Any) -> Tensor:
    """Nearest, linear and area resizing; the positions are those that torch computes."""
    align_corners, recompute, antialias = settings
    axes, spatial = len(x.shape) - 2, x.shape[2:]
    if axes < 1 or antialias:
        raise UnsupportedOperator("only tensors with channels and space, without antialias, are resized")
    if size is not None:
        lengths, factors = sizes(size, axes), [0.0] * axes
    else:
        given = scale_factor if isinstance(scale_factor, (tuple, list)) else [scale_factor] * axes
        factors = [number(f, "scale_factor") for f in given]
        if len(factors) != axes or not all(0.0 < f < math.inf for f in factors):
            raise InputError(f"scale_factor={scale_factor} does not fit {axes} axes")
        lengths = tuple(math.floor(n * f) for n, f in zip(spatial, factors, strict=True))
    check_width(math.prod(x.shape[:2]) * math.prod(lengths))
    exact = [0.0] * axes if recompute else factors
    steps = [1.0 / f if f else n / m for n, m, f in zip(spatial, lengths, exact, strict=True)]
    match mode:
        case "area":
            return windows.adaptive_average(graph, x, lengths)
        case "nearest" | "nearest-exact":
            return windows.resize_nearest_in_single_precision(graph, x, lengths, steps, half=mode == "nearest-exact")
        case "linear" | "bilinear" | "trilinear":
            kind = "align_corners" if align_corners else "half_pixel"
            sized = enumerate(zip(spatial, lengths, steps, strict=True), start=2)
            # torch copies an axis that keeps its length, whatever the factor was.
            return windows.resize_linear(
                graph, x, {a: windows.resized_positions(n, m, 1.0 / s, kind) for a, (n, m, s) in sized if n != m}
            )
    raise UnsupportedOperator(f"mode={mode!r} is not supported; nearest, linear and area are")


def _for_each_rank(axes: int) -> dict[str, Entry]:
    """The functions with windows over this many axes."""
    each, kernel, given = _each(axes), _kernel(axes), _sizes_to_make(axes)
    tournament = "a tournament of ReLUs; indices are refused"
    return {
        f"conv{axes}d": Entry(
            call(_convolve, weight=kernel, bias=(optional, None), stride=(each, 1), padding=(as_given, 0),
                 dilation=(each, 1), groups=1, padding_mode="zeros"),
            "read", "affine"),
        f"conv_transpose{axes}d": Entry(
            call(_convolve_transposed, weight=kernel, bias=(optional, None), stride=(each, 1), padding=(as_given, 0),
                 output_padding=(each, 0), groups=1, dilation=(each, 1)),
            "read", "affine"),
        f"max_pool{axes}d": Entry(
            call(_max_pool, kernel_size=each, stride=(as_given, None), padding=(as_given, 0), dilation=(each, 1),
                 ceil_mode=False, return_indices=(as_given, False)),
            "rewritten", tournament),
        f"avg_pool{axes}d": Entry(
            call(_average_pool, kernel_size=each, stride=(as_given, None), padding=(as_given, 0), ceil_mode=False,
                 count_include_pad=True, divisor_override=(as_given, None)),
            "read", "affine"),
        f"adaptive_avg_pool{axes}d": Entry(call(_adaptive_average, output_size=given), "read", "affine"),
        f"adaptive_max_pool{axes}d": Entry(
            call(_adaptive_max, output_size=given, return_indices=(as_given, False)), "rewritten", tournament),
    }  # fmt: skip


_INDICES = [f"{name}{axes}d_with_indices" for name in ("max_pool", "adaptive_max_pool") for axes in (1, 2, 3)]
WINDOWS: dict[str, Entry] = {
    **_for_each_rank(1),
    **_for_each_rank(2),
    **_for_each_rank(3),
    **dict.fromkeys(_INDICES, refused("returns indices, which jump")),
    "pad": Entry(
        call(_pad, pad=wholes, mode="constant", value=(as_given, None)),
        "read",
        "constant, reflect, replicate and circular",
    ),
    "interpolate": Entry(
        call(
            _interpolate, size=(as_given, None), scale_factor=(as_given, None), mode="nearest",
            align_corners=(as_given, None), recompute_scale_factor=(as_given, None), antialias=(as_given, False),
        ),
        "read",
        "nearest, linear, bilinear, trilinear and area",
    ),
}  # fmt: skip
