"""The relaxations shor and hr2: rows that are true, values that are those of the paper, never below the exact one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from lipcert import Affine, Box, Everywhere, Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof import prove_interval
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array
from lipcert.solver import Status
from tests import literal
from tests.lift_tools import built
from tests.one_layer_tools import Case, exact, one_layer_cases, random_case, solve, solved, weights
from tests.problems import AROUND_11

METHODS = ("hr2", "shor")
ROUNDING = 1e-9  # of the enumeration, which is plain floating point


@settings(max_examples=20)
@given(one_layer_cases())
def test_order_of_the_bounds(case: Case) -> None:
    """exact <= hr2 <= shor and interval."""
    net, region, c = case
    true = exact(net, region, c)
    (best, how), (first, _) = solve(net, region, c, "hr2"), solve(net, region, c, "shor")
    interval = prove_interval(Problem.of(net, region, c)).upper
    assert best.upper >= true * (1 - ROUNDING)
    assert first.upper >= true * (1 - ROUNDING)
    slack = 1e-6 if how.status is Status.OPTIMAL else 1e-3  # degenerate cases end NEARLY_OPTIMAL
    assert best.upper <= first.upper + slack * (1 + first.upper)
    assert best.upper <= interval + slack * (1 + interval)


@pytest.mark.parametrize(
    ("seed", "p0", "p1", "radius", "alpha"),
    [
        (0, 5, 5, 0.3, 0.0),
        (1, 5, 5, 1.0, 0.2),
        (2, 5, 8, 1.0, 0.01),
        (3, 7, 5, 0.5, 0.0),
        (4, 6, 9, 0.3, 0.0),
        (5, 10, 10, 10.0, 0.0),
        (6, 10, 10, 0.2, 0.0),
        (7, 10, 10, 0.3, 0.1),
    ],
)
def test_values_are_those_of_the_paper(seed: int, p0: int, p1: int, radius: float, alpha: float) -> None:
    net, box, c = random_case(seed, p0, p1, radius, alpha)
    A, b, w = weights(net, c)
    instance = (A, b, w, box.lo, box.hi, alpha)
    full = solved(net, box, c, "hr2", chords=True).upper
    assert full == pytest.approx(literal.hr2(*instance, order=1), rel=1e-4)
    assert solved(net, box, c, "hr2", chords=False).upper == pytest.approx(literal.hr2(*instance), rel=1e-4)
    first = solved(net, box, c, "shor").upper
    assert first == pytest.approx(literal.shor(*instance, stable=False), rel=1e-4)
    assert first <= literal.shor(*instance) * (1 + 1e-4)
    assert full <= first * (1 + 1e-6)
    everywhere = literal.everywhere(A, w, alpha)
    for method in METHODS:
        assert solved(net, Everywhere(), c, method).upper == pytest.approx(everywhere, rel=1e-5), method


def test_reference_knows_closed_forms() -> None:
    """The oracle itself, on networks with one input."""
    A, b, c = np.array([[1.0], [-1.0]]), np.zeros(2), np.ones(2)
    lo, hi = np.array([-1.0]), np.array([1.0])
    assert literal.hr2(A, b, c, lo, hi) == pytest.approx(1.0, abs=1e-4)
    single = np.array([[2.0]])
    assert literal.shor(single, np.zeros(1), np.ones(1), lo, hi) == pytest.approx(2.0, abs=1e-4)
    assert literal.everywhere(single, np.ones(1), 0.5) == pytest.approx(2.0, abs=1e-5)
    assert literal.hr2(single, np.array([-3.0]), np.ones(1), lo, hi, 0.25) == pytest.approx(0.5, abs=1e-5)


@settings(max_examples=26)
@given(one_layer_cases(max_inputs=6, max_neurons=8))
def test_rows_hold_at_true_points(case: Case) -> None:
    """Thousands of points: every row up to 1e-12 and y'Cy + offset >= t'gradient."""
    net, region, c = case
    for method in METHODS:
        relaxation = built(Problem.of(net, region, c), method)
        Y, value = _true_points(relaxation, net, region, c, 2000)
        problem = relaxation.problem
        forms = np.asarray((problem.vectors.T @ Y.T).T)
        rows = forms[:, problem.ia] * forms[:, problem.ib] - problem.rhs
        assert np.all(np.abs(rows[:, problem.equality]) <= 1e-12)
        assert np.all(rows[:, ~problem.equality] <= 1e-12)
        assert np.all(problem.diagonal + 1e-12 >= Y**2)
        reached = np.einsum("ki,ki->k", Y, np.asarray((problem.objective @ Y.T).T)) + relaxation.offset
        assert np.all(reached >= value - 1e-12 * (1 + np.abs(value)))


def _true_points(relaxation: Relaxation, net: Network, region: Region, c: Array, count: int) -> tuple[Array, Array]:
    """y = (1, w, t, v) at points of the region, random, at corners and near kinks; and t'gradient there."""
    rng = np.random.default_rng(count)
    A, b, head = weights(net, c)
    alpha = net.activations[0].alpha
    p1, p0 = A.shape
    w = rng.uniform(-1.0, 1.0, size=(count, p0))
    w[::3] = np.sign(w[::3])
    middle, radius = (region.center, region.radius) if isinstance(region, Box) else (np.zeros(p0), np.full(p0, 10.0))
    j = rng.integers(p1, size=count // 4)  # these points move to the kink of a neuron, as far as the box allows
    G = A[j] * radius
    z = np.einsum("ki,ki->k", G, w[: len(j)]) + (A @ middle + b)[j]
    norm = np.einsum("ki,ki->k", G, G)
    w[: len(j)] = np.clip(w[: len(j)] - (z / np.where(norm > 0, norm, 1.0))[:, None] * G, -1.0, 1.0)
    x = region.project(middle + radius * w)
    w = np.where(radius > 0, (x - middle) / np.where(radius > 0, radius, 1.0), 0.0)
    t = np.where(rng.uniform(size=(count, p0)) < 0.5, -1.0, 1.0)
    v = np.where(x @ A.T + b > 0, 1.0, -1.0)
    slopes = np.where(v > 0, 1.0, alpha)
    Y = np.array([relaxation.gather({"one": np.ones(1), "w": w[k], "t": t[k], "v": v[k]}) for k in range(count)])
    return Y, np.einsum("ki,ki->k", t, (slopes * head) @ A)


@pytest.mark.parametrize(("radius", "alpha"), [(0.7, 0.0), (1.0, 0.1), (3.0, 0.0), (1e-3, 0.3)])
def test_rows_hold_in_exact_arithmetic(radius: float, alpha: float) -> None:
    """In rational numbers there is no tolerance: the right-hand sides pay for all rounding in the rows, and have to."""
    net, box, c = random_case(3, 3, 4, radius, alpha)
    A = 1e3 * np.asarray(net.affines[0].weight) / 3
    net = Network((Affine(A, -A @ box.center + A @ box.radius / 7), net.affines[1]), net.activations)
    needed = 0
    for method in METHODS:
        relaxation = built(Problem.of(net, box, c), method)
        assert len(relaxation.blocks["v"][0]) == 4
        for x in _delicate_points(A, net.affines[0].bias, box):
            needed += _check_exactly(relaxation, net, box, c, x)
    assert needed > 0


def _delicate_points(A: Array, b: Array, box: Box) -> list[Array]:
    """Points where a row is tight up to rounding: z_j at the end of its range, or z_j as close to zero as floats go."""
    rng = np.random.default_rng(0)
    points = [np.where(s * a > 0, box.hi, box.lo) for a in A for s in (1, -1)]
    for a, shift in zip(A, b, strict=True):
        for _ in range(20):
            x = rng.uniform(box.lo, box.hi)
            points.append(np.clip(x - a * (a @ x + shift) / (a @ a), box.lo, box.hi))
    return points


def _rational(values: Array) -> list[Fraction]:
    return [Fraction(float(v)) for v in values]


def _dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((p * q for p, q in zip(a, b, strict=True) if p and q), Fraction(0))


def _radius_above(lo: float, middle: float, hi: float) -> Fraction:
    """The forms are in w = (x - middle) / r, r the larger distance to an end, rounded up where it is not a float."""
    distance = max(Fraction(hi) - Fraction(middle), Fraction(middle) - Fraction(lo))
    nearest = float(distance)
    return Fraction(nearest if Fraction(nearest) >= distance else math.nextafter(nearest, math.inf))


def _check_exactly(relaxation: Relaxation, net: Network, box: Box, c: Array, point: Array) -> int:
    """Every row and the objective at one point, any t; the number of rows that hold thanks to their slack only."""
    A, b, head = (np.atleast_2d(part) for part in weights(net, c))
    x, rows = _rational(point), [_rational(row) for row in A]
    middle = box.lo / 2 + box.hi / 2
    r = [_radius_above(*ends) for ends in zip(box.lo, middle, box.hi, strict=True)]
    w = [(e - m) / q for e, m, q in zip(x, _rational(middle), r, strict=True)]
    assert all(abs(e) <= 1 for e in w)
    z = [_dot(row, x) + shift for row, shift in zip(rows, _rational(b[0]), strict=True)]
    t = _rational(np.random.default_rng(len(x)).choice([-1.0, 1.0], size=len(x)))
    on = [e > 0 for e in z]
    full = {"one": [Fraction(1)], "w": w, "t": t, "v": [Fraction(1 if e else -1) for e in on]}
    y: list[Fraction] = []
    for name, where in relaxation.space.slices.items():
        members = relaxation.blocks[name][0] if name in relaxation.blocks else range(where.stop - where.start)
        y += [full[name][int(i)] for i in members]
    problem = relaxation.problem
    forms = [_dot(_rational(column), y) for column in problem.vectors.toarray().T]
    needed = 0
    for first, second, rhs, equality in zip(problem.ia, problem.ib, problem.rhs, problem.equality, strict=True):
        value = forms[first] * forms[second]
        assert value == Fraction(rhs) if equality else value <= Fraction(rhs)
        needed += bool(0 < rhs < 1e-6 and value > 0)
    reached = _dot([_dot(_rational(row), y) for row in problem.objective.toarray()], y) + Fraction(relaxation.offset)
    slopes = [Fraction(1) if e else Fraction(net.activations[0].alpha) for e in on]
    through = [s * h for s, h in zip(slopes, _rational(head[0]), strict=True)]
    assert reached >= sum((_dot(through, [row[i] for row in rows]) * t[i] for i in range(len(t))), Fraction(0))
    return needed


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("seed", "radius"), [(0, 0.3), (1, 1.0), (2, 0.1)])
def test_neurons_may_be_permuted_and_rescaled(method: str, seed: int, radius: float) -> None:
    net, box, c = random_case(seed, 6, 8, radius)
    A, b, w = weights(net, c)
    rng = np.random.default_rng(seed)
    order, s = rng.permutation(len(b)), np.exp(rng.normal(size=len(b)) * 2)
    other = Network(
        (Affine((A * s[:, None])[order], (b * s)[order]), Affine((w / s)[order][None, :], np.zeros(1))), net.activations
    )
    first, second = solved(net, box, c, method).upper, solved(other, box, c, method).upper
    assert second == pytest.approx(first, rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_adversarial_weights(method: str) -> None:
    for name, (net, region, c) in _adversarial().items():
        certificate = solved(net, region, c, method)
        true = exact(net, region, c)
        assert certificate.upper >= true * (1 - ROUNDING), name
        assert np.isfinite(certificate.upper), name


def _adversarial() -> dict[str, Case]:
    net, box, c = AROUND_11.case
    A, b, w = weights(net, c)
    mixed = 10.0 ** np.array([-12, 12, -6, 6, 0, 3])
    return {
        "tiny": (_net(A * 1e-12, b * 1e-12, w), box, c),
        "huge": (_net(A * 1e12, b * 1e12, w), box, c),
        "tiny output": (_net(A, b, w * 1e-12), box, c),
        "huge output": (_net(A, b, w * 1e12), box, c),
        "tiny inputs": (_net(A * [1e-12, 1.0, 1.0, 1.0], b, w), box, c),
        "huge inputs": (_net(A * [1e12, 1.0, 1.0, 1.0], b, w), box, c),
        "mixed rows": (_net(A * mixed[:, None], b * mixed, w), box, c),
        "mixed rows, same function": (_net(A * mixed[:, None], b * mixed, w / mixed), box, c),
        "mixed biases": (_net(A, b * mixed, w), box, c),
        "zero rows": (_net(A * np.array([0, 1, 0, 1, 0, 1])[:, None], b, w), box, c),
        "zero matrix": (_net(A * 0, b, w), box, c),
        "zero everything": (_net(A * 0, b * 0, w * 0), box, c),
        "zero output": (_net(A, b, w * 0), box, c),
        "zero c": (net, box, np.zeros(1)),
        "copies": (_net(np.tile(A[:1], (6, 1)), np.full(6, b[0]), w), box, c),
        "mirrored": (_net(np.vstack([A[:3], -A[:3]]), np.r_[b[:3], -b[:3]], w), box, c),
        "kinks at the center": (_net(A, -A @ box.center, w), box, c),
        "kink at a corner": (_net(A[:1], -A[:1] @ box.lo, w[:1]), box, c),
        "one neuron": (_net(A[:1], b[:1] * 0 - A[:1] @ box.center, w[:1]), box, c),
        "one input": (_net(A[:, :1], b, w), Box([0.0], 1.0), c),
        "one of each": (_net(A[:1, :1], b[:1] * 0, w[:1]), Box([0.0], 1.0), c),
        "a point": (net, Box(box.center, 0.0), c),
        "far away": (net, Box(box.center + 1e6, 0.5), c),
        "tiny box": (net, Box(box.center, 1e-12), c),
        "everywhere": (net, Everywhere(), c),
        "everywhere, one of each": (_net(A[:1, :1], b[:1], w[:1]), Everywhere(), c),
        "everywhere, zero matrix": (_net(A * 0, b, w), Everywhere(), c),
    }


def _net(A: Array, b: Array, w: Array) -> Network:
    return Network.from_weights([A, w[None, :]], [b, np.zeros(1)])
