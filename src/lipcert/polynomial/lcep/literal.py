"""The relaxations of [CLMP20], as they are written there, as moment models for `polynomial.hierarchy.solve`.

    shor   one hidden layer: M_1, and L(g) >= 0 of every constraint without the pre-activation bounds
    hr     order d (MomLCEP-d): M_1 over everything, M_d and localizing matrices on the small cliques, ties z = Ax + b
           only as L(h) = L(h^2) = 0 (solved as `without_ties` says); order 1 is HR-1. Two hidden layers have cubic
           terms t_i u1_j u2_k, which need

           "small"   matrices on (1, t_i, u1_j u2_k), one per cubic term
           "large"   matrices on (1, t, u1 u2_k), one per neuron k of the second layer: tighter
    lifted two hidden layers with s = u1 u2' as variables: the objective is quadratic (small networks only)

t lies in [-1, 1] throughout; the published values of two hidden layers were computed with t in [0, 1].

Proofs by these estimators are kept in files: the polynomial problem is rebuilt from the network, then checked.
`MomentProof` holds a moment relaxation (`polynomial.certificates.stored`), `ProductProof` the multipliers of LipOpt.
Neither says anything about the network: blocks and rows refer to constraints of the problem that the network gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.files.numbers import LARGEST_WHOLE, one_whole, real, whole, word
from lipcert.polynomial.certificates import stored
from lipcert.polynomial.certificates.stored import StoredRelaxation
from lipcert.polynomial.hierarchy.hierarchies import nearly_sparse
from lipcert.polynomial.hierarchy.model import MomentBlock, MomentModel, with_submoments
from lipcert.polynomial.lcep.chain import gradient_polynomial
from lipcert.polynomial.lcep.problem import Lcep, lcep
from lipcert.polynomial.lcep.products import product_family
from lipcert.polynomial.monomials import Monomial, rows_of
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.problem.problem import Problem
from lipcert.proof.polynomials import prove_krivine, refusal, with_error
from lipcert.rounding import Array

SUBMOMENTS = ("small", "large")
MAX_LIFTED = 400  # variables s


def shor(problem: Problem) -> tuple[MomentModel, Lcep]:
    """The first-order relaxation for one hidden layer, and the problem that it relaxes."""
    depth = problem.network.depth
    if depth != 1:
        raise MethodError(f"method shor needs exactly one hidden layer; this network has {depth}; use hr1")
    found = lcep(problem, bounds=False)
    return _model(found, 1), found


def hr(problem: Problem, order: int, submoments: str = "large") -> tuple[MomentModel, Lcep]:
    """HR-d for one or two hidden layers, and the problem that it relaxes."""
    depth = problem.network.depth
    if depth > 2:
        raise MethodError(f"method hr{order} is for one or two hidden layers; this network has {depth}")
    if submoments not in SUBMOMENTS:
        raise MethodError(f"submoments {submoments!r}: expected one of {', '.join(SUBMOMENTS)}")
    if order < 1:
        raise MethodError(f"hr{order}: the order must be at least 1")
    found = lcep(problem)
    model = _model(found, order)
    bases = cubic_bases(found.problem.objective, submoments)
    return (with_submoments(model, bases) if bases else model), found


def lifted(problem: Problem, order: int = 1) -> tuple[MomentModel, Lcep]:
    """HR-d with s = u1 u2' as variables, for small networks with two hidden layers."""
    depth = problem.network.depth
    if depth != 2:
        raise MethodError(f"method lifting needs exactly two hidden layers; this network has {depth}")
    found = lift(lcep(problem))
    return _model(found, order), found


def _model(found: Lcep, order: int) -> MomentModel:
    model = without_ties(nearly_sparse(found.problem, order, found.cliques, found.ties), found, order)
    return without_crossings(model, found) if order == 1 else model


def without_ties(model: MomentModel, found: Lcep, order: int) -> MomentModel:
    """The same relaxation with M_1 over all variables but z, and L(h m) = 0 in place of L(h^2) = 0 for ties h.

    With M_1 >= 0, L(h^2) = 0 says that h is in the kernel of M_1: L(h m) = 0 for every m of its basis. The rows of z
    are combinations of the others then, and a moment of z_j m that is in no other block may be left out with its row.
    The rows that stay: m = 1, the other variables of the cliques of z_j, and from order 2 on, where the moment of z_j^2
    counts, those of the tie itself. A residual d of the solver in L(h^2) = 0 allows an error of sqrt(d); here it allows
    an error of d.
    """
    values = {int(z) for layer in found.layers for z in layer.z}
    everything = {(), *((i,) for i in range(found.problem.n))}
    if not values or not model.blocks or set(model.blocks[0].basis) != everything:
        return model
    near: dict[int, set[int]] = {}
    for clique in found.cliques:
        for z in values.intersection(clique):
            near.setdefault(z, set()).update(clique)
    rows: list[Polynomial] = []
    for h, z in zip(found.ties, (int(z) for layer in found.layers for z in layer.z), strict=True):
        partners = near[z] - {z} if order == 1 else near[z].union(h.variables.tolist())
        rows += h.multiples(rows_of(((), *((i,) for i in sorted(partners)))))
    basis = tuple(m for m in model.blocks[0].basis if not values.intersection(m))
    kept = tuple(h for h in model.equalities if not any(h is tie for tie in found.ties))
    return replace(
        model, blocks=(MomentBlock(basis), *model.blocks[1:]), equalities=(*kept, *rows), products=model.products[1:]
    )


def without_crossings(model: MomentModel, found: Lcep) -> MomentModel:
    """The same relaxation of order 1 with two matrices in place of M_1: one over t, one over all variables but t.

    Between t and the variables that share no monomial of the objective with it (x_0 and x_1, and those u whose terms
    are cubic) the entries of M_1 are in no other constraint. Both matrices have the rows of 1 and of the other u, and
    two positive semidefinite matrices that agree on what they share have a completion [GJSW84]. Without x there is
    little to gain.

    [GJSW84] Grone, Johnson, Sa, Wolkowicz: Positive definite completions of partial Hermitian matrices, Linear Algebra
    Appl. 58 (1984).
    """
    if not model.blocks or not np.any(found.x >= 0):
        return model
    directions = set(found.t.tolist())
    terms = (set(row) - {-1} for row in model.objective.indices.tolist())
    met = set().union(*(term for term in terms if len(term) == 2 and term & directions))
    basis = model.blocks[0].basis
    first = tuple(m for m in basis if not m or (len(m) == 1 and m[0] in directions | met))
    second = tuple(m for m in basis if not directions.intersection(m))
    return replace(model, blocks=(MomentBlock(second), MomentBlock(first), *model.blocks[1:]))


def cubic_bases(objective: Polynomial, submoments: str) -> tuple[tuple[Monomial, ...], ...]:
    """The monomial bases that hold the cubic terms (t_i, u1_j, u2_k) of the objective."""
    if objective.degree < 3:
        return ()
    cubic = objective.indices[objective.indices[:, 0] >= 0]
    if submoments == "small":
        return tuple(((), (t,), (u, w)) for t, u, w in cubic.tolist())
    bases = []
    for w in np.unique(cubic[:, 2]).tolist():
        mine = cubic[cubic[:, 2] == w]
        ts, us = np.unique(mine[:, 0]).tolist(), np.unique(mine[:, 1]).tolist()
        bases.append(((), *((t,) for t in ts), *((u, w) for u in us)))
    return tuple(bases)


def lift(found: Lcep) -> Lcep:
    """The same problem with a variable s for every product u1_j u2_k of the objective."""
    problem, objective = found.problem, found.problem.objective
    if objective.degree < 3:
        return found
    cubic = objective.indices[:, 0] >= 0
    pairs, place = np.unique(objective.indices[cubic, 1:], axis=0, return_inverse=True)
    if len(pairs) > MAX_LIFTED:
        raise MethodError(f"lifting needs {len(pairs):,} variables s = u1 u2' here; the limit is {MAX_LIFTED}")
    s = problem.n + np.arange(len(pairs))
    rows = objective.indices.copy()
    rows[cubic, 1] = s[place.reshape(-1)]
    rows[cubic, 2] = -1
    names = tuple(f"s_{problem.names[j]}_{problem.names[k]}" for j, k in pairs) if problem.names else None
    products = [
        Polynomial.from_terms({(v,): 1.0, (j, k): -1.0}) for v, (j, k) in zip(s.tolist(), pairs.tolist(), strict=True)
    ]
    binary = [Polynomial.from_terms({(v, v): 1.0, (v,): -1.0}) for v in s.tolist()]
    lifted_problem = PolynomialProblem(
        Polynomial(rows, objective.coefficients),
        problem.inequalities,
        problem.equalities + tuple(binary) + tuple(products),
        problem.sense,
        problem.names + names if problem.names and names else None,
        np.concatenate([np.asarray(problem.lower), np.zeros(len(s))]),
        np.concatenate([np.asarray(problem.upper), np.ones(len(s))]),
    )
    cliques = tuple((j, k, v) for v, (j, k) in zip(s.tolist(), pairs.tolist(), strict=True))
    return replace(found, problem=lifted_problem, cliques=found.cliques + cliques)


FORMS = ("plain", "bounds", "lifted")  # without products with pre-activation bounds (shor), with them, with s = u u'
MOST_DEGREE = 9


def formulated(problem: Problem, form: str) -> Lcep:
    """LCEP of the problem in one of FORMS."""
    found = lcep(problem, bounds=form != "plain")
    return lift(found) if form == "lifted" else found


@dataclass(frozen=True, eq=False)
class MomentProof:
    """A moment relaxation of LCEP with its Gram matrices and multipliers."""

    name: str
    form: str
    make: Callable[[], StoredRelaxation]

    @cached_property
    def relaxation(self) -> StoredRelaxation:
        """The stored relaxation; it is written in terms of the problem on first use."""
        return self.make()

    @property
    def method(self) -> str:
        return f"{self.name}-literal"

    def arrays(self) -> dict[str, NDArray[Any]]:
        kind = {"proof": np.array("literal", dtype="U16"), "literal_form": np.array(self.form, dtype="U16")}
        return kind | self.relaxation.arrays

    def check(self, problem: Problem) -> float:
        if refusal(problem, self.name) is not None:
            return np.inf
        found = formulated(problem, self.form)
        bound = self.relaxation.bound(found.problem)
        return with_error(bound, found.error) if np.isfinite(bound) else np.inf


@dataclass(frozen=True, eq=False)
class ProductProof:
    """Multipliers of the products of LipOpt with these numbers in their family; those of the others are zero."""

    name: str
    degree: int
    index: NDArray[np.int64]
    numbers: Array

    @property
    def method(self) -> str:
        return f"{self.name}-literal"

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "proof": np.array("lipopt", dtype="U16"),
            "krivine_degree": np.array(self.degree),
            "krivine_index": self.index.astype(np.int32),
            "krivine_numbers": self.numbers,
        }

    def check(self, problem: Problem) -> float:
        if refusal(problem, self.name) is not None or problem.network.depth > 2:
            return np.inf
        f = gradient_polynomial(problem)
        family = product_family(f, self.degree)
        index, place = np.unique(self.index, return_index=True)
        if len(index) and int(index[-1]) >= family.starts[-1]:
            raise InputError(f"multipliers of more than the {family.starts[-1]} products that there are")
        return prove_krivine(family.program(f, index), self.numbers[place])


def read_stated(kind: str, arrays: Mapping[str, Any], method: str) -> MomentProof | ProductProof:
    """A proof from the arrays of a file; nothing in it is believed before `check`."""
    name = method.removesuffix("-literal")
    if kind == "literal":
        form = word(arrays, "literal_form")
        if form not in FORMS:
            raise FileFormatError(f"the form of a literal proof must be one of {', '.join(FORMS)}")
        kept = stored.only(arrays)
        return MomentProof(name, form, lambda: kept)
    degree, numbers = one_whole(arrays, "krivine_degree", 1, MOST_DEGREE), real(arrays, "krivine_numbers", (None,))
    return ProductProof(name, degree, whole(arrays, "krivine_index", (len(numbers),), 0, LARGEST_WHOLE), numbers)
