"""Problem: a question in norms without weights, on one region, which all methods work on.

    L = max { ||gradient of c'scores at x||_dual : x in region }              one output
    L = max { ||Jacobian of the scores at x||_(p to q) : x in region }        the whole map

Where the constant is the largest of several (in norm 1 one for every input coordinate, to norm inf one for every
output), each of them is a problem too, a *case*: `case(output, coordinate)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm, parse_norm, parse_norms
from lipcert.problem.output import Output, OutputChoice, choose_output
from lipcert.problem.region import Region, check_region
from lipcert.rounding import Array, Interval

T = TypeVar("T")


@dataclass(frozen=True)
class Way:
    """How pre-activation bounds are made, so that a checker can make them again: intervals always, zonotopes with at
    most `symbols` symbols, and linear forms.

    Without zonotopes all neurons have forms, otherwise those that zonotopes leave in doubt (`bounds.propagation`).
    """

    symbols: int = 0
    forms: bool = True


FORMS = Way()  # a certificate that names no way has bounds made in this one
INTERVALS = Way(forms=False)


@dataclass(frozen=True, eq=False)
class Preactivations:
    """Bounds of the pre-activations z_1 .. z_m on the region, and how they compare with those that a checker computes.

    `looser`: a checker computes better ones, because a budget ended the computation of these. `completion`: a checker
    computes worse ones; it makes a proof that uses these complete, by adding the multipliers that prove them. `way`:
    how the checker makes its bounds, which a certificate names.
    """

    intervals: tuple[Interval, ...]
    looser: bool = False
    completion: Callable[[Any], Any] | None = None
    way: Way = FORMS


@dataclass(frozen=True, eq=False)
class CollapseOrigin:
    """The network that a problem of the open neurons was made of, its pre-activation bounds, and which neurons these
    are: by block of the problem's network the block of the original and the neurons in it."""

    network: Network
    preactivations: tuple[Interval, ...]
    neurons: tuple[tuple[int, NDArray[np.int64]], ...]


class ProblemFacts:
    """Facts about a problem: pre-activation bounds, its origin if it has one, and every `Fact` derived so far."""

    __slots__ = ("derived", "omitted", "origin", "preactivations")

    def __init__(self, preactivations: Preactivations | None = None, origin: CollapseOrigin | None = None) -> None:
        self.preactivations, self.origin = preactivations, origin
        self.derived: dict[Fact[Any], Any] = {}
        self.omitted: set[Fact[Any]] = set()  # facts that a budget had no room for: whoever asks goes without them

    def complete(self, proof: T) -> T:
        """The proof, with multipliers that prove its pre-activation bounds where a checker does not compute them."""
        known = self.preactivations
        return proof if known is None or known.completion is None else cast(T, known.completion(proof))

    @property
    def way(self) -> Way:
        """How a checker makes the pre-activation bounds that its proof completes."""
        return FORMS if self.preactivations is None else self.preactivations.way


@dataclass(frozen=True, eq=False)
class Problem:
    """A network, a region, a norm and an output, checked against each other once.

    `coordinate` is the number of an input if only the derivative by this input is asked for. Later rooms compute what
    they derive from a problem once and keep it in its `facts`.
    """

    network: Network
    region: Region
    norm: Norm
    output: Output
    coordinate: int | None = None
    facts: ProblemFacts = field(default_factory=ProblemFacts, repr=False)

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
        """The problem from arguments as a user writes them; a norm of outputs is refused but for the whole map."""
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

    def case(self, output: int | None, coordinate: int | None, *, part: bool = False) -> Problem:
        """One of the several problems: of one output where each has its own, of one input coordinate in norm 1.

        Pre-activation bounds are shared. Bounds that a checker cannot compute are shared only with a `part` of a proof
        about this problem, because that proof has their multipliers; a certificate of a case must verify by itself.
        """
        chosen = self.output if output is None else choose_output(output, self.network.outputs)
        norm = Norm(self.norm.p) if self.norm.out == "inf" else self.norm
        return Problem(self.network, self.region, norm, chosen, coordinate, self._shared_facts(part))

    def along(self, c: Array, *, part: bool = False) -> Problem:
        """This problem for the one output c'scores; bounds are shared as in `case`."""
        chosen, facts = choose_output(c, self.network.outputs), self._shared_facts(part)
        return Problem(self.network, self.region, Norm(self.norm.p), chosen, self.coordinate, facts)

    def _shared_facts(self, part: bool) -> ProblemFacts:
        known = self.facts.preactivations
        if known is not None and part:
            known = Preactivations(known.intervals, known.looser)
        elif known is not None and known.completion is not None:
            known = None
        return ProblemFacts(known)

    def on(
        self,
        region: Region,
        preactivations: tuple[Interval, ...] | None = None,
        *,
        looser: bool = False,
        completion: Callable[[Any], Any] | None = None,
        way: Way = FORMS,
    ) -> Problem:
        """This problem on another region; the other arguments, as in `Preactivations`, are bounds known there."""
        known = None if preactivations is None else Preactivations(preactivations, looser, completion, way)
        return replace(self, region=region, facts=ProblemFacts(known))


class Fact(Generic[T]):
    """A function of the problem alone, whose value is computed at the first call and kept with the problem.

    The class decorates the function that derives the fact; the type of the fact is that of its return value.
    """

    def __init__(self, compute: Callable[[Problem], T]) -> None:
        self._compute = compute
        update_wrapper(self, compute)

    def __call__(self, problem: Problem) -> T:
        derived = problem.facts.derived
        if self not in derived:
            derived[self] = self._compute(problem)
        return cast(T, derived[self])

    def __reduce__(self) -> str:
        return cast(str, vars(self)["__qualname__"])

    def known(self, problem: Problem) -> bool:
        """Whether the value was computed for this problem."""
        return self in problem.facts.derived

    def keep(self, problem: Problem, value: T) -> None:
        """Keep a value that was computed elsewhere, unless there is one."""
        problem.facts.derived.setdefault(self, value)
