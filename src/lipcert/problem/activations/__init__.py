"""Activations, a class each: a new one is a file here and an entry in ACTIVATIONS."""

from __future__ import annotations

from lipcert.errors import InputError
from lipcert.problem.activations.base import Activation, Lines
from lipcert.problem.activations.bumped import GELU, HardSwish, Mish, SiLU, TanhGELU
from lipcert.problem.activations.elementary import Atan, Cos, Cosh, Elementary, Exp, Log, Power, Sin, Sinh
from lipcert.problem.activations.piecewise import Identity, LeakyReLU, ReLU
from lipcert.problem.activations.smooth import ELU, Erf, Sigmoid, Softplus, Softsign, Tanh

ACTIVATIONS: tuple[type[Activation], ...] = (
    *(Identity, ReLU, LeakyReLU, ELU, Softplus, Sigmoid, Tanh, Softsign, Erf),
    *(GELU, TanhGELU, SiLU, Mish, HardSwish),
    *(Power, Exp, Log, Sin, Cos, Atan, Sinh, Cosh),
)
BOUNDED: tuple[str, ...] = tuple(a.kind for a in ACTIVATIONS if not issubclass(a, Elementary))  # slopes on all inputs
KINDS: tuple[str, ...] = tuple(a.kind for a in ACTIVATIONS)
IDENTITY = Identity()
RELU = ReLU()

__all__ = ["ACTIVATIONS", "BOUNDED", "IDENTITY", "KINDS", "RELU", "Activation", "Lines", "named"]


def named(kind: str, alpha: float) -> tuple[type[Activation], float]:
    """The class of a name in a file, and its number.

    A leaky ReLU with slope 0 or 1 and the first power are simpler things.
    """
    if kind == Power.kind and alpha == 1.0:
        return Identity, 0.0
    if kind == LeakyReLU.kind and alpha in (0.0, 1.0):
        return (Identity if alpha else ReLU), 0.0
    found = next((a for a in ACTIVATIONS if a.kind == kind), None)
    if found is None:
        raise InputError(f"Activation({kind!r}): unknown kind; use one of {', '.join(KINDS)}")
    return found, alpha
