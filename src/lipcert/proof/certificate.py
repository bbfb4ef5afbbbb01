"""Certificate: what was proved, about what, and by which numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lipcert.files import write_npz
from lipcert.problem.norms import Norm
from lipcert.problem.region import Ball, Box, Region
from lipcert.rounding import Array

if TYPE_CHECKING:  # a tree is made of proofs that end in certificates
    from lipcert.proof.tree import Tree

CERTIFICATE_VERSION = 1


@dataclass(frozen=True, eq=False)
class ProvedCase:
    """One problem of several: which output (-1: as asked) and coordinate (-1: all), what its relaxation was built with,
    all its multipliers and shifts in the order of its families and blocks, its cuts, and the bound."""

    output: int
    coordinate: int
    wide: bool
    values: bool
    numbers: Array
    cuts: NDArray[np.int64] | None
    upper: float

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        head = np.array([self.output, self.coordinate, self.wide, self.values], dtype=np.int64)
        arrays: dict[str, NDArray[np.generic]] = {"head": head, "numbers": self.numbers}
        return arrays if self.cuts is None else arrays | {"cuts": self.cuts}


@dataclass(frozen=True, eq=False)
class Certificate:
    """||gradient of c'scores||_dual <= upper on the region, for the network with this hash.

    With a norm of outputs, c is the identity and upper bounds the operator norm of the Jacobian. `coordinate` is that
    of the input where one partial derivative alone is bounded. `bounds` are the problems that were solved where the
    constant is the largest of several (`proof.cases`); intervals bound the others.

    Made by the `prove_*` functions of this package only; `method` names the proof. A proof by a relaxation keeps its
    multipliers by family of rows and its diagonal shift by block of variables; the others need no numbers.
    """

    method: str
    network_sha256: str
    region: Region
    norm: Norm
    c: Array
    upper: float
    multipliers: Mapping[str, Array] = field(default_factory=dict)
    shift: Mapping[str, Array] = field(default_factory=dict)
    cuts: NDArray[np.int64] | None = None  # the table of `relaxation.cuts.Cuts`, when the relaxation had any
    claim: float = math.nan  # what a file states: `upper` with room for the order in which another BLAS adds
    reduction: NDArray[np.int64] | None = None  # the table of `relaxation.reduction.Reduction`
    coordinate: int | None = None
    cases: tuple[ProvedCase, ...] = ()
    tree: Tree | None = None  # of a proof by parts of the region

    def __post_init__(self) -> None:
        if math.isnan(self.claim):
            object.__setattr__(self, "claim", math.nextafter(self.upper * (1.0 + 1e-9), math.inf))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz that `lipcert verify` checks without any solver."""
        write_npz(path, self.arrays())

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What `save` writes, by name."""
        arrays: dict[str, NDArray[np.generic]] = {
            "certificate": np.array(CERTIFICATE_VERSION),
            "method": np.array(self.method, dtype="U32"),
            "network": np.array(self.network_sha256, dtype="U64"),
            "norm": np.array(self.norm.p, dtype="U8"),
            "c": self.c,
            "upper": np.array(self.claim),
        }
        if self.norm.out is not None:
            arrays["output_norm"] = np.array(self.norm.out, dtype="U8")
        if isinstance(self.region, Box):
            arrays |= {"lo": self.region.lo, "hi": self.region.hi}
        elif isinstance(self.region, Ball):
            arrays |= {"center": self.region.center, "radius": np.array(self.region.radius)}
            if self.region.clip is not None:
                arrays["clip"] = np.array(self.region.clip)
        for k, case in enumerate(self.cases):
            arrays |= {f"case_{k}_{name}": values for name, values in case.arrays().items()}
        if self.cuts is not None:
            arrays["cuts"] = self.cuts
        if self.reduction is not None:
            arrays["reduction"] = self.reduction
        if self.tree is not None:
            arrays |= self.tree.arrays()
        for prefix, parts in (("multipliers", self.multipliers), ("shift", self.shift)):
            arrays[prefix] = np.array(list(parts), dtype="U64")
            arrays |= {f"{prefix}_{i}": values for i, values in enumerate(parts.values())}
        return arrays
