"""Proofs by slopes with one multiplier per channel: above every product with slopes, and next to those per neuron."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import lipcert
from lipcert.budget import Budget
from lipcert.errors import FileFormatError
from lipcert.method.channels import _tail
from lipcert.problem.activations import Activation
from lipcert.problem.blocks import Affine
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.maps import Matrix, dense
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.recognised import convolution_of
from lipcert.problem.region import Everywhere
from lipcert.proof import channels as channels_module
from lipcert.proof.channels import Channels, prove_channels
from lipcert.proof.slopes import prove_slopes
from lipcert.relaxation import slopes as slopes_module
from lipcert.relaxation.channels import ChannelProgram, channel_program
from lipcert.relaxation.slopes import SlopeMultipliers
from lipcert.rounding import Array
from lipcert.solver.slopes.channels import ChannelOrder, settled

KINDS = ("relu", "leaky_relu", "tanh")


def drawn(rng: np.random.Generator, depth: int = 2, head: bool = False, plain: bool = False) -> Network:
    """A chain of convolutions on a plane or a line, and a layer of two scores, or one more convolution, behind it."""
    axes, maps = int(rng.integers(1, 3)), list[Matrix]()
    spatial, channels = tuple(int(n) for n in rng.integers(3, 6, axes)), 2
    for _ in range(depth + head):
        taps = tuple(int(n) for n in rng.integers(1, 4, axes))
        strides = tuple(int(n) for n in rng.integers(1, 2 if plain else 3, axes))
        dilations = tuple(1 if plain else int(n) for n in rng.integers(1, 3, axes))
        pads = [tuple(int(n) for n in rng.integers(0, 3, axes)) for _ in range(2)]
        room = tuple(max(a, d * (k - 1)) for a, d, k in zip(pads[1], dilations, taps, strict=True))
        window, groups = Window(taps, strides, dilations, pads[0], room), int(rng.integers(1, 3))
        kernel = rng.normal(size=(2 * int(rng.integers(1, 3)), channels // groups, *taps))
        maps.append(Convolution(kernel, spatial, window, groups))
        spatial, channels = maps[-1].outputs, len(kernel)
    if not head:
        maps.append(rng.normal(size=(2, maps[-1].shape[0])))
    functions = [Activation(str(rng.choice(KINDS)), float(rng.choice([0.1, 1.7]))) for _ in maps[1:]]
    return Network([Affine(w, np.zeros(w.shape[0])) for w in maps], functions)


def asked(net: Network) -> tuple[Problem, ChannelProgram]:
    problem = Problem.of(net, Everywhere(), "all", Norm("2", "2"))
    program = channel_program(problem)
    assert program is not None
    return problem, program


def optimised(problem: Problem, program: ChannelProgram, steps: int = 8) -> Channels:
    """Multipliers after some steps, with room at all frequencies."""
    tail = None if program.head is not None else _tail(problem, program)
    order = ChannelOrder(program, tail, Budget.of_work(1e9), 1e-3, 20.0)
    points = order.points((order.begin(),), None)
    best = min((next(points, None) for _ in range(steps)), key=lambda p: math.inf if p is None else p.bound)
    assert best is not None
    t, floor = settled(program, best.t, best.weights)
    return Channels(t, floor * (1 - 1e-6))


def largest_product(net: Network, rng: np.random.Generator) -> float:
    """The largest norm seen of products of the matrices with slopes at their ends between them."""
    weights = [dense(block.terms[0][1]) for block in net.blocks]
    best = 0.0
    for _ in range(8):
        product = weights[0]
        for f, weight in zip(net.activations, weights[1:], strict=True):
            lo, hi = f.slopes
            product = weight @ (np.where(rng.random(len(product)) < 0.3, lo, hi)[:, None] * product)
        best = max(best, float(np.linalg.norm(product, 2)))
    return best


@pytest.mark.parametrize("head", [False, True])
def test_bounds_are_above_products_with_any_slopes(head: bool) -> None:
    """Optimised multipliers, and random ones; strides, dilations, groups, pads, and slopes that do not reach zero."""
    rng = np.random.default_rng(0)
    proved = 0
    for k in range(60):
        net = drawn(rng, 1 + k % 3, head)
        problem, program = asked(net)
        assert (program.head is not None) == head
        seen, own = largest_product(net, rng), optimised(problem, program)
        found = prove_channels(problem, program, own).upper
        assert seen <= found < math.inf
        for spread in (0.1, 1.0, 10.0):
            t = tuple(x * np.exp(-spread * rng.random(x.shape)) for x in own.t)
            other = Channels(t, own.floor * np.exp(-spread * rng.random(own.floor.shape)))
            upper = prove_channels(problem, program, other).upper
            assert upper >= seen
            proved += math.isfinite(upper)
    assert proved > 40


def test_a_multiplier_for_each_neuron_proves_no_more() -> None:
    """The finite program with the same multipliers has a bound no larger, and on a long line hardly a smaller one."""
    rng = np.random.default_rng(1)
    for size, least in ((5, 0.5), (60, 0.99)):
        window = Window((3,), (1,), (1,), (1,), (1,))
        maps = [Convolution(rng.normal(size=(3, k, 3)), (size,), window) for k in (2, 3, 3)]
        problem, program = asked(Network.from_weights(maps))
        own = optimised(problem, program)
        by_channels = prove_channels(problem, program, own).upper
        each = prove_slopes(problem, SlopeMultipliers(tuple(np.repeat(t, size) for t in own.t))).upper
        assert least * by_channels <= each <= by_channels * (1 + 1e-9)


def test_derivatives_are_those_of_differences() -> None:
    rng = np.random.default_rng(2)
    for k in range(12):
        problem, program = asked(drawn(rng, 1 + k % 2, bool(k % 3)))
        tail = None if program.head is not None else _tail(problem, program)
        order = ChannelOrder(program, tail, Budget.of_work(1e9), 1e-2, 6.0)
        x = order.begin() + 0.1
        at, way = order.point(x), rng.normal(size=x.shape)
        ends = [order.point(x + e * way) for e in (1e-5, -1e-5)]
        assert at is not None
        assert all(ends)
        difference = (ends[0].value - ends[1].value) / 2e-5  # type: ignore[union-attr]
        assert at.gradient @ way == pytest.approx(difference, rel=1e-4, abs=1e-6)


def test_forged_numbers_prove_nothing() -> None:
    """Too many or too few, zeros, negative ones, none, and a diagonal that is too large."""
    rng = np.random.default_rng(3)
    for head in (False, True):
        net = drawn(rng, 2, head)
        problem, program = asked(net)
        own, seen = optimised(problem, program), largest_product(net, rng)
        assert seen <= own.check(problem) < math.inf
        for bad in (0.0, -1.0, math.nan, math.inf, 1e300, 1e-300):
            t = (own.t[0].copy(), *own.t[1:])
            t[0][0] = bad
            assert seen <= replace(own, t=t).check(problem)
            assert bad in (1e-300,) or replace(own, t=t).check(problem) == math.inf
        for wrong in (own.t[:-1], (*own.t, own.t[0]), (own.t[0][1:], *own.t[1:])):
            assert replace(own, t=wrong).check(problem) == math.inf
        if head:
            assert replace(own, floor=np.ones(1)).check(problem) == math.inf
        else:
            assert replace(own, floor=own.floor * 1.001).check(problem) == math.inf
        assert replace(own, t=tuple(4 * t for t in own.t)).check(problem) == math.inf
        wide = Problem.of(net, Everywhere(), "all", Norm("inf", "2"))
        assert own.check(wide) == math.inf


@pytest.mark.parametrize("noise", [1e-3, 0.3])
def test_inverses_are_hints(noise: float) -> None:
    """Inverses and eigenvalues that are wrong loosen the bound, or prove none."""
    rng, honest, values = np.random.default_rng(4), np.linalg.inv, np.linalg.eigvalsh
    for k in range(10):
        net = drawn(rng, 2, bool(k % 2))
        problem, program = asked(net)
        own, seen = optimised(problem, program), largest_product(net, rng)
        lies = rng.uniform(1 - noise, 1 + noise, 2)
        with patch("numpy.linalg.inv", lambda S, f=lies[0]: f * honest(S)):
            assert seen <= own.check(problem)
        with patch("numpy.linalg.eigvalsh", lambda S, f=lies[1]: f * values(S)):
            assert seen <= own.check(problem)


def test_pieces_are_factored_some_at_a_time() -> None:
    problem, program = asked(drawn(np.random.default_rng(5), 2, True))
    own = optimised(problem, program)
    with patch.object(channels_module, "_NUMBERS", 1):
        assert own.check(problem) == pytest.approx(prove_channels(problem, program, own).upper, rel=1e-6)


@pytest.mark.parametrize("head", [False, True])
def test_method_slopes_proves_wide_chains_by_channels(head: bool, tmp_path: Path) -> None:
    rng, window = np.random.default_rng(6), Window((3,), (1,), (1,), (1,), (1,))
    maps: list[Matrix] = [Convolution(rng.normal(size=(4, 4, 3)), (20,), window) for _ in range(3 + head)]
    net = Network.from_weights(maps if head else [*maps, rng.normal(size=(2, 80))])
    with patch.object(slopes_module, "SLOPES_PIECE", 3):
        found = lipcert.bound(net, Everywhere(), output="all", norm="2", method="slopes", work=3.0, seed=0)
        product = lipcert.bound(net, Everywhere(), output="all", norm="2", method="product", work=1.0, lower=False)
        assert isinstance(found.certificate.proof, Channels)
        assert found.lower is not None
        assert found.lower <= found.upper < product.upper
        single = lipcert.bound(net, Everywhere(), output=0, norm="2", method="slopes", work=3.0, seed=0)
        assert single.lower is not None
        assert single.lower <= single.upper < product.upper
    found.certificate.save(tmp_path / "proof.npz")
    assert lipcert.verify(tmp_path / "proof.npz", net).proved
    lower = replace(found.certificate, claim=0.99 * found.upper)
    assert not lipcert.verify(lower, net).proved
    with np.load(tmp_path / "proof.npz") as file:
        arrays = dict(file)
    for bad in (-arrays["channel_numbers"], arrays["channel_numbers"][:, None], np.full(3, math.nan)):
        np.savez(tmp_path / "bad.npz", **arrays | {"channel_numbers": bad})
        with pytest.raises(FileFormatError):
            lipcert.verify(tmp_path / "bad.npz", net)


def test_matrices_of_convolutions_are_recognised() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        taps = tuple(int(n) for n in rng.integers(2, 4, 2))
        stride, pad = int(rng.integers(1, 3)), int(rng.integers(0, 2))
        window = Window(taps, (stride, stride), (1, 1), (pad, pad), (pad, pad))
        kernel: Array = rng.normal(size=(int(rng.integers(1, 4)), int(rng.integers(1, 3)), *taps))
        map_ = Convolution(kernel, (8, 9), window)
        matrix = map_.tocsr()
        found = convolution_of(matrix)
        assert found is not None
        np.testing.assert_array_equal(dense(found), dense(map_))
        matrix.data[int(rng.integers(matrix.nnz))] *= 1 + 1e-15
        assert convolution_of(matrix) is None
    assert convolution_of(rng.normal(size=(4, 4))) is None
