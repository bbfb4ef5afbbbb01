"""Networks in rational arithmetic: what bounds must contain exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from lipcert import Network
from lipcert.bounds import Interval
from lipcert.problem.activations import Activation
from lipcert.problem.norms import Matrix
from lipcert.rounding import Array

Vector = list[Fraction]


def exact_pass(net: Network, x: Array, c: Array) -> tuple[list[Vector], Vector]:
    """Pre-activations and gradient of a piecewise linear network at x."""
    values = [_fractions(x)]
    zs: list[Vector] = []
    for block in net.hidden:
        z = _fractions(block.bias)
        for j, weight in block.terms:
            z = [a + b for a, b in zip(z, _times(weight, values[j]), strict=True)]
        zs.append(z)
        values.append([e * _slope(block.activation, e) for e in z])
    behind = [[Fraction(0)] * width for width in net.shape[:-1]] + [_fractions(c)]
    for i in range(len(net.blocks), 0, -1):
        g = behind[i]
        if i <= net.depth:
            g = [e * _slope(net.activations[i - 1], z) for e, z in zip(g, zs[i - 1], strict=True)]
        for j, weight in net.blocks[i - 1].terms:
            behind[j] = [a + b for a, b in zip(behind[j], _times(np.asarray(weight).T, g), strict=True)]
    return zs, behind[0]


def inside(values: Vector, interval: Interval) -> bool:
    """Whether every number lies between its bounds, compared exactly."""
    ends = zip(interval.lo, interval.hi, strict=True)
    return all(
        (lo == -np.inf or Fraction(float(lo)) <= v) and (hi == np.inf or v <= Fraction(float(hi)))
        for v, (lo, hi) in zip(values, ends, strict=True)
    )


def _fractions(numbers: Array) -> Vector:
    return [Fraction(float(e)) for e in numbers]


def _times(weight: Matrix, x: Vector) -> Vector:
    rows = np.asarray(weight)
    return [sum((Fraction(float(w)) * e for w, e in zip(row, x, strict=True)), Fraction(0)) for row in rows]


def _slope(f: Activation, z: Fraction) -> Fraction:
    assert f.piecewise_linear
    return Fraction(1) if z > 0 or not f.kinked else Fraction(f.alpha)
