"""Box-constrained quadratic programs as text (`.in`, the "spar" instances):  n,  then c,  then Q row by row.

    max  1/2 x'Qx + c'x    s.t.   0 <= x <= 1                                        [VN05, BV09]

The sense and the factor are those of the README that comes with the instances (github.com/sburer/BoxQP_instances).

[VN05] Vandenbussche, Nemhauser: A branch-and-cut algorithm for nonconvex quadratic programs with box constraints,
Mathematical Programming 102, 2005. [BV09] Burer, Vandenbussche: Globally solving box-constrained nonconvex quadratic
programs with semidefinite-based finite branch-and-bound, Computational Optimization and Applications 43, 2009.
"""

from __future__ import annotations

import numpy as np

from lipcert.errors import FileFormatError
from lipcert.files.boundary import quoted
from lipcert.polynomial.content import Content, ProblemFile
from lipcert.polynomial.expansion import limited
from lipcert.polynomial.polynomial import Polynomial
from lipcert.rounding import Array

MAX_SIZE = 1000


@limited()
def read_boxqp(text: str) -> ProblemFile:
    """A problem from the text of a BoxQP instance."""
    words = text.split()
    if not words or not (words[0].isascii() and words[0].isdigit()) or len(words[0]) > 9 or not int(words[0]):
        raise FileFormatError("a BoxQP file begins with the number of variables")
    n = int(words[0])
    if n > MAX_SIZE:
        raise FileFormatError(f"{n} variables are more than the limit of {MAX_SIZE} for a BoxQP file")
    if len(words) != 1 + n + n * n:
        raise FileFormatError(
            f"{n} variables need {n} linear and {n * n} quadratic coefficients; found {len(words) - 1}"
        )
    numbers = _numbers(words[1:])
    c, Q = numbers[:n], numbers[n:].reshape(n, n)
    content = Content([f"x{i + 1}" for i in range(n)])
    content.objective(_objective(c, Q), "max")
    for i in range(n):
        content.bound(i, 0.0, 1.0)
    return content.finish(notes=("a BoxQP instance: max 1/2 x'Qx + c'x over the unit box",))


def _objective(c: Array, Q: Array) -> Polynomial:
    i, j = np.triu_indices(len(c))
    values = np.where(i == j, Q[i, j] / 2, (Q[i, j] + Q[j, i]) / 2)
    linear = np.stack([np.full(len(c), -1), np.arange(len(c))], axis=1)
    rows = np.concatenate([linear, np.stack([i, j], axis=1)]).astype(np.int32)
    return Polynomial(rows, np.concatenate([c, values]))


def _numbers(words: list[str]) -> Array:
    try:
        values = np.array(words, dtype=np.float64)
    except ValueError:
        wrong = next(w for w in words if not _is_number(w))
        raise FileFormatError(f"{quoted(wrong)} is no number") from None
    if not np.all(np.isfinite(values)) or np.abs(values).max(initial=0.0) > 1e100:
        raise FileFormatError("coefficients must be finite numbers up to 1e100")
    return values


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
