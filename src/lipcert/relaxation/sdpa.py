"""A rank-two problem as a file in the SDPA sparse format (.dat-s), for any solver of the field.

In the format's letters the problem is (D): max F0.Y s.t. Fk.Y = c_k, Y >= 0, with a second, diagonal block of slacks
for the inequalities. Its optimal value plus the relaxation's offset bounds the Lipschitz constant.
"""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np
from scipy import sparse

from lipcert.files import write_atomically
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.rank_two import RankTwoProblem, pair_entries
from lipcert.rounding import Array


def write_sdpa(path: str | os.PathLike[str], relaxation: Relaxation, title: str) -> None:
    """Write the relaxation's semidefinite program; atomically, as all files."""
    write_atomically(path, lambda file: _write(file, relaxation, title))


def _write(file: IO[bytes], relaxation: Relaxation, title: str) -> None:
    problem = relaxation.problem
    slacks = np.flatnonzero(~problem.equality)
    blocks = [problem.size, -len(slacks)] if len(slacks) else [problem.size]
    bound = f"optimal value + {relaxation.offset:.3e}"
    if relaxation.finish.scale:
        bound = f"sqrt({relaxation.finish.scale!r} * ({bound}))"
    header = [
        f'"{title}; bound = {bound}"',
        str(problem.rows),
        str(len(blocks)),
        " ".join(map(str, blocks)),
        " ".join(repr(float(b)) for b in problem.rhs),
    ]
    file.write(("\n".join(header) + "\n").encode("ascii", "replace"))
    C = sparse.coo_array(sparse.triu(problem.objective))
    _lines(file, np.zeros(C.nnz, int), 1, C.coords[0], C.coords[1], C.data)
    _lines(file, *_row_entries(problem))
    places = np.arange(len(slacks))
    _lines(file, slacks + 1, 2, places, places, np.ones(len(slacks)))


def _row_entries(problem: RankTwoProblem) -> tuple[Any, int, Any, Any, Array]:
    """The upper triangles of all sym(f_a f_b'), entries of the same place added up."""
    term, p, q, value = pair_entries(sparse.csc_array(problem.vectors), problem.ia, problem.ib)
    row = problem.owner[term]
    low, high = np.minimum(p, q), np.maximum(p, q)
    value = np.where(p == q, value, value / 2)
    n = problem.size
    keys, inverse = np.unique((row * n + low) * n + high, return_inverse=True)
    total = np.asarray(np.bincount(inverse, value), dtype=np.float64)
    return keys // (n * n) + 1, 1, keys // n % n, keys % n, total


def _lines(file: IO[bytes], matrix: Any, block: int, i: Any, j: Any, value: Array) -> None:
    kept = value != 0
    columns = zip(
        matrix[kept].tolist(), (i[kept] + 1).tolist(), (j[kept] + 1).tolist(), value[kept].tolist(), strict=True
    )
    file.write("".join(f"{k} {block} {a} {b} {v!r}\n" for k, a, b, v in columns).encode())
