"""Sound bounds of a plain region, rounded outward: pre-activations, slopes, and gradients of a problem.

Each is computed once and kept in the problem. Every function returns bounds that hold for the exact real arithmetic of
the given weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lipcert.bounds.cell import whole
from lipcert.bounds.engine import Bounds, Pass
from lipcert.bounds.gradients import gradient_bounds, slope_bounds
from lipcert.bounds.interval import Interval, affine_interval
from lipcert.bounds.substitution import work
from lipcert.problem.network import Network
from lipcert.problem.problem import Fact, Preactivations, Problem
from lipcert.problem.region import Region, check_region

if TYPE_CHECKING:  # a checker has no budget
    from lipcert.budget import Budget

__all__ = [
    "Interval",
    "affine_interval",
    "cut_short",
    "forms_work",
    "gradient_bounds",
    "gradients",
    "plain",
    "preactivation_bounds",
    "preactivations",
    "slope_bounds",
    "slopes",
]


def preactivations(problem: Problem, budget: Budget | None = None) -> tuple[Interval, ...]:
    """Bounds of z_1 .. z_m for every input of the region, kept in the problem.

    Where the budget ends early the neurons that remain have plain intervals, and `cut_short` says so: whoever checks
    a proof computes without a budget, so a proof that needs the checker's bounds cannot be made with these.
    """
    known = problem.facts.preactivations
    if known is None:
        found = _on_region(problem.network, problem.region, budget)
        known = problem.facts.preactivations = Preactivations(found.of(0), looser=found.cut_short)
    return known.intervals


def plain(problem: Problem) -> Problem:
    """The same problem with plain intervals in place of the best pre-activation bounds: a few products per block.

    What arithmetic proves of it holds, and a checker, who has better bounds, finds a number that is no larger.
    """
    found = preactivation_bounds(problem.network, problem.region, backward=False)
    return problem.on(problem.region, found, looser=True)


def forms_work(net: Network) -> Iterator[tuple[float, str]]:
    """The work of the linear forms of all neurons, block by block, as operations of a kind."""
    for i in range(1, net.depth):
        operations, kind = work(net.blocks[i], net.blocks[:i])
        yield net.blocks[i].width * operations, kind


def cut_short(problem: Problem) -> bool:
    """Whether the pre-activation bounds kept in the problem are not the best because a budget ended."""
    known = problem.facts.preactivations
    return known is not None and known.looser


@Fact
def slopes(problem: Problem) -> tuple[Interval, ...]:
    """Bounds of the activations' derivatives on the region, block by block, kept in the problem."""
    return slope_bounds(problem.network, preactivations(problem))


@Fact
def gradients(problem: Problem) -> tuple[Interval, ...]:
    """Bounds of the gradient of c'scores with respect to x_0 .. x_m on the region, kept in the problem; one output."""
    return gradient_bounds(problem.network, preactivations(problem), problem.c, slopes(problem))


def preactivation_bounds(
    net: Network, region: Region, *, backward: bool = True, budget: Budget | None = None
) -> tuple[Interval, ...]:
    """As `preactivations`, for a network and a region alone; `backward=False` leaves it at plain intervals."""
    return _on_region(net, region, budget, backward).of(0)


def _on_region(net: Network, region: Region, budget: Budget | None, backward: bool = True) -> Bounds:
    check_region(region, net.inputs)
    return Pass(net, [whole(net, region)], every=True, forms=backward, budget=budget).run()
