"""Certificate: what was proved, about what."""

from __future__ import annotations

from dataclasses import dataclass

from lipcert.norms import Norm
from lipcert.region import Region
from lipcert.rounding import Array


@dataclass(frozen=True, eq=False)
class Certificate:
    """||gradient of c'scores||_dual <= upper on the region, for the network with this hash.

    Made by the `prove_*` functions of this package only; `method` names the proof.
    """

    method: str
    network_sha256: str
    region: Region
    norm: Norm
    c: Array
    upper: float
