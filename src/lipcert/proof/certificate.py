"""Certificate: what was proved, about what, and the proof."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lipcert.chart.numbers import rounded_up
from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.files import write_npz
from lipcert.problem.frame import Frame
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import output_of
from lipcert.problem.problem import Problem
from lipcert.problem.question import Question
from lipcert.problem.region import Everywhere, Region
from lipcert.proof.verification import Verification, ball_checker, with_balls, without_balls
from lipcert.rounding import Array, worst

CERTIFICATE_VERSION = 2


class Proof(Protocol):
    """One of a small family: `Arithmetic`, `Multipliers`, `Slopes`, `Cases`, `Tree`, one `Within`, one `Sharpened`."""

    @property
    def method(self) -> str:
        """The name of the method that made it."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What a file keeps of it, by name."""

    def check(self, problem: Problem) -> float:
        """The bound that it proves for this problem, infinite when none; nothing that it says is believed."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """||gradient of c'scores||_dual <= upper on the region, for the network with this hash.

    With a norm of outputs, c is the identity and upper bounds the operator norm of the Jacobian. `coordinate` is that
    of the input where one partial derivative alone is bounded, `frame` the weights of the norms where they have some.
    `claim` is what a file states: `upper` with room for the order in which another BLAS adds. Made by the `prove_*`
    functions of this package only. `network` is the network or its hash: the hash of a large network takes longer than
    a bound, and is computed when somebody looks at it.
    """

    network: Network | str
    region: Region
    norm: Norm
    c: Array
    proof: Proof
    upper: float
    coordinate: int | None = None
    claim: float = math.nan
    frame: Frame | None = None

    def __post_init__(self) -> None:
        if math.isnan(self.claim):
            object.__setattr__(self, "claim", math.nextafter(self.upper * (1.0 + 1e-9), math.inf))

    def __getstate__(self) -> dict[str, Any]:
        """Another process gets the hash in place of the network."""
        return vars(self) | {"network": self.network_sha256}

    def __repr__(self) -> str:
        return f"Certificate(upper {rounded_up(self.upper, 9)} by {self.method}, {self.region!r})"

    @classmethod
    def of(cls, problem: Problem, proof: Proof, upper: float) -> Certificate:
        """About this problem. A proof that needs bounds which a checker does not compute is kept with theirs."""
        p = problem
        return cls(p.network, p.region, p.norm, p.c, p.facts.complete(proof), upper, p.coordinate)

    def framed(self, frame: Frame, problem: Problem) -> Certificate:
        """The same proof as one in weighted norms; the problem is the frame's question."""
        p = problem
        return replace(self, network=p.network, region=p.region, c=p.c, frame=frame)

    @property
    def network_sha256(self) -> str:
        """The hash of the network that it is about."""
        return self.network if isinstance(self.network, str) else self.network.sha256

    @property
    def method(self) -> str:
        """The name of the method that proved it."""
        return self.proof.method

    @property
    def statement(self) -> Question:
        """The question that it answers, in full."""
        return Question(self.network, (self.region,), self.norm, self.c, self.coordinate, self.frame)

    def verify(self, net: Network, exact: bool = False) -> Verification:
        """What it proves about this network just now; with `exact` in ball arithmetic as well."""
        balls = ball_checker() if exact else None  # a missing package is said before anything is computed
        answer = self._verify(net)
        if balls is None:
            return answer
        if not answer.proved:
            return without_balls(answer)
        return with_balls(answer, balls.check_with_balls(self, net), balls.what_is_checked(self.proof))

    def _verify(self, net: Network) -> Verification:
        refused = self._refused(net)
        if refused is not None:
            return self._found(False, math.inf, refused)
        with np.errstate(all="ignore"):  # an overflow proves nothing; it is no message
            upper = worst(self._check(net))
        if math.isinf(upper):
            return self._found(False, upper, f"{self.method} proves no bound here")
        if not upper <= self.claim:
            return self._found(False, upper, f"{self.method} proves {rounded_up(upper, 9)} only")
        return self._found(True, upper, "proved")

    def _found(self, proved: bool, upper: float, reason: str) -> Verification:
        return Verification(proved, upper, self.claim, reason, self.statement, self.method)

    def _refused(self, net: Network) -> str | None:
        """Why it cannot be about this network, in words; None where it can."""
        if self.network_sha256 != net.sha256:
            return "the certificate is about another network (the hashes differ)"
        if self.c.shape[-1:] != (net.outputs,):
            return f"the certificate is about {self.c.shape[-1]} scores, not {net.outputs}"
        if self.c.ndim != 1 and not (self.norm.out and np.array_equal(self.c, np.eye(net.outputs))):
            return "the certificate is about several outputs, but not all of them"
        return None

    def _check(self, net: Network) -> float:
        region = self.region
        if not isinstance(region, Everywhere) and region.size != net.inputs:
            return math.inf
        if self.coordinate is not None and not (self.norm.p == "1" and 0 <= self.coordinate < net.inputs):
            return math.inf
        problem = Problem(net, region, self.norm, output_of(self.c), self.coordinate)
        try:
            if self.frame is not None:
                if problem.coordinate is not None or not self.frame.covers(net, problem.norm):
                    return math.inf
                problem = self.frame.problem(net, region, problem.norm, problem.c)
            return self.proof.check(problem)
        except (MethodError, FileFormatError):  # an unknown method, or one that this network does not have, is named
            raise
        except InputError:  # rows that overflow, or that are none
            return math.inf

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz that `lipcert verify` checks without any solver."""
        write_npz(path, self.arrays())

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """What `save` writes, by name."""
        arrays: dict[str, NDArray[np.generic]] = {"certificate": np.array(CERTIFICATE_VERSION)}
        arrays |= self.proof.arrays()
        arrays |= {
            "method": np.array(self.method, dtype="U32"),
            "upper": np.array(self.claim),
        }
        statement = self.statement
        return arrays | dict(statement.arrays) | statement.hints | statement.words()
