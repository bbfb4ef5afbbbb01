"""Norms of the input space, each with its dual: the Lipschitz constant is the largest dual norm of a gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lipcert.errors import MethodError
from lipcert.rounding import TINY, Array, gamma, grow, sum_down, sum_up

Matrix = Any  # a float64 array or a scipy CSR array; scipy is untyped


@dataclass(frozen=True)
class Norm:
    """The p-norm on inputs, p in {1, 2, inf}, as text."""

    p: str

    def __str__(self) -> str:
        return self.p

    @property
    def dual(self) -> Norm:
        return Norm({"inf": "1", "1": "inf", "2": "2"}[self.p])

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
        magnitude = abs(weight)
        rows = grow(np.asarray(magnitude.sum(axis=1), dtype=np.float64), weight.shape[1])
        columns = grow(np.asarray(magnitude.sum(axis=0), dtype=np.float64), weight.shape[0])
        row, column = float(rows.max(initial=0.0)), float(columns.max(initial=0.0))
        match self.p:
            case "inf":
                return row
            case "1":
                return column
            case _:  # ||A||_2^2 <= ||A||_1 ||A||_inf
                return float(grow(np.sqrt(np.asarray(row)) * np.sqrt(np.asarray(column)), 8))


INF = Norm("inf")
SUPPORTED: tuple[Norm, ...] = (INF,)


def parse_norm(norm: str | float | Norm) -> Norm:
    """The norm by name; the ones that `bound` does not support yet are refused by name."""
    name = str(norm).lower()
    name = {"linf": "inf", "infinity": "inf", "l1": "1", "l2": "2", "1.0": "1", "2.0": "2"}.get(name, name)
    if Norm(name) in SUPPORTED:
        return Norm(name)
    raise MethodError(f"norm {norm!s} is not supported; use {', '.join(n.p for n in SUPPORTED)}")
