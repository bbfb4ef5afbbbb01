"""Proofs by slopes: at least the exact constant whatever the multipliers, close to their estimate, never forged."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lipcert import (
    Activation,
    Ball,
    Box,
    Certificate,
    Everywhere,
    FileFormatError,
    MethodError,
    Network,
    bound,
    verify,
)
from lipcert.budget import Budget
from lipcert.files import write_npz
from lipcert.method.bracket import Bracket
from lipcert.method.engines import SlopeEngine
from lipcert.method.slopes import run_slopes
from lipcert.problem.blocks import Block
from lipcert.problem.problem import Problem
from lipcert.proof import pieces
from lipcert.proof.arithmetic import prove_product
from lipcert.proof.balls import check_with_balls
from lipcert.proof.file import load_certificate
from lipcert.proof.pieces import Steps, check_program, prove_program, what_is_left
from lipcert.proof.sharpened import Within
from lipcert.proof.slopes import WHOLE, Part, Slopes, prove_slopes
from lipcert.relaxation.slopes import SlopeBlock, SlopeMultipliers, SlopeProgram, orders_of, slope_program
from lipcert.rounding import Array
from lipcert.search.progress import Progress
from lipcert.search.settings import Settings
from lipcert.solver.slopes import choice
from lipcert.solver.slopes.choice import SlopeSolver
from lipcert.solver.slopes.greedy import scalar_multipliers
from tests.constants import set_constant
from tests.enumeration import exact_constant
from tests.forging import asking
from tests.strategies import branched_networks, convolutional_networks, small_cases

Case = tuple[Network, Box, Array]
PAIRS = tuple((p, q) for p in ("1", "2", "inf") for q in ("1", "2", "inf"))


def greedy(program: SlopeProgram) -> SlopeMultipliers:
    """The first multipliers that a solver shows."""
    return SlopeSolver(program).run(Budget.of_work(1.0), lambda _, __: True)


def recipe(depth: int, width: int, outputs: int = 10) -> Network:
    r = np.random.RandomState(0)
    inner = [r.randn(width, width) / width**0.5 for _ in range(depth)]
    return Network.from_weights([*inner, r.randn(outputs, width) / width**0.5])


def form(program: SlopeProgram, multipliers: SlopeMultipliers, tau: float) -> Array:
    """M, written out."""
    ends = np.cumsum([0, *program.widths])
    n, M = ends[-1], np.zeros((ends[-1], ends[-1]))
    inputs = np.ones(program.inputs) if multipliers.inputs is None else multipliers.inputs / multipliers.inputs.sum()
    M[: program.inputs, : program.inputs] = np.diag(inputs)
    for i, (block, t) in enumerate(zip(program.blocks, multipliers.neurons, strict=True), start=1):
        own, z = np.eye(n)[ends[i] : ends[i + 1]], np.zeros((block.width, n))
        for j, matrix in block.terms:
            z[:, ends[j] : ends[j + 1]] += matrix
        p, q = own - block.a[:, None] * z, own - block.b[:, None] * z
        M += p.T @ (t[:, None] * q) + q.T @ (t[:, None] * p)
    H = np.zeros((len(program.head[0][1]), n))
    for j, matrix in program.head:
        H[:, ends[j] : ends[j + 1]] += matrix
    return np.asarray(M - tau * H.T @ H)


def largest_of(program: SlopeProgram, multipliers: SlopeMultipliers) -> float:
    """The bound that the multipliers allow, by the eigenvalues of M alone."""
    lo, hi = 0.0, 1e30
    for _ in range(200):
        middle = math.sqrt(lo * hi) if lo > 0 else hi / 2
        S = form(program, multipliers, middle)
        d = 1 / np.sqrt(np.maximum(np.abs(np.diag(S)), 1e-300))
        if np.linalg.eigvalsh(S * d[:, None] * d)[0] >= 0:
            lo = middle
        else:
            hi = middle
    return lo**-0.5 if lo > 0 else math.inf


@settings(max_examples=40, deadline=None)
@given(small_cases(max_neurons=8), st.sampled_from(("inf", "2", "1")), st.booleans(), st.integers(0, 2**31))
def test_a_bound_is_at_least_the_constant(case: Case, norm: str, everywhere: bool, seed: int) -> None:
    net, box, c = case
    problem = Problem.of(net, Everywhere() if everywhere else box, c, norm)
    exact = exact_constant(net, box, c, problem.norm)
    program = slope_program(problem)
    if not program.head:
        assert prove_slopes(problem, SlopeMultipliers((), np.ones(net.inputs) if norm == "inf" else None)).upper == 0
        assert exact == 0
        return
    first = greedy(program)
    rng = np.random.default_rng(seed)
    scale = rng.choice([1e-3, 0.5, 1.0, 2.0, 1e3])
    lies = [scale * t * rng.uniform(0.3, 1.2, size=t.shape) for t in first.neurons]
    inputs = None if first.inputs is None else first.inputs * rng.uniform(0, 2, size=net.inputs)
    for multipliers in (first, SlopeMultipliers(tuple(lies), inputs)):
        certificate = prove_slopes(problem, multipliers)
        assert certificate.upper >= exact * (1 - 1e-9)
        if certificate.upper < math.inf:
            assert verify(certificate, net).proved


@settings(max_examples=25, deadline=None)
@given(branched_networks(), st.sampled_from(("inf", "2", "1")), st.booleans())
def test_branches(case: Case, norm: str, everywhere: bool) -> None:
    net, box, c = case
    problem = Problem.of(net, Everywhere() if everywhere else box, c, norm)
    program = slope_program(problem)
    if not program.head:
        return
    multipliers = greedy(program)
    certificate = prove_slopes(problem, multipliers)
    assert certificate.upper >= exact_constant(net, box, c, problem.norm) * (1 - 1e-9)
    assert certificate.upper < math.inf
    assert verify(certificate, net).proved
    assert all(n >= m for n, m in zip(orders_of(problem), program.orders, strict=True))


@settings(max_examples=12, deadline=None)
@given(small_cases(max_depth=2, max_neurons=6), st.sampled_from(PAIRS))
def test_whole_maps_in_all_norms(case: Case, norms: tuple[str, str]) -> None:
    net, box, _ = case
    result = bound(net, box, output="all", norm=norms[0], output_norm=norms[1], method="slopes", work=1.0, lower=False)
    problem = Problem.of(net, box, "all", *norms)
    assert result.upper >= exact_constant(net, box, problem.c, problem.norm) * (1 - 1e-9)
    assert verify(result.certificate, net).proved


@pytest.mark.parametrize("kind", ["relu", "leaky_relu", "tanh", "gelu", "silu", "identity"])
def test_the_proof_is_close_to_what_the_form_allows(kind: str) -> None:
    net = replace_activation(recipe(5, 4, 3), Activation(kind, 0.2 if kind == "leaky_relu" else 0.0))
    for norm, region in (("2", Everywhere()), ("inf", Box(np.ones(4), 0.3))):
        program = slope_program(Problem.of(net, region, "all", norm, "2"))
        multipliers = greedy(program)
        upper, steps = prove_program(program, multipliers)
        assert upper == pytest.approx(largest_of(program, multipliers), rel=1e-3 if kind == "identity" else 1e-6)
        assert check_program(program, multipliers, steps) <= upper * (1 + 1e-12)


def replace_activation(net: Network, f: Activation) -> Network:
    return Network(net.affines, [f] * net.depth)


def test_residual_blocks_are_close_too() -> None:
    rng = np.random.default_rng(1)
    blocks, relu, width = (
        [Block(((0, rng.normal(size=(4, 3))),), np.zeros(4), Activation("relu"))],
        Activation("relu"),
        4,
    )
    for i in range(1, 9, 2):
        blocks.append(Block(((i, rng.normal(size=(width, width)) / 2),), np.zeros(width), relu))
        terms = ((i, np.eye(width)), (i + 1, rng.normal(size=(width, width)) / 2))
        blocks.append(Block(terms, np.zeros(width), relu))
    net = Network.from_blocks([*blocks, Block(((9, rng.normal(size=(2, width))),), np.zeros(2))])
    problem = Problem.of(net, Everywhere(), "all", "2")
    program = slope_program(problem)
    assert not program.is_chain
    assert max(program.orders) == 3 * width  # two states and a block
    multipliers = greedy(program)
    certificate = prove_slopes(problem, multipliers)
    assert certificate.upper == pytest.approx(largest_of(program, multipliers), rel=1e-7)
    patterns = rng.uniform(size=(200, net.neurons)) < 0.5
    cuts = np.cumsum([b.width for b in net.hidden])[:-1]
    for pattern in patterns:
        slopes = [s[None, :].astype(float) for s in np.split(pattern, cuts)]
        J = np.vstack([net.chain_rule(slopes, c) for c in np.eye(2)])
        assert np.linalg.norm(J, 2) <= certificate.upper


@pytest.mark.parametrize("depth", [16, 64])
def test_deep_networks_are_proved_below_the_product_of_norms(depth: int) -> None:
    net = recipe(depth, 16)
    problem = Problem.of(net, Everywhere(), "all", "2")
    program = slope_program(problem)
    certificate = prove_slopes(problem, greedy(program))
    assert certificate.upper < 0.1 * prove_product(problem).upper
    assert isinstance(certificate.proof, Slopes)
    part = certificate.proof.parts[0]
    t, X, W = np.split(part.neurons, depth), np.eye(16), [a.weight for a in net.affines]
    for own, w in zip(t, W, strict=False):
        X = 2 * np.diag(own) - own[:, None] * (w @ np.linalg.solve(X, w.T)) * own
    estimate = math.sqrt(np.linalg.eigvalsh(W[-1] @ np.linalg.solve(X, W[-1].T))[-1])
    assert estimate * (1 - 1e-12) <= certificate.upper <= estimate * (1 + 1e-7)


@pytest.mark.parametrize("size", [1e-70, 1e60])
def test_constants_far_from_one(size: float) -> None:
    net = Network.from_weights([size * np.array([[1.0, 2.0]]), np.array([[size]]), np.array([[3.0]])])
    result = bound(net, Everywhere(), norm="2", method="slopes", work=1.0, lower=False)
    certificate = prove_slopes(problem := Problem.of(net, Everywhere(), 0, "2"), greedy(slope_program(problem)))
    exact = 3 * math.sqrt(5) * size * size
    assert exact * (1 - 1e-12) <= certificate.upper <= exact * 1.1
    assert result.upper <= certificate.upper * (1 + 1e-12)


def test_negative_slopes_and_a_network_without_any() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(4, 3)), rng.normal(size=(4, 4)), rng.normal(size=(1, 4))]
    net = Network.from_weights(weights, activation="gelu")
    result = bound(net, Box(np.zeros(3), 3.0), norm="2", method="slopes", work=1.0)
    assert result.lower is not None
    assert result.lower <= result.upper < math.inf
    affine = Network.from_weights([weights[0]])
    found = bound(affine, Everywhere(), output="all", norm="2", method="slopes", work=1.0, lower=False)
    assert found.upper == pytest.approx(np.linalg.norm(weights[0], 2), rel=1e-9)


def test_a_dead_network_has_the_constant_zero() -> None:
    net = Network.from_weights([np.eye(2), np.ones((1, 2))], [-np.ones(2) * 5, np.zeros(1)])
    problem = Problem.of(net, Box(np.zeros(2), 1.0), 0, "2")
    certificate = prove_slopes(problem, SlopeMultipliers(()))
    assert certificate.upper == 0
    assert verify(certificate, net).proved


def test_lying_solvers_and_wrong_steps_prove_nothing() -> None:
    net = recipe(3, 4, 2)
    problem = Problem.of(net, Everywhere(), "all", "2")
    program = slope_program(problem)
    good = greedy(program)
    upper, steps = prove_program(program, good)
    t = good.neurons
    lies = [
        (-t[0], *t[1:]),
        (np.zeros(4), *t[1:]),
        (np.full(4, np.nan), *t[1:]),
        (np.full(4, np.inf), *t[1:]),
        (1e200 * t[0], *t[1:]),
        t[1:],
        (*t, t[0]),
        (t[0][:3], *t[1:]),
    ]
    for lie in lies:
        multipliers = SlopeMultipliers(tuple(lie))
        assert prove_program(program, multipliers)[0] == math.inf
        assert check_program(program, multipliers, steps) == math.inf
    assert check_program(program, SlopeMultipliers(t, np.ones(4)), steps) == math.inf
    for numbers in ([], [0] * 3, [9, *steps.numbers[1:]], [0, -1, *steps.numbers[2:]], [0, 99, *steps.numbers[2:]]):
        assert check_program(program, good, Steps(np.array(numbers, dtype=np.int64))) == math.inf
    bold = Steps(np.zeros(len(steps.numbers), dtype=np.int64))
    assert check_program(program, good, bold) >= largest_of(program, good) * (1 - 1e-12)
    assert upper == pytest.approx(largest_of(program, good), rel=1e-9)
    weighted = replace(program, weighted=True)
    for inputs in (-np.ones(4), np.zeros(4), np.full(4, np.nan), np.ones(3)):
        assert prove_program(weighted, SlopeMultipliers(t, inputs))[0] == math.inf


def test_forged_files(tmp_path: Path) -> None:
    net = recipe(3, 4, 2)
    result = bound(net, Everywhere(), output="all", norm="2", output_norm="inf", method="slopes", work=1.0, lower=False)
    path = tmp_path / "proof.npz"
    result.certificate.save(path)
    kept = load_certificate(path)
    assert verify(kept, net).proved
    assert kept.method == "slopes"
    assert isinstance(kept.proof, Slopes)
    parts = kept.proof.parts
    forgeries = [
        tuple(replace(p, neurons=p.neurons * 1.9) for p in parts),
        tuple(replace(p, neurons=-p.neurons) for p in parts),
        tuple(replace(p, neurons=p.neurons[:-1]) for p in parts),
        tuple(replace(p, row=p.row + 7) for p in parts),
        (),
    ]
    for forged in forgeries:
        assert not verify(replace(kept, proof=Slopes(forged)), net).proved
    asked = asking(kept, norm=Problem.of(net, Everywhere(), 0, "2").norm, c=np.eye(2)[0])
    one = replace(asked, claim=kept.claim / 10)
    assert not verify(one, net).proved
    arrays = kept.arrays()
    broken: list[dict[str, NDArray[Any]]] = [
        {"slope_parts": arrays["slope_parts"][:, :4]},
        {"slope_parts": arrays["slope_parts"].astype(np.int64) - 5},
        {"slope_numbers": arrays["slope_numbers"][1:]},
        {"slope_steps": arrays["slope_steps"][1:]},
        {"slope_steps": arrays["slope_steps"].astype(float)},
        {"slope_numbers": np.array(["a"])},
    ]
    for change in broken:
        write_npz(path, {**arrays, **change})
        with pytest.raises(FileFormatError):
            load_certificate(path)


def test_the_exact_check_agrees() -> None:
    pytest.importorskip("flint", reason="python-flint is an extra")
    net = recipe(2, 3, 1)
    result = bound(net, Everywhere(), norm="2", method="slopes", work=1.0, lower=False)
    assert check_with_balls(result.certificate, net) == pytest.approx(result.upper, rel=1e-9)


def test_on_a_small_region_the_open_neurons_are_enough(tmp_path: Path) -> None:
    net, region = recipe(8, 12, 3), Box(np.ones(12), 0.02)
    result = bound(net, region, output="all", norm="2", method="slopes", work=2.0)
    assert isinstance(result.certificate.proof, Within)
    assert result.certificate.method == "slopes"
    result.certificate.save(tmp_path / "within.npz")
    assert verify(tmp_path / "within.npz", net).proved
    assert result.lower is not None
    assert result.lower <= result.upper
    ball = bound(net, Ball(np.ones(12), 0.02), output="all", norm="2", method="slopes", work=2.0, lower=False)
    assert ball.upper <= result.upper * (1 + 1e-6)


@settings(max_examples=4, deadline=None)
@given(convolutional_networks())
def test_convolutions_are_the_same_as_their_matrices(pair: tuple[Network, Network]) -> None:
    kept, written = pair
    problems = [Problem.of(net, Everywhere(), 0, "2") for net in pair]
    programs = [slope_program(p) for p in problems]
    if not programs[0].head:
        return
    multipliers = greedy(programs[1])
    first, second = (prove_slopes(p, multipliers).upper for p in problems)
    assert first == pytest.approx(second, rel=1e-9)
    assert kept.outputs == written.outputs


def test_what_is_too_large_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    net = recipe(2, 6, 2)
    good = bound(net, Everywhere(), output="all", norm="2", method="slopes", work=1.0, lower=False).certificate
    set_constant(monkeypatch, "SLOPES_PIECE", 10)
    with pytest.raises(MethodError, match="a matrix of order 12 here, more than 10"):
        bound(net, Everywhere(), output="all", norm="2", method="slopes", work=1.0)
    boxed = bound(net, Box(np.zeros(6), 9.0), output="all", norm="2", method="slopes", work=1.0, lower=False)
    assert any("order" in note for note in boxed.notes)
    assert boxed.upper < math.inf
    assert not verify(good, net).proved


@pytest.mark.parametrize("method", ["auto", "tight"])
def test_others_are_not_above_slopes(method: str) -> None:
    net = recipe(6, 4, 2)
    slopes = bound(net, Everywhere(), output="all", norm="2", method="slopes", work=0.1, lower=False)
    other = bound(net, Everywhere(), output="all", norm="2", method=method, work=0.5, lower=False)
    assert other.upper <= slopes.upper * (1 + 1e-4)


def test_parts_of_cases_and_of_the_whole_problem() -> None:
    net = recipe(4, 5, 3)
    result = bound(net, Everywhere(), output="all", norm="1", output_norm="inf", method="slopes", work=3.0, lower=False)
    certificate: Certificate = result.certificate
    assert isinstance(certificate.proof, Slopes)
    parts = certificate.proof.parts
    whole = [p for p in parts if p.place == (WHOLE, WHOLE)]
    assert len(whole) == 1
    assert len(parts) > 1
    assert result.upper < whole[0].upper
    assert verify(certificate, net).proved
    outside = Part(99, 0, parts[-1].neurons, parts[-1].inputs, parts[-1].steps)
    assert not verify(replace(certificate, proof=Slopes((*parts, outside))), net).proved


def test_narrow_slopes_lose_little() -> None:
    rng = np.random.default_rng(3)
    blocks = []
    for i in range(6):
        same = rng.uniform(size=8) < 0.5
        low = np.where(same, 0.7, 0.0)
        high = np.where(same, 0.7 * (1 + 1e-9 * rng.uniform(size=8).round()), 1.0)
        blocks.append(SlopeBlock(((i, rng.normal(size=(8, 8)) / 2),), low, high))
    program = SlopeProgram(8, tuple(blocks), ((6, rng.normal(size=(2, 8))),), False)
    multipliers = greedy(program)
    upper, steps = prove_program(program, multipliers)
    assert upper <= largest_of(program, multipliers) * (1 + 1e-3)
    large = [np.where(b.b - b.a < 1e-6, 1e3 * t, t) for b, t in zip(blocks, multipliers.neurons, strict=True)]
    assert prove_program(program, SlopeMultipliers(tuple(large)))[0] <= upper * (1 + 1e-6)
    assert check_program(program, multipliers, steps) <= upper * (1 + 1e-12)


@pytest.mark.parametrize("factor", [1.01, 1.05, 1.2, 4.0])
def test_what_is_left_is_a_hint(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Pieces that claim more than the blocks before them leave are refused, whoever computed them."""
    rng = np.random.default_rng(0)
    net = Network.from_weights([rng.normal(size=(5, 3)), rng.normal(size=(4, 5)), rng.normal(size=(1, 4))])
    problem = Problem.of(net, Everywhere(), None, "2")
    program = slope_program(problem)
    multipliers = scalar_multipliers(program)
    assert multipliers is not None
    honest = prove_slopes(problem, multipliers).upper
    assert np.isfinite(honest)
    true = what_is_left

    def boasting(F: Array, J: Array | None, gone: int) -> Array | None:
        left = true(F, J, gone)
        return None if left is None else factor * left

    monkeypatch.setattr(pieces, "what_is_left", boasting)
    assert prove_slopes(problem, multipliers).upper >= honest


@pytest.mark.parametrize("method", ["slopes", "tight", "auto"])
def test_the_greedy_pass_comes_before_what_takes_longer(method: str) -> None:
    """Before linear bounds, Euclidean norms and the search for a witness, and below the product of norms."""
    net = recipe(6, 5, 2)
    seen: list[Progress] = []
    product = prove_product(Problem.of(net, Everywhere(), "all", "2")).upper
    bound(net, Everywhere(), output="all", norm="2", method=method, work=0.3, on_progress=seen.append)
    first = next(progress for progress in seen if progress.upper < 0.5 * product)
    assert first.stage == "slopes"
    before = {progress.stage for progress in seen[: seen.index(first)]}
    assert before <= {"product", "interval", "slopes"}


@pytest.mark.parametrize("norm", ["2", "inf"])
def test_turns_of_auto_go_on(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn after the first begins with a greedy pass; what the turns prove falls, and ends where one long one does.

    To norm inf each output is a case: their solvers are kept too.
    """
    problem = Problem.of(recipe(4, 4, 2), Everywhere(), "all", norm)
    passes: list[int] = []
    begin = choice.SlopeSolver._begin

    def counted(solver: choice.SlopeSolver) -> None:
        passes.append(1)
        begin(solver)

    monkeypatch.setattr(choice.SlopeSolver, "_begin", counted)
    alone = Bracket(Settings())
    run_slopes(problem, alone, Budget.of_work(20.0))
    once = len(passes)
    bracket = Bracket(Settings())
    engine = SlopeEngine(problem, bracket)
    uppers = []
    for work in (0.2, 0.2, 20.0, 20.0):
        bracket.clear_limit()
        if not engine.ended:
            engine.advance(Budget.of_work(work))
        uppers.append(bracket.upper)
    assert len(passes) <= 2 * once
    assert engine.ended
    assert uppers == sorted(uppers, reverse=True)
    assert bracket.upper == pytest.approx(alone.upper, rel=1e-5)
    assert bracket.certificate is not None
    assert verify(bracket.certificate, problem.network).proved
