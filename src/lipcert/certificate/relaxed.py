"""Proofs by a relaxation: which builder a method's name means, and its certificate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lipcert.certificate.certificate import Certificate
from lipcert.certificate.multipliers import Proof, check, prove
from lipcert.errors import MethodError
from lipcert.network import Network
from lipcert.norms import Norm
from lipcert.propagation import Interval
from lipcert.quadratic.model import Relaxation
from lipcert.quadratic.one_layer import CHORDS, check_applies, hr2, shor
from lipcert.region import Region, check_region
from lipcert.rounding import Array

RELAXATIONS = ("shor", "hr2")


def build(
    net: Network,
    region: Region,
    norm: Norm,
    c: Array,
    method: str,
    pre: tuple[Interval, ...] | None = None,
    chords: bool | None = None,
) -> Relaxation:
    """The relaxation that a method's name means for this network, region and output; `chords` as in `hr2`."""
    if method not in RELAXATIONS:
        raise MethodError(f"unknown relaxation {method!r}; use one of {', '.join(RELAXATIONS)}")
    check_region(region, net.inputs)
    check_applies(net, norm, method)
    return hr2(net, region, c, pre, chords) if method == "hr2" else shor(net, region, c, pre)


def prove_relaxed(
    net: Network, region: Region, norm: Norm, c: Array, relaxation: Relaxation, multipliers: Array
) -> Certificate:
    """The certificate from any multipliers, good or bad."""
    return _certificate(net, region, norm, c, relaxation, prove(relaxation, multipliers))


def recheck(
    net: Network,
    region: Region,
    norm: Norm,
    c: Array,
    method: str,
    multipliers: Mapping[str, Array],
    shift: Mapping[str, Array],
) -> float:
    """The bound that stored multipliers and shift prove, infinite when none; everything else is rebuilt."""
    relaxation = build(net, region, norm, c, method, chords=CHORDS in multipliers)
    if not relaxation.fits(multipliers, shift):
        return np.inf
    return check(relaxation, relaxation.unpack(multipliers), relaxation.gather(shift)).upper


def _certificate(
    net: Network, region: Region, norm: Norm, c: Array, relaxation: Relaxation, proof: Proof
) -> Certificate:
    return Certificate(
        relaxation.name,
        net.sha256,
        region,
        norm,
        c,
        proof.upper,
        relaxation.pack(proof.multipliers),
        relaxation.spread(proof.shift),
    )
