"""Trees of cells over balls: they cover the box around the ball, and only what lies beside the ball goes unproved."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lipcert
from lipcert import Ball, Box, Network, Polytope, verify
from lipcert.bounds.cell import Cell, beside, first_cell, halves, whole
from lipcert.budget import Budget
from lipcert.jobs import local
from lipcert.method.bracket import Bracket
from lipcert.method.branching import branch
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof.balls import check_with_balls
from lipcert.proof.balls.trees import is_beside
from lipcert.proof.file import load_certificate
from lipcert.proof.leaves import BY_LINES, split_at
from lipcert.proof.tree import Tree
from lipcert.rounding import Array
from lipcert.search.loop import SearchOutcome
from lipcert.search.progress import CLOSED
from lipcert.search.settings import Settings
from lipcert.witness import search, steepness
from tests.lift_tools import deep_net
from tests.trees import tree_of


def corner_net() -> Network:
    """0.1 x + relu(relu(x) + relu(y) - 1.5): steep in the corner of the square around the disk, which it has not."""
    first = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    second = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    return Network.from_weights(
        [first, second, np.array([[1.0, 0.1]])], [np.array([0.0, 0.0, 5.0]), [-1.5, 0.0], [0.0]]
    )


def searched(net: Network, region: Region, norm: str = "inf", gap: float = 0.0, work: float = 20.0) -> SearchOutcome:
    problem, bracket = Problem.of(net, region, 0, norm), Bracket(Settings(gap=max(gap, CLOSED)))
    bracket.improve(search(problem, Budget.of_work(0.2), samples=500))
    return branch(problem, bracket, Budget.of_work(work), local())


def points_of(ball: Ball, count: int = 4000) -> Array:
    rng = np.random.default_rng(1)
    directions = rng.standard_normal((count, ball.size))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return ball.project(ball.center + ball.radius * directions * rng.random((count, 1)) ** (1 / ball.size))


@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from([0.0, 1e-16, 1e-8, 0.1]))
def test_what_lies_beside_is_exactly_so(seed: int, inputs: int, room: float) -> None:
    """Boxes that touch the ball, or nearly so, among them; yes is never wrong, and the exact answer says no less."""
    rng = np.random.default_rng(seed)
    ball = Ball(rng.standard_normal(inputs), float(np.exp(rng.normal())))
    way = rng.standard_normal(inputs)
    near = ball.center + ball.radius * (1 + room) * way / np.linalg.norm(way)
    far = near + np.sign(way) * rng.random(inputs)
    cell = whole(deep_net(inputs, 3, 1), Box.from_bounds(np.minimum(near, far), np.maximum(near, far)))
    box = cell.region
    assert isinstance(box, Box)
    away = (
        max(Fraction(a) - Fraction(c), Fraction(c) - Fraction(b), Fraction(0))
        for a, c, b in zip(box.lo.tolist(), ball.center.tolist(), box.hi.tolist(), strict=True)
    )
    truly = sum(d * d for d in away) > Fraction(ball.radius) ** 2
    assert is_beside(ball, cell) == truly
    assert truly or not beside(ball, [cell])[0]
    if room >= 1e-8:
        assert beside(ball, [cell])[0]


def test_there_is_nothing_beside_other_regions() -> None:
    net, box = deep_net(2, 3, 1), Box(np.zeros(2), 1.0)
    assert not beside(box, [whole(net, Box(np.full(2, 9.0), 1.0))]).any()
    assert first_cell(net, box).region is box


def test_the_corner_beside_the_ball_does_not_count() -> None:
    net, ball = corner_net(), Ball(np.zeros(2), 1.0)
    found = searched(net, ball)
    assert found.closed
    assert found.certificate.upper == pytest.approx(0.1, rel=1e-6)
    assert verify(found.certificate, net).proved
    assert searched(net, ball.box).certificate.upper == pytest.approx(2.1, rel=1e-6)


@pytest.mark.parametrize("kind", ["relu", "tanh", "softplus"])
@pytest.mark.parametrize("norm", ["inf", "2"])
def test_bounds_hold_at_points_of_the_ball(kind: str, norm: str) -> None:
    net, ball = deep_net(2, 5, 4, 1, activation=kind), Ball(np.array([0.3, -0.2]), 0.6)
    found = searched(net, ball, norm, gap=0.02, work=6.0)
    steepest = float(steepness(Problem.of(net, ball, 0, norm), points_of(ball)).max())
    assert steepest <= found.certificate.upper * (1 + 1e-12)
    assert found.witness is not None
    assert ball.contains(found.witness.point)
    assert found.certificate.upper <= 1.02 * found.witness.value
    assert verify(found.certificate, net).proved


def test_both_checkers_prove_what_the_file_says(tmp_path: Path) -> None:
    pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")
    net, ball = deep_net(2, 5, 4, 1, activation="tanh"), Ball(np.array([0.3, -0.2]), 0.6)
    found = searched(net, ball, "2", gap=0.02, work=6.0)
    found.certificate.save(tmp_path / "ball.npz")
    kept = load_certificate(tmp_path / "ball.npz")
    assert isinstance(kept.proof, Tree)
    assert any(beside(ball, [cell])[0] for cell in cells_of(net, ball, kept.proof))
    assert verify(kept, net).proved
    assert check_with_balls(kept, net) <= found.certificate.upper * (1 + 1e-9)


def cells_of(net: Network, region: Region, tree: Tree) -> list[Cell]:
    """The cells of all nodes, level by level."""
    found = [first_cell(net, region)]
    for k, (where, value) in enumerate(zip(tree.where.tolist(), tree.value.tolist(), strict=True)):
        if where >= 0:
            found += halves(found[k], split_at(net, where, value))
    return found


def test_a_part_of_a_ball() -> None:
    """Cut by a half-space: the steep place is not in it."""
    net, ball = corner_net(), Ball(np.zeros(2), 1.2)
    whole_ball, part = searched(net, ball), searched(net, Polytope(ball, np.array([[1.0, 1.0]]), np.array([1.4])))
    assert whole_ball.certificate.upper == pytest.approx(2.1, rel=1e-6)
    assert part.certificate.upper == pytest.approx(0.1, rel=1e-6)
    assert verify(part.certificate, net).proved


def test_a_tree_of_the_ball_proves_nothing_of_its_box() -> None:
    """The same splits and leaves: with the corners in it the bound is that of the corners."""
    net, ball = corner_net(), Ball(np.zeros(2), 1.0)
    proof = searched(net, ball).certificate.proof
    assert isinstance(proof, Tree)
    assert proof.check(Problem.of(net, ball, 0)) == pytest.approx(0.1, rel=1e-6)
    assert proof.check(Problem.of(net, ball.box, 0)) >= 2.1
    assert tree_of(net, (None,), (BY_LINES,)).check(Problem.of(net, ball, 0)) >= 0.1


def test_smooth_networks_on_balls_are_decided() -> None:
    """Relaxations alone left a factor."""
    net, ball = deep_net(3, 6, 6, 1, activation="softplus"), Ball(np.zeros(3), 0.5)
    result = lipcert.bound(net, ball, norm="2", method="exact", gap=0.02, work=20.0)
    assert result.gap is not None
    assert result.gap <= 0.02
    assert result.certificate.method == "tree"
