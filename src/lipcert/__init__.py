"""Certified upper bounds on the Lipschitz constants of ReLU networks."""

import importlib
from typing import TYPE_CHECKING, Any

from lipcert._version import __version__
from lipcert.activation import Activation
from lipcert.bounding import METHODS, Progress, bound
from lipcert.certificate import Certificate
from lipcert.certificate.verify import Verification, verify
from lipcert.errors import (
    FileFormatError,
    InputError,
    LipcertError,
    MethodError,
    SoundnessError,
    UnsupportedOperator,
)
from lipcert.network import Affine, Network
from lipcert.polynomial import Polynomial, PolynomialProblem
from lipcert.readers import load
from lipcert.readers.torch import from_torch
from lipcert.region import Ball, Box, Everywhere
from lipcert.relaxations.result import PolynomialResult
from lipcert.relaxations.solve import maximize, minimize
from lipcert.result import Result, Status

if TYPE_CHECKING:
    from lipcert.robustness.certify import certify
    from lipcert.robustness.data import DataSet, read_data
    from lipcert.robustness.result import Certification

# Loaded when they are asked for, because the machinery of jobs takes time to import.
_LATER = {"certify": "certify", "DataSet": "data", "read_data": "data", "Certification": "result"}

__all__ = [
    "METHODS",
    "Activation",
    "Affine",
    "Ball",
    "Box",
    "Certificate",
    "Certification",
    "DataSet",
    "Everywhere",
    "FileFormatError",
    "InputError",
    "LipcertError",
    "MethodError",
    "Network",
    "Polynomial",
    "PolynomialProblem",
    "PolynomialResult",
    "Progress",
    "Result",
    "SoundnessError",
    "Status",
    "UnsupportedOperator",
    "Verification",
    "__version__",
    "bound",
    "certify",
    "from_torch",
    "load",
    "maximize",
    "minimize",
    "read_data",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(f"lipcert.robustness.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
