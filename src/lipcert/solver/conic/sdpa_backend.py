"""CSDP and SDPA, where they are on the PATH: the program goes out as a file, the solution comes back as one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

import numpy as np

from lipcert.errors import FileFormatError, InputError
from lipcert.relaxation.rank_two import Floats
from lipcert.solver.conic.cones import ConicProblem, ConicSolution, ConicStatus, Limits, make_solution
from lipcert.solver.conic.sdpa_file import read_csdp_solution, read_sdpa_solution, write_conic

CSDP_STATUS = {  # by exit code; CSDP's primal is our dual
    0: ConicStatus.OPTIMAL,
    1: ConicStatus.UNBOUNDED,
    2: ConicStatus.INFEASIBLE,
    3: ConicStatus.NEARLY_OPTIMAL,
    4: ConicStatus.ITERATION_LIMIT,
    5: ConicStatus.STALLED,
    6: ConicStatus.STALLED,
    7: ConicStatus.STALLED,
    8: ConicStatus.STALLED,
    9: ConicStatus.STALLED,
}
SDPA_STATUS = {  # by phase; SDPA's primal is ours
    "pdOPT": ConicStatus.OPTIMAL,
    "pdFEAS": ConicStatus.NEARLY_OPTIMAL,
    "pINF_dFEAS": ConicStatus.INFEASIBLE,
    "pFEAS_dINF": ConicStatus.UNBOUNDED,
    "pUNBD": ConicStatus.UNBOUNDED,
    "dUNBD": ConicStatus.INFEASIBLE,
    "pdINF": ConicStatus.INFEASIBLE_OR_UNBOUNDED,
    "pFEAS": ConicStatus.STALLED,
    "dFEAS": ConicStatus.STALLED,
    "noINFO": ConicStatus.STALLED,
}
Vectors = tuple[Floats | None, Floats | None, Floats | None]
Answer = tuple[ConicStatus, Vectors, str]


@dataclass(frozen=True)
class _Program:
    """A program of the field: its name, arguments after it, how to read its answer, and the Debian package."""

    name: str
    arguments: tuple[str, ...]
    read: Callable[[Path, ConicProblem, int, str], Answer]
    package: str


def solve_csdp(problem: ConicProblem, limits: Limits) -> ConicSolution:
    """Solve with the program csdp and its default parameters (tolerance 1e-8)."""
    return _solve(problem, limits, _Program("csdp", ("p.dat-s", "p.sol"), _read_csdp, "coinor-csdp"))


def solve_sdpa(problem: ConicProblem, limits: Limits) -> ConicSolution:
    """Solve with the program sdpa and its default parameters."""
    return _solve(problem, limits, _Program("sdpa", ("-ds", "p.dat-s", "-o", "p.sol"), _read_sdpa, "sdpa"))


def _solve(problem: ConicProblem, limits: Limits, program: _Program) -> ConicSolution:
    executable = shutil.which(program.name)
    if executable is None:
        raise InputError(
            f"solver {program.name}: no such program on the PATH; on Debian, apt install {program.package}"
        )
    start = time.perf_counter()
    # A column without entries is a matrix without entries, which CSDP refuses.
    used = np.diff(problem.A.indptr) > 0
    small = replace(problem, c=problem.c[used], A=problem.A[:, np.flatnonzero(used)])
    answer: Answer = (ConicStatus.UNBOUNDED, (None, None, None), "a column has a cost and no rows")
    printed = ""
    if not np.any(problem.c[~used]):
        answer, printed = _run(executable, program, small, limits)
    status, vectors, message = answer
    if vectors[0] is not None:
        x = np.zeros(problem.columns)
        x[used] = vectors[0]
        vectors = (x, *vectors[1:])
    iterations = [int(number) for number in re.findall(r"^\s*(?:Iter:)?\s*(\d+)\s", printed, re.MULTILINE)]
    return make_solution(
        problem,
        status,
        vectors,
        seconds=time.perf_counter() - start,
        iterations=iterations[-1] if iterations else 0,
        solver=program.name,
        message=message,
    )


def _run(executable: str, program: _Program, problem: ConicProblem, limits: Limits) -> tuple[Answer, str]:
    with tempfile.TemporaryDirectory(prefix="lipcert-") as folder:
        write_conic(Path(folder) / "p.dat-s", problem)
        try:
            done = subprocess.run(
                [executable, *program.arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                timeout=limits.time_limit if isfinite(limits.time_limit) else None,
            )
        except subprocess.TimeoutExpired:
            return (ConicStatus.TIME_LIMIT, (None, None, None), "stopped at the time limit"), ""
        if limits.verbose:
            sys.stdout.write(done.stdout)
        return program.read(Path(folder) / "p.sol", problem, done.returncode, done.stdout), done.stdout


def _read_csdp(path: Path, problem: ConicProblem, code: int, printed: str) -> Answer:
    status = CSDP_STATUS.get(code, ConicStatus.ERROR)
    said = [
        line for line in printed.splitlines() if re.match(r"(Success|Partial Success|Failure|Stuck|Lack|SDP)", line)
    ]
    message = f"exit code {code}: {said[-1].strip() if said else printed.strip()[-200:]}"
    try:
        return status, read_csdp_solution(path, problem), message
    except FileFormatError:
        return (ConicStatus.ERROR if status.has_solution else status), (None, None, None), message


def _read_sdpa(path: Path, problem: ConicProblem, code: int, printed: str) -> Answer:
    try:
        *vectors, phase = read_sdpa_solution(path, problem)
    except FileFormatError:
        return ConicStatus.ERROR, (None, None, None), f"exit code {code}: {printed.strip()[-200:]}"
    x, s, z = vectors
    return SDPA_STATUS.get(phase, ConicStatus.ERROR), (x, s, z), phase
