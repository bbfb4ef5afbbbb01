"""NumPy archives: W1, b1, W2, b2, ... with weights (out, in), and what `Network.save` adds to them.

A file without activations is a ReLU network. Member sizes and array headers are checked before any data are read, and
nothing is ever unpickled.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lipcert.errors import FileFormatError, InputError
from lipcert.files import MAX_WIDTH
from lipcert.files.archive import Archive, Expected, holds
from lipcert.files.boundary import located, parsing, quoted
from lipcert.problem.activations import IDENTITY, KINDS, RELU, Activation
from lipcert.problem.blocks import Affine, Block
from lipcert.problem.convolution import Convolution
from lipcert.problem.maps import Matrix
from lipcert.problem.network import EXTENDED_VERSION, Network

_NAMES = re.compile(
    r"(?:W[1-9]\d{0,3}(?:_from\d{1,4})?(?:_data|_indices|_indptr|_shape|_kernel|_geometry)?"
    r"|b[1-9]\d{0,3}|format|activations|alphas)"
)
_INDEX = ("_indices", "_indptr")
_SPARSE = ("_data", "_indices", "_indptr", "_shape")
_CONVOLUTION = ("_kernel", "_geometry")
_LONGEST_GEOMETRY = 1 + 6 * 8  # the numbers that describe a convolution over eight axes


def read(path: Path) -> Network:
    """The network of an .npz file."""
    with located(path):
        content = "a network, which holds W1, b1, W2, b2, ... with weights (out, in)"
        advice = "export the network again"
        try:
            arrays = Archive(path, Expected(_NAMES, content, advice, frozenset({"activations"}), _INDEX))
        except FileFormatError:
            if holds(path, "network"):  # the hash that every certificate of a network has
                raise FileFormatError("a certificate, not a network; give the file of the network") from None
            raise
        return _network(arrays)


def _network(arrays: Archive) -> Network:
    numbers = {int(m.group()) for name in arrays if (m := re.search(r"\d+", name))}
    if not numbers:
        raise FileFormatError("no weights; a network holds W1, b1, W2, b2, ... with weights (out, in)")
    layers = len(numbers)
    if numbers != set(range(1, layers + 1)):
        missing = next(i for i in range(1, layers + 1) if i not in numbers)
        raise FileFormatError(f"array W{missing} is missing; layers are numbered from 1 without gaps")
    if "format" in arrays:
        _check_format(arrays["format"])
    activations = _activations(arrays, layers - 1)
    blocks = [_block(arrays, i, f) for i, f in enumerate((*activations, IDENTITY), start=1)]
    if any("_from" in name for name in arrays):
        return Network.from_blocks(blocks)
    return Network([Affine(b.terms[0][1], b.bias) for b in blocks], activations)


def _block(arrays: Archive, i: int, activation: Activation) -> Block:
    """W1, W2, .. read the block before them; W5_from2 reads block 2, and block 5 may have several of these."""
    named = rf"W{i}(?:_from(\d+))?(?:{'|'.join(_SPARSE + _CONVOLUTION)})?"
    found = {m.group(1) for name in arrays if (m := re.fullmatch(named, name))} or {None}
    if len(found) > 1 and None in found:
        raise FileFormatError(f"W{i} stands beside W{i}_from..; say of every weight which block it reads")
    bias, terms = arrays[f"b{i}"], []
    for source in sorted(found, key=lambda s: int(s or 0)):
        name = f"W{i}" if source is None else f"W{i}_from{source}"
        weight = _weight(arrays, name)
        if bias.shape != (weight.shape[0],):
            hint = "; weights are stored as (out, in)" if bias.shape == (weight.shape[1],) else ""
            raise FileFormatError(f"b{i} has the shape {bias.shape}, but {name} has {weight.shape[0]} rows{hint}")
        terms.append((i - 1 if source is None else int(source), weight))
    return Block(tuple(terms), bias.astype(np.float64), activation)


def _check_format(version: NDArray[Any]) -> None:
    if version.shape != () or version.dtype.kind not in "iu" or version < 1:
        raise FileFormatError("array format must be one positive whole number")
    if version > EXTENDED_VERSION:
        raise FileFormatError(f"written in format {version}; this lipcert reads up to {EXTENDED_VERSION}, upgrade it")


def _weight(arrays: Archive, name: str) -> Matrix:
    forms = [name in arrays, *(any(f"{name}{s}" in arrays for s in form) for form in (_SPARSE, _CONVOLUTION))]
    if sum(forms) > 1:
        raise FileFormatError(f"{name} is stored in two of the forms dense and sparse and convolution")
    if forms[2]:
        return _convolution(name, *(arrays[f"{name}{s}"] for s in _CONVOLUTION))
    if not forms[1]:
        weight = arrays[name]
        if weight.ndim != 2:
            raise FileFormatError(f"{name} has {weight.ndim} dimensions; a weight matrix has two, (out, in)")
        return weight.astype(np.float64)
    data, indices, indptr, shape = (arrays[f"{name}{s}"] for s in _SPARSE)
    if shape.shape != (2,) or any(a.dtype.kind not in "iu" for a in (indices, indptr, shape)):
        raise FileFormatError(f"the sparse {name} needs whole numbers for its indices and two for its shape")
    rows, columns = (int(n) for n in shape)
    if not (0 < rows <= MAX_WIDTH and 0 < columns <= MAX_WIDTH):
        raise FileFormatError(f"the sparse {name} has the shape ({rows}, {columns}); the limit is {MAX_WIDTH:,}")
    if data.ndim != 1 or indices.shape != data.shape or indptr.shape != (rows + 1,):
        raise FileFormatError(f"the parts of the sparse {name} do not fit together")
    # scipy trusts these arrays, so they are checked here.
    ordered = int(indptr[0]) == 0 and int(indptr[-1]) == data.size and bool(np.all(indptr[1:] >= indptr[:-1]))
    inside = bool(np.all(indices >= 0)) and bool(np.all(indices < columns))
    if not (ordered and inside):
        raise FileFormatError(f"the indices of the sparse {name} are out of range")
    parts_as_int = (indices.astype(np.int32), indptr.astype(np.int32))
    return sparse.csr_array((data.astype(np.float64), *parts_as_int), shape=(rows, columns))


def _convolution(name: str, kernel: NDArray[Any], geometry: NDArray[Any]) -> Matrix:
    """A convolution by its kernel (out channels, in channels per group times taps) and its `Convolution.geometry`."""
    if geometry.ndim != 1 or geometry.dtype.kind not in "iu" or geometry.size > _LONGEST_GEOMETRY:
        raise FileFormatError(f"{name}_geometry must be one row of whole numbers")
    try:
        return Convolution.of_geometry(kernel.astype(np.float64), [int(n) for n in geometry])
    except InputError as error:
        raise FileFormatError(f"the convolution {name}: {error}") from None


def _activations(arrays: Archive, count: int) -> tuple[Activation, ...]:
    if "activations" not in arrays:
        if "alphas" in arrays:
            raise FileFormatError("array activations is missing beside alphas")
        return (RELU,) * count
    with parsing("array activations"):
        kinds = [str(kind) for kind in arrays["activations"].reshape(-1)]
    alphas = arrays["alphas"].astype(np.float64)
    if arrays["activations"].shape != (count,) or alphas.shape != (count,):
        raise FileFormatError(f"activations and alphas must have {count} entries, one per hidden layer")
    for kind in kinds:
        if kind not in KINDS:
            raise FileFormatError(f"unknown activation {quoted(kind)}; use one of {', '.join(KINDS)}")
    return tuple(Activation(kind, float(alpha)) for kind, alpha in zip(kinds, alphas, strict=True))
