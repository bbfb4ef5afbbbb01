# mypy: allow-subclassing-any
"""Modules that are no network of affine maps and activations of one number; a reader refuses them by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone writes it
from torch import nn

from benchmarks.reading._case import Case, Forward


class Attention(nn.Module):
    """One layer of self-attention over a short sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.attention(x, x, x, need_weights=False)[0].flatten(1)


class Recurrent(nn.Module):
    """The last state of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.last = nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.lstm(x)[0][:, -1])


class Deciding(nn.Module):
    """Which layers are used depends on the values."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.a(x) if x.sum() > 0 else self.b(x)


def refusal_cases() -> Iterator[Case]:
    image = (4, 3, 3)

    def normal(name: str, layer: Any, *words: str) -> Case:
        return Case(
            f"refused: {name}",
            name,
            image,
            lambda: nn.Sequential(layer(), nn.Flatten(), nn.Linear(36, 3)),
            refused=words,
        )

    yield Case(
        "refused: layer norm",
        "layer_norm",
        (4,),
        lambda: nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3)),
        refused=("LayerNorm", "layer_norm", "normalis"),
    )
    yield Case(
        "refused: attention",
        "attention",
        (3, 4),
        Attention,
        refused=("attention", "Attention", "MatMul", "Softmax", "softmax"),
    )
    yield Case("refused: lstm", "lstm", (3, 4), Recurrent, refused=("LSTM", "lstm"))
    yield normal("group_norm", lambda: nn.GroupNorm(2, 4), "GroupNorm", "InstanceNorm", "group_norm", "Normalization")
    yield normal(
        "instance_norm", lambda: nn.InstanceNorm2d(4), "InstanceNorm", "instance_norm", "Normalization", "statistics"
    )
    yield normal(
        "local_response_norm",
        lambda: nn.LocalResponseNorm(2),
        "LRN",
        "LocalResponse",
        "local_response",
        "Pow",
        "Mul",
        "Div",
    )
    yield normal(
        "batch_norm_without_statistics",
        lambda: nn.BatchNorm2d(4, track_running_stats=False),
        "BatchNorm",
        "statistics",
        "batch_norm",
        "ReduceMean",
        "Reduce",
        "Mul",
        "Sqrt",
    )
    yield Case(
        "refused: control flow",
        "control_flow",
        (4,),
        Deciding,
        refused=("If", "control flow", "depends on", "trace", "export"),
    )
    yield Case(
        "refused: product of branches",
        "product",
        (4,),
        lambda: Forward(
            lambda m, x: m.b(m.a(x) * torch.tanh(m.c(x))), a=nn.Linear(4, 6), c=nn.Linear(4, 6), b=nn.Linear(6, 3)
        ),
        refused=("Mul", "mul", "product"),
    )
    yield Case(
        "refused: normalised features",
        "normalised_features",
        (4,),
        lambda: Forward(lambda m, x: m.b(F.normalize(m.a(x), dim=1)), a=nn.Linear(4, 6), b=nn.Linear(6, 3)),
        refused=("ReduceL2", "norm", "Div", "Clip"),
    )
    yield Case(
        "refused: exponential",
        "exponential",
        (4,),
        lambda: Forward(lambda m, x: m.b(torch.exp(m.a(x))), a=nn.Linear(4, 6), b=nn.Linear(6, 3)),
        refused=("Exp", "exp"),
    )
    yield Case(
        "refused: softmax inside",
        "softmax_inside",
        (4,),
        lambda: nn.Sequential(nn.Linear(4, 6), nn.Softmax(1), nn.Linear(6, 3)),
        refused=("Softmax", "softmax"),
    )
