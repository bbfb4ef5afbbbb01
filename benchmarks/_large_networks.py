"""Random networks that are too large for one moment matrix."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from benchmarks._networks import he_normal
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix
from lipcert.problem.region import Box

NETWORKS: dict[str, tuple[tuple[int, ...], float]] = {
    "784-3000-10": ((784, 3000, 10), 0.1),
    "784-2000-10": ((784, 2000, 10), 0.1),
    "784-1000-1000-10": ((784, 1000, 1000, 10), 0.1),
    "784-1000-1000-10-local": ((784, 1000, 1000, 10), 0.002),
    "50-8x125-10": ((50, *(125,) * 8, 10), 0.1),
    "784-8x1000-10": ((784, *(1000,) * 8, 10), 0.01),
    "conv-3x32x32": ((3, 32, 8, 16), 0.01),
    "conv-3x32x32-local": ((3, 32, 8, 16), 0.002),
}


def convolution(rng: np.random.Generator, channels: int, side: int, out: int) -> Matrix:
    """A 4 x 4 convolution of stride 2 and padding 1 as a sparse matrix, for pictures of `channels` x side x side."""
    kernel = rng.normal(size=(out, channels, 4, 4)) * np.sqrt(2 / (channels * 16))
    half = side // 2
    o, y, x, c, i, j = np.meshgrid(*map(np.arange, (out, half, half, channels, 4, 4)), indexing="ij")
    row, column = 2 * y + i - 1, 2 * x + j - 1
    inside = (row >= 0) & (row < side) & (column >= 0) & (column < side)
    places = (((o * half + y) * half + x)[inside], ((c * side + row) * side + column)[inside])
    shape = (out * half * half, channels * side * side)
    return sparse.csr_array(sparse.coo_array((kernel[o, c, i, j][inside], places), shape))


def conv_network(channels: int, side: int, first: int, second: int) -> Network:
    rng = np.random.default_rng(0)
    width = second * (side // 4) ** 2
    weights: list[Matrix] = [convolution(rng, channels, side, first), convolution(rng, first, side // 2, second)]
    weights += [rng.normal(size=(100, width)) * np.sqrt(2 / width), rng.normal(size=(10, 100)) * np.sqrt(2 / 100)]
    return Network.from_weights(weights, [0.1 * rng.normal(size=w.shape[0]) for w in weights])


def made(name: str) -> tuple[Network, Box]:
    """The network of that name with its box."""
    sizes, radius = NETWORKS[name]
    net = conv_network(*sizes) if name.startswith("conv") else he_normal(sizes)
    return net, Box(np.random.default_rng(1).uniform(size=net.inputs), radius)
