"""Modules with convolutions of all kinds, forth and back, upsampling and padding layers."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from benchmarks.reading._case import Case
from benchmarks.reading._layers import headed


def convolution_cases() -> Iterator[Case]:
    yield from _forth()
    yield from _back()


def _forth() -> Iterator[Case]:
    kind = "grouped and dilated convolution"
    yield Case(kind, "conv_grouped", (4, 5, 5), lambda: headed(54, nn.Conv2d(4, 6, 3, groups=2), nn.ReLU()))
    yield Case(
        kind,
        "conv_depthwise_separable",
        (3, 5, 5),
        lambda: headed(100, nn.Conv2d(3, 6, 3, padding=1, groups=3), nn.ReLU6(), nn.Conv2d(6, 4, 1), nn.ReLU()),
    )
    yield Case(kind, "conv_dilated", (1, 7, 7), lambda: headed(45, nn.Conv2d(1, 5, 3, dilation=2), nn.ReLU()))
    yield Case(
        "one and three axes", "conv_1d", (2, 10), lambda: headed(20, nn.Conv1d(2, 4, 3, stride=2, padding=1), nn.ReLU())
    )
    yield Case(
        "one and three axes",
        "conv_1d_pools",
        (2, 12),
        lambda: headed(12, nn.Conv1d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2), nn.AvgPool1d(2)),
    )
    yield Case(
        "one and three axes",
        "conv_3d",
        (1, 4, 4, 4),
        lambda: headed(
            54,
            nn.Conv3d(1, 2, 3, padding=1, stride=(2, 1, 1)),
            nn.ReLU(),
            nn.AvgPool3d((1, 2, 2), stride=1),
            nn.Flatten(2),
            nn.Unflatten(2, (2, 9)),
            nn.Flatten(1),
            nn.Linear(36, 54),
        ),
    )
    yield Case(
        "one and three axes", "max_pool_3d", (2, 4, 4, 4), lambda: headed(16, nn.Conv3d(2, 2, 1), nn.MaxPool3d(2))
    )


def _back() -> Iterator[Case]:
    kind = "transposed convolution"
    yield Case(kind, "up_conv_stride", (2, 4, 4), lambda: headed(192, nn.ConvTranspose2d(2, 3, 2, stride=2), nn.ReLU()))
    yield Case(
        kind,
        "up_conv_output_padding",
        (2, 4, 4),
        lambda: headed(192, nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1), nn.ReLU()),
    )
    yield Case(kind, "up_conv_groups", (4, 4, 4), lambda: headed(216, nn.ConvTranspose2d(4, 6, 3, groups=2), nn.ReLU()))
    yield Case(
        kind,
        "up_conv_dilation",
        (2, 4, 4),
        lambda: headed(108, nn.ConvTranspose2d(2, 3, 3, dilation=2, padding=1, bias=False), nn.ReLU()),
    )
    yield Case(kind, "up_conv_1d", (2, 5), lambda: headed(33, nn.ConvTranspose1d(2, 3, 3, stride=2), nn.ReLU()))
    kind = "upsampling"
    yield Case(
        kind,
        "upsample_nearest",
        (2, 3, 3),
        lambda: headed(72, nn.Conv2d(2, 2, 1), nn.ReLU(), nn.Upsample(scale_factor=2)),
    )
    yield Case(kind, "upsample_nearest_size", (2, 3, 3), lambda: headed(70, nn.Upsample(size=(5, 7)), nn.ReLU()))
    yield Case(
        kind,
        "upsample_bilinear",
        (2, 3, 3),
        lambda: headed(72, nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.ReLU()),
    )
    yield Case(
        kind,
        "upsample_bilinear_corners",
        (2, 3, 3),
        lambda: headed(72, nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.ReLU()),
    )
    yield Case(
        kind, "upsample_linear_1d", (2, 4), lambda: headed(24, nn.Upsample(scale_factor=3, mode="linear"), nn.ReLU())
    )
    yield Case(
        "pixel shuffle",
        "pixel_shuffle",
        (2, 3, 3),
        lambda: headed(72, nn.Conv2d(2, 8, 3, padding=1), nn.PixelShuffle(2), nn.ReLU()),
    )
    yield Case(
        "pixel shuffle",
        "pixel_unshuffle",
        (1, 4, 4),
        lambda: headed(8, nn.PixelUnshuffle(2), nn.Conv2d(4, 2, 1), nn.ReLU()),
    )
    kind = "padding"
    yield Case(
        kind,
        "pad_zero_layer",
        (2, 4, 4),
        lambda: headed(
            50,
            nn.ZeroPad2d((1, 2, 0, 1)),
            nn.Conv2d(2, 3, 3),
            nn.ReLU(),
            nn.ConstantPad2d(1, 0.5),
            nn.Conv2d(3, 2, 1, stride=(1, 1)),
            nn.AdaptiveAvgPool2d(5),
        ),
    )
    yield Case(
        kind,
        "pad_reflection_layer",
        (2, 4, 4),
        lambda: headed(48, nn.ReflectionPad2d(1), nn.Conv2d(2, 3, 3), nn.ReLU()),
    )
    yield Case(
        kind,
        "pad_replication_layer",
        (2, 4, 4),
        lambda: headed(48, nn.ReplicationPad2d(1), nn.Conv2d(2, 3, 3), nn.ReLU()),
    )
    yield Case(
        kind,
        "pad_mode_of_conv",
        (2, 4, 4),
        lambda: headed(
            48,
            nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"),
            nn.ReLU(),
            nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect"),
            nn.ReLU(),
        ),
    )
