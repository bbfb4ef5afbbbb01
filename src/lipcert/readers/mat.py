"""MATLAB files, in the two layouts that papers of this field ship.

* `A` (p1, p0), `b`, `c`, and perhaps `x00`: the network c'relu(A x + b) with one output, and a centre.
* `weights`, a cell array of matrices (out, in), and perhaps `biases`: a ReLU network, as LipSDP keeps it.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np

from lipcert.errors import FileFormatError
from lipcert.files import check_readable, contents
from lipcert.files.boundary import located, quoted
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix
from lipcert.readers.mat5 import Variable, read_variables
from lipcert.rounding import Array

_NETWORK = frozenset({"A", "b", "c", "weights", "biases"})
CENTER = "x00"


def read(path: Path) -> Network:
    """The network of a .mat file."""
    with located(path):
        found, others = read_variables(contents(path), _NETWORK)
        if "weights" in found:
            return _chain(found)
        if {"A", "b", "c"} <= found.keys():
            return _one_output(found)
        names = ", ".join(quoted(name) for name in sorted([*found, *others])[:10]) or "none"
        raise FileFormatError(f"no network: expected A, b, c or a cell array weights, found the variables {names}")


def read_center(path: str | os.PathLike[str]) -> Array | None:
    """The vector `x00` of a .mat file, the centre of the paper's experiments, or None where there is none."""
    file = check_readable(path)
    with located(file):
        found, _ = read_variables(contents(file), frozenset({CENTER}))
        if CENTER not in found:
            return None
        center = _vector(found, CENTER)
        if not np.all(np.isfinite(center)):
            raise FileFormatError(f"variable {CENTER!r} is not finite (nan or inf)")
        return center


def _one_output(found: dict[str, Variable]) -> Network:
    A, b, c = _matrix(found["A"], "A"), _vector(found, "b"), _vector(found, "c")
    for name, vector in (("b", b), ("c", c)):
        if vector.size != A.shape[0]:
            hint = "; store A as (out, in)" if vector.size == A.shape[1] else ""
            raise FileFormatError(f"{name} has {vector.size} entries, A has {A.shape[0]} rows{hint}")
    return Network.from_weights([A, c[None, :]], [b, np.zeros(1)])


def _chain(found: dict[str, Variable]) -> Network:
    if not isinstance(found["weights"], list) or not found["weights"]:
        raise FileFormatError("variable 'weights' must be a cell array of matrices, one per layer")
    weights = [_matrix(w, f"weights{{{i}}}") for i, w in enumerate(found["weights"], start=1)]
    notes: tuple[str, ...] = ()
    if not _fits(weights):
        transposed = [w.T for w in weights]
        if not _fits(transposed):
            shapes = ", ".join(str(w.shape) for w in weights[:8])
            raise FileFormatError(f"the weights of shapes {shapes} do not follow one another; store them as (out, in)")
        weights = transposed
        notes = ("the weights are stored as (in, out) and were transposed",)
    biases = None
    if "biases" in found:
        cells = found["biases"]
        if not isinstance(cells, list) or len(cells) != len(weights):
            raise FileFormatError("variable 'biases' must be a cell array with one vector per layer")
        biases = [_vector({"": cell}, "", f"biases{{{i}}}") for i, cell in enumerate(cells, start=1)]
    return Network.from_blocks(Network.from_weights(weights, biases).blocks, notes)


def _fits(weights: list[Matrix]) -> bool:
    """Whether matrices (out, in) can follow one another."""
    return all(a.shape[0] == b.shape[1] for a, b in pairwise(weights))


def _matrix(value: Variable, name: str) -> Matrix:
    if isinstance(value, list):
        raise FileFormatError(f"variable {quoted(name)} is a cell array; a matrix is needed")
    return value


def _vector(found: dict[str, Variable], key: str, name: str = "") -> Array:
    value = _matrix(found[key], name or key)
    if min(value.shape) != 1:
        raise FileFormatError(f"variable {quoted(name or key)} has the shape {value.shape}; a row or column is needed")
    return np.asarray(value if isinstance(value, np.ndarray) else value.toarray(), dtype=np.float64).reshape(-1)
