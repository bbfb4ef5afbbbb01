"""Certificate: what was proved, about what, and the proof."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError
from lipcert.files import write_npz
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import PROVED_WITH, Problem
from lipcert.problem.region import Ball, Box, Everywhere, Polytope, Region
from lipcert.rounding import Array

CERTIFICATE_VERSION = 2


class _NetworkHash:
    """The field `network_sha256` of a certificate, which is given a network or its hash.

    The hash is computed when it is first looked at: hashing a large convolutional network takes longer than a bound.
    """

    def __get__(self, certificate: Certificate, kind: type | None = None) -> str:
        given: Network | str = vars(certificate)["_network"]
        return given if isinstance(given, str) else given.sha256

    def __set__(self, certificate: Certificate, given: Network | str) -> None:
        vars(certificate)["_network"] = given


class Proof(Protocol):
    """One of a small family: `Arithmetic`, `Multipliers`, `Slopes`, `Cases`, `Tree`, `Patterns`, one `Within`, one
    `Sharpened`.

    (And `version1.Old`, which becomes one.)
    """

    @property
    def method(self) -> str:
        """The name of the method that made it."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What a file keeps of it, by name."""

    def check(self, problem: Problem) -> float:
        """The bound that it proves for this problem, infinite when none; nothing that it says is believed."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """||gradient of c'scores||_dual <= upper on the region, for the network with this hash.

    With a norm of outputs, c is the identity and upper bounds the operator norm of the Jacobian. `coordinate` is that
    of the input where one partial derivative alone is bounded, `frame` the weights of the norms where they have some.
    `claim` is what a file states: `upper` with room for the order in which another BLAS adds. Made by the `prove_*`
    functions of this package only.
    """

    network_sha256: str
    region: Region
    norm: Norm
    c: Array
    proof: Proof
    upper: float
    coordinate: int | None = None
    claim: float = math.nan
    frame: Frame | None = None

    def __post_init__(self) -> None:
        if math.isnan(self.claim):
            object.__setattr__(self, "claim", math.nextafter(self.upper * (1.0 + 1e-9), math.inf))

    def __getstate__(self) -> dict[str, Any]:
        """Another process gets the hash in place of the network."""
        return vars(self) | {"_network": self.network_sha256}

    def __repr__(self) -> str:
        return f"Certificate(upper {self.upper:.9g} by {self.method}, {self.region!r})"

    @classmethod
    def of(cls, problem: Problem, proof: Proof, upper: float) -> Certificate:
        """About this problem. A proof that needs bounds which a checker does not compute is kept with theirs."""
        p = problem
        complete: Callable[[Proof], Proof] | None = p.kept(PROVED_WITH, lambda: None)
        whole = proof if complete is None else complete(proof)
        return cls(cast(str, p.network), p.region, p.norm, p.c, whole, upper, p.coordinate)

    def framed(self, frame: Frame, problem: Problem) -> Certificate:
        """The same proof as one in weighted norms; the problem is the frame's question."""
        p = problem
        return replace(self, network_sha256=cast(str, p.network), region=p.region, c=p.c, frame=frame)

    @property
    def method(self) -> str:
        """The name of the method that proved it."""
        return self.proof.method

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz that `lipcert verify` checks without any solver."""
        write_npz(path, self.arrays())

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What `save` writes, by name."""
        arrays: dict[str, NDArray[np.generic]] = {"certificate": np.array(CERTIFICATE_VERSION)}
        arrays |= self.proof.arrays()
        arrays |= {
            "method": np.array(self.method, dtype="U32"),
            "network": np.array(self.network_sha256, dtype="U64"),
            "norm": np.array(self.norm.p, dtype="U8"),
            "c": self.c,
            "upper": np.array(self.claim),
        }
        if self.norm.out is not None:
            arrays["output_norm"] = np.array(self.norm.out, dtype="U8")
        if self.coordinate is not None:
            arrays["coordinate"] = np.array(self.coordinate)
        if self.frame is not None:
            arrays |= self.frame.arrays()
        return arrays | region_arrays(self.region)


Certificate.network_sha256 = _NetworkHash()  # type: ignore[assignment]


def region_arrays(region: Region) -> dict[str, NDArray[np.generic]]:
    """What a file keeps of a region, by name: nothing of the whole space."""
    if isinstance(region, Polytope):
        own: dict[str, NDArray[np.generic]] = {"side_rows": region.A, "side_bounds": region.b}
        if region.multipliers is not None:
            own["side_multipliers"] = region.multipliers
        return region_arrays(region.base) | own
    if isinstance(region, Box):
        return {"lo": region.lo, "hi": region.hi}
    if not isinstance(region, Ball):
        return {}
    clip = {} if region.clip is None else {"clip": np.array(region.clip)}
    return {"center": region.center, "radius": np.array(region.radius), **clip}


def read_region(arrays: Mapping[str, Any]) -> Region:
    """The region of a file."""
    base = _read_base(arrays)
    if "side_rows" not in arrays and "side_bounds" not in arrays:
        return base
    if isinstance(base, Everywhere):
        raise FileFormatError("half-spaces cut a box or a ball, and there is none")
    hints = read_numbers(arrays, "side_multipliers", 2) if "side_multipliers" in arrays else None
    return Polytope(base, read_numbers(arrays, "side_rows", 2), read_numbers(arrays, "side_bounds"), multipliers=hints)


def _read_base(arrays: Mapping[str, Any]) -> Box | Ball | Everywhere:
    if "center" in arrays or "radius" in arrays:
        radius, clip = arrays["radius"], read_numbers(arrays, "clip") if "clip" in arrays else None
        if radius.shape != () or radius.dtype.kind not in "fiu" or (clip is not None and clip.shape != (2,)):
            raise FileFormatError("the radius must be one number and clip two")
        ends = None if clip is None else (float(clip[0]), float(clip[1]))
        return Ball(read_numbers(arrays, "center"), float(radius), ends)
    if "lo" in arrays or "hi" in arrays:
        return Box.from_bounds(read_numbers(arrays, "lo"), read_numbers(arrays, "hi"))
    return Everywhere()


def read_numbers(arrays: Mapping[str, Any], name: str, axes: int = 1) -> Array:
    """An array of a file with so many axes."""
    value = arrays[name]
    if value.ndim != axes or value.dtype.kind not in "fiu":
        raise FileFormatError(f"{name} must be a vector of numbers")
    return np.asarray(value, dtype=np.float64)
