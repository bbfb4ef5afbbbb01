"""Proofs that need no solver: the product of layer norms, and the interval chain rule."""

from __future__ import annotations

import math

import numpy as np

from lipcert.bounds.gains import Gains, gains, jacobian_rows, mixed_bound
from lipcert.bounds.propagation import Interval, gradient_bounds, preactivation_bounds
from lipcert.bounds.spectral import operator_norm
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Region, check_region
from lipcert.proof.certificate import Certificate
from lipcert.rounding import Array


def prove_product(net: Network, region: Region, norm: Norm, c: Array) -> Certificate:
    """L <= ||A_{m+1}'c||_dual * prod_i (largest slope of f_i) * ||A_i||, on any region, for any activation.

    For the whole map the last factor is ||A_{m+1}|| from p to q.
    """
    check_region(region, net.inputs)
    if norm.out is None:
        factors = [norm.dual.above(gradient_bounds(_head(net), (), c)[0].magnitude)]
    else:
        factors = [operator_norm(net.affines[-1].weight, norm.p, norm.out)]
    for affine, f in zip(net.affines, net.activations, strict=False):
        factors += [operator_norm(affine.weight, norm.p, norm.p), f.slopes[1]]
    return Certificate("product", net.sha256, region, norm, c, _product_up(factors))


def prove_interval(
    net: Network, region: Region, norm: Norm, c: Array, pre: tuple[Interval, ...] | None = None
) -> Certificate:
    """L <= ||largest |gradient entries|||_dual by intervals through the chain rule [FastLip18].

    For the whole map: the operator norm of the largest |entries| of the Jacobian, which no Jacobian exceeds.
    `pre` are pre-activation bounds on this region from `preactivation_bounds`, when they are at hand already.
    """
    size = jacobian_bounds(net, region, norm, c, pre)
    upper = norm.dual.above(size[0]) if norm.out is None else operator_norm(size, norm.p, norm.out)
    return Certificate("interval", net.sha256, region, norm, c, upper if not math.isnan(upper) else math.inf)


def prove_mixed(
    net: Network,
    region: Region,
    norm: Norm,
    c: Array,
    pre: tuple[Interval, ...] | None = None,
    known: Gains | None = None,
) -> Certificate:
    """L <= what Euclidean norms beside intervals give at the best layer (`bounds.gains`); one output only."""
    check_region(region, net.inputs)
    if norm.out is not None:
        return Certificate("mixed", net.sha256, region, norm, c, np.inf)
    pre = preactivation_bounds(net, region) if pre is None else pre
    known = gains(net, pre, norm) if known is None else known
    return Certificate("mixed", net.sha256, region, norm, c, mixed_bound(net, pre, norm, c, known))


def jacobian_bounds(
    net: Network, region: Region, norm: Norm, c: Array, pre: tuple[Interval, ...] | None = None
) -> Array:
    """Bounds of the magnitudes of all entries of the gradient (one row), or of the Jacobian of the whole map."""
    if pre is None:
        pre = preactivation_bounds(net, region)
    if norm.out is None:
        return gradient_bounds(net, pre, c)[0].magnitude[None, :]
    size = jacobian_rows(net, pre, net.depth + 1)
    return np.where(np.isnan(size), np.inf, size)


def _head(net: Network) -> Network:
    """The last affine map alone."""
    return Network(net.affines[-1:], ())


def _product_up(factors: list[float]) -> float:
    """An upper bound on a product of non-negative floats, safe from underflow and overflow on the way."""
    if min(factors) == 0.0:
        return 0.0
    if max(factors) == math.inf:
        return math.inf
    mantissa, exponent = 1.0, 0
    for factor in factors:
        m, e = math.frexp(factor)
        mantissa, shift = math.frexp(math.nextafter(mantissa * m, math.inf))
        exponent += e + shift
    try:
        return math.nextafter(math.ldexp(mantissa, exponent), math.inf)
    except OverflowError:
        return math.inf
