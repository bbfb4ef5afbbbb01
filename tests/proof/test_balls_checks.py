"""Every check of the ball checker, one by one: what is wrong is refused, what is only said is not believed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import lipcert
from lipcert import Activation, Ball, Box, Certificate, Everywhere, MethodError, Network, verify
from lipcert.bounds import Interval, Split, bounds_of, halves, preactivations, whole
from lipcert.bounds.collapse import collapse
from lipcert.problem.activations import BOUNDED
from lipcert.problem.blocks import Block
from lipcert.problem.problem import Problem
from lipcert.proof.arithmetic import Arithmetic
from lipcert.proof.balls import check, check_with_balls, collapsed, margins_with_balls, rows, slopes
from lipcert.proof.balls.arithmetic import tangent_values
from lipcert.proof.balls.cells import Hint, cell_bounds, proved_slopes, region_bounds
from lipcert.proof.balls.curves import shifts, slope_bounds, value_bounds
from lipcert.proof.balls.forms import Forms, no_sides
from lipcert.proof.balls.gradients import Adjoint, Readers
from lipcert.proof.balls.interior import no_interior_unbounded
from lipcert.proof.balls.maps import _by_squares
from lipcert.proof.balls.numbers import (
    BITS,
    above,
    balls,
    below,
    float_above,
    floats,
    largest_eigenvalue,
    spectral,
    zeros,
)
from lipcert.proof.balls.systems import BallSystem
from lipcert.proof.balls.trees import check_tree, is_empty
from lipcert.proof.cases import Cases, ProvedCase
from lipcert.proof.leaves import BY_LINES, SIDES, Empty
from lipcert.proof.margins import MarginProof, certificate_of, linear_margins, prove_margin
from lipcert.proof.multipliers import Multipliers
from lipcert.proof.nogoods import Nogoods, System
from lipcert.proof.sharpened import Sharper, Within
from lipcert.proof.slopes import Slopes
from lipcert.relaxation.margin import margin
from lipcert.relaxation.slopes import slope_program
from lipcert.relaxation.specification import Specification, build
from tests.ball_corpus import even, problem_of, small_net
from tests.forging import asking
from tests.trees import signs_of, tree_of

flint = pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")

BOX = Box(np.zeros(2), 0.8)


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    with flint.ctx.workprec(BITS):
        yield


def narrow(pre: Hint) -> Hint:
    """Bounds that are not true: the middle of each interval, or zero."""
    with np.errstate(invalid="ignore"):
        ends = [np.nan_to_num(z.lo / 2 + z.hi / 2, posinf=0.0, neginf=0.0) for z in pre]
    return tuple(Interval(end, end) for end in ends)


def values(net: Network, region: Any, count: int = 400) -> list[Any]:
    points = np.random.default_rng(0).normal(size=(count, net.inputs))
    if not isinstance(region, Everywhere):
        box = region.box if isinstance(region, Ball) else region
        points = region.project(np.random.default_rng(0).uniform(box.lo, box.hi, (count, net.inputs)))
    return net.preactivations(points)


@pytest.mark.parametrize("kind", ["relu", "tanh"])
@pytest.mark.parametrize("region", [BOX, Ball(np.full(2, 0.3), 0.5), Everywhere()], ids=["box", "ball", "everywhere"])
def test_hints_are_not_believed(kind: str, region: Any) -> None:
    net = small_net(2, 4, 3, 1, kind=kind, seed=2)
    problem = problem_of(net, region)
    found = region_bounds(problem, narrow(preactivations(problem))).pre
    for z, at in zip(found, values(net, region), strict=True):
        assert np.all(z.lo <= at.min(axis=0) + 1e-12)
        assert np.all(z.hi >= at.max(axis=0) - 1e-12)
    honest = region_bounds(problem, preactivations(problem)).pre
    for z, said in zip(honest, preactivations(problem), strict=True):
        assert np.array_equal(z.lo, said.lo)  # as the ordinary engine has them, bit by bit
        assert np.array_equal(z.hi, said.hi)


def test_hints_of_cells_are_not_believed() -> None:
    net = small_net(2, 4, 3, 1, seed=2)
    for cell in halves(whole(net, BOX), Split(1, 1)):
        found = cell_bounds(net, cell, narrow(bounds_of(net, [cell]).of(0)))
        at = values(net, BOX)
        inside = at[0][:, 1] * cell.signs[0][1] > 0
        assert not found.empty
        for z, own in zip(found.pre, at, strict=True):
            assert np.all(z.lo <= own[inside].min(axis=0) + 1e-12)
            assert np.all(z.hi >= own[inside].max(axis=0) - 1e-12)


def test_slack_is_paid() -> None:
    """In intervals and in forms, of the block itself and of those before it."""
    first = Block(((0, np.eye(2)),), np.zeros(2), Activation("relu"), np.full(2, 0.125))
    second = Block(((1, np.array([[1.0, -1.0]])),), np.zeros(1), Activation("relu"), np.full(1, 0.25))
    net = Network.from_blocks((first, second, Block(((2, np.ones((1, 1))),), np.zeros(1))))
    inside = Box.from_bounds(np.full(2, 1.0), np.full(2, 2.0))
    nothing = tuple(Interval(np.full(b.width, np.inf), np.full(b.width, -np.inf)) for b in net.hidden)
    found = region_bounds(problem_of(net, inside), nothing).pre
    assert np.all(found[0].lo <= 0.875)
    assert np.all(found[0].hi >= 2.125)
    assert found[1].hi[0] >= 1.0 + 0.25 + 0.25


def test_half_spaces_are_not_subtracted() -> None:
    """x >= 0 says nothing about x from above: a negative multiple of it counts as none."""
    above_x = Forms(balls([[1.0]]), balls([0.0]))
    sides = no_sides(1).with_more(above_x, np.zeros(1, dtype=np.int64))
    for weight in (-1.0, np.nan, np.inf):
        found = sides.combined(above_x, np.array([[weight]]))
        assert floats(found.rows).tolist() == [[1.0]]
    assert floats(sides.combined(above_x, np.array([[2.0]])).rows).tolist() == [[3.0]]


@pytest.mark.parametrize("kind", BOUNDED)
def test_curves_hold_at_points(kind: str) -> None:
    f, rng = Activation(kind, 0.3), np.random.default_rng(4)
    middle, half = 3 * rng.normal(size=6), 2 * rng.exponential(size=6)
    z = Interval(middle - half, middle + half)
    at = z.lo + np.linspace(0, 1, 301)[:, None] * (z.hi - z.lo)
    at = np.clip(at, z.lo, z.hi)
    slope = rng.normal(size=6)
    low, high = shifts(f, slope, z)
    room = 1e-13 * (1 + np.abs(at))
    for bounds, true in ((value_bounds(f, z), f(at)), (slope_bounds(f, z), f.derivative(at))):
        assert np.all((bounds.lo <= true + room) & (true <= bounds.hi + room))
        assert np.all(bounds.hi - true.max(axis=0) < 0.1)  # and not by far
    line = f(at) - slope * at
    assert np.all((below(low) <= line + room) & (line <= above(high) + room))


def test_numbers_round_outward() -> None:
    third = balls(1.0)[()] / 3
    assert -Fraction(float_above(-third)) * 3 < 1 < Fraction(float_above(third)) * 3
    assert float_above(balls(np.nan)[()]) == float_above(balls(np.inf)[()]) == math.inf
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 7))
    assert float_above(spectral(balls(A))) == pytest.approx(np.linalg.norm(A, 2), rel=1e-14)
    assert float_above(spectral(balls(A))) >= np.linalg.norm(A, 2) * (1 - 1e-15)
    S = A @ A.T - 5 * np.eye(5)
    assert float_above(largest_eigenvalue(balls((S + S.T) / 2))) == pytest.approx(np.linalg.eigvalsh(S)[-1], rel=1e-12)
    assert np.array_equal(floats(balls(A)), A)


def test_eigenvalues_are_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    S = balls(np.array([[2.0, 1.0], [1.0, 2.0]]))
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda _: np.array([0.0, 0.5]))
    assert float_above(largest_eigenvalue(S)) >= 3.0


def relaxation_of() -> Any:
    return build(problem_of(small_net(2, 3, 1, seed=3), BOX), Specification("hr2", "hr2"))


def test_rows_are_checked() -> None:
    """Signs, finiteness, definiteness; offset and tolerance and shift are paid."""
    asked = relaxation_of()
    count, n = len(asked.problem.rhs), asked.problem.size
    zero, large = np.zeros(count), np.full(n, 100.0)
    honest = rows.check_rows(asked, zero, large)
    assert honest == pytest.approx(100.0 * n)
    assert math.isinf(rows.check_rows(asked, zero, np.zeros(n)))  # not definite
    at = int(np.flatnonzero(~asked.problem.equality)[0])
    for wrong in (-1e-3, np.nan, np.inf):
        assert math.isinf(rows.check_rows(asked, np.where(np.arange(count) == at, wrong, 0.0), large))
        assert math.isinf(rows.check_rows(asked, zero, np.where(np.arange(n) == 1, wrong, large)))
    assert rows.check_rows(replace(asked, offset=7.0), zero, large) == pytest.approx(honest + 7.0)
    family = replace(asked.families[0], tolerance=np.full(len(asked.families[0].members), 0.5))
    loose = replace(asked, families=(family, *asked.families[1:]))
    one = np.where(np.arange(count) == 0, 1.0, 0.0)
    assert rows.check_rows(loose, one, large) == pytest.approx(rows.check_rows(asked, one, large) + 0.5)


def test_what_lifts_a_singular_matrix_is_paid() -> None:
    asked = relaxation_of()
    n, nothing = asked.problem.size, np.zeros(len(asked.problem.rhs))
    flat = replace(asked, problem=replace(asked.problem, objective=0 * asked.problem.objective), offset=0.0)
    found = rows.check_rows(flat, nothing, np.where(np.arange(n) == 1, 0.0, 1.0))
    assert n - 1 < found < n - 1 + 1e-9


def test_multipliers_are_of_one_problem() -> None:
    """Not of one that is the largest of several, and not of a cell that only a tree knows."""
    net = small_net(2, 3, 1, seed=3)
    specification = Specification("tight", "backward")
    for problem, own in (
        (problem_of(net, BOX, "1"), specification),
        (problem_of(net, BOX), replace(specification, signs=(np.zeros(3, dtype=np.int64),))),
    ):
        assert math.isinf(rows.check_multipliers(problem, Multipliers(own, {}, {"one": np.full(1, 1e6)})))


def test_too_large_is_said_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    net = small_net(2, 3, 2, 1, seed=3)
    problem = problem_of(net, BOX)
    certificate = Certificate.of(problem, Arithmetic("linear"), 1.0)
    monkeypatch.setattr(check, "MOST_WORK", 10.0)
    monkeypatch.setattr(check, "region_bounds", None)
    with pytest.raises(MethodError, match=r"^too large for the exact check: about .* more than"):
        check_with_balls(certificate, net)
    monkeypatch.setattr(check, "region_bounds", None)
    proof = MarginProof(np.ones(1), 1.0)
    with pytest.raises(MethodError, match="too large for the exact check"):
        margins_with_balls(certificate_of(net, BOX, (proof,)), net)
    monkeypatch.setattr(rows, "MOST_ORDER", 3)
    asked = relaxation_of()
    with pytest.raises(MethodError, match=r"a matrix of order .*, more than 3"):
        rows.check_rows(asked, np.zeros(len(asked.problem.rhs)), np.ones(asked.problem.size))
    monkeypatch.setattr(slopes, "MOST_ORDER", 3)
    program = slope_program(problem)
    with pytest.raises(MethodError, match=r"a piece of order .*, more than 3"):
        slopes.check_part(problem, preactivations(problem), _part(problem, even(program)))


def _part(problem: Problem, multipliers: Any, first: int = 0) -> Any:
    from lipcert.proof.slopes import prove_part

    part = prove_part(problem, slope_program(problem), multipliers)
    return replace(part, steps=type(part.steps)(part.steps.numbers + first))


def test_slopes_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Multipliers that leave nothing positive, that do not fit, and slopes that the ordinary code has too narrow."""
    net = small_net(2, 3, 3, 2, seed=3)
    problem = problem_of(net, BOX, "2")
    pre = preactivations(problem)
    program = slope_program(problem)
    honest = slopes.check_part(problem, pre, _part(problem, even(program)))
    assert math.isfinite(honest)
    good = even(program)
    for wrong in (
        replace(good, neurons=tuple(1e6 * t for t in good.neurons)),
        replace(good, neurons=(good.neurons[0], 1e6 * good.neurons[1])),
        replace(good, neurons=tuple(-t for t in good.neurons)),
    ):
        part = replace(_part(problem, good), neurons=np.concatenate(wrong.neurons))
        assert math.isinf(slopes.check_part(problem, pre, part))
    short = replace(_part(problem, good), neurons=np.ones(1))
    assert math.isinf(slopes.check_part(problem, pre, short))
    assert math.isinf(slopes.check_part(problem, pre, _part(problem, good, first=60)))
    stated = slope_program

    def narrower(asked: Problem) -> Any:
        found = stated(asked)
        return replace(found, blocks=tuple(replace(b, b=b.a) for b in found.blocks))

    monkeypatch.setattr(slopes, "slope_program", narrower)
    assert slopes.check_part(problem, pre, _part(problem, good)) == honest


def test_multipliers_of_slopes_fit() -> None:
    """One for each neuron, and in norm inf one for each input; nothing that is no number."""
    net = small_net(3, 3, 3, 1, kind="tanh", seed=3)
    problem = problem_of(net, Box(np.zeros(3), 0.05))
    pre, part = preactivations(problem), _part(problem, even(slope_program(problem)))
    assert math.isfinite(slopes.check_part(problem, pre, part))
    for wrong in (
        replace(part, inputs=np.ones(1)),
        replace(part, inputs=np.full(3, np.nan)),
        replace(part, neurons=-part.neurons),
        replace(part, neurons=np.full(6, np.nan)),
    ):
        assert math.isinf(slopes.check_part(problem, pre, wrong))


def test_norm_1_of_the_outputs_costs_its_root() -> None:
    net = small_net(2, 3, 3, 2, seed=3)
    found = []
    for out in ("2", "1"):
        problem = problem_of(net, BOX, "2", out)
        found.append(slopes.check_part(problem, preactivations(problem), _part(problem, even(slope_program(problem)))))
    assert found[1] == pytest.approx(math.sqrt(2) * found[0], rel=1e-12)


def test_trees_are_checked() -> None:
    net = small_net(2, 4, 3, 1, seed=2)
    problem = problem_of(net, BOX)
    good = tree_of(net, (Split(1, 0), None, None), (BY_LINES, BY_LINES))
    pre = preactivations(problem)
    honest = check_tree(problem, pre, good)
    assert 0 < honest <= good.check(problem) * (1 + 1e-9)
    for wrong in (
        tree_of(net, (Split(1, 0), None, None), (BY_LINES,)),
        tree_of(net, (Split(1, 0), None), (BY_LINES,)),
        tree_of(net, (None, None), (BY_LINES, BY_LINES)),
        tree_of(net, (Split(1, 9), None, None), (BY_LINES, BY_LINES)),
        tree_of(net, (Split(0, 0, 5.0), None, None), (BY_LINES, BY_LINES)),
        tree_of(net, (Split(1, 0), Split(1, 0), None, None, None), (BY_LINES,) * 3),
    ):
        assert math.isinf(check_tree(problem, pre, wrong))
    on_ball = problem_of(net, Ball(np.zeros(2), 2.0))
    assert 0 < check_tree(on_ball, preactivations(on_ball), good) <= good.check(on_ball) * (1 + 1e-9)
    assert math.isinf(check_tree(problem_of(net, BOX, "2", "2"), pre, tree_of(net, (None,), (Empty({}),))))
    assert check_tree(problem, pre, tree_of(net, (None,), (Empty({}),))) > 0  # not empty: by intervals


def test_cells_that_have_points_are_not_empty() -> None:
    net = Network.from_weights([np.eye(2), np.ones((1, 2))], [np.array([0.5, -3.0]), np.zeros(1)])
    problem, cell = problem_of(net, Box(np.zeros(2), 1.0)), whole(net, Box(np.zeros(2), 1.0))
    below_zero, above_zero = halves(cell, Split(1, 0))
    hopeless = halves(cell, Split(1, 1))[1]  # x_1 - 3 >= 0 with x_1 <= 1

    def shows(where: Any, weights: Any) -> bool:
        wide = tuple(Interval(np.full(2, -9.0), np.full(2, 9.0)) for _ in net.hidden)
        return is_empty(problem, where, cell_bounds(net, where, wide), Empty({SIDES: np.asarray(weights)}))

    assert shows(hopeless, [0.0, 1.0])
    assert not shows(hopeless, [0.0, -1.0])
    assert not shows(hopeless, [0.0, np.nan])
    assert not shows(hopeless, [0.0])
    for half in (below_zero, above_zero):
        assert not shows(half, [1.0, 1.0])
        assert not shows(half, [-1.0, 0.0])


def test_rational_proofs_of_no_interior() -> None:
    """x >= 0 and -x >= 0: a line. With room between them it is not one."""
    for bias, flat in ((0.0, True), (-0.1, True), (0.1, False)):
        net = Network.from_weights([np.array([[1.0], [-1.0]]), np.ones((1, 2))], [np.full(2, bias), np.zeros(1)])
        pre = (Interval(np.zeros(2), np.full(2, np.inf)),)
        assert no_interior_unbounded(net, pre, np.array([1.0, 5.0]), np.array([1])) == flat
        assert not no_interior_unbounded(net, pre, np.array([-1.0, 5.0]), np.array([1]))  # against both signs
        for basis in ([0, 1], [7], [-1]):
            assert not no_interior_unbounded(net, pre, np.ones(2), np.array(basis))
        assert not no_interior_unbounded(net, pre, np.array([1.0, np.nan]), np.array([1]))
        assert not no_interior_unbounded(net, pre, np.ones(2), np.zeros(0, dtype=np.int64))  # nothing cancels


def test_patterns_are_checked() -> None:
    """A refusal must be proved: of the right sign, finite, with t >= 0."""
    net = Network.from_weights([np.eye(2), np.ones((1, 2))], [np.array([0.5, -0.5]), np.zeros(1)])
    problem = problem_of(net, Box(np.zeros(2), 1.0))
    pre = preactivations(problem)
    table = [(1, 0), (-1, 0), (0, 0)]  # z_0 <= 0 is said to be impossible
    for numbers in ([], [1.0], [-1.0], [np.nan]):
        y = np.array([[0, 0]] * len(numbers), dtype=np.int64).reshape(-1, 2)
        nogoods = Nogoods(1, np.array([[0, 0, -1]], dtype=np.int64), y, np.array(numbers))
        assert math.isinf(check_tree(problem, pre, signs_of(net, table, nogoods)))
    far = problem_of(net, Box(np.array([2.0, 0.0]), 1.0))
    far = far.on(far.region, (Interval(np.array([-9.0, -1.5]), np.array([9.0, 0.5])),))
    refusal = Nogoods(1, np.array([[0, 0, -1]], dtype=np.int64), np.zeros((1, 2), dtype=np.int64), np.array([-1.0]))
    assert check_tree(far, preactivations(far), signs_of(net, table, refusal)) == pytest.approx(2.0)
    negative = Nogoods(1, refusal.literals, np.array([[0, 0], [0, 3]]), np.array([-1.0, -1.0]))
    assert math.isinf(check_tree(far, preactivations(far), signs_of(net, table, negative)))
    leaky = problem_of(small_net(2, 3, 1, kind="leaky_relu", alpha=0.2, seed=3), BOX)
    single = signs_of(leaky.network, [(0, 0)])
    assert math.isinf(check_tree(leaky, preactivations(leaky), single))  # open neurons that are no ReLUs
    whole_space = problem_of(net, Everywhere())
    assert math.isinf(check_tree(whole_space, preactivations(whole_space), signs_of(net, table, refusal)))


def test_a_system_holds_at_inputs() -> None:
    """The maximum of any sum is at least its value, with the slack, at every input."""
    net, rng = small_net(2, 4, 3, 1, seed=2), np.random.default_rng(1)
    for region in (BOX, Ball(np.zeros(2), 0.7)):
        problem = problem_of(net, region)
        system = BallSystem.over(net, region, preactivations(problem))
        y, t = rng.normal(size=(5, 7)), rng.exponential(size=(5, 7)) * (rng.random((5, 7)) < 0.3)
        scores = rng.normal(size=(5, 1))
        at = np.concatenate(values(net, region), axis=1)
        points = np.random.default_rng(0).uniform(-0.8, 0.8, (400, 2))
        top = above(system.largest(y, t, np.zeros((5, 7), dtype=np.int8), scores))
        v, w = np.maximum(at, 0), np.maximum(-at, 0)
        p, q = floats(system.p), floats(system.q)
        known = np.where(system.open, 0.0, system.slope * at - v)
        rest = np.where(system.open, at - v + w, known) @ y.T + (1 - p * v - q * w) @ t.T
        assert np.all(rest >= -1e-9 * (1 + np.abs(y).sum()))  # the rows hold
        true = net.forward(region.project(points)) @ scores.T
        assert np.all(top >= (rest + true).max(axis=0) - 1e-9)


def test_maxima_of_a_system_are_those_of_the_ordinary_one() -> None:
    """Of x, v and w, under literals, with slack in every block: nothing is left out."""
    plain, rng = small_net(2, 4, 3, 1, seed=2), np.random.default_rng(1)
    slack = [replace(block, slack=rng.exponential(size=block.width)) for block in plain.blocks]
    net = Network.from_blocks(slack)
    for region in (BOX, Ball(np.zeros(2), 0.7)):
        pre = preactivations(problem_of(net, region))
        y, t = rng.normal(size=(6, 7)), rng.exponential(size=(6, 7))
        literals = rng.integers(-1, 2, size=(6, 7)).astype(np.int8)
        scores = rng.normal(size=(6, 1))
        said = System.over(net, region, pre).largest(y, t, literals, scores)[0]
        assert above(BallSystem.over(net, region, pre).largest(y, t, literals, scores)) == pytest.approx(said, rel=1e-9)


def test_sharper_bounds_are_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """With multipliers of nothing and a lying hint, what is found still holds at all inputs."""
    net = small_net(2, 4, 3, 1, seed=2)
    problem = problem_of(net, BOX)
    pre = preactivations(problem)
    targets = np.array([[2, 0, 1], [2, 1, -1]])
    lies = Sharper(targets, np.array([[0, 0], [1, 2]]), np.array([0.3, -0.2]))
    asked = problem.on(BOX, pre)
    wrong = problem.on(BOX, narrow(pre))
    monkeypatch.setattr(check, "proved_collapse", lambda *_: None)
    monkeypatch.setattr(Sharper, "of", lambda *_: wrong)
    found = check.sharpened(asked, pre, lies)
    assert found is not None
    for z, at in zip(preactivations(found), values(net, BOX), strict=True):
        assert np.all((z.lo <= at.min(axis=0) + 1e-12) & (at.max(axis=0) <= z.hi + 1e-12))
    later = Sharper(targets, np.array([[0, 9], [1, 2]]), np.array([0.3, -0.2]))  # of a neuron that is not before it
    assert check.sharpened(asked, pre, later) is None
    assert check.sharpened(asked, pre, replace(lies, numbers=np.array([np.nan, 0.0]))) is None


def test_coefficients_of_a_collapsed_network_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are off by 1e-3 and say that they are exact: slack and price are found."""
    net = small_net(3, 8, 7, 2, seed=7)
    problem = problem_of(net, Box(np.full(3, 0.1), 0.1))
    pre = preactivations(problem)
    honest = collapsed.proved_collapse(problem, pre)
    said = collapse(problem)
    assert honest is not None
    assert said is not None
    assert honest.price == said.price  # nothing to add
    small = said.problem.network

    for of_the_input in (True, False):  # or of the open neurons

        def off(block: Block, chosen: bool = of_the_input) -> Block:
            terms = tuple((j, np.asarray(w) + 1e-3 * ((j == 0) == chosen)) for j, w in block.terms)
            return replace(block, terms=terms, slack=None)

        lie = replace(said, problem=replace(said.problem, network=Network.from_blocks([off(b) for b in small.blocks])))
        monkeypatch.setattr(collapsed, "collapse", lambda _, lie=lie: lie)
        found = collapsed.proved_collapse(problem, pre)
        assert found is not None
        assert found.price > 1e-4
        assert np.all(found.problem.network.scores.doubt > 1e-4)
        changed = [b for b in found.problem.network.hidden if any((j == 0) == of_the_input for j, _ in b.terms)]
        assert all(np.all(block.doubt > 1e-5) for block in changed)


def test_the_price_of_a_collapsed_network_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    net = small_net(3, 8, 7, 2, seed=7)
    problem = problem_of(net, Box(np.full(3, 0.1), 0.1))
    certificate = Certificate.of(problem, Within(Arithmetic("interval")), 9.0)
    honest, prove = check_with_balls(certificate, net), collapsed.proved_collapse

    def dearer(*given: Any) -> Any:
        found = prove(*given)
        assert found is not None
        return replace(found, price=found.price + 1.0)

    monkeypatch.setattr(check, "proved_collapse", dearer)
    assert check_with_balls(certificate, net) == pytest.approx(honest + 1.0)
    monkeypatch.setattr(check, "proved_collapse", lambda *_: None)
    assert math.isinf(check_with_balls(certificate, net))


def test_cases_are_those_of_the_problem() -> None:
    """A place outside of the table, also a negative one, and cases where there are none."""
    net = small_net(2, 3, 1, seed=3)
    single, cases = problem_of(net, BOX), problem_of(net, BOX, "1")
    leaf = Multipliers(Specification("tight", "backward"), {}, {})
    part = _part(single, even(slope_program(single)))
    for row, column in ((0, -1), (0, 2), (1, 0), (-1, 1)):
        stated = Cases("tight", (ProvedCase(row, column, leaf, 1.0),))
        assert math.isinf(check.check(cases, stated))
        assert math.isinf(check.check(cases, Slopes((replace(part, row=row, column=column),))))
    assert math.isinf(check.check(single, Slopes((part, replace(part, row=0, column=0)))))
    assert math.isfinite(check.check(single, Slopes((part,))))


def test_what_a_certificate_is_about() -> None:
    net = small_net(2, 3, 2, seed=3)
    problem = problem_of(net, BOX)
    good = Certificate.of(problem, Arithmetic("interval"), 9.0)
    assert math.isfinite(check_with_balls(good, net))
    whole_map = Certificate.of(problem_of(net, BOX, "2", "2"), Arithmetic("interval"), 9.0)
    for wrong in (
        asking(good, network="0" * 64),
        asking(good, c=np.ones(3)),
        asking(good, region=Box(np.zeros(3), 1.0)),
        asking(good, coordinate=0),
        asking(whole_map, c=np.zeros((2, 2))),
        replace(good, proof=Cases("tight", ())),
    ):
        assert math.isinf(check_with_balls(wrong, net))
    one = Certificate.of(problem_of(net, BOX, "1"), Arithmetic("interval"), 9.0)
    assert math.isfinite(check_with_balls(asking(one, coordinate=1), net))
    assert math.isinf(check_with_balls(asking(one, coordinate=2), net))
    with pytest.raises(MethodError, match="does not know"):
        check_with_balls(replace(good, proof=Arithmetic("hope")), net)


@pytest.mark.parametrize(
    "weights", [np.array([1.0, 3.0]), np.array([[2.0, 0.5], [0.5, 1.0]])], ids=["vector", "matrix"]
)
def test_weights_of_norms_are_respected(weights: Any) -> None:
    """Other weights than the proof was made with prove nothing, or what is true of them."""
    net = small_net(2, 3, 1, seed=3)
    norm = "inf" if weights.ndim == 1 else "2"
    result = lipcert.bound(net, BOX, norm=norm, method="interval", input_weights=weights, lower=False)
    honest = result.certificate
    assert honest.frame is not None
    assert check_with_balls(honest, net) <= honest.claim
    assert check_with_balls(honest, net) == pytest.approx(verify(honest, net).upper, rel=1e-6)
    lighter = replace(honest.frame, input_weights=0.5 * weights)
    assert math.isinf(check_with_balls(asking(honest, frame=lighter), net))


def test_margins_are_checked() -> None:
    net = small_net(3, 6, 3, seed=4)
    box, c = Box(np.zeros(3), 0.2), np.array([1.0, -1.0, 0.0])
    proof = MarginProof(c, float(linear_margins(net, box, c[None])[1][0]))
    kept = certificate_of(net, box, (proof,))
    (found,) = margins_with_balls(kept, net)
    true = float((net.forward(np.random.default_rng(0).uniform(box.lo, box.hi, (500, 3))) @ c).max())
    assert true <= found <= kept.claims[0]
    assert margins_with_balls(kept, small_net(3, 6, 3, seed=5)) == [math.inf]
    assert margins_with_balls(replace(kept, region=Box(np.zeros(2), 0.2)), net) == [math.inf]
    nothing = {"w": np.zeros(3)}
    for wrong in (replace(proof, c=np.ones(2)), replace(proof, multipliers=nothing), replace(proof, keep=9)):
        if wrong.keep == 9:
            wrong = replace(wrong, multipliers={"no such row": np.zeros(3)})
        assert margins_with_balls(replace(kept, proofs=(wrong,)), net) == [math.inf]


def test_margins_by_a_relaxation() -> None:
    """The lift is taken off once, names must be those of the rows."""
    net, box, c = small_net(3, 6, 3, seed=4), Box(np.zeros(3), 0.5), np.array([1.0, -1.0, 0.0])
    pre = linear_margins(net, box, c[None])[0]
    asked = margin(Problem.of(net, box, c).on(box, pre), 9)
    proof = prove_margin(asked, c, 9, np.full(len(asked.relaxation.problem.rhs), 0.01))
    kept = certificate_of(net, box, (proof,))
    (found,) = margins_with_balls(kept, net)
    assert found == pytest.approx(kept.verify(net).found.hi.tolist()[0], rel=1e-9)
    true = float((net.forward(np.random.default_rng(0).uniform(box.lo, box.hi, (500, 3))) @ c).max())
    assert true <= found <= kept.claims[0]
    other = replace(proof, multipliers={**proof.multipliers, "no such row": np.zeros(3)})
    assert margins_with_balls(replace(kept, proofs=(other,)), net) == [math.inf]


def test_tangents_of_products_hold() -> None:
    """w (u g) is at most what the lines say, with u = f'(z), at every z and g of their intervals."""
    net = small_net(2, 3, 3, 1, kind="tanh", seed=3)
    problem = problem_of(net, BOX)
    pre = preactivations(problem)
    stages = tangent_values(net, pre, BOX)
    adjoint = Adjoint(Readers(net), proved_slopes(net, pre), problem.c, stages)
    g, z, f = adjoint.gradients[1], pre[0], net.activations[0]
    w = np.array([[1.0, -1.0, 0.5], [-2.0, 1.0, 1.0]])
    rows, lifted, constant = (floats(part) for part in adjoint._tangent(1, balls(w)))
    rng = np.random.default_rng(0)
    for _ in range(200):
        share = rng.integers(0, 2, size=(2, 3)) if rng.random() < 0.5 else rng.random((2, 3))
        at, slope = z.lo + share[0] * (z.hi - z.lo), g.lo + share[1] * (g.hi - g.lo)
        assert np.all(w @ (f.derivative(at) * slope) <= rows @ slope + lifted @ at + constant + 1e-12)


def test_what_is_left_of_squares_is_paid() -> None:
    """With a middle of zero all of the norm is in the radius."""

    class Nothing:
        def largest(self, rows: Any) -> Any:
            return zeros(len(rows))

    R = np.array([[1.0, 2.0], [0.5, 1.0]])
    found = _by_squares([Nothing(), Nothing()], Interval(-R, R))  # type: ignore[list-item]
    assert float_above(found) >= np.linalg.norm(R, 2) * (1 - 1e-12)
