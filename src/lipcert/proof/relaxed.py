"""Proofs by a relaxation: which builder a method's name means, and its certificate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipcert.bounds.gains import Gains
from lipcert.bounds.propagation import Interval
from lipcert.errors import MethodError
from lipcert.problem.network import Network
from lipcert.problem.norms import INF, Norm
from lipcert.problem.region import Ball, Box, Everywhere, Region, check_region
from lipcert.proof.certificate import Certificate
from lipcert.proof.multipliers import check, prove
from lipcert.relaxation.cuts import NO_CUTS, Cuts, valid_table, with_cuts
from lipcert.relaxation.ends import Ends
from lipcert.relaxation.lifts import LIFTS, has_wide, lift, reaches_everything
from lipcert.relaxation.lifts import check_applies as check_lift
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.one_layer import CHORDS, check_applies, hr2, shor
from lipcert.relaxation.reduced import check_part, reduced
from lipcert.relaxation.reduction import Reduction, reduction_from
from lipcert.rounding import Array

RELAXATIONS = ("shor", "hr2", *LIFTS, "tight")
TIGHT = "backward"  # the lift behind tight, chosen by measurement: docs/ablation.md


def build(
    net: Network,
    region: Region,
    norm: Norm,
    c: Array,
    method: str,
    pre: tuple[Interval, ...] | None = None,
    chords: bool | None = None,
    values: bool | None = None,
    reduction: Reduction | None = None,
    known: Gains | None = None,
    coordinate: int | None = None,
) -> Relaxation:
    """The relaxation that a method's name means for this network, region and output; `chords` as in `hr2`.

    `values` says whether `tight` lifts the values x too; None leaves it to the box.
    `reduction` says which part of a large network the matrix keeps; `known` are its gains when at hand already.
    `coordinate` is that of the input in norm 1, where the constant is the largest of as many problems.
    """
    if method not in RELAXATIONS:
        raise MethodError(f"unknown relaxation {method!r}; use one of {', '.join(RELAXATIONS)}")
    check_region(region, net.inputs)
    check_relaxation(net, norm, method, region)
    ends = _ends(norm, coordinate)
    if reduction is not None:
        check_part(net, norm, method)
        return replace(reduced(net, region, c, reduction, pre, known), name=method)
    match method:
        case "shor":
            return shor(net, region, c, pre)
        case "hr2":
            return hr2(net, region, c, pre, chords)
        case "tight":
            if isinstance(region, Box | Everywhere) and _one_layer(net, norm):
                return replace(hr2(net, region, c, pre, chords, True), name="tight")
            if values is None:
                values = not reaches_everything(net, region)
            name = TIGHT if values else f"{TIGHT}-free"
            return replace(lift(name, net, region, c, pre, chords, True, ends), name="tight")
        case _:
            return lift(method, net, region, c, pre, chords, ends=ends)


def _ends(norm: Norm, coordinate: int | None) -> Ends:
    """One problem of a norm; those that are the largest of several need to say which."""
    if (norm.p == "1") != (coordinate is not None) or norm.out == "inf":
        raise MethodError(f"the norm {norm.words} is the largest of several problems; ask for one of them")
    return Ends(norm, coordinate)


def _one_layer(net: Network, norm: Norm) -> bool:
    """Whether `tight` is `hr2` with more rows."""
    kinked = net.depth == 1 and net.activations[0].kind in ("relu", "leaky_relu")
    return kinked and net.activations[0].alpha <= 1.0 and norm == INF


def check_relaxation(net: Network, norm: Norm, method: str, region: Region | None = None) -> None:
    """Refuse a network, norm or region that the relaxation does not cover, by name."""
    ball = isinstance(region, Ball)
    if method in LIFTS or (method == "tight" and (ball or not _one_layer(net, norm))):
        check_lift(net, method)
    elif ball:
        raise MethodError(f"method {method} works on boxes, not on balls; use tight, or one of {', '.join(LIFTS)}")
    else:
        check_applies(net, norm, method)


def prove_relaxed(
    net: Network,
    region: Region,
    norm: Norm,
    c: Array,
    relaxation: Relaxation,
    multipliers: Array,
    cuts: Cuts = NO_CUTS,
    reduction: Reduction | None = None,
    coordinate: int | None = None,
) -> Certificate:
    """The certificate from any multipliers, good or bad; `cuts` and `reduction` are those that the relaxation has."""
    proof = prove(relaxation, multipliers)
    return Certificate(
        relaxation.name,
        net.sha256,
        region,
        norm,
        c,
        proof.upper,
        relaxation.pack(proof.multipliers),
        relaxation.spread(proof.shift),
        cuts.table if len(cuts) else None,
        reduction=None if reduction is None else reduction.table,
        coordinate=coordinate,
    )


def recheck(certificate: Certificate, net: Network) -> float:
    """The bound that a certificate's multipliers and shift prove, infinite when none; everything else is rebuilt."""
    found = rebuilt(certificate, net)
    return np.inf if found is None else check(*found).upper


def rebuilt(certificate: Certificate, net: Network) -> tuple[Relaxation, Array, Array] | None:
    """The relaxation of a certificate with its multipliers and shift; None when they do not fit."""
    region, norm, c, multipliers = certificate.region, certificate.norm, certificate.c, certificate.multipliers
    chords, values = CHORDS in multipliers or has_wide(multipliers), "w" in certificate.shift
    part = None
    if certificate.cuts is not None and not valid_table(certificate.cuts):
        return None  # a file's table was looked at when it was read, one made in memory was not
    if certificate.reduction is not None:
        part = reduction_from(certificate.reduction, net.shape)
        if part is None:
            return None
    about = (net, region, norm, c, certificate.method, None, chords, values, part)
    relaxation = build(*about, coordinate=certificate.coordinate)
    if certificate.cuts is not None:
        relaxation = with_cuts(relaxation, Cuts(certificate.cuts))
    if not relaxation.fits(multipliers, certificate.shift):
        return None
    return relaxation, relaxation.unpack(multipliers), relaxation.gather(certificate.shift)
