"""CSDP and SDPA, where they are on the PATH: the program goes out as a file, the solution comes back as one.

The file is in the SDPA sparse format (.dat-s). In its letters: min c'x s.t. X = F_1 x_1 + ... + F_n x_n - F_0 >= 0, and
max F_0.Y s.t. F_i.Y = c_i, Y >= 0; here F_i is minus column i of A, F_0 is -b, X is our s and Y our z. Each
semidefinite block is a block; all other rows share one diagonal block behind them, in which an equality stands twice,
with both signs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.errors import FileFormatError, InputError
from lipcert.files import check_readable, text_of, write_atomically
from lipcert.relaxation.rank_two import Floats
from lipcert.solver.conic.cones import NOTHING, ConicAnswer, ConicProblem, ConicStatus, Limits, psd_places

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Layout:
    """The entries of the file's matrices: entry k is X[block, i, j] = sign * s[row] / scale (blocks from 1)."""

    sizes: tuple[int, ...]
    row: NDArray[np.int64]
    block: NDArray[np.int64]
    i: NDArray[np.int64]
    j: NDArray[np.int64]
    factor: Floats  # sign / scale


def layout(problem: ConicProblem) -> Layout:
    """The place of each row of the problem in the file."""
    places = psd_places(problem)
    zero, nonnegative = problem.kind_rows("zero"), problem.kind_rows("nonnegative")
    scalars = np.concatenate([nonnegative, zero, zero])
    signs = np.ones(len(scalars))
    signs[len(nonnegative) + len(zero) :] = -1.0
    own = np.arange(len(scalars))
    sizes = (*problem.orders, -len(scalars)) if len(scalars) else problem.orders
    return Layout(
        sizes,
        np.concatenate([places.rows, scalars]),
        np.concatenate([places.block, np.full(len(scalars), len(problem.orders))]) + 1,
        np.concatenate([places.row, own]) + 1,
        np.concatenate([places.column, own]) + 1,
        np.concatenate([1 / places.scale, signs]),
    )


def write_conic(path: str | os.PathLike[str], problem: ConicProblem, title: str = "conic program") -> None:
    """Write the program, atomically; its optimal value is that of min c'x."""
    write_atomically(path, lambda file: _write(file, problem, title))


def _write(file: IO[bytes], problem: ConicProblem, title: str) -> None:
    where = layout(problem)
    header = [
        '"' + " ".join(title.split()),
        str(problem.columns),
        str(len(where.sizes)),
        " ".join(map(str, where.sizes)),
        " ".join(repr(float(value)) for value in problem.c),
    ]
    file.write(("\n".join(header) + "\n").encode("ascii", "replace"))
    stacked = sparse.hstack([problem.b[:, None], problem.A], format="csr")[where.row]
    entries = sparse.csc_array(sparse.diags_array(-where.factor) @ stacked)
    entries.eliminate_zeros()
    k = entries.indices
    matrix = np.repeat(np.arange(problem.columns + 1), np.diff(entries.indptr))
    # b gives F_0 = -b as it stands, and the columns of A give F_i = -A_i: the same sign.
    columns = [part.tolist() for part in (matrix, where.block[k], where.i[k], where.j[k], entries.data)]
    file.write("".join(f"{m} {n} {i} {j} {v!r}\n" for m, n, i, j, v in zip(*columns, strict=True)).encode())


def read_csdp_solution(path: str | os.PathLike[str], problem: ConicProblem) -> tuple[Floats, Floats, Floats]:
    """x, s, z from the file that CSDP writes: x on the first line, then `1 block i j value` for s and `2 ...` for z."""
    p = check_readable(path)
    try:
        first, _, rest = text_of(p, "ascii").partition("\n")
        x, lines = np.array(first.split(), dtype=np.float64), rest.splitlines()
        entries = np.loadtxt(lines, dtype=np.float64, ndmin=2) if lines else np.empty((0, 5))
    except (ValueError, OSError):
        raise _damaged(p, "CSDP") from None
    if len(x) != problem.columns or (entries.size and entries.shape[1] != 5):
        raise _damaged(p, "CSDP")
    where = layout(problem)
    entries = entries.reshape(-1, 5)
    place = _find(where, entries[:, 1:4].astype(np.int64), p)
    values = np.zeros((2, len(where.row)))
    which = entries[:, 0].astype(np.int64)
    if not np.all((which == 1) | (which == 2)):
        raise _damaged(p, "CSDP")
    values[which - 1, place] = entries[:, 4]
    return x, _primal(where, values[0], problem.rows), _dual(where, values[1], problem.rows)


def read_sdpa_solution(path: str | os.PathLike[str], problem: ConicProblem) -> tuple[Floats, Floats, Floats, str]:
    """x, s, z and the phase (pdOPT, ...) from the result file of SDPA: xVec, xMat and yMat, full blocks in braces."""
    p = check_readable(path)
    text = text_of(p, "ascii", "replace")
    where = layout(problem)
    phase = re.search(r"phase\.value\s*=\s*(\w+)", text)
    full = sum(size * size if size > 0 else -size for size in where.sizes)
    parts = []
    for name, count in (("xVec", problem.columns), ("xMat", full), ("yMat", full)):
        section = re.search(name + r"\s*=([^=a-zA-Z]*(?:[eE][-+]?\d[^=a-zA-Z]*)*)", text)
        numbers = _NUMBER.findall(section.group(1)) if section else []
        if len(numbers) != count:
            raise _damaged(p, "SDPA")
        parts.append(np.array(numbers, dtype=np.float64))
    place = _full_places(where)
    s = _primal(where, parts[1][place], problem.rows)
    return parts[0], s, _dual(where, parts[2][place], problem.rows), phase.group(1) if phase else "no phase"


def _full_places(where: Layout) -> NDArray[np.int64]:
    """The place of each entry when psd blocks are full matrices and the diagonal block is a vector."""
    counts = [size * size if size > 0 else -size for size in where.sizes]
    start = np.concatenate([[0], np.cumsum(counts)])[where.block - 1]
    size = np.array(where.sizes)[where.block - 1]
    return np.asarray(start + np.where(size > 0, (where.i - 1) * size, 0) + where.j - 1, dtype=np.int64)


def _find(where: Layout, key: NDArray[np.int64], path: Path) -> NDArray[np.int64]:
    """The number of the layout's entry with this block, i, j."""
    width = max((abs(size) for size in where.sizes), default=0) + 1
    own = (where.block * width + where.i) * width + where.j
    order = np.argsort(own)
    wanted = (key[:, 0] * width + key[:, 1]) * width + key[:, 2]
    found = order[np.minimum(np.searchsorted(own, wanted, sorter=order), len(order) - 1)]
    if not np.array_equal(own[found], wanted):
        raise _damaged(path, "CSDP")
    return np.asarray(found, dtype=np.int64)


def _primal(where: Layout, values: Floats, rows: int) -> Floats:
    """s from X; of the two copies of an equality the difference counts half."""
    copies = np.bincount(where.row, minlength=rows)
    return np.asarray(np.bincount(where.row, values / where.factor, minlength=rows) / np.maximum(copies, 1))


def _dual(where: Layout, values: Floats, rows: int) -> Floats:
    """z from Y: with the scale of svec, and the difference of the two multipliers of an equality."""
    return np.asarray(np.bincount(where.row, values / where.factor, minlength=rows), dtype=np.float64)


def _damaged(path: Path, solver: str) -> FileFormatError:
    return FileFormatError(f"{path}: not a solution of {solver} for this problem")


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
Read = Callable[[Path, ConicProblem, int, str], ConicAnswer]


@dataclass(frozen=True)
class _Program:
    """A program of the field: its name, arguments after it, how to read its answer, and the Debian package."""

    name: str
    arguments: tuple[str, ...]
    read: Read
    package: str


def solve_csdp(problem: ConicProblem, limits: Limits) -> ConicAnswer:
    """Solve with the program csdp and its default parameters (tolerance 1e-8)."""
    return _solve(problem, limits, _Program("csdp", ("p.dat-s", "p.sol"), _read_csdp, "coinor-csdp"))


def solve_sdpa(problem: ConicProblem, limits: Limits) -> ConicAnswer:
    """Solve with the program sdpa and its default parameters."""
    return _solve(problem, limits, _Program("sdpa", ("-ds", "p.dat-s", "-o", "p.sol"), _read_sdpa, "sdpa"))


def _solve(problem: ConicProblem, limits: Limits, program: _Program) -> ConicAnswer:
    executable = shutil.which(program.name)
    if executable is None:
        raise InputError(
            f"solver {program.name}: no such program on the PATH; on Debian, apt install {program.package}"
        )
    # A column without entries is a matrix without entries, which CSDP refuses.
    used = np.diff(problem.A.indptr) > 0
    if np.any(problem.c[~used]):
        return ConicAnswer(ConicStatus.UNBOUNDED, NOTHING, 0, "a column has a cost and no rows")
    small = replace(problem, c=problem.c[used], A=problem.A[:, np.flatnonzero(used)])
    answer = _run(executable, program, small, limits)
    if answer.vectors[0] is None:
        return answer
    x = np.zeros(problem.columns)
    x[used] = answer.vectors[0]
    return replace(answer, vectors=(x, *answer.vectors[1:]))


def _run(executable: str, program: _Program, problem: ConicProblem, limits: Limits) -> ConicAnswer:
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
            return ConicAnswer(ConicStatus.TIME_LIMIT, NOTHING, 0, "stopped at the time limit")
        if limits.verbose:
            sys.stdout.write(done.stdout)
        answer = program.read(Path(folder) / "p.sol", problem, done.returncode, done.stdout)
    iterations = [int(number) for number in re.findall(r"^\s*(?:Iter:)?\s*(\d+)\s", done.stdout, re.MULTILINE)]
    return replace(answer, iterations=iterations[-1] if iterations else 0)


def _read_csdp(path: Path, problem: ConicProblem, code: int, printed: str) -> ConicAnswer:
    status = CSDP_STATUS.get(code, ConicStatus.ERROR)
    said = [
        line for line in printed.splitlines() if re.match(r"(Success|Partial Success|Failure|Stuck|Lack|SDP)", line)
    ]
    message = f"exit code {code}: {said[-1].strip() if said else printed.strip()[-200:]}"
    try:
        return ConicAnswer(status, read_csdp_solution(path, problem), 0, message)
    except FileFormatError:
        return ConicAnswer(ConicStatus.ERROR if status.has_solution else status, NOTHING, 0, message)


def _read_sdpa(path: Path, problem: ConicProblem, code: int, printed: str) -> ConicAnswer:
    try:
        x, s, z, phase = read_sdpa_solution(path, problem)
    except FileFormatError:
        return ConicAnswer(ConicStatus.ERROR, NOTHING, 0, f"exit code {code}: {printed.strip()[-200:]}")
    return ConicAnswer(SDPA_STATUS.get(phase, ConicStatus.ERROR), (x, s, z), 0, phase)
