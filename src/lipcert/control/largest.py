"""The largest box around a point on which a constant is proved below a limit: a small-gain condition, a contraction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from lipcert.budget import Budget
from lipcert.chart.facts import Facts, Shown
from lipcert.chart.numbers import rounded_down, rounded_up
from lipcert.errors import InputError
from lipcert.method.bound import bound
from lipcert.method.result import Result
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.search.progress import Status

_STEPS = 200


@dataclass(frozen=True, eq=False, repr=False)
class LargestBox(Shown):
    """The constant is proved below the limit on the box of `radius`; on that of `beyond` it is not.

    `refuted` says that a witness in the latter has a constant at or above the limit, so that `beyond` is a true end;
    otherwise nothing was proved there within the time. `result` is that of the box proved, None where none is.
    """

    radius: float
    beyond: float
    refuted: bool
    result: Result | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "radius": self.radius,
            "beyond": self.beyond if math.isfinite(self.beyond) else None,
            "refuted": self.refuted,
            "result": None if self.result is None else self.result.to_dict(),
        }

    def facts(self) -> Facts:
        """The short table that a person reads first."""
        proved = self.result is not None
        rows = [("radius", f"{rounded_down(self.radius, 6)}   proved" if proved else "none   nothing was proved")]
        if self.result is not None:
            upper = rounded_up(self.result.upper, 6)
            rows.append(("constant", f"{upper}   at most, on that box ({self.result.method})"))
        if math.isfinite(self.beyond):
            end = "a witness says no" if self.refuted else "nothing was proved in the time"
            rows.append(("beyond", f"{self.beyond:.6g}   {end}"))
        return Facts("Largest box with a constant below the limit", rows)


def largest_box(
    net: Network,
    center: ArrayLike,
    below: float,
    *,
    most: float = 1e3,
    accuracy: float = 0.01,
    time_limit: float = 60.0,
    on_try: Callable[[float, Result], None] | None = None,
    **options: Any,
) -> LargestBox:
    """The largest radius, up to a factor 1 + accuracy, of a box around `center` with a constant proved below a limit.

    Args:
        net, center: the network, and the middle of the boxes.
        below: the limit, e.g. one over the gain of the rest of the loop, or 1 for the contraction of a closed loop.
        most: the largest radius asked about.
        accuracy: relative, of the radius.
        time_limit: seconds in all.
        on_try: called with every radius tried and its result.
        options: what else `bound` takes: output, norm, input_weights, method, ...

    Constants grow with the box, so bisection finds the end of those that can be proved.
    """
    for name, value in (("below", below), ("most", most), ("accuracy", accuracy), ("time_limit", time_limit)):
        if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise InputError(f"{name} must be a positive number, not {value!r}")
    budget = Budget.of_seconds(time_limit)
    good, bad, refuted, best = 0.0, math.inf, False, None
    radius = float(most)
    for _ in range(_STEPS):
        found = bound(net, Box(center, radius), time_limit=_share(budget), below=below, **options)
        if on_try is not None:
            on_try(radius, found)
        if found.upper < below:
            good, best = radius, found
        else:
            bad, refuted = radius, found.lower is not None and found.lower >= below
        stopped = found.status is Status.INTERRUPTED or budget.over()
        if good == most or stopped or bad <= good * (1 + accuracy) or bad < most * 1e-6:
            break
        radius = bad / 8 if not good else math.sqrt(good * bad)
    return LargestBox(good, bad, refuted, best)


def _share(budget: Budget) -> float:
    """Seconds for one radius, a share of the time that is left: easy radii take less."""
    return max(0.25 * budget.left(), 0.05)
