# mypy: allow-subclassing-any
"""Modules that are no network of affine maps and activations of one number; a reader refuses them by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from benchmarks.reading._case import Case


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
