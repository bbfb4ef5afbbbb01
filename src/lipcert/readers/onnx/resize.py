"""ONNX Pad, Resize and Upsample, whose arguments every few opsets are in other places."""

from __future__ import annotations

import math

import numpy as np

from lipcert.files import MAX_WIDTH
from lipcert.readers.graph import layers, resampling
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.operation import Entry, Operation, real
from lipcert.rounding import Array

_RESIZE = (
    "antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value",
    "keep_aspect_ratio_policy", "mode", "nearest_mode",
)  # fmt: skip


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
    return layers.pad(graph, x, before, after, op.text("mode", "constant"), value)


def _resize(op: Operation, graph: Graph) -> Tensor:
    op.check(_RESIZE if op.opset >= 11 else ("mode",), 2, 4 if op.opset >= 11 else 2)
    x = op.tensor()
    refused = {"antialias": 0, "exclude_outside": 0}
    if any(op.integer(name, usual) != usual for name, usual in refused.items()):
        raise op.refused("antialias and exclude_outside are not supported")
    if op.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise op.refused("only keep_aspect_ratio_policy 'stretch' is supported")
    named = op.attributes.get("axes")
    axes = tuple(range(len(x.shape))) if named is None else op.axes(op.integers("axes", len(named), ()), len(x.shape))
    sizes = op.list_of_integers("sizes", 3)
    if sizes:
        factors = [m / x.shape[a] for m, a in zip(sizes, axes, strict=True)]
    else:
        factors = [float(s) for s in _scales(op, op.optional(2 if op.opset >= 11 else 1, "scales"))]
    if op.opset < 11:  # as Upsample
        return _resampled(op, graph, x, axes, factors, sizes, "asymmetric", "floor")
    how = op.text("coordinate_transformation_mode", "half_pixel")
    return _resampled(op, graph, x, axes, factors, sizes, how, op.text("nearest_mode", "round_prefer_floor"))


def _upsample(op: Operation, graph: Graph) -> Tensor:
    """As Resize of opset 10: factors as an attribute first, as an input later."""
    op.check(("mode", "scales", "height_scale", "width_scale"), 1, 2 if op.opset >= 9 else 1)
    x = op.tensor()
    if op.opset >= 9:
        factors = _scales(op, op.optional(1, "scales"))
    elif op.opset >= 7:
        factors = op.numbers("scales")
    else:
        factors = np.array([1.0, 1.0, op.number("height_scale", 1.0), op.number("width_scale", 1.0)])
    return _resampled(op, graph, x, tuple(range(len(x.shape))), list(factors), None, "asymmetric", "floor")


def _scales(op: Operation, scales: Array | None) -> Array:
    if scales is None or not scales.size:
        raise op.damaged("its scales are missing")
    return real(scales).reshape(-1)


def _resampled(
    op: Operation,
    graph: Graph,
    x: Tensor,
    axes: tuple[int, ...],
    factors: list[float],
    sizes: tuple[int, ...] | None,
    how: str,
    rounding: str,
) -> Tensor:
    """The tensor resized along axes by factors, to sizes where they are given."""
    if len(factors) != len(axes) or not all(math.isfinite(f) and 0 < f <= MAX_WIDTH for f in factors):
        raise op.damaged(f"its scales or sizes do not fit a tensor of shape {x.shape}")
    # Runtimes multiply in single precision: 10 entries by 0.7 are 7, not 6.
    lengths = sizes or [int(np.float32(x.shape[a]) * np.float32(f)) for a, f in zip(axes, factors, strict=True)]
    changed = {a: (n, f) for a, n, f in zip(axes, lengths, factors, strict=True) if n != x.shape[a] or f != 1.0}
    if changed and all(n == x.shape[a] for a, (n, _) in changed.items()):
        raise op.refused("its scales leave all sizes as they are, which runtimes read in several ways; leave it out")
    op.limited(x.width // math.prod(x.shape[a] for a in changed) * math.prod(n for n, _ in changed.values()))
    positions = {a: resampling.coordinates(x.shape[a], n, f, how) for a, (n, f) in changed.items()}
    match op.text("mode", "nearest"):
        case "nearest":
            return resampling.nearest(graph, x, positions, rounding)
        case "linear" | "bilinear":
            return resampling.linear(graph, x, positions)
    raise op.refused("modes nearest and linear are supported; export the network with one of them")


RESIZED: dict[str, Entry] = {
    "Pad": Entry(_pad, words="constant, reflect, edge, wrap; by constant amounts, negative ones too"),
    "Resize": Entry(_resize, words="nearest and linear, by constant factors or sizes"),
    "Upsample": Entry(_upsample, words="nearest and linear, by constant factors"),
}
