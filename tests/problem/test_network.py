"""Network: values, gradients, folding, identity."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse

from lipcert import Activation, Affine, Network, load
from lipcert.errors import InputError
from lipcert.problem.output import choose_output
from lipcert.rounding import Array
from tests.strategies import SMOOTH, small_cases

RNG = np.random.default_rng(1)


def random_net(*sizes: int, activation: str = "relu") -> Network:
    rng = np.random.default_rng(sum(sizes))
    weights = [rng.normal(size=(m, n)) for n, m in itertools.pairwise(sizes)]
    return Network.from_weights(weights, [rng.normal(size=len(w)) for w in weights], activation)


def test_forward_and_preactivations_by_hand() -> None:
    net = Network.from_weights([[[1.0, -1.0], [2.0, 0.0]], [[1.0, 1.0]]], [[0.0, -1.0], [0.5]])
    assert net.forward([1.0, 3.0]).tolist() == [1.5]
    assert net.forward([[1.0, 3.0], [3.0, 1.0]]).tolist() == [[1.5], [7.5]]
    assert [z.tolist() for z in net.preactivations([[1.0, 3.0]])] == [[[-2.0, 1.0]]]
    assert [p.tolist() for p in net.pattern([1.0, 3.0])] == [[[False, True]]]
    assert net.gradient([1.0, 3.0], [1.0]).tolist() == [[2.0, 0.0]]
    assert (net.inputs, net.outputs, net.depth, net.neurons, net.shape) == (2, 1, 1, 2, (2, 2, 1))
    assert repr(net) == "Network(2-2-1, relu)"


@settings(max_examples=60)
@given(small_cases(kinds=("relu", "leaky_relu", *SMOOTH)))
def test_gradient_is_the_gradient(case: tuple[Network, object, Array]) -> None:
    net, _, c = case
    x = np.random.default_rng(0).normal(size=(20, net.inputs))
    if net.depth:
        near = min(np.abs(z).min() for z in net.preactivations(x))
        x = x if near > 1e-4 else x[:0]
    h = 1e-6 * np.eye(net.inputs)
    numeric = [[((net.forward(p + e) - net.forward(p - e)) @ c) / 2e-6 for e in h] for p in x]
    np.testing.assert_allclose(net.gradient(x, c), np.reshape(numeric, x.shape), rtol=1e-4, atol=1e-6)


def test_folding() -> None:
    relu = Activation("relu")
    a, b, d = (Affine(RNG.normal(size=s), RNG.normal(size=s[0])) for s in ((4, 3), (5, 4), (2, 5)))
    scale = Affine(sparse.csr_array(sparse.diags_array([2.0, 3.0, 4.0])), np.array([1.0, 0.0, -1.0]))
    net = Network.from_steps([scale, a, Activation("identity"), b, relu, d])
    assert net.shape == (3, 5, 2)
    x = RNG.normal(size=(7, 3))
    np.testing.assert_allclose(net.forward(x), d(relu(b(a(scale(x))))), rtol=1e-12)
    trailing = Network.from_steps([a, relu, relu], notes=["note"])
    assert trailing.shape == (3, 4, 4, 4)
    assert trailing.notes == ("note",)
    np.testing.assert_array_equal(trailing.forward(x), relu(a(x)))
    wide = Network.from_steps([Affine(np.ones((100, 2)), np.zeros(100)), relu])
    assert sparse.issparse(wide.affines[-1].weight)
    with pytest.raises(InputError, match="first layer is an activation"):
        Network.from_steps([relu, a])
    with pytest.raises(InputError, match="no layer"):
        Network.from_steps([])
    with pytest.raises(InputError, match="follows one with"):
        Network.from_steps([a, d])


def test_hash_is_of_the_content() -> None:
    net = random_net(5, 6, 2)
    dense = [a.weight * (np.abs(a.weight) > 0.7) for a in net.affines]
    biases = [a.bias for a in net.affines]
    one = Network.from_weights(dense, biases)
    two = Network.from_weights([sparse.csr_array(w) for w in dense], biases)
    assert one.sha256 == two.sha256
    x = RNG.normal(size=(9, 5))
    np.testing.assert_allclose(one.forward(x), two.forward(x))
    np.testing.assert_allclose(one.gradient(x, [1.0, 2.0]), two.gradient(x, [1.0, 2.0]))
    changed = [dense[0].copy(), dense[1]]
    changed[0][0, 0] += 1e-15
    assert Network.from_weights(changed, biases).sha256 != one.sha256
    assert Network.from_weights(dense, biases, "tanh").sha256 != one.sha256
    assert pickle.loads(pickle.dumps(one)).sha256 == one.sha256


def test_frozen() -> None:
    net = random_net(3, 4, 1)
    with pytest.raises(ValueError, match="read-only"):
        net.affines[0].weight[0, 0] = 1.0
    with pytest.raises(AttributeError):
        net.affines = ()


@pytest.mark.parametrize("kind", ["relu", "tanh"])
def test_save_and_load(tmp_path: Path, kind: str) -> None:
    weights = [sparse.random_array((20, 10), density=0.1, rng=np.random.default_rng(0)), RNG.normal(size=(3, 20))]
    net = Network.from_weights(weights, None, kind)
    net.save(tmp_path / "net.npz")
    assert load(tmp_path / "net.npz").sha256 == net.sha256
    assert [p.name for p in tmp_path.iterdir()] == ["net.npz"]
    with pytest.raises(InputError, match="npz"):
        net.save(tmp_path / "net.bin")
    with pytest.raises(InputError, match="cannot write"):
        net.save(tmp_path / "missing" / "net.npz")


@pytest.mark.parametrize(
    ("weights", "biases", "message"),
    [
        ([np.ones((2, 3)), np.ones((1, 4))], None, "layer 1 has 2 outputs"),
        ([np.ones((2, 3))], [np.ones(3)], "bias has 3"),
        ([np.ones((2, 3))], [], "one bias per matrix"),
        ([np.full((2, 3), np.nan)], None, "not finite"),
        ([np.ones((2, 3))], [[np.inf, 0.0]], "not finite"),
        ([np.ones((0, 3))], None, "not empty"),
        ([np.ones(3)], [np.ones(3)], "two-dimensional"),
    ],
)
def test_refused(weights: list[Array], biases: list[Array] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Network.from_weights(weights, biases)


def test_refuses_points_of_another_dimension_and_unmatched_activations() -> None:
    net = random_net(3, 4, 1)
    with pytest.raises(InputError, match="3 inputs"):
        net.forward(np.ones(4))
    with pytest.raises(InputError, match="one activation between"):
        Network(net.affines, ())


def test_outputs() -> None:
    assert choose_output(None, 1).c.tolist() == [1.0]
    assert choose_output(2, 3).c.tolist() == [0, 0, 1]
    assert choose_output((0, 2), 3).c.tolist() == [1, 0, -1]
    assert str(choose_output((0, 2), 3)) == "score 0 - score 2"
    assert str(choose_output(1, 3)) == "score 1"
    weights = choose_output([0.5, 1.0], 2)
    assert str(weights) == "scores weighted by 0.5, 1"
    assert str(choose_output(np.ones(9), 9)) == "weighted scores"
    assert choose_output(weights, 2).description == {"weights": [0.5, 1.0]}
    cases: list[tuple[Any, str]] = [
        (3, "out of range"),
        (-1, "out of range"),
        ((1, 1), "must differ"),
        (None, "3 outputs"),
        ([1.0, np.nan, 0.0], "finite"),
        ([1.0], "3 finite"),
        (True, "bool"),
        ("x", "numbers"),
        ([2, 0], r"the tuple \(2, 0\) for score 2 - score 0"),
    ]
    for bad, message in cases:
        with pytest.raises(InputError, match=message):
            choose_output(bad, 3)
    for labels in ([0, 1], [1, 0]):  # a pair of labels, or the weights of one score?
        with pytest.raises(InputError, match="the tuple"):
            choose_output(labels, 2)
    assert choose_output([1, -1], 2).c.tolist() == choose_output([1, -1.0], 2).c.tolist() == [1.0, -1.0]
