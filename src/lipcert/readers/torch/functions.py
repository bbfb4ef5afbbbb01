"""Functions and methods of torch by name: arithmetic, comparisons, products, reductions; the table of all of them.

torch.f(x, ..), x.f(..) and the operators of Python are the same entries. A function whose arguments are all constants
is not looked up here: torch itself computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.readers.graph import Entry, activations, arithmetic, linear, products, recognised, refused, rewrites
from lipcert.readers.graph.activations import plain
from lipcert.readers.graph.arithmetic import Value
from lipcert.readers.graph.recognised import Condition
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.norms import NORMS
from lipcert.readers.torch.shapes import SHAPES
from lipcert.readers.torch.values import (
    Unread,
    as_given,
    axes_of,
    call,
    is_live,
    number,
    numbers,
    operand,
    optional,
    real,
    tensor,
    whole,
)
from lipcert.readers.torch.windows import WINDOWS
from lipcert.rounding import Array

_SELU = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946)  # alpha and scale
_INDICES = Unread("uses the indices of a maximum or of an order, which jump; use the values")
_PAIR = {"input": operand, "other": operand}


# --- arithmetic and comparisons ---------------------------------------------------------------------------------------


def _sum(sign: float, *, exchanged: bool = False) -> Callable[..., Any]:
    """input + alpha other, input - alpha other, or other - alpha input."""

    def apply(graph: Graph, input: Value, other: Value, alpha: float) -> Value:
        a, b = (other, input) if exchanged else (input, other)
        return arithmetic.add(graph, a, b, sign * alpha)

    return call(apply, **_PAIR, alpha=1.0)


def _divide(graph: Graph, input: Value, other: Value, rounding_mode: Any) -> Tensor:
    if rounding_mode is not None:
        raise UnsupportedOperator("rounds its result: the value jumps")
    return arithmetic.divide(graph, input, other)


def _where(graph: Graph, condition: Any, input: Any = None, other: Any = None) -> Tensor:
    if input is None or other is None:
        raise UnsupportedOperator("asks for places that depend on the input")
    chosen = condition if isinstance(condition, Condition) else numbers(condition, "condition")
    return recognised.choose(graph, chosen, tensor(input), tensor(other))


def _where_method(graph: Graph, input: Any, condition: Any, other: Any) -> Tensor:
    return _where(graph, condition, input, other)


def _masked_fill(graph: Graph, input: Any, mask: Any, value: Any) -> Tensor:
    return _where(graph, mask, value, input)


def _extreme(graph: Graph, input: Value, other: Value, *, largest: bool) -> Tensor:
    return arithmetic.extreme(graph, [input, other], largest)


def _extreme_along(graph: Graph, x: Tensor, dim: Any, keepdim: bool, *, largest: bool) -> Tensor:
    return arithmetic.extreme_along(graph, x, axes_of(x, dim), keepdim, largest)


def _largest_or_smallest(largest: bool) -> Callable[..., Any]:
    """torch.max(x), torch.max(x, dim) with its indices, and torch.max(x, y)."""

    def apply(graph: Graph, input: Any, dim: Any = None, keepdim: Any = False, *, other: Any = None) -> Any:
        second = dim if is_live(dim) or hasattr(dim, "shape") else other
        if second is not None:
            return _extreme(graph, operand(input, "input"), operand(second, "other"), largest=largest)
        values = _extreme_along(graph, tensor(input), dim, keepdim, largest=largest)
        return values if dim is None else (values, _INDICES)

    return apply


# --- activations ------------------------------------------------------------------------------------------------------


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


# --- sums and products ------------------------------------------------------------------------------------------------


def _summed(graph: Graph, x: Tensor, dim: Any, keepdim: bool, *, mean: bool) -> Tensor:
    return linear.summed(graph, x, axes_of(x, dim), keepdim, mean=mean)


def _linear(graph: Graph, x: Tensor, weight: Array, bias: Array | None) -> Tensor:
    """input weight' + bias."""
    if weight.ndim != 2:
        raise InputError(f"its weight has the shape {weight.shape}; two axes are needed")
    y = linear.times(graph, x, weight.T)
    if bias is None:
        return y
    if bias.ndim > 1 or bias.size not in (1, weight.shape[0]):
        raise InputError(f"shapes {y.shape} and {bias.shape} do not broadcast")
    return graph.scale_and_shift(y, 1.0, bias)


def _matmul(graph: Graph, input: Tensor | Array, other: Tensor | Array) -> Tensor:
    return linear.matmul(graph, input, other, dense=True)


def _einsum(graph: Graph, equation: Any, *operands: Any) -> Tensor:
    parts = operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    if not isinstance(equation, str) or "." in equation:
        raise UnsupportedOperator("only an equation in letters, without an ellipsis, is supported")
    if len(parts) > 2:
        raise UnsupportedOperator("only two operands are supported")
    return linear.einsum(graph, equation, [_number(part, "operand") for part in parts], dense=True)


def _addmm(graph: Graph, input: Tensor, mat1: Any, mat2: Any, beta: float, alpha: float) -> Tensor:
    """beta input + alpha mat1 @ mat2."""
    product = graph.scale_and_shift(_matmul(graph, mat1, mat2), alpha, 0.0)
    return graph.add(product, graph.scale_and_shift(input, beta, 0.0))


def _number(value: Any, what: str) -> Tensor | Array:
    return tensor(value, what) if is_live(value) else real(value, what)


# --- order, normalisation, what does nothing in evaluation ------------------------------------------------------------


def _sort(graph: Graph, x: Tensor, dim: int, descending: bool, _stable: Any) -> Any:
    return rewrites.sort(graph, x, dim, descending=descending), _INDICES


def _sort_rows(graph: Graph, x: Tensor) -> Tensor:
    return rewrites.sort(graph, x, 0, descending=False)


def _top_k(graph: Graph, x: Tensor, k: int, dim: int, largest: bool, in_order: bool) -> Any:
    if k > 1 and not in_order:
        raise UnsupportedOperator("leaves the order of its values open; sorted=True is supported")
    return arithmetic.first_sorted(graph, x, dim, k, largest), _INDICES


def _batch_norm(graph: Graph, x: Tensor, mean: Array | None, variance: Array | None, *settings: Any) -> Tensor:
    scale, shift, training, _, epsilon = settings
    if mean is None or variance is None:
        raise UnsupportedOperator("it keeps no running statistics (track_running_stats=False)")
    if training:
        raise UnsupportedOperator("normalises by the batch; only evaluation (training=False) is supported")
    scale = np.ones(mean.shape) if scale is None else scale
    shift = np.zeros(mean.shape) if shift is None else shift
    return linear.normalize_channels(graph, x, (scale, shift, mean, variance), epsilon)


def _dropout(graph: Graph, x: Tensor, p: float, training: bool, train: Any) -> Tensor:  # noqa: ARG001
    if (training if train is None else train) and p > 0.0:
        raise UnsupportedOperator("drops values in evaluation too; call it with training=self.training")
    return x


def _all(names: str, apply: Callable[..., Any], how: Any, words: str) -> dict[str, Entry]:
    return dict.fromkeys(names.split(), Entry(apply, how, words))


_DROPOUTS = "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout"
_DROPOUT = call(_dropout, p=0.5, training=True, train=(as_given, None))
_DIM = {"dim": (as_given, None), "keepdim": False}
_BATCH_NORM = call(
    _batch_norm, running_mean=(optional, None), running_var=(optional, None), weight=(optional, None),
    bias=(optional, None), training=False, momentum=(as_given, 0.1), eps=1e-5,
)  # fmt: skip
_PLAIN = {
    "relu": "relu", "silu": "silu", "mish": "mish", "hardswish": "hardswish", "sigmoid": "sigmoid",
    "special_expit": "sigmoid", "tanh": "tanh", "erf": "erf", "special_erf": "erf", "softsign": "softsign",
    "exp": "exp", "sin": "sin", "cos": "cos", "atan": "atan", "arctan": "atan", "sinh": "sinh", "cosh": "cosh",
}  # fmt: skip
_POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}
_LOG_SIGMOID = Entry(call(activations.log_sigmoid), "rewritten", "-softplus(-x)")
_THRESHOLD = Entry(
    call(activations.threshold, threshold=number, value=number),
    "rewritten",
    "ReLU, where value and threshold are equal",
)
_ABSOLUTE = Entry(call(rewrites.absolute), "rewritten", "2 relu(x) - x")
_CLAMP = Entry(call(activations.clamp, min=(optional, None), max=(optional, None)), "rewritten", "two ReLUs")
_ACTIVATIONS: dict[str, Entry] = {
    **{name: Entry(call(plain(kind)), "read", "activation") for name, kind in _PLAIN.items()},
    **{name: Entry(call(partial(products.power, exponent=p)), "read", "activation") for name, p in _POWERS.items()},
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
    "glu": Entry(call(products.gated, dim=-1), "rewritten", "a product by squares with a sigmoid"),
}
_SORTED = "a network of comparisons; indices are refused"
_MASK = "a comparison, for torch.where or a product with it"
_TWO = "affine, by a constant; of two tensors by squares"
_MEET = "where the two pieces meet"
_COMPARISONS = {"gt greater": ">", "ge greater_equal": ">=", "lt less": "<", "le less_equal": "<="}
FUNCTIONS: dict[str, Entry] = {
    **_ACTIVATIONS,
    **WINDOWS,
    "linear": Entry(call(_linear, weight=real, bias=(optional, None)), "read", "affine"),
    **_all("matmul mm bmm mv imatmul", call(_matmul, input=_number, other=_number), "read",
           _TWO),
    "einsum": Entry(_einsum, "read", _TWO),
    "addmm": Entry(call(_addmm, mat1=_number, mat2=_number, beta=1.0, alpha=1.0), "read", _TWO),
    **SHAPES,
    **_all("add iadd", _sum(1.0), "read", "affine, of branches too"),
    **_all("sub subtract isub", _sum(-1.0), "read", "affine, of branches too"),
    "rsub": Entry(_sum(-1.0, exchanged=True), "read", "affine, of branches too"),
    **_all("mul multiply imul", call(arithmetic.multiply, **_PAIR), "read",
           "affine, by a constant; of tensors by squares, or an activation"),
    **_all("div divide true_divide truediv itruediv", call(_divide, **_PAIR, rounding_mode=(as_given, None)), "read",
           "affine, by a constant; of tensors times the reciprocal; softsign"),
    **_all("neg negative", call(arithmetic.negate), "read", "affine"),
    **_all("pow float_power", call(arithmetic.power, input=operand, exponent=operand), "read",
           "activation; one exponent for all entries, or exp(y log x)"),
    "log": Entry(call(recognised.logarithm), "read", "activation; that of a sigmoid is minus a softplus"),
    **{name: Entry(call(partial(arithmetic.compare, relation=relation), **_PAIR), "read", _MASK)
       for names, relation in _COMPARISONS.items() for name in names.split()},
    **_all("invert logical_not bitwise_not not_", call(arithmetic.invert, input=operand), "read", _MASK),
    "where": Entry(_where, "rewritten", _MEET),
    "masked_fill": Entry(_masked_fill, "rewritten", _MEET),
    **_all("maximum fmax", call(partial(_extreme, largest=True), **_PAIR), "rewritten", "a + relu(b - a)"),
    **_all("minimum fmin", call(partial(_extreme, largest=False), **_PAIR), "rewritten", "b - relu(b - a)"),
    "max": Entry(_largest_or_smallest(True), "rewritten", "a tournament of ReLUs; indices are refused"),
    "min": Entry(_largest_or_smallest(False), "rewritten", "a tournament of ReLUs; indices are refused"),
    "amax": Entry(call(partial(_extreme_along, largest=True), **_DIM), "rewritten", "a tournament of ReLUs"),
    "amin": Entry(call(partial(_extreme_along, largest=False), **_DIM), "rewritten", "a tournament of ReLUs"),
    "sum": Entry(call(partial(_summed, mean=False), **_DIM), "read", "affine"),
    "mean": Entry(call(partial(_summed, mean=True), **_DIM), "read", "affine"),
    "sort": Entry(call(_sort, dim=-1, descending=False, stable=(as_given, False)), "rewritten", _SORTED),
    "msort": Entry(call(_sort_rows), "rewritten", "a network of comparisons"),
    "topk": Entry(call(_top_k, k=whole, dim=-1, largest=True, sorted=True), "rewritten", _SORTED),
    "batch_norm": Entry(_BATCH_NORM, "read", "affine, with running statistics"),
    **{name: Entry(_DROPOUT, "left out", "as in evaluation", is_view=True) for name in _DROPOUTS.split()},
    **NORMS,
    "local_response_norm": refused("divides by powers of sums over its input, which is not read"),
    "bilinear": refused("is not read; write it as a product"),
    **dict.fromkeys(("argmax", "argmin", "argsort", "round", "floor", "ceil", "trunc", "sign", "eq", "ne", "heaviside"),
                    refused("its values jump")),
}  # fmt: skip

# Methods whose arguments come in another order than those of the function of the same name.
METHODS: dict[str, Entry] = {"where": Entry(_where_method, "rewritten", _MEET)}

# Functions that may not make a constant: the module would be another one each time.
RANDOM = frozenset(
    ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson", "rand_like", "randn_like",
     "randint_like", "uniform", "exponential", "geometric", "cauchy", "log_normal", "random")
)  # fmt: skip
