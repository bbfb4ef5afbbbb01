"""Stages whose lines are close to smooth activations (`problem.activations.enclosures`), and lines of their slopes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.bounds.substitution import Stage
from lipcert.problem.activations import Activation, Lines
from lipcert.problem.activations.enclosures import secant
from lipcert.problem.network import Network
from lipcert.rounding import Array


def value_lines(f: Activation, lo: Array, hi: Array) -> Lines:
    """Linear bounds of the activation on finite intervals."""
    return f.lines(lo, hi) if f.piecewise_linear else secant(f, f.value_bounds, f.derivative_bounds, lo, hi)


def slope_lines(f: Activation, lo: Array, hi: Array) -> Lines:
    """Linear bounds of the derivative on finite intervals."""
    return secant(f.derivative, f.derivative_bounds, f.second_bounds, lo, hi)


@dataclass(frozen=True, eq=False)
class Tangent(Stage):
    """A stage whose lines are close to its activation, and that has lines of the slope too."""

    @cached_property
    def lines(self) -> Lines:
        return value_lines(self.block.activation, self.z.lo, self.z.hi)

    def rows(self, k: slice | NDArray[np.int64]) -> Tangent:
        """Of some of the cells."""
        return Tangent(self.block, self.z.rows(k), self.x.rows(k), tuple(x.rows(k) for x in self.sources))

    @cached_property
    def slope(self) -> Lines:
        """Linear bounds of the derivative."""
        return slope_lines(self.block.activation, self.z.lo, self.z.hi)


def tangents(net: Network, box: Interval, pre: tuple[Interval, ...]) -> list[Tangent] | None:
    """The stages of cells with these boxes and pre-activation bounds; None where no line would help.

    That is where all activations are piecewise linear, and on unbounded regions.
    """
    smooth = any(not f.piecewise_linear for f in net.activations)
    if not smooth or not all(bool(np.all(np.isfinite(z.lo) & np.isfinite(z.hi))) for z in (box, *pre)):
        return None
    values, stages = [box], list[Tangent]()
    for block, z in zip(net.hidden, pre, strict=True):
        x = Interval(*block.activation.value_bounds(*z))
        stages.append(Tangent(block, z, x, tuple(values[j] for j, _ in block.terms)))
        values.append(x)
    return stages
