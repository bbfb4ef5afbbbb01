"""A residual network of three blocks built by hand: everything that covers branches agrees with enumeration on it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipcert
from lipcert import Activation, Box, MethodError, Network
from lipcert.budget import Budget
from lipcert.method import table
from lipcert.method.bracket import Bracket
from lipcert.problem.blocks import Block
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.rounding import Array
from lipcert.witness import search
from tests.enumeration import exact_constant

RELU = Activation("relu")
EXAMPLES = int(os.environ.get("LIPCERT_EXAMPLES", "18"))  # more of them: hundreds take minutes
COVERING = ("product", "interval", "mixed", "backward", "forward", "both", "backward-free", "tight")
CHAINS_ONLY = ("shor", "hr2", "hr1", "lipopt3", "lifting")


class Residual:
    """x_{k+1} = x_k + B_k relu(A_k x_k + b_k), k = 1..3, and scores C x_4 + d: plain numpy beside our network."""

    def __init__(self, seed: int, inputs: int = 2, width: int = 2, outputs: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.A = [rng.normal(size=(width, inputs)) for _ in range(3)]
        self.b = [0.3 * rng.normal(size=width) for _ in range(3)]
        self.B = [0.5 * rng.normal(size=(inputs, width)) for _ in range(3)]
        self.C, self.d = rng.normal(size=(outputs, inputs)), rng.normal(size=outputs)
        self.box = Box(0.2 * rng.normal(size=inputs), 0.4)

    @property
    def network(self) -> Network:
        inputs, state, blocks = self.C.shape[1], 0, []
        for A, b, B in zip(self.A, self.b, self.B, strict=True):
            blocks.append(Block(((state, A),), b, RELU))
            inner = len(blocks)
            blocks.append(Block(((state, np.eye(inputs)), (inner, B)), np.zeros(inputs)))
            state = len(blocks)
        return Network.from_blocks([*blocks, Block(((state, self.C),), self.d)])

    def value(self, x: Array) -> Array:
        for A, b, B in zip(self.A, self.b, self.B, strict=True):
            x = x + np.maximum(x @ A.T + b, 0.0) @ B.T
        return np.asarray(x @ self.C.T + self.d)

    def gradient(self, x: Array, c: Array) -> Array:
        J = np.eye(len(x))
        for A, b, B in zip(self.A, self.b, self.B, strict=True):
            slope = np.diag((A @ x + b > 0).astype(float))
            J, x = (np.eye(len(x)) + B @ slope @ A) @ J, x + B @ np.maximum(A @ x + b, 0.0)
        return np.asarray(c @ self.C @ J)


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_values_and_gradients(seed: int) -> None:
    own = Residual(seed, 3, 4, 2)
    points, c = np.random.default_rng(seed).normal(size=(5, 3)), np.array([1.0, -0.5])
    assert np.allclose(own.network.forward(points), own.value(points), rtol=1e-12, atol=1e-12)
    expected = np.array([own.gradient(x, c) for x in points])
    assert np.allclose(own.network.gradient(points, c), expected, rtol=1e-10, atol=1e-12)


def run(method: str, problem: Problem, work: float) -> Bracket:
    """A method after a short search for a witness, without the long one that `bound` makes."""
    bracket, budget = Bracket(), Budget.of_work(work)
    with np.errstate(all="ignore"):
        bracket.improve(search(problem, Budget.of_work(0.02), samples=200))
        table.named(method).run(problem, bracket, budget)
    return bracket


@given(st.integers(0, 10**6))
@settings(max_examples=EXAMPLES, deadline=None)
def test_bounds_hold_and_cells_close(seed: int) -> None:
    """lower <= enumeration <= every upper bound, and exact closes the gap; each certificate verifies."""
    own = Residual(seed)
    net, problem = own.network, Problem.of(own.network, own.box)
    truth = exact_constant(net, own.box, np.ones(1))
    for method in ("product", "interval", "exact"):
        found = run(method, problem, 5.0)
        assert found.lower <= truth * (1 + 1e-9) + 1e-12
        assert truth <= found.upper * (1 + 1e-9) + 1e-12
        assert found.certificate is not None
        assert lipcert.verify(found.certificate, net).proved
    assert found.upper <= truth * (1 + 2e-6) + 1e-9


@given(st.integers(0, 10**6), st.sampled_from(["backward", "tight"]))
@settings(max_examples=EXAMPLES // 3, deadline=None)
def test_relaxations_hold(seed: int, method: str) -> None:
    own = Residual(seed)
    found = run(method, Problem.of(own.network, own.box), 0.2)
    assert exact_constant(own.network, own.box, np.ones(1)) <= found.upper * (1 + 1e-9) + 1e-12
    assert found.certificate is not None
    assert lipcert.verify(found.certificate, own.network).proved


@pytest.mark.parametrize("norm", ["inf", "2", "1"])
@pytest.mark.parametrize("method", COVERING)
def test_every_covering_method_in_every_norm(method: str, norm: str) -> None:
    for seed in range(3):
        own = Residual(seed)
        net, box = own.network, own.box
        truth = exact_constant(net, box, np.ones(1), Norm(norm))
        found = run(method, Problem.of(net, box, norm=norm), 0.5)
        assert found.certificate is not None
        assert found.lower * (1 - 1e-9) <= truth <= found.upper * (1 + 1e-9)
        assert lipcert.verify(found.certificate, net).proved


def test_tight_is_tighter_than_intervals() -> None:
    gaps = []
    for seed in range(6):
        own = Residual(seed)
        upper = {m: run(m, Problem.of(own.network, own.box), 0.5).upper for m in ("interval", "tight")}
        truth = exact_constant(own.network, own.box, np.ones(1))
        gaps.append([(upper[m] / truth - 1) if truth else 0.0 for m in ("interval", "tight")])
    interval, tight = np.mean(gaps, axis=0)
    assert tight < 0.5 * interval


@pytest.mark.parametrize("method", CHAINS_ONLY)
def test_methods_for_chains_say_so_in_one_line(method: str) -> None:
    own = Residual(0)
    with pytest.raises(MethodError) as refused:
        lipcert.bound(own.network, own.box, method=method)
    assert "\n" not in str(refused.value)


def test_saved_and_loaded_with_its_certificate(tmp_path: Path) -> None:
    own = Residual(5, 4, 5, 3)
    net = own.network
    net.save(tmp_path / "residual.npz")
    again = lipcert.load(tmp_path / "residual.npz")
    assert again.sha256 == net.sha256
    result = lipcert.bound(net, own.box, output=(0, 2), work=0.5)
    result.certificate.save(tmp_path / "proof.npz")
    assert lipcert.verify(tmp_path / "proof.npz", again).proved


def test_a_chain_written_as_blocks_is_the_chain() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(4, 3)), rng.normal(size=(2, 4))]
    chain = Network.from_weights(weights)
    blocks = Network.from_blocks([Block(((0, weights[0]),), np.zeros(4), RELU), Block(((1, weights[1]),), np.zeros(2))])
    assert blocks.is_chain
    assert blocks.sha256 == chain.sha256
