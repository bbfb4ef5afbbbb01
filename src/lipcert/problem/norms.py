"""Norms of the input space, each with its dual: the Lipschitz constant is the largest dual norm of a gradient.

For a map with several outputs it is the largest operator norm of a Jacobian, from a norm p of inputs to a norm q of
outputs: max d'J t over t in the unit ball of p and d in that of the dual of q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipcert.errors import MethodError
from lipcert.files.boundary import clean
from lipcert.problem.maps import Matrix as Matrix
from lipcert.problem.maps import entrywise, row_pieces
from lipcert.rounding import TINY, Array, gamma, grow, sum_down, sum_up

_DUAL = {"inf": "1", "1": "inf", "2": "2"}


@dataclass(frozen=True)
class Norm:
    """The p-norm on inputs, p in {1, 2, inf}, as text; `out` is the norm on outputs where they are several."""

    p: str
    out: str | None = None

    def __str__(self) -> str:
        return self.p

    @property
    def words(self) -> str:
        """The norms of both ends."""
        return self.p if self.out is None else f"{self.p} to {self.out}"

    @property
    def phrase(self) -> str:
        """The norms of both ends, in a sentence."""
        return f"in the {self.p}-norm" if self.out is None else f"from the {self.p}-norm to the {self.out}-norm"

    @property
    def dual(self) -> Norm:
        """The dual norm of the input's norm."""
        return Norm(_DUAL[self.p])

    @property
    def outputs(self) -> Norm:
        """The norm on outputs; only where there is one."""
        assert self.out is not None
        return Norm(self.out)

    def of(self, rows: Array) -> Array:
        """The norm of every row, in plain floating point."""
        match self.p:
            case "inf":
                return np.asarray(np.abs(rows).max(axis=-1, initial=0.0))
            case "1":
                return np.asarray(np.abs(rows).sum(axis=-1))
            case _:
                return np.asarray(np.sqrt(np.einsum("...i,...i->...", rows, rows)))

    def above(self, magnitudes: Array) -> float:
        """An upper bound on the norm of every vector with |v_i| <= magnitudes_i."""
        match self.p:
            case "inf":
                return float(np.max(magnitudes, initial=0.0))
            case "1":
                return sum_up(magnitudes)
            case _:
                return float(grow(np.sqrt(np.asarray(sum_up(magnitudes * magnitudes))), 4))

    def rows_above(self, weight: Matrix) -> Array:
        """An upper bound on the norm of every row of a matrix."""
        return np.concatenate([self._rows_above(some) for some in row_pieces(weight)])

    def _rows_above(self, weight: Matrix) -> Array:
        size, n = abs(weight), weight.shape[1]
        match self.p:
            case "inf":
                largest = size.max(axis=1)
                return np.asarray(largest if isinstance(largest, np.ndarray) else largest.toarray()).reshape(-1)
            case "1":
                return grow(np.asarray(size.sum(axis=1), dtype=np.float64).reshape(-1), n)
            case _:
                total = grow(np.asarray(entrywise(size, np.square).sum(axis=1), dtype=np.float64).reshape(-1), n)
                return grow(np.sqrt(total), 4)

    def below(self, magnitudes: Array) -> float:
        """A lower bound on the norm of every vector with |v_i| >= magnitudes_i >= 0."""
        match self.p:
            case "inf":
                return float(np.max(magnitudes, initial=0.0))
            case "1":
                return sum_down(magnitudes)
            case _:
                root = float(np.sqrt(sum_down(magnitudes * magnitudes)))
                return max(0.0, root * (1.0 - gamma(8)) - TINY)

    def gain(self, weight: Matrix) -> float:
        """An upper bound on the operator norm of `weight` from this norm to itself."""
        sums = [(np.asarray(size.sum(axis=1)), np.asarray(size.sum(axis=0))) for size in map(abs, row_pieces(weight))]
        rows = grow(np.concatenate([row for row, _ in sums], dtype=np.float64), weight.shape[1])
        columns = grow(np.asarray(sum(column for _, column in sums), dtype=np.float64), weight.shape[0])
        row, column = float(rows.max(initial=0.0)), float(columns.max(initial=0.0))
        match self.p:
            case "inf":
                return row
            case "1":
                return column
            case _:  # ||A||_2^2 <= ||A||_1 ||A||_inf
                return float(grow(np.sqrt(np.asarray(row)) * np.sqrt(np.asarray(column)), 8))


INF, EUCLIDEAN = Norm("inf"), Norm("2")
SUPPORTED: tuple[Norm, ...] = (INF, EUCLIDEAN, Norm("1"))
_NAMES = {"linf": "inf", "infinity": "inf", "l1": "1", "l2": "2", "1.0": "1", "2.0": "2"}


def parse_norm(norm: str | float | Norm) -> Norm:
    """The norm by name; unknown ones are refused by name."""
    if isinstance(norm, Norm) and Norm(norm.p) in SUPPORTED:
        return norm if norm.out is None else parse_norms(norm.p, norm.out)
    name = str(norm).lower()
    name = _NAMES.get(name, name)
    if Norm(name) in SUPPORTED:
        return Norm(name)
    shown = clean(str(norm)).replace("\n", " ")  # a file may hold any characters
    raise MethodError(f"norm {shown} is not supported; use {', '.join(n.p for n in SUPPORTED)}")


def parse_norms(norm: str | float | Norm, out: str | float | None) -> Norm:
    """The norms of inputs and outputs, by name."""
    p = parse_norm(norm).p
    return Norm(p) if out is None else Norm(p, parse_norm(out).p)
