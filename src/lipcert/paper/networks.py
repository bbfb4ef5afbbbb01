"""The random networks of [CLMP20], regenerated number by number, and the points at which the paper sampled them.

A Mersenne twister seeded with the network's seed is read 32 bits at a time; u = (raw & 0xFFFFFF) 2^-24 is uniform in
[0, 1), and u (b - a) + a is evaluated in float32. Weights come before biases, layer by layer, in (-1/sqrt(fan_in),
1/sqrt(fan_in)); the 50,000 points of the global LBS follow in the same stream, as 10 u, row by row: they fill [0, 10]^n
only, although the global box is [-10, 10]^n.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.rounding import Array

Float32 = NDArray[np.float32]

GLOBAL_RADIUS = 10.0
LOCAL_RADIUS = 0.1
SAMPLES = 50_000
SECOND_WIDTH = 10


def paper_network(size: int, sparsity: int, seed: int, hidden_layers: int = 1) -> Network:
    """The network (size, size, 1), or (size, size, 10, 1) with two hidden layers.

    Every weight matrix but the last keeps the entries with |row - column| <= (sparsity - 1) / 2.
    """
    return _read_network(np.random.RandomState(seed), size, sparsity, hidden_layers)


def paper_center(size: int, seed: int) -> Array:
    """The center of the local box."""
    return np.random.RandomState(seed).rand(size)


def paper_region(size: int, seed: int, region: str) -> Box:
    """The paper's box: 'global' of radius 10 around zero, 'local' of radius 0.1 around the center."""
    if region == "global":
        return Box(np.zeros(size), GLOBAL_RADIUS)
    if region == "local":
        return Box(paper_center(size, seed), LOCAL_RADIUS)
    raise InputError(f"paper_region({region!r}): the paper's regions are 'global' and 'local'")


def paper_samples(
    size: int, seed: int, hidden_layers: int = 1, *, samples: int = SAMPLES, chunk: int = 8192
) -> Iterator[Array]:
    """The points of the published global LBS, in chunks of at most `chunk` rows (float32 values in float64 arrays)."""
    stream = np.random.RandomState(seed)
    _read_network(stream, size, 2 * size, hidden_layers)
    for start in range(0, samples, chunk):
        rows = min(chunk, samples - start)
        yield _uniform(stream, 0.0, GLOBAL_RADIUS, (rows, size)).astype(np.float64)


def _uniform(stream: np.random.RandomState, low: float, high: float, shape: tuple[int, ...]) -> Float32:
    """The next numbers of the stream, uniform in [low, high), every operation in float32."""
    raw = stream.randint(0, 2**32, size=shape, dtype=np.uint32)
    u = (raw & np.uint32(0xFFFFFF)).astype(np.float32) * np.float32(2.0**-24)
    a, b = np.float32(low), np.float32(high)
    return np.asarray(u * (b - a) + a, dtype=np.float32)


def _read_network(stream: np.random.RandomState, size: int, sparsity: int, hidden_layers: int) -> Network:
    if size < 1 or hidden_layers not in (1, 2):
        raise InputError(f"paper_network(size={size}, hidden_layers={hidden_layers}): size >= 1 and 1 or 2 layers")
    widths = (size, size, *([SECOND_WIDTH] if hidden_layers == 2 else []), 1)
    weights: list[Float32] = []
    biases: list[Float32] = []
    for fan_in, fan_out in pairwise(widths):
        reach = 1.0 / np.sqrt(fan_in)
        weights.append(_uniform(stream, -reach, reach, (fan_out, fan_in)))
        biases.append(_uniform(stream, -reach, reach, (fan_out,)))
    banded = [np.where(_band(w.shape, sparsity), w, np.float32(0.0)) for w in weights[:-1]]
    return Network.from_weights([*banded, weights[-1]], biases)


def _band(shape: tuple[int, ...], sparsity: int) -> NDArray[np.bool_]:
    row, column = np.indices(shape)
    return np.asarray(2 * np.abs(row - column) <= sparsity - 1)
