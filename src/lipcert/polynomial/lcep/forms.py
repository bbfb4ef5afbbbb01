"""Affine forms of the layers' values in the variables of LCEP, with proved distances from the network's own values.

A layer's input is x = constants + coefficients y + d with |d| <= error, where y are variables with |y| <= 1 and the
coefficients are floats, exact by definition. Pre-activations of neurons with variables are counted in powers of two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.propagation import Interval
from lipcert.errors import MethodError
from lipcert.problem.blocks import Affine
from lipcert.problem.maps import dense
from lipcert.problem.region import Box
from lipcert.rounding import TINY, Array, add_down, add_up, down, gamma, grow, up

Index = NDArray[np.int64]

_SMALL = 2.0**-200  # of a neuron's scale: a smaller coefficient is paid for by the error, no solver could use it
_LEAST = 2.0**-60  # of the scale: bounds and errors that are not zero are at least this large, which costs nothing


@dataclass(frozen=True, eq=False)
class Forms:
    """|value - constants - coefficients y| <= error, over the columns `variables` of y."""

    constants: Array
    coefficients: Array
    error: Array
    variables: Index

    @property
    def reach(self) -> Array:
        """An upper bound on |form|."""
        return grow(np.abs(self.constants) + np.abs(self.coefficients).sum(axis=1), self.coefficients.shape[1] + 2)


@dataclass(frozen=True, eq=False)
class LayerForms:
    """One layer: the ties z = constants + coefficients y of the neurons with variables, in units of `scale`.

    `sign_error` is e/2 of (u - 1/2) z >= -e/2; `lo` and `hi` bound z; `all` are the forms of every neuron's z.
    """

    constants: Array
    coefficients: Array
    variables: Index
    sign_error: Array
    lo: Array
    hi: Array
    scale: Array
    neurons: Index
    all: Forms
    on: NDArray[np.bool_]

    def outputs(self, x: Index) -> Forms:
        """The forms of ReLU(z): the variable where there is one, z where the neuron is on, 0 where it is off."""
        z = self.all
        free = np.zeros(len(z.constants), dtype=bool)
        free[self.neurons] = True
        on = self.on & ~free
        constants = np.where(on, z.constants, 0.0)
        own = np.zeros((len(constants), len(x)))
        own[self.neurons, np.arange(len(x))] = self.scale
        coefficients = np.concatenate([np.where(on[:, None], z.coefficients, 0.0), own], axis=1)
        # ReLU does not stretch distances, so a neuron with a variable keeps the error of its z.
        error = np.where(on | free, z.error, 0.0)
        return Forms(constants, coefficients, error, np.concatenate([z.variables, x]))


def input_forms(box: Box, variables: Index) -> Forms:
    """x_0 = middle + radius y on the coordinates that move."""
    middle = box.lo / 2 + box.hi / 2
    radius = np.maximum(add_up(box.hi, -middle), add_up(middle, -box.lo))
    moving = np.flatnonzero(variables >= 0)
    coefficients = np.zeros((box.size, len(moving)))
    coefficients[moving, np.arange(len(moving))] = radius[moving]
    flat = np.where(variables >= 0, 0.0, radius)
    return Forms(middle, coefficients, flat, variables[moving])


def layer_forms(affine: Affine, x: Forms, known: Interval, neurons: Index) -> LayerForms:
    """z = A x + b; `known` bounds the network's own z, `neurons` have variables."""
    A = dense(affine.weight)
    n = A.shape[1] + x.coefficients.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        constants, coefficients = A @ x.constants + affine.bias, A @ x.coefficients
        rounding = gamma(n + 8) * (np.abs(A) @ x.reach + np.abs(affine.bias)) + n * TINY
        least = _SMALL * np.maximum(np.maximum(np.abs(known.lo), np.abs(known.hi)), 2.0**-400)
        small, nothing = np.abs(coefficients) < least[:, None], np.abs(constants) < least
        dropped = np.abs(np.where(small, coefficients, 0.0)).sum(axis=1) + np.abs(np.where(nothing, constants, 0.0))
        constants, coefficients = np.where(nothing, 0.0, constants), np.where(small, 0.0, coefficients)
        error = grow(np.abs(A) @ x.error + rounding + dropped, n + 8)
        lo, hi = down(add_down(known.lo, -error)), up(add_up(known.hi, error))
    if not all(bool(np.all(np.isfinite(part))) for part in (constants, coefficients, error, lo, hi)):
        raise MethodError("pre-activations overflow: LCEP has no finite form here")
    every = Forms(constants, coefficients, error, x.variables)
    size = np.maximum(np.abs(lo), np.abs(hi))[neurons]
    scale = np.ldexp(1.0, np.clip(np.frexp(np.where(size > 0, size, 1.0))[1], -400, 400))
    return LayerForms(
        constants[neurons] / scale,
        coefficients[neurons] / scale[:, None],
        x.variables,
        np.maximum(grow(error[neurons] / scale / 2 + n * TINY, 4), _LEAST),
        -_raised(-down(lo[neurons] / scale - n * TINY)),
        _raised(up(hi[neurons] / scale + n * TINY)),
        scale,
        neurons,
        every,
        (known.lo >= 0) & (known.hi > 0),
    )


def _raised(above: Array) -> Array:
    """Upper bounds that are not next to zero: zero, or as large as anything that a solver can use."""
    return np.where(np.abs(above) >= _LEAST, above, np.where(above > 0, _LEAST, 0.0))
