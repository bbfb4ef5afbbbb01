"""CSDP and SDPA, where they are on the PATH: the program goes out as a file, the solution comes back as one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

import numpy as np

from lipcert.errors import FileFormatError, InputError
from lipcert.solver.conic.cones import NOTHING, Answer, ConicProblem, ConicStatus, Limits
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
CSDP_PARAMETERS = (  # its defaults, in the order in which it reads them
    "axtol=1.0e-8 atytol=1.0e-8 objtol=1.0e-8 pinftol=1.0e8 dinftol=1.0e8 maxiter={} minstepfrac=0.90 maxstepfrac=0.97 "
    "minstepp=1.0e-8 minstepd=1.0e-8 usexzgap=1 tweakgap=0 affine=0 printlevel=1 perturbobj=1 fastmode=0 "
)
ITERATIONS = 100  # their own limit; SDPA keeps it whatever the budget
Read = Callable[[Path, ConicProblem, int, str], Answer]


@dataclass(frozen=True)
class _Program:
    """A program of the field: its name, arguments after it, how to read its answer, and the Debian package."""

    name: str
    arguments: tuple[str, ...]
    read: Read
    package: str


def solve_csdp(problem: ConicProblem, limits: Limits) -> Answer:
    """Solve with the program csdp and its default parameters (tolerance 1e-8)."""
    return _solve(problem, limits, _Program("csdp", ("p.dat-s", "p.sol"), _read_csdp, "coinor-csdp"))


def solve_sdpa(problem: ConicProblem, limits: Limits) -> Answer:
    """Solve with the program sdpa and its default parameters."""
    return _solve(problem, limits, _Program("sdpa", ("-ds", "p.dat-s", "-o", "p.sol"), _read_sdpa, "sdpa"))


def _solve(problem: ConicProblem, limits: Limits, program: _Program) -> Answer:
    executable = shutil.which(program.name)
    if executable is None:
        raise InputError(
            f"solver {program.name}: no such program on the PATH; on Debian, apt install {program.package}"
        )
    # A column without entries is a matrix without entries, which CSDP refuses.
    used = np.diff(problem.A.indptr) > 0
    if np.any(problem.c[~used]):
        return Answer(ConicStatus.UNBOUNDED, NOTHING, 0, "a column has a cost and no rows")
    small = replace(problem, c=problem.c[used], A=problem.A[:, np.flatnonzero(used)])
    answer = _run(executable, program, small, limits)
    if answer.vectors[0] is None:
        return answer
    x = np.zeros(problem.columns)
    x[used] = answer.vectors[0]
    return replace(answer, vectors=(x, *answer.vectors[1:]))


def _run(executable: str, program: _Program, problem: ConicProblem, limits: Limits) -> Answer:
    with tempfile.TemporaryDirectory(prefix="lipcert-") as folder:
        write_conic(Path(folder) / "p.dat-s", problem)
        most = min(ITERATIONS, limits.iterations or ITERATIONS)
        (Path(folder) / "param.csdp").write_text(CSDP_PARAMETERS.format(most).replace(" ", "\n"))
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
                timeout=limits.seconds if isfinite(limits.seconds) else None,
            )
        except subprocess.TimeoutExpired:
            return Answer(ConicStatus.TIME_LIMIT, NOTHING, 0, "stopped at the time limit")
        if limits.verbose:
            sys.stdout.write(done.stdout)
        answer = program.read(Path(folder) / "p.sol", problem, done.returncode, done.stdout)
    iterations = [int(number) for number in re.findall(r"^\s*(?:Iter:)?\s*(\d+)\s", done.stdout, re.MULTILINE)]
    return replace(answer, iterations=iterations[-1] if iterations else 0)


def _read_csdp(path: Path, problem: ConicProblem, code: int, printed: str) -> Answer:
    status = CSDP_STATUS.get(code, ConicStatus.ERROR)
    said = [
        line for line in printed.splitlines() if re.match(r"(Success|Partial Success|Failure|Stuck|Lack|SDP)", line)
    ]
    message = f"exit code {code}: {said[-1].strip() if said else printed.strip()[-200:]}"
    try:
        return Answer(status, read_csdp_solution(path, problem), 0, message)
    except FileFormatError:
        return Answer(ConicStatus.ERROR if status.has_solution else status, NOTHING, 0, message)


def _read_sdpa(path: Path, problem: ConicProblem, code: int, printed: str) -> Answer:
    try:
        x, s, z, phase = read_sdpa_solution(path, problem)
    except FileFormatError:
        return Answer(ConicStatus.ERROR, NOTHING, 0, f"exit code {code}: {printed.strip()[-200:]}")
    return Answer(SDPA_STATUS.get(phase, ConicStatus.ERROR), (x, s, z), 0, phase)
