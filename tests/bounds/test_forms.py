"""Linear forms on the part of a ball that is in a box: never below the maximum, and close to it."""

from __future__ import annotations

import numpy as np
import pytest

from lipcert import Ball
from lipcert.bounds.forms import LinearForms
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import preactivation_bounds
from lipcert.proof.balls.forms import Forms
from lipcert.proof.balls.numbers import above, balls
from lipcert.proof.margins import joint_bounds
from lipcert.rounding import Array
from tests.robustness.test_certify import small_net


def maximum(g: Array, ball: Ball) -> float:
    """The largest g'x on a clipped ball: at g / t cut off at the box, with the t that puts it on the sphere."""
    low, high = ball.box.lo - ball.center, ball.box.hi - ball.center
    below, over = 1e-12, 1e12
    for _ in range(200):
        t = np.sqrt(below * over)
        moved = np.clip(g / t, low, high)
        below, over = (t, over) if np.linalg.norm(moved) > ball.radius else (below, t)
    return float(g @ (ball.center + np.clip(g / over, low, high)))


def forms_of(g: Array) -> LinearForms:
    nothing = np.zeros((1, len(g)))
    return LinearForms(g[None], nothing, nothing, nothing, g.shape[1] + 8)


@pytest.mark.parametrize("seed", range(6))
def test_forms_on_a_clipped_ball(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    center = np.where(rng.random(n) < 0.4, rng.integers(0, 2, n), rng.random(n))  # many at an end, as pixels are
    ball = Ball(center, float(rng.choice([0.05, 0.5, 2.0, 20.0])), (0.0, 1.0))
    g = rng.normal(size=(30, n)) * 10.0 ** rng.integers(-3, 3, (30, 1))
    g[0] = 0.0
    box = Interval(ball.box.lo[None], ball.box.hi[None])
    true = np.array([maximum(row, ball) for row in g])
    both, apart = forms_of(g).largest(box, ball, joint=True)[0], forms_of(g).largest(box, ball)[0]
    size = np.abs(g).sum(axis=1) + 1e-90  # a row of zeros pays for underflow
    assert np.all(both >= true - 1e-13 * size)
    room = 0.02 * size * min(ball.radius, 1.0) + 1e-9 * size
    assert np.all(both <= np.minimum(apart, true + room) + 1e-9 * size)
    in_balls = above(Forms(balls(g), balls(np.zeros(30))).largest(ball))
    assert np.all(in_balls >= true - 1e-13 * size)
    assert np.all(in_balls <= np.minimum(both, apart) + 1e-9 * size)


@pytest.mark.parametrize("hidden", [(6,), (5, 4), (4, 4, 4)])
def test_joint_bounds_hold_and_are_tighter(hidden: tuple[int, ...]) -> None:
    net = small_net(4, 3, hidden, 8)
    rng = np.random.default_rng(0)
    ball = Ball(np.where(rng.random(8) < 0.5, 0.0, rng.random(8)), 0.7, (0.0, 1.0))
    cloud = ball.project(ball.center + rng.normal(size=(4000, 8)))
    joint, plain = joint_bounds(net, ball), preactivation_bounds(net, ball)
    for z, bounds, wider in zip(net.preactivations(cloud), joint, plain, strict=True):
        assert np.all((z >= bounds.lo) & (z <= bounds.hi))
        assert np.all((bounds.lo >= wider.lo - 1e-9) & (bounds.hi <= wider.hi + 1e-9))
    assert np.mean(joint[0].hi - joint[0].lo) < 0.95 * np.mean(plain[0].hi - plain[0].lo)
    same = joint_bounds(net, Ball(ball.center, 0.7))
    assert all(
        np.array_equal(a.hi, b.hi) for a, b in zip(same, preactivation_bounds(net, Ball(ball.center, 0.7)), strict=True)
    )
