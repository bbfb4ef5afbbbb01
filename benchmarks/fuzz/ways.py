"""Bounds of large networks on small ones: zonotopes with all or some symbols, with or without forms, and the network of
the open neurons, for convolutions, sums, pooling and every activation, on boxes and balls.

Pre-activations at points of the region lie within their bounds, and no bound of the gradient made with them is too
small.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from benchmarks.fuzz._harness import Verdict
from benchmarks.fuzz._oracle import points_of, preactivations
from benchmarks.fuzz._problems import KINKED, Case, Random, random_activation, random_case, random_network
from benchmarks.fuzz.cheap import PROVERS, Cheap
from lipcert import Activation, Ball, Box, Network
from lipcert.bounds.collapse import collapse
from lipcert.bounds.propagation import made_in
from lipcert.problem.activations import BOUNDED
from lipcert.problem.blocks import Block
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.maps import Matrix
from lipcert.problem.problem import Problem, Way
from lipcert.proof import Certificate, prove_within
from lipcert.proof.arithmetic import prove_linear
from lipcert.rounding import Array

ROUNDING = 1e-12  # of all terms of a sum of a few blocks: the oracle's own rounding
SYMBOLS = (1, 2, 5, 12, 1000)


def prove_collapsed(problem: Problem) -> Certificate:
    """Linear bounds on the network of the open neurons, where that is smaller."""
    small = collapse(problem)
    return prove_linear(problem) if small is None else prove_within(problem, prove_linear(small.problem))


PROVERS["collapsed"] = prove_collapsed


class Ways(Cheap):
    name = "ways"

    def make(self, rng: Random, number: int) -> Case:
        """Pictures and other networks in turns."""
        net = picture_network(rng) if number % 2 else random_network(rng, 5, 8)
        kind = random_case(rng, number, blocks=1)
        c = None if kind.c is None else rng.normal(size=net.outputs)
        return replace(kind, network=net, region=bounded_region(rng, net.inputs), c=c)

    def methods(self, number: int, /) -> tuple[str, ...]:
        return ("interval", "linear", "mixed")[number % 3], "collapsed"

    def problem(self, case: Case, rng: Random, verdict: Verdict) -> Problem:
        way = Way(int(rng.choice(SYMBOLS)), forms=bool(rng.uniform() < 0.5))
        problem = made_in(case.problem(), way)
        points = points_of(rng, case.region, case.network.inputs)
        known = problem.facts.preactivations
        assert known is not None
        every = preactivations(case.network, points)
        for i, (z, (seen, size)) in enumerate(zip(known.intervals, every, strict=False)):
            verdict.counts.append("block")
            slack = ROUNDING * (1 + size)
            sure = np.isfinite(seen) & np.isfinite(slack)
            if np.any(sure & ((seen < z.lo - slack) | (seen > z.hi + slack))):
                verdict.fault, verdict.detail = "value outside", f"block {i + 1} with {way}"
        return problem


def bounded_region(rng: Random, inputs: int) -> Box | Ball:
    """A box or a ball, small enough to leave some neurons without doubt now and then."""
    center, radius = rng.normal(size=inputs), 10.0 ** rng.uniform(-4, 0.5)
    if rng.uniform() < 0.4:
        return Ball(center, radius)
    return Box(center, radius * rng.uniform(size=inputs) * (rng.uniform(size=inputs) < 0.9))


def picture_network(rng: Random) -> Network:
    """One or two channels of a small picture: a convolution, what goes around one or not, pooling, two scores."""
    kinds = BOUNDED if rng.uniform() < 0.6 else KINKED
    channels, side, wide = int(rng.integers(1, 3)), int(rng.integers(2, 5)), int(rng.integers(1, 3))
    scale = 10.0 ** rng.uniform(-1.0, 0.5)
    first = _convolution(rng, wide, channels, side, scale)
    blocks = [Block(((0, first),), _bias(rng, first), random_activation(rng, kinds))]
    for _ in range(int(rng.integers(1, 3))):
        inner = _convolution(rng, wide, wide, side, scale)
        terms: list[tuple[int, Matrix]] = [(len(blocks), inner)]
        if rng.uniform() < 0.6:
            terms.append((int(rng.integers(1, len(blocks) + 1)), _around(wide, side)))
        if rng.uniform() < 0.2:
            terms.append((0, _convolution(rng, wide, channels, side, scale)))
        blocks.append(Block(tuple(sorted(dict(terms).items())), _bias(rng, inner), random_activation(rng, kinds)))
    last = _pooled(rng, blocks, wide, side)
    width = blocks[last - 1].width
    return Network.from_blocks([*blocks, Block(((last, scale * rng.normal(size=(2, width))),), rng.normal(size=2))])


def _pooled(rng: Random, blocks: list[Block], channels: int, side: int) -> int:
    """Means or largest values of neighbours behind the last block, or neither; the number of the last block."""
    last, way = len(blocks), int(rng.integers(3))
    if way == 1:
        kernel = np.full((channels, 1, 2, 2), 0.25)
        window = Window((2, 2), (int(rng.integers(1, 3)),) * 2, (1, 1), (0, 0), (1, 1))
        mean = Convolution(kernel, (side, side), window, channels)
        blocks.append(Block(((last, mean),), np.zeros(mean.shape[0]), Activation("identity")))
    elif way == 2:  # max(a, b) = b + relu(a - b)
        width = channels * side**2
        one = sparse.csr_array(np.eye(width)[0::2][: width // 2])
        other = sparse.csr_array(np.eye(width)[1::2][: width // 2])
        blocks.append(Block(((last, one - other),), np.zeros(one.shape[0]), Activation("relu")))
        same = sparse.csr_array(np.eye(one.shape[0]))
        blocks.append(Block(((last, other), (last + 1, same)), np.zeros(one.shape[0]), Activation("identity")))
    return len(blocks)


def _convolution(rng: Random, made: int, given: int, side: int, scale: float) -> Convolution:
    """One that keeps the size."""
    taps = int(rng.choice((1, 3)))
    pad = (taps // 2,) * 2
    kernel = scale * rng.normal(size=(made, given, taps, taps))
    return Convolution(kernel, (side, side), Window((taps, taps), (1, 1), (1, 1), pad, pad))


def _around(channels: int, side: int) -> Matrix:
    return sparse.csr_array(np.eye(channels * side**2))


def _bias(rng: Random, map_: Matrix) -> Array:
    return np.asarray(rng.normal(size=map_.shape[0]) * rng.choice((0.0, 0.5)))
