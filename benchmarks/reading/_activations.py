"""A small network for every activation that torch has, as a layer, and some as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone writes it
from torch import nn

from benchmarks.reading._case import Case, Forward

PIECEWISE: dict[str, Callable[[], Any]] = {
    "relu": nn.ReLU,
    "relu_in_place": lambda: nn.ReLU(inplace=True),
    "leaky_relu": lambda: nn.LeakyReLU(0.1),
    "leaky_relu_steep": lambda: nn.LeakyReLU(1.5),
    "prelu": lambda: nn.PReLU(init=0.3),
    "relu6": nn.ReLU6,
    "hardtanh": nn.Hardtanh,
    "hardtanh_shifted": lambda: nn.Hardtanh(-0.5, 2.0),
    "hardsigmoid": nn.Hardsigmoid,
    "threshold_zero": lambda: nn.Threshold(0.0, 0.0),
    "softshrink": nn.Softshrink,
    "rrelu": nn.RReLU,
}
MONOTONE: dict[str, Callable[[], Any]] = {
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "elu_half": lambda: nn.ELU(0.5),
    "selu": nn.SELU,
    "celu": lambda: nn.CELU(1.5),
    "softplus": nn.Softplus,
    "softplus_beta": lambda: nn.Softplus(beta=2.0),
    "softsign": nn.Softsign,
    "log_sigmoid": nn.LogSigmoid,
    "tanhshrink": nn.Tanhshrink,
}
NOT_MONOTONE: dict[str, Callable[[], Any]] = {
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "hardswish": nn.Hardswish,
}
JUMPS: dict[str, Callable[[], Any]] = {
    "hardshrink": nn.Hardshrink,
    "threshold_jump": lambda: nn.Threshold(0.5, 0.0),
}
KINDS = {
    "piecewise linear activations": PIECEWISE,
    "monotone smooth activations": MONOTONE,
    "activations not monotone": NOT_MONOTONE,
}


def activation_cases() -> Iterator[Case]:
    for kind, table in KINDS.items():
        for name, make in table.items():
            yield _around(kind, name, make, 8.0 if table is PIECEWISE else 4.0)
    for name, make in JUMPS.items():
        yield _around(
            "refused: activations that jump", name, make, 4.0, refused=("jump", "continuous", "not supported")
        )
    yield Case(
        "piecewise linear activations",
        "prelu_per_channel",
        (2, 4, 4),
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), _slopes(3), nn.Flatten(), nn.Linear(12, 3)),
        scale=2.0,
    )
    yield Case(
        "piecewise linear activations",
        "prelu_per_neuron",
        (4,),
        lambda: nn.Sequential(nn.Linear(4, 6), _slopes(6), nn.Linear(6, 3)),
    )
    yield from _functions()


def _around(kind: str, name: str, make: Callable[[], Any], scale: float, refused: tuple[str, ...] = ()) -> Case:
    """The activation between two linear layers, with inputs large enough to reach its ends."""
    return Case(
        kind, name, (4,), lambda: nn.Sequential(nn.Linear(4, 6), make(), nn.Linear(6, 3)), refused=refused, scale=scale
    )


def _slopes(count: int) -> nn.Module:
    layer = nn.PReLU(count)
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(-0.4, 1.3, count))
    return layer


def _functions() -> Iterator[Case]:
    table: dict[str, Callable[[Any], Any]] = {
        "f_leaky_relu": lambda x: F.leaky_relu(x, 0.2),
        "f_elu_tanh": lambda x: F.elu(torch.tanh(x)),
        "f_sigmoid_method": lambda x: x.sigmoid() - x.relu(),
        "f_silu_by_hand": lambda x: x * torch.sigmoid(x),
        "f_gelu_by_hand": lambda x: x * 0.5 * (1.0 + torch.erf(x / 2.0**0.5)),
        "f_softplus_silu": lambda x: F.softplus(x) - F.silu(x),
        "f_clamp_min": lambda x: x.clamp(min=0.0),
        "f_where_relu": lambda x: torch.where(x > 0, x, 0.1 * x),
    }
    for name, function in table.items():

        def make(function: Callable[[Any], Any] = function) -> Any:
            return Forward(lambda m, x: m.b(function(m.a(x))), a=nn.Linear(4, 6), b=nn.Linear(6, 3))

        yield Case("activations as functions", name, (4,), make, scale=3.0)
