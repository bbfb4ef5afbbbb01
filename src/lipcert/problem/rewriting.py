"""Networks made from networks: linear maps before, after and beside one, with no rounding anywhere.

    x -> C f(x) + K x            `followed`: other outputs, and a connection past the network
    y -> f(S y)                  `led`: other inputs

A product of two matrices is rounded, so none is formed: the inner side becomes a block of neurons with the identity as
activation. Only where scaling is exact, by powers of two, it goes into the weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from lipcert.errors import InputError
from lipcert.problem.activations import IDENTITY
from lipcert.problem.blocks import Block
from lipcert.problem.maps import Matrix, Operator
from lipcert.problem.network import Network
from lipcert.problem.weights import powers_of_two
from lipcert.rounding import TINY, Array

_DENSE_UP_TO = 64


def followed(net: Network, outer: Matrix, beside: Matrix | None = None) -> Network:
    """x -> outer scores(x) + beside x, without a bias."""
    rows, columns = outer.shape
    if columns != net.outputs:
        raise InputError(f"a matrix with {columns} columns cannot follow a network with {net.outputs} outputs")
    terms: list[tuple[int, Matrix]] = []
    if beside is not None:
        if beside.shape != (rows, net.inputs):
            raise InputError(f"the matrix beside the network has the shape {beside.shape}, not {(rows, net.inputs)}")
        terms.append((0, beside))
    if beside is None and (scaled := _rows_scaled(net.scores, outer)) is not None:
        return Network.from_blocks((*net.hidden, scaled), net.notes)
    blocks = (*net.blocks, Block((*terms, (len(net.blocks), outer)), np.zeros(rows)))
    return Network.from_blocks(blocks, net.notes)


def led(net: Network, inner: Matrix) -> Network:
    """y -> net(inner y)."""
    if inner.shape[0] != net.inputs:
        raise InputError(f"a matrix with {inner.shape[0]} rows cannot lead to a network with {net.inputs} inputs")
    first = Block(((0, inner),), np.zeros(net.inputs), IDENTITY)
    moved = [replace(b, terms=tuple((source + 1, weight) for source, weight in b.terms)) for b in net.blocks]
    return Network.from_blocks((first, *moved), net.notes)


def scaled_inputs(net: Network, scale: Array) -> Network:
    """y -> net(scale * y), with the scale in the weights where that is exact."""
    if scale.shape != (net.inputs,):
        raise InputError(f"{scale.size} scales for {net.inputs} inputs")
    found = [[(j, w if j else _columns_scaled(w, scale)) for j, w in b.terms] for b in net.blocks]
    if any(w is None for terms in found for _, w in terms):
        return led(net, diagonal(scale))
    blocks = (replace(b, terms=tuple(terms)) for b, terms in zip(net.blocks, found, strict=True))
    return Network.from_blocks(blocks, net.notes)


def diagonal(scale: Array) -> Matrix:
    """diag(scale), dense where it is small."""
    return np.diag(scale) if len(scale) <= _DENSE_UP_TO else sparse.csr_array(sparse.diags_array(scale))


def _columns_scaled(weight: Matrix, scale: Array) -> Matrix | None:
    """weight diag(scale); None where that would be rounded or is not kept as numbers."""
    if isinstance(weight, Operator) or not np.all(powers_of_two(scale)):
        return None
    product = sparse.csr_array(weight * scale[None, :]) if sparse.issparse(weight) else weight * scale
    return product if _in_range(weight, product) else None


def _rows_scaled(scores: Block, outer: Matrix) -> Block | None:
    """The scores scaled; None where that would be rounded, or is no scaling."""
    entries = sparse.coo_array(outer)
    if outer.shape[0] != outer.shape[1] or not np.array_equal(*entries.coords) or entries.nnz < outer.shape[0]:
        return None
    scale = np.zeros(outer.shape[0])
    scale[entries.coords[0]] = entries.data
    if not np.all(powers_of_two(scale)) or any(isinstance(w, Operator) for _, w in scores.terms):
        return None
    bias = scores.bias * scale
    terms = [
        (j, sparse.csr_array(w * scale[:, None]) if sparse.issparse(w) else w * scale[:, None]) for j, w in scores.terms
    ]
    pairs = zip(scores.terms, terms, strict=True)
    if not _in_range(scores.bias, bias) or not all(_in_range(old, new) for (_, old), (_, new) in pairs):
        return None
    return replace(scores, terms=tuple(terms), bias=bias)


def _in_range(before: Matrix, after: Matrix) -> bool:
    """Whether scaling by powers of two has neither overflowed nor lost a digit."""
    old, new = (m.data if sparse.issparse(m) else np.asarray(m).ravel() for m in (before, after))
    if old.shape != new.shape:
        return False
    size = np.abs(new)
    return bool(np.all(np.isfinite(new)) and np.all((size >= TINY) | (old == 0)))
