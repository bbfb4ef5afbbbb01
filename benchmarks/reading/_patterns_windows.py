"""Graphs with convolutions, pooling, padding, resizing, and reductions over axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.reading._pattern import Pattern, lines, real, scalar, weight, whole

IMAGE = (1, 2, 6, 6)
SMALL = (1, 2, 3, 3)
NOTHING = np.zeros(0, dtype=np.float32)


def window_patterns() -> Iterator[Pattern]:
    yield from _pools()
    yield from _convolutions()
    yield from _pads()
    yield from _resizes()
    yield from _reductions()


def _pools() -> Iterator[Pattern]:
    def pool(name: str, opset: int, node: str, size: int = 6, refused: tuple[str, ...] = ()) -> Pattern:
        nodes = lines("A = Conv <pads=[1, 1, 1, 1]> (X, W)", node)
        return Pattern(name, opset, (1, 2, size, size), nodes, {"W": weight(2, 2, 3, 3)}, refused=refused)

    yield pool("max_pool", 8, "Y = MaxPool <kernel_shape=[2, 2], strides=[2, 2]> (A)")
    yield pool("max_pool_pads", 8, "Y = MaxPool <kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 1]> (A)")
    yield pool("max_pool_ceil", 10, "Y = MaxPool <kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1> (A)", 5)
    yield pool("max_pool_dilations", 12, "Y = MaxPool <kernel_shape=[2, 2], dilations=[2, 2]> (A)")
    yield pool(
        "max_pool_auto_pad", 11, 'Y = MaxPool <kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER"> (A)', 5
    )
    yield pool(
        "max_pool_same_lower", 12, 'Y = MaxPool <kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER"> (A)', 5
    )
    yield pool("max_pool_overlapping", 12, "Y = MaxPool <kernel_shape=[3, 3], strides=[1, 1], storage_order=0> (A)")
    yield pool("global_max_pool", 7, "Y = GlobalMaxPool(A)", 4)
    yield pool("global_average_pool", 7, "Y = GlobalAveragePool(A)")
    yield pool(
        "average_pool_counting",
        7,
        "Y = AveragePool <kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1> (A)",
    )
    yield pool(
        "average_pool_not_counting", 11, "Y = AveragePool <kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]> (A)"
    )
    yield pool("average_pool_dilations", 19, "Y = AveragePool <kernel_shape=[2, 2], dilations=[2, 2]> (A)")
    yield pool("lp_pool", 18, "Y = LpPool <kernel_shape=[2, 2], p=2> (A)", refused=("LpPool",))


def _convolutions() -> Iterator[Pattern]:
    up, kernel = "ConvTranspose", {"W": weight(2, 3, 3, 3), "B": weight(3)}
    yield Pattern(
        "conv_same_strides",
        11,
        IMAGE,
        lines('A = Conv <auto_pad="SAME_UPPER", strides=[2, 2], kernel_shape=[3, 3]> (X, W, B)', "Y = Relu(A)"),
        {"W": weight(3, 2, 3, 3), "B": weight(3)},
    )
    yield Pattern(
        "conv_same_lower",
        7,
        IMAGE,
        lines('A = Conv <auto_pad="SAME_LOWER", kernel_shape=[2, 2]> (X, W)', "Y = Relu(A)"),
        {"W": weight(3, 2, 2, 2)},
    )
    yield Pattern(
        "conv_uneven_pads",
        13,
        IMAGE,
        lines("A = Conv <pads=[0, 1, 1, 2]> (X, W)", "Y = Relu(A)"),
        {"W": weight(3, 2, 3, 3)},
    )
    yield Pattern("conv_transpose", 7, SMALL, lines(f"A = {up} <strides=[2, 2]> (X, W, B)", "Y = Relu(A)"), kernel)
    yield Pattern(
        "conv_transpose_pads",
        11,
        SMALL,
        f"Y = {up} <strides=[2, 2], pads=[1, 0, 1, 1], output_padding=[1, 0]> (X, W)",
        {"W": kernel["W"]},
    )
    yield Pattern(
        "conv_transpose_output_shape", 11, SMALL, f"Y = {up} <strides=[2, 2], output_shape=[6, 6]> (X, W, B)", kernel
    )
    yield Pattern(
        "conv_transpose_auto_pad", 11, SMALL, f'Y = {up} <strides=[2, 2], auto_pad="SAME_UPPER"> (X, W, B)', kernel
    )
    yield Pattern(
        "conv_transpose_groups",
        13,
        (1, 4, 3, 3),
        f"Y = {up} <group=2, dilations=[2, 1]> (X, W)",
        {"W": weight(4, 3, 2, 2)},
    )
    yield Pattern(
        "batch_normalization",
        9,
        IMAGE,
        lines("A = BatchNormalization <epsilon=0.001> (X, S, B, M, U)", "Y = Relu(A)"),
        {"S": weight(2), "B": weight(2, seed=1), "M": weight(2, seed=2), "U": real(0.5, 2.0)},
    )
    yield Pattern(
        "batch_normalization_15",
        15,
        (1, 2),
        lines("A = BatchNormalization <momentum=0.9, training_mode=0> (X, S, B, M, U)", "Y = Relu(A)"),
        {"S": weight(2), "B": weight(2, seed=1), "M": weight(2, seed=2), "U": real(0.5, 2.0)},
    )


def _pads() -> Iterator[Pattern]:
    yield Pattern(
        "pad_attribute",
        9,
        SMALL,
        lines('A = Pad <mode="constant", pads=[0, 0, 1, 0, 0, 0, 0, 2], value=0.5> (X)', "Y = Relu(A)"),
    )
    yield Pattern(
        "pad_inputs",
        11,
        SMALL,
        lines("A = Pad(X, P, C)", "Y = Relu(A)"),
        {"P": whole(0, 0, 1, 0, 0, 0, 0, 2), "C": scalar(-0.5)},
    )
    yield Pattern("pad_crop", 13, SMALL, "Y = Pad(X, P)", {"P": whole(0, 0, -1, 0, 0, 0, 1, -1)})
    yield Pattern(
        "pad_axes", 18, SMALL, lines("A = Pad(X, P, , D)", "Y = Relu(A)"), {"P": whole(1, 0, 2, 1), "D": whole(-1, 2)}
    )
    yield Pattern("pad_reflect", 11, SMALL, 'Y = Pad <mode="reflect"> (X, P)', {"P": whole(0, 0, 1, 2, 0, 0, 1, 0)})
    yield Pattern("pad_edge", 13, SMALL, 'Y = Pad <mode="edge"> (X, P)', {"P": whole(0, 0, 1, 2, 0, 0, 1, 0)})
    yield Pattern("pad_wrap", 19, SMALL, 'Y = Pad <mode="wrap"> (X, P)', {"P": whole(0, 0, 1, 2, 0, 0, 1, 0)})


def _resizes() -> Iterator[Pattern]:
    def resize(name: str, opset: int, attributes: str, sizes: tuple[int, ...] = ()) -> Pattern:
        twice: dict[str, Any] = {"R": NOTHING, "S": real(1, 1, 2, 2)}
        asked: dict[str, Any] = {"R": NOTHING, "S": NOTHING, "Z": whole(1, 2, *sizes)}
        node = f"Y = Resize <{attributes}> (X, R, S, Z)" if sizes else f"Y = Resize <{attributes}> (X, R, S)"
        return Pattern(name, opset, SMALL, node, asked if sizes else twice)

    floor = 'nearest_mode="floor"'
    yield resize(
        "resize_nearest_asymmetric", 11, f'mode="nearest", coordinate_transformation_mode="asymmetric", {floor}'
    )
    yield resize("resize_nearest_half_pixel", 13, 'mode="nearest", coordinate_transformation_mode="half_pixel"')
    yield resize(
        "resize_nearest_sizes", 13, f'mode="nearest", coordinate_transformation_mode="asymmetric", {floor}', (5, 7)
    )
    yield resize("resize_linear_half_pixel", 11, 'mode="linear", coordinate_transformation_mode="half_pixel"')
    yield resize("resize_linear_corners", 13, 'mode="linear", coordinate_transformation_mode="align_corners"', (6, 5))
    yield resize(
        "resize_linear_pytorch", 11, 'mode="linear", coordinate_transformation_mode="pytorch_half_pixel"', (5, 6)
    )
    yield resize("resize_linear_asymmetric", 18, 'mode="linear", coordinate_transformation_mode="asymmetric"')
    yield Pattern("resize_10", 10, SMALL, 'Y = Resize <mode="nearest"> (X, S)', {"S": real(1, 1, 2, 2)})
    yield Pattern(
        "resize_axes",
        18,
        SMALL,
        f'Y = Resize <axes=[2, 3], mode="nearest", coordinate_transformation_mode="asymmetric", {floor}> (X, , S)',
        {"S": real(2, 3)},
    )
    yield Pattern("upsample_7", 7, SMALL, 'Y = Upsample <mode="nearest", scales=[1.0, 1.0, 2.0, 2.0]> (X)')
    yield Pattern("upsample_9", 9, SMALL, 'Y = Upsample <mode="linear"> (X, S)', {"S": real(1, 1, 2, 2)})


def _reductions() -> Iterator[Pattern]:
    deep = (1, 2, 3, 2)
    yield Pattern(
        "reduce_mean_attribute", 11, deep, lines("A = ReduceMean <axes=[2, 3], keepdims=0> (X)", "Y = Relu(A)")
    )
    yield Pattern(
        "reduce_mean_input", 18, deep, lines("A = ReduceMean <keepdims=1> (X, D)", "Y = Relu(A)"), {"D": whole(-1, -2)}
    )
    yield Pattern("reduce_mean_all", 13, deep, lines("A = ReduceMean <keepdims=0> (X)", "Y = Relu(A)"))
    yield Pattern(
        "reduce_mean_nothing",
        18,
        deep,
        lines("A = ReduceMean <noop_with_empty_axes=1> (X, D)", "Y = Relu(A)"),
        {"D": whole()},
    )
    yield Pattern("reduce_sum_attribute", 11, deep, lines("A = ReduceSum <axes=[1], keepdims=1> (X)", "Y = Relu(A)"))
    yield Pattern(
        "reduce_sum_input", 13, deep, lines("A = ReduceSum <keepdims=0> (X, D)", "Y = Relu(A)"), {"D": whole(1)}
    )
    yield Pattern("reduce_max_attribute", 13, deep, "Y = ReduceMax <axes=[-1], keepdims=0> (X)")
    yield Pattern("reduce_max_input", 18, deep, "Y = ReduceMax <keepdims=1> (X, D)", {"D": whole(1, 2)})
    yield Pattern("reduce_min_input", 20, deep, "Y = ReduceMin <keepdims=0> (X, D)", {"D": whole(2)})
    yield Pattern("reduce_l2", 13, deep, "Y = ReduceL2 <axes=[1]> (X)", refused=("ReduceL2",))
    yield Pattern("reduce_l1", 13, deep, "Y = ReduceL1 <axes=[1]> (X)")
