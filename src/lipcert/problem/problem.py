"""Problem: the question that everything below the door is about.

    L = max { ||gradient of c'scores at x||_dual : x in region }              one output
    L = max { ||Jacobian of the scores at x||_(p to q) : x in region }        the whole map

Where the constant is the largest of several (in norm 1 one for every input coordinate, to norm inf one for every
output), each of them is a problem too, a *case*: `case(output, coordinate)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm, parse_norm, parse_norms
from lipcert.problem.output import Output, OutputChoice, choose_output
from lipcert.problem.region import Region, check_region
from lipcert.rounding import Array

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Problem:
    """A network, a region, a norm and an output, checked against each other once.

    `coordinate` is that of the input where one partial derivative alone is asked for. What later stages derive from a
    problem (pre-activation bounds, say) is computed once and kept with it: see `kept`.
    """

    network: Network
    region: Region
    norm: Norm
    output: Output
    coordinate: int | None = None
    _known: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_region(self.region, self.network.inputs)

    @classmethod
    def of(
        cls,
        network: Network,
        region: Region,
        output: OutputChoice | Output = None,
        norm: str | Norm = "inf",
        output_norm: str | None = None,
    ) -> Problem:
        """From what a user says; a norm of outputs belongs to the whole map alone."""
        chosen = choose_output(output, network.outputs)
        if chosen.c.ndim == 2:
            p = parse_norm(norm)
            both = p if p.out is not None else parse_norms(p, p.p if output_norm is None else output_norm)
            return cls(network, region, both, chosen)
        if output_norm is not None or (isinstance(norm, Norm) and norm.out is not None):
            raise InputError("a norm of outputs belongs to the whole map; ask for output 'all'")
        return cls(network, region, parse_norm(norm), chosen)

    @property
    def c(self) -> Array:
        """The weights of the scores: a vector, or the identity for the whole map."""
        return self.output.c

    @property
    def whole_map(self) -> bool:
        """Whether all scores are asked for together."""
        return self.norm.out is not None

    @property
    def has_cases(self) -> bool:
        """Whether the constant is the largest of several: see `case`."""
        return self.coordinate is None and (self.norm.p == "1" or self.norm.out == "inf")

    def case(self, output: int | None, coordinate: int | None) -> Problem:
        """One of the several problems: of one output where each has its own, of one input coordinate in norm 1."""
        chosen = self.output if output is None else choose_output(output, self.network.outputs)
        norm = Norm(self.norm.p) if self.norm.out == "inf" else self.norm
        known = {name: value for name, value in self._known.items() if name in _OF_NETWORK_AND_REGION}
        return Problem(self.network, self.region, norm, chosen, coordinate, known)

    def along(self, c: Array) -> Problem:
        """The same question of the one output c'scores."""
        known = {name: value for name, value in self._known.items() if name in _OF_NETWORK_AND_REGION}
        chosen = choose_output(c, self.network.outputs)
        return Problem(self.network, self.region, Norm(self.norm.p), chosen, self.coordinate, known)

    def on(self, region: Region, **known: Any) -> Problem:
        """The same question on another region; `known` is what is known of it already, by the name it is kept under."""
        return replace(self, region=region, _known=known)

    def kept(self, name: str, compute: Callable[[], T]) -> T:
        """What `compute` gives, computed at the first call of this name and kept: for rooms that derive from problems.

        It must be a function of the problem alone.
        """
        if name not in self._known:
            self._known[name] = compute()
        return cast(T, self._known[name])

    def knows(self, name: str) -> bool:
        """Whether something is kept under this name."""
        return name in self._known


PREACTIVATIONS = "preactivations"
CUT_SHORT = "cut_short"  # whether a budget ended before these were the best
PROVED_WITH = "proved_with"  # where these are better than what a checker computes: what makes a proof complete
_OF_NETWORK_AND_REGION = (PREACTIVATIONS, CUT_SHORT)
