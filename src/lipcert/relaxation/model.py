"""A small language for quadratic relaxations.

A `Space` names the blocks of the vector y = (1, w, t, v, ...). `Forms` are batches of affine forms in y. Rows say

    (form)(form) <= b   or   = b      at every true point y of the problem

and become rank-two rows L(f_a f_b) of one moment matrix. Coefficients are floats and exact by definition: a builder
that rounds while it computes them pays on the right-hand side, so that every row holds at every true point in real
arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.relaxation.rank_two import RankTwoProblem
from lipcert.rounding import Array, grow, worst
from lipcert.steps import step

if TYPE_CHECKING:
    from lipcert.relaxation.tracked import Tracked

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

    def __getitem__(self, name: str) -> Forms:
        """The variables of a block, one form each."""
        where = self.slices[name]
        width = where.stop - where.start
        ones = np.ones(width)
        return Forms(
            sparse.csr_array((ones, (np.arange(width), np.arange(where.start, where.stop))), (width, self.size))
        )

    def constant(self, values: Array) -> Forms:
        """Forms without variables."""
        k = len(values)
        return Forms(sparse.csr_array((values, (np.arange(k), np.zeros(k, dtype=int))), (k, self.size)))

    def linear(self, matrix: Any, block: str) -> Forms:
        """matrix times the variables of a block."""
        where = self.slices[block]
        m = sparse.csr_array(matrix)
        return Forms(sparse.csr_array((m.data, m.indices + where.start, m.indptr), (m.shape[0], self.size)))


@dataclass(frozen=True, eq=False)
class Forms:
    """k affine forms in y: a k x N sparse matrix. Sums and differences must not mix entries that round."""

    matrix: Any

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def __add__(self, other: Forms) -> Forms:
        return Forms(self.matrix + other.matrix)

    def __sub__(self, other: Forms) -> Forms:
        return Forms(self.matrix - other.matrix)

    def __neg__(self) -> Forms:
        return Forms(-self.matrix)

    def scaled(self, factors: Array) -> Forms:
        """Every form times its factor (powers of two keep it exact)."""
        m = self.matrix
        data = m.data * np.repeat(factors, np.diff(m.indptr))
        return Forms(sparse.csr_array((data, m.indices, m.indptr), m.shape))


@dataclass(frozen=True, eq=False)
class Family:
    """Rows of one kind. `members` are their places in an array of `total` entries that does not depend on which
    neurons happen to be stable: multipliers are stored in that array, under this name."""

    name: str
    first: Forms
    second: Forms
    rhs: Array
    equality: bool
    members: Index
    total: int
    tolerance: Array | None = None  # of an equality: |(form)(form) - b| <= tolerance at every true point; None is exact
    owner: Index | None = None  # the row of each product, where products are summed; None: each is a row


@dataclass(frozen=True)
class Finish:
    """From the bound that the matrix proves to the bound of what is asked: sqrt(scale * bound), or the bound itself
    where scale is 0; plus a price."""

    scale: float = 0.0
    price: float = 0.0

    def __call__(self, bound: float) -> float:
        """Rounded up; `bound` >= 0. Infinite where a price or a scale is no number."""
        root = np.asarray(bound)
        if self.scale:
            root = grow(np.sqrt(grow(np.asarray(bound * self.scale), 2)), 4)
        return worst(float(root if self.price == 0.0 else grow(root + self.price, 2)))


@dataclass(frozen=True, eq=False)
class Factors:
    """Batches of forms of quantities that are >= 0, k x N each, for the members of a block; a form is off by at most
    its error. Cuts multiply them with 1 +- any entry of y."""

    forms: tuple[Any, ...]
    errors: tuple[Array, ...]
    pair: tuple[Tracked, Tracked] | None = None  # a and b of a = u b with u in {0, 1}


@dataclass(frozen=True, eq=False)
class Relaxation:
    """A rank-two problem with the names of its rows and blocks.

    For every true point y: y'Cy >= (what is bounded) - offset, every row holds, and y_i^2 <= diagonal_i. Hence any
    multipliers prove a bound (see `proof`); `finish` makes it one of what is asked.
    """

    problem: RankTwoProblem
    families: tuple[Family, ...]
    space: Space
    offset: float
    blocks: Mapping[str, tuple[Index, int]] = field(default_factory=dict)
    factors: Mapping[str, Factors] = field(default_factory=dict)
    finish: Finish = Finish()

    @property
    def tolerance(self) -> Array:
        """Of all rows; zero on inequalities, whose right-hand sides have it already."""
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
    factors: Mapping[str, Factors] | None = None,
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
