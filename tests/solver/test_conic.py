"""ConicProblem, svec and smat, named programs with known values through every solver."""

from __future__ import annotations

import shutil
import subprocess
import sys
from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lipcert import Polynomial, minimize
from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.solver.conic import clarabel_backend, conic
from lipcert.solver.conic.conic import (
    CONIC_SOLVERS,
    Cone,
    ConicProblem,
    ConicStatus,
    choose_conic,
    smat,
    solve_conic,
    svec,
)
from tests.conic_problems import (
    LINEAR,
    SEMIDEFINITE,
    Known,
    infeasible,
    infeasible_sdp,
    random_sdp,
    unbounded,
    violation,
)

csdp = pytest.param(
    "csdp", marks=pytest.mark.skipif(not shutil.which("csdp"), reason="csdp is not here: apt install coinor-csdp")
)
SDP_SOLVERS = ["clarabel", "scs", csdp]
LP_SOLVERS = [*SDP_SOLVERS, "highs", "highs-simplex", "highs-pdlp"]
TOLERANCE = {"scs": 1e-5, "highs-pdlp": 1e-5}


def names(known: Known) -> str:
    return known.name


def check(known: Known, solver: str) -> None:
    found = solve_conic(known.problem, solver)
    room = TOLERANCE.get(solver, 1e-6) * (1 + abs(known.value))
    assert found.status is ConicStatus.OPTIMAL, found.message
    assert found.solver == solver
    assert found.primal == pytest.approx(known.value, abs=room)
    assert found.dual == pytest.approx(known.value, abs=room)
    assert known.problem.c @ found.x == pytest.approx(found.primal)
    assert -known.problem.b @ found.z == pytest.approx(found.dual)
    assert violation(known.problem, found) < TOLERANCE.get(solver, 1e-6)


@pytest.mark.parametrize("solver", LP_SOLVERS)
@pytest.mark.parametrize("known", LINEAR, ids=names)
def test_linear_programs(known: Known, solver: str) -> None:
    check(known, solver)


@pytest.mark.parametrize("solver", SDP_SOLVERS)
@pytest.mark.parametrize("known", SEMIDEFINITE, ids=names)
def test_semidefinite_programs(known: Known, solver: str) -> None:
    check(known, solver)


@pytest.mark.parametrize("solver", SDP_SOLVERS)
@pytest.mark.parametrize("seed", range(4))
def test_solvers_agree_on_random_programs(seed: int, solver: str) -> None:
    problem = random_sdp(seed)
    check(Known("random", problem, solve_conic(problem, "clarabel").primal), solver)


@pytest.mark.parametrize("solver", SDP_SOLVERS)
def test_no_equalities_and_many_blocks(solver: str) -> None:
    problem = random_sdp(7, columns=12, orders=(2, 1, 5, 1, 3, 0, 4), equalities=0)
    check(Known("many blocks", problem, solve_conic(problem, "clarabel").primal), solver)


@pytest.mark.parametrize("solver", LP_SOLVERS)
def test_random_linear_programs(solver: str) -> None:
    problem = random_sdp(11, columns=5, orders=(1, 1, 1, 1, 1, 1), equalities=1)
    check(Known("random", problem, solve_conic(problem, "highs-simplex").primal), solver)


@pytest.mark.parametrize("solver", ["clarabel", "scs", "highs", "highs-simplex"])
def test_equalities_only(solver: str) -> None:
    """One feasible point: x = (1, 2); z is determined too."""
    problem = ConicProblem(np.array([3.0, 1]), np.array([[1.0, 0], [1, 1]]), np.array([1.0, 3]), (Cone("zero", 2),))
    found = solve_conic(problem, solver)
    assert found.status is ConicStatus.OPTIMAL
    assert found.x == pytest.approx([1, 2], abs=1e-5)
    assert found.z == pytest.approx([-2, -1], abs=1e-5)


@pytest.mark.parametrize("solver", LP_SOLVERS)
def test_unbounded(solver: str) -> None:
    found = solve_conic(unbounded(), solver)
    assert found.status is ConicStatus.UNBOUNDED
    assert found.primal == -inf
    assert not found.status.has_solution


@pytest.mark.parametrize("solver", LP_SOLVERS)
def test_infeasible(solver: str) -> None:
    found = solve_conic(infeasible(), solver)
    assert found.status is ConicStatus.INFEASIBLE
    assert found.primal == inf


@pytest.mark.parametrize("solver", SDP_SOLVERS)
def test_infeasible_semidefinite(solver: str) -> None:
    problem = infeasible_sdp()
    found = solve_conic(problem, solver)
    assert found.status is ConicStatus.INFEASIBLE
    if solver == "clarabel":  # its z is a ray: A'z = 0, b'z < 0, z >= 0
        ray = found.z / np.linalg.norm(found.z)
        assert abs(problem.A.T @ ray).max() < 1e-6
        assert problem.b @ ray < 0
        assert np.linalg.eigvalsh(smat(ray)).min() > -1e-7


@pytest.mark.parametrize("solver", ["clarabel", csdp, "scs", "highs"])
def test_a_column_without_rows(solver: str) -> None:
    A = sparse.csc_array(np.array([[-1.0, 0.0]]))
    cones = (Cone("nonnegative", 1),)
    found = solve_conic(ConicProblem(np.array([1.0, 0.0]), A, -np.ones(1), cones), solver)
    assert found.status is ConicStatus.OPTIMAL
    assert found.primal == pytest.approx(1, abs=1e-5)
    assert len(found.x) == 2
    lost = solve_conic(ConicProblem(np.array([1.0, 1.0]), A, -np.ones(1), cones), solver)
    assert lost.status in (ConicStatus.UNBOUNDED, ConicStatus.INFEASIBLE_OR_UNBOUNDED)


@pytest.mark.parametrize("solver", ["auto", "clarabel", "csdp", "mosek"])
def test_nothing_to_solve_needs_no_solver(solver: str) -> None:
    cones = (Cone("zero", 1), Cone("psd", 2), Cone("nonnegative", 1))
    good = solve_conic(ConicProblem(np.empty(0), np.empty((5, 0)), np.r_[0, svec(np.eye(2)), 1.0], cones), solver)
    bad = solve_conic(ConicProblem(np.empty(0), np.empty((5, 0)), np.r_[0, svec(-np.eye(2)), 1.0], cones), solver)
    assert (good.status, bad.status) == (ConicStatus.OPTIMAL, ConicStatus.INFEASIBLE)
    free = solve_conic(ConicProblem(np.ones(2), np.empty((0, 2)), np.empty(0), (Cone("psd", 0),)), solver)
    flat = solve_conic(ConicProblem(np.zeros(2), np.empty((0, 2)), np.empty(0), ()), solver)
    assert (free.status, flat.status) == (ConicStatus.UNBOUNDED, ConicStatus.OPTIMAL)


@pytest.mark.parametrize("solver", ["clarabel", "scs", csdp])
def test_time_limit_is_passed_on(solver: str) -> None:
    problem = random_sdp(3, columns=400, orders=(40, 40), equalities=5)
    found = solve_conic(problem, solver, budget=Budget.of_seconds(1e-3))
    assert found.status is ConicStatus.TIME_LIMIT
    assert found.iterations <= 1  # of 10, or of 775


@pytest.mark.parametrize("solver", LP_SOLVERS)
def test_silent_unless_verbose(solver: str, capfd: pytest.CaptureFixture[str]) -> None:
    problem = LINEAR[0].problem
    solve_conic(problem, solver)
    assert capfd.readouterr() == ("", "")
    solve_conic(problem, solver, verbose=True)
    assert capfd.readouterr().out


def test_auto_is_highs_for_linear_programs_only() -> None:
    assert [choose_conic(known.problem) for known in LINEAR] == ["highs"] * 3
    assert {choose_conic(known.problem) for known in SEMIDEFINITE} == {"clarabel"}
    assert solve_conic(LINEAR[0].problem).solver == "highs"
    assert solve_conic(SEMIDEFINITE[0].problem).solver == "clarabel"


def test_auto_takes_scs_for_large_blocks_and_short_times() -> None:
    def moment(order: int) -> ConicProblem:
        rows = order * (order + 1) // 2
        return ConicProblem(np.zeros(1), sparse.csc_array((rows, 1)), np.zeros(rows), (Cone("psd", order),))

    assert [choose_conic(moment(order)) for order in (2, 60, 200)] == ["clarabel", "clarabel", "scs"]
    assert choose_conic(moment(60), Budget.of_work(0.5)) == "scs"


def test_auto_asks_scs_when_clarabel_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clarabel_backend, "STATUS", {})
    known = SEMIDEFINITE[0]
    assert solve_conic(known.problem, "clarabel").status is ConicStatus.ERROR
    found = solve_conic(known.problem)
    assert (found.status, found.solver) == (ConicStatus.OPTIMAL, "scs")


@pytest.mark.parametrize("solver", ["highs", "highs-simplex", "highs-pdlp"])
def test_linear_solvers_refuse_semidefinite_blocks(solver: str) -> None:
    with pytest.raises(InputError, match="linear programs only"):
        solve_conic(SEMIDEFINITE[0].problem, solver)


def test_wrong_arguments() -> None:
    problem = LINEAR[0].problem
    with pytest.raises(InputError, match=r"unknown; expected one of auto, clarabel"):
        solve_conic(problem, "sedumi")
    for limit in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="must be a positive"):
            minimize(Polynomial.variable(0), lower=[0.0], upper=[1.0], time_limit=limit)


def test_statuses_are_sentences() -> None:
    assert all(": " in status.value for status in ConicStatus)
    assert CONIC_SOLVERS[0] == "auto"
    assert set(conic._BACKENDS) == set(CONIC_SOLVERS[1:])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cone("soc", 3), "expected one of zero"),  # type: ignore[arg-type]
        (lambda: Cone("psd", -1), "must be >= 0"),
        (lambda: ConicProblem(np.ones(2), np.ones((3, 1)), np.ones(3), (Cone("zero", 3),)), "does not fit"),
        (lambda: ConicProblem(np.ones(1), np.ones((3, 1)), np.ones(3), (Cone("psd", 3),)), "take 6 rows"),
        (lambda: ConicProblem(np.array([np.nan]), np.ones((3, 1)), np.ones(3), (Cone("psd", 2),)), r"\(c\)"),
        (lambda: ConicProblem(np.ones(1), np.ones((1, 1)), np.array([inf]), (Cone("psd", 1),)), r"\(b\)"),
        (lambda: ConicProblem(np.ones(1), np.array([[inf]]), np.ones(1), (Cone("psd", 1),)), r"\(A\)"),
        (lambda: svec(np.ones((2, 3))), "square"),
        (lambda: smat(np.ones(5)), "n\\(n\\+1\\)/2"),
    ],
)
def test_problems_are_checked_at_the_door(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


def test_problem_keeps_its_own_copy() -> None:
    c, b = np.ones(1), np.ones(1)
    problem = ConicProblem(c, np.ones((1, 1)), b, (Cone("zero", 1),))
    c[0] = b[0] = 5
    assert (problem.c[0], problem.b[0]) == (1, 1)


def test_svec_order() -> None:
    v = svec(np.array([[1.0, 2, 4], [2, 3, 5], [4, 5, 6]]))
    assert v == pytest.approx([1, 2 * sqrt(2), 3, 4 * sqrt(2), 5 * sqrt(2), 6])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 7), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_svec_is_an_isometry(order: int, batch: int, seed: int) -> None:
    M = np.random.default_rng(seed).standard_normal((batch, order, order))
    M = M + M.transpose(0, 2, 1)
    assert np.allclose(smat(svec(M)), M, rtol=1e-15)
    assert np.allclose(np.sum(svec(M) ** 2, axis=-1), np.sum(M**2, axis=(1, 2)))


def test_importing_the_solvers_imports_no_back_end() -> None:
    code = "import sys, lipcert, lipcert.solver.conic.conic; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"clarabel", "scs", "highspy", "mosek"} & set(loaded)
