"""Convolutions whose matrix was written out: the kernel is read from one row, and the matrix is compared with it."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lipcert.errors import InputError
from lipcert.problem.convolution import Convolution, Kernel, Window
from lipcert.problem.maps import Matrix, is_sparse


def convolution_of(weight: Matrix) -> Convolution | None:
    """The convolution that a weight is, or is the matrix of, on images of two axes with equal strides and pads."""
    if isinstance(weight, Kernel):
        return weight if isinstance(weight, Convolution) else None
    if not is_sparse(weight):
        return None
    w = sparse.csr_array(weight)
    w.sort_indices()
    for map_ in _candidates(w):
        if map_.shape == w.shape and (abs(map_.tocsr() - w) > 0).nnz == 0:
            return map_
    return None


def _candidates(w: sparse.csr_array) -> list[Convolution]:
    """Convolutions that have the longest row of the matrix."""
    r = int(np.argmax(np.diff(w.indptr)))
    columns = w.indices[w.indptr[r] : w.indptr[r + 1]].astype(np.int64)
    starts = columns[np.flatnonzero(np.diff(columns, prepend=-2) != 1)]
    taps = len(columns) // max(len(starts), 1)
    if len(starts) < 2 or taps * len(starts) != len(columns):
        return []
    wide = int(starts[1] - starts[0])
    steps = np.flatnonzero(np.diff(starts) != wide)
    high = int(steps[0]) + 1 if len(steps) else len(starts)
    size = int(starts[high] - starts[0]) if len(steps) else w.shape[1]
    channels = len(starts) // high
    if size % wide or channels * size != w.shape[1] or channels * high != len(starts):
        return []
    sides, top = (size // wide, wide), divmod(int(columns[0]) % size, wide)
    found = []
    for stride in range(1, 5):
        for pad in range(max(high, taps)):
            window = Window((high, taps), (stride, stride), (1, 1), (pad, pad), (pad, pad))
            try:
                outputs = window.outputs(sides)
            except InputError:
                continue
            area = outputs[0] * outputs[1]
            place = (top[0] + pad) // stride, (top[1] + pad) // stride
            at = place[0] * outputs[1] + place[1]
            if w.shape[0] % area or r % area != at:
                continue
            rows = w[np.arange(w.shape[0] // area) * area + at]
            kernel = rows[:, columns].toarray().reshape(-1, channels, high, taps)
            found.append(Convolution(kernel, sides, window))
    return found
