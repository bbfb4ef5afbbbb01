"""What `minimize` and `maximize` return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lipcert.polynomial.hierarchy.decomposition import SosDecomposition
from lipcert.polynomial.monomials import Monomial, Rows, monomial_of
from lipcert.proof.sos import SosProof
from lipcert.rounding import Array


@dataclass(frozen=True, eq=False)
class PolynomialResult:
    """A proved bound: `bound` <= min f (or >= max f) over the feasible set; infinite when nothing was proved.

    `status` is "certified", or "not certified: " and the reason. `minimizer` and its `value` are there when the moment
    matrices have rank one and the point is feasible up to 1e-6 and attains the bound: evidence, not part of the proof.
    `proof` holds the Gram matrices and multipliers of the SOS identity, in scaled variables; `sos` shows them.
    """

    bound: float
    sense: str
    status: str
    minimizer: Array | None
    value: float | None
    certificate: SosProof
    seconds: float
    solver: str
    solver_status: str
    monomial_rows: Rows
    moment_values: Array
    notes: tuple[str, ...] = ()
    decompose: Callable[[], SosDecomposition] | None = field(default=None, repr=False)

    @cached_property
    def sos(self) -> SosDecomposition | None:
        """The sum-of-squares identity in the problem's own variables, to look at (of -f for a maximum)."""
        return None if self.decompose is None else self.decompose()

    @property
    def certified(self) -> bool:
        """Whether the bound is a finite number, and so a theorem."""
        return bool(np.isfinite(self.bound))

    @cached_property
    def moments(self) -> dict[Monomial, float]:
        """The solver's moments by monomial: hints."""
        return {monomial_of(r): float(v) for r, v in zip(self.monomial_rows, self.moment_values, strict=True)}
