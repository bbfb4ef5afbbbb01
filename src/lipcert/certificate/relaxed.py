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
from lipcert.quadratic.backward import backward
from lipcert.quadratic.backward import check_applies as check_backward
from lipcert.quadratic.model import Relaxation
from lipcert.quadratic.one_layer import CHORDS, check_applies, hr2, shor
from lipcert.region import Region, check_region
from lipcert.rounding import Array

RELAXATIONS = ("shor", "hr2", "backward")


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
    check_relaxation(net, norm, method)
    match method:
        case "shor":
            return shor(net, region, c, pre)
        case "hr2":
            return hr2(net, region, c, pre, chords)
        case _:
            return backward(net, region, c, pre)


def check_relaxation(net: Network, norm: Norm, method: str) -> None:
    """Refuse a network or norm that the relaxation does not cover, by name."""
    if method == "backward":
        check_backward(net, norm)
    else:
        check_applies(net, norm, method)


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
