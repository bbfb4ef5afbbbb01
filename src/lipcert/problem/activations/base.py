"""The interface of every activation: values, derivatives, and proved bounds of both on intervals.

An activation is a frozen value with a `kind` (its name in files) and a number `alpha` that most ignore. Derivatives lie
in a slope interval [a, b]; a may be negative, so users of slopes take their magnitudes. The derivative of a kinked
activation at its kink is any number between its one-sided derivatives; `derivative` returns the left one, and bounds
contain both.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.rounding import TINY, Array

# Elementary functions of libm and numpy's SIMD loops are within 4 ulp; compositions of three of them within this slack.
SLACK = 32 * 2.0**-53
_LARGEST_ALPHA = 1e6

Batch = NDArray[Any]  # of float32 or float64


class Lines(NamedTuple):
    """low_slope z + low_shift <= activation(z) <= up_slope z + up_shift on an interval, coordinate by coordinate."""

    low_slope: Array
    low_shift: Array
    up_slope: Array
    up_shift: Array


class Activation:
    """The function that a block of neurons applies to each of them.

    `Activation(kind, alpha)` with `kind` one of "identity", "relu", "leaky_relu", "elu", "softplus", "sigmoid", "tanh",
    "softsign", "erf", "gelu", "gelu_tanh", "silu", "mish", "hardswish", "power", "exp", "log", "sin", "cos", "atan",
    "sinh" or "cosh". `alpha` is the slope of a leaky ReLU below zero, the scale of an ELU, or the exponent of a power;
    the others ignore it. "gelu" and the names behind it may fall; slopes of "power" and the names behind it may have
    bounds on bounded intervals only.
    """

    kind: ClassVar[str]
    takes_alpha: ClassVar[bool] = False
    kinked: ClassVar[bool] = False  # slope 1 above zero, `alpha` below: u in {alpha, 1} by the sign of z
    piecewise_linear: ClassVar[bool] = False
    alpha: float

    def __new__(cls, kind: str | None = None, alpha: float = 0.0) -> Activation:
        if cls is Activation:
            from lipcert.problem.activations import named  # the table of all, which imports this module

            if kind is None:
                raise InputError("Activation(kind): the name of an activation is missing")
            cls, alpha = named(kind, alpha)
        self = object.__new__(cls)
        object.__setattr__(self, "alpha", cls.checked(alpha) if cls.takes_alpha else 0.0)
        return self

    @classmethod
    def checked(cls, alpha: float) -> float:
        """The number of an activation that takes one, or an InputError."""
        number = float(alpha)
        if not 0.0 <= number <= _LARGEST_ALPHA:
            raise InputError(f"Activation({cls.kind}, alpha={number}): alpha must be between 0 and {_LARGEST_ALPHA:g}")
        return number

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Activation is frozen: cannot set {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Activation, (self.kind, self.alpha)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Activation) and (self.kind, self.alpha) == (other.kind, other.alpha)

    def __hash__(self) -> int:
        return hash((self.kind, self.alpha))

    def __str__(self) -> str:
        return f"{self.kind}({self.alpha:g})" if self.takes_alpha else self.kind

    def __repr__(self) -> str:
        return f"Activation({self.kind!r}, {self.alpha!r})" if self.takes_alpha else f"Activation({self.kind!r})"

    @property
    def slopes(self) -> tuple[float, float]:
        """The interval [a, b] that contains every derivative."""
        raise NotImplementedError

    @property
    def steepest(self) -> float:
        """At least every |derivative|."""
        return max(abs(slope) for slope in self.slopes)

    def __call__(self, z: Array) -> Array:
        """The value, entry by entry."""
        raise NotImplementedError

    def derivative(self, z: Array) -> Array:
        """The derivative, entry by entry (the left one at a kink)."""
        raise NotImplementedError

    def defined(self, lo: Array, hi: Array) -> NDArray[np.bool_]:
        """Which intervals lie in the domain of the function; on others its bounds are infinite."""
        return np.ones(lo.shape, dtype=bool)

    def value_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Proved bounds of the value for lo <= z <= hi (infinite ends allowed)."""
        raise NotImplementedError

    def derivative_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Proved bounds of the derivative for lo <= z <= hi (infinite ends allowed)."""
        raise NotImplementedError

    def second_bounds(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Proved bounds of the second derivative for lo <= z <= hi, infinite where the first one jumps."""
        return np.full(lo.shape, -np.inf), np.full(hi.shape, np.inf)

    def lines(self, lo: Array, hi: Array) -> Lines:
        """Proved linear bounds on finite intervals, for backward substitution [CROWN18]."""
        raise NotImplementedError

    def smoothed(self, z: Batch, sharpness: Batch | float) -> tuple[Batch, Batch]:
        """The slope, with the step of a kink replaced by a sigmoid of this sharpness, and its derivative in z.

        For searches: nothing is proved with it.
        """
        raise NotImplementedError


def widen(x: Array) -> tuple[Array, Array]:
    """Bounds of an exact value from its floating-point evaluation within SLACK."""
    slack = SLACK * np.abs(x) + TINY
    slack = np.where(np.isfinite(slack), slack, 0.0)
    return x - slack, x + slack
