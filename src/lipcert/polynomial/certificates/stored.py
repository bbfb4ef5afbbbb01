"""A relaxation as arrays that refer to a problem: bases, and which constraint multiplies them.

Nothing of the problem itself is kept. Blocks name the inequality that multiplies them, rows the equality and the
monomial, products their factors; reading them back needs the problem, so that whatever a file says, the relaxation is
one of that problem. Scales are exponents of two, with which everything is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError
from lipcert.files.numbers import LARGEST_WHOLE, one_whole, real, whole, within
from lipcert.polynomial.hierarchy.assembly import is_exact
from lipcert.polynomial.hierarchy.attempts import LEAST, check_range, identity_of
from lipcert.polynomial.hierarchy.cuts import Cut, VariableBounds, cut_of, triangle_inequality
from lipcert.polynomial.hierarchy.hierarchies import MAX_ORDER, rule_of
from lipcert.polynomial.hierarchy.model import FactorProducts, MomentBlock, MomentModel
from lipcert.polynomial.monomials import Monomial, Rows, monomial_of, pad, rows_of, stack
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem, variable_bounds
from lipcert.proof.sos.prove import SosProof, prove_weights
from lipcert.rounding import Array

PARTS = "basis blocks cuts mix equalities inequalities rules factors products families scale factor index numbers"
ARRAYS = tuple(f"sos_{part}" for part in PARTS.split())
NAMES = "|".join(ARRAYS)
INEQUALITY, LOWER, UPPER, EQUALITY = range(4)
MOST_TERMS = 60_000_000
MOST_DEGREE = 128
LONGEST = 30_000_000  # rows of the program
MOST_SCALE = 400
MOST_NUMBER = 1e100  # largest multiplier; the smallest that is not zero is its inverse
MOST_EQUATIONS = 1_000_000
MOST_CUTS = 200_000

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class StoredRelaxation:
    """Arrays of a relaxation and of what proves its bound; `check` believes none of them."""

    arrays: Arrays

    def check(self, problem: PolynomialProblem) -> SosProof:
        """The proof about the objective times a power of two (about minus it, for a maximum), computed again."""
        model = read_model(self.arrays, problem)
        scale, factor = self._scales(problem, check_range(model))
        scaled = model.rescaled(scale, factor)
        _check_scaled(scaled)
        _check_size(scaled)
        conic = scaled.conic()
        lower, upper = variable_bounds(problem)
        identity = identity_of(conic, lower / scale, upper / scale, is_exact(scaled))
        weights = _weights(self.arrays, identity.size)
        return prove_weights(identity, weights)

    def bound(self, problem: PolynomialProblem) -> float:
        """The bound on the objective that is proved, infinite (of the side that says nothing) when none is."""
        sign = 1.0 if problem.sense == "min" else -1.0
        proof = self.check(problem)
        if not np.isfinite(proof.bound):
            return -sign * np.inf
        return float(sign * proof.bound / self._factor)

    @property
    def _factor(self) -> float:
        """The factor of the objective, a power of two."""
        return 2.0 ** one_whole(self.arrays, "sos_factor", -MOST_SCALE, MOST_SCALE)

    def _scales(self, problem: PolynomialProblem, degree: int) -> tuple[Array, float]:
        """Units of the variables and of the objective, as near to one as `attempts` makes them: scaling is exact then.

        A unit of zero would make every term vanish, and then anything would be proved.
        """
        limit = min(20, 300 // max(1, degree))
        scale = 2.0 ** whole(self.arrays, "sos_scale", (problem.n,), -limit, limit).astype(np.float64)
        if not np.all(np.isfinite(scale) & (scale > 0)):
            raise FileFormatError("a scale of the proof is zero or not finite")
        return scale, self._factor


def store(
    model: MomentModel, problem: PolynomialProblem, scale: Array, factor: float, weights: Array
) -> StoredRelaxation:
    """A relaxation of this problem with its weights; refused where a constraint is not one of the problem."""
    names = _Names(problem)
    blocks, basis, mixes = [], [], [np.zeros(0)]
    for block in model.blocks:
        rows = 0 if block.mix is None else len(block.mix)
        blocks.append((len(block.basis), rows, -1 if block.multiplier is None else names.inequality(block.multiplier)))
        basis.append(rows_of(block.basis))
        mixes.append(np.zeros(0) if block.mix is None else block.mix.reshape(-1))
    factors: dict[tuple[int, int], int] = {}
    products, families = [np.zeros((0, 1), dtype=np.int32)], []
    for family in model.products:
        own = np.array([factors.setdefault(names.factor(f), len(factors)) for f in family.factors] + [-1])
        products.append(own[family.rows].astype(np.int32))
        families.append((len(family.rows), int(family.equality)))
    entries = np.flatnonzero(weights)
    own_rows, cuts = names.with_cuts(model.inequalities)
    equalities = [names.equality_row(h) for h in model.equalities]
    arrays: Arrays = {
        "sos_blocks": np.array(blocks, dtype=np.int64).reshape(-1, 3),
        "sos_basis": stack(basis),
        "sos_mix": np.concatenate(mixes),
        "sos_equalities": _with_monomials(equalities),
        "sos_inequalities": np.array([names.inequality(g) for g in own_rows], dtype=np.int64),
        "sos_cuts": np.array(cuts, dtype=np.int64).reshape(-1, 5),
        "sos_rules": np.array([(i, names.rule(i, r)) for i, r in model.rules.items()], dtype=np.int64).reshape(-1, 2),
        "sos_factors": np.array(list(factors), dtype=np.int64).reshape(-1, 2),
        "sos_products": stack(products),
        "sos_families": np.array(families, dtype=np.int64).reshape(-1, 2),
        "sos_scale": np.rint(np.log2(scale)).astype(np.int64),
        "sos_factor": np.array(int(np.rint(np.log2(factor)))),
        "sos_index": entries.astype(np.int32),
        "sos_numbers": weights[entries],
    }
    return StoredRelaxation(arrays)


class _Names:
    """The constraints of a problem by what they are."""

    def __init__(self, problem: PolynomialProblem) -> None:
        self.inequalities = {g: k for k, g in reversed(list(enumerate(problem.inequalities)))}
        self.equalities = {h: k for k, h in reversed(list(enumerate(problem.equalities)))}
        self.by_values: dict[bytes, list[int]] = {}
        for k, h in enumerate(problem.equalities):
            self.by_values.setdefault(h.coefficients.tobytes(), []).append(k)
        self.problem = problem
        self.alone: dict[int, list[int]] = {}
        for k, h in enumerate(problem.equalities):
            if h.degree == 2 and len(h.variables) == 1:
                self.alone.setdefault(int(h.variables[0]), []).append(k)
        self.sides = {p: name for name, p in _sides(problem).items()}

    def inequality(self, g: Polynomial) -> int:
        if g not in self.inequalities:
            raise InputError("the relaxation has a constraint that the problem has not; it cannot be kept in a file")
        return self.inequalities[g]

    def with_cuts(self, rows: Sequence[Polynomial]) -> tuple[Sequence[Polynomial], list[Cut]]:
        """Constraints of the problem, and behind them triangle inequalities of its bounds."""
        count = sum(1 for _ in takewhile(lambda g: g in self.inequalities, rows))
        bounds = VariableBounds(*variable_bounds(self.problem))
        cuts = [cut for g in rows[count:] if (cut := cut_of(g, bounds)) is not None]
        if len(cuts) < len(rows) - count:
            raise InputError("the relaxation has a constraint that the problem has not; it cannot be kept in a file")
        return rows[:count], cuts

    def factor(self, f: Polynomial) -> tuple[int, int]:
        if f in self.inequalities:
            return INEQUALITY, self.inequalities[f]
        if f in self.equalities:
            return EQUALITY, self.equalities[f]
        if f in self.sides:
            return self.sides[f]
        raise InputError("the relaxation has a factor that the problem has not; it cannot be kept in a file")

    def rule(self, i: int, rule: Polynomial) -> int:
        for k in self.alone.get(i, []):
            if rule_of(self.problem.equalities[k]) == (i, rule):
                return k
        raise InputError("the relaxation has a rule that the problem has not; it cannot be kept in a file")

    def equality_row(self, row: Polynomial) -> tuple[int, Monomial]:
        """h and m with h m = row: the order of monomials is that of their products."""
        for k in self.by_values.get(row.coefficients.tobytes(), []):
            h = self.problem.equalities[k]
            if not len(h.coefficients):
                return k, ()
            m = _quotient(monomial_of(row.indices[0]), monomial_of(h.indices[0]))
            if m is not None and h * Polynomial.from_terms({m: 1.0}) == row:
                return k, m
        raise InputError("the relaxation has an equation that the problem has not; it cannot be kept in a file")


def _sides(problem: PolynomialProblem) -> dict[tuple[int, int], Polynomial]:
    """x_i - lower_i and upper_i - x_i, where they are known."""
    lower, upper = variable_bounds(problem)
    found = {(LOWER, i): Polynomial.affine(-float(v), [i], [1.0]) for i, v in enumerate(lower) if np.isfinite(v)}
    return found | {(UPPER, i): Polynomial.affine(float(v), [i], [-1.0]) for i, v in enumerate(upper) if np.isfinite(v)}


def _quotient(whole: Monomial, part: Monomial) -> Monomial | None:
    left = list(whole)
    for i in part:
        if i not in left:
            return None
        left.remove(i)
    return tuple(left)


def _with_monomials(rows: Sequence[tuple[int, Monomial]]) -> Rows:
    numbers = np.array([k for k, _ in rows], dtype=np.int32).reshape(-1, 1)
    return np.concatenate([numbers, rows_of([m for _, m in rows])], axis=1)


def read_model(arrays: Mapping[str, Any], problem: PolynomialProblem) -> MomentModel:
    """The relaxation of this problem that arrays describe."""
    return MomentModel(
        objective=problem.objective,
        sense=problem.sense,
        blocks=_read_blocks(arrays, problem),
        equalities=_read_equalities(arrays, problem),
        inequalities=(
            *(
                _pick(problem.inequalities, k)
                for k in whole(arrays, "sos_inequalities", (None,), 0, LARGEST_WHOLE).tolist()
            ),
            *_read_cuts(arrays, problem),
        ),
        rules=_read_rules(arrays, problem),
        n=problem.n,
        names=problem.names,
        products=_read_products(arrays, problem),
        lower=problem.lower,
        upper=problem.upper,
    )


def _read_blocks(arrays: Mapping[str, Any], problem: PolynomialProblem) -> tuple[MomentBlock, ...]:
    table, basis = _table(arrays, "sos_blocks", 3), _monomials(arrays, "sos_basis", problem.n)
    mix = _floats(arrays, "sos_mix")
    sizes, orders = table[:, 0], table[:, 1]
    fits = within(table, [1, 0, -1], [4 * MAX_ORDER, MAX_ORDER, len(problem.inequalities) - 1])
    fits = fits and bool(np.all(sizes[orders == 0] <= MAX_ORDER)) and sizes.sum() == len(basis)
    if not fits or (sizes * orders).sum() != len(mix):
        raise FileFormatError("the blocks of the proof, their bases and their coefficients do not fit together")
    blocks: list[MomentBlock] = []
    first = entry = 0
    for size, order, number in table.tolist():
        own = tuple(monomial_of(r) for r in basis[first : first + size])
        mixed = mix[entry : entry + size * order].reshape(order, size) if order else None
        if mixed is not None and not np.all(np.abs(mixed).max(axis=1) > 0):
            raise FileFormatError("a basis of the proof has a polynomial that is zero")
        blocks.append(MomentBlock(own, None if number == -1 else _pick(problem.inequalities, number), mixed))
        first, entry = first + size, entry + size * order
    return tuple(blocks)


def _read_equalities(arrays: Mapping[str, Any], problem: PolynomialProblem) -> tuple[Polynomial, ...]:
    table = whole(arrays, "sos_equalities", (None, None), -1, LARGEST_WHOLE)
    if not table.shape[1] or len(table) > MOST_EQUATIONS:
        raise FileFormatError("the equations of the proof do not fit together")
    monomials = _checked(table[:, 1:], problem.n)
    rows = zip(table[:, 0].tolist(), monomials, strict=True)
    return tuple(_pick(problem.equalities, k) * Polynomial.from_terms({monomial_of(m): 1.0}) for k, m in rows)


def _read_cuts(arrays: Mapping[str, Any], problem: PolynomialProblem) -> tuple[Polynomial, ...]:
    """Triangle inequalities, made again from the bounds that the problem has."""
    if "sos_cuts" not in arrays:
        return ()
    table = _table(arrays, "sos_cuts", 5)
    bounds = VariableBounds(*variable_bounds(problem))
    known = np.concatenate([[True], np.isfinite(bounds.lower) & np.isfinite(bounds.upper)])
    places = table[:, :3]
    fits = places.size == 0 or (places.min() >= 0 and places.max() <= problem.n and bool(known[places].all()))
    rising = np.all(np.diff(places, axis=1) > 0)
    signed = bool(np.all((table[:, 3:] == 1) | (table[:, 3:] == -1)))
    if not fits or not rising or not signed or len(table) > MOST_CUTS:
        raise FileFormatError("the proof names triangle inequalities that the problem's bounds do not make")
    return tuple(triangle_inequality((i, j, k, s, t), bounds) for i, j, k, s, t in table.tolist())


def _read_rules(arrays: Mapping[str, Any], problem: PolynomialProblem) -> dict[int, Polynomial]:
    rules: dict[int, Polynomial] = {}
    for i, k in _table(arrays, "sos_rules", 2).tolist():
        rule = rule_of(_pick(problem.equalities, k))
        if rule is None or rule[0] != i or i in rules:
            raise FileFormatError("a rule of the proof is not an equality of the problem")
        rules[i] = rule[1]
    return rules


def _read_products(arrays: Mapping[str, Any], problem: PolynomialProblem) -> tuple[FactorProducts, ...]:
    table, families = _table(arrays, "sos_factors", 2), _table(arrays, "sos_families", 2)
    rows = whole(arrays, "sos_products", (None, None), -1, len(table) - 1)  # -1: the factor 1
    if not within(families, [0, 0], [len(rows), 1]) or families[:, 0].sum() != len(rows):
        raise FileFormatError("the products of the proof do not fit together")
    sides = _sides(problem) if np.any((table[:, 0] == LOWER) | (table[:, 0] == UPPER)) else {}
    factors = tuple(_factor(kind, k, problem, sides) for kind, k in table.tolist())
    zero = np.append(table[:, 0] == EQUALITY, False)  # the last entry serves index -1
    found: list[FactorProducts] = []
    first = 0
    for count, equality in families.tolist():
        own = rows[first : first + count]
        first += count
        if equality and not np.all(zero[own].any(axis=1)):
            raise FileFormatError("a product of the proof that should vanish has no factor that does")
        found.append(FactorProducts(factors, own, bool(equality)))
    return tuple(found)


def _factor(kind: int, k: int, problem: PolynomialProblem, sides: Mapping[tuple[int, int], Polynomial]) -> Polynomial:
    if kind in (INEQUALITY, EQUALITY):
        return _pick(problem.inequalities if kind == INEQUALITY else problem.equalities, k)
    if (kind, k) not in sides:
        raise FileFormatError("a factor of the proof is not one of the problem")
    return sides[kind, k]


def _weights(arrays: Mapping[str, Any], size: int) -> Array:
    numbers = _floats(arrays, "sos_numbers")
    index = whole(arrays, "sos_index", (len(numbers),), 0, size - 1)
    weights = np.zeros(size)
    weights[index] = numbers
    return weights


def _check_scaled(model: MomentModel) -> None:
    """Refuse scales by which a coefficient of the objective loses digits or vanishes."""
    sizes = np.abs(model.objective.coefficients)
    if not np.all((sizes >= LEAST) & (sizes <= 1.0 / LEAST)):
        raise FileFormatError("the scales of the proof round the objective")


def _check_size(model: MomentModel) -> None:
    """Refuse what would take hours or all memory, before it is expanded."""
    terms = rows = 0
    for block in model.blocks:
        g = 1 if block.multiplier is None else len(block.multiplier.coefficients)
        entries = len(block.basis) if block.mix is None else int((block.mix != 0).sum())
        terms += entries * (entries + 1) // 2 * g
        rows += block.order * (block.order + 1) // 2
    for family in model.products:
        longest = max((len(f.coefficients) for f in family.factors), default=1)
        terms += len(family.rows) * longest ** int(family.rows.shape[1])
        rows += len(family.rows)
    terms += sum(len(p.coefficients) for p in (*model.equalities, *model.inequalities))
    if terms > MOST_TERMS or rows > LONGEST:
        raise FileFormatError(f"the relaxation of the proof has {terms:,} terms; the limit is {MOST_TERMS:,}")


def _pick(listed: Sequence[Polynomial], k: int) -> Polynomial:
    if not 0 <= k < len(listed):
        raise FileFormatError("the proof names a constraint that the problem has not")
    return listed[k]


def _table(arrays: Mapping[str, Any], name: str, width: int) -> NDArray[np.int64]:
    """Rows that name constraints, variables and kinds; the columns have ranges of their own."""
    return whole(arrays, name, (None, width), -1, LARGEST_WHOLE)


def _floats(arrays: Mapping[str, Any], name: str) -> Array:
    """A vector of numbers that are zero, or so far from it that products of them do not underflow."""
    values = real(arrays, name, (None,), -MOST_NUMBER, MOST_NUMBER)
    if np.any((values != 0) & (values > -1.0 / MOST_NUMBER) & (values < 1.0 / MOST_NUMBER)):
        raise FileFormatError(f"array {name} has numbers that are too small")
    return values


def _monomials(arrays: Mapping[str, Any], name: str, n: int) -> Rows:
    return _checked(whole(arrays, name, (None, None), -1, n - 1), n)


def _checked(rows: NDArray[np.int64], n: int) -> Rows:
    if rows.shape[1] > MOST_DEGREE or (rows.size and (rows.min() < -1 or rows.max() >= n)):
        raise FileFormatError("the proof has monomials that the problem's variables do not make")
    return pad(np.sort(rows, axis=1).astype(np.int32), rows.shape[1])


def only(arrays: Mapping[str, Any]) -> StoredRelaxation:
    """The arrays of a file that belong to a relaxation: all of them must be there."""
    return StoredRelaxation({name: arrays[name] for name in ARRAYS})
