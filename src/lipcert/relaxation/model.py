"""A small language for quadratic relaxations.

A `Space` names the blocks of the vector y = (1, w, t, v, ...). `AffineForms` are batches of affine forms in y. Rows say

    (form)(form) <= b   or   = b      at every true point y of the problem

and become rank-two rows L(f_a f_b) of one moment matrix. Coefficients are floats and exact by definition: a builder
that rounds while it computes them pays on the right-hand side, so that every row holds at every true point in real
arithmetic.

`Tracked` forms do this bookkeeping. A batch of forms f_k(y) stands for exact quantities a_k with
|a_k - f_k(y)| <= error_k at every true point y, |y_i| <= 1; every rounding on the way is added to the error. A product
of two such quantities that is known to be <= 0 (or = 0) becomes a row of the forms with a right-hand side that pays for
both errors.

`write_sdpa` writes a relaxation as a file in the SDPA sparse format (.dat-s), for any solver of the field. In the
format's letters the problem is (D): max F0.Y s.t. Fk.Y = c_k, Y >= 0, with a second, diagonal block of slacks for the
inequalities. Its optimal value plus the relaxation's offset bounds the Lipschitz constant.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.files import write_atomically
from lipcert.problem.maps import matrix
from lipcert.relaxation.rank_two import RankTwoProblem, pair_entries
from lipcert.rounding import TINY, UNIT, Array, gamma, grow, worst
from lipcert.steps import step

Index = NDArray[np.int64]


def is_sign(block: str) -> bool:
    """Whether the entries of a block are -1 or 1: the constant, the signs t and o of both ends, those of neurons."""
    return block in ("one", "t", "o") or block.startswith("v")


class Space:
    """The blocks of y; the first entry is the constant 1."""

    def __init__(self, **blocks: int) -> None:
        self.slices: dict[str, slice] = {"one": slice(0, 1)}
        self.size = 1
        for name, width in blocks.items():
            self.slices[name] = slice(self.size, self.size + width)
            self.size += width

    def __getitem__(self, name: str) -> AffineForms:
        """The variables of a block, one form each."""
        where = self.slices[name]
        width = where.stop - where.start
        ones = np.ones(width)
        return AffineForms(
            sparse.csr_array((ones, (np.arange(width), np.arange(where.start, where.stop))), (width, self.size))
        )

    def constant(self, values: Array) -> AffineForms:
        """Forms without variables."""
        k = len(values)
        return AffineForms(sparse.csr_array((values, (np.arange(k), np.zeros(k, dtype=int))), (k, self.size)))

    def linear(self, matrix: Any, block: str) -> AffineForms:
        """matrix times the variables of a block."""
        where = self.slices[block]
        m = sparse.csr_array(matrix)
        return AffineForms(sparse.csr_array((m.data, m.indices + where.start, m.indptr), (m.shape[0], self.size)))


@dataclass(frozen=True, eq=False)
class AffineForms:
    """k affine forms in y: a k x N sparse matrix. Sums and differences must not mix entries that round."""

    matrix: Any

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def __add__(self, other: AffineForms) -> AffineForms:
        return AffineForms(self.matrix + other.matrix)

    def __sub__(self, other: AffineForms) -> AffineForms:
        return AffineForms(self.matrix - other.matrix)

    def __neg__(self) -> AffineForms:
        return AffineForms(-self.matrix)

    def scaled(self, factors: Array) -> AffineForms:
        """Every form times its factor (powers of two keep it exact)."""
        m = self.matrix
        data = m.data * np.repeat(factors, np.diff(m.indptr))
        return AffineForms(sparse.csr_array((data, m.indices, m.indptr), m.shape))


@dataclass(frozen=True, eq=False)
class Family:
    """Rows of one kind. `members` are their places in an array of `total` entries that does not depend on which
    neurons happen to be stable: multipliers are stored in that array, under this name."""

    name: str
    first: AffineForms
    second: AffineForms
    rhs: Array
    equality: bool
    members: Index
    total: int
    # For an equality: |(form)(form) - b| <= tolerance at every true point; None is exact.
    tolerance: Array | None = None
    owner: Index | None = None  # the row of each product, where products are summed; None: each is a row


@dataclass(frozen=True)
class Finish:
    """From the bound that the matrix proves to the bound of the constant: sqrt(scale * bound), or the bound itself
    where the scale is 0; plus a price."""

    scale: float = 0.0
    price: float = 0.0

    def __call__(self, bound: float) -> float:
        """Rounded up; `bound` >= 0. Infinite where a price or a scale is no number."""
        root = np.asarray(bound)
        if self.scale:
            root = grow(np.sqrt(grow(np.asarray(bound * self.scale), 2)), 4)
        return worst(float(root if self.price == 0.0 else grow(root + self.price, 2)))


@dataclass(frozen=True, eq=False)
class NonnegativeForms:
    """Batches of forms of quantities that are >= 0, k x N each, for the members of a block, with errors of the forms.

    Cuts multiply them with 1 +- any entry of y.
    """

    forms: tuple[Any, ...]
    errors: tuple[Array, ...]
    pair: tuple[Tracked, Tracked] | None = None  # a and b of a = u b with u in {0, 1}


@dataclass(frozen=True, eq=False)
class Relaxation:
    """A rank-two problem with the names of its rows and blocks.

    For every true point y: y'Cy >= (the bounded quantity) - offset, every row holds, and y_i^2 <= diagonal_i. Hence any
    multipliers prove a bound (see `proof`), and `finish` turns it into a bound of the constant.
    """

    problem: RankTwoProblem
    families: tuple[Family, ...]
    space: Space
    offset: float
    blocks: Mapping[str, tuple[Index, int]] = field(default_factory=dict)
    factors: Mapping[str, NonnegativeForms] = field(default_factory=dict)
    finish: Finish = Finish()

    @property
    def tolerance(self) -> Array:
        """The tolerances of all rows; zero for inequalities, whose right-hand sides include them."""
        return np.concatenate([np.zeros(len(f.members)) if f.tolerance is None else f.tolerance for f in self.families])

    def pack(self, y: Array) -> dict[str, Array]:
        """Multipliers of the problem's rows as full arrays by family."""
        packed: dict[str, Array] = {}
        start = 0
        for family in self.families:
            full = np.zeros(family.total)
            full[family.members] = y[start : start + len(family.members)]
            packed[family.name] = full
            start += len(family.members)
        return packed

    def unpack(self, packed: Mapping[str, Array]) -> Array:
        """The inverse of `pack`; a family that is not there has multipliers zero."""
        parts = [packed[f.name][f.members] if f.name in packed else np.zeros(len(f.members)) for f in self.families]
        return np.concatenate(parts)

    def fits(self, packed: Mapping[str, Array], full: Mapping[str, Array]) -> bool:
        """Whether stored multipliers and block values have the names and lengths of this relaxation."""
        totals = {f.name: f.total for f in self.families}
        widths = {name: len(values) for name, values in self.spread(np.zeros(self.space.size)).items()}
        return all(name in totals and v.shape == (totals[name],) for name, v in packed.items()) and all(
            name in widths and v.shape == (widths[name],) for name, v in full.items()
        )

    def spread(self, values: Array) -> dict[str, Array]:
        """Values on the entries of y as full arrays by block."""
        full: dict[str, Array] = {}
        for name, where in self.space.slices.items():
            members, total = self.blocks.get(name, (np.arange(where.stop - where.start), where.stop - where.start))
            full[name] = np.zeros(total)
            full[name][members] = values[where]
        return full

    def gather(self, full: Mapping[str, Array]) -> Array:
        """The inverse of `spread`; a block that is not there has values zero."""
        values = np.zeros(self.space.size)
        for name, where in self.space.slices.items():
            if name in full:
                members = self.blocks[name][0] if name in self.blocks else np.arange(where.stop - where.start)
                values[where] = full[name][members]
        return values


def diagonal(space: Space, blocks: Mapping[str, tuple[Index, int]]) -> list[Family]:
    """y_i^2 = 1 for signs, y_i^2 <= 1 for scaled quantities."""
    families = []
    for name in space.slices:
        (members, count), forms = blocks.get(name, (np.arange(1), 1)), space[name]
        sign = is_sign(name)
        text = f"{name}^2 {'=' if sign else '<='} 1"
        families.append(Family(text, forms, forms, np.ones(len(members)), sign, members, count))
    return families


def assemble(
    space: Space,
    objective: Any,
    families: list[Family],
    offset: float,
    blocks: Mapping[str, tuple[Index, int]],
    factors: Mapping[str, NonnegativeForms] | None = None,
) -> Relaxation:
    """The relaxation of these rows; every y_i^2 is bounded by one in scaled variables."""
    step()
    forms = [form.matrix for f in families for form in (f.first, f.second)]
    stacked, place = _distinct_rows(sparse.csr_array(sparse.vstack(forms)))
    sides = np.split(place, np.cumsum([m.shape[0] for m in forms])[:-1])
    owner = [np.arange(len(f.first)) if f.owner is None else f.owner for f in families]
    starts = np.cumsum([0] + [len(f.members) for f in families])
    problem = RankTwoProblem(
        objective=objective,
        vectors=stacked.T,
        ia=np.concatenate(sides[0::2]),
        ib=np.concatenate(sides[1::2]),
        rhs=np.concatenate([f.rhs for f in families]),
        equality=np.concatenate([np.full(len(f.members), f.equality) for f in families]),
        diagonal=np.ones(space.size),
        owner=np.concatenate([rows + start for rows, start in zip(owner, starts, strict=False)]),
    )
    return Relaxation(problem, tuple(families), space, offset, dict(blocks), dict(factors or {}))


def with_families(relaxation: Relaxation, families: list[Family]) -> Relaxation:
    """The relaxation with more rows behind its own."""
    if not families:
        return relaxation
    r = relaxation
    rows = [*r.families, *families]
    more = assemble(r.space, r.problem.objective, rows, r.offset, r.blocks, r.factors)
    return replace(more, finish=r.finish)


def _distinct_rows(matrix: Any) -> tuple[Any, Index]:
    """The distinct rows of a sparse matrix, and where each row went: equal forms share one vector."""
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    keys: dict[bytes, int] = {}
    place = np.empty(matrix.shape[0], dtype=np.int64)
    kept: list[int] = []
    pointer = matrix.indptr
    for i in range(matrix.shape[0]):
        part = slice(pointer[i], pointer[i + 1])
        key = matrix.indices[part].tobytes() + matrix.data[part].tobytes()
        if key not in keys:
            keys[key] = len(kept)
            kept.append(i)
        place[i] = keys[key]
    return sparse.csr_array(matrix[kept]), place


@dataclass(frozen=True, eq=False)
class Tracked:
    """k forms (k x N, sparse) and the error of each."""

    matrix: Any
    error: Array

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def magnitude(self) -> Array:
        """Upper bounds of |f_k(y)| for all |y_i| <= 1."""
        counts = np.diff(self.matrix.indptr)
        total = np.bincount(np.repeat(np.arange(len(self)), counts), np.abs(self.matrix.data), minlength=len(self))
        return grow(total.astype(np.float64), self.matrix.shape[1])

    @property
    def reach(self) -> Array:
        """Upper bounds of |a_k| at every true point."""
        return grow(self.magnitude + self.error, 2)

    def __getitem__(self, rows: Index) -> Tracked:
        return Tracked(sparse.csr_array(self.matrix[rows]), self.error[rows])

    def __neg__(self) -> Tracked:
        return Tracked(-self.matrix, self.error)

    def __add__(self, other: Tracked) -> Tracked:
        rounding = 2 * UNIT * (self.magnitude + other.magnitude) + TINY
        return Tracked(sparse.csr_array(self.matrix + other.matrix), grow(self.error + other.error + rounding, 4))

    def __sub__(self, other: Tracked) -> Tracked:
        return self + (-other)

    def scaled(self, factors: Array) -> Tracked:
        """Every quantity times its factor."""
        rounding = 2 * UNIT * np.abs(factors) * self.magnitude + self.matrix.shape[1] * TINY
        return Tracked(self._times(factors), grow(np.abs(factors) * self.error + rounding, 4))

    def unit(self) -> Tracked:
        """The same quantities over powers of two, exactly, so that the largest coefficient is about one."""
        return self.over(self.powers)

    def over(self, powers: NDArray[np.int64]) -> Tracked:
        """Exactly, times powers of two."""
        factors = np.ldexp(1.0, powers)
        return Tracked(self._times(factors), self.error * factors + TINY)

    def _times(self, factors: Array) -> Any:
        """Every row times its factor."""
        m = self.matrix
        return sparse.csr_array((m.data * np.repeat(factors, np.diff(m.indptr)), m.indices, m.indptr), m.shape)

    @property
    def powers(self) -> NDArray[np.int64]:
        """Exponents that bring the largest coefficients to about one."""
        largest, filled = np.zeros(len(self)), np.diff(self.matrix.indptr) > 0
        if filled.any():
            largest[filled] = np.maximum.reduceat(np.abs(self.matrix.data), self.matrix.indptr[:-1][filled])
        return np.clip(-np.frexp(np.where(largest > 0, largest, 1.0))[1], -900, 900).astype(np.int64)


def in_common_units(a: Tracked, b: Tracked) -> tuple[Tracked, Tracked]:
    """Both over the powers of two of the second."""
    return a.over(b.powers), b.unit()


def exactly(forms: AffineForms) -> Tracked:
    """Forms that are the quantities themselves."""
    return Tracked(sparse.csr_array(forms.matrix), np.zeros(len(forms)))


def constants(space: Space, values: Array, error: Array | float = 0.0) -> Tracked:
    """Quantities without variables."""
    return Tracked(
        space.constant(values).matrix, np.broadcast_to(np.asarray(error, dtype=np.float64), values.shape).copy()
    )


def affine(space: Space, A: Any, x: Tracked, b: Array | None = None) -> Tracked:
    """A x + b with its rounding: gamma (|A| |x| + |b|) beside what x already carries."""
    A = sparse.csr_array(matrix(A))
    forms = sparse.csr_array(A @ x.matrix)
    shift = np.zeros(A.shape[0]) if b is None else b
    g = gamma(A.shape[1] + 8)
    carried = abs(A) @ x.error + g * (abs(A) @ x.magnitude + np.abs(shift)) + A.shape[1] * x.matrix.shape[1] * TINY
    error = grow(np.asarray(carried, dtype=np.float64), A.shape[1] + 8)
    return Tracked(sparse.csr_array(forms + space.constant(shift).matrix), error)


def merge(space: Space, parts: list[tuple[Index, Tracked]], count: int) -> Tracked:
    """Forms put at their places among `count`; the places left out are exactly zero."""
    error = np.zeros(count)
    total = sparse.csr_array((count, space.size))
    for places, part in parts:
        if len(places):
            into = sparse.csr_array((np.ones(len(places)), (places, np.arange(len(places)))), (count, len(places)))
            total = sparse.csr_array(total + into @ part.matrix)
            error[places] = part.error
    return Tracked(total, error)


def stack(parts: list[Tracked]) -> Tracked:
    """All forms one after the other."""
    if len(parts) == 1:
        return parts[0]
    matrix = sparse.csr_array(sparse.vstack([part.matrix for part in parts]))
    return Tracked(matrix, np.concatenate([part.error for part in parts]))


def product(name: str, a: Tracked, b: Tracked, members: Index, total: int, *, equality: bool = False) -> Family:
    """The rows a_k b_k <= 0 (or = 0), known to hold of the quantities.

    (a + e)(b + d) with |e| <= E, |d| <= D is at most a b + |a| D + |b| E + E D.
    """
    a, b = a.unit(), b.unit()
    slack = grow(a.reach * b.error + b.reach * a.error + a.error * b.error, 8)
    zero = np.zeros(len(members))
    forms = (AffineForms(a.matrix), AffineForms(b.matrix))
    if equality:
        return Family(name, *forms, zero, True, members, total, slack)
    return Family(name, *forms, slack, False, members, total)


def write_sdpa(path: str | os.PathLike[str], relaxation: Relaxation, title: str) -> None:
    """Write the relaxation's semidefinite program; atomically, as all files."""
    write_atomically(path, lambda file: _write(file, relaxation, title))


def _write(file: IO[bytes], relaxation: Relaxation, title: str) -> None:
    problem = relaxation.problem
    slacks = np.flatnonzero(~problem.equality)
    blocks = [problem.size, -len(slacks)] if len(slacks) else [problem.size]
    bound = f"optimal value + {relaxation.offset:.3e}"
    if relaxation.finish.scale:
        bound = f"sqrt({relaxation.finish.scale!r} * ({bound}))"
    header = [
        f'"{title}; bound = {bound}"',
        str(problem.rows),
        str(len(blocks)),
        " ".join(map(str, blocks)),
        " ".join(repr(float(b)) for b in problem.rhs),
    ]
    file.write(("\n".join(header) + "\n").encode("ascii", "replace"))
    C = sparse.coo_array(sparse.triu(problem.objective))
    _lines(file, np.zeros(C.nnz, int), 1, C.coords[0], C.coords[1], C.data)
    _lines(file, *_row_entries(problem))
    places = np.arange(len(slacks))
    _lines(file, slacks + 1, 2, places, places, np.ones(len(slacks)))


def _row_entries(problem: RankTwoProblem) -> tuple[Any, int, Any, Any, Array]:
    """The upper triangles of all sym(f_a f_b'), entries of the same place added up."""
    term, p, q, value = pair_entries(sparse.csc_array(problem.vectors), problem.ia, problem.ib)
    row = problem.owner[term]
    low, high = np.minimum(p, q), np.maximum(p, q)
    value = np.where(p == q, value, value / 2)
    n = problem.size
    keys, inverse = np.unique((row * n + low) * n + high, return_inverse=True)
    total = np.asarray(np.bincount(inverse, value), dtype=np.float64)
    return keys // (n * n) + 1, 1, keys // n % n, keys % n, total


def _lines(file: IO[bytes], matrix: Any, block: int, i: Any, j: Any, value: Array) -> None:
    kept = value != 0
    columns = zip(
        matrix[kept].tolist(), (i[kept] + 1).tolist(), (j[kept] + 1).tolist(), value[kept].tolist(), strict=True
    )
    file.write("".join(f"{k} {block} {a} {b} {v!r}\n" for k, a, b, v in columns).encode())
