"""Functions and methods of torch by name: arithmetic, comparisons, reductions, and the table of all that are read.

torch.f(x, ..), x.f(..) and the operators of Python are the same entries. A function whose arguments are all constants
is not looked up here: torch itself computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lipcert.errors import UnsupportedOperator
from lipcert.readers.graph import arithmetic, choices, layers, products, rewrites
from lipcert.readers.graph.choices import Condition
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.activations import ACTIVATIONS
from lipcert.readers.torch.products import PRODUCTS
from lipcert.readers.torch.shapes import SHAPES
from lipcert.readers.torch.values import (
    Entry,
    Unread,
    as_given,
    axes_of,
    call,
    flag,
    is_live,
    number,
    numbers,
    real,
    refused,
    tensor,
    whole,
)
from lipcert.readers.torch.windows import WINDOWS
from lipcert.rounding import Array

_INDICES = Unread("uses the indices of a maximum or of an order, which jump; use the values")


def _sum(sign: float, *, exchanged: bool = False) -> Callable[..., Any]:
    """input + alpha other, input - alpha other, or other - alpha input."""

    def apply(graph: Graph, input: Any, other: Any, *, alpha: Any = 1) -> Any:
        a, b = (other, input) if exchanged else (input, other)
        return arithmetic.add(graph, _operand(a), _operand(b), sign * number(alpha, "alpha"))

    return apply


def multiply(graph: Graph, input: Any, other: Any) -> Any:
    a, b = (value if isinstance(value, Condition) else _operand(value) for value in (input, other))
    return arithmetic.multiply(graph, a, b)


def divide(graph: Graph, input: Any, other: Any, *, rounding_mode: Any = None) -> Tensor:
    if rounding_mode is not None:
        raise UnsupportedOperator("rounds its result: the value jumps")
    return arithmetic.divide(graph, _operand(input), _operand(other))


def _square(graph: Graph, x: Tensor) -> Tensor:
    return products.product(graph, x, x)


def _operand(value: Any, what: str = "operand") -> Tensor | Array:
    """A tensor of the network, or the numbers of a constant."""
    return tensor(value) if is_live(value) else real(value, what)


def compare(relation: str) -> Callable[..., Condition]:
    """x > y and the like."""

    def apply(graph: Graph, input: Any, other: Any) -> Condition:
        return choices.compare(graph, tensor(input), tensor(other), relation)

    return apply


def invert(graph: Graph, input: Any) -> Condition:  # noqa: ARG001
    if not isinstance(input, Condition):
        raise UnsupportedOperator("is for comparisons only")
    return input.inverted()


def where(graph: Graph, condition: Any, input: Any = None, other: Any = None) -> Tensor:
    if input is None or other is None:
        raise UnsupportedOperator("asks for places that depend on the input")
    chosen = condition if isinstance(condition, Condition) else numbers(condition, "condition")
    return choices.choose(graph, chosen, tensor(input), tensor(other))


def where_method(graph: Graph, input: Any, condition: Any, other: Any) -> Tensor:
    return where(graph, condition, input, other)


def masked_fill(graph: Graph, input: Any, mask: Any, value: Any) -> Tensor:
    return where(graph, mask, value, input)


def _extreme(largest: bool) -> Callable[..., Tensor]:
    def apply(graph: Graph, input: Any, other: Any) -> Tensor:
        return arithmetic.extreme(graph, [_operand(input), _operand(other)], largest)

    return apply


def _extreme_along(largest: bool) -> Callable[..., Tensor]:
    def apply(graph: Graph, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
        return arithmetic.extreme_along(graph, x, axes_of(x, dim), keepdim, largest)

    return call(apply, dim=(as_given, ()), keepdim=False)


def max_or_min(largest: bool) -> Callable[..., Any]:
    """torch.max(x), torch.max(x, dim) with its indices, and torch.max(x, y)."""

    def apply(graph: Graph, input: Any, dim: Any = None, keepdim: Any = False, *, other: Any = None) -> Any:
        second = dim if is_live(dim) or hasattr(dim, "shape") else other
        if second is not None:
            return _extreme(largest)(graph, input, second)
        values = _extreme_along(largest)(graph, input, dim, keepdim)
        return values if dim is None else (values, _INDICES)

    return apply


def _summed(mean: bool) -> Callable[..., Tensor]:
    def apply(graph: Graph, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
        return layers.summed(graph, x, axes_of(x, dim), keepdim, mean=mean)

    return call(apply, dim=(as_given, None), keepdim=False)


def _sort(graph: Graph, x: Tensor, dim: int, descending: bool, _stable: Any) -> Any:
    return rewrites.sort(graph, x, dim, descending=descending), _INDICES


def _sort_rows(graph: Graph, x: Tensor) -> Tensor:
    return rewrites.sort(graph, x, 0, descending=False)


def _top_k(graph: Graph, x: Tensor, k: int, dim: int, largest: bool, in_order: bool) -> Any:
    if k > 1 and not in_order:
        raise UnsupportedOperator("leaves the order of its values open; sorted=True is supported")
    return arithmetic.first_sorted(graph, x, dim, k, largest), _INDICES


def batch_norm(
    graph: Graph, input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: Any = False, momentum: Any = 0.1, eps: Any = 1e-5,  # noqa: ARG001
) -> Tensor:  # fmt: skip
    if running_mean is None or running_var is None:
        raise UnsupportedOperator("it keeps no running statistics (track_running_stats=False)")
    if flag(training, "training"):
        raise UnsupportedOperator("normalises by the batch; only evaluation (training=False) is supported")
    average, variance = real(running_mean, "mean"), real(running_var, "variance")
    scale = np.ones(average.shape) if weight is None else real(weight, "weight")
    shift = np.zeros(average.shape) if bias is None else real(bias, "bias")
    return layers.normalize_channels(graph, tensor(input), (scale, shift, average, variance), number(eps, "eps"))


def dropout(graph: Graph, input: Any, p: Any = 0.5, training: Any = True, train: Any = None) -> Tensor:  # noqa: ARG001
    if flag(training if train is None else train, "training") and number(p, "p") > 0.0:
        raise UnsupportedOperator("drops values in evaluation too; call it with training=self.training")
    return tensor(input)


def left_out(name: str) -> Callable[..., Tensor]:
    """A softmax, which may be the last thing that happens."""

    def apply(graph: Graph, input: Any, dim: Any = None, dtype: Any = None) -> Tensor:  # noqa: ARG001
        return graph.drop(tensor(input), name)

    return apply


def _all(names: str, apply: Callable[..., Any], how: Any, words: str) -> dict[str, Entry]:
    return dict.fromkeys(names.split(), Entry(apply, how, words))


_DROPOUTS = "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout"
_SORTED = "a network of comparisons; indices are refused"
_MASK = "a comparison, for torch.where or a product with it"
FUNCTIONS: dict[str, Entry] = {
    **ACTIVATIONS,
    **WINDOWS,
    **PRODUCTS,
    **SHAPES,
    **_all("add iadd", _sum(1.0), "read", "affine, of branches too"),
    **_all("sub subtract isub", _sum(-1.0), "read", "affine, of branches too"),
    "rsub": Entry(_sum(-1.0, exchanged=True), "read", "affine, of branches too"),
    **_all("mul multiply imul", multiply, "read", "affine, by a constant; of tensors where it is an activation"),
    **_all("div divide true_divide truediv itruediv", divide, "read", "affine, by a constant; softsign"),
    **_all("neg negative", call(arithmetic.negate), "read", "affine"),
    "square": Entry(call(_square), "refused", "its slope has no bound"),
    "pow": Entry(call(arithmetic.power, exponent=_operand), "refused", "its slope has no bound"),
    "log": Entry(call(products.logarithm), "rewritten", "of a sigmoid only"),
    **_all("gt greater", compare(">"), "read", _MASK),
    **_all("ge greater_equal", compare(">="), "read", _MASK),
    **_all("lt less", compare("<"), "read", _MASK),
    **_all("le less_equal", compare("<="), "read", _MASK),
    **_all("invert logical_not bitwise_not not_", invert, "read", _MASK),
    "where": Entry(where, "rewritten", "where the two pieces meet"),
    "masked_fill": Entry(masked_fill, "rewritten", "where the two pieces meet"),
    **_all("maximum fmax", _extreme(True), "rewritten", "a + relu(b - a)"),
    **_all("minimum fmin", _extreme(False), "rewritten", "b - relu(b - a)"),
    "max": Entry(max_or_min(True), "rewritten", "a tournament of ReLUs; indices are refused"),
    "min": Entry(max_or_min(False), "rewritten", "a tournament of ReLUs; indices are refused"),
    "amax": Entry(_extreme_along(True), "rewritten", "a tournament of ReLUs"),
    "amin": Entry(_extreme_along(False), "rewritten", "a tournament of ReLUs"),
    "sum": Entry(_summed(mean=False), "read", "affine"),
    "mean": Entry(_summed(mean=True), "read", "affine"),
    "sort": Entry(call(_sort, dim=-1, descending=False, stable=(as_given, False)), "rewritten", _SORTED),
    "msort": Entry(call(_sort_rows), "rewritten", "a network of comparisons"),
    "topk": Entry(call(_top_k, k=whole, dim=-1, largest=True, sorted=True), "rewritten", _SORTED),
    "batch_norm": Entry(batch_norm, "read", "affine, with running statistics"),
    **{name: Entry(dropout, "left out", "as in evaluation", is_view=True) for name in _DROPOUTS.split()},
    **{name: Entry(left_out(name), "left out", "at the end only") for name in ("softmax", "log_softmax")},
    "normalize": refused("divides by a norm of the network's tensor, whose slope has no bound near zero"),
    **dict.fromkeys(("norm", "vector_norm", "linalg_vector_norm"), refused("is a norm: no activation of one number")),
    **dict.fromkeys(("layer_norm", "group_norm", "instance_norm", "rms_norm", "local_response_norm"),
                    refused("divides by statistics of its own input")),
    "scaled_dot_product_attention": refused("multiplies tensors that both depend on the input"),
    "bilinear": refused("multiplies two tensors that both depend on the input"),
    "exp": refused("its slope has no bound"),
    **dict.fromkeys(("argmax", "argmin", "argsort", "round", "floor", "ceil", "trunc", "sign", "eq", "ne", "heaviside"),
                    refused("its values jump")),
}  # fmt: skip

# Methods whose arguments come in another order than those of the function of the same name.
METHODS: dict[str, Entry] = {"where": Entry(where_method, "rewritten", "where the two pieces meet")}

# What a constant may not be made by: the module would be another one each time.
RANDOM = frozenset(
    ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson", "rand_like", "randn_like",
     "randint_like", "uniform", "exponential", "geometric", "cauchy", "log_normal", "random")
)  # fmt: skip
