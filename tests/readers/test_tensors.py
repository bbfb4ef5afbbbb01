"""Tensors of readers: every operation against numpy, with convolutions kept as kernels and written out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.activations import IDENTITY, RELU
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.maps import dense
from lipcert.readers.graph import rewrites, tensors
from lipcert.readers.graph.arithmetic import compare
from lipcert.readers.graph.linear import contract, summed, times
from lipcert.readers.graph.recognised import choose
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.graph.terms import Picked, moved
from lipcert.readers.graph.windows import convolve, convolve_transposed, pad
from lipcert.rounding import Array
from tests.constants import set_constant

SHAPE = (1, 3, 4, 5)
Step = Callable[[Graph, Tensor, Array], tuple[Tensor, Array]]


def window(kernel: int, stride: int = 1, pads: int = 0) -> Window:
    return Window((kernel,) * 2, (stride,) * 2, (1, 1), (pads,) * 2, (pads,) * 2)


def convolution(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    rng = np.random.default_rng(x.shape[1])
    kernel, bias = rng.normal(size=(3, x.shape[1], 3, 3)) / 3, rng.normal(size=3)
    around = np.pad(values, ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(2, 3))
    result = np.einsum("ncijhw,ochw->noij", views, kernel) + bias[:, None, None]
    return convolve(graph, x, kernel, bias, 1, window(3, pads=1)), result


def relu(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    return graph.activate(x, RELU), np.maximum(values, 0.0)


def flip(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    return graph.pick(x, x.places[:, ::-1, :, ::-1]), values[:, ::-1, :, ::-1]


def there_and_back(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    """Channels last and first again, with a shift and a scale between, as exporters write it."""
    last = graph.scale_and_shift(graph.transpose(x, (0, 2, 3, 1)), 2.0, np.arange(float(x.shape[1])))
    return graph.transpose(last, (0, 3, 1, 2)), 2.0 * values + np.arange(float(x.shape[1]))[:, None, None]


def channels_first(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    """Something that is applied to the tensor with its channels last."""
    last = graph.activate(graph.transpose(x, (0, 2, 3, 1)), RELU)
    return graph.transpose(last, (0, 3, 1, 2)), np.maximum(values, 0.0)


def skip(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    y, result = convolution(graph, graph.activate(x, RELU), np.maximum(values, 0.0))
    if result.shape != values.shape:
        return y, result
    return graph.subtract(y, x), result - values


def joined(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    ones = np.ones((1, 1, *x.shape[2:]))
    first, second = graph.activate(x, RELU), graph.pick(x, x.places[:, 1:2])
    batch = np.broadcast_to(ones, (len(values), *ones.shape[1:]))
    return graph.concatenate([first, ones, second], 1), np.concatenate(
        [np.maximum(values, 0.0), batch, values[:, 1:2]], axis=1
    )


def pooled(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    around = np.pad(values, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    views = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(2, 3))
    return rewrites.max_pool(graph, x, window(3, pads=1)), views.max(axis=(4, 5))


def halves(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    a, b = graph.pick(x, x.places[..., ::-1]), graph.scale_and_shift(x, 0.5, 0.25)
    both = graph.subtract(rewrites.larger(graph, a, b), rewrites.smaller(graph, b, a))
    return both, np.abs(values[..., ::-1] - (0.5 * values + 0.25))


def around(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    """Padding that a convolution takes in."""
    y = pad(graph, x, (0, 0, 1, 0), (0, 0, 0, 1))
    more = np.pad(values, ((0, 0), (0, 0), (1, 0), (0, 1)))
    kernel = np.random.default_rng(3).normal(size=(2, x.shape[1], 2, 2))
    views = np.lib.stride_tricks.sliding_window_view(more, (2, 2), axis=(2, 3))
    return convolve(graph, y, kernel, None, 1, window(2)), np.einsum("ncijhw,ochw->noij", views, kernel)


def mean(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    centred = graph.subtract(x, summed(graph, x, (2, 3), True, mean=True))
    return centred, values - values.mean(axis=(2, 3), keepdims=True)


def other_than_zero(graph: Graph, x: Tensor, values: Array) -> tuple[Tensor, Array]:
    y = choose(graph, compare(graph, x, np.array(0.5), "<="), np.array(0.5), x)
    return y, np.maximum(values, 0.5)


STEPS: list[Step] = [
    convolution, relu, flip, there_and_back, channels_first, skip,
    joined, pooled, halves, around, mean, other_than_zero,
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_operations_in_any_order(steps: list[Step], kernels: bool, short: bool) -> None:
    """`kernels`: convolutions stay kernels however small; `short`: what lies between two maps is a block of its own."""
    with pytest.MonkeyPatch.context() as patch:
        if kernels:
            patch.setattr("lipcert.readers.graph.windows.CONVOLUTION_BYTES", 0)
        if short:
            patch.setattr(tensors, "_ALWAYS", 1)
        graph = Graph(SHAPE)
        points = np.random.default_rng(0).normal(size=(4, 60))
        x, values = graph.input, points.reshape(4, *SHAPE[1:])
        for step in steps:
            if x.width < 400:
                x, values = step(graph, x, values)
        net = graph.network(x)
    assert x.shape[1:] == values.shape[1:]
    np.testing.assert_allclose(net.forward(points), values.reshape(4, -1), rtol=1e-9, atol=1e-9)


def test_convolutions_stay_kernels_beside_branches_and_transposes(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constant(monkeypatch, "CONVOLUTION_BYTES", 0)
    graph = Graph(SHAPE)
    x = graph.input
    for step in (convolution, channels_first, skip, joined, convolution, relu, around):
        x, _ = step(graph, x, np.zeros(x.shape))
    net = graph.network(x)
    maps = [weight for block in net.blocks for _, weight in block.terms]
    assert sum(isinstance(weight, Convolution) for weight in maps) >= 5
    others = [weight for weight in maps if not isinstance(weight, Convolution)]
    assert all(np.count_nonzero(dense(weight), axis=1).max() == 1 for weight in others)  # they only pick


@pytest.mark.parametrize("groups", [1, 3])
def test_a_convolution_takes_in_padding_and_moved_channels(groups: int) -> None:
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(6, 3 // groups, 2, 2))
    inner = np.arange(3 * 4 * 5).reshape(3, 4, 5)
    padded = np.pad(inner, ((0, 0), (1, 0), (2, 1)), constant_values=-1)
    map_ = Convolution(kernel, padded.shape[1:], window(2), groups)
    places = Picked(padded.reshape(-1), 60)
    kept = moved(map_, places)
    if groups > 1:  # nothing is moved, but something is padded
        assert kept is None
        return
    assert kept is not None
    np.testing.assert_array_equal(kept.toarray(), (map_.tocsr() @ places.matrix()).toarray())
    swapped = Picked(np.concatenate([inner[2].reshape(-1), np.full(20, -1), inner[2].reshape(-1)]), 60)
    twice = moved(Convolution(kernel, (4, 5), window(2)), swapped)
    assert twice is not None
    expected = Convolution(kernel, (4, 5), window(2)).tocsr() @ swapped.matrix()
    np.testing.assert_allclose(twice.toarray(), expected.toarray(), rtol=1e-15)
    assert moved(Convolution(kernel, (4, 5), window(2)), Picked(inner[:, ::-1].reshape(-1), 60)) is None


def test_one_neuron_serves_the_larger_and_the_smaller() -> None:
    graph = Graph((1, 6))
    a, b = (graph.pick(graph.input, graph.input.places[:, k : k + 3]) for k in (0, 3))
    both = graph.concatenate([rewrites.larger(graph, a, b), rewrites.smaller(graph, b, a)], 1)
    net = graph.network(both)
    assert net.neurons == 3
    x = np.random.default_rng(0).normal(size=(9, 6))
    expected = np.concatenate([np.maximum(x[:, :3], x[:, 3:]), np.minimum(x[:, :3], x[:, 3:])], axis=1)
    np.testing.assert_allclose(net.forward(x), expected, atol=1e-12)


def test_pooling_comes_before_a_relu() -> None:
    """relu(max z) is max relu(z) with 4 neurons for a window of 2 by 2 instead of 7."""
    graph = Graph((1, 1, 4, 4))
    y, _ = convolution(graph, graph.input, np.zeros((1, 1, 4, 4)))
    net = graph.network(rewrites.max_pool(graph, graph.activate(y, RELU), window(2, 2)))
    assert net.neurons == 3 * 4 * 4


@pytest.mark.parametrize("count", [2, 3, 7, 16])
@pytest.mark.parametrize("descending", [False, True])
def test_sorting(count: int, descending: bool) -> None:
    graph = Graph((2, count, 3))
    net = graph.network(rewrites.sort(graph, graph.input, 1, descending=descending))
    x = np.random.default_rng(0).normal(size=(20, 2, count, 3))
    expected = np.sort(x, axis=2)
    expected = expected[:, :, ::-1] if descending else expected
    np.testing.assert_allclose(net.forward(x.reshape(20, -1)), expected.reshape(20, -1), atol=1e-12)


def test_a_transposed_convolution_is_the_transpose() -> None:
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(4, 3, 3, 2))
    sliding = Window((3, 2), (2, 1), (1, 2), (1, 0), (0, 1))
    graph = Graph((1, 4, 5, 4))
    y = convolve_transposed(graph, graph.input, kernel, None, 1, sliding, (1, 0))
    back = Graph(y.shape)
    forward = back.network(convolve(back, back.input, kernel, None, 1, sliding))
    matrix = graph.network(y).blocks[0].terms[0][1]
    np.testing.assert_array_equal(matrix.toarray(), forward.blocks[0].terms[0][1].toarray().T)


def test_nothing_follows_what_was_left_out() -> None:
    graph = Graph((1, 3))
    x = graph.drop(graph.input, "Softmax")
    assert graph.network(x.reshaped((3,))).outputs == 3
    with pytest.raises(UnsupportedOperator, match="only supported at the end"):
        graph.scale_and_shift(x, 2.0, 0.0)


def test_limits_are_kept_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph((1, 1000))
    with pytest.raises(InputError, match="beyond the limit"):
        graph.expand(graph.input, (10_000_000, 1000))
    with pytest.raises(InputError, match="adds up 50,000,000 products, beyond the limit of 33,554,432"):
        contract(graph, graph.input, "ab", [(np.ones((1000, 50_000)), "bc")], "c")
    set_constant(monkeypatch, "MAX_BLOCKS", 2)
    x = graph.activate(graph.activate(graph.input, RELU), RELU)
    with pytest.raises(InputError, match="groups of neurons"):
        graph.activate(x, RELU)
    monkeypatch.setattr(tensors, "MAX_WORK", 5000)
    with pytest.raises(InputError, match="too many entries"):
        graph.expand(graph.input, (10, 1000))


def test_sums_between_maps_are_blocks_only_where_that_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    wide, narrow = rng.normal(size=(40, 2)), rng.normal(size=(2, 40))

    def read() -> int:
        graph = Graph((1, 40))
        y = times(graph, times(graph, graph.input, wide), narrow)
        net = graph.network(y)
        x = rng.normal(size=(3, 40))
        np.testing.assert_allclose(net.forward(x), x @ wide @ narrow, rtol=1e-9, atol=1e-9)
        assert all(f == IDENTITY for f in net.activations)
        return net.depth

    assert read() == 0
    monkeypatch.setattr(tensors, "_ALWAYS", 1)
    assert read() == 1
