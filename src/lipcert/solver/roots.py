"""Variables that occur in the objective and in their own diagonal row only are square roots of the others.

With t_j nowhere but in 2 t_j c_j'y of the objective and in its row X_jj = d_j (or <= d_j), the best moments are
E[y t_j] = Y c_j sqrt(d_j / q_j) with q_j = c_j'Y c_j, so that

    max <C, X>  =  max over moments Y of the others  of  <C, Y> + sum_j 2 sqrt(d_j q_j)
    min b'y     =  min over y, rho > 0  of  b'y + sum_j d_j / rho_j   s.t.   A*(y) - C - sum_j rho_j c_j c_j' >= 0

1 / rho_j is the diagonal entry of t_j in the dual matrix of the whole problem: multipliers of one are multipliers of
the other.  The core keeps a row -c_j'Y c_j <= 0 for each of them; its slack is q_j, its multiplier rho_j, and in the
place of slack * multiplier = mu stands q_j rho_j + mu = d_j / rho_j, as on the central path of the whole problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipcert.relaxation.rank_two import Floats, Integers, RankTwoProblem
from lipcert.rounding.split import apart
from lipcert.solver.atoms import FEW

WORTHWHILE = 0.1  # least share of roots among the variables; with fewer the problem stays as it is


@dataclass(frozen=True, eq=False)
class Core:
    """A problem without its roots, with a row for every root behind its own rows; and the way back."""

    whole: RankTwoProblem
    problem: RankTwoProblem
    kept: Integers  # variables of the core
    rows: Integers  # rows of the whole problem that the core has, in its order
    roots: Integers  # variables that are roots
    own: Integers  # their diagonal rows
    unit: Floats  # coefficients of X_jj there
    forms: Any  # c_j as columns over the kept variables, sparse; none is zero
    idle: Integers  # variables that are nowhere but in a diagonal row: their multipliers are zero

    @property
    def bound(self) -> Floats:
        """d_j."""
        return np.asarray(self.whole.rhs[self.own] / self.unit)

    def multipliers(self, y: Floats) -> Floats:
        """Multipliers of the whole problem from those of the core."""
        given = np.zeros(self.whole.rows)
        given[self.rows] = y[: self.rows.size]
        rho = np.maximum(y[self.rows.size :], np.finfo(float).tiny ** 0.25)
        given[self.own] = 1.0 / (rho * self.unit)
        return given

    def split(self, given: Floats) -> tuple[Floats, Floats]:
        """Multipliers of the core's own rows (zero on those of the roots), and d_j / rho_j."""
        y = np.zeros(self.problem.rows)
        y[: self.rows.size] = given[self.rows]
        return y, np.asarray(self.whole.rhs[self.own] * given[self.own])

    def moments(self, Y: Floats) -> Floats:
        """The completion of the core's moments; of all that are optimal the one of least rank."""
        X = np.zeros((self.whole.size, self.whole.size))
        images = np.asarray(self.forms.T @ Y)
        q = np.asarray(self.forms.multiply(images.T).sum(axis=0)).ravel()
        factor = np.sqrt(self.bound / np.maximum(q, np.finfo(float).tiny ** 0.5))
        images *= factor[:, None]
        square = np.asarray(self.forms.T @ images.T).T * factor
        X[np.ix_(self.kept, self.kept)] = Y
        X[np.ix_(self.roots, self.kept)] = images
        X[np.ix_(self.kept, self.roots)] = images.T
        X[np.ix_(self.roots, self.roots)] = (square + square.T) / 2
        X[self.roots, self.roots] = self.bound
        X[self.idle, self.idle] = self.whole.diagonal[self.idle]
        return X


@dataclass(frozen=True, eq=False)
class FoundRoots:
    """Variables of a problem that are roots: their numbers, own rows, the coefficients there, and their forms."""

    roots: Integers
    own: Integers
    unit: Floats
    forms: Any  # columns over all variables

    @property
    def size(self) -> int:
        return int(self.roots.size)

    @property
    def unknowns(self) -> int:
        """Number of unknowns of the linear system that the roots take."""
        entries = np.unique(self.forms.indices).size
        atoms = entries * (entries + 1) // 2
        return atoms if atoms < FEW * self.size else self.size


def find_roots(problem: RankTwoProblem) -> FoundRoots:
    """The roots of a problem; none if there are too few to be worth it."""
    own, unit = _own_rows(problem)
    objective = sp.csc_matrix(problem.objective)
    roots = apart(objective, (own >= 0) & (objective.diagonal() == 0))
    if roots.sum() < WORTHWHILE * problem.size or roots.all():
        roots[:] = False
    at = np.flatnonzero(roots)
    forms = sp.csc_matrix(objective[:, at])
    forms.eliminate_zeros()
    return FoundRoots(at, own[at], unit[at], forms)


def find_core(problem: RankTwoProblem) -> Core | None:
    """The problem without its roots; None where there are too few of them."""
    found = find_roots(problem)
    if not found.size:
        return None
    out, own, unit = found.roots, found.own, found.unit
    kept = np.setdiff1d(np.arange(problem.size), out)
    staying = np.ones(problem.rows, dtype=bool)
    staying[own] = False
    rows, place = np.flatnonzero(staying), np.cumsum(staying) - 1
    forms = sp.csc_matrix(found.forms[kept])
    used = np.diff(forms.indptr) > 0
    idle, out, own, unit, forms = out[~used], out[used], own[used], unit[used], forms[:, used]
    term = staying[problem.owner]
    columns, at = problem.vectors.shape[1], out.size
    core = RankTwoProblem(
        objective=sp.csr_matrix(sp.csr_matrix(problem.objective)[kept][:, kept]),
        vectors=sp.hstack([problem.vectors[kept], -forms, forms], format="csc"),
        ia=np.r_[problem.ia[term], columns + np.arange(at)],
        ib=np.r_[problem.ib[term], columns + at + np.arange(at)],
        rhs=np.r_[problem.rhs[rows], np.zeros(at)],
        equality=np.r_[problem.equality[rows], np.zeros(at, dtype=bool)],
        diagonal=problem.diagonal[kept],
        owner=np.r_[place[problem.owner[term]], rows.size + np.arange(at)],
    )
    return Core(problem, core, kept, rows, out, own, unit, forms, idle)


def _own_rows(problem: RankTwoProblem) -> tuple[Integers, Floats]:
    """For each variable the row of its X_jj, where it is in no other row (-1 elsewhere), and its coefficient there."""
    F = problem.vectors
    terms = sp.csr_matrix(
        (np.ones(2 * problem.terms), (np.r_[problem.ia, problem.ib], np.tile(problem.owner, 2))),
        shape=(F.shape[1], problem.rows),
    )
    pattern = sp.csc_matrix((np.ones(F.nnz), F.indices, F.indptr), shape=F.shape)
    uses = np.asarray((pattern @ terms.sum(axis=1)).ravel() if F.nnz else np.zeros(problem.size)).ravel()
    alone = np.diff(F.indptr) == 1
    square = problem.single & alone[problem.ia] & alone[problem.ib]
    first, second = (F.indptr[index[square]] for index in (problem.ia, problem.ib))
    at, value = F.indices[first], F.data[first] * F.data[second]
    good = (at == F.indices[second]) & (value > 0) & (problem.rhs[problem.owner[square]] > 0)
    row, unit = np.full(problem.size, -1, dtype=np.int64), np.ones(problem.size)
    row[at[good]], unit[at[good]] = problem.owner[square][good], value[good]
    row[uses != 2] = -1  # two: both sides of its own row
    return row, unit
