"""Certified upper bounds on the Lipschitz constants of neural networks."""

import importlib
from typing import TYPE_CHECKING, Any

from lipcert._version import __version__

if TYPE_CHECKING:
    from lipcert.control.largest import LargestBox, largest_box
    from lipcert.control.loop import closed_loop, contraction, loop_weights
    from lipcert.errors import (
        FileFormatError,
        InputError,
        LipcertError,
        MethodError,
        SoundnessError,
        UnsupportedOperator,
    )
    from lipcert.method import METHODS
    from lipcert.method.bound import bound, bound_union
    from lipcert.method.norms import LayerNorms, layer_norms
    from lipcert.method.result import Result, UnionResult
    from lipcert.polynomial import Polynomial, PolynomialProblem
    from lipcert.polynomial.certificates.certificate import PolynomialCertificate, verify_polynomial
    from lipcert.polynomial.hierarchy.optimise import maximize, minimize
    from lipcert.polynomial.hierarchy.plan import Plan, plan
    from lipcert.polynomial.hierarchy.result import PolynomialResult
    from lipcert.problem.activations import Activation
    from lipcert.problem.blocks import Affine
    from lipcert.problem.network import Network
    from lipcert.problem.region import Ball, Box, Everywhere, Polytope
    from lipcert.proof import Certificate
    from lipcert.proof.union import UnionVerification, verify_union
    from lipcert.proof.verification import Verification
    from lipcert.proof.verify import verify
    from lipcert.readers import load
    from lipcert.readers.torch import from_torch
    from lipcert.robustness.certify import certify
    from lipcert.robustness.data import DataSet, read_data
    from lipcert.robustness.result import Certification
    from lipcert.robustness.verify import FolderVerification, verify_folder
    from lipcert.search.cells.partition import cells, partition
    from lipcert.search.cells.result import Partition
    from lipcert.search.jacobian.jacobian import jacobian
    from lipcert.search.jacobian.result import Jacobian
    from lipcert.search.progress import Progress, Status

# Loaded when they are asked for: `import lipcert` costs nothing, and the command line is at its post before numpy is.
_WHERE = {
    "problem.activations": ["Activation"],
    "method": ["METHODS"],
    "method.bound": ["bound", "bound_union"],
    "search.progress": ["Progress", "Status"],
    "proof": ["Certificate"],
    "proof.verification": ["Verification"],
    "proof.verify": ["verify"],
    "errors": ["FileFormatError", "InputError", "LipcertError", "MethodError", "SoundnessError", "UnsupportedOperator"],
    "problem.blocks": ["Affine"],
    "problem.network": ["Network"],
    "search.cells.partition": ["cells", "partition"],
    "search.cells.result": ["Partition"],
    "search.jacobian.jacobian": ["jacobian"],
    "search.jacobian.result": ["Jacobian"],
    "polynomial": ["Polynomial", "PolynomialProblem"],
    "polynomial.certificates.certificate": ["PolynomialCertificate", "verify_polynomial"],
    "readers": ["load"],
    "readers.torch": ["from_torch"],
    "problem.region": ["Ball", "Box", "Everywhere", "Polytope"],
    "control.largest": ["LargestBox", "largest_box"],
    "control.loop": ["closed_loop", "contraction", "loop_weights"],
    "polynomial.hierarchy.optimise": ["maximize", "minimize"],
    "polynomial.hierarchy.plan": ["Plan", "plan"],
    "polynomial.hierarchy.result": ["PolynomialResult"],
    "method.norms": ["LayerNorms", "layer_norms"],
    "method.result": ["Result", "UnionResult"],
    "proof.union": ["UnionVerification", "verify_union"],
    "robustness.certify": ["certify"],
    "robustness.data": ["DataSet", "read_data"],
    "robustness.result": ["Certification"],
    "robustness.verify": ["FolderVerification", "verify_folder"],
}
_HOME = {name: f"lipcert.{module}" for module, names in _WHERE.items() for name in names}

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
    "FolderVerification",
    "InputError",
    "Jacobian",
    "LargestBox",
    "LayerNorms",
    "LipcertError",
    "MethodError",
    "Network",
    "Partition",
    "Plan",
    "Polynomial",
    "PolynomialCertificate",
    "PolynomialProblem",
    "PolynomialResult",
    "Polytope",
    "Progress",
    "Result",
    "SoundnessError",
    "Status",
    "UnionResult",
    "UnionVerification",
    "UnsupportedOperator",
    "Verification",
    "__version__",
    "bound",
    "bound_union",
    "cells",
    "certify",
    "closed_loop",
    "contraction",
    "from_torch",
    "jacobian",
    "largest_box",
    "layer_norms",
    "load",
    "loop_weights",
    "maximize",
    "minimize",
    "partition",
    "plan",
    "read_data",
    "verify",
    "verify_folder",
    "verify_polynomial",
    "verify_union",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
