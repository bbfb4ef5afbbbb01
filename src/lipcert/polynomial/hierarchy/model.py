"""A moment relaxation, said in polynomials.

    min L(f)   s.t.  L(1) = 1,
                     [ L(g_k b_i b_j) ]_ij >= 0      for every block k with basis b and multiplier g_k (or 1)
                     L(h) = 0,  L(g) >= 0            for equalities, inequalities and products of factors
                     L(x_i^2 m) = L((a_i x_i + b_i) m)   for every rule i and monomial m

L is a linear functional on polynomials. At every feasible point x of the problem behind it the constraints hold with
L(p) = p(x): h(x) = 0, g(x) >= 0, multipliers and products are >= 0, and x_i^2 = a_i x_i + b_i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.polynomial.monomials import Monomial, rows_of
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, variable_bounds
from lipcert.rounding import Array

if TYPE_CHECKING:
    from lipcert.polynomial.hierarchy.assembly import MomentConic

Rules = Mapping[int, Polynomial]


@dataclass(frozen=True, eq=False)
class MomentBlock:
    """[ L(multiplier b_i b_j) ] >= 0 over the monomials b of the basis; a basis of one is a scalar inequality.

    With `mix` the basis is that of the polynomials sum_k mix_ik b_k, whose coefficients are exact by definition.
    """

    basis: tuple[Monomial, ...]
    multiplier: Polynomial | None = None
    mix: Array | None = None

    def __post_init__(self) -> None:
        if not self.basis:
            raise InputError("a moment block needs at least one monomial")
        if self.mix is not None and (self.mix.shape[1:] != (len(self.basis),) or not len(self.mix)):
            raise InputError(f"a mixed basis of {len(self.basis)} monomials has coefficients {self.mix.shape}")

    @property
    def order(self) -> int:
        """The order of the matrix."""
        return len(self.basis) if self.mix is None else len(self.mix)

    def rescaled(self, scale: Array, inside: Callable[[Polynomial], Polynomial]) -> MomentBlock:
        """The block in the variables x_i / scale_i, its rows in powers of two that suit them."""
        multiplier = inside(self.multiplier) if self.multiplier else None
        if self.mix is None:
            return MomentBlock(self.basis, multiplier)
        sizes = np.prod(np.concatenate([scale, [1.0]])[rows_of(self.basis)], axis=1)
        mixed = self.mix * sizes
        units = 2.0 ** np.floor(np.log2(np.abs(mixed).max(axis=1, keepdims=True)))
        return MomentBlock(self.basis, multiplier, mixed / units)


@dataclass(frozen=True, eq=False)
class FactorProducts:
    """L(prod_k factors[rows_pk]) >= 0 for every row p, or = 0; index -1 stands for the factor 1.

    The products are expanded with their rounding accounted for, unlike a polynomial that was multiplied beforehand.
    """

    factors: tuple[Polynomial, ...]
    rows: NDArray[np.int64]
    equality: bool = False

    def __post_init__(self) -> None:
        rows = np.atleast_2d(np.asarray(self.rows, dtype=np.int64))
        if rows.size and (rows.max() >= len(self.factors) or rows.min() < -1):
            raise InputError(f"products refer to factors 0 to {len(self.factors) - 1}")
        object.__setattr__(self, "rows", rows)


@dataclass(frozen=True, eq=False)
class MomentModel:
    """The relaxation of this module's first lines; `sense` is that of the problem behind it.

    `lower` and `upper` bound every feasible point; more bounds are found in the constraints (`bounds`). `notes` are
    remarks for the user, such as whether the running intersection property holds.
    """

    objective: Polynomial
    sense: str = "min"
    blocks: tuple[MomentBlock, ...] = ()
    equalities: tuple[Polynomial, ...] = ()
    inequalities: tuple[Polynomial, ...] = ()
    rules: Rules = field(default_factory=dict)
    n: int = 0
    names: tuple[str, ...] | None = None
    products: tuple[FactorProducts, ...] = ()
    lower: Array | None = None
    upper: Array | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.sense not in ("min", "max"):
            raise InputError(f"sense {self.sense!r}: must be 'min' or 'max'")
        for i, rule in self.rules.items():
            if rule.degree > 1 or np.any(rule.variables != i):
                raise InputError(f"the rule of variable {i} must be affine in that variable alone")

    def conic(self) -> MomentConic:
        """The conic program of this relaxation, its moments shared between all blocks."""
        from lipcert.polynomial.hierarchy.assembly import assemble

        return assemble(self)

    def bounds(self) -> tuple[Array, Array]:
        """Proved bounds of every variable at feasible points, infinite where none was found."""
        squares = tuple(Polynomial.from_terms({(i, i): -1.0}) + rule for i, rule in sorted(self.rules.items()))
        factors = tuple(f for p in self.products if not p.equality for f in _alone(p))
        multipliers = tuple(b.multiplier for b in self.blocks if b.multiplier is not None)
        problem = PolynomialProblem(
            self.objective,
            self.inequalities + multipliers + factors,
            self.equalities + squares + tuple(f for p in self.products if p.equality for f in _squared(p)),
            names=self.label(),
            lower=self.lower,
            upper=self.upper,
        )
        return variable_bounds(problem)

    def label(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.names or tuple(f"x{i + 1}" for i in range(self.n))

    def rescaled(self, scale: Array, objective: float) -> MomentModel:
        """The same relaxation in the variables x_i / scale_i, its objective times a factor; exact for powers of two."""

        def inside(p: Polynomial) -> Polynomial:
            return _normal(p.rescale(scale))

        rules = {i: Polynomial(r.indices, r.rescale(scale).coefficients / scale[i] ** 2) for i, r in self.rules.items()}
        return replace(
            self,
            objective=self.objective.rescale(scale) * objective,
            blocks=tuple(b.rescaled(scale, inside) for b in self.blocks),
            equalities=tuple(inside(h) for h in self.equalities),
            inequalities=tuple(inside(g) for g in self.inequalities),
            products=tuple(replace(p, factors=tuple(inside(f) for f in p.factors)) for p in self.products),
            rules=rules,
            lower=None if self.lower is None else self.lower / scale,
            upper=None if self.upper is None else self.upper / scale,
        )


def with_submoments(model: MomentModel, bases: tuple[tuple[Monomial, ...], ...]) -> MomentModel:
    """The relaxation with moment matrices on these bases added [CLMP20, appendix on cubic terms]."""
    return replace(model, blocks=model.blocks + tuple(MomentBlock(tuple(basis)) for basis in bases))


def _normal(p: Polynomial) -> Polynomial:
    """p times the power of two that brings its largest coefficient into [1, 2)."""
    largest = float(np.abs(p.coefficients).max(initial=0.0))
    return p * 2.0 ** -np.floor(np.log2(largest)) if largest else p


def _alone(products: FactorProducts) -> list[Polynomial]:
    """Factors that are a product by themselves: only these are known to be non-negative."""
    rows = products.rows
    single = rows[(rows >= 0).sum(axis=1) == 1]
    return [products.factors[k] for k in np.unique(single.max(axis=1, initial=-1)) if k >= 0]


def _squared(products: FactorProducts) -> list[Polynomial]:
    """Factors h whose square vanishes: h = 0 at every feasible point."""
    rows = products.rows
    return [products.factors[r[0]] for r in rows if r[0] >= 0 and np.all(r == r[0])]
