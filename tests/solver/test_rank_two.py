"""Solvers of rank-two problems: known optima, agreement with Clarabel, soundness of the multipliers, refusals."""

from __future__ import annotations

import math
from typing import Any

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from lipcert.budget import Budget
from lipcert.relaxation.rank_two import RankTwoProblem
from lipcert.solver import Progress, RankTwoResult, Status
from lipcert.solver.atoms import atom_form
from lipcert.solver.bordered import Inverse
from lipcert.solver.low_rank import LowRankOptions, solve_low_rank
from lipcert.solver.rank_two import Options, solve_rank_two
from lipcert.solver.schur import Schur
from lipcert.solver.unit_vectors import solve_bipartite


def max_cut(weights: np.ndarray[Any, Any]) -> RankTwoProblem:
    """max <L, X> / 4 s.t. X_ii = 1, L the Laplacian: the Goemans-Williamson relaxation."""
    n = len(weights)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    at = np.arange(n)
    return RankTwoProblem(laplacian / 4, sp.identity(n, format="csc"), at, at, np.ones(n), np.ones(n, bool), np.ones(n))


def random_problem(seed: int, n: int = 7, extra: int = 9) -> RankTwoProblem:
    """Diagonal rows, then random products of narrow and dense vectors that hold strictly at X = I."""
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((n, n))
    narrow = np.eye(n)[:, rng.integers(1, n, 4)] * rng.choice([-1.0, 1.0], 4) + np.eye(n)[:, [0]]
    F = np.hstack([np.eye(n), narrow, rng.standard_normal((n, 4))])
    ia = np.r_[np.arange(n), rng.integers(0, n + 8, extra)]
    ib = np.r_[np.arange(n), rng.integers(0, n + 8, extra)]
    rhs = np.r_[np.ones(n), np.einsum("ij,ij->j", F[:, ia[n:]], F[:, ib[n:]]) + rng.uniform(0.05, 0.5, extra)]
    equality = np.r_[np.arange(n) < n // 2, np.zeros(extra, bool)]
    return RankTwoProblem(sp.csr_matrix(C + C.T), sp.csc_matrix(F), ia, ib, rhs, equality, np.ones(n))


def layer_problem(seed: int, p: int = 6, hidden: int = 5, radius: float = 0.6) -> RankTwoProblem:
    """Reduced HR-2 of a random hidden layer: variables (1, w, t, v), with the four products of each (t_i, w_i)."""
    rng = np.random.default_rng(seed)
    A, c = rng.standard_normal((hidden, p)) / math.sqrt(p), rng.standard_normal(hidden)
    reach = radius * np.abs(A).sum(axis=1)
    z = rng.uniform(-0.7, 0.7, hidden) * reach
    n, one = 1 + 2 * p + hidden, np.zeros(p + hidden, dtype=int)
    w, t, v = 1 + np.arange(p), 1 + p + np.arange(p), 1 + 2 * p + np.arange(hidden)
    C, M = np.zeros((n, n)), A.T * c
    C[np.ix_(t, v)], C[t, 0] = M / 4, M.sum(axis=1) / 4
    unit = np.eye(n)
    affine = np.zeros((n, hidden))
    affine[w] = radius * A.T
    columns, ia, ib = [unit], [one[:1], v, t, w], [one[:1], v, t, w]

    def row(f: np.ndarray[Any, Any], g: np.ndarray[Any, Any]) -> None:
        at = sum(block.shape[1] for block in columns)
        columns.extend([f, g])
        ia.append(at + np.arange(f.shape[1]))
        ib.append(at + f.shape[1] + np.arange(f.shape[1]))

    first = unit[:, [0]]
    for sign, shift in ((1.0, -z), (-1.0, -z)):  # u z >= 0 and (1 - u) z <= 0
        row(first + sign * unit[:, v], sign * (first * shift - affine))
    row(first + unit[:, v], affine - first * reach)  # u (hi - z) >= 0
    row(first - unit[:, v], -affine - first * reach)  # (1 - u)(z - lo) >= 0
    for s in (1.0, -1.0):
        for r in (1.0, -1.0):
            row(-first - s * unit[:, t], first + r * unit[:, w])
    index = np.concatenate(ia)
    equal = np.arange(index.size) < 1 + hidden + p
    rhs = np.where(np.arange(index.size) < 1 + hidden + 2 * p, 1.0, 0.0)
    F = sp.csc_matrix(np.hstack(columns))
    return RankTwoProblem(C + C.T, F, index, np.concatenate(ib), rhs, equal, np.ones(n))


def clarabel_value(problem: RankTwoProblem) -> float:
    """The optimum by a general conic solver: X as its scaled upper triangle."""
    n, m = problem.size, problem.rows
    col, row = np.tril_indices(n)
    scale = np.where(row == col, 1.0, math.sqrt(2.0))

    def svec(S: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(S[row, col] * scale)

    F = problem.vectors.toarray()
    A = []
    for k in range(m):
        product = np.outer(F[:, problem.ia[k]], F[:, problem.ib[k]])
        A.append(svec((product + product.T) / 2))
    order = np.argsort(~problem.equality, kind="stable")
    rows = np.vstack([np.asarray(A)[order], -np.eye(row.size)])
    rhs = np.r_[problem.rhs[order], np.zeros(row.size)]
    equal = int(problem.equality.sum())
    cones = [clarabel.ZeroConeT(equal), clarabel.NonnegativeConeT(m - equal), clarabel.PSDTriangleConeT(n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    C = problem.objective.toarray() if sp.issparse(problem.objective) else problem.objective
    solver = clarabel.DefaultSolver(
        sp.csc_matrix((row.size, row.size)), -svec(C), sp.csc_matrix(rows), rhs, cones, settings
    )
    return float(-solver.solve().obj_val)


def certified(problem: RankTwoProblem, y: np.ndarray[Any, Any]) -> float:
    """b'y plus the price of shifting S(y) onto the cone: a bound for any y with the right signs."""
    assert np.all(y[~problem.equality] >= 0)
    C = problem.objective.toarray() if sp.issparse(problem.objective) else problem.objective
    low = float(np.linalg.eigvalsh(problem.adjoint(y) - C)[0])
    return float(problem.rhs @ y) + float(problem.diagonal.sum()) * max(0.0, -low)


TRIANGLE = np.ones((3, 3)) - np.eye(3)
PENTAGON = np.roll(np.eye(5), 1, axis=1) + np.roll(np.eye(5), -1, axis=1)
# Max-cut relaxations in closed form: K_n gives n^2/4, the cycle C_5 gives (25 + 5 sqrt 5)/8.
KNOWN = [(TRIANGLE, 9 / 4), (np.ones((6, 6)) - np.eye(6), 9.0), (PENTAGON, (25 + 5 * math.sqrt(5)) / 8)]


@pytest.mark.parametrize(("weights", "value"), KNOWN)
def test_max_cut_closed_form(weights: np.ndarray[Any, Any], value: float) -> None:
    problem = max_cut(weights)
    result = solve_rank_two(problem, Options(tolerance=1e-8))
    assert result.status is Status.OPTIMAL
    assert result.primal == pytest.approx(value, abs=1e-6)
    assert value - 1e-9 <= certified(problem, result.y) <= value + 1e-6
    assert result.X is not None
    assert np.allclose(np.diagonal(result.X), 1.0, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_agrees_with_clarabel_on_random_problems(seed: int) -> None:
    problem = random_problem(seed)
    result = solve_rank_two(problem, Options(tolerance=1e-8))
    value = clarabel_value(problem)
    assert result.dual == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert certified(problem, result.y) == pytest.approx(value, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_clarabel_on_layers(seed: int) -> None:
    problem = layer_problem(seed)
    result = solve_rank_two(problem, Options(tolerance=1e-8))
    assert result.dual == pytest.approx(clarabel_value(problem), rel=1e-6)
    assert certified(problem, result.y) == pytest.approx(result.dual, rel=1e-7)


def test_infeasible_start_without_diagonal_rows() -> None:
    """max x s.t. x + s <= 2 with X = diag blocks: only a trace-like row, so no X_ii has a row of its own."""
    F = sp.csc_matrix(np.array([[1.0, 1.0], [1.0, -1.0]]))
    C = np.array([[0.0, 0.5], [0.5, 0.0]])
    problem = RankTwoProblem(C, F, np.array([0, 1]), np.array([0, 1]), np.ones(2), np.array([True, True]), np.ones(2))
    result = solve_rank_two(problem, Options(tolerance=1e-8))
    assert result.dual == pytest.approx(0.0, abs=1e-6)  # (X11 + 2 X12 + X22) = (X11 - 2 X12 + X22) = 1
    assert result.status in {Status.OPTIMAL, Status.NEARLY_OPTIMAL}


def test_apply_and_adjoint_are_adjoint() -> None:
    for problem in (random_problem(3), layer_problem(0)):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((problem.size, problem.size))
        X, y = X + X.T, rng.standard_normal(problem.rows)
        F = problem.vectors.toarray()
        plain = np.einsum("ik,ij,jk->k", F[:, problem.ia], X, F[:, problem.ib])
        assert np.allclose(problem.apply(X), plain, atol=1e-12)
        assert problem.apply(X) @ y == pytest.approx(float(np.sum(problem.adjoint(y) * X)), rel=1e-12)


@pytest.mark.parametrize("make", [random_problem, layer_problem])
def test_atom_form_and_schur_match_their_definitions(make: Any) -> None:
    problem = make(5)
    form, rng = atom_form(problem), np.random.default_rng(1)
    y = rng.standard_normal(problem.rows)
    order = form.permutation
    there = problem.adjoint(form.multipliers(y))[np.ix_(order, order)]
    assert np.allclose(form.combine(form.rows.T @ y).toarray() * form.value_scale, there, atol=1e-12)
    assert np.allclose(form.scaled_multipliers(form.multipliers(y)), y)
    X, Z = (np.eye(problem.size) * problem.size + S + S.T for S in rng.standard_normal((2, problem.size, problem.size)))
    G = np.hstack([np.eye(problem.size), form.dense])
    matrices = [form.combine(form.rows.T @ unit).toarray() for unit in np.eye(problem.rows)]
    weight = np.where(problem.equality, 0.0, rng.uniform(0.1, 2.0, problem.rows))
    full = np.array([[np.trace(A @ X @ B @ Z) for B in matrices] for A in matrices]) + np.diag(weight)
    full = (full + full.T) / 2
    schur = Schur(form)
    schur.factor(G.T @ X @ G, G.T @ Z @ G, weight)
    assert np.allclose(schur.times(y), full @ y)
    if np.linalg.cond(full) < 1e10:
        assert np.allclose(schur.solve(y, 1e-13), np.linalg.solve(full, y), rtol=1e-7, atol=1e-9)


def test_bordered_inverse() -> None:
    form = atom_form(layer_problem(1))
    assert form.border.inner == 12  # (w_i, t_i) pairs; the anchor and the neurons form the border
    Z = form.combine(np.where(form.first == form.second, 9.0, 0.1))
    dense = Z.toarray()
    assert np.allclose(Inverse(Z).toarray() @ dense, np.eye(len(dense)), atol=1e-12)
    Y = np.random.default_rng(0).standard_normal(dense.shape)
    assert np.allclose(Inverse(Z).times(Y), np.linalg.solve(dense, Y))
    assert Z.dot(Y + Y.T) == pytest.approx(float(np.sum(dense * (Y + Y.T))))


def test_warm_start_reaches_the_same_value() -> None:
    problem = layer_problem(2)
    cold = solve_rank_two(problem, Options(tolerance=1e-8))
    warm = solve_rank_two(problem, Options(tolerance=1e-8), y0=cold.y)
    assert warm.status is Status.OPTIMAL
    assert warm.dual == pytest.approx(cold.dual, rel=1e-6)
    assert warm.history[0].dual < cold.history[0].dual
    with pytest.raises(ValueError, match="y0"):
        solve_rank_two(problem, y0=np.ones(3))


def check_anytime(problem: RankTwoProblem, result: RankTwoResult, status: Status) -> None:
    optimum = solve_rank_two(problem, Options(tolerance=1e-8)).primal
    assert result.status is status
    assert certified(problem, result.y) >= optimum - 1e-7
    assert certified(problem, result.y) == pytest.approx(result.dual, rel=1e-6)


def test_limits_return_valid_multipliers() -> None:
    problem = layer_problem(3)
    check_anytime(problem, solve_rank_two(problem, budget=Budget.of_work(1e-9)), Status.TIME_LIMIT)
    check_anytime(problem, solve_rank_two(problem, Options(iterations=3)), Status.ITERATION_LIMIT)


def test_callback_sees_falling_bounds_and_stops() -> None:
    problem, seen = layer_problem(3), list[Progress]()

    def stop(progress: Progress) -> bool:
        seen.append(progress)
        return progress.iteration == 4

    check_anytime(problem, solve_rank_two(problem, callback=stop), Status.INTERRUPTED)
    assert [p.iteration for p in seen] == [0, 1, 2, 3, 4]
    for progress in seen:
        assert certified(problem, progress.y) == pytest.approx(progress.dual, rel=1e-6)


def test_keyboard_interrupt_returns_the_best() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.iteration == 2:
            raise KeyboardInterrupt

    problem = layer_problem(0)
    check_anytime(problem, solve_rank_two(problem, callback=interrupt), Status.INTERRUPTED)


def test_no_interior_does_not_crash() -> None:
    """X_11 = X_22 = 1 and X_12 = 1 leave a single point on the boundary of the cone."""
    F, at = sp.identity(2, format="csc"), np.array([0, 1, 0])
    C = np.array([[0.0, 1.0], [1.0, 0.0]])
    for value, feasible in ((1.0, True), (2.0, False)):
        rhs = np.array([1.0, 1.0, value])
        problem = RankTwoProblem(C, F, at, np.array([0, 1, 1]), rhs, np.ones(3, bool), np.ones(2))
        result = solve_rank_two(problem)
        assert np.all(np.isfinite(result.y))
        if feasible:
            assert certified(problem, result.y) >= 2.0 - 1e-6
        else:
            assert result.status is not Status.OPTIMAL


def test_refusals_name_the_argument() -> None:
    good: dict[str, Any] = {
        "objective": np.eye(2), "vectors": sp.identity(2), "ia": [0, 1], "ib": [0, 1], "rhs": [1.0, 1.0],
        "equality": [True, True], "diagonal": [1.0, 1.0],
    }  # fmt: skip
    RankTwoProblem(**good)
    bad: list[tuple[str, Any]] = [
        ("objective", np.array([[np.nan, 0.0], [0.0, 1.0]])), ("objective", np.array([[0.0, 1.0], [0.0, 0.0]])),
        ("objective", np.ones((2, 3))), ("vectors", sp.identity(3)), ("vectors", sp.diags([np.inf, 1.0])),
        ("ia", [0, 2]), ("ib", [0]), ("rhs", [1.0, np.inf]), ("equality", [True]),
        ("diagonal", [1.0, 0.0]), ("diagonal", [1.0]),
    ]  # fmt: skip
    for name, value in bad:
        with pytest.raises(ValueError, match=rf"RankTwoProblem\({name}\)"):
            RankTwoProblem(**{**good, name: value})


@pytest.mark.parametrize("options", [{"tolerance": 0.0}, {"iterations": -1}])
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Options"):
        Options(**options)


@pytest.mark.parametrize("options", [{"tolerance": 2.0}, {"rounds": 0}])
def test_low_rank_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="LowRankOptions"):
        LowRankOptions(**options)


def test_low_rank_is_sound_and_close() -> None:
    problem = layer_problem(1)
    optimum = solve_rank_two(problem, Options(tolerance=1e-8)).primal
    result = solve_low_rank(problem, LowRankOptions(tolerance=1e-3))
    assert optimum - 1e-7 <= certified(problem, result.y) <= 1.02 * optimum
    stopped = solve_low_rank(problem, callback=lambda progress: progress.iteration == 1)
    assert stopped.status is Status.INTERRUPTED
    assert certified(problem, stopped.y) >= optimum - 1e-7
    late = solve_low_rank(problem, LowRankOptions(tolerance=1e-9), budget=Budget.of_work(0.05))
    assert late.status is Status.TIME_LIMIT
    assert optimum - 1e-7 <= certified(problem, late.y)


def test_low_rank_needs_diagonal_rows() -> None:
    F = sp.csc_matrix(np.array([[1.0, 1.0], [1.0, -1.0]]))
    problem = RankTwoProblem(np.eye(2), F, np.array([0]), np.array([0]), np.ones(1), np.array([True]), np.ones(2))
    with pytest.raises(ValueError, match="row of its own"):
        solve_low_rank(problem)


def test_bipartite_matches_the_interior_point() -> None:
    K = np.random.default_rng(0).standard_normal((9, 6))
    result = solve_bipartite(K, tolerance=1e-7)
    C = np.zeros((15, 15))
    C[:9, 9:] = K / 2
    at = np.arange(15)
    problem = RankTwoProblem(C + C.T, sp.identity(15), at, at, np.ones(15), np.ones(15, bool), np.ones(15))
    optimum = solve_rank_two(problem, Options(tolerance=1e-9)).primal
    assert result.primal == pytest.approx(optimum, rel=1e-6)
    y = np.r_[result.left, result.right] / 2
    assert optimum - 1e-9 <= certified(problem, y) <= optimum * (1 + 1e-6)
    assert solve_bipartite(K, sweeps=1).status is Status.ITERATION_LIMIT
    assert solve_bipartite(K, tolerance=1e-15, budget=Budget.of_work(0.0)).status is Status.TIME_LIMIT
    with pytest.raises(ValueError, match=r"solve_bipartite\(K\)"):
        solve_bipartite(np.array([[np.nan]]))
