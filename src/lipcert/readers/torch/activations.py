"""The activations of torch by name, each with torch's own parameters."""

from __future__ import annotations

from lipcert.errors import UnsupportedOperator
from lipcert.readers.graph import Entry, activations, refused, rewrites
from lipcert.readers.graph.activations import plain
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.values import call, number, optional, real
from lipcert.rounding import Array

_SELU = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946)  # alpha and scale


def _prelu(graph: Graph, x: Tensor, weight: Array) -> Tensor:
    return activations.prelu(graph, x, weight.reshape(-1), per_channel=True)


def _rrelu(graph: Graph, x: Tensor, lower: float, upper: float, training: bool) -> Tensor:
    if training:
        raise UnsupportedOperator("draws random slopes; only evaluation (training=False) is supported")
    return activations.leaky_relu(graph, x, (lower + upper) / 2)


def _selu(graph: Graph, x: Tensor) -> Tensor:
    return activations.selu(graph, x, *_SELU)


def _relu6(graph: Graph, x: Tensor) -> Tensor:
    return rewrites.clip(graph, x, 0.0, 6.0)


_PLAIN = {
    "relu": "relu", "silu": "silu", "mish": "mish", "hardswish": "hardswish", "sigmoid": "sigmoid",
    "special_expit": "sigmoid", "tanh": "tanh", "erf": "erf", "special_erf": "erf", "softsign": "softsign",
}  # fmt: skip
_LOG_SIGMOID = Entry(call(activations.log_sigmoid), "rewritten", "-softplus(-x)")
_THRESHOLD = Entry(
    call(activations.threshold, threshold=number, value=number),
    "rewritten",
    "ReLU, where value and threshold are equal",
)
_ABSOLUTE = Entry(call(rewrites.absolute), "rewritten", "2 relu(x) - x")
_CLAMP = Entry(call(activations.clamp, min=(optional, None), max=(optional, None)), "rewritten", "two ReLUs")
ACTIVATIONS: dict[str, Entry] = {
    **{name: Entry(call(plain(kind)), "read", "activation") for name, kind in _PLAIN.items()},
    "leaky_relu": Entry(
        call(activations.leaky_relu, negative_slope=0.01), "read", "activation; negative slopes by ReLU"
    ),
    "prelu": Entry(call(_prelu, weight=real), "rewritten", "leaky ReLU, or slope x + (1 - slope) relu(x)"),
    "rrelu": Entry(
        call(_rrelu, lower=1.0 / 8, upper=1.0 / 3, training=False),
        "rewritten",
        "leaky ReLU with the mean slope, as in evaluation",
    ),
    "elu": Entry(call(activations.elu, alpha=1.0), "read", "activation"),
    "selu": Entry(call(_selu), "rewritten", "a multiple of ELU"),
    "celu": Entry(call(activations.celu, alpha=1.0), "rewritten", "alpha elu(x / alpha)"),
    "gelu": Entry(call(activations.gelu, approximate="none"), "read", "activation, both forms"),
    "softplus": Entry(
        call(activations.softplus, beta=1.0, threshold=20.0),
        "rewritten",
        "softplus(beta x) / beta, threshold at least 20",
    ),
    "logsigmoid": _LOG_SIGMOID,
    "log_sigmoid": _LOG_SIGMOID,
    "hardtanh": Entry(call(rewrites.clip, min_val=-1.0, max_val=1.0), "rewritten", "two ReLUs"),
    "relu6": Entry(call(_relu6), "rewritten", "two ReLUs"),
    "hardsigmoid": Entry(call(activations.relu6_sigmoid), "rewritten", "two ReLUs"),
    "threshold": _THRESHOLD,
    "_threshold": _THRESHOLD,
    "softshrink": Entry(call(activations.softshrink, lambd=0.5), "rewritten", "two ReLUs"),
    "tanhshrink": Entry(call(activations.tanhshrink), "rewritten", "x - tanh(x)"),
    "abs": _ABSOLUTE,
    "absolute": _ABSOLUTE,
    "clamp": _CLAMP,
    "clip": _CLAMP,
    "hardshrink": refused("jumps at its threshold, so that no Lipschitz constant exists"),
    "glu": refused("multiplies two tensors that both depend on the input"),
}
