"""Functions and methods of torch by name: arithmetic, comparisons, reductions, and the table of all that are read.

torch.f(x, ..), x.f(..) and the operators of Python are the same entries. A function whose arguments are all constants
is not looked up here: torch itself computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.readers.graph import choices, layers, products, rewrites
from lipcert.readers.graph.choices import Condition
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.activations import ACTIVATIONS
from lipcert.readers.torch.indexing import item
from lipcert.readers.torch.products import PRODUCTS
from lipcert.readers.torch.resizing import RESIZING
from lipcert.readers.torch.shapes import SHAPES
from lipcert.readers.torch.values import (
    Entry,
    Unread,
    axes_of,
    flag,
    is_live,
    number,
    numbers,
    picked,
    real,
    refused,
    tensor,
    whole,
)
from lipcert.readers.torch.windows import WINDOWS

_INDICES = Unread("uses the indices of a maximum or of an order, which jump; use the values")


def add(graph: Graph, input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    factor = number(alpha, "alpha")
    if not is_live(other):
        return graph.scale_and_shift(tensor(input), 1.0, factor * real(other, "operand"))
    second = graph.scale_and_shift(tensor(other), factor, 0.0)
    return graph.add(tensor(input), second) if is_live(input) else add(graph, second, input)


def subtract(graph: Graph, input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return add(graph, input, other, alpha=-number(alpha, "alpha"))


def reversed_subtract(graph: Graph, input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return subtract(graph, other, input, alpha=alpha)


def multiply(graph: Graph, input: Any, other: Any) -> Tensor:
    if is_live(input) and is_live(other):
        return products.product(graph, input, other)
    live, fixed = (input, other) if is_live(input) else (other, input)
    factor = real(fixed, "factor")
    if isinstance(live, Condition):
        return choices.choose(graph, live, factor, np.zeros(()))
    return graph.scale_and_shift(tensor(live), factor, 0.0)


def divide(graph: Graph, input: Any, other: Any, *, rounding_mode: Any = None) -> Tensor:
    if rounding_mode is not None:
        raise UnsupportedOperator("rounds its result: the value jumps")
    if is_live(other):
        return products.quotient(graph, tensor(input), tensor(other))
    divisor = real(other, "divisor")
    if not np.all(divisor):
        raise InputError("divides by zero")
    return graph.scale_and_shift(tensor(input), 1.0 / divisor, 0.0)


def negative(graph: Graph, input: Any) -> Tensor:
    return graph.scale_and_shift(tensor(input), -1.0, 0.0)


def square(graph: Graph, input: Any) -> Tensor:
    return products.product(graph, tensor(input), tensor(input))


def power(graph: Graph, input: Any, exponent: Any) -> Tensor:  # noqa: ARG001
    if is_live(exponent) or number(exponent, "exponent") != 1.0:
        raise UnsupportedOperator("is a power of the network's tensor, whose slope has no bound")
    return tensor(input)


def logarithm(graph: Graph, input: Any) -> Tensor:
    return products.logarithm(graph, tensor(input))


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


def extreme(graph: Graph, input: Any, dim: Any, keepdim: Any, largest: bool) -> Tensor:
    x = tensor(input)
    axes, keep = axes_of(x, dim), flag(keepdim, "keepdim")
    return (rewrites.largest if largest else rewrites.smallest)(graph, x, axes, keep)


def maximum(graph: Graph, input: Any, other: Any) -> Tensor:
    if is_live(input) and is_live(other):
        return rewrites.larger(graph, tensor(input), tensor(other))
    live, fixed = (input, other) if is_live(input) else (other, input)
    return rewrites.larger_than(graph, tensor(live), real(fixed, "operand"))


def minimum(graph: Graph, input: Any, other: Any) -> Tensor:
    if is_live(input) and is_live(other):
        return rewrites.smaller(graph, tensor(input), tensor(other))
    live, fixed = (input, other) if is_live(input) else (other, input)
    return rewrites.smaller_than(graph, tensor(live), real(fixed, "operand"))


def max_or_min(largest: bool) -> Callable[..., Any]:
    """torch.max(x), torch.max(x, dim) with its indices, and torch.max(x, y)."""

    def apply(graph: Graph, input: Any, dim: Any = None, keepdim: Any = False, *, other: Any = None) -> Any:
        second = dim if is_live(dim) or hasattr(dim, "shape") else other
        if second is not None:
            return (maximum if largest else minimum)(graph, input, second)
        values = extreme(graph, input, dim, keepdim, largest)
        return values if dim is None else (values, _INDICES)

    return apply


def amax(graph: Graph, input: Any, dim: Any = (), keepdim: Any = False) -> Tensor:
    return extreme(graph, input, dim, keepdim, True)


def amin(graph: Graph, input: Any, dim: Any = (), keepdim: Any = False) -> Tensor:
    return extreme(graph, input, dim, keepdim, False)


def total(graph: Graph, input: Any, dim: Any = None, keepdim: Any = False) -> Tensor:
    x = tensor(input)
    return layers.summed(graph, x, axes_of(x, dim), flag(keepdim, "keepdim"))


def mean(graph: Graph, input: Any, dim: Any = None, keepdim: Any = False) -> Tensor:
    x = tensor(input)
    return layers.summed(graph, x, axes_of(x, dim), flag(keepdim, "keepdim"), mean=True)


def sort(graph: Graph, input: Any, dim: Any = -1, descending: Any = False, stable: Any = False) -> Any:  # noqa: ARG001
    x = tensor(input)
    return rewrites.sort(graph, x, whole(dim, "dim"), descending=flag(descending, "descending")), _INDICES


def topk(graph: Graph, input: Any, k: Any, dim: Any = -1, largest: Any = True, sorted: Any = True) -> Any:
    x, count = tensor(input), whole(k, "k")
    axis = x.axis(whole(dim, "dim"))
    if count == 1:
        return extreme(graph, x, axis, True, flag(largest, "largest")), _INDICES
    if not sorted:
        raise UnsupportedOperator("leaves the order of its values open; sorted=True is supported")
    values = rewrites.sort(graph, x, axis, descending=flag(largest, "largest"))
    return item(graph, values, (slice(None),) * axis + (slice(0, count),)), _INDICES


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


def diagonal_matrix(graph: Graph, input: Any) -> Tensor:
    x = tensor(input)
    if len(x.shape) != 1:
        raise UnsupportedOperator("is only supported for vectors")
    return picked(graph, x, np.diag(x.places + 1) - 1)


def _all(names: str, apply: Callable[..., Any], how: Any, words: str) -> dict[str, Entry]:
    return dict.fromkeys(names.split(), Entry(apply, how, words))


_DROPOUTS = "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout"
_MASK = "a comparison, for torch.where or a product with it"
FUNCTIONS: dict[str, Entry] = {
    **ACTIVATIONS,
    **WINDOWS,
    **RESIZING,
    **PRODUCTS,
    **SHAPES,
    **_all("add iadd", add, "read", "affine, of branches too"),
    **_all("sub subtract isub", subtract, "read", "affine, of branches too"),
    "rsub": Entry(reversed_subtract, "read", "affine, of branches too"),
    **_all("mul multiply imul", multiply, "read", "affine, by a constant; of tensors where it is an activation"),
    **_all("div divide true_divide truediv itruediv", divide, "read", "affine, by a constant; softsign"),
    **_all("neg negative", negative, "read", "affine"),
    "square": Entry(square, "refused", "its slope has no bound"),
    "pow": Entry(power, "refused", "its slope has no bound"),
    "log": Entry(logarithm, "rewritten", "of a sigmoid only"),
    **_all("gt greater", compare(">"), "read", _MASK),
    **_all("ge greater_equal", compare(">="), "read", _MASK),
    **_all("lt less", compare("<"), "read", _MASK),
    **_all("le less_equal", compare("<="), "read", _MASK),
    **_all("invert logical_not bitwise_not not_", invert, "read", _MASK),
    "where": Entry(where, "rewritten", "where the two pieces meet"),
    "masked_fill": Entry(masked_fill, "rewritten", "where the two pieces meet"),
    **_all("maximum fmax", maximum, "rewritten", "a + relu(b - a)"),
    **_all("minimum fmin", minimum, "rewritten", "b - relu(b - a)"),
    "max": Entry(max_or_min(True), "rewritten", "a tournament of ReLUs; indices are refused"),
    "min": Entry(max_or_min(False), "rewritten", "a tournament of ReLUs; indices are refused"),
    "amax": Entry(amax, "rewritten", "a tournament of ReLUs"),
    "amin": Entry(amin, "rewritten", "a tournament of ReLUs"),
    "sum": Entry(total, "read", "affine"),
    "mean": Entry(mean, "read", "affine"),
    "sort": Entry(sort, "rewritten", "a network of comparisons; indices are refused"),
    "msort": Entry(lambda graph, input: sort(graph, input, 0)[0], "rewritten", "a network of comparisons"),
    "topk": Entry(topk, "rewritten", "a network of comparisons; indices are refused"),
    "batch_norm": Entry(batch_norm, "read", "affine, with running statistics"),
    **{name: Entry(dropout, "left out", "as in evaluation", is_view=True) for name in _DROPOUTS.split()},
    **{name: Entry(left_out(name), "left out", "at the end only") for name in ("softmax", "log_softmax")},
    "diag": Entry(diagonal_matrix, "read", "a rearrangement"),
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
