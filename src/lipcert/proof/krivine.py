"""The proof of a Krivine-Stengle bound: any multipliers give a theorem.

    f = constant + sum_k p_k m_k,     products h = constants + products' m >= 0 on the box,     0 <= m_k <= 1

For every multiplier vector z >= 0

    f <= f + z'h = constant + z'constants + sum_k r_k m_k <= constant + z'constants + sum_k max(0, r_k),
    r = p + products' z,

evaluated with outward rounding. What produced z does not matter: bad multipliers only loosen the bound.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from scipy import sparse

from lipcert.rounding import Array, gamma, grow, sum_up


class Krivine(Protocol):
    """The parts of a program that the proof needs; see `polynomial.lcep.lipopt.KrivineProgram`."""

    @property
    def products(self) -> sparse.csc_array: ...
    @property
    def constants(self) -> Array: ...
    @property
    def objective(self) -> Array: ...
    @property
    def constant(self) -> float: ...
    @property
    def error(self) -> float: ...


def prove_krivine(program: Krivine, multipliers: Array | None) -> float:
    """An upper bound on f + error over the box; multipliers that are missing or not finite count as zero."""
    z = np.zeros(len(program.constants)) if multipliers is None else np.asarray(multipliers, dtype=np.float64)
    z = np.where(np.isfinite(z) & (z > 0), z, 0.0)
    products = program.products
    longest = int(np.diff(products.indptr).max(initial=0)) + 4
    with np.errstate(over="ignore", invalid="ignore"):
        residual = program.objective + products.T @ z
        size = np.abs(program.objective) + abs(products).T @ z
        above = grow(np.maximum(residual, 0.0), 0) + grow(gamma(longest) * size, longest)
        # Where the residual is certainly negative the monomial is worth nothing.
        above = np.where(residual + 2 * gamma(longest) * size < 0, 0.0, above)
        parts = np.array([max(program.constant, 0.0), sum_up(program.constants * z), sum_up(above), program.error])
        total = sum_up(parts)
    if not math.isfinite(total):
        return math.inf
    if program.constant < 0:
        total = math.nextafter(total + program.constant, math.inf)
    return total
