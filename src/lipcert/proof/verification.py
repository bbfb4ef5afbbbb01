"""Verification: what a check of a certificate found, for every kind of certificate."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from lipcert.chart.facts import Shown
from lipcert.chart.numbers import rounded_up
from lipcert.problem.question import Statement
from lipcert.rounding import worst

if TYPE_CHECKING:
    from lipcert.chart.facts import Facts
    from lipcert.problem.network import Network

V = TypeVar("V", bound="Verification")


@dataclass(frozen=True)
class Exact:
    """What ball arithmetic proved, infinite when nothing, and in words what it looked at."""

    upper: float
    checked: str


@dataclass(frozen=True, repr=False)
class Verification(Shown):
    """What `verify` found: `upper` is what was proved just now, infinite when nothing was.

    `proved` says whether that supports the `claim` of the certificate, `reason` in words why or why not. `statement` is
    what the certificate is about, made from its own arrays. `exact` is there where ball arithmetic was asked for too;
    then both checks must prove the claim.
    """

    kind: ClassVar[str] = "a verification"

    proved: bool
    upper: float
    claim: float
    reason: str
    statement: Statement | None = field(default=None, compare=False)
    method: str | None = field(default=None, compare=False)
    exact: Exact | None = field(default=None, compare=False)

    def rows(self) -> list[tuple[str, str]]:
        """Names and values, without the verdict."""
        how = "" if self.method is None else f" ({self.method})"
        found = [
            ("upper", f"{rounded_up(self.upper, 9)}   recomputed now{how}" if math.isfinite(self.upper) else "none")
        ]
        if self.exact is not None:
            balls = rounded_up(self.exact.upper, 9) if math.isfinite(self.exact.upper) else "none"
            found.append(("in balls", f"{balls}   {self.exact.checked}"))
        return [*found, ("claim", f"{rounded_up(self.claim, 9)}   as stored"), *self.about()]

    def about(self) -> list[tuple[str, str]]:
        """Names and values of what the certificate states."""
        return [] if self.statement is None else [("about", self.statement.sentence), *self.statement.rows]

    def facts(self) -> Facts:
        """What a person wants to read first."""
        from lipcert.chart.facts import Facts  # here, so that a check loads nothing that it does not need

        verdict = "Certificate proved" if self.proved else "Certificate not proved"
        return Facts(verdict, [*self.rows(), ("reason", self.reason)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite number is null."""
        found: dict[str, Any] = {
            "proved": self.proved,
            "upper": finite(self.upper),
            "claim": finite(self.claim),
            "reason": self.reason,
            "statement": None if self.statement is None else self.statement.to_dict(),
        } | ({} if self.statement is None else dict(self.statement.plain))
        if self.method is not None:
            found["method"] = self.method
        if self.exact is not None:
            found["exact"] = {"upper": finite(self.exact.upper), "checked": self.exact.checked}
        return found


class Provable(Protocol):
    """A certificate of any kind."""

    @property
    def statement(self) -> Statement:
        """What it is about."""

    def verify(self, net: Network, exact: bool = False) -> Verification:
        """What it proves about this network; with `exact` in ball arithmetic as well."""


def with_balls(answer: V, balls: float, checked: str) -> V:
    """The verdict of both checks together, where `balls` is what the second one proved."""
    second = Exact(balls, checked)
    if balls <= answer.claim:
        return replace(answer, exact=second)
    reason = (
        "ball arithmetic proves no bound"
        if math.isinf(balls)
        else f"ball arithmetic proves {rounded_up(balls, 9)} only"
    )
    return replace(answer, proved=False, upper=worst(answer.upper, balls), reason=reason, exact=second)


def without_balls(answer: V) -> V:
    """The verdict where the first check refuses, so that the second is not asked."""
    return replace(answer, exact=Exact(math.inf, "not looked at: the ordinary check proves no such bound"))


def ball_checker() -> Any:
    """The second checker, loaded when it is asked for; says at once when its package is missing."""
    importlib.import_module("lipcert.proof.balls.numbers").load_flint()
    return importlib.import_module("lipcert.proof.balls")


def finite(number: float) -> float | None:
    """The number for JSON: an infinite one is null."""
    return number if math.isfinite(number) else None
