"""Certificates: a question, a proof, and a claim. Every kind has one envelope, one file format and one check.

A file has the arrays of the question (`problem.question`), those of the proof and of the claim, which the kind writes,
the sentence in words, and

certificate   the version of the format
kind          which kind of certificate it is, by the name in `file.KINDS`

A proof is checked in two arithmetics: in floating point with outward rounding, and where that is asked for a second
time in balls. The claim is proved when every check that was asked for proves all of it.
"""

from __future__ import annotations

import importlib
import io
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.chart.numbers import rounded_up
from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.files import write_npz
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.question import Arrays, Question, Statement, text_array
from lipcert.problem.region import Region
from lipcert.proof.verification import Exact, Verification
from lipcert.rounding import Array, worst
from lipcert.steps import expect

VERSION = 3
NOT_ASKED = "not looked at: the ordinary check proves no such bound"
_ROOM = 1e-9  # of a claim, for the order in which another BLAS adds
Mask = NDArray[np.bool_]


class Proof(Protocol):
    """The proof of one constant on one region: `Arithmetic`, `Multipliers`, `Slopes`, `Cases`, a tree, one `Within`,
    one `Sharpened`."""

    @property
    def method(self) -> str:
        """The name of the method that made it."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What a file keeps of it, by name."""

    def check(self, problem: Problem) -> float:
        """The bound that it proves for this problem, infinite when none; nothing that it says is believed."""


@dataclass(frozen=True, eq=False)
class Found:
    """What one check proved: bounds in the order of the claims, or in words why there are none.

    `unseen` marks the claims about values at points that do not hold.
    """

    bounds: Interval
    fault: str | None = None
    unseen: Mask | None = None

    @classmethod
    def below(cls, uppers: Array) -> Found:
        """Upper bounds alone."""
        return cls(Interval(np.full(uppers.shape, -np.inf), uppers))

    def and_also(self, other: Found) -> Found:
        """What both checks prove."""
        lo, hi = np.minimum(self.bounds.lo, other.bounds.lo), np.maximum(self.bounds.hi, other.bounds.hi)
        unseen = other.unseen if self.unseen is None else self.unseen
        if self.unseen is not None and other.unseen is not None:
            unseen = self.unseen | other.unseen
        return Found(Interval(lo, hi), self.fault or other.fault, unseen)


class Envelope(ABC):
    """A certificate of any kind: it states a question, has a proof, claims bounds, and can be checked and saved."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def statement(self) -> Statement:
        """The question that it answers, in full."""

    @abstractmethod
    def content(self) -> Arrays:
        """The arrays of its proof and of its claim, by the names of a file."""

    @abstractmethod
    def verify(self, subject: Any, exact: bool = False) -> Verification:
        """What it proves about this network (this polynomial problem) just now; with `exact` in balls as well."""

    @property
    def network_sha256(self) -> str:
        """The hash of the network that it is about."""
        return self.statement.network_sha256

    def arrays(self) -> Arrays:
        """What `save` writes, by name."""
        asked = self.statement
        own = {"certificate": np.array(VERSION), "kind": text_array(self.kind), **self.content()}
        return {**own, **asked.arrays, **asked.hints, **asked.words()}

    def to_bytes(self) -> bytes:
        """What `save` writes, as bytes."""
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **self.arrays())
        return stream.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz that `lipcert verify` checks without any solver."""
        write_npz(path, self.arrays())


class NetworkCertificate(Envelope):
    """A certificate about a network. A kind says what it claims, and what its proof proves in both arithmetics."""

    @property
    @abstractmethod
    def statement(self) -> Question:
        """The question that it answers, in full."""

    @property
    @abstractmethod
    def claimed(self) -> Interval:
        """The claims in the order of the bounds of `check`; minus infinity where only an upper bound is claimed."""

    @abstractmethod
    def check(self, net: Network) -> Found:
        """What it proves in floating point; nothing that it says is believed."""

    @abstractmethod
    def check_with_balls(self, net: Network, balls: Any) -> Found:
        """What it proves in ball arithmetic; `balls` is the room of that name, which is loaded on demand."""

    @abstractmethod
    def unproved(self, found: Found, who: str) -> str | None:
        """Why the claims do not follow from what `who` found, in words; None where all do."""

    @abstractmethod
    def cost(self, net: Network) -> tuple[float, str]:
        """Seconds that the check will take, and in words why."""

    @property
    def method(self) -> str | None:
        """The name of the method that proved it, where there is one."""
        return None

    @property
    def checked(self) -> str:
        """What ball arithmetic looks at, in words."""
        return "every claim"

    @property
    def sizes(self) -> Mapping[str, int]:
        """What its proof consists of."""
        return {}

    def refused(self, net: Network) -> str | None:
        """Why it proves nothing about this network whatever its bounds are, in words; None where it may."""
        return self.statement.unfit(net)

    def verify(self, subject: Network, exact: bool = False) -> Verification:
        """What it proves about this network just now; with `exact` in ball arithmetic as well."""
        balls = ball_checker() if exact else None  # a missing package is said before anything is computed
        expect(*self.cost(subject))
        refused = self.refused(subject)
        with np.errstate(all="ignore"):  # an overflow proves nothing; it is no message
            found = self._nothing(refused) if refused is not None else self.check(subject)
        answer = self._answer(found, self.method or "it")
        if balls is None:
            return answer
        if not answer.proved:
            return replace(answer, exact=Exact(math.inf, NOT_ASKED))
        second = self.check_with_balls(subject, balls)
        answer = self._answer(found.and_also(second), "ball arithmetic")
        return replace(answer, exact=Exact(self.largest(second.bounds), self.checked))

    def _nothing(self, reason: str) -> Found:
        shape = self.claimed.hi.shape
        return Found(Interval(np.full(shape, -np.inf), np.full(shape, np.inf)), reason)

    def _answer(self, found: Found, who: str) -> Verification:
        reason = found.fault or self.unproved(found, who)
        return Verification(
            reason is None,
            self.largest(found.bounds),
            self.largest(self.claimed),
            reason or "proved",
            self.statement,
            self.method,
            found=found.bounds,
            claimed=self.claimed,
            failed=int(self.wrong(found).sum()) if reason else 0,
            sizes=self.sizes,
        )

    def wrong(self, found: Found) -> Mask:
        """Which claims do not follow; an infinite upper bound claims nothing, and nothing is not proved."""
        low, high = self.claimed
        fine = (low <= found.bounds.lo) & (found.bounds.hi <= high) & np.isfinite(high)
        return ~fine if found.unseen is None else ~fine | found.unseen

    def largest(self, bounds: Interval) -> float:
        """The largest upper bound of all."""
        return worst(float(bounds.hi.max())) if bounds.hi.size else 0.0


@dataclass(frozen=True, eq=False)
class Certificate(NetworkCertificate):
    """||gradient of c'scores||_dual <= upper on the region, for the network with this hash.

    With a norm of outputs, c is the identity and upper bounds the operator norm of the Jacobian. `claim` is what a file
    states: `upper` with room for the order in which another BLAS adds. Made by the `prove_*` functions of this package
    only.
    """

    kind: ClassVar[str] = "constant"

    question: Question
    proof: Proof
    upper: float
    claim: float = math.nan

    def __post_init__(self) -> None:
        if math.isnan(self.claim):
            object.__setattr__(self, "claim", float(with_room(np.asarray(self.upper))))

    def __repr__(self) -> str:
        return f"Certificate(upper {rounded_up(self.upper, 9)} by {self.method}, {self.region!r})"

    @classmethod
    def of(cls, problem: Problem, proof: Proof, upper: float) -> Certificate:
        """About this problem. A proof that needs bounds which a checker does not compute is kept with theirs."""
        return cls(Question.of_problem(problem), problem.facts.complete(proof), upper)

    def framed(self, frame: Frame, problem: Problem) -> Certificate:
        """The same proof as one in weighted norms; the problem is the frame's question."""
        asked = Question.of_problem(problem)
        return replace(self, question=replace(asked, norm=self.norm, coordinate=self.coordinate, frame=frame))

    @property
    def statement(self) -> Question:
        """The question that it answers, in full."""
        return self.question

    @property
    def region(self) -> Region:
        """Where the bound holds."""
        return self.question.region

    @property
    def norm(self) -> Norm:
        """The norms of inputs and outputs."""
        return self.question.norm

    @property
    def c(self) -> Array:
        """The weights of the scores."""
        return self.question.c

    @property
    def coordinate(self) -> int | None:
        """The number of the input where one partial derivative alone is bounded."""
        return self.question.coordinate

    @property
    def frame(self) -> Frame | None:
        """The weights of the norms, where they have some."""
        return self.question.frame

    @property
    def method(self) -> str:
        """The name of the method that proved it."""
        return self.proof.method

    @property
    def claimed(self) -> Interval:
        """The one claim."""
        return Interval(np.array([-np.inf]), np.array([self.claim]))

    def content(self) -> Arrays:
        """The proof, the name of its method and the claim."""
        return {**self.proof.arrays(), "method": text_array(self.method), "upper": np.array(self.claim)}

    def cost(self, net: Network) -> tuple[float, str]:
        """Seconds that the check will take, and in words why."""
        from lipcert.proof import cost  # here, because it knows every kind of proof

        return cost.seconds(net, self.proof), cost.words(self.proof)

    def check(self, net: Network) -> Found:
        """What it proves in floating point; nothing that it says is believed."""
        try:
            upper = self.proof.check(self.question.about(net).problem())
        except (MethodError, FileFormatError):  # an unknown method, or one that this network does not have, is named
            raise
        except InputError:  # rows that overflow, or that are none
            upper = math.inf
        return Found.below(np.array([worst(upper)]))

    def check_with_balls(self, net: Network, balls: Any) -> Found:
        """What it proves in ball arithmetic."""
        return Found.below(np.array([balls.check_with_balls(self, net)]))

    @property
    def checked(self) -> str:
        """What ball arithmetic looks at, in words."""
        found: str = ball_checker().what_is_checked(self.proof)
        return found

    def unproved(self, found: Found, who: str) -> str | None:
        """Why the claim does not follow, in words."""
        upper = float(found.bounds.hi[0])
        if math.isinf(upper):
            return f"{who} proves no bound here"
        return None if upper <= self.claim else f"{who} proves {rounded_up(upper, 9)} only"


def with_room(uppers: Array) -> Array:
    """What a file claims of these proved bounds."""
    return np.nextafter(uppers * (1.0 + _ROOM), np.inf)


def ball_checker() -> Any:
    """The second checker, loaded when it is asked for; says at once when its package is missing."""
    importlib.import_module("lipcert.proof.balls.numbers").load_flint()
    return importlib.import_module("lipcert.proof.balls")
