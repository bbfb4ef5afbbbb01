"""A limited-memory quasi-Newton method over unit rows, in single precision.

The first-order methods climb often and need few digits: half of the memory to move is twice the speed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]
Slope = Callable[[Singles], tuple[float, Singles]]  # value and slope at unit rows; only the slope's tangent part counts

_MEMORY = 12
_SUFFICIENT = 1e-4  # share of the decrease that the slope predicts, in a line search (Armijo)
_HALVINGS = 12


def unit(V: Singles) -> Singles:
    """Rows of length one; a row of zeros stays."""
    norm = np.sqrt(np.einsum("ij,ij->i", V, V))
    return np.asarray(V / np.where(norm > 0, norm, 1.0)[:, None], dtype=np.float32)


def climb(f: Slope, V: Singles, steps: int) -> tuple[Singles, int]:
    """A local maximum of f from V on, as far as `steps` steps and single precision go; and the steps that are left.

    A TimeoutError of f ends the climb at the rows so far.
    """
    left = steps
    try:
        value, slope = f(V)
        slope = _tangent(slope, V)
        history: list[tuple[Singles, Singles, float]] = []
        while left:
            way = _newton(slope, history)
            promise = float(np.vdot(way, slope))
            if promise <= 0:
                history, way, promise = [], slope, float(np.vdot(slope, slope))
            length = 1.0 if history else 0.3 / max(float(np.sqrt(np.max(np.einsum("ij,ij->i", way, way)))), 1e-30)
            for _ in range(_HALVINGS):
                new = unit(V + np.float32(length) * way)
                value_there, slope_there = f(new)
                if value_there >= value + _SUFFICIENT * length * promise:
                    break
                length /= 2 if length > 1e-3 else 10
            else:
                if not history:
                    return V, 0  # no way up that single precision can see
                history = []
                left -= 1
                continue
            slope_there = _tangent(slope_there, new)
            s, y = new - V, slope - slope_there
            curvature = float(np.vdot(s, y))
            if curvature > 1e-10 * float(np.vdot(s, s)):
                history = [*history[1 - _MEMORY :], (s, y, 1.0 / curvature)]
            V, value, slope = new, value_there, slope_there
            left -= 1
    except TimeoutError:
        pass
    return V, left


def _tangent(slope: Singles, V: Singles) -> Singles:
    return np.asarray(slope - np.einsum("ij,ij->i", slope, V)[:, None] * V)


def _newton(slope: Singles, history: list[tuple[Singles, Singles, float]]) -> Singles:
    """The two loops: an estimate of the inverse curvature times the slope."""
    q, weights = slope.copy(), []
    for s, y, inverse in reversed(history):
        weight = inverse * float(np.vdot(s, q))
        q -= np.float32(weight) * y
        weights.append(weight)
    if history:
        s, y, inverse = history[-1]
        q *= np.float32(1.0 / (inverse * float(np.vdot(y, y))))
    for (s, y, inverse), weight in zip(history, reversed(weights), strict=True):
        q += np.float32(weight - inverse * float(np.vdot(y, q))) * s
    return q
