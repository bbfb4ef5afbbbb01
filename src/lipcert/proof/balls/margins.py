"""Margins on a box, in balls: c'scores at most so much, by linear forms or by a relaxation's multipliers."""

from __future__ import annotations

import math

import numpy as np

from lipcert.bounds.propagation import preactivation_bounds
from lipcert.errors import InputError, MethodError
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof.balls.cells import region_bounds
from lipcert.proof.balls.numbers import BITS, float_above, load_flint
from lipcert.proof.balls.rows import check_rows
from lipcert.proof.balls.work import check_work
from lipcert.proof.margins import MarginCertificate, MarginProof, with_margins
from lipcert.relaxation.margin import applies, margin


def margins_with_balls(certificate: MarginCertificate, net: Network) -> list[float]:
    """The proved bound of each row, infinite where there is none."""
    flint, box = load_flint(), certificate.box
    if certificate.refused(net) is not None:
        return [math.inf] * len(certificate.proofs)
    check_work(Problem.of(net, box, 0), None)
    with flint.ctx.workprec(BITS), np.errstate(all="ignore"):
        return [_checked(proof, net, box) for proof in certificate.proofs]


def _checked(proof: MarginProof, net: Network, box: Box) -> float:
    try:
        return _check(proof, net, box)
    except MethodError:
        raise
    except InputError:  # rows that overflow
        return math.inf


def _check(proof: MarginProof, net: Network, box: Box) -> float:
    if proof.c.shape != (net.outputs,):
        return math.inf
    longer = with_margins(net, proof.c[None, :])
    found = region_bounds(Problem.of(longer, box, 0), preactivation_bounds(longer, box)).pre
    if not proof.multipliers:
        return float(found[-1].hi[0])
    if not applies(net) or proof.keep < 0:
        return math.inf
    problem = Problem.of(net, box, proof.c).on(box, tuple(found[: net.depth]))
    asked = margin(problem, proof.keep)
    relaxation = asked.relaxation
    if not relaxation.fits(proof.multipliers, proof.shift):
        return math.inf
    upper = check_rows(relaxation, relaxation.unpack(proof.multipliers), relaxation.gather(proof.shift))
    return float_above(load_flint().arb(upper) - load_flint().arb(asked.lift)) if math.isfinite(upper) else math.inf
