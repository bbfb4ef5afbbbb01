"""Verification: what a check of a certificate found, for every kind of certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.chart.facts import Shown
from lipcert.chart.numbers import rounded_up
from lipcert.problem.output import output_of
from lipcert.problem.question import EveryCell, EveryEntry, Objective, Question, Statement, UpperBounds

if TYPE_CHECKING:
    from lipcert.chart.facts import Facts

Rows = list[tuple[str, str]]

_SHOWN = 5  # regions that a person reads first


@dataclass(frozen=True)
class ExactBound:
    """The bound that ball arithmetic proved, infinite when none, and in words which part of the proof it checked."""

    upper: float
    checked: str


def _none() -> Interval:
    return Interval(np.zeros(0), np.zeros(0))


@dataclass(frozen=True, repr=False)
class Verification(Shown):
    """The answer of `verify`: `upper` is the bound that was proved just now, infinite when nothing was.

    `proved` says whether that supports the `claim` of the certificate, `reason` in words why or why not. `statement` is
    the question of the certificate, made from its own arrays. `exact` is there where ball arithmetic was asked for too;
    then both checks must prove the claim.

    Certificates of cells, of entries of a Jacobian and of scores make many claims: `found` are the bounds that were
    proved just now, one by one, `claimed` those that the file states, `failed` says how many of them are not proved,
    and `upper` and `claim` are the largest of each. `sizes` counts the cells and the points of such a proof, `seen` are
    the values that the certificate claims at its points. `parts` are the answers for several regions, one for each.
    """

    kind: ClassVar[str] = "a verification"

    proved: bool
    upper: float
    claim: float
    reason: str
    statement: Statement | None = field(default=None, compare=False)
    method: str | None = field(default=None, compare=False)
    exact: ExactBound | None = field(default=None, compare=False)
    found: Interval = field(default_factory=_none, compare=False)
    claimed: Interval = field(default_factory=_none, compare=False)
    seen: Interval = field(default_factory=_none, compare=False)
    failed: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict, compare=False)
    parts: tuple[Verification, ...] = field(default=(), compare=False)

    @property
    def objective(self) -> Objective | None:
        """The objective of the question; None for polynomial problems."""
        return self.statement.objective if isinstance(self.statement, Question) else None

    @property
    def signs(self) -> dict[str, int]:
        """How many entries of a Jacobian are claimed to have each sign."""
        low, high = self.claimed
        return {
            "increasing": int(np.sum((low >= 0) & (high > 0))),
            "decreasing": int(np.sum((high <= 0) & (low < 0))),
            "zero": int(np.sum((low == 0) & (high == 0))),
            "both": int(np.sum((self.seen.lo < 0) & (self.seen.hi > 0))),
        }

    def rows(self) -> Rows:
        """Names and values, without the verdict."""
        match self.objective:
            case EveryCell(count):
                cover = "which cover the region" if self.proved else f"{self.failed:,} of them not proved"
                return [("cells", f"{count:,}, {cover}"), *self._numbers(), *self.about()]
            case EveryEntry(scores, inputs):
                words = ", ".join(f"{count:,} {word}" for word, count in self.signs.items() if count)
                return [
                    ("entries", f"{len(scores)} x {len(inputs)}{f': {words}' if self.proved and words else ''}"),
                    ("cells", f"{self.sizes['cells']:,}, which cover the region" if self.proved else ""),
                    ("points", f"{self.sizes['points']:,}"),
                    *([] if self.exact is None else [self._balls(self.exact)]),
                    *self.about(),
                ]
            case UpperBounds():
                how = "recomputed now" if self.exact is None else "recomputed now, also in balls"
                each = [
                    f"<= {rounded_up(u, 6)}   {how}; {rounded_up(c, 6)} as stored"
                    for u, c in zip(*self._uppers(), strict=True)
                ]
                return [*zip(map(str, self._outputs()), each, strict=True), *self.about()]
            case _:
                return [*self._numbers(), *self.about(), *self._regions()]

    def _numbers(self) -> Rows:
        """The bound that was proved now, that of ball arithmetic, and the claim."""
        how = "" if self.method is None else f" ({self.method})"
        found = [
            ("upper", f"{rounded_up(self.upper, 9)}   recomputed now{how}" if math.isfinite(self.upper) else "none")
        ]
        if self.exact is not None:
            found.append(self._balls(self.exact))
        return [*found, ("claim", f"{rounded_up(self.claim, 9)}   as stored")]

    @staticmethod
    def _balls(exact: ExactBound) -> tuple[str, str]:
        return "in balls", f"{rounded_up(exact.upper, 9) if math.isfinite(exact.upper) else 'none'}   {exact.checked}"

    def _outputs(self) -> list[Any]:
        assert isinstance(self.statement, Question)
        return [output_of(row) for row in self.statement.c]

    def _uppers(self) -> tuple[list[float], list[float]]:
        return self.found.hi.tolist(), self.claimed.hi.tolist()

    def _regions(self) -> Rows:
        return [
            (f"region {k}", f"{rounded_up(part.upper, 9)}   {part.reason}")
            for k, part in enumerate(self.parts[:_SHOWN])
        ]

    def about(self) -> Rows:
        """Names and values of what the certificate states."""
        return [] if self.statement is None else [("about", self.statement.sentence), *self.statement.rows]

    def facts(self) -> Facts:
        """The short table that a person reads first."""
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
        return found | self._more()

    def _more(self) -> dict[str, Any]:
        """The values for JSON that belong to the objective."""
        match self.objective:
            case EveryCell(count):
                return {"cells": count, "failed": self.failed}
            case EveryEntry():
                size, signs = int(self.claimed.lo.size), self.signs if self.proved else None
                return {"entries": size, "failed": self.failed, "counts": signs, **self.sizes}
            case UpperBounds():
                rows = zip(self._outputs(), *self._uppers(), strict=True)
                each = [{"output": o.description, "upper": finite(u), "claim": finite(c)} for o, u, c in rows]
                return {"margins": each, "exact": self.exact is not None}
            case _:
                return {"regions": [part.to_dict() for part in self.parts]} if self.parts else {}


def finite(number: float) -> float | None:
    """The number for JSON: an infinite one is null."""
    return number if math.isfinite(number) else None
