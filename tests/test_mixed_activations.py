"""Every method on small networks of all activations, sums among them: bounds above sampled gradients, proofs that hold.

Activations that fall have negative slopes; blocks that only add up have none but 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lipcert
from lipcert import Activation, Ball, Box, Everywhere, Network
from lipcert.bounds import Interval, preactivations
from lipcert.bounds.gradients import gradient_magnitudes
from lipcert.bounds.interval import scaled
from lipcert.problem.blocks import Block
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof.arithmetic import prove_interval, prove_linear, prove_mixed, prove_product
from lipcert.proof.file import load_certificate
from lipcert.proof.margins import MarginProof, certificate_of, linear_margins
from lipcert.relaxation.layers import layers_of
from lipcert.relaxation.model import Space, exactly
from lipcert.relaxation.passes import through
from lipcert.rounding import Array

FALLING = ("gelu", "gelu_tanh", "silu", "mish", "hardswish")
KINDS = (*FALLING, "softsign", "erf", "tanh", "relu", "leaky_relu", "identity", "identity")
CHEAP = (prove_product, prove_interval, prove_linear, prove_mixed)
OTHERS = ("backward", "forward", "both", "backward-free", "forward-free", "both-free", "tight", "exact", "auto")


def _network(rng: np.random.Generator, kinds: tuple[str, ...] = KINDS) -> Network:
    """One to three hidden blocks of two to eight neurons that read one or several of those before them."""
    count, widths, blocks = int(rng.integers(1, 4)), [int(rng.integers(2, 7))], list[Block]()
    for i in range(1, count + 2):
        width = int(rng.integers(2, 9)) if i <= count else 2
        sources = sorted({i - 1} | {j for j in range(i) if rng.uniform() < 0.35})
        terms = tuple((j, rng.normal(size=(width, widths[j])) / np.sqrt(widths[j])) for j in sources)
        kind = str(rng.choice(kinds)) if i <= count else "identity"
        blocks.append(Block(terms, rng.normal(size=width), Activation(kind, 0.2)))
        widths.append(width)
    return Network.from_blocks(blocks)


def _region(rng: np.random.Generator, inputs: int, number: int) -> Region:
    center, radius = rng.normal(size=inputs), float(10.0 ** rng.uniform(-1.5, 0.7))
    return (Box(center, radius), Ball(center, radius), Everywhere())[number]


def _points(rng: np.random.Generator, region: Region, inputs: int) -> Array:
    draws = rng.uniform(-1, 1, size=(400, inputs))
    if isinstance(region, Box):
        return np.asarray(region.lo + (draws + 1) / 2 * (region.hi - region.lo))
    if isinstance(region, Ball):
        lengths = np.maximum(np.linalg.norm(draws, axis=1, keepdims=True), 1.0)
        return np.asarray(region.center + region.radius * (1 - 1e-12) * draws / lengths)
    return np.asarray(draws * 10.0 ** rng.uniform(-1, 2, size=(400, 1)))


@pytest.mark.parametrize("seed", range(18))
def test_every_method_is_above_the_gradients_that_are_seen(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    net = _network(rng)
    region, norm, c = _region(rng, net.inputs, seed % 3), ("inf", "2", "1")[seed // 3 % 3], rng.normal(size=2)
    problem = Problem.of(net, region, c, norm)
    seen = float(problem.norm.dual.of(net.gradient(_points(rng, region, net.inputs), c)).max())
    for prove in CHEAP:
        assert seen * (1 - 1e-9) <= prove(problem).upper < np.inf
    net.save(tmp_path / "net.npz")
    read = lipcert.load(tmp_path / "net.npz")
    for method in map(str, rng.choice(OTHERS, 2, replace=False)):
        if method == "exact" and isinstance(region, Ball):  # refused where activations are smooth
            method = "tight"
        found = lipcert.bound(net, region, output=c, norm=norm, method=method, work=0.02, seed=seed)
        assert found.upper >= max(seen, found.lower or 0.0) * (1 - 1e-9)
        assert np.isfinite(found.upper)
        found.certificate.save(tmp_path / "proof.npz")
        assert lipcert.verify(load_certificate(tmp_path / "proof.npz"), read).proved


@pytest.mark.parametrize("kind", ["gelu", "mish", "hardswish"])
def test_small_boxes_close(kind: str) -> None:
    """Linear bounds along tangents lose with the square of the box, and `exact` closes the rest."""
    rng = np.random.default_rng(3)
    net = Network.from_weights([rng.normal(size=(5, 3)), rng.normal(size=(4, 5)), rng.normal(size=(1, 4))], None, kind)
    gaps = []
    for radius in (0.04, 0.01):
        found = lipcert.bound(net, Box(np.full(3, 0.2), radius), output=0, method="linear", work=0.1)
        assert found.lower is not None
        gaps.append(found.upper / found.lower - 1)
    assert gaps[1] < gaps[0] / 3
    assert gaps[1] < 0.05
    exact = lipcert.bound(net, Box(np.full(3, 0.2), 0.2), output=0, method="exact", gap=0.05, work=5.0)
    assert exact.lower is not None
    assert exact.upper <= 1.06 * exact.lower


@pytest.mark.parametrize("seed", [1, 2])
def test_networks_with_sums_are_as_good_as_those_without(seed: int) -> None:
    """ReLU -> sum -> ReLU: `exact` closes as it does where the sum is multiplied out; also on the whole space, where
    the sum is part of the proof that patterns have no inputs."""
    rng = np.random.default_rng(seed)
    A, B, C, D = (rng.normal(size=shape) / np.sqrt(shape[1]) for shape in ((5, 2), (3, 5), (4, 3), (1, 4)))
    first, sum_, second = (rng.normal(size=n) * 0.3 for n in (5, 3, 4))
    with_sum = Network.from_blocks(
        [
            Block(((0, A),), first, Activation("relu")),
            Block(((1, B),), sum_),
            Block(((2, C),), second, Activation("relu")),
            Block(((3, D),), np.zeros(1)),
        ]
    )
    without = Network.from_weights([A, C @ B, D], [first, C @ sum_ + second, np.zeros(1)])
    for region in (Box(np.zeros(2), 1.0), Ball(np.zeros(2), 1.0), Everywhere()):
        both = [lipcert.bound(n, region, output=0, method="exact", work=1.0) for n in (with_sum, without)]
        assert both[0].upper == pytest.approx(both[1].upper, rel=1e-6)
        assert both[0].lower == pytest.approx(both[0].upper, rel=1e-6)
        assert lipcert.verify(both[0].certificate, with_sum).proved


def test_margins_of_branches() -> None:
    """c'scores on a box, by linear bounds, of a network whose sum reads the input again."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        net, rows = _network(rng), rng.normal(size=(3, 2))
        box = Box(rng.normal(size=net.inputs), 0.3)
        tops = linear_margins(net, box, rows)[1]
        points = _points(rng, box, net.inputs)
        assert np.all(net.forward(points) @ rows.T <= tops)
        proofs = tuple(MarginProof(row, float(top)) for row, top in zip(rows, tops, strict=True))
        again = certificate_of(net, box, proofs).verify(net).found.hi.tolist()
        assert np.all(np.array(again) >= (net.forward(points) @ rows.T).max(axis=0))
        assert np.all(np.isfinite(again))


def test_certified_radii_hold_with_negative_slopes_and_sums() -> None:
    rng = np.random.default_rng(5)
    for _ in range(3):
        net = _network(rng, (*FALLING, "identity"))
        inputs = rng.normal(size=(4, net.inputs))
        found = lipcert.certify(net, inputs, radius=[0.01, 0.1], method="linear", refine=0.2)
        assert not found.failed
        for x, radius in zip(inputs, np.minimum(found.certified_radius, 1.0), strict=True):
            near = net.forward(x + radius * (1 - 1e-9) * rng.uniform(-1, 1, size=(200, net.inputs)))
            assert radius <= 0 or len(set(near.argmax(axis=1))) == 1


def test_products_with_slopes_of_either_sign() -> None:
    """The least and the largest of the four corners, rounded outward; unbounded gradients stay unbounded."""
    rng = np.random.default_rng(0)
    s, g = (np.sort(rng.normal(size=(2, 500)), axis=0) for _ in range(2))
    s[:, :50] = -np.abs(s[::-1, :50])
    s[:, 50:60] = 0.0
    s.sort(axis=0)
    found = scaled(Interval(*s), Interval(*g))
    corners = np.stack([a * b for a in s.astype(np.longdouble) for b in g.astype(np.longdouble)])
    assert np.all(found.lo <= corners.min(axis=0))
    assert np.all(corners.max(axis=0) <= found.hi)
    np.testing.assert_allclose(found.lo, corners.min(axis=0).astype(float), rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(found.hi, corners.max(axis=0).astype(float), rtol=1e-14, atol=1e-300)
    wide = scaled(
        Interval(np.array([-0.1, -0.1, 0.0]), np.array([1.0, -0.1, 0.0])), Interval(*np.array([[-np.inf] * 3, [2] * 3]))
    )
    assert wide.lo.tolist() == pytest.approx([-np.inf, -0.2, 0.0])
    assert wide.hi.tolist() == [np.inf, np.inf, 0.0]


def test_affine_forms_of_gradients_with_negative_slopes() -> None:
    """The magnitudes that cells are bounded with, on boxes where slopes are negative."""
    rng = np.random.default_rng(2)
    for _ in range(10):
        net = _network(rng, ("hardswish", "gelu", "relu"))
        box, c = Box(rng.normal(size=net.inputs) - 1.0, 0.2), rng.normal(size=2)
        pre = tuple(Interval(z.lo[None], z.hi[None]) for z in preactivations(Problem.of(net, box, c)))
        top = gradient_magnitudes(net, pre, c)[0]
        assert np.all(np.abs(net.gradient(_points(rng, box, net.inputs), c)) <= top * (1 + 1e-12))


def test_a_slope_interval_of_length_one_keeps_its_base() -> None:
    """u = base + u' with a base that is not zero: u source is more than u' source."""
    net = Network.from_weights([np.eye(2), np.ones((1, 2))], None, "silu")
    layer = layers_of(Problem.of(net, Box(np.zeros(2), 1.0), 0)).hidden[0]
    layer.base[:], layer.delta[:] = -0.25, 1.0
    space = Space(**{layer.switch: 2, "g": 2})
    source, own = exactly(space["g"]), exactly(space[layer.switch])
    whole = through(space, layer, source, own).matrix.toarray()
    assert whole[:, space.slices["g"]].tolist() == [[-0.25, 0.0], [0.0, -0.25]]


@pytest.mark.parametrize("method", ["product", "mixed", "backward", "forward", "both-free", "tight"])
def test_slopes_that_are_all_negative(method: str) -> None:
    """Every neuron on the falling side: nothing is pruned or clipped, and all that is proved is above what is seen."""
    rng = np.random.default_rng(4)
    A, B, C, D, E = (rng.normal(size=shape) / 4 for shape in ((4, 3), (4, 4), (3, 3), (3, 4), (1, 3)))
    blocks = [
        Block(((0, A),), np.full(4, -1.4), Activation("gelu")),
        Block(((1, B),), np.full(4, -2.2), Activation("hardswish")),
        Block(((0, C / 1000), (2, D)), np.full(3, -2.5), Activation("silu")),
        Block(((3, E),), np.zeros(1)),
    ]
    net, box = Network.from_blocks(blocks), Box(np.zeros(3), 0.01)
    problem = Problem.of(net, box, 0)
    assert not any(len(layer.pruned) for layer in layers_of(problem).hidden)
    points = _points(rng, box, 3)
    assert all(np.all(f.derivative(z) < 0) for f, z in zip(net.activations, net.preactivations(points), strict=True))
    seen = float(problem.norm.dual.of(net.gradient(points, np.ones(1))).max())
    found = lipcert.bound(net, box, output=0, method=method, work=0.05)
    assert found.upper >= seen
    assert method == "product" or found.upper < 1.5 * seen
    assert lipcert.verify(found.certificate, net).proved
