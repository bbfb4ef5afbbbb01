"""Variables that are in the objective and in their own diagonal row only: eliminated, and nothing changes."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert.budget import Budget
from lipcert.relaxation.rank_two import RankTwoProblem
from lipcert.rounding import Array
from lipcert.solver import Progress, RankTwoResult, Status
from lipcert.solver.atoms import atom_form
from lipcert.solver.costs import solve_operations, whole_operations
from lipcert.solver.rank_two import Options, solve_rank_two
from lipcert.solver.roots import find_core, find_roots
from lipcert.solver.schur import Schur
from tests.solver.test_rank_two import certified, check_anytime, layer_problem, random_problem


def with_roots(seed: int, roots: int, core: int = 6, extra: int = 7, linked: float = 0.7) -> RankTwoProblem:
    """A random problem whose last variables are roots, in random places, with diagonal rows of any scale and kind."""
    rng = np.random.default_rng(seed)
    inner = random_problem(seed, core, extra)
    n = core + roots
    C = np.zeros((n, n))
    C[:core, :core] = inner.objective.toarray()
    C[:core, core:] = rng.standard_normal((core, roots)) * (rng.random((core, roots)) < linked)
    C[core:, :core] = C[:core, core:].T
    unit = rng.uniform(0.5, 2.0, roots)
    F = sp.block_diag([inner.vectors, sp.diags(unit)])
    columns = inner.vectors.shape[1] + np.arange(roots)
    rhs = np.r_[inner.rhs, rng.uniform(0.5, 2.0, roots)]
    order = rng.permutation(n)
    return RankTwoProblem(
        C[np.ix_(order, order)], F.tocsr()[order], np.r_[inner.ia, columns], np.r_[inner.ib, columns], rhs,
        np.r_[inner.equality, rng.random(roots) < 0.5], np.r_[np.ones(core), rhs[inner.rows :] / unit**2][order],
    )  # fmt: skip


def plainly(problem: RankTwoProblem, **settings: Any) -> RankTwoResult:
    """Without elimination."""
    with patch("lipcert.solver.rank_two.find_core", return_value=None):
        return solve_rank_two(problem, Options(tolerance=1e-8), **settings)


def dense(problem: RankTwoProblem) -> Array:
    C = problem.objective
    return np.asarray(C.toarray() if sp.issparse(C) else C)


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.sampled_from((1, 4, 12, 40, 90)), st.sampled_from((0.3, 1.0)))
def test_elimination_changes_nothing(seed: int, roots: int, linked: float) -> None:
    problem = with_roots(seed, roots, linked=linked)
    core = find_core(problem)
    assert core is not None
    assert core.kept.size <= 6
    seen: list[Progress] = []
    result = solve_rank_two(problem, Options(tolerance=1e-8), seen.append)
    expected = plainly(problem)
    assert result.status in (Status.OPTIMAL, Status.NEARLY_OPTIMAL)
    assert result.dual == pytest.approx(expected.dual, rel=1e-6, abs=1e-6)
    assert certified(problem, result.y) == pytest.approx(result.dual, rel=1e-6, abs=1e-6)
    for progress in seen:  # every iterate is a bound
        assert certified(problem, progress.y) == pytest.approx(progress.dual, rel=1e-6, abs=1e-6)
        assert progress.dual >= expected.primal - 1e-5 * abs(expected.primal)
    X = result.X
    assert X is not None
    assert np.linalg.eigvalsh(X)[0] > -1e-6
    assert float(np.sum(dense(problem) * X)) == pytest.approx(result.primal, rel=1e-4, abs=1e-4)
    gap = problem.rhs - problem.apply(X)
    assert np.all(gap > -1e-4)
    assert np.all(np.abs(gap[problem.equality]) < 1e-4)


def test_only_what_is_nowhere_else_is_a_root() -> None:
    problem = with_roots(3, 20)
    core = find_core(problem)
    assert core is not None
    roots = set(core.roots.tolist())
    t = int(core.roots[0])
    other = int(core.kept[0])
    unit = sp.csc_matrix((np.ones(2), ([t, other], [0, 1])), (problem.size, 2))
    at = problem.vectors.shape[1]
    cut = RankTwoProblem(  # a product of one root with another variable
        problem.objective, sp.hstack([problem.vectors, unit]), np.r_[problem.ia, at], np.r_[problem.ib, at + 1],
        np.r_[problem.rhs, 0.1], np.r_[problem.equality, False], problem.diagonal,
    )  # fmt: skip
    assert set(find_roots(cut).roots.tolist()) == roots - {t}
    C = dense(problem).copy()
    C[t, t] = 1.0
    bent = RankTwoProblem(
        C, problem.vectors, problem.ia, problem.ib, problem.rhs, problem.equality, problem.diagonal
    )  # fmt: skip
    assert set(find_roots(bent).roots.tolist()) == roots - {t}
    assert find_core(layer_problem(0)) is None
    assert solve_operations(problem) < whole_operations(problem)


def test_of_two_that_meet_in_the_objective_one_is_a_root() -> None:
    """x-free problems of one hidden layer: t and v are both alone, the larger side goes."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((5, 9))
    C = np.block([[np.zeros((5, 5)), M], [M.T, np.zeros((9, 9))]])
    at = np.arange(14)
    problem = RankTwoProblem(C, sp.identity(14), at, at, np.ones(14), np.ones(14, bool), np.ones(14))
    assert find_roots(problem).roots.tolist() == list(range(5, 14))
    assert solve_rank_two(problem).dual == pytest.approx(plainly(problem).dual, rel=1e-6)


def test_a_variable_that_is_nowhere_costs_nothing() -> None:
    problem = with_roots(1, 6, linked=0.0)
    core = find_core(problem)
    assert core is not None
    assert core.idle.size == 6
    result = solve_rank_two(problem, Options(tolerance=1e-8))
    assert result.dual == pytest.approx(plainly(problem).dual, rel=1e-6)
    assert result.X is not None
    assert np.allclose(np.diagonal(result.X)[core.idle], problem.diagonal[core.idle])


@pytest.mark.parametrize("roots", [8, 90])  # written over dense vectors, and over few atoms
def test_schur_complement_of_roots_matches_its_definition(roots: int) -> None:
    core = find_core(with_roots(5, roots, linked=1.0))
    assert core is not None
    form, rng = atom_form(core.problem, bounds=core.bound), np.random.default_rng(1)
    m, n = core.problem.rows, core.problem.size
    y = rng.standard_normal(m)
    order = form.permutation
    there = core.problem.adjoint(form.multipliers(y))[np.ix_(order, order)]
    assert np.allclose(form.combine(form.rows.T @ y).toarray() * form.value_scale, there, atol=1e-10)
    X, Z = (np.eye(n) * n + S @ S.T for S in rng.standard_normal((2, n, n)))
    matrices = [form.combine(form.rows.T @ unit).toarray() for unit in np.eye(m)]
    assert np.allclose(form.rows @ form.values(X), [np.sum(A * X) for A in matrices])
    weight = np.where(core.problem.equality, 0.0, rng.uniform(0.1, 2.0, m))
    full = np.array([[np.trace(A @ X @ B @ Z) for B in matrices] for A in matrices])
    full = (full + full.T) / 2 + np.diag(weight)
    schur, columns = Schur(form), form.columns
    schur.factor(columns.gram(X, columns.images(X)), columns.gram(Z, columns.images(Z)), weight)
    assert (schur.unknowns < m) == (roots == 90)
    assert np.allclose(schur.times(y), full @ y)
    assert np.allclose(full @ schur.solve(y, 1e-13), y, atol=1e-8)


def test_condensing_survives_weights_of_all_sizes() -> None:
    core = find_core(with_roots(7, 90, linked=1.0))
    assert core is not None
    schur = Schur(atom_form(core.problem, bounds=core.bound))
    many, weight = schur.batches[-1], np.ones(core.problem.rows)
    rng = np.random.default_rng(0)
    rhs, g = rng.standard_normal((1, 90)), rng.standard_normal(many.place.shape)
    for least in (-4.0, -30.0):
        weight[-90:] = 10.0 ** np.linspace(least, 4, 90)
        assert np.all(np.isfinite(many.prepare(weight)))
        dy = many.expand(rhs, g)
        assert np.all(np.isfinite(dy))
        assert least < -4.0 or np.allclose(many.pull(dy), g, atol=1e-6)


def test_warm_starts_and_limits() -> None:
    problem = with_roots(2, 60, linked=1.0)
    cold = solve_rank_two(problem, Options(tolerance=1e-8))
    warm = solve_rank_two(problem, Options(tolerance=1e-8), y0=cold.y)
    assert warm.dual == pytest.approx(cold.dual, rel=1e-6)
    assert warm.history[0].dual < cold.history[0].dual
    check_anytime(problem, solve_rank_two(problem, budget=Budget.of_work(1e-9)), Status.TIME_LIMIT)
    check_anytime(problem, solve_rank_two(problem, Options(iterations=3)), Status.ITERATION_LIMIT)
    check_anytime(problem, solve_rank_two(problem, callback=lambda p: p.iteration == 2), Status.INTERRUPTED)


def test_roots_without_diagonal_rows_in_the_core() -> None:
    """No dual feasible start: the trace-like rows of the core leave it infeasible at first."""
    F = sp.csc_matrix(np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]))
    C = np.array([[0.0, 0.5, 1.0], [0.5, 0.0, 0.3], [1.0, 0.3, 0.0]])
    at = np.arange(3)
    problem = RankTwoProblem(C, F, at, at, np.ones(3), np.ones(3, bool), np.ones(3))
    assert find_core(problem) is not None
    assert solve_rank_two(problem).dual == pytest.approx(plainly(problem).dual, rel=1e-5)
