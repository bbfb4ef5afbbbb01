"""Relaxations of polynomial problems: known optima, the paper's illustrations, orders and cliques."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from lipcert.cli.pop import pop_command
from lipcert.errors import InputError
from lipcert.polynomial import Polynomial, PolynomialProblem, box_constraint
from lipcert.polynomial.hierarchy.assembly import MomentConic
from lipcert.polynomial.hierarchy.hierarchies import (
    chordal_cliques,
    correlative_graph,
    dense,
    find_rules,
    krivine,
    nearly_sparse,
    running_intersection,
    sparse,
)
from lipcert.polynomial.hierarchy.model import FactorProducts, MomentBlock, MomentModel, with_submoments
from lipcert.polynomial.hierarchy.optimise import maximize, minimize
from lipcert.polynomial.hierarchy.solve import relax, solve_model
from tests.counting import calls
from tests.polynomial_problems import CHAIN, CYCLE5, DISK, LIBRARY, Named, max_cut, rosenbrock_chain, solved

x = [Polynomial.variable(i) for i in range(6)]


@pytest.mark.parametrize("named", LIBRARY, ids=lambda n: n.name)
def test_library(named: Named) -> None:
    """Never above a minimum (below a maximum), and as tight as expected."""
    result = solved(named.problem, named.relaxation, named.order)
    sign = 1.0 if named.problem.sense == "min" else -1.0
    room = 1e-9 * (1 + abs(named.optimum))  # published optima are rounded
    assert sign * result.bound <= sign * named.optimum + room
    assert sign * result.bound >= sign * named.optimum - named.gap
    if result.minimizer is not None:
        assert named.problem.violation(result.minimizer) <= 1e-5
        assert result.value == pytest.approx(named.optimum, abs=1e-3 * (1 + abs(named.optimum)))


def test_the_paper_dense() -> None:
    result = solved(DISK, order=1)
    assert result.certified
    assert -0.5 - 1e-7 <= result.bound <= -0.5
    assert result.moments[(0, 1)] == pytest.approx(-0.5, abs=1e-6)
    assert maximize(x[0] * x[1], [1.0 - x[0] ** 2 - x[1] ** 2]).bound == pytest.approx(0.5, abs=1e-7)


def test_the_paper_sparse() -> None:
    whole = solved(CHAIN, "dense", 1).bound
    given = solved(CHAIN, "sparse", 1, cliques=[(0, 1), (1, 2)])
    found = solved(CHAIN, "sparse", 1)
    assert given.bound == pytest.approx(whole, abs=1e-7)
    assert found.bound == pytest.approx(whole, abs=1e-7)
    assert "running intersection property holds" in given.notes[0]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("power", [1, 2])
def test_the_paper_nearly_sparse(order: int, power: int) -> None:
    """With the bad constraint (1 - x1 - x2 - x3)^2 = 0 the optimum is -0.96, at (0.8, -0.6, 0.8)."""
    bad = (1.0 - x[0] - x[1] - x[2]) ** power
    problem = PolynomialProblem(CHAIN.objective, CHAIN.inequalities, (bad,))
    without = solved(CHAIN, "sparse", order).bound
    result = solved(problem, "nearly-sparse", order, cliques=[(0, 1), (1, 2)])
    assert without - 1e-6 <= result.bound <= -0.96
    assert result.bound >= -0.9601
    named = solved(problem, "nearly-sparse", order, cliques=[(0, 1), (1, 2)], bad=[bad])
    assert named.bound == pytest.approx(result.bound, abs=1e-4)
    if power == 1:
        assert result.minimizer == pytest.approx([0.8, -0.6, 0.8], abs=1e-4)


def test_sparse_equals_dense_on_a_chain() -> None:
    problem = rosenbrock_chain(4)
    assert solved(problem, "sparse", 2).bound == pytest.approx(solved(problem, "dense", 2).bound, abs=1e-3)
    assert [len(b.basis) for b in sparse(problem, 2).blocks if b.multiplier is None] == [6, 6, 6]


def test_nearly_sparse_lies_between() -> None:
    """HR-d is no looser than the sparse relaxation without the bad constraint, no tighter than dense order 2."""
    bad = 1.5 - x[0] - x[1] - x[2] - x[3]
    boxes = tuple(box_constraint(i, 0.0, 1.0) for i in range(4))
    f = x[0] * x[1] - x[1] * x[2] - 0.5 * x[2] * x[3] - x[3]
    with_bad = PolynomialProblem(f, (*boxes, bad))
    cliques = [(0, 1), (1, 2), (2, 3)]
    loose = solved(PolynomialProblem(f, boxes), "sparse", 2, cliques).bound
    heuristic = solved(with_bad, "nearly-sparse", 2, cliques)
    tight = solved(with_bad, "dense", 2).bound
    assert loose - 1e-6 <= heuristic.bound <= tight + 1e-6
    model = nearly_sparse(with_bad, 2)
    assert len(model.inequalities) == 1  # found without cliques: four variables, the others have one


def test_max_cut_uses_rules() -> None:
    problem = max_cut(5, CYCLE5)
    model = dense(problem, 2)
    assert set(model.rules) == set(range(5))
    assert len(model.blocks[0].basis) == 1 + 5 + 10
    assert not model.equalities
    first = solved(problem, order=1).bound
    assert first == pytest.approx(5 * (1 + np.cos(np.pi / 5)) / 2, abs=1e-5)  # Goemans-Williamson on the 5-cycle


def test_rules_only_where_division_is_exact() -> None:
    rules, rest = find_rules([2.0 * x[0] ** 2 - x[0], 3.0 * x[1] ** 2 - x[1], x[0] ** 2 - 1.0, x[2] * x[3] - 1.0])
    assert rules == {0: 0.5 * x[0]}
    assert len(rest) == 3
    model = MomentModel(x[0], blocks=(MomentBlock(((), (0,))),), rules={0: 0.5 * x[0]}, n=1)
    result = solve_model(model)
    assert 0.0 >= result.bound >= -1e-7


def test_equalities_of_higher_degree() -> None:
    """min x + y on x^3 = x, y = x^2: the points (0,0), (1,1), (-1,1)."""
    result = minimize(x[0] + 0.5 * x[1], [4.0 - x[0] ** 2 - x[1] ** 2], [x[0] ** 3 - x[0], x[1] - x[0] ** 2], order=3)
    assert -0.5 >= result.bound >= -0.5 - 1e-5
    assert result.minimizer == pytest.approx([-1.0, 1.0], abs=1e-4)


def test_cliques() -> None:
    path = correlative_graph(4, x[0] * x[1] + x[1] * x[2] + x[2] * x[3], [])
    assert {frozenset(c) for c in chordal_cliques(path)} == {frozenset(p) for p in ((0, 1), (1, 2), (2, 3))}
    ring = correlative_graph(5, sum((x[i] * x[(i + 1) % 5] for i in range(5)), Polynomial.constant(0.0)), [])
    extended = chordal_cliques(ring)
    assert len(extended) == 3
    assert running_intersection(extended)
    assert not running_intersection([(0, 1), (1, 2), (0, 2)])
    assert running_intersection([(0, 1), (2, 3), (1, 2)])
    assert not running_intersection([(i, (i + 1) % 5) for i in range(5)])
    rng = np.random.default_rng(0)
    for _ in range(20):
        graph: list[set[int]] = [set() for _ in range(12)]
        for i, j in rng.integers(0, 12, size=(15, 2)):
            if i != j:
                graph[i].add(int(j))
                graph[j].add(int(i))
        cliques = chordal_cliques(graph)
        assert running_intersection(cliques)
        assert all(any({i, j} <= set(c) for c in cliques) for i in range(12) for j in graph[i])


def test_cliques_without_running_intersection_still_bound() -> None:
    f = x[0] * x[1] + x[1] * x[2] + x[0] * x[2]
    problem = PolynomialProblem(f, tuple(box_constraint(i, -1.0, 1.0) for i in range(3)))
    result = solved(problem, "sparse", 1, [(0, 1), (1, 2), (0, 2)])
    assert "does not hold" in result.notes[0]
    assert result.bound <= -1.0


def test_input_errors() -> None:
    square = x[0] ** 2 + x[1] ** 2
    with pytest.raises(InputError, match="order 1 is too low"):
        dense(PolynomialProblem(x[0] ** 4), 1)
    with pytest.raises(InputError, match="no clique contains"):
        sparse(PolynomialProblem(x[0], (1.0 - square,)), 1, [(0,), (1,)])
    with pytest.raises(InputError, match=r"monomial x1\*x2"):
        solved(PolynomialProblem(x[0] * x[1], (1.0 - x[0] ** 2,)), "sparse", 1, [(0,), (1,)])
    with pytest.raises(InputError, match="not a constraint"):
        nearly_sparse(PolynomialProblem(x[0], (1.0 - square,)), 1, [(0,), (1,)], [x[0]])
    with pytest.raises(InputError, match="fits no clique"):
        nearly_sparse(PolynomialProblem(x[0], (1.0 - square,)), 1, [(0,), (1,)], [])
    with pytest.raises(InputError, match="one of dense"):
        relax(DISK, "best")
    with pytest.raises(InputError, match="not for the dense one"):
        relax(DISK, "dense", 1, [(0, 1)])
    with pytest.raises(InputError, match="nearly-sparse relaxation"):
        relax(DISK, "dense", 1, bad=[x[0]])
    with pytest.raises(InputError, match="non-empty sets"):
        sparse(DISK, 1, [(0, 7)])
    with pytest.raises(InputError, match="affine in that variable"):
        MomentModel(x[0], rules={0: x[1]}, n=2)
    with pytest.raises(InputError, match="factors 0 to 0"):
        FactorProducts((x[0],), np.array([[1]]))
    with pytest.raises(InputError, match="beyond the limit"):
        dense(PolynomialProblem(sum(x, Polynomial.constant(0.0)) + Polynomial.variable(60)), 4)


@pytest.mark.parametrize("name", ["product on the disk", "himmelblau", "styblinski-tang 3", "six-hump camel"])
def test_the_sos_identity_can_be_read(name: str) -> None:
    named = next(n for n in LIBRARY if n.name == name)
    result = solved(named.problem, named.relaxation, named.order)
    assert result.sos is not None
    assert result.sos.gamma == result.bound
    difference = named.problem.objective - result.sos.right_hand_side()
    scale = np.abs(named.problem.objective.coefficients).max()
    assert np.abs(difference.coefficients).max(initial=0.0) <= 1e-5 * scale


def test_krivine() -> None:
    """Bilinear on the unit square, exact; and x^2 - x on an interval, whose bounds rise with the degree."""
    problem = PolynomialProblem(x[0] * x[1] - x[0] - x[1], lower=np.zeros(2), upper=np.ones(2)).boxed()
    result = solved(problem, "krivine", 2)
    assert -1.0 >= result.bound >= -1.0 - 1e-6
    assert result.solver.startswith("highs")
    thirds = PolynomialProblem(x[0] ** 2 - x[0], lower=np.array([0.1]), upper=np.array([0.7])).boxed()
    bounds = [solved(thirds, "krivine", k).bound for k in (2, 4, 8)]
    assert all(b <= -0.25 for b in bounds)
    assert bounds[0] <= bounds[1] + 1e-7 <= bounds[2] + 2e-7
    assert bounds[2] >= -0.27


def test_krivine_never_drops_a_monomial() -> None:
    problem = PolynomialProblem(x[0] * x[1] * x[2] - x[0], lower=np.zeros(3), upper=np.ones(3)).boxed()
    with pytest.raises(InputError, match=r"monomial x1\*x2\*x3 occurs in no constraint"):
        krivine(problem, 2).conic()
    with pytest.raises(InputError, match="occurs in no constraint"):
        krivine(problem, 3, [(0, 1), (1, 2)]).conic()
    assert -1.0 >= solved(problem, "krivine", 3).bound >= -1.0 - 1e-6


def test_krivine_with_equalities_and_given_factors() -> None:
    problem = PolynomialProblem(
        -x[0] * x[1], equalities=(x[0] ** 2 - x[0], x[0] + x[1] - 1.0), lower=np.zeros(2), upper=np.ones(2)
    )
    result = solved(problem, "krivine", 2)
    assert 0.0 >= result.bound >= -1e-6  # u (1 - u) = 0
    factors = [x[0], 1.0 - x[0], x[1], 1.0 - x[1]]
    given = solve_model(krivine(PolynomialProblem(-x[0] * x[1]), 2, [(0, 1)], factors))
    assert -1.0 >= given.bound >= -1.0 - 1e-6


def test_submoments_cover_a_cubic_term() -> None:
    """t u v on [-1,1] x {0,1}^2 by M_1 and the basis (1, t, uv) [CLMP20, appendix]."""
    t, u, v = x[:3]
    equalities = (u * u - u, v * v - v)
    problem = PolynomialProblem(t * u * v - u, (1.0 - t * t,), equalities, "max")
    first = nearly_sparse(problem, 1)
    with pytest.raises(InputError, match="occurs in no constraint"):
        first.conic()
    small = solve_model(with_submoments(first, (((), (0,), (1, 2)),)))
    large = solve_model(with_submoments(first, (((), (0,), (1,), (1, 2)),)))
    assert small.bound >= large.bound - 1e-6
    assert large.bound >= 0.0
    assert solved(problem, order=2).bound == pytest.approx(0.0, abs=1e-5)


def literal_hr2(p: int) -> MomentModel:
    """The literal HR-2 of a random (p, p) network: variables x, t, u, z."""
    rng = np.random.default_rng(0)
    A, b, c = rng.normal(size=(p, p)) / 9, rng.normal(size=p), rng.normal(size=p)
    X, T, U, Z = (range(k * p, (k + 1) * p) for k in range(4))
    pairs = np.array([(T[i], U[j]) for j in range(p) for i in range(p)], dtype=np.int32)
    objective = Polynomial(pairs, (A * c[:, None]).reshape(-1))
    signs = [Polynomial.from_terms({(U[j], Z[j]): 1.0, (Z[j],): -0.5}) for j in range(p)]
    boxes = [box_constraint(i, -1.0, 1.0) for i in (*X, *T)]
    binary = [Polynomial.from_terms({(j, j): 1.0, (j,): -1.0}) for j in U]
    bad = [Polynomial.affine(-b[j], [Z[j], *X], [1.0, *(-A[j])]) for j in range(p)]
    problem = PolynomialProblem(objective, (*boxes, *signs), (*binary, *bad), "max")
    return nearly_sparse(problem, 2, [*zip(X, T, strict=True), *zip(U, Z, strict=True)])


def test_literal_hr2_is_built_fast() -> None:
    """In steps for each neuron, not for each of the 15 times as many moments; seconds: benchmarks.literal_build."""

    def build(p: int) -> tuple[MomentModel, MomentConic]:
        model = literal_hr2(p)
        return model, model.conic()

    (model, conic), steps = calls(lambda: build(80))
    assert steps < 6 * calls(lambda: build(20))[1]
    assert max(conic.problem.orders) == 321
    assert np.all(np.isfinite(model.bounds()[1]))


def test_literal_hr2_is_sound_when_solved() -> None:
    model = literal_hr2(3)
    result = solve_model(model)
    assert result.certified
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, size=(2000, 3))
    weights = np.random.default_rng(0)
    A, b, c = weights.normal(size=(3, 3)) / 9, weights.normal(size=3), weights.normal(size=3)
    active = (points @ A.T + b > 0).astype(float)
    assert result.bound >= np.abs((active * c) @ A).sum(axis=1).max()


def test_command(tmp_path: Path) -> None:
    path = tmp_path / "disk.pop"
    path.write_text("variables x y\nminimize x*y\nx^2 + y^2 <= 1\n")
    run = CliRunner().invoke(pop_command, [str(path), "--order", "1"], standalone_mode=False)
    assert run.return_value == 0
    assert "lower bound" in run.output
    assert "-0.5" in run.output
    path.write_text("variables x y\nminimize (x - 1)^2 + y^2\n-2 <= x <= 2\n-1 <= y <= 2\n")
    run = CliRunner().invoke(pop_command, [str(path), "--json", "--relaxation", "sparse"], standalone_mode=False)
    answer = json.loads(run.stdout)
    assert run.return_value == 0
    assert answer["bound"] <= 0.0
    assert answer["point"]["x"] == pytest.approx(1.0, abs=1e-3)
    path.write_text("variables x\nmaximize x\n")
    run = CliRunner().invoke(pop_command, [str(path), "--json"], standalone_mode=False)
    assert run.return_value == 1
    assert json.loads(run.stdout)["status"] == "not certified: variable x is unbounded"
    run = CliRunner().invoke(pop_command, [str(path)], standalone_mode=False)
    assert "none" in run.output


@pytest.mark.parametrize("optimise", [minimize, maximize])
def test_a_wrong_call_names_the_function_that_was_called(optimise: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{optimise.__name__}\(\) got an unexpected keyword argument 'wrong'$"):
        optimise(Polynomial.constant(1.0), wrong=1)
    with pytest.raises(TypeError, match=rf"^{optimise.__name__}\(\) missing 1 required .* 'objective'$"):
        optimise()
