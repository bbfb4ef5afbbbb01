# mypy: allow-subclassing-any
"""One torch module to be read: its name, how it is made, and what is expected of the readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Module = Any


@dataclass(frozen=True)
class Case:
    """A module of some kind. `make` is called after the seed is set; `shape` is one input's, without the batch.

    final: "softmax" or "log_softmax" where the last layer is one; a reader may leave it out.
    refused: words, one of which a refusal must hold; empty where the module must be read.
    """

    kind: str
    name: str
    shape: tuple[int, ...]
    make: Callable[[], Module]
    final: str = ""
    refused: tuple[str, ...] = ()
    scale: float = 1.0

    def module(self, seed: int = 0) -> Module:
        """The module in evaluation mode, the same one each time, with lively statistics where it keeps any."""
        torch.manual_seed(seed)
        module = self.make()
        with torch.no_grad():
            for layer in module.modules():
                if getattr(layer, "running_mean", None) is not None:
                    layer.running_mean.normal_()
                    layer.running_var.uniform_(0.5, 2.0)
                    if layer.weight is not None:
                        layer.weight.uniform_(-1.5, 1.5)
                        layer.bias.normal_()
        module.eval()
        return module

    def inputs(self, count: int, seed: int = 1) -> Any:
        """Random inputs in double precision that float32 holds exactly: (count, *shape)."""
        generator = torch.Generator().manual_seed(seed)
        return self.scale * torch.randn((count, *self.shape), generator=generator).double()


class Forward(nn.Module):
    """A module with a forward of its own: the function gets the module, for its parts, and the input."""

    def __init__(self, function: Callable[[Any, Any], Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)
