# mypy: allow-subclassing-any
"""Modules that multiply, divide and normalise their own tensors; a reader writes them with squares and powers."""

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


def product_cases() -> Iterator[Case]:
    def normal(name: str, layer: Any) -> Case:
        return Case(f"norm: {name}", name, (4, 3, 3), lambda: nn.Sequential(layer(), nn.Flatten(), nn.Linear(36, 3)))

    def between(name: str, function: Any) -> Case:
        sizes = {"a": (4, 6), "c": (4, 6), "b": (6, 3)}

        def make() -> Forward:
            return Forward(function, **{part: nn.Linear(*size) for part, size in sizes.items()})

        return Case(f"product: {name}", name, (4,), make)

    yield Case(
        "norm: layer norm",
        "layer_norm",
        (4,),
        lambda: nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3)),
    )
    yield normal("group_norm", lambda: nn.GroupNorm(2, 4))
    yield normal("instance_norm", lambda: nn.InstanceNorm2d(4))
    yield Case("product: attention", "attention", (3, 4), Attention)
    yield between("product", lambda m, x: m.b(m.a(x) * torch.tanh(m.c(x))))
    yield between("normalised_features", lambda m, x: m.b(F.normalize(m.a(x), dim=1)))
    yield between("exponential", lambda m, x: m.b(torch.exp(m.a(x))))
    yield between("softmax_inside", lambda m, x: m.b(torch.softmax(m.a(x), dim=1)))
