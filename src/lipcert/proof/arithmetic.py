"""Proofs that need no numbers, because a checker computes them again: norms, intervals, both mixed, linear bounds, and
the elimination of slopes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.elimination import Terms, largest_norm, terms
from lipcert.bounds.gains import Gains, mixed_bound, mixed_map_bound, rows_in_blocks
from lipcert.bounds.gradients import gradient_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.linear import linear_bounds, linear_map_bound
from lipcert.bounds.operator_norms import operator_norm
from lipcert.bounds.propagation import preactivations, slopes
from lipcert.bounds.substitution import Tangent, tangents
from lipcert.errors import FileFormatError
from lipcert.problem.blocks import Affine
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix
from lipcert.problem.problem import Fact, Problem
from lipcert.problem.region import hull
from lipcert.proof.certificate import Certificate
from lipcert.relaxation.reduction import gains_of
from lipcert.rounding import Array, worst


@dataclass(frozen=True)
class Arithmetic:
    """A bound that its name says how to compute: product, interval, linear, mixed or elimination.

    Any other name is that of a relaxation whose multipliers were not kept: nobody can check it.
    """

    method: str

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps besides the name: only the kind of the proof."""
        return {"proof": np.array("arithmetic")}

    def check(self, problem: Problem) -> float:
        """The bound, computed again."""
        match self.method:
            case "product":
                return prove_product(problem).upper
            case "interval":
                return prove_interval(problem).upper
            case "linear":
                return prove_linear(problem).upper
            case "mixed":
                return prove_mixed(problem).upper
            case "elimination":
                return prove_elimination(problem).upper
            case _:
                raise FileFormatError(f"the certificate names an unknown method {self.method!r}; upgrade lipcert")


INTERVAL, LINEAR = Arithmetic("interval"), Arithmetic("linear")


def prove_product(problem: Problem, exact: bool = True) -> Certificate:
    """L <= the norm of the last map times the largest slopes and norms before it, on any region, for any activation.

    A block is reached at most as far as the sum over what it reads: l_i = (largest slope) sum_j ||A_ij|| l_j, l_0 = 1.
    Without `exact` no spectral norm is computed: the bound is no smaller, so a checker, who computes them, accepts it.
    """
    norm = problem.norm
    upper = product_of_norms(
        problem.network,
        lambda weight: operator_norm(weight, norm.p, norm.p, exact=exact),
        lambda weight: _head(problem, weight, exact),
    )
    return Certificate.of(problem, Arithmetic("product"), upper)


def product_of_norms(
    net: Network, gain: Callable[[Matrix], float], head: Callable[[Matrix], float] | None = None
) -> float:
    """The product of largest slopes and of bounds of norms, sums where ways meet; `head` bounds those of the scores."""
    reach = {0: _Scaled(0.5, 1)}
    for i, block in enumerate(net.hidden, start=1):
        parts = [reach[j].times(gain(weight)) for j, weight in block.terms]
        reach[i] = _total(parts).times(block.activation.steepest)
    last = [reach[j].times((head or gain)(weight)) for j, weight in net.scores.terms]
    return _total(last).above()


def prove_interval(problem: Problem) -> Certificate:
    """L <= ||largest |gradient entries|||_dual by intervals through the chain rule [FastLip18].

    For the whole map: the operator norm of the largest |entries| of the Jacobian, which no Jacobian exceeds.
    """
    size, norm = jacobian_bounds(problem), problem.norm
    if problem.coordinate is not None:
        size = size[:, [problem.coordinate]]
    upper = norm.dual.above(size[0]) if norm.out is None else operator_norm(size, norm.p, norm.out)
    return Certificate.of(problem, INTERVAL, worst(upper))


def prove_linear(problem: Problem) -> Certificate:
    """L <= the bound that linear bounds of the gradient give (`bounds.linear`)."""
    net, own, values = problem.network, slopes(problem), _tangents(problem)
    if problem.whole_map:
        upper = linear_map_bound(net, own, problem.norm, problem.coordinate, values)
    else:
        cell = tuple(Interval(s.lo[None, :], s.hi[None, :]) for s in own)
        upper = float(linear_bounds(net, cell, problem.norm, problem.c, problem.coordinate, values).upper[0])
    return Certificate.of(problem, LINEAR, worst(upper))


def _tangents(problem: Problem) -> list[Tangent] | None:
    """Tangents of the activations on the region as one cell; None on the whole space."""
    box, pre = hull(problem.region), preactivations(problem)
    if box is None:
        return None
    cell = Interval(box.lo[None, :], box.hi[None, :])
    return tangents(problem.network, cell, tuple(Interval(z.lo[None, :], z.hi[None, :]) for z in pre))


def prove_mixed(problem: Problem, known: Gains | None = None) -> Certificate:
    """L <= the bound that Euclidean norms beside intervals give at the best layer (`bounds.gains`).

    `known` are gains to use in place of the best ones.
    """
    net, pre, known = problem.network, preactivations(problem), gains_of(problem) if known is None else known
    if problem.whole_map:
        upper = mixed_map_bound(net, pre, problem.norm, known)
    else:
        upper = mixed_bound(net, pre, problem.norm, problem.c, known)
    return Certificate.of(problem, Arithmetic("mixed"), worst(upper))


def prove_elimination(problem: Problem) -> Certificate:
    """L <= the largest norm of a gradient over all slopes (`bounds.elimination`); infinite where it is not covered."""
    found = None if refusal(problem) is not None else elimination_terms(problem)
    upper = math.inf if found is None else largest_norm(found, problem.norm)
    return Certificate.of(problem, Arithmetic("elimination"), worst(upper))


def refusal(problem: Problem) -> str | None:
    """Why elimination does not cover a problem, whatever its numbers; None when it may."""
    net, norm = problem.network, problem.norm
    if net.depth != 1:
        return f"elimination is for one hidden layer, the network has {net.depth}; use auto"
    if norm.out is not None or norm.p not in ("inf", "2") or problem.coordinate is not None:
        return "elimination bounds the gradient of one output in norm inf or 2; use auto"
    return None


@Fact
def elimination_terms(problem: Problem) -> Terms | None:
    """The terms whose slopes are eliminated one by one; None where tables would be too large."""
    return terms(problem.network, slopes(problem)[0], problem.c)


def jacobian_bounds(problem: Problem) -> Array:
    """Bounds of the magnitudes of all entries of the gradient (one row), or of the Jacobian of the whole map."""
    net, pre = problem.network, preactivations(problem)
    if not problem.whole_map:
        return gradient_bounds(net, pre, problem.c)[0].magnitude[None, :]
    size = np.concatenate(list(rows_in_blocks(net, pre, net.depth + 1)))
    return np.where(np.isnan(size), np.inf, size)


def _head(problem: Problem, weight: Matrix, exact: bool) -> float:
    """At least the dual norm of weight'c, or the operator norm of the weight for the whole map."""
    if problem.norm.out is not None:
        return operator_norm(weight, problem.norm.p, problem.norm.out, exact=exact)
    map_ = Network((Affine(weight, np.zeros(weight.shape[0])),), ())
    return problem.norm.dual.above(gradient_bounds(map_, (), problem.c)[0].magnitude)


@dataclass(frozen=True)
class _Scaled:
    """An upper bound mantissa 2^exponent >= 0, safe from underflow and overflow on the way."""

    mantissa: float
    exponent: int

    def times(self, factor: float) -> _Scaled:
        if not math.isfinite(factor) or not math.isfinite(self.mantissa) or 0.0 in (factor, self.mantissa):
            nothing = 0.0 in (factor, self.mantissa)  # zero times infinity: the other bound was not needed
            return _Scaled(0.0 if nothing else math.inf, 0)
        m, e = math.frexp(factor)
        mantissa, shift = math.frexp(math.nextafter(self.mantissa * m, math.inf))
        return _Scaled(mantissa, self.exponent + e + shift)

    def plus(self, other: _Scaled) -> _Scaled:
        small, large = sorted((self, other), key=lambda s: (s.mantissa > 0, s.exponent))
        if small.mantissa == 0.0 or not math.isfinite(large.mantissa):
            return large
        moved = math.nextafter(math.ldexp(small.mantissa, max(small.exponent - large.exponent, -1000)), math.inf)
        mantissa, shift = math.frexp(math.nextafter(large.mantissa + moved, math.inf))
        return _Scaled(mantissa, large.exponent + shift)

    def above(self) -> float:
        """A float that is not below it."""
        if self.mantissa == 0.0 or not math.isfinite(self.mantissa):
            return self.mantissa
        try:
            return math.nextafter(math.ldexp(self.mantissa, self.exponent), math.inf)
        except OverflowError:
            return math.inf


def _total(parts: list[_Scaled]) -> _Scaled:
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    return total
