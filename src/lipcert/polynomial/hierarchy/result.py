"""The result of `minimize` and `maximize`.

The result also shows the sum-of-squares identity behind the bound,

    f - gamma  =  sum_k g_k sum_l q_kl^2  +  sum_j lambda_j p_j      (SOS-d).

Its squares come from eigenvectors of the proved Gram matrices and are floating-point numbers, so that the identity
holds up to rounding: a person may look at it; the proof is in the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lipcert.chart.facts import Facts, Shown
from lipcert.chart.numbers import counted, rounded_down, rounded_up
from lipcert.errors import SoundnessError
from lipcert.polynomial.hierarchy.assembly import MomentConic
from lipcert.polynomial.hierarchy.model import MomentModel
from lipcert.polynomial.monomials import Monomial, Rows, monomial_of, rows_of
from lipcert.polynomial.points.local import TOLERANCE
from lipcert.polynomial.points.search import FoundPoint
from lipcert.polynomial.polynomial import Polynomial, total
from lipcert.proof.sos import SosProof
from lipcert.rounding import Array
from lipcert.solver.conic.conic import ConicStatus


class PolynomialOutcome(Enum):
    """How a problem ended. Every sentence says whether something is proved."""

    CLOSED = "solved: the proved bound and the value of a point agree"
    GAP = "a bound is proved; the best point found leaves a gap"
    BOUND = "a bound is proved; no feasible point was found"
    INFEASIBLE = "infeasible: it is proved that no point satisfies the constraints"
    SEEMS_INFEASIBLE = "seems infeasible, not proved: the relaxation has no solution, and no feasible point was found"
    UNBOUNDED = "seems unbounded: feasible points far out have values beyond every limit tried"
    NOT_CERTIFIED = "not certified: no bound was proved"


@dataclass(frozen=True, eq=False)
class SosDecomposition:
    """`sums`: pairs (g_k, squares q_kl), g_k = 1 for plain moment matrices; `multipliers`: pairs (lambda_j, p_j)."""

    gamma: float
    sums: tuple[tuple[Polynomial, tuple[Polynomial, ...]], ...]
    multipliers: tuple[tuple[float, Polynomial], ...]

    def right_hand_side(self) -> Polynomial:
        """gamma + sum g q^2 + sum lambda p, multiplied out."""
        parts = [g * total(q * q for q in squares) for g, squares in self.sums if squares]
        parts += [value * p for value, p in self.multipliers]
        return total([Polynomial.constant(self.gamma), *parts])


def decompose(model: MomentModel, conic: MomentConic, proof: SosProof, scale: Array, factor: float) -> SosDecomposition:
    """The identity of a proof in the problem's own variables; `model` and `conic` are scaled, f times `factor`.

    For a maximisation it is that of -f.
    """
    back = 1.0 / scale
    blocks = [b for b in model.blocks if b.order > 1]
    sums: list[tuple[Polynomial, tuple[Polynomial, ...]]] = []
    for block, Q in zip(blocks, proof.grams, strict=True):
        g = Polynomial.constant(1.0) if block.multiplier is None else block.multiplier.rescale(back)
        values, vectors = np.linalg.eigh(Q)
        rows = rows_of(block.basis)
        vectors = vectors if block.mix is None else block.mix.T @ vectors
        kept = [(v, q) for v, q in zip(values, vectors.T, strict=True) if v > 0]
        sums.append((g, tuple(Polynomial(rows, np.sqrt(v / factor) * q).rescale(back) for v, q in kept)))
    scalar = sum(cone.size for cone in conic.problem.cones if cone.kind != "psd")
    order = np.argsort(conic.slots, kind="stable")
    edges = np.searchsorted(conic.slots[order], np.arange(scalar + 1))
    multipliers = []
    for s in np.flatnonzero(proof.weights[:scalar]):
        mine = order[edges[s] : edges[s + 1]]
        p = Polynomial(conic.rows[conic.columns[mine]], conic.coefficients[mine]).rescale(back)
        multipliers.append((float(proof.weights[s] / factor), p))
    return SosDecomposition(proof.bound / factor, tuple(sums), tuple(multipliers))


GAP = 1e-4  # relative: where a bracket counts as closed


@dataclass(frozen=True)
class SolvedOrder:
    """One relaxation on the way: its order, what it proved (infinite: nothing), its matrices, its time."""

    order: int
    bound: float
    blocks: tuple[int, ...]
    moments: int
    seconds: float


if TYPE_CHECKING:
    from lipcert.polynomial.certificates.certificate import About, PolynomialCertificate
    from lipcert.polynomial.certificates.stored import StoredRelaxation
    from lipcert.polynomial.problem import PolynomialProblem


@dataclass(frozen=True, eq=False, repr=False)
class PolynomialResult(Shown):
    """A bracket around the optimum: `bound` is proved, `value` is attained at `minimizer` (of a maximum too).

    `bound` <= min f (or >= max f) over the feasible set; infinite when nothing was proved, and infinite on the other
    side when it is proved that there is no feasible point. `found` says whether the point is proved feasible, which
    makes `value` a theorem too, or feasible up to 1e-6 relative to the coefficients, which makes it evidence. `outcome`
    says how it ended, `status` what became of the proof, `advice` what to try. `proof` holds the Gram matrices and
    multipliers of the SOS identity, in scaled variables; `sos` shows them, and `certificate` can be saved. `keep`
    writes the relaxation and its proof in terms of a problem's constraints.
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
    keep: Callable[[PolynomialProblem], StoredRelaxation] | None = field(default=None, repr=False)
    about: About | None = field(default=None, repr=False)
    found: FoundPoint | None = None
    empty: str = ""  # why it is proved that nothing is feasible
    runaway: bool = False  # whether values seem to go to infinity
    tolerance: float = GAP
    names: tuple[str, ...] = ()
    relaxation: str = ""
    steps: tuple[SolvedOrder, ...] = ()
    advice: tuple[str, ...] = ()
    ended: str = ""  # why the work stopped, empty if nothing stopped it

    def __post_init__(self) -> None:
        if self.found is None or not self.found.proved:
            return
        sign = 1.0 if self.sense == "min" else -1.0
        if self.empty or sign * self.found.value < sign * self.bound:
            claim = "the feasible set is empty" if self.empty else f"the bound is {self.bound!r}"
            raise SoundnessError(
                f"{claim}, but a point that is feasible has the value {self.found.value!r}: a bug in lipcert, "
                "please report it with the problem"
            )

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
        """Whether something is proved: a finite bound, or that there is no feasible point."""
        return bool(np.isfinite(self.bound)) or bool(self.empty)

    @property
    def proved(self) -> bool:
        """Whether `value` is proved too: its point satisfies every constraint exactly."""
        return self.found is not None and self.found.proved

    @property
    def order(self) -> int | None:
        """The highest order of the hierarchy that was solved."""
        return max((s.order for s in self.steps), default=None)

    @property
    def gap(self) -> float | None:
        """The distance between bound and value over max(1, |value|); None where one of both is missing."""
        if self.value is None or not np.isfinite(self.bound):
            return None
        sign = 1.0 if self.sense == "min" else -1.0
        return max(0.0, sign * (self.value - self.bound)) / max(1.0, abs(self.value))

    @property
    def outcome(self) -> PolynomialOutcome:
        """How it ended."""
        if self.empty:
            return PolynomialOutcome.INFEASIBLE
        if self.value is None and self.solver_status == ConicStatus.INFEASIBLE.value:
            return PolynomialOutcome.SEEMS_INFEASIBLE
        if not self.certified:
            return PolynomialOutcome.UNBOUNDED if self.runaway else PolynomialOutcome.NOT_CERTIFIED
        if self.gap is None:
            return PolynomialOutcome.BOUND
        return PolynomialOutcome.CLOSED if self.gap <= self.tolerance else PolynomialOutcome.GAP

    @property
    def title(self) -> str:
        """The headline."""
        if self.empty:
            return "The feasible set is empty: proved"
        return "Minimum of a polynomial" if self.sense == "min" else "Maximum of a polynomial"

    def facts(self) -> Facts:
        """The short table that a person reads first."""
        rows: list[tuple[str, str]] = []
        if self.empty:
            rows.append(("proof", self.empty))
        else:
            side = "lower bound" if self.sense == "min" else "upper bound"
            rows.append((side, f"{self._outward(self.bound)}   proved" if self.certified else f"none   {self.status}"))
            rows += self._point()
        rows.append(("outcome", self.outcome.value))
        if self.about is not None:
            rows += [("about", self.about.statement.sentence), *self.about.statement.rows]
        if self.steps:
            rows.append(("relaxation", f"{self.relaxation}, {'; then '.join(map(_words, self.steps))}"))
        rows.append(("solver", f"{self.solver}   {self.solver_status}"))
        rows.append(("time", f"{self.seconds:.2f} s{f'   {self.ended}' if self.ended else ''}"))
        rows += [("advice", text) for text in self.advice]
        rows += [("note", note) for note in self.notes]
        return Facts(self.title, rows)

    def _outward(self, bound: float) -> str:
        """A proved bound, rounded to its safe side."""
        return rounded_down(bound, 9) if self.sense == "min" else rounded_up(bound, 9)

    def _inward(self, value: float) -> str:
        """The value of a point, rounded away from the bound: the optimum is no worse than the printed number."""
        return rounded_up(value, 9) if self.sense == "min" else rounded_down(value, 9)

    def _point(self) -> list[tuple[str, str]]:
        if self.value is None or self.minimizer is None:
            return []
        if self.proved:
            words = "proved: the point satisfies every constraint exactly"
        else:
            off = "" if self.found is None else f", worst violation {self.found.violation:.1e}"
            words = f"evidence: the point is feasible up to {TOLERANCE:g}{off}"
        names = self.names or tuple(f"x{i + 1}" for i in range(len(self.minimizer)))
        few = ", ".join(f"{name} = {v:.6g}" for name, v in list(zip(names, self.minimizer, strict=True))[:12])
        rows = [("value", f"{self._inward(self.value)}   {words}")]
        if self.gap is not None:
            rows.append(("gap", f"{self.gap:.2g}   |value - bound| / max(1, |value|)"))
        return [*rows, ("point", f"{few}{', ...' if len(self.minimizer) > 12 else ''}")]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; null for a bound or a value that is not there."""
        found = self.minimizer
        names = self.names or tuple(f"x{i + 1}" for i in range(0 if found is None else len(found)))
        return {
            "bound": self.bound if np.isfinite(self.bound) else None,
            "value": self.value,
            "value_proved": self.proved,
            "violation": None if self.found is None else self.found.violation,
            "gap": self.gap,
            "point": None if found is None else {n: float(v) for n, v in zip(names, found, strict=True)},
            "sense": self.sense,
            "certified": self.certified,
            "outcome": self.outcome.name.lower(),
            "meaning": self.outcome.value,
            "status": self.status,
            "infeasible": self.empty or None,
            "relaxation": self.relaxation,
            "order": self.order,
            "steps": [
                {
                    "order": s.order,
                    "bound": s.bound if np.isfinite(s.bound) else None,
                    "blocks": list(s.blocks),
                    "moments": s.moments,
                    "seconds": round(s.seconds, 4),
                }
                for s in self.steps
            ],
            "solver": self.solver,
            "solver_status": self.solver_status,
            "ended": self.ended or None,
            "advice": list(self.advice),
            "notes": list(self.notes),
            "variables": len(self.names),
            "statement": None if self.about is None else self.about.statement.to_dict(),
            "seconds": round(self.seconds, 4),
        }

    @cached_property
    def moments(self) -> dict[Monomial, float]:
        """The solver's moments by monomial: hints."""
        return {monomial_of(r): float(v) for r, v in zip(self.monomial_rows, self.moment_values, strict=True)}


def _words(step: SolvedOrder) -> str:
    sizes = "no matrix" if not step.blocks else f"{len(step.blocks)} matrices of order up to {max(step.blocks)}"
    if len(step.blocks) == 1:
        sizes = f"a matrix of order {step.blocks[0]}"
    return f"order {step.order} with {sizes}, {counted(step.moments, 'moment')}"
