"""A peer: a name, whether it can be used here, for which problems, and its value with the seconds it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lipcert.problem.problem import Problem
from lipcert.rounding import Array


@dataclass(frozen=True)
class Answer:
    """A peer's value and its seconds. `remark` is what its user should know, a solver that stopped early for one."""

    value: float
    seconds: float
    remark: str = ""


class Peer(Protocol):
    """`proof`: whether the value is proved with rounding errors counted; a solver's objective is not."""

    name: str
    proof: bool

    def available(self) -> str | None:
        """None, or why it cannot be used here."""

    def refusal(self, problem: Problem) -> str | None:
        """None, or why not to this problem."""

    def rival(self, problem: Problem) -> str | None:
        """Our method for the same thing, such as the relaxation that the peer solves; None: the best that we have."""

    def run(self, problem: Problem) -> Answer: ...


def dense_weights(problem: Problem) -> list[Array]:
    """The weights of a chain, first layer first; the last is c'W where one output is asked for."""
    net = problem.network
    weights = [a.weight if isinstance(a.weight, np.ndarray) else a.weight.toarray() for a in net.affines]
    return [*weights[:-1], np.atleast_2d(problem.output.c @ weights[-1])]


def plain_relu_chain(problem: Problem) -> str | None:
    """None for a chain of ReLU layers; slopes are then between 0 and 1."""
    if not problem.network.is_chain:
        return "the network has branches"
    if any(a.kind != "relu" for a in problem.network.activations):
        return "not all activations are ReLU"
    return None
