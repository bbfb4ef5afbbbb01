"""Modules made of layers that torch has: linear, convolution, pooling, normalisation, upsampling, parametrisations."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from torch import nn
from torch.nn.utils import parametrizations, spectral_norm, weight_norm

from benchmarks.reading._case import Case

IMAGE = (2, 6, 6)


def layer_cases() -> Iterator[Case]:
    yield from _plain()
    yield from _pools()
    yield from _normalised()
    yield from _parametrised()
    yield from _larger()


def mlp(*widths: int) -> list[nn.Module]:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return layers[:-1]


def headed(features: int, *layers: nn.Module) -> nn.Module:
    """The layers, then flat, then three scores."""
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, 3))


def _plain() -> Iterator[Case]:
    yield Case("mlp", "mlp", (4,), lambda: nn.Sequential(*mlp(4, 8, 8, 3)))
    yield Case(
        "mlp",
        "mlp_no_bias",
        (4,),
        lambda: nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 3, bias=False)),
    )
    yield Case(
        "mlp",
        "mlp_relu_at_the_end",
        (4,),
        lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.ReLU()),
    )
    yield Case("mlp", "mlp_of_an_image", (1, 4, 4), lambda: nn.Sequential(nn.Flatten(), *mlp(16, 8, 3)))
    yield Case(
        "mlp",
        "mlp_named_layers",
        (4,),
        lambda: nn.Sequential(OrderedDict(zip(("fc1", "act", "fc2"), mlp(4, 8, 3), strict=True))),
    )
    yield Case("mlp", "mlp_one_linear", (4,), lambda: nn.Linear(4, 3))
    yield Case(
        "mlp",
        "mlp_on_last_axis",
        (2, 4),
        lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Flatten(), nn.Linear(10, 3)),
    )
    yield Case(
        "cnn",
        "cnn",
        IMAGE,
        lambda: headed(
            36, nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2, padding=1), nn.ReLU()
        ),
    )
    yield Case(
        "cnn",
        "cnn_same",
        IMAGE,
        lambda: headed(
            144, nn.Conv2d(2, 4, 3, padding="same"), nn.ReLU(), nn.Conv2d(4, 4, 4, padding="same"), nn.ReLU()
        ),
    )
    yield Case(
        "cnn",
        "cnn_valid_no_bias",
        IMAGE,
        lambda: headed(
            32, nn.Conv2d(2, 2, 3, bias=False), nn.ReLU(), nn.Conv2d(2, 2, (1, 3), padding=(0, 1)), nn.ReLU()
        ),
    )
    yield Case(
        "dropout", "dropout", (4,), lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    )
    yield Case(
        "dropout",
        "dropout_2d_alpha",
        IMAGE,
        lambda: headed(144, nn.Conv2d(2, 4, 3, padding=1), nn.Dropout2d(), nn.ReLU(), nn.AlphaDropout()),
    )
    yield Case(
        "softmax at the end", "softmax", (4,), lambda: nn.Sequential(*mlp(4, 8, 3), nn.Softmax(dim=1)), final="softmax"
    )
    yield Case(
        "softmax at the end",
        "log_softmax",
        (4,),
        lambda: nn.Sequential(*mlp(4, 8, 3), nn.LogSoftmax(dim=-1)),
        final="log_softmax",
    )


def _pools() -> Iterator[Case]:
    def pooled(name: str, kind: str, features: int, pool: Any, size: int = 6) -> Case:
        return Case(kind, name, (2, size, size), lambda: headed(features, nn.Conv2d(2, 3, 3, padding=1), pool()))

    yield pooled("max_pool", "max pooling", 27, lambda: nn.MaxPool2d(2))
    yield pooled("max_pool_overlapping", "max pooling", 27, lambda: nn.MaxPool2d(3, stride=2, padding=1))
    yield pooled("max_pool_ceil", "max pooling", 27, lambda: nn.MaxPool2d(2, ceil_mode=True), 5)
    yield pooled("max_pool_dilated", "max pooling", 12, lambda: nn.MaxPool2d(2, dilation=3, stride=2), 6)
    yield Case(
        "max pooling",
        "max_pool_after_relu",
        IMAGE,
        lambda: headed(27, nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
    )
    yield pooled("average_pool", "average pooling", 27, lambda: nn.AvgPool2d(2))
    yield pooled("average_pool_padded", "average pooling", 27, lambda: nn.AvgPool2d(3, stride=2, padding=1))
    yield pooled(
        "average_pool_not_counting",
        "average pooling",
        27,
        lambda: nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
    )
    yield pooled("average_pool_ceil", "average pooling", 27, lambda: nn.AvgPool2d(2, ceil_mode=True), 5)
    yield pooled("adaptive_average_1", "adaptive pooling", 3, lambda: nn.AdaptiveAvgPool2d(1))
    yield pooled("adaptive_average_2", "adaptive pooling", 12, lambda: nn.AdaptiveAvgPool2d((2, 2)))
    yield pooled("adaptive_average_uneven", "adaptive pooling", 12, lambda: nn.AdaptiveAvgPool2d((2, 2)), 5)
    yield pooled("adaptive_max_1", "adaptive pooling", 3, lambda: nn.AdaptiveMaxPool2d(1))
    yield pooled("adaptive_max_2", "adaptive pooling", 12, lambda: nn.AdaptiveMaxPool2d((2, 2)))


def _normalised() -> Iterator[Case]:
    yield Case(
        "batch norm",
        "batch_norm_1d",
        (4,),
        lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)),
    )
    yield Case(
        "batch norm",
        "batch_norm_1d_first",
        (4,),
        lambda: nn.Sequential(nn.BatchNorm1d(4), *mlp(4, 8, 3), nn.BatchNorm1d(3, affine=False)),
    )
    yield Case(
        "batch norm",
        "batch_norm_2d",
        IMAGE,
        lambda: headed(144, nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU()),
    )
    yield Case("batch norm", "batch_norm_1d_of_sequence", (2, 5), lambda: headed(10, nn.BatchNorm1d(2), nn.ReLU()))


def _parametrised() -> Iterator[Case]:
    def both(name: str, kind: str, wrap: Any) -> Iterator[Case]:
        yield Case(
            kind, f"{name}_linear", (4,), lambda: nn.Sequential(wrap(nn.Linear(4, 6)), nn.ReLU(), wrap(nn.Linear(6, 3)))
        )
        yield Case(kind, f"{name}_conv", (2, 4, 4), lambda: headed(48, wrap(nn.Conv2d(2, 3, 3, padding=1)), nn.ReLU()))

    yield from both("weight_norm", "weight norm", parametrizations.weight_norm)
    yield from both("weight_norm_old", "weight norm", weight_norm)
    yield from both("spectral_norm", "spectral norm", parametrizations.spectral_norm)
    yield from both("spectral_norm_old", "spectral norm", spectral_norm)
    yield Case(
        "orthogonal weights",
        "orthogonal",
        (4,),
        lambda: nn.Sequential(parametrizations.orthogonal(nn.Linear(4, 6)), nn.ReLU(), nn.Linear(6, 3)),
    )


def _larger() -> Iterator[Case]:
    yield Case(
        "cnn",
        "lenet",
        (1, 12, 12),
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            *mlp(6, 10, 3),
        ),
    )
