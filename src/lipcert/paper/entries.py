"""An entry of a table or figure: one network, one region, one method. A job computes them piece by piece.

Two targets that need the same entry share it: its name says everything that it depends on besides the job's limits.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from lipcert.paper.networks import paper_network, paper_region
from lipcert.problem.network import Network
from lipcert.problem.region import Region

LBS, SHOR, HR1, HR2, LIPOPT3, LIPOPT4, OURS = "LBS", "SHOR", "HR-1", "HR-2", "LipOpt-3", "LipOpt-4", "ours"
METHODS = (LBS, SHOR, HR1, HR2, LIPOPT3, LIPOPT4, OURS)  # in the order of the tables
UPPER = METHODS[1:]
REGIONS = ("global", "local")


@dataclass(frozen=True, order=True)
class Random:
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
class Given:
    """A trained network: read from a file, or trained before. `regions` by name; `output` is the score to bound."""

    label: str
    network: Network
    regions: tuple[tuple[str, Region], ...]
    output: int = 0
    seed: ClassVar[int] = 0  # of the points at which it is sampled

    @cached_property
    def name(self) -> str:
        where = "-".join(f"{key}{box.to_dict()!r}" for key, box in self.regions)
        return f"{self.label}-{self.network.sha256[:12]}-{hashlib.sha256(where.encode()).hexdigest()[:8]}-{self.output}"

    def net(self) -> Network:
        return self.network

    def region(self, name: str) -> Region:
        return dict(self.regions)[name]


@dataclass(frozen=True)
class Entry:
    """`method` bounds the Lipschitz constant of `network` on its region of this name."""

    network: Random | Given
    region: str
    method: str

    @property
    def name(self) -> str:
        return f"{self.network.name}-{self.region}-{self.method.lower()}"


def shape_words(layers: int, size: int) -> str:
    """As the paper writes it, without the output."""
    return f"({size},{size})" if layers == 1 else f"({size},{size},10)"
