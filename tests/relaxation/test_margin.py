"""The margin relaxation: rows at true points, bounds above the exact maximum, solvers that lie."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

import lipcert
from lipcert import Box, Certificate, MethodError, Network
from lipcert.bounds.propagation import preactivation_bounds
from lipcert.budget import Budget
from lipcert.cli.app import run
from lipcert.errors import FileFormatError
from lipcert.problem.problem import Problem
from lipcert.proof import Multipliers
from lipcert.proof.file import load_certificate
from lipcert.proof.margins import (
    MarginCertificate,
    MarginProof,
    certificate_of,
    linear_margins,
    prove_margin,
)
from lipcert.proof.multipliers import prove
from lipcert.relaxation.margin import Margin, margin
from lipcert.relaxation.specification import LIFTED, ONE_LAYER, Specification
from lipcert.robustness.refine import OpenInput, prove_rival, refine_input, solve_margin
from lipcert.rounding import Array
from lipcert.solver.rank_two import solve_rank_two
from tests.robustness.test_certify import small_net


def points(problem: Margin, net: Network, box: Box, x: Array) -> Array:
    """y of true points, one in a row."""
    space, blocks = problem.relaxation.space, problem.relaxation.blocks
    y = np.ones((len(x), space.size))
    middle, radius = (box.lo + box.hi) / 2, (box.hi - box.lo) / 2
    moving = blocks["w"][0]
    y[:, space.slices["w"]] = ((x - middle) / np.where(radius > 0, radius, 1.0))[:, moving]
    for i, (z, bounds) in enumerate(zip(net.preactivations(x), preactivation_bounds(net, box), strict=True), start=1):
        free = blocks[f"s{i}"][0]
        y[:, space.slices[f"s{i}"]] = 2 * np.maximum(z[:, free], 0.0) / bounds.hi[free] - 1.0
    return y


def exact_maximum(net: Network, box: Box, c: Array) -> float:
    """One hidden layer: one linear program for every pattern."""
    A, b = np.asarray(net.affines[0].weight), net.affines[0].bias
    C, d = np.asarray(c @ net.affines[1].weight), float(c @ net.affines[1].bias)
    best = -np.inf
    for pattern in itertools.product((0.0, 1.0), repeat=len(b)):
        u = np.array(pattern)
        sign = 2 * u - 1
        found = linprog(
            -(u * C) @ A, -sign[:, None] * A, sign * b, bounds=list(zip(box.lo, box.hi, strict=True)), method="highs"
        )
        if found.status == 0:
            best = max(best, float(-found.fun + (u * C) @ b + d))
    return best


@pytest.mark.parametrize("keep", [None, 1])
@pytest.mark.parametrize("hidden", [(6,), (5, 4), (4, 4, 4)])
def test_rows_hold_at_true_points(hidden: tuple[int, ...], keep: int | None) -> None:
    net = small_net(11, 3, hidden)
    box = Box.from_bounds(np.array([-0.5, 0.2, 0.3]), np.array([0.7, 0.2, 0.9]))  # one input does not move
    c = np.array([1.0, -1.0, 0.0])
    problem = margin(Problem.of(net, box, c), keep)
    relaxation, rank_two = problem.relaxation, problem.relaxation.problem
    rng = np.random.default_rng(0)
    F = rank_two.vectors.toarray()
    x = rng.uniform(box.lo, box.hi, (4000, 3))
    y = points(problem, net, box, x)
    values = (y @ F)[:, rank_two.ia] * (y @ F)[:, rank_two.ib]
    equal = rank_two.equality
    assert np.all(values[:, ~equal] <= rank_two.rhs[~equal] + 1e-12)
    assert np.all(np.abs(values - rank_two.rhs)[:, equal] <= relaxation.tolerance[equal] + 1e-12)
    assert np.all(np.abs(y) <= 1 + 1e-12)
    value = np.einsum("ki,ij,kj->k", y, rank_two.objective.toarray(), y, optimize=True) - problem.lift
    true = net.forward(x) @ c
    assert np.all(value >= true - 1e-10)
    assert keep is not None or np.all(value <= true + 1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_are_above_the_exact_maximum(seed: int) -> None:
    net = small_net(seed, 3, (5,))
    box = Box(np.random.default_rng(seed).normal(size=3), 0.4)
    c = np.array([1.0, -1.0, 0.0])
    exact = exact_maximum(net, box, c)
    problem = margin(Problem.of(net, box, c))
    solved = prove(problem.relaxation, solve_rank_two(problem.relaxation.problem).y).upper - problem.lift
    assert exact - 1e-9 <= solved <= linear_margins(net, box, c[None, :])[1][0] + 1e-5
    fewer = margin(Problem.of(net, box, c), 2)
    looser = prove(fewer.relaxation, solve_rank_two(fewer.relaxation.problem).y).upper - fewer.lift
    assert solved - 1e-5 <= looser <= linear_margins(net, box, c[None, :])[1][0] + 1e-5
    proof = prove_rival(net, box, c, preactivation_bounds(net, box), Budget.unlimited())
    assert proof is not None
    assert proof.upper >= exact - 1e-9  # it stops at the first proof below zero
    assert (proof.upper < 0) == (solved < -1e-4) or abs(solved) < 1e-3
    recomputed = certificate_of(net, box, (proof,)).verify(net).found.hi.tolist()[0]
    assert exact - 1e-9 <= recomputed <= proof.claim
    rng = np.random.default_rng(1)
    for scale in (0.0, 1e-3, 1.0, 1e6):
        lie = scale * rng.standard_normal(problem.relaxation.problem.rows)
        assert prove(problem.relaxation, lie).upper - problem.lift >= exact - 1e-9
        assert prove_margin(problem, c, 9, lie).upper >= exact - 1e-9
    assert prove(problem.relaxation, np.full(3, np.nan)).upper - problem.lift >= exact - 1e-9


def test_only_relu() -> None:
    net = Network.from_weights([np.eye(2), np.eye(2)], activation="tanh")
    with pytest.raises(MethodError, match="ReLU"):
        margin(Problem.of(net, Box(np.zeros(2), 1.0), np.array([1.0, -1.0])))


def test_late_is_unknown() -> None:
    net = small_net(0)
    c = np.array([1.0, -1.0, 0.0])
    assert solve_margin(margin(Problem.of(net, Box(np.zeros(3), 1.0), c)), c, 9, Budget.of_work(0.0)) is None


def refined(seed: int) -> tuple[Network, bytes]:
    """The certificate of an input whose class holds on its box by relaxation."""
    net = small_net(seed, 3, (12,))
    for x in np.random.default_rng(seed).normal(size=(40, 3)):
        label = int(np.argmax(net.forward(x)))
        ball = OpenInput(0, x, label, (0.25,), None, np.where(np.arange(3) == label, np.inf, 0.0))
        answer = refine_input(net, ball, np.inf)
        if answer.files and answer.value["attempts"][0]["how"] == "margin":
            return net, answer.files["npz"]
    raise AssertionError("no such input")


def test_a_margin_reaches_beyond_its_ball() -> None:
    """x_0 > x_1 decides: the line is at 0.1, and a margin at 0.04 with the constant 2 says so."""
    net = Network.from_weights([np.eye(2)])
    ball = OpenInput(0, np.array([0.6, 0.4]), 0, (0.04,), None, np.array([np.inf, 0.0]), np.array([0.0, 2.0]), 1.0)
    assert 0.1 - 1e-9 < refine_input(net, ball, np.inf).value["radius"] <= 0.1
    assert refine_input(net, replace(ball, slopes=None), np.inf).value["radius"] == 0.04
    assert refine_input(net, replace(ball, slopes=np.array([0.0, np.inf])), np.inf).value["radius"] == 0.04
    assert refine_input(net, replace(ball, reach=0.07), np.inf).value["radius"] == 0.07
    assert refine_input(net, replace(ball, slopes=np.zeros(2)), np.inf).value["radius"] == 1.0
    three = OpenInput(0, ball.center, 0, (0.04,), None, np.array([np.inf, 0.0, 0.05]), np.array([0.0, 2.0, 1.0]))
    assert three.beyond(0.04, np.array([1]), np.array([-0.12])) == 0.05  # the third class is behind up to there only


def test_an_overflow_proves_nothing() -> None:
    net = Network.from_weights([np.full((2, 2), 1e200), np.full((2, 2), 1e200)])
    box, c = Box(np.zeros(2), 1e100), np.array([1.0, -1.0])
    rows = {"x": np.zeros(1)}
    certificate = certificate_of(net, box, (MarginProof(c, -1.0, 5, rows, rows),))
    assert certificate.verify(net).found.hi.tolist() == [np.inf]
    for form in (*ONE_LAYER, *LIFTED):
        proof = Multipliers(Specification("tight", form), rows, rows)
        answer = lipcert.verify(Certificate.of(Problem.of(net, box, c), proof, 1.0), net)
        assert not answer.proved
        assert np.isinf(answer.upper)


def test_certificates_of_margins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, contents = refined(2)
    net.save(tmp_path / "net.npz")
    (tmp_path / "proof.npz").write_bytes(contents)
    command = ["verify", str(tmp_path / "proof.npz"), "--network", str(tmp_path / "net.npz")]
    assert run(command) == 0
    assert "proved" in capsys.readouterr().out
    assert run([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["proved"]
    assert all(row["upper"] <= row["claim"] < 0 for row in answer["margins"])
    small_net(3, 3, (12,)).save(tmp_path / "net.npz")
    assert run(command) == 1  # another network
    certificate = load_certificate(tmp_path / "proof.npz", MarginCertificate)
    assert isinstance(certificate.region, Box)
    cloud = np.random.default_rng(0).uniform(certificate.region.lo, certificate.region.hi, (2000, 3))
    true = [float((net.forward(cloud) @ p.c).max()) for p in certificate.proofs]
    for forged in _forgeries(certificate.proofs):
        upper = certificate_of(net, certificate.region, forged).verify(net).found.hi.tolist()
        assert all(u >= t for u, t in zip(upper, true, strict=True))
    with np.load(tmp_path / "proof.npz") as file:
        kept = {name: file[name] for name in ("certificate", "kind", "network", "lo", "hi")}
        none = {name: file[name][:0] for name in ("c", "keep", "claim")}
    np.savez(tmp_path / "proof.npz", allow_pickle=False, **kept, **none)
    with pytest.raises(FileFormatError, match="no margins"):
        load_certificate(tmp_path / "proof.npz", MarginCertificate)
    (tmp_path / "proof.npz").write_bytes(contents[: len(contents) // 2])
    assert run(command) == 2
    assert "\n" not in capsys.readouterr().err.strip()


def _forgeries(proofs: tuple[MarginProof, ...]) -> list[tuple[MarginProof, ...]]:
    """Multipliers scaled, negated, without a shift, with another selection, cut short."""
    changes = [
        [replace(p, multipliers={n: factor * v for n, v in p.multipliers.items()}) for p in proofs]
        for factor in (0.0, 0.5, -1.0, 2.0, np.nan)
    ]
    changes.append([replace(p, shift={n: 0 * v for n, v in p.shift.items()}) for p in proofs])
    changes.append([replace(p, keep=1) for p in proofs])
    changes.append([replace(p, multipliers={n: v[:-1] for n, v in p.multipliers.items()}) for p in proofs])
    return [tuple(change) for change in changes]
