"""Data sets in the Euclidean norm and in norm 1: margins on balls, attacks in that norm, folders, forged proofs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert import Ball, Box, Certification, Network, bound, certify, verify, verify_folder
from lipcert.budget import Budget
from lipcert.cli.app import run
from lipcert.problem.norms import INF, Norm, parse_norm
from lipcert.problem.problem import Problem
from lipcert.proof.file import load_certificate
from lipcert.proof.margins import MarginCertificate, MarginProof, certificate_of, linear_margins, prove_margin
from lipcert.proof.multipliers import prove
from lipcert.relaxation.margin import margin
from lipcert.robustness.attack import Perturbation, attack
from lipcert.robustness.check import proved_radius
from lipcert.robustness.decision import classify
from lipcert.robustness.refine import OpenInput, prove_rival
from lipcert.rounding import Array
from lipcert.solver.rank_two import solve_rank_two
from tests.robustness.test_certify import small_net

C = np.array([1.0, -1.0, 0.0])


def ball_of(seed: int, inputs: int, radius: float, clip: tuple[float, float] | None) -> Ball:
    rng = np.random.default_rng(seed)
    return Ball(np.where(rng.random(inputs) < 0.4, 0.0, rng.random(inputs)), radius, clip)


def true_points(net: Network, ball: Ball, count: int = 4000) -> Array:
    rng = np.random.default_rng(1)
    return ball.project(ball.center + ball.radius * rng.normal(size=(count, net.inputs)))


def largest(net: Network, ball: Ball, c: Array) -> float:
    """The largest c'scores that projected gradients find."""
    x = true_points(net, ball)
    best = float((net.forward(x) @ c).max())
    for step in 0.3 * ball.radius * 0.9 ** np.arange(60):
        g = net.gradient_from(net.run(x)[0], np.tile(c, (len(x), 1)))
        x = ball.project(x + step * g / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1e-300))
        best = max(best, float((net.forward(x) @ c).max()))
    return best


@pytest.mark.parametrize("clip", [None, (0.0, 1.0)])
@pytest.mark.parametrize("hidden", [(6,), (5, 4), (4, 4, 4)])
def test_rows_hold_at_true_points_of_a_ball(hidden: tuple[int, ...], clip: tuple[float, float] | None) -> None:
    net, ball = small_net(11, 3, hidden, 5), ball_of(2, 5, 0.6, clip)
    pre = linear_margins(net, ball, C[None])[0]
    problem = margin(Problem.of(net, ball, C).on(ball, pre))
    space, blocks = problem.relaxation.space, problem.relaxation.blocks
    x = true_points(net, ball)
    y = np.ones((len(x), space.size))
    box = ball.box
    y[:, space.slices["w"]] = (x - (box.lo + box.hi) / 2) / ((box.hi - box.lo) / 2)
    for i, (z, bounds) in enumerate(zip(net.preactivations(x), pre, strict=True), start=1):
        free = blocks[f"s{i}"][0]
        y[:, space.slices[f"s{i}"]] = 2 * np.maximum(z[:, free], 0.0) / bounds.hi[free] - 1.0
    rank_two = problem.relaxation.problem
    F = rank_two.vectors.toarray()
    terms = (y @ F)[:, rank_two.ia] * (y @ F)[:, rank_two.ib]
    values = np.zeros((len(x), rank_two.rows))
    np.add.at(values.T, rank_two.owner, terms.T)
    equal = rank_two.equality
    assert np.all(values[:, ~equal] <= rank_two.rhs[~equal] + 1e-12)
    assert np.all(np.abs(values - rank_two.rhs)[:, equal] <= problem.relaxation.tolerance[equal] + 1e-12)
    assert any("r^2" in family.name for family in problem.relaxation.families)


@pytest.mark.parametrize("clip", [None, (0.0, 1.0)])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_on_a_ball_are_above_what_is_attained(
    seed: int, clip: tuple[float, float] | None, tmp_path: Path
) -> None:
    net, ball = small_net(seed, 3, (6, 5), 5), ball_of(seed, 5, 0.4, clip)
    true = largest(net, ball, C)
    pre, linear = linear_margins(net, ball, C[None])
    problem = margin(Problem.of(net, ball, C).on(ball, pre))
    solved = prove(problem.relaxation, solve_rank_two(problem.relaxation.problem).y).upper - problem.lift
    in_box = linear_margins(net, ball.box, C[None])[1][0]
    assert true - 1e-9 <= solved <= linear[0] + 1e-5
    assert linear[0] <= in_box + 1e-9
    proof = prove_rival(net, ball, C, pre, Budget.unlimited())
    assert proof is not None
    kept = certificate_of(net, ball, (proof,))
    kept.save(tmp_path / "margin.npz")
    again = load_certificate(tmp_path / "margin.npz", MarginCertificate)
    assert again.region == ball
    assert true - 1e-9 <= again.verify(net).found.hi[0] <= kept.claims[0]
    assert true - 1e-9 <= verify(again, net, exact=True).found.hi[0] <= kept.claims[0]
    rng = np.random.default_rng(1)
    for scale in (0.0, 1e-3, 1.0, 1e6):
        lie = scale * rng.standard_normal(problem.relaxation.problem.rows)
        assert prove_margin(problem, C, 9, lie).upper >= true - 1e-9
    for forged in (
        replace(again, claims=(true - 0.1 * abs(true) - 1e-3,)),
        replace(again, region=Ball(ball.center, 3 * ball.radius, ball.clip)),
        replace(again, proofs=(replace(proof, multipliers={n: 0.5 * v for n, v in proof.multipliers.items()}),)),
    ):
        found = forged.verify(net)
        assert isinstance(forged.region, Ball)
        assert not found.proved or forged.claims[0] >= largest(net, forged.region, C) - 1e-9


NET = small_net(5, 6, (8, 8, 8), 6)
INPUTS = np.where(np.random.default_rng(8).random((12, 6)) < 0.3, 0.0, np.random.default_rng(3).uniform(0, 1, (12, 6)))


def attacked(result: Certification, norm: Norm, clip: bool) -> None:
    """No restart of an attack in that norm breaks a certified radius."""
    limits = (0.0, 1.0) if clip else None
    for r in {r for r in result.certified_radius.tolist() if r > 0}:
        where = np.flatnonzero((result.certified_radius >= r) & ~result.wrong)
        for seed in range(10):
            found = attack(NET, INPUTS, result.labels, Perturbation(r, limits, norm), where, seed)
            assert np.all(np.isinf(found.radius))


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("name", ["2", "1"])
def test_a_data_set_in_other_norms(name: str, clip: bool, tmp_path: Path) -> None:
    norm = parse_norm(name)
    question: dict[str, Any] = {"radius": [0.02, 0.1, 0.25], "domain": (0.0, 1.0), "clip": clip, "norm": name}
    lines = certify(NET, INPUTS, **question, per_input=True)
    both = certify(NET, INPUTS, **question, per_input=True, refine=60.0, out=tmp_path / "job")
    assert np.all(both.certified_radius >= lines.certified_radius)
    assert lines.counts(0.02)["certified"] >= 8
    assert both.counts(0.25)["certified"] + both.counts(0.1)["certified"] > (
        lines.counts(0.25)["certified"] + lines.counts(0.1)["certified"]
    )
    assert np.isfinite(both.attack_radius).any()
    attacked(both, norm, clip)
    answer = verify_folder(tmp_path / "job", NET, INPUTS)
    assert answer.proved, answer.failures
    again = certify(NET, INPUTS, **question, per_input=True, refine=60.0, out=tmp_path / "job", resume=True)
    assert np.array_equal(again.certified_radius, both.certified_radius)
    assert not any("done again" in note for note in again.notes)


def test_refinement_goes_on_from_constants_in_the_euclidean_norm(tmp_path: Path) -> None:
    question: dict[str, Any] = {"radius": 0.1, "domain": (0.0, 1.0), "norm": "2", "method": "product", "attacks": False}
    plain = certify(NET, INPUTS, **question, per_input=False)
    more = certify(NET, INPUTS, **question, per_input=False, refine=60.0, out=tmp_path / "job")
    assert len(plain.pairs) == len(more.pairs) == 15
    assert more.counts(0.1)["certified"] > plain.counts(0.1)["certified"]
    assert verify_folder(tmp_path / "job", NET, INPUTS).proved


def test_margins_of_another_ball_prove_nothing(tmp_path: Path) -> None:
    file = tmp_path / "margins.npz"
    classified = classify(NET, INPUTS, None)
    k = int(np.argmax(classified.lead.min(axis=1)))
    label = int(classified.predicted[k])
    rivals = np.where(np.arange(6) == label, np.inf, 0.0)
    ball = OpenInput(k, INPUTS[k], label, (0.01, 0.02), (0.0, 1.0), rivals, norm=Norm("2"))
    rows = np.array([np.eye(6)[i] - np.eye(6)[label] for i in range(6) if i != label])

    def margins(region: Box | Ball) -> None:
        uppers = linear_margins(NET, region, rows)[1]
        proofs = tuple(MarginProof(row, float(upper)) for row, upper in zip(rows, uppers, strict=True))
        file.write_bytes(certificate_of(NET, region, proofs).to_bytes())

    for region in (Ball(INPUTS[k], 0.02, (0.0, 1.0)), Ball(INPUTS[k], 0.02), Box(INPUTS[k], 0.02)):
        margins(region)
        assert proved_radius(NET, ball, file) == (0.02, None)
    margins(Ball(INPUTS[k], 0.015, (0.0, 1.0)))
    assert proved_radius(NET, ball, file) == (0.01, None)
    for region in (
        Ball(INPUTS[k - 1], 0.02, (0.0, 1.0)),
        Ball(INPUTS[k], 0.005, (0.0, 1.0)),
        Ball(np.clip(INPUTS[k] + 1e-9, 0.0, 1.0), 0.02, (0.0, 1.0)),
    ):
        margins(region)
        assert proved_radius(NET, ball, file)[0] == 0.0
    margins(Ball(INPUTS[k], 0.02, (0.0, 1.0)))
    assert proved_radius(NET, replace(ball, norm=INF), file)[0] == 0.0  # a ball does not hold the box


def test_the_command_in_the_euclidean_norm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    NET.save(tmp_path / "net.npz")
    np.save(tmp_path / "points.npy", INPUTS)
    command = ["certify", str(tmp_path / "net.npz"), str(tmp_path / "points.npy"), "--radius", "0.02,0.1"]
    command += ["--norm", "2", "--clip", "0", "1", "--per-input", "--refine", "60", "--out", str(tmp_path / "job")]
    assert run(command) == 0
    assert "2-norm" in capsys.readouterr().out
    assert run(["verify", str(tmp_path / "job")]) == 0
    assert "proved" in capsys.readouterr().out
    assert run([*command, "--resume"]) == 0
    assert run(["report", str(tmp_path / "job")]) == 0


def test_a_constant_of_the_ball_is_never_below_its_margin() -> None:
    """The margin falls by at most the local constant times the radius."""
    net, ball = small_net(2, 3, (6, 5), 5), Ball(np.full(5, 0.3), 0.2)
    top = float(linear_margins(net, ball, C[None])[1][0])
    constant = bound(net, ball, output=(0, 1), norm="2", method="linear", lower=False).upper
    assert float(net.forward(ball.center[None])[0] @ C) + 0.2 * constant >= largest(net, ball, C) - 1e-9
    assert top >= largest(net, ball, C) - 1e-9


def test_the_row_of_a_ball_is_kept_from_the_start() -> None:
    """A first point far outside of the ball took half as many iterations more, and many inputs never came inside."""
    net = small_net(3, 3, (15, 15), 120)
    ball = Ball(np.random.default_rng(0).random(120), 0.3)
    pre = linear_margins(net, ball, C[None])[0]
    problem = margin(Problem.of(net, ball, C).on(ball, pre)).relaxation.problem
    assert solve_rank_two(problem).iterations <= 14
