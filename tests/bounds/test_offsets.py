"""Linear bounds on balls by any slopes and weights: never below what is attained, in floats and in balls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lipcert import Ball, Box, Network, verify
from lipcert.bounds.interval import Interval
from lipcert.bounds.offsets import Reach, offsets, reaches
from lipcert.proof.balls import margins_with_balls
from lipcert.proof.file import load_certificate
from lipcert.proof.margins import (
    WEIGHTS,
    MarginCertificate,
    MarginProof,
    certificate_of,
    linear_margins,
    offset_margin,
    slopes_name,
)
from lipcert.robustness.descent import prove_by_descent
from lipcert.rounding import Array
from tests.robustness.test_balls import ball_of, largest
from tests.robustness.test_certify import small_net

C = np.array([1.0, -1.0, 0.0])


@pytest.mark.parametrize("seed", range(8))
def test_offsets_hold_at_every_point_of_ball_and_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    lo = rng.normal(size=n) - 0.5
    z = Interval(lo[None], lo[None] + rng.uniform(0, 2, (1, n)))
    center = rng.uniform(z.lo[0], z.hi[0])
    radius, weight = float(rng.uniform(0.1, 1.0)), float(rng.choice([0.0, 0.1, 1.0, 10.0]))
    rows = rng.normal(size=(1, 20, n))
    g = rows * rng.uniform(-0.5, 1.5, (1, 20, n))
    points = rng.uniform(z.lo, z.hi, (20000, n))
    points = np.concatenate([points, np.where(rng.random(points.shape) < 0.3, np.clip(0.0, z.lo, z.hi), points)])
    points = points[np.linalg.norm(points - center, axis=1) <= radius]
    true = np.maximum(points, 0.0) @ rows[0].T - points @ g[0].T
    found = offsets(rows, g, z, Reach(center, radius), weight)[0]
    assert np.all(found >= true.max(axis=0, initial=-np.inf))
    if weight == 0.0:
        corners = np.stack([z.lo[0], z.hi[0], np.clip(np.zeros(n), z.lo[0], z.hi[0])])
        each = rows[0][:, None] * np.maximum(corners, 0.0) - g[0][:, None] * corners
        assert found == pytest.approx(each.max(axis=1).sum(axis=1), rel=1e-12, abs=1e-12)


def test_a_weight_makes_the_offset_of_many_neurons_smaller() -> None:
    n, radius = 400, 1.0
    z = Interval(-np.ones((1, n)), np.ones((1, n)))
    rows, g = np.ones((1, 1, n)), np.full((1, 1, n), 0.5)
    ball = Reach(np.zeros(n), radius)
    lines = float(offsets(rows, g, z, ball, 0.0)[0, 0])
    best = min(float(offsets(rows, g, z, ball, w)[0, 0]) for w in np.geomspace(0.1, 1000, 50))
    assert lines == pytest.approx(0.5 * n)
    assert 0.5 * np.sqrt(n) * radius <= best <= 0.51 * np.sqrt(n) * radius  # what |z| <= 1 allows


@pytest.mark.parametrize("clip", [None, (0.0, 1.0)])
@pytest.mark.parametrize("hidden", [(6,), (5, 4), (4, 4, 4)])
def test_layers_stay_in_their_balls(hidden: tuple[int, ...], clip: tuple[float, float] | None) -> None:
    net, ball = small_net(7, 3, hidden, 5), ball_of(3, 5, 0.3, clip)
    pre = linear_margins(net, ball, C[None])[0]
    x = ball.project(ball.center + ball.radius * np.random.default_rng(0).normal(size=(5000, 5)))
    for z, known in zip(net.preactivations(x), reaches(net, ball, pre), strict=True):
        moved = np.linalg.norm(z - known.center, axis=1)
        assert moved.max() <= known.radius
        assert np.all(known.radius <= np.linalg.norm(np.abs(z).max(axis=0)) * 100)


def numbers_of(rng: np.random.Generator, net: Network, scale: float) -> dict[str, Array]:
    slopes = {slopes_name(k): rng.uniform(-0.5, 1.5, w) for k, w in enumerate(net.shape[1:-1], start=1)}
    return slopes | {WEIGHTS: scale * rng.random(net.depth)}


@pytest.mark.parametrize("clip", [None, (0.0, 1.0)])
@pytest.mark.parametrize("hidden", [(6,), (5, 4), (4, 4, 4)])
def test_any_slopes_and_weights_prove_something_true(
    hidden: tuple[int, ...], clip: tuple[float, float] | None, tmp_path: Path
) -> None:
    net, ball = small_net(11, 3, hidden, 5), ball_of(2, 5, 0.5, clip)
    true, pre = largest(net, ball, C), linear_margins(net, ball, C[None])[0]
    rng = np.random.default_rng(4)
    for scale in (0.0, 0.1, 1.0, 10.0, 1e6):
        numbers = numbers_of(rng, net, scale)
        upper = offset_margin(net, ball, C, pre, numbers)
        assert true <= upper < np.inf
        kept = certificate_of(net, ball, (MarginProof(C, upper, -1, numbers),))
        kept.save(tmp_path / "margin.npz")
        again = load_certificate(tmp_path / "margin.npz", MarginCertificate)
        assert again.verify(net).found.hi[0] == pytest.approx(upper, rel=1e-12)
        (alone,) = margins_with_balls(again, net)
        assert true <= alone
        assert alone == pytest.approx(upper, rel=1e-6, abs=1e-6)
        exact = verify(again, net, exact=True)
        assert exact.proved
        assert true <= exact.found.hi[0] <= kept.claims[0]
        assert not replace(again, claims=(true - 1e-6 * abs(true),)).verify(net).proved


def test_numbers_that_do_not_fit_prove_nothing() -> None:
    net, ball = small_net(11, 3, (5, 4), 5), ball_of(2, 5, 0.5, None)
    pre = linear_margins(net, ball, C[None])[0]
    good = numbers_of(np.random.default_rng(0), net, 1.0)
    assert np.isfinite(offset_margin(net, ball, C, pre, good))
    for wrong in (
        {WEIGHTS: -good[WEIGHTS]},
        {WEIGHTS: np.full(2, np.nan)},
        {WEIGHTS: np.full(2, np.inf)},
        {WEIGHTS: np.ones(3)},
        {slopes_name(1): np.full(5, np.nan)},
        {slopes_name(1): np.ones(4)},
        {slopes_name(2): np.zeros(0)},
    ):
        numbers = {**good, **wrong}
        assert offset_margin(net, ball, C, pre, numbers) == np.inf
        kept = certificate_of(net, ball, (MarginProof(C, -1.0, -1, numbers),))
        assert kept.verify(net).found.hi[0] == np.inf
    box = Box(ball.center, 0.5)
    assert offset_margin(net, box, C, linear_margins(net, box, C[None])[0], good) == np.inf
    tanh = Network.from_weights([np.eye(3), np.eye(3)], activation="tanh")
    around = Ball(np.zeros(3), 0.1)
    forged = MarginProof(C, -1.0, -1, {slopes_name(1): np.zeros(3), WEIGHTS: np.zeros(1)})
    assert certificate_of(tanh, around, (forged,)).verify(tanh).found.hi[0] == np.inf


@pytest.mark.parametrize("clip", [None, (0.0, 1.0)])
@pytest.mark.parametrize("seed", range(3))
def test_descent_is_between_what_is_attained_and_the_first_lines(seed: int, clip: tuple[float, float] | None) -> None:
    net, ball = small_net(seed, 3, (20, 20), 30), ball_of(seed, 30, 0.1, clip)
    rows = np.array([C, -C, [0.0, 1.0, -1.0]])
    pre, lines = linear_margins(net, ball, rows)
    values, proofs = prove_by_descent(net, ball, rows, pre)
    true = np.array([largest(net, ball, c) for c in rows])
    assert np.all(values >= true - 1e-9)
    assert np.mean(values - true) < 0.7 * np.mean(lines - true) or set(proofs) == set(np.flatnonzero(true < 0))
    for k, proof in proofs.items():
        assert true[k] <= proof.upper < 0
        assert certificate_of(net, ball, (proof,)).verify(net).proved
