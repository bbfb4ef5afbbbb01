"""A minimiser from moment matrices of rank one.

When every moment matrix has rank one, L is evaluation at the point x_i = L(x_i) [Las01]. The point is polished no
further: it is returned only if it is feasible and attains the bound, both up to tolerance.
"""

from __future__ import annotations

import numpy as np

from lipcert.polynomial.hierarchy.assembly import MomentConic
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.polynomial import Polynomial
from lipcert.rounding import Array
from lipcert.solver.conic.conic import ConicSolution, smat

RANK = 1e-4  # second eigenvalue over the first
FEASIBLE = 1e-6
ATTAINED = 1e-4


def extract(
    model: MomentModel, conic: MomentConic, solution: ConicSolution, known: tuple[Array, Array, Array], bound: float
) -> tuple[Array, float] | None:
    """The point and its value, or None; `known` are the scale and the bounds of the variables."""
    x = solution.x
    if not solution.status.has_solution or not np.all(np.isfinite(x)) or not np.isfinite(bound):
        return None
    if not _rank_one(model, conic, solution):
        return None
    degree = (conic.rows >= 0).sum(axis=1)
    single = np.flatnonzero(degree == 1)
    point = np.zeros(model.n)
    if len(single):  # without any moment rows have no columns
        point[conic.rows[single, -1]] = conic.moments(x)[single]
    scale, lower, upper = known
    point = np.clip(point * scale, lower, upper)
    if violation(model, point) > FEASIBLE:
        return None
    value = float(model.objective.evaluate(point)[0])
    return (point, value) if abs(value - bound) <= ATTAINED * (1 + abs(bound)) else None


def violation(model: MomentModel, point: Array) -> float:
    """The largest violation of a constraint, relative to the size of the constraint's coefficients."""
    worst = [0.0]
    inequalities = [*model.inequalities, *(b.multiplier for b in model.blocks if b.multiplier is not None)]
    worst += [-_value(g, point) for g in inequalities]
    equalities = [*model.equalities]
    equalities += [Polynomial.from_terms({(i, i): 1.0}) - rule for i, rule in model.rules.items()]
    worst += [abs(_value(h, point)) for h in equalities]
    for family in model.products:
        values = np.array([*(_value(f, point) for f in family.factors), 1.0])
        products = np.prod(values[family.rows], axis=1)
        worst.append(float((np.abs(products) if family.equality else -products).max(initial=0.0)))
    return max(worst)


def _value(p: Polynomial, point: Array) -> float:
    return float(p.evaluate(point)[0]) / max(1.0, float(np.abs(p.coefficients).max(initial=0.0)))


def _rank_one(model: MomentModel, conic: MomentConic, solution: ConicSolution) -> bool:
    """No moment matrix without multiplier has two large eigenvalues; there must be such a matrix."""
    matrices = [b for b in model.blocks if b.order > 1]
    psd = [rows for cone, rows in conic.problem.blocks() if cone.kind == "psd"]
    for block, rows in zip(matrices, psd, strict=True):
        if block.multiplier is None:
            M = smat(solution.s[rows])
            if not np.all(np.isfinite(M)):
                return False
            values = np.linalg.eigvalsh(M)
            if values[-2] > RANK * max(values[-1], RANK):  # blocks that split off may be zero
                return False
    return any(block.multiplier is None for block in model.blocks)
