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
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.chart.numbers import rounded_up
from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.files import write_npz
from lipcert.problem.activations.versions import lines_of_1_0_0
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.question import Arrays, Question, Statement, text_array
from lipcert.problem.region import Region
from lipcert.proof.verification import ExactBound, Verification
from lipcert.proof.ways import with_way
from lipcert.rounding import Array, worst
from lipcert.steps import expect

VERSION = 3
NOT_ASKED = "not looked at: the ordinary check proves no such bound"
_ROOM = 1e-9  # room of a claim, relative to it, for the order in which another BLAS adds
Mask = NDArray[np.bool_]


class Proof(Protocol):
    """The proof of one constant on one region: `Arithmetic`, `Multipliers`, `Slopes`, `Cases`, a tree, one `Within`,
    one `Sharpened`, one `WithBounds`."""

    @property
    def method(self) -> str:
        """The name of the method that made it."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps of the proof, by name."""

    def check(self, problem: Problem) -> float:
        """The bound that it proves for this problem, infinite when none; nothing that it says is believed."""


@dataclass(frozen=True, eq=False)
class CheckedBounds:
    """The bounds that one check proved, in the order of the claims.

    `fault` says in words why there are none, `unseen` marks the claims about values at points that do not hold.
    """

    bounds: Interval
    fault: str | None = None
    unseen: Mask | None = None

    @classmethod
    def from_uppers(cls, uppers: Array) -> CheckedBounds:
        """Upper bounds alone: the lower ends are minus infinity."""
        return cls(Interval(np.full(uppers.shape, -np.inf), uppers))

    def proved_by_both(self, other: CheckedBounds) -> CheckedBounds:
        """The bounds that both checks prove: the wider of each two."""
        lo, hi = np.minimum(self.bounds.lo, other.bounds.lo), np.maximum(self.bounds.hi, other.bounds.hi)
        unseen = other.unseen if self.unseen is None else self.unseen
        if self.unseen is not None and other.unseen is not None:
            unseen = self.unseen | other.unseen
        return CheckedBounds(Interval(lo, hi), self.fault or other.fault, unseen)


class Envelope(ABC):
    """A certificate of any kind: a question, a proof of it and claimed bounds, which can be checked and saved."""

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
        """Check the proof about this network, or this polynomial problem; with `exact` in ball arithmetic as well."""

    @property
    def network_sha256(self) -> str:
        """The hash of the network that it is about."""
        return self.statement.network_sha256

    def arrays(self) -> Arrays:
        """The arrays that `save` writes, by name."""
        statement = self.statement
        own = {"certificate": np.array(VERSION), "kind": text_array(self.kind), **self.content()}
        return {**own, **statement.arrays, **statement.hints, **statement.words()}

    def to_bytes(self) -> bytes:
        """The file that `save` writes, as bytes."""
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **self.arrays())
        return stream.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz that `lipcert verify` checks without any solver."""
        write_npz(path, self.arrays())


class NetworkCertificate(Envelope):
    """A certificate about a network. Each kind says what it claims, and has a check in each of the two arithmetics."""

    @property
    @abstractmethod
    def statement(self) -> Question:
        """The question that it answers, in full."""

    @property
    @abstractmethod
    def claimed(self) -> Interval:
        """The claims in the order of the bounds of `check`; minus infinity where only an upper bound is claimed."""

    @abstractmethod
    def check(self, net: Network) -> CheckedBounds:
        """Compute the bounds again in floating point; nothing that the file says is believed."""

    @abstractmethod
    def check_with_balls(self, net: Network, balls: Any) -> CheckedBounds:
        """Compute the bounds again in ball arithmetic; `balls` is the package `proof.balls`, loaded on demand."""

    @abstractmethod
    def unproved(self, found: CheckedBounds, who: str) -> str | None:
        """Why the claims do not follow from the bounds that `who` found, in words; None where all do."""

    @abstractmethod
    def cost(self, net: Network) -> tuple[float, str]:
        """The seconds that the check is expected to take, and a phrase that says what makes it long."""

    @property
    def method(self) -> str | None:
        """The name of the method that proved it, where there is one."""
        return None

    @property
    def checked(self) -> str:
        """The part of the proof that ball arithmetic checks, in words."""
        return "every claim"

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many parts of each kind the proof has, by the name of the kind."""
        return {}

    def refused(self, net: Network) -> str | None:
        """Why the certificate cannot prove anything about this network, whatever its bounds are; None where it can."""
        return self.statement.unfit(net)

    def verify(self, subject: Network, exact: bool = False) -> Verification:
        """Check the proof about this network and compare it with the claims; with `exact` in balls as well."""
        with lines_of_1_0_0() if self.statement.first_lines else nullcontext():
            return self._verify(subject, exact)

    def _verify(self, subject: Network, exact: bool) -> Verification:
        balls = ball_checker() if exact else None  # raises for a missing package before anything is computed
        expect(*self.cost(subject))
        refused = self.refused(subject)
        with np.errstate(all="ignore"):  # an overflow proves nothing; it is no message
            found = self._no_bounds(refused) if refused is not None else self.check(subject)
        answer = self._answer(found, self.method or "it")
        if balls is None:
            return answer
        if not answer.proved:
            return replace(answer, exact=ExactBound(math.inf, NOT_ASKED))
        second = self.check_with_balls(subject, balls)
        answer = self._answer(found.proved_by_both(second), "ball arithmetic")
        return replace(answer, exact=ExactBound(self.largest(second.bounds), self.checked))

    def _no_bounds(self, reason: str) -> CheckedBounds:
        """Bounds that prove no claim, and the reason."""
        shape = self.claimed.hi.shape
        return CheckedBounds(Interval(np.full(shape, -np.inf), np.full(shape, np.inf)), reason)

    def _answer(self, found: CheckedBounds, who: str) -> Verification:
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

    def wrong(self, found: CheckedBounds) -> Mask:
        """A mask of the claims that do not follow; an infinite upper bound claims nothing, and counts as not proved."""
        low, high = self.claimed
        fine = (low <= found.bounds.lo) & (found.bounds.hi <= high) & np.isfinite(high)
        return ~fine if found.unseen is None else ~fine | found.unseen

    def largest(self, bounds: Interval) -> float:
        """The largest upper bound of all."""
        return worst(float(bounds.hi.max())) if bounds.hi.size else 0.0


@dataclass(frozen=True, eq=False)
class Certificate(NetworkCertificate):
    """||gradient of c'scores||_dual <= upper on the region, for the network with this hash.

    With a norm of outputs, c is the identity and `upper` bounds the operator norm of the Jacobian. A file states
    `claim`, which is `upper` with room for the order in which another BLAS adds. Only the `prove_*` functions of this
    package make certificates.
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
        """The certificate of a bound of this problem.

        Where the proof uses pre-activation bounds that a checker does not compute, the multipliers that prove them are
        added to it, or the name of the way in which they were made.
        """
        return cls(Question.of_problem(problem), with_way(problem.facts.way, problem.facts.complete(proof)), upper)

    def framed(self, frame: Frame, problem: Problem) -> Certificate:
        """The same proof as a certificate in weighted norms; `problem` is the one that the user asked about."""
        question = Question.of_problem(problem)
        return replace(self, question=replace(question, norm=self.norm, coordinate=self.coordinate, frame=frame))

    @property
    def statement(self) -> Question:
        """The question that it answers, in full."""
        return self.question

    @property
    def region(self) -> Region:
        """The region on which the bound holds."""
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
        """The seconds that the check is expected to take, and a phrase that says what makes it long."""
        from lipcert.proof import cost  # here, because it knows every kind of proof

        return cost.seconds(net, self.proof), cost.words(self.proof)

    def check(self, net: Network) -> CheckedBounds:
        """Compute the bounds again in floating point; nothing that the file says is believed."""
        try:
            upper = self.proof.check(self.question.about(net).problem())
        except (MethodError, FileFormatError):  # an unknown method, or one that this network does not have, is named
            raise
        except InputError:  # rows that overflow, or that are none
            upper = math.inf
        return CheckedBounds.from_uppers(np.array([worst(upper)]))

    def check_with_balls(self, net: Network, balls: Any) -> CheckedBounds:
        """Compute the bounds again in ball arithmetic."""
        return CheckedBounds.from_uppers(np.array([balls.check_with_balls(self, net)]))

    @property
    def checked(self) -> str:
        """The part of the proof that ball arithmetic checks, in words."""
        found: str = ball_checker().what_is_checked(self.proof)
        return found

    def unproved(self, found: CheckedBounds, who: str) -> str | None:
        """Why the claim does not follow, in words."""
        upper = float(found.bounds.hi[0])
        if math.isinf(upper):
            return f"{who} proves no bound here"
        return None if upper <= self.claim else f"{who} proves {rounded_up(upper, 9)} only"


def with_room(uppers: Array) -> Array:
    """The claims that a file makes of these proved bounds: a little larger, as another BLAS adds in another order."""
    return np.nextafter(uppers * (1.0 + _ROOM), np.inf)


def ball_checker() -> Any:
    """The package `proof.balls`, imported on demand; raises at once where python-flint is missing."""
    importlib.import_module("lipcert.proof.balls.numbers").load_flint()
    return importlib.import_module("lipcert.proof.balls")
