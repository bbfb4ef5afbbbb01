"""What `minimize` and `maximize` return."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lipcert.chart.facts import Facts
from lipcert.files import write_json
from lipcert.polynomial.hierarchy.decomposition import SosDecomposition
from lipcert.polynomial.monomials import Monomial, Rows, monomial_of
from lipcert.proof.sos import SosProof
from lipcert.rounding import Array

if TYPE_CHECKING:
    from lipcert.polynomial.certificates.about import About
    from lipcert.polynomial.certificates.certificate import PolynomialCertificate
    from lipcert.polynomial.certificates.stored import Stored
    from lipcert.polynomial.problem import PolynomialProblem


@dataclass(frozen=True, eq=False)
class PolynomialResult:
    """A proved bound: `bound` <= min f (or >= max f) over the feasible set; infinite when nothing was proved.

    `status` is "certified", or "not certified: " and the reason. `minimizer` and its `value` are there when the moment
    matrices have rank one and the point is feasible up to 1e-6 and attains the bound: evidence, not part of the proof.
    `proof` holds the Gram matrices and multipliers of the SOS identity, in scaled variables; `sos` shows them, and
    `certificate` can be saved. `keep` writes the relaxation and its proof in terms of a problem's constraints.
    """

    bound: float
    sense: str
    status: str
    minimizer: Array | None
    value: float | None
    proof: SosProof
    seconds: float
    solver: str
    solver_status: str
    monomial_rows: Rows
    moment_values: Array
    notes: tuple[str, ...] = ()
    decompose: Callable[[], SosDecomposition] | None = field(default=None, repr=False)
    keep: Callable[[PolynomialProblem], Stored] | None = field(default=None, repr=False)
    about: About | None = field(default=None, repr=False)

    @cached_property
    def sos(self) -> SosDecomposition | None:
        """The sum-of-squares identity in the problem's own variables, to look at (of -f for a maximum)."""
        return None if self.decompose is None else self.decompose()

    @cached_property
    def certificate(self) -> PolynomialCertificate | None:
        """The proof as `verify_polynomial` checks it, with `save`; None without a bound or without a problem."""
        if self.about is None or self.keep is None or not self.certified:
            return None
        return self.about.certificate(self.keep(self.about.extended))

    @property
    def certified(self) -> bool:
        """Whether the bound is a finite number, and so a theorem."""
        return bool(np.isfinite(self.bound))

    def facts(self) -> Facts:
        """What a person wants to read first."""
        side = "lower bound" if self.sense == "min" else "upper bound"
        rows = [(side, f"{self.bound:.9g}   proved" if self.certified else f"none   {self.status}")]
        if self.minimizer is not None and self.value is not None:
            few = ", ".join(f"{v:.6g}" for v in self.minimizer[:8])
            rows.append(("value", f"{self.value:.9g}   at ({few}{', ...' if len(self.minimizer) > 8 else ''})"))
        rows.append(("solver", f"{self.solver}   {self.solver_status}"))
        rows.append(("time", f"{self.seconds:.2f} s"))
        rows += [("note", note) for note in self.notes]
        return Facts("Minimum of a polynomial" if self.sense == "min" else "Maximum of a polynomial", rows)

    def __repr__(self) -> str:
        return self.facts().text()

    def _repr_html_(self) -> str:
        return self.facts().html()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; a bound that is not proved is null."""
        return {
            "bound": self.bound if self.certified else None,
            "sense": self.sense,
            "status": self.status,
            "certified": self.certified,
            "minimizer": None if self.minimizer is None else [float(v) for v in self.minimizer],
            "value": self.value,
            "solver": self.solver,
            "solver_status": self.solver_status,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 4),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as .json."""
        write_json(path, self.to_dict())

    @cached_property
    def moments(self) -> dict[Monomial, float]:
        """The solver's moments by monomial: hints."""
        return {monomial_of(r): float(v) for r, v in zip(self.monomial_rows, self.moment_values, strict=True)}

    def first_moments(self, n: int) -> Array | None:
        """The solver's moments of the variables, where a minimiser may be; None where it has said nothing."""
        rows = np.flatnonzero((self.monomial_rows >= 0).sum(axis=1) == 1)
        point = np.zeros(n)
        if len(rows):
            point[self.monomial_rows[rows, -1]] = self.moment_values[rows]
        return point if np.all(np.isfinite(point)) else None
