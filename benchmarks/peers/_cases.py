"""Cases of peers: our method and every peer that applies, on the same question in the same process."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks._networks import CASES, Made, recipe
from benchmarks._random_chains import square_layers
from benchmarks._rows import Measured
from benchmarks.peers._auto_lirpa import AutoLiRPA, OptimisedLiRPA
from benchmarks.peers._csdp import CSDP
from benchmarks.peers._eclipse import ClosedForm, Eclipse, EclipseFast
from benchmarks.peers._peer import Answer, Peer
from benchmarks.peers._slope_programs import GeoLIP, LipSDP
from benchmarks.results._case import BOTH, DATA, ONLY_FULL, Case, Question, bracket
from lipcert import Box, Everywhere, Network
from lipcert.paper.entries import paper_network, paper_region
from lipcert.problem.problem import Problem

_SLOPES: tuple[Peer, ...] = (ClosedForm(), EclipseFast(), Eclipse(), LipSDP(), GeoLIP())
PEERS: tuple[Peer, ...] = (*_SLOPES, CSDP(), AutoLiRPA(), OptimisedLiRPA())


@dataclass(frozen=True)
class Match:
    """A question for the peers, and with which methods, each with counted work, we answer it."""

    question: Question
    methods: tuple[tuple[str, float], ...]
    sets: frozenset[str] = BOTH
    data: bool = False


def beside(match: Match, peers: tuple[Peer, ...] = PEERS) -> Iterable[Measured]:
    """Ours, each in a row, then a row for every peer that the question fits, with its rival's upper bound in it.

    The last of our methods looks for the lower bound, which stands in all rows; the others are timed without a search.
    """
    last = match.methods[-1][0]
    ours = {method: bracket(match.question, method, work, lower=method == last) for method, work in match.methods}
    best = ours[last]
    ours = {method: replace(found, lower=best.lower) for method, found in ours.items()}
    yield from ours.values()
    net, region, output, norm = match.question.make()
    problem = Problem.of(net, region, output, norm)
    for peer in peers:
        if peer.refusal(problem) is None:
            yield with_peer(ours.get(peer.rival(problem) or "", best), peer, problem)


def with_peer(ours: Measured, peer: Peer, problem: Problem) -> Measured:
    """Our row with the peer's answer in it; where the peer is not here or fails, with the reason."""
    named = replace(ours, peer=peer.name, peer_proof=peer.proof, curve=())
    if reason := peer.available():
        return replace(named, remark=reason)
    try:
        answer = peer.run(problem)
    except Exception as error:  # a stranger's program: whatever it raises is its answer
        answer = Answer(math.nan, 0.0, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    value = None if math.isnan(answer.value) else answer.value
    return replace(named, peer_value=value, peer_seconds=answer.seconds, remark=answer.remark)


def _paper(size: int, sparsity: int, region: str, layers: int = 1) -> Question:
    shape = f"({size},{size}{',10' if layers == 2 else ''})"
    return Question(
        f"{shape} s={sparsity} seed 0, {region}",
        lambda: (paper_network(size, sparsity, 0, layers), paper_region(size, 0, region), None, "inf"),
    )


def _gaussian(n: int) -> Question:
    """A box in which about a quarter of the neurons is stable."""

    def make() -> Made:
        rng = np.random.default_rng(1)
        A, b, c = (rng.standard_normal(s) / np.sqrt(n) for s in ((n, n), n, (1, n)))
        return Network.from_weights([A, c], [b, np.zeros(1)]), Box(rng.standard_normal(n), 0.1), None, "inf"

    return Question(f"({n},{n}) Gaussian", make)


def _everywhere(question: Question, norm: str) -> Question:
    """The same network on the whole space, in another norm."""

    def make() -> Made:
        net, _, output, _ = question.make()
        return net, Everywhere(), output, norm

    return Question(f"{question.network.rsplit(',', 1)[0]}, everywhere, norm {norm}", make)


def _deep(depth: int, width: int) -> Question:
    def make() -> Made:
        return Network.from_weights(square_layers(depth, width)), Everywhere(), "all", "2"

    return Question(f"{depth} layers of {width}, normal", make)


def _mine(name: str) -> Question:
    return Question(name, next(c for c in CASES if c.name == name).make)


def matches() -> list[Match]:
    small = _paper(10, 20, "global", 2)
    chain = Question("10-20-20-1 He-normal", lambda: recipe((10, 20, 20, 1), 0.1))
    cheap, last = (("linear", 5.0), ("slopes", 5.0)), ("auto", 10.0)
    one, two = (*cheap, ("hr2", 60.0), last), (*cheap, ("backward", 60.0), last)
    quick = [
        Match(_paper(10, 20, "global"), one),
        Match(_paper(20, 40, "local"), one),
        Match(small, two),
        Match(_everywhere(small, "inf"), (*cheap, last)),
        Match(_everywhere(small, "2"), (*cheap[1:], last)),
        Match(chain, two),
        Match(_deep(4, 16), (("slopes", 5.0), last)),
        Match(_deep(16, 16), (("slopes", 5.0),)),
    ]
    relaxed = [Match(_paper(80, 80, r), (*cheap, ("hr2", 600.0), ("auto", 60.0))) for r in ("local", "global")]
    relaxed.append(Match(_gaussian(160), (("hr2", 600.0),)))
    relaxed += [Match(_paper(40, s, "global", 2), (*cheap, ("backward", 600.0), ("auto", 60.0))) for s in (20, 80)]
    deep = [Match(_deep(32, 16), (("slopes", 20.0),)), Match(_deep(64, 64), (("slopes", 300.0),))]
    real = [Match(_mine(c.name), (*cheap, ("auto", 60.0)), ONLY_FULL, True) for c in CASES if c.peer is not None]
    return quick + [replace(m, sets=ONLY_FULL) for m in relaxed + deep] + real


def cases() -> list[Case]:
    return [
        Case(f"peers/{m.question.network}", "peers", partial(beside, m), m.sets, (DATA,) if m.data else ())
        for m in matches()
    ]
