"""An entry of a table or figure: one network, one region, one method; and the random networks of [CLMP20].

A job computes the entries piece by piece. Two targets that need the same entry share it: its name says everything that
it depends on besides the job's limits.

The random networks are regenerated number by number, with the points at which the paper sampled them. A Mersenne
twister seeded with the network's seed is read 32 bits at a time; u = (raw & 0xFFFFFF) 2^-24 is uniform in [0, 1), and
u (b - a) + a is evaluated in float32. Weights come before biases, layer by layer, in (-1/sqrt(fan_in),
1/sqrt(fan_in)); the 50,000 points of the global LBS follow in the same stream, as 10 u, row by row: they fill [0, 10]^n
only, although the global box is [-10, 10]^n.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.problem.region import Box, Region
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


LBS, SHOR, HR1, HR2, LIPOPT3, LIPOPT4, OURS = "LBS", "SHOR", "HR-1", "HR-2", "LipOpt-3", "LipOpt-4", "ours"
METHODS = (LBS, SHOR, HR1, HR2, LIPOPT3, LIPOPT4, OURS)  # in the order of the tables
UPPER = METHODS[1:]
REGIONS = ("global", "local")


@dataclass(frozen=True, order=True)
class RandomNetwork:
    """A random network of the paper, (size, size, 1) or (size, size, 10, 1)."""

    layers: int
    size: int
    sparsity: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.layers}x{self.size}-s{self.sparsity}-seed{self.seed}"

    @property
    def group(self) -> tuple[int, int, int]:
        """The ten networks that differ in their seed only."""
        return self.layers, self.size, self.sparsity

    @property
    def words(self) -> str:
        return shape_words(self.layers, self.size)

    def net(self) -> Network:
        return paper_network(self.size, self.sparsity, self.seed, self.layers)

    def region(self, name: str) -> Region:
        return paper_region(self.size, self.seed, name)


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A trained network: read from a file, or trained before. `regions` by name; `output` is the score to bound."""

    label: str
    network: Network
    regions: tuple[tuple[str, Region], ...]
    output: int = 0
    seed: ClassVar[int] = 0  # seed of the points at which it is sampled

    @cached_property
    def name(self) -> str:
        where = "-".join(f"{key}{box.to_dict()!r}" for key, box in self.regions)
        return f"{self.label}-{self.network.sha256[:12]}-{hashlib.sha256(where.encode()).hexdigest()[:8]}-{self.output}"

    def net(self) -> Network:
        return self.network

    def region(self, name: str) -> Region:
        return dict(self.regions)[name]


@dataclass(frozen=True)
class TargetEntry:
    """`method` bounds the Lipschitz constant of `network` on its region of this name."""

    network: RandomNetwork | TrainedNetwork
    region: str
    method: str

    @property
    def name(self) -> str:
        return f"{self.network.name}-{self.region}-{self.method.lower()}"


def shape_words(layers: int, size: int) -> str:
    """The shape as the paper writes it, without the output."""
    return f"({size},{size})" if layers == 1 else f"({size},{size},10)"
