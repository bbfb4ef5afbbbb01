"""Networks of convolutions: every engine gives what it gives for the same network with CSR matrices."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Ball, Box, Everywhere, Network
from lipcert.bounds import (
    Split,
    bounds_of,
    gains,
    gradient_bounds,
    gradient_magnitudes,
    halves,
    jacobian_rows,
    mixed_bound,
    mixed_gradient_bounds,
    operator_norm,
    preactivation_bounds,
    whole,
)
from lipcert.bounds import operator_norms as spectral_module
from lipcert.bounds.gains import gains_operations
from lipcert.bounds.interval import Interval
from lipcert.bounds.operator_norms import spectral_norm
from lipcert.budget import Budget
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.norms import SUPPORTED, Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof.arithmetic import prove_linear
from lipcert.proof.balls import check_with_balls
from lipcert.rounding import Array
from lipcert.witness import evaluate, search
from lipcert.witness.program import PatternProgram
from lipcert.witness.screen import Screen
from tests.strategies import SMOOTH, convolutional_networks, convolutions

C = np.array([1.0, -0.5])


def same(one: Array, two: Array) -> None:
    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


def same_intervals(one: tuple[Interval, ...], two: tuple[Interval, ...]) -> None:
    for a, b in zip(one, two, strict=True):
        same(a.lo, b.lo)
        same(a.hi, b.hi)


def regions(net: Network) -> tuple[Region, ...]:
    x = np.random.default_rng(0).normal(size=net.inputs)
    return Box(x, 0.3), Ball(x, 0.5), Everywhere()


@settings(max_examples=26)
@given(convolutional_networks(kinds=("relu", "leaky_relu", *SMOOTH)))
def test_bounds_of_values_and_gradients(nets: tuple[Network, Network]) -> None:
    for region in regions(nets[0]):
        pre = [preactivation_bounds(net, region) for net in nets]
        same_intervals(*pre)
        same_intervals(*(gradient_bounds(net, pre[0], C) for net in nets))
        same_intervals(*(mixed_gradient_bounds(net, pre[0], C) for net in nets))
        same(*(jacobian_rows(net, pre[0], 2) for net in nets))
        rows = tuple(Interval(z.lo[None], z.hi[None]) for z in pre[0])
        same(*(gradient_magnitudes(net, rows, C) for net in nets))


@settings(max_examples=20)
@given(convolutional_networks())
def test_gains_and_what_follows_from_them(nets: tuple[Network, Network]) -> None:
    pre = preactivation_bounds(nets[0], regions(nets[0])[0])
    assert gains_operations(nets[0]) == gains_operations(nets[1])
    for norm in SUPPORTED:
        one, two = (gains(net, pre, norm) for net in nets)
        same(np.concatenate(one.before), np.concatenate(two.before))
        same(np.array(one.reach), np.array(two.reach))
        same(*(np.array(mixed_bound(net, pre, norm, C, one)) for net in nets))


@settings(max_examples=20)
@given(convolutional_networks(), st.integers(0, 2**32 - 1))
def test_bounds_of_cells(nets: tuple[Network, Network], seed: int) -> None:
    rng = np.random.default_rng(seed)
    cell = whole(nets[0], regions(nets[0])[0])
    for layer in (1, 2):
        cell = halves(cell, Split(layer, int(rng.integers(nets[0].shape[layer]))))[int(rng.integers(2))]
    one, two = (bounds_of(net, [cell]) for net in nets)
    same_intervals(one.pre, two.pre)
    assert one.empty.tolist() == two.empty.tolist()


@settings(max_examples=39)
@given(convolutions(), st.sampled_from((1, 60, 1 << 22)))
def test_operator_norms(map_: Convolution, rows: int) -> None:
    """Also of some rows, and with the Gram matrix made some rows at a time."""
    A = map_.toarray()
    active = np.flatnonzero(np.random.default_rng(0).random(A.shape[0]) < 0.6)
    with patch.object(spectral_module, "_ROWS", rows):
        same(np.array(spectral_norm(map_[active])), np.array(spectral_norm(A[active])))
        for p in ("1", "2", "inf"):
            for q in ("1", "2", "inf"):
                same(np.array(operator_norm(map_, p, q)), np.array(operator_norm(A, p, q)))
                same(np.array(operator_norm(map_.T, p, q)), np.array(operator_norm(A.T, p, q)))
    if np.any(A):
        assert np.linalg.norm(A, 2) <= operator_norm(map_, "2", "2") <= np.linalg.norm(A, 2) * 1.2


@settings(max_examples=20)
@given(convolutional_networks())
def test_screens_and_programs(nets: tuple[Network, Network]) -> None:
    rng = np.random.default_rng(0)
    for region in regions(nets[0]):
        one, two = (Problem(net, region, Norm("inf"), Problem.of(net, region, C).output) for net in nets)
        screens = [Screen(p, Budget.of_work(10.0), np.float64) for p in (one, two)]
        v = rng.normal(size=(6, nets[0].inputs))
        zs = [s.forward(v) for s in screens]
        same(np.concatenate(zs[0], axis=1), np.concatenate(zs[1], axis=1))
        same(*(s.norms(z) for s, z in zip(screens, zs, strict=True)))
        slopes = [s.smoothed(z, [3.0, 3.0]) for s, z in zip(screens, zs, strict=True)]
        same(slopes[0][1], slopes[1][1])
        assert Screen(one, Budget.of_work(1.0)).dtype == Screen(two, Budget.of_work(1.0)).dtype
        if not isinstance(region, Everywhere):
            programs = [PatternProgram.of(p, Budget.of_work(10.0)) for p in (one, two)]
            forms = [p.forms(p.free, Budget.of_work(10.0)) for p in programs]
            same(forms[0][0], forms[1][0])
            same(forms[0][1], forms[1][1])


def test_the_exact_check_knows_convolutions() -> None:
    """Forms above a neuron and above its opposite: rows of a convolution are asked for once."""
    pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")
    rng = np.random.default_rng(3)
    window = Window((2,), (1,), (1,), (0,), (0,))
    first, second = (Convolution(rng.normal(size=(1, 1, 2)), (size,), window) for size in (5, 4))
    last = rng.normal(size=(1, 3))
    uppers = []
    for weights in ([first, second, last], [first.tocsr(), second.tocsr(), last]):
        net = Network.from_weights(weights)
        certificate = prove_linear(Problem.of(net, Box(np.zeros(5), 0.3), 0))
        uppers.append(check_with_balls(certificate, net))
        assert uppers[-1] <= certificate.claim
    assert uppers[0] == pytest.approx(uppers[1], rel=1e-12)


@pytest.mark.parametrize("norm", ["inf", "2"])
def test_a_search_finds_a_witness(norm: str) -> None:
    rng = np.random.default_rng(3)
    window = Window((3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    first, second = (Convolution(rng.normal(size=(3, k, 3, 3)) / 3, (5, 5), window) for k in (1, 3))
    last = rng.normal(size=(2, 75)) / 9
    values = []
    for weights in ([first, second, last], [first.tocsr(), second.tocsr(), last]):
        net = Network.from_weights(weights)
        problem = Problem.of(net, Box(np.zeros(net.inputs), 0.3), C, norm)
        witness = search(problem, Budget.of_work(0.3), seed=0, samples=500)
        assert witness.value == evaluate(problem, witness.point)
        values.append(witness.value)
    assert values[0] == pytest.approx(values[1], rel=0.2)
