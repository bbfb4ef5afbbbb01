"""Back ends one by one: status maps, what is missing, what is damaged, files out and in."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lipcert.budget import Budget
from lipcert.errors import FileFormatError, InputError
from lipcert.solver.conic import clarabel_backend, highs_backend, mosek_backend, scs_backend
from lipcert.solver.conic.cones import NOTHING, ConicAnswer, ConicProblem, Limits, lower_by_columns, make_solution
from lipcert.solver.conic.conic import Cone, ConicStatus, smat, solve_conic
from lipcert.solver.conic.sdpa_backend import layout, read_csdp_solution, read_sdpa_solution, write_conic
from tests import fake_mosek
from tests.conic_problems import (
    LINEAR,
    SEMIDEFINITE,
    Known,
    infeasible_sdp,
    mixed_order,
    random_sdp,
    unbounded,
    violation,
)
from tests.constants import set_constant

needs_csdp = pytest.mark.skipif(not shutil.which("csdp"), reason="csdp is not here: apt install coinor-csdp")


# Status maps


def test_every_status_of_clarabel_is_mapped() -> None:
    import clarabel

    known = {name for name in dir(clarabel.SolverStatus) if name[0] != "_"}
    assert known - {"Unsolved"} == set(clarabel_backend.STATUS)


def test_every_status_of_scs_is_mapped() -> None:
    import scs

    names = ["INFEASIBLE_INACCURATE", "UNBOUNDED_INACCURATE", "SIGINT", "FAILED", "INDETERMINATE", "INFEASIBLE"]
    values = {getattr(scs, name) for name in [*names, "UNBOUNDED", "SOLVED", "SOLVED_INACCURATE"]}
    assert values == set(scs_backend.STATUS)
    assert scs_backend._status(2, "solved (inaccurate - reached time_limit_secs)") is ConicStatus.TIME_LIMIT
    assert scs_backend._status(2, "solved (inaccurate - reached max_iters)") is ConicStatus.ITERATION_LIMIT
    assert scs_backend._status(99, "new") is ConicStatus.ERROR


def test_statuses_of_highs_exist() -> None:
    import highspy

    assert all(hasattr(highspy.HighsModelStatus, name) for name in highs_backend.STATUS)


def test_an_unknown_status_is_an_error_with_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clarabel_backend, "STATUS", {})
    found = solve_conic(LINEAR[0].problem, "clarabel")
    assert (found.status, found.message) == (ConicStatus.ERROR, "Solved")


def test_the_simplex_decides_where_the_interior_point_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = highs_backend._solve

    def undecided(problem: ConicProblem, limits: Limits, method: str) -> ConicAnswer:
        if method == "simplex":
            return solve(problem, limits, method)
        return ConicAnswer(ConicStatus.STALLED, NOTHING, 0, "kUnknown")

    monkeypatch.setattr(highs_backend, "_solve", undecided)
    found = solve_conic(LINEAR[0].problem, "highs")
    assert (found.status, found.solver) == (ConicStatus.OPTIMAL, "highs")


def test_clarabel_is_asked_where_scs_comes_to_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only by `auto`, and only where its time is expected to be enough."""
    tired = ConicAnswer(ConicStatus.ITERATION_LIMIT, NOTHING, 1, "solved (inaccurate)")
    monkeypatch.setattr(scs_backend, "solve_scs", lambda *_: tired)
    set_constant(monkeypatch, "PATIENCE", 0.0)
    problem = SEMIDEFINITE[0].problem
    found = solve_conic(problem, "auto")
    assert (found.status, found.solver) == (ConicStatus.OPTIMAL, "clarabel")
    assert solve_conic(problem, "scs").status is ConicStatus.ITERATION_LIMIT
    assert solve_conic(problem, "auto", budget=Budget.of_work(1e-9)).status is ConicStatus.ITERATION_LIMIT


def test_a_panic_of_clarabel_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import clarabel

    class PanicException(BaseException):  # as Rust's assertions arrive in Python
        pass

    def panic(*_: object) -> None:
        raise PanicException("assertion failed")

    monkeypatch.setattr(clarabel, "DefaultSolver", panic)
    assert solve_conic(SEMIDEFINITE[0].problem, "clarabel").status is ConicStatus.ERROR
    monkeypatch.setattr(clarabel, "DefaultSolver", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        solve_conic(SEMIDEFINITE[0].problem, "clarabel")


def test_missing_vectors_are_nan() -> None:
    answer = ConicAnswer(ConicStatus.TIME_LIMIT, (None, np.ones(2), None), 0, "-")
    found = make_solution(LINEAR[0].problem, answer, 0.0, "-")
    assert all(np.isnan(v).all() for v in (found.x, found.s, found.z, found.primal, found.dual))


def test_lower_triangles_by_columns() -> None:
    numbered = smat(np.arange(6) / np.array([1, 2**-0.5, 1, 2**-0.5, 2**-0.5, 1]))
    order = lower_by_columns(3)
    assert order.tolist() == [0, 1, 3, 2, 4, 5]
    assert sorted(order) == list(range(6))
    assert numbered.shape == (3, 3)


# MOSEK

Mosek = Callable[..., None]


@pytest.fixture
def mosek(monkeypatch: pytest.MonkeyPatch) -> Mosek:
    """Put a module in the place of MOSEK that answers or raises as it is told."""
    return lambda **told: monkeypatch.setitem(sys.modules, "mosek", fake_mosek.module(**told))


@pytest.mark.parametrize("known", [*LINEAR, *SEMIDEFINITE], ids=lambda known: known.name)
def test_mosek_gets_the_dual_and_gives_x_s_z(known: Known, mosek: Mosek) -> None:
    mosek()
    found = solve_conic(known.problem, "mosek", budget=Budget.of_seconds(10))
    assert found.status is ConicStatus.OPTIMAL
    assert found.primal == pytest.approx(known.value, abs=1e-5)
    assert found.dual == pytest.approx(known.value, abs=1e-5)
    assert violation(known.problem, found) < 1e-6
    assert found.iterations == 7


@pytest.mark.parametrize("seed", range(3))
def test_mosek_on_random_programs(seed: int, mosek: Mosek) -> None:
    mosek()
    problem = random_sdp(seed, orders=(3, 0, 1, 4))
    found = solve_conic(problem, "mosek")
    assert found.primal == pytest.approx(solve_conic(problem, "scs").primal, rel=1e-4)
    assert violation(problem, found) < 1e-6


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        (("unknown", "trm_max_time"), ConicStatus.TIME_LIMIT),
        (("unknown", "trm_max_iterations"), ConicStatus.ITERATION_LIMIT),
        (("unknown", "trm_stall"), ConicStatus.STALLED),
        (("optimal", "trm_stall"), ConicStatus.OPTIMAL),
        (("brand_new", "ok"), ConicStatus.ERROR),
    ],
)
def test_mosek_statuses(answers: tuple[str, str], status: ConicStatus, mosek: Mosek) -> None:
    mosek(answers=answers)
    found = solve_conic(LINEAR[0].problem, "mosek")
    assert found.status is status
    assert answers[0] in found.message


def test_mosek_primal_is_our_dual(mosek: Mosek) -> None:
    mosek()
    assert solve_conic(unbounded(), "mosek").status is ConicStatus.UNBOUNDED
    assert solve_conic(infeasible_sdp(), "mosek").status is ConicStatus.INFEASIBLE


def test_mosek_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mosek", None)
    with pytest.raises(InputError, match=r"not installed; pip install '(\.|lipcert)\[mosek\]'"):
        solve_conic(LINEAR[0].problem, "mosek")


def test_mosek_without_licence(mosek: Mosek) -> None:
    error = fake_mosek.Error(
        "rescode.err_missing_license_file(1008): License cannot be located.\nThe default path is x"
    )
    mosek(raises=error)
    with pytest.raises(InputError, match="no valid licence") as caught:
        solve_conic(LINEAR[0].problem, "mosek")
    assert "\n" not in str(caught.value)


def test_mosek_other_errors_are_a_status(mosek: Mosek) -> None:
    error = fake_mosek.Error("rescode.err_space(1051): Out of space.")
    mosek(raises=error)
    found = solve_conic(LINEAR[0].problem, "mosek")
    assert found.status is ConicStatus.ERROR
    assert "Out of space" in found.message


def test_mosek_verbose(mosek: Mosek, capsys: pytest.CaptureFixture[str]) -> None:
    mosek()
    solve_conic(LINEAR[0].problem, "mosek", verbose=True)
    assert capsys.readouterr().out == "MOSEK\n"
    assert mosek_backend._name("mosek.solsta.optimal") == "optimal"


# SDPA files, and the programs that read them


def test_sdpa_file(tmp_path: Path) -> None:
    """Blocks first, then the diagonal one with equalities twice; matrix entries without the sqrt(2)."""
    path = tmp_path / "p.dat-s"
    write_conic(path, mixed_order().problem, "two\nlines")
    lines = path.read_text().splitlines()
    assert lines[:5] == ['"two lines', "3", "2", "2 -3", "1.0 0.0 1.0"]
    entries = {tuple(map(int, line.split()[:4])): float(line.split()[4]) for line in lines[5:]}
    assert entries == pytest.approx(
        {
            (0, 2, 1, 1): 2.0,
            (0, 2, 2, 2): -1.0,
            (0, 2, 3, 3): 1.0,
            (1, 1, 1, 1): 1.0,
            (1, 2, 1, 1): 1.0,
            (2, 1, 1, 2): 1.0,
            (2, 2, 2, 2): -1.0,
            (2, 2, 3, 3): 1.0,
            (3, 1, 2, 2): 1.0,
        }
    )


def test_a_csdp_solution_comes_back(tmp_path: Path) -> None:
    problem = random_sdp(5)
    rng = np.random.default_rng(0)
    x, s, z = rng.standard_normal(problem.columns), rng.standard_normal(problem.rows), rng.standard_normal(problem.rows)
    where = layout(problem)
    lines = [" ".join(map(repr, x.tolist()))]
    split = np.where(where.block == len(where.sizes), np.bincount(where.row)[where.row], 1)  # z+ - z- = z
    for which, vector in ((1, s), (2, z)):
        share = split if which == 2 else 1
        values = vector[where.row] * where.factor / share
        entries = zip(where.block, where.i, where.j, values.tolist(), strict=True)
        lines += [f"{which} {b} {i} {j} {v!r}" for b, i, j, v in entries]
    path = tmp_path / "p.sol"
    path.write_text("\n".join(lines) + "\n")
    for got, expected in zip(read_csdp_solution(path, problem), (x, s, z), strict=True):
        assert got == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense\n",
        "1.0 2.0\n1 1 1 1 1.0\n",
        "1 2 3\n1 1 1\n",
        "1 2\n",
        "1 2 3\n1 9 1 1 1.0\n",
        "1 2 3\n3 1 1 1 1.0\n",
        "é",
    ],
)
def test_damaged_csdp_solutions(text: str, tmp_path: Path) -> None:
    path = tmp_path / "p.sol"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="not a solution of CSDP"):
        read_csdp_solution(path, mixed_order().problem)


SDPA_RESULT = """SDPA start at [Sun Nov 15 22:00:00 2026]
phase.value  = pdOPT
   Iteration = 12
          mu = +1.0e-08
objValPrimal = +2.5000000000000000e+00
xVec =
{+2.0e+00,+1.0e+00,+5.0e-01}
xMat =
{
{ {+2.0e+00,+1.0e+00 },
  {+1.0e+00,+5.0e-01 } }
{+0.0e+00,+0.0e+00,+0.0e+00}
}
yMat =
{
{ {+2.5e-01,-5.0e-01 },
  {-5.0e-01,+1.0e+00 } }
{+7.5e-01,+0.5e+00,+1.5e+00}
}
    main loop time = 0.001000
"""


def test_an_sdpa_solution_comes_back(tmp_path: Path) -> None:
    problem = mixed_order().problem
    path = tmp_path / "p.sol"
    path.write_text(SDPA_RESULT)
    x, s, z, phase = read_sdpa_solution(path, problem)
    assert (phase, x.tolist()) == ("pdOPT", [2, 1, 0.5])
    assert s == pytest.approx([2, np.sqrt(2), 0.5, 0, 0])
    assert z == pytest.approx([0.25, -np.sqrt(0.5), 1, 0.75, -1.0])
    assert problem.A.T @ z + problem.c == pytest.approx(np.zeros(3), abs=1e-12)
    assert -problem.b @ z == pytest.approx(2.5)
    path.write_text(SDPA_RESULT.replace("yMat", "zMat"))
    with pytest.raises(FileFormatError, match="not a solution of SDPA"):
        read_sdpa_solution(path, problem)


def program(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell script of this name, alone before the system's PATH."""
    path = folder / name
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")


def test_sdpa_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"test $1 = -ds && test -s $2 && cat > $4 <<'END'\n{SDPA_RESULT}END\n"
    program(tmp_path, "sdpa", script, monkeypatch)
    found = solve_conic(mixed_order().problem, "sdpa")
    assert (found.status, found.message, found.solver) == (ConicStatus.OPTIMAL, "pdOPT", "sdpa")
    assert violation(mixed_order().problem, found) < 1e-12


@pytest.mark.parametrize("solver", ["csdp", "sdpa"])
def test_programs_that_fail(solver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, solver, "echo broken library >&2; exit 0\n", monkeypatch)
    found = solve_conic(mixed_order().problem, solver)
    assert found.status is ConicStatus.ERROR
    assert "broken library" in found.message
    program(tmp_path, solver, "exit 206\n", monkeypatch)
    assert solve_conic(mixed_order().problem, solver).status is ConicStatus.ERROR


@pytest.mark.parametrize(("solver", "package"), [("csdp", "coinor-csdp"), ("sdpa", "apt install sdpa")])
def test_programs_that_are_missing(solver: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=package):
        solve_conic(mixed_order().problem, solver)


def test_a_slow_program_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "csdp", "exec sleep 30\n", monkeypatch)
    found = solve_conic(mixed_order().problem, "csdp", budget=Budget.of_seconds(0.2))
    assert found.status is ConicStatus.TIME_LIMIT
    assert found.message == "stopped at the time limit"  # it did not end by itself
    assert np.isnan(found.x).all()


@needs_csdp
def test_csdp_counts_iterations_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = solve_conic(random_sdp(1), "csdp")
    assert 5 < found.iterations < 50
    assert "Success" in found.message
    assert list(tmp_path.iterdir()) == []


@needs_csdp
def test_csdp_does_not_lie_about_equalities_only() -> None:
    """No interior: whatever the status, a claimed solution is one."""
    problem = ConicProblem(np.array([3.0, 1]), np.array([[1.0, 0], [1, 1]]), np.array([1.0, 3]), (Cone("zero", 2),))
    found = solve_conic(problem, "csdp")
    if found.status.has_solution:
        assert found.x == pytest.approx([1, 2], abs=1e-4)
        assert found.z == pytest.approx([-2, -1], abs=1e-4)
