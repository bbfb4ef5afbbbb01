"""X = R R' with few columns: the rows of a problem, their pull on R, and multipliers of the diagonal.

Rows X_ii = const hold by construction, because the rows of R are brought to their length. All others enter an augmented
Lagrangian: at multipliers y and penalty s the pressure is (y + s (A(R R') - b)), cut at zero on inequalities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from lipcert.budget import Budget
from lipcert.errors import InputError
from lipcert.relaxation.rank_two import Floats, Integers, RankTwoProblem
from lipcert.solver.atoms import AtomForm, atom_form
from lipcert.solver.bordered import Bordered
from lipcert.solver.costs import THIN_CALLS
from lipcert.solver.start import balance, diagonal_rows, dual_matrix, lowest_eigenvalue
from lipcert.steps import THIN

Lagrangian = Callable[[Floats], tuple[float, Floats]]  # value and slope at rows of the right lengths


class Factors:
    """What does not change while R and y do."""

    def __init__(self, problem: RankTwoProblem, outside: Integers | None = None) -> None:
        self.form: AtomForm = atom_form(problem, outside)
        form = self.form
        self.row, self.coefficient = diagonal_rows(form)
        if np.any(self.row < 0):
            raise InputError("low-rank factors need for every variable a row of its own that bounds X_ii")
        self.unequal = ~problem.equality
        self.fixed = form.equality[self.row]  # variables whose length is fixed
        self.length = np.sqrt(np.maximum(form.rhs[self.row] / self.coefficient, 0.0))
        self.free = np.ones(form.rhs.size, dtype=bool)  # rows of the augmented Lagrangian
        self.free[self.row[self.fixed]] = False
        self.weight = balance(form.objective)

    def operations(self, rank: int) -> float:
        """About those of one evaluation: the objective and all rows, on R and back."""
        form, border = self.form, self.form.border
        rows = form.size * form.dense.shape[1] + 4 * form.first.size
        objective = 2 * border.inner * border.outer + border.outer**2
        return float(4 * rank * (rows + objective + 12 * form.size))

    def start(self, rank: int) -> Floats:
        """Random rows of the right lengths."""
        size = (self.form.size, min(rank, self.form.size))
        return self.vectors(np.random.default_rng(0).standard_normal(size) / np.sqrt(size[1]))[0]

    def vectors(self, R: Floats) -> tuple[Floats, Floats]:
        """Rows brought to their fixed lengths, and the lengths they had."""
        norm = np.sqrt(np.einsum("ij,ij->i", R, R))
        norm[norm == 0] = 1.0
        return R * np.where(self.fixed, self.length / norm, 1.0)[:, None], norm

    def images(self, V: Floats) -> Floats:
        """[V; Q'V]: every generator's image."""
        return np.vstack([V, self.form.dense.T @ V])

    def excess(self, images: Floats) -> Floats:
        """A(V V') - b for the rows of the augmented Lagrangian, 0 for the others."""
        form = self.form
        atoms = np.einsum("ij,ij->i", images[form.first], images[form.second])
        return np.where(self.free, form.rows @ atoms - form.rhs, 0.0)

    def pressure(self, y: Floats, change: Floats) -> Floats:
        """y + change with the right signs, 0 for rows that hold by construction."""
        return self.signed(y + change) * self.free

    def signed(self, y: Floats) -> Floats:
        return np.where(self.unequal, np.maximum(y, 0.0), y)

    def pull(self, y: Floats, images: Floats) -> Floats:
        """A*(y) V without forming A*(y)."""
        form, n, d = self.form, self.form.size, self.form.dense.shape[1]
        core = sp.csr_matrix(((form.rows.T @ y) / 2, (form.first, form.second)), shape=(n + d, n + d))
        result = core @ images + core.T @ images
        return np.asarray(result[:n] + form.dense @ result[n:])

    def tangent(self, slope: Floats, V: Floats, norm: Floats) -> Floats:
        """The slope over R from that over V = vectors(R)."""
        inward = np.einsum("ij,ij->i", slope, V) / np.maximum(self.length, 1e-300) ** 2
        slope = slope - np.where(self.fixed, inward, 0.0)[:, None] * V
        slope *= np.where(self.fixed, self.length / norm, 1.0)[:, None]
        return slope

    def climb(
        self, R: Floats, lagrangian: Lagrangian, budget: Budget, operations: float, options: Mapping[str, float]
    ) -> Floats:
        """R after some steps of L-BFGS up the Lagrangian; raises TimeoutError at the end of the budget."""
        scale = float(self.weight.sum())

        def negative(flat: Floats) -> tuple[float, Floats]:
            if budget.over():
                raise TimeoutError
            with budget.measured(operations + THIN_CALLS, THIN):
                V, norm = self.vectors(flat.reshape(R.shape))
                value, slope = lagrangian(V)
                slope = self.tangent(slope, V, norm)
            return -value / scale, -slope.ravel() / scale

        found = minimize(negative, R.ravel(), jac=True, method="L-BFGS-B", options=dict(options))
        return self.vectors(found.x.reshape(R.shape))[0]

    def given(self, y: Floats) -> Floats:
        """Multipliers of the given problem from scaled ones."""
        return self.signed(self.form.multipliers(y))

    def rescaled(self, y: Floats, S: Bordered, R: Floats, sweeps: int, rounds: int) -> Floats:
        """Dual feasible multipliers: those of the diagonal recomputed from S, which has none of them.

        In proportion to lengths at a maximum over unit vectors, by sweeps v_i <- normalise(-(S v)_i + |(S v)_i| v_i).
        """
        V = R / np.maximum(np.linalg.norm(R, axis=1), 1e-12)[:, None]
        weight = np.ones(len(V))
        for _ in range(sweeps):
            image = -S.times(V * self.length[:, None])
            weight = np.linalg.norm(image, axis=1)
            image += weight[:, None] * V
            V = image / np.maximum(np.linalg.norm(image, axis=1), 1e-300)[:, None]
        weight = weight / np.maximum(self.length, 1e-12)
        weight = np.maximum(weight, 1e-3 * weight.mean() + 1e-300)
        low = lowest_eigenvalue(S, 1.0 / np.sqrt(weight), rounds)
        y = y.copy()
        y[self.row] = weight * max(0.0, -low) * (1.0 + 1e-9) / self.coefficient
        return y

    def shifted(self, y: Floats, R: Floats, rounds: int) -> Floats:
        """Dual feasible multipliers: those of the fixed diagonal from stationarity at R, then all of it lifted."""
        y = np.where(self.free, y, 0.0)
        image = dual_matrix(self.form, y).times(R)
        lengths = -np.einsum("ij,ij->i", image, R) / np.maximum(self.length, 1e-12) ** 2
        y[self.row] += np.where(self.fixed, lengths, 0.0) / self.coefficient
        low = lowest_eigenvalue(dual_matrix(self.form, y), np.ones(self.form.size), rounds)
        y[self.row] += max(0.0, -low) * (1.0 + 1e-9) / self.coefficient
        return y
