# mypy: allow-subclassing-any
"""Modules of classes that people write: residual blocks, concatenation, U-shapes, nested modules, subclasses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone writes it
from torch import nn

from benchmarks.reading._case import Case, Forward

IMAGE = (2, 6, 6)


def block_cases() -> Iterator[Case]:
    yield from _branches()
    yield from _classes()


class BasicBlock(nn.Module):
    """Two convolutions with batch norm and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inner: int, outer: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.shortcut = nn.Sequential()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride=stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: Any) -> Any:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class PreActivation(nn.Module):
    """Batch norm and ReLU before each convolution; the shortcut adds what came in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return self.conv2(torch.relu(self.bn2(self.conv1(torch.relu(self.bn1(x)))))) + x


class ResidualMLP(nn.Module):
    """A list of layers, each added to what it reads."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, width), nn.Linear(width, 3)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.layers:
            x = x + F.relu(layer(x))
        return self.last(x)


class Dense(nn.Module):
    """Every layer reads all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(2 + 2 * i, 2, 3, padding=1) for i in range(3)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(2 + 2 * i) for i in range(3)])
        self.last = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        features = [x]
        for layer, norm in zip(self.layers, self.norms, strict=True):
            features.append(layer(F.relu(norm(torch.cat(features, 1)))))
        return self.last(F.adaptive_avg_pool2d(torch.cat(features, 1), 1).flatten(1))


class UNet(nn.Module):
    """Down by pooling, up by a transposed convolution, with a skip by concatenation."""

    def __init__(self, up: nn.Module) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 4, 3, padding=1)
        self.pool, self.up = nn.MaxPool2d(2), up
        self.last = nn.Conv2d(6 if isinstance(up, nn.Upsample) else 4, 1, 3, padding=1)

    def forward(self, x: Any) -> Any:
        skip = F.relu(self.down1(x))
        deep = F.relu(self.down2(self.pool(skip)))
        return self.last(torch.cat([self.up(deep), skip], dim=1))


class Flat(nn.Sequential):
    """A subclass of Sequential that only fills itself."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


class Classic(nn.Module):
    """The network of every tutorial."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 3)
        self.fc1, self.fc2 = nn.Linear(16, 8), nn.Linear(8, 3)
        self.drop = nn.Dropout(0.25)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = x.view(x.size(0), -1)
        x = F.dropout(F.relu(self.fc1(x)), training=self.training)
        return F.log_softmax(self.fc2(self.drop(x)), dim=1)


def _branches() -> Iterator[Case]:
    yield Case("residual mlp", "residual_mlp", (4,), lambda: ResidualMLP(6, 3))
    yield Case(
        "residual cnn",
        "residual_cnn",
        IMAGE,
        lambda: nn.Sequential(
            BasicBlock(2, 2), BasicBlock(2, 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
        ),
    )
    yield Case(
        "pre-activation residual cnn",
        "pre_activation",
        IMAGE,
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), PreActivation(3), PreActivation(3), nn.Flatten(), nn.Linear(48, 3)),
    )
    yield Case("densenet", "densenet", IMAGE, Dense)
    yield Case(
        "inception",
        "inception",
        IMAGE,
        lambda: Forward(
            lambda m, x: m.last(
                torch.flatten(
                    F.relu(torch.cat([m.a(x), m.b2(F.relu(m.b1(x))), m.c(F.max_pool2d(x, 3, stride=1, padding=1))], 1)),
                    1,
                )
            ),
            a=nn.Conv2d(2, 2, 1),
            b1=nn.Conv2d(2, 2, 1),
            b2=nn.Conv2d(2, 2, 3, padding=1),
            c=nn.Conv2d(2, 1, 1),
            last=nn.Linear(180, 3),
        ),
    )
    yield Case("u-shaped", "unet_up_conv", (1, 4, 4), lambda: UNet(nn.ConvTranspose2d(4, 2, 2, stride=2)))
    yield Case(
        "u-shaped",
        "unet_upsample",
        (1, 4, 4),
        lambda: UNet(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)),
    )
    yield Case(
        "skip from the input",
        "skip_input_concat",
        (4,),
        lambda: Forward(
            lambda m, x: m.b(torch.cat([F.relu(m.a(x)), x], dim=-1)), a=nn.Linear(4, 6), b=nn.Linear(10, 3)
        ),
    )
    yield Case(
        "skip from the input",
        "skip_input_add",
        (4,),
        lambda: Forward(lambda m, x: m.b(F.relu(m.a(x))) + x, a=nn.Linear(4, 6), b=nn.Linear(6, 4)),
    )
    yield Case(
        "stack and sum",
        "stack_sum",
        (4,),
        lambda: Forward(
            lambda m, x: torch.stack([F.relu(m.a(x)), torch.tanh(m.b(x))]).sum(0), a=nn.Linear(4, 3), b=nn.Linear(4, 3)
        ),
    )
    yield Case(
        "stack and sum",
        "stack_mean",
        (4,),
        lambda: Forward(
            lambda m, x: torch.stack([F.relu(m.a(x)), m.b(x)], dim=2).mean(dim=2), a=nn.Linear(4, 3), b=nn.Linear(4, 3)
        ),
    )


def _classes() -> Iterator[Case]:
    yield Case("custom forward", "classic", (1, 16, 16), Classic, final="log_softmax")
    yield Case(
        "custom forward",
        "forward_flatten",
        IMAGE,
        lambda: Forward(
            lambda m, x: m.fc(torch.flatten(F.relu(m.conv(x)), 1)), conv=nn.Conv2d(2, 2, 3), fc=nn.Linear(32, 3)
        ),
    )
    yield Case(
        "custom forward",
        "forward_reshape",
        IMAGE,
        lambda: Forward(
            lambda m, x: m.fc(F.relu(m.conv(x)).reshape(x.shape[0], -1)), conv=nn.Conv2d(2, 2, 3), fc=nn.Linear(32, 3)
        ),
    )
    yield Case(
        "custom forward",
        "forward_twice",
        (4,),
        lambda: Forward(lambda m, x: m.b(F.relu(m.a(F.relu(m.a(x))))), a=nn.Linear(4, 4), b=nn.Linear(4, 3)),
    )
    yield Case("subclass of Sequential", "subclass", (1, 4, 4), Flat)
    yield Case(
        "nested modules",
        "nested",
        (4,),
        lambda: nn.Sequential(
            nn.Sequential(nn.Linear(4, 6), nn.ReLU()),
            Forward(lambda m, x: m.inner(x), inner=nn.Sequential(nn.Linear(6, 6), nn.Tanh())),
            nn.Linear(6, 3),
        ),
    )
    yield Case(
        "nested modules",
        "module_list",
        (4,),
        lambda: Forward(_loop, layers=nn.ModuleList([nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)])),
    )
    yield Case(
        "nested modules",
        "module_dict",
        (4,),
        lambda: Forward(
            lambda m, x: m.parts["head"](F.relu(m.parts["body"](x))),
            parts=nn.ModuleDict({"body": nn.Linear(4, 5), "head": nn.Linear(5, 3)}),
        ),
    )


def _loop(m: Any, x: Any) -> Any:
    for i, layer in enumerate(m.layers):
        x = layer(x)
        if i < len(m.layers) - 1:
            x = torch.relu(x)
    return x
