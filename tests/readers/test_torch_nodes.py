"""Nodes of traced forwards, made by hand: functions and methods against numpy, without torch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.activations import KINDS
from lipcert.readers.graph.tensors import Graph
from lipcert.readers.torch.functions import FUNCTIONS
from lipcert.readers.torch.layers import LAYERS
from lipcert.readers.torch.nodes import Nodes
from lipcert.rounding import Array

RNG = np.random.default_rng(7)
W, V, K = RNG.normal(size=(4, 3)), RNG.normal(size=4), RNG.normal(size=(3, 2, 2, 2))


def function(name: str, home: str = "torch.nn.functional") -> Any:
    """Stands in for a function of torch: only its name and its home are looked at."""
    return SimpleNamespace(__name__=name, __module__=home)


class Forward:
    """A forward written node by node; `x` is its input."""

    def __init__(self, shape: tuple[int, ...], **attributes: Any) -> None:
        self.graph = Graph((1, *shape))
        self.nodes = Nodes(self.graph, lambda name: attributes[name], lambda name: attributes[name])
        self._count = 0
        self.x = self.add("placeholder", "x")

    def add(self, op: str, target: Any, *args: Any, **kwargs: Any) -> Any:
        self._count += 1
        node = SimpleNamespace(op=op, target=target, args=args, kwargs=kwargs, name=f"n{self._count}")
        self.nodes.run(node, "forward of Net")
        return node

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """A function of torch.nn.functional by its name, a method by .name, or a function itself."""
        if isinstance(target, str) and target.startswith("."):
            return self.add("call_method", target[1:], *args, **kwargs)
        return self.add("call_function", function(target) if isinstance(target, str) else target, *args, **kwargs)

    def values(self, node: Any, x: Array) -> Array:
        network = self.graph.network(self.nodes.resolved(node))
        return network.forward(x.reshape(len(x), -1)).reshape(len(x), *self.nodes.value(node).shape[1:])


Reference = Callable[[Array], Array]
X = ("x",)
# The input's shape, the function, its arguments with "x" for the input, and the same by numpy on a batch.
CASES: dict[str, tuple[tuple[int, ...], Any, tuple[Any, ...], dict[str, Any], Reference]] = {
    "relu": ((4,), "relu", X, {"inplace": False}, lambda x: np.maximum(x, 0)),
    "leaky": ((4,), "leaky_relu", ("x", 0.2), {}, lambda x: np.where(x > 0, x, 0.2 * x)),
    "leaky down": ((4,), "leaky_relu", ("x", -0.5), {}, lambda x: np.where(x > 0, x, -0.5 * x)),
    "prelu": ((4, 2), "prelu", ("x", V), {}, lambda x: np.where(x > 0, x, V[:, None] * x)),
    "rrelu": ((4,), "rrelu", ("x", 0.1, 0.3), {"training": False}, lambda x: np.where(x > 0, x, 0.2 * x)),
    "elu": ((4,), "elu", ("x", 0.5), {}, lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "selu": ((4,), "selu", X, {}, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    "celu": ((4,), "celu", ("x", 2.0), {}, lambda x: np.where(x > 0, x, 2.0 * np.expm1(x / 2.0))),
    "softplus": ((4,), "softplus", ("x", 3.0), {}, lambda x: np.log1p(np.exp(3.0 * x)) / 3.0),
    "log sigmoid": ((4,), "logsigmoid", X, {}, lambda x: -np.log1p(np.exp(-x))),
    "hardtanh": ((4,), "hardtanh", ("x", -0.5, 0.7), {}, lambda x: np.clip(x, -0.5, 0.7)),
    "hardsigmoid": ((4,), "hardsigmoid", X, {}, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "relu6": ((4,), "relu6", X, {}, lambda x: np.clip(x, 0, 6)),
    "threshold": ((4,), "_threshold", ("x", 0.3, 0.3), {}, lambda x: np.maximum(x, 0.3)),
    "softshrink": ((4,), "softshrink", ("x", 0.4), {}, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.4, 0)),
    "tanhshrink": ((4,), "tanhshrink", X, {}, lambda x: x - np.tanh(x)),
    "sigmoid": ((4,), ".sigmoid", X, {}, lambda x: 1 / (1 + np.exp(-x))),
    "abs": ((4,), ".abs", X, {}, np.abs),
    "clamp": ((4,), ".clamp", X, {"min": -0.2}, lambda x: np.maximum(x, -0.2)),
    "clamp by array": ((4,), ".clamp", ("x", V, V + 1), {}, lambda x: np.clip(x, V, V + 1)),
    "view": ((4, 3), ".view", ("x", 1, -1, 2), {}, lambda x: x.reshape(-1, 6, 2)),
    "flatten": ((4, 3), function("flatten", "torch"), ("x", 1), {}, lambda x: x.reshape(-1, 12)),
    "unflatten": ((6,), ".unflatten", ("x", 1, (-1, 2)), {}, lambda x: x.reshape(-1, 3, 2)),
    "permute": ((4, 3), ".permute", ("x", (0, 2, 1)), {}, lambda x: x.transpose(0, 2, 1)),
    "transpose": ((4, 3), ".transpose", ("x", 1, -1), {}, lambda x: x.swapaxes(1, 2)),
    "movedim": ((4, 3), ".movedim", ("x", 1, 2), {}, lambda x: np.moveaxis(x, 1, 2)),
    "unsqueeze": ((4,), ".unsqueeze", ("x", -1), {}, lambda x: x[..., None]),
    "squeeze": ((1, 4), ".squeeze", ("x", 1), {}, lambda x: x[:, 0]),
    "expand": ((4, 1), ".expand", ("x", -1, 4, 3), {}, lambda x: np.broadcast_to(x, (len(x), 4, 3))),
    "repeat": ((4,), ".repeat", ("x", 1, 2), {}, lambda x: np.tile(x, (1, 2))),
    "interleave": ((4,), ".repeat_interleave", ("x", 2), {"dim": 1}, lambda x: np.repeat(x, 2, axis=1)),
    "flip": ((4,), ".flip", ("x", [1]), {}, lambda x: x[:, ::-1]),
    "roll": ((4,), ".roll", ("x", 1, 1), {}, lambda x: np.roll(x, 1, axis=1)),
    "narrow": ((4,), ".narrow", ("x", 1, 1, 2), {}, lambda x: x[:, 1:3]),
    "select": ((4, 3), ".select", ("x", 1, -1), {}, lambda x: x[:, -1]),
    "slice": ((4, 3), operator.getitem, ("x", (..., slice(None, None, 2))), {}, lambda x: x[..., ::2]),
    "list": ((4, 3), operator.getitem, ("x", (slice(None), [2, 0])), {}, lambda x: x[:, [2, 0]]),
    "mask": ((4,), operator.getitem, ("x", (slice(None), V > 0)), {}, lambda x: x[:, V > 0]),
    "int and none": ((4, 3), operator.getitem, ("x", (slice(None), -1, None)), {}, lambda x: x[:, -1, None]),
    "cat": ((4,), "cat", (["x", V[None], "x"], 1), {}, lambda x: np.hstack([x, np.tile(V, (len(x), 1)), x])),
    "stack": ((4,), "stack", (["x", "x"],), {"dim": 2}, lambda x: np.stack([x, x], axis=2)),
    "add": ((4,), operator.add, ("x", V), {}, lambda x: x + V),
    "add alpha": ((4,), function("add", "torch"), ("x", V), {"alpha": 2}, lambda x: x + 2 * V),
    "branches": ((4,), operator.sub, ("x", "x"), {}, lambda x: x - x),
    "from a number": ((4,), operator.sub, (1.0, "x"), {}, lambda x: 1.0 - x),
    "reflected": ((4,), ".__rsub__", ("x", 1.0), {}, lambda x: 1.0 - x),
    "mul": ((4,), operator.mul, (V, "x"), {}, lambda x: V * x),
    "div": ((4,), operator.truediv, ("x", V), {}, lambda x: x / V),
    "neg": ((4,), operator.neg, X, {}, lambda x: -x),
    "linear": ((3,), "linear", ("x", W, V), {}, lambda x: x @ W.T + V),
    "matmul": ((4,), operator.matmul, ("x", W), {}, lambda x: x @ W),
    "matmul vector": ((4,), operator.matmul, ("x", V), {}, lambda x: x @ V),
    "matmul left": ((3, 2), operator.matmul, (W, "x"), {}, lambda x: W @ x),
    "matmul batch": ((1, 2, 2), "matmul", (K[:, 0], "x"), {}, lambda x: K[:, 0] @ x),
    "einsum": ((2, 3), "einsum", ("bhi,oi->boh", "x", W), {}, lambda x: np.einsum("bhi,oi->boh", x, W)),
    "einsum batch": ((4, 3), "einsum", ("bhi,hi->bh", "x", W), {}, lambda x: np.einsum("bhi,hi->bh", x, W)),
    "einsum sum": ((4, 3), "einsum", ("bhi->bi", "x"), {}, lambda x: x.sum(axis=1)),
    "addmm": ((4,), "addmm", (np.ones(3), "x", W), {"beta": 2, "alpha": 0.5}, lambda x: 2 + 0.5 * x @ W),
    "mean": ((4, 3), ".mean", ("x", [1, 2]), {"keepdim": True}, lambda x: x.mean(axis=(1, 2), keepdims=True)),
    "sum": ((4, 3), ".sum", X, {"dim": -1}, lambda x: x.sum(axis=-1)),
    "amax": ((4, 3), ".amax", ("x", 1), {}, lambda x: x.max(axis=1)),
    "amin": ((4, 3), ".amin", X, {"axis": 2}, lambda x: x.min(axis=2)),
    "maximum": ((4,), "maximum", ("x", V), {}, lambda x: np.maximum(x, V)),
    "min of two": ((4,), function("min", "torch"), ("x", V), {}, lambda x: np.minimum(x, V)),
    "batch norm": ((4,), "batch_norm", ("x", V, V**2), {"eps": 0.1}, lambda x: (x - V) / np.sqrt(V**2 + 0.1)),
    "dropout": ((4,), "dropout", X, {"p": 0.5, "training": False, "inplace": False}, lambda x: x),
    "to": ((4,), ".to", ("x", "cpu"), {}, lambda x: x),
    "avg pool": ((1, 4, 4), "avg_pool2d", ("x", 2), {}, lambda x: x.reshape(-1, 1, 2, 2, 2, 2).mean(axis=(3, 5))),
    "divisor": ((1, 4), "avg_pool1d", ("x", 2), {"divisor_override": 3}, lambda x: x.reshape(-1, 1, 2, 2).sum(3) / 3),
    "max pool": ((1, 4, 4), "max_pool2d", ("x", 2), {}, lambda x: x.reshape(-1, 1, 2, 2, 2, 2).max(axis=(3, 5))),
    "adaptive": ((1, 3), "adaptive_avg_pool1d", ("x", 2), {}, lambda x: (x[..., :2] + x[..., 1:]) / 2),
    "adaptive max": ((1, 3), "adaptive_max_pool1d", ("x", 2), {}, lambda x: np.maximum(x[..., :2], x[..., 1:])),
    "pad": ((4,), "pad", ("x", (1, 2)), {"value": 3.0}, lambda x: np.pad(x, ((0, 0), (1, 2)), constant_values=3.0)),
    "reflect": ((4,), "pad", ("x", (1, 2), "reflect"), {}, lambda x: np.pad(x, ((0, 0), (1, 2)), mode="reflect")),
    "circular": ((4,), "pad", ("x", (1, 2)), {"mode": "circular"}, lambda x: np.pad(x, ((0, 0), (1, 2)), mode="wrap")),
    "nearest": ((1, 3), "interpolate", X, {"scale_factor": 2}, lambda x: np.repeat(x, 2, axis=2)),
    "corners": ((1, 2), "interpolate", X, {"size": 3, "mode": "linear", "align_corners": True},
                lambda x: np.stack([x[..., 0], x.mean(axis=2), x[..., 1]], axis=2)),
    "area": ((1, 4), "interpolate", X, {"size": 2, "mode": "area"}, lambda x: x.reshape(-1, 1, 2, 2).mean(axis=3)),
    "shuffle": ((4, 1, 1), "pixel_shuffle", ("x", 2), {}, lambda x: x.reshape(-1, 1, 2, 2)),
    "unshuffle": ((1, 2, 2), "pixel_unshuffle", ("x", 2), {}, lambda x: x.reshape(-1, 4, 1, 1)),
    "channels": ((4, 2), "channel_shuffle", ("x", 2), {}, lambda x: x[:, [0, 2, 1, 3]]),
}  # fmt: skip


def with_input(value: Any, node: Any) -> Any:
    if isinstance(value, str) and value == "x":
        return node
    return [with_input(part, node) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", CASES)
def test_functions_agree_with_numpy(name: str) -> None:
    shape, target, args, kwargs, expected = CASES[name]
    forward = Forward(shape)
    node = forward.call(target, *(with_input(a, forward.x) for a in args), **kwargs)
    node = forward.call(operator.add, node, forward.call(".sum", forward.x))  # so that every output has the input in it
    x = 2.0 * RNG.normal(size=(5, *shape))
    total = x.reshape(5, -1).sum(axis=1)
    got = forward.values(node, x)
    np.testing.assert_allclose(got, expected(x) + total.reshape(-1, *(1,) * (got.ndim - 1)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["gelu", "silu", "mish", "hardswish", "softsign", "erf"])
def test_activations_with_a_kind_of_their_own(kind: str) -> None:
    if kind not in KINDS:
        pytest.skip(f"{kind} is no activation yet")
    forward = Forward((3,))
    network = forward.graph.network(forward.nodes.value(forward.call(kind, forward.x)))
    assert [f.kind for f in network.activations] == [kind]


def test_several_results_and_their_parts() -> None:
    forward = Forward((4,))
    a, b = (forward.call(operator.getitem, forward.call(".chunk", forward.x, 2, 1), i) for i in (0, 1))
    top = forward.call(operator.getitem, forward.call("max", forward.call("stack", [a, b]), 0), 0)
    order = forward.call(getattr, forward.call(".sort", forward.x, 1, descending=True), "values")
    best = forward.call(operator.getitem, forward.call(".topk", forward.x, 2), 0)
    x = RNG.normal(size=(6, 4))
    np.testing.assert_allclose(forward.values(top, x), np.maximum(x[:, :2], x[:, 2:]), rtol=1e-12)
    np.testing.assert_allclose(forward.values(order, x), -np.sort(-x, axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(forward.values(best, x), -np.sort(-x, axis=1)[:, :2], rtol=1e-9, atol=1e-12)
    places = forward.call(operator.getitem, forward.call(".sort", forward.x), 1)
    with pytest.raises(UnsupportedOperator, match="indices of a maximum"):
        forward.call(operator.add, places, 1)


def test_sizes_are_numbers() -> None:
    forward = Forward((4, 3))
    batch, shape = forward.call(".size", forward.x, 0), forward.call(getattr, forward.x, "shape")
    last = forward.call(operator.getitem, shape, 2)
    flat = forward.call(".reshape", forward.x, batch, forward.call(operator.mul, last, 4))
    assert forward.nodes.value(flat).shape == (1, 12)
    assert forward.nodes.value(forward.call(".dim", forward.x)) == 2 + 1


def test_comparisons_choose_pieces_that_meet() -> None:
    forward = Forward((4,))
    half = forward.call(operator.mul, forward.x, 0.5)
    mask = forward.call(operator.gt, forward.x, 0.0)
    chosen = forward.call("where", mask, forward.x, half)
    other = forward.call("where", forward.call(operator.invert, mask), forward.x, half)
    gated = forward.call(operator.mul, forward.x, forward.call(".float", mask))
    x = RNG.normal(size=(6, 4))
    np.testing.assert_allclose(forward.values(chosen, x), np.where(x > 0, x, x / 2), rtol=1e-12)
    np.testing.assert_allclose(forward.values(other, x), np.where(x > 0, x / 2, x), rtol=1e-12)
    np.testing.assert_allclose(forward.values(gated, x), np.maximum(x, 0), rtol=1e-12)
    with pytest.raises(UnsupportedOperator, match="jumps"):
        forward.call("where", mask, forward.x, 1.0)


def test_functions_of_constants_are_called_as_they_are() -> None:
    forward = Forward((4,), w=V)
    w = forward.add("get_attr", "w")
    bent = forward.add("call_function", np.tanh, w)
    whole = forward.call(operator.mul, forward.x, forward.call(operator.truediv, bent, forward.call(".sum", w)))
    x = RNG.normal(size=(6, 4))
    np.testing.assert_allclose(forward.values(whole, x), x * (np.tanh(V) / V.sum()), rtol=1e-12)


def test_in_place_functions_change_what_is_the_same_tensor() -> None:
    forward = Forward((4,))
    h = forward.call(operator.mul, forward.x, 3.0)
    forward.call(operator.iadd, h, 1.0)
    forward.call(".relu_", h)
    x = RNG.normal(size=(6, 4))
    np.testing.assert_allclose(forward.values(h, x), np.maximum(3 * x + 1, 0), rtol=1e-12)
    part = forward.call(operator.getitem, h, (slice(None), slice(0, 2)))
    forward.call("relu", part, inplace=True)
    with pytest.raises(UnsupportedOperator, match=r"node 'n2' is read after a view of it was changed in place"):
        forward.call(operator.add, h, 1.0)


def test_layers_are_looked_up() -> None:
    linear = SimpleNamespace(weight=W, bias=V)
    forward = Forward((3,), fc=("fc", linear, "Linear"), act=("act", SimpleNamespace(inplace=True), "ReLU"))
    h = forward.add("call_module", "fc", forward.x)
    forward.add("call_module", "act", h)
    x = RNG.normal(size=(6, 3))
    np.testing.assert_allclose(forward.values(h, x), np.maximum(x @ W.T + V, 0), rtol=1e-12)
    with pytest.raises(UnsupportedOperator, match="SimpleNamespace 'fc': it is given something else than one tensor"):
        forward.add("call_module", "fc", forward.x, forward.x)


REFUSED: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], str]] = {
    "unknown": (function("cumsum", "torch"), ("x", 1), {}, r"torch.cumsum \(node 'n2', forward of Net\): is not supp"),
    "method": (".cumsum", ("x", 1), {}, r"Tensor.cumsum \(node 'n2', forward of Net\)"),
    "elsewhere": (function("relu", "mine"), X, {}, r"mine.relu \(node 'n2', forward of Net\): is not supported"),
    "glu": ("glu", ("x", 0), {}, "no two halves"),
    "product": (operator.matmul, ("x", "x"), {}, "are multiplied as matrices"),
    "powers": (operator.pow, ("x", V), {}, "one exponent for all entries"),
    "zero": (operator.truediv, ("x", 0.0), {}, "divides by zero"),
    "norm": (function("norm", "torch"), ("x", 0.5), {}, "norm of order 0.5"),
    "arguments": ("relu", ("x", 1, 2), {}, "a way that is not known"),
    "dropout": ("dropout", X, {"training": True}, "drops values in evaluation too"),
    "random": (function("rand_like", "torch"), X, {}, "draws random numbers"),
    "integers": (".to", ("x", SimpleNamespace(is_floating_point=False)), {}, "whole numbers"),
    "view": (".view", ("x", 5, -1), {}, "cannot be reshaped"),
    "axis": (".mean", ("x", 3), {}, "has no axis 3"),
    "axis twice": (".mean", ("x", (1, -1)), {}, "names an axis twice"),
    "index": (operator.getitem, ("x", (0, 9)), {}, "out of bounds"),
    "live index": (operator.getitem, ("x", "x"), {}, "depend on the input"),
    "live weight": ("linear", (V[None], "x"), {}, "its weight depends on the input"),
    "pool indices": ("max_pool2d_with_indices", ("x", 2), {"return_indices": True}, "indices"),
    "rounding": ("div", ("x", 2.0), {"rounding_mode": "floor"}, "rounds"),
    "batch": ("batch_norm", ("x", V, V), {"training": True}, "normalises by the batch"),
    "softplus": ("softplus", X, {"threshold": 5.0}, "jumps at its threshold"),
    "jump": ("_threshold", ("x", 0.0, 1.0), {}, "jumps at its threshold"),
    "labels": ("einsum", ("b...,b->b", "x", V), {}, "without an ellipsis"),
    "three": ("einsum", ("bi,i,i->b", "x", V, V), {}, "two operands"),
    "out": (function("add", "torch"), ("x", 1.0), {"out": "x"}, "a way that is not known"),
    "attribute": (operator.add, ("x", "grad"), {}, "not made of real numbers"),
    "mode": ("interpolate", X, {"size": 2}, "channels and space"),
    "in place shape": (".add_", ("x", W.T), {}, "in place to another shape"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_node_in_one_line(name: str) -> None:
    target, args, kwargs, words = REFUSED[name]
    forward = Forward((4,))
    with pytest.raises(InputError, match=words) as caught:
        forward.call(target, *(with_input(a, forward.x) for a in args), **kwargs)
    assert "\n" not in str(caught.value)


def test_one_input_only() -> None:
    with pytest.raises(UnsupportedOperator, match="several inputs"):
        Forward((4,)).add("placeholder", "y")


def test_the_tables_say_how_everything_is_read() -> None:
    assert {"Conv2d", "GELU", "LayerNorm"} <= set(LAYERS)
    assert {"cat", "where", "einsum"} <= set(FUNCTIONS)
    for name, entry in (*LAYERS.items(), *FUNCTIONS.items()):
        assert entry.how in ("read", "rewritten", "left out", "refused")
        assert entry.words, name
    assert all(e.how == "refused" for table in (LAYERS, FUNCTIONS) for e in table.values() if e.apply is None)
