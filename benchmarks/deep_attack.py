"""An attack on bounds by slopes: random deep networks, multipliers good and bad, against Jacobians of any slopes.

python -m benchmarks.deep_attack [--count 20000] [--first 0]

A bound by slopes holds for every choice of slopes within their intervals, whether an input has them or not. So each
proved bound is set beside Jacobians with slopes at the ends of the intervals: all of them where they are few, else
random ones that are improved by flipping the slopes that change the norm most. Exit code 1 when one is larger.
"""

from __future__ import annotations

import argparse
import itertools
import sys

import numpy as np

from lipcert.problem.activations import Activation
from lipcert.problem.network import Block, Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box, Everywhere
from lipcert.proof.slopes import prove_slopes
from lipcert.proof.verify import verify
from lipcert.relaxation.slopes import SlopeMultipliers, SlopeProgram, slope_program
from lipcert.rounding import Array
from lipcert.solver.slopes.scalars import scalar_multipliers

KINDS = ("relu", "relu", "relu", "leaky_relu", "tanh", "gelu", "elu", "identity")
MOST = 4096  # choices of slopes that are all tried
CLIMBS = 3  # random choices that are improved otherwise


def network(rng: np.random.Generator) -> Network:
    """Up to 12 blocks of up to 8 neurons, one in three with branches."""
    depth, branches = int(rng.integers(1, 13)), rng.random() < 0.33
    widths = [int(rng.integers(1, 9)) for _ in range(depth + 2)]
    scale = 10.0 ** rng.uniform(-2, 2) if rng.random() < 0.2 else 1.0
    blocks = []
    for i in range(1, depth + 2):
        sources = {i - 1}
        if branches and i > 1 and rng.random() < 0.5:
            sources.add(int(rng.integers(0, i - 1)))
        terms = []
        for j in sorted(sources):
            weight = scale * rng.normal(size=(widths[i], widths[j])) / widths[j] ** 0.5
            terms.append((j, np.where(rng.random(weight.shape) < 0.1, 0.0, weight)))
        kind = "identity" if i == depth + 1 else str(rng.choice(KINDS))
        alpha = float(rng.choice([0.1, 0.5, 2.0])) if kind == "leaky_relu" else 1.0
        blocks.append(Block(tuple(terms), rng.normal(size=widths[i]), Activation(kind, alpha)))
    return Network.from_blocks(blocks)


def multipliers(rng: np.random.Generator, program: SlopeProgram) -> SlopeMultipliers | None:
    """Those of a greedy pass, the same with a little noise or with much, or nonsense."""
    found = scalar_multipliers(program)
    spread = float(rng.choice([0.0, 0.1, 1.0, -1.0]))
    if found is None or not spread:
        return found
    if spread < 0:
        return SlopeMultipliers(tuple(t * 10.0 ** rng.uniform(0, 3) for t in found.neurons), found.inputs)
    noisy = tuple(t * np.exp(spread * rng.normal(size=t.shape)) for t in found.neurons)
    inputs = None if found.inputs is None else found.inputs * np.exp(spread * rng.normal(size=found.inputs.shape))
    return SlopeMultipliers(noisy, inputs)


class Rival:
    """Jacobians of a program by slopes, one vector of them for all neurons."""

    def __init__(self, program: SlopeProgram) -> None:
        self.program = program
        self.low = np.concatenate([np.zeros(0), *(b.a for b in program.blocks)])
        self.high = np.concatenate([np.zeros(0), *(b.b for b in program.blocks)])
        self.free = np.flatnonzero(self.low < self.high)

    def norm(self, slopes: Array, rng: np.random.Generator) -> float:
        """At most the norm of the Jacobian: exact from norm 2, by a climb over signs from norm inf."""
        xs = [np.eye(self.program.inputs)]
        start = 0
        for block in self.program.blocks:
            z = sum((w @ xs[j] for j, w in block.terms), np.zeros((block.width, self.program.inputs)))
            xs.append(slopes[start : start + block.width, None] * z)
            start += block.width
        J = sum((w @ xs[j] for j, w in self.program.head), np.zeros((1, self.program.inputs)))
        if not self.program.weighted:
            return float(np.linalg.norm(J, 2))
        best, s = 0.0, np.where(rng.random(J.shape[1]) < 0.5, -1.0, 1.0)
        for _ in range(8):
            best = max(best, float(np.linalg.norm(J @ s)))
            s = np.where(J.T @ (J @ s) >= 0, 1.0, -1.0)
        return best

    def largest(self, rng: np.random.Generator) -> float:
        """The largest norm that was found."""
        if 2 ** len(self.free) <= MOST and rng.random() < 0.3:
            ends = itertools.product((False, True), repeat=len(self.free))
            return max(self.norm(self._at(np.array(e, dtype=bool)), rng) for e in ends)
        best = 0.0
        for _ in range(CLIMBS):
            on = rng.random(len(self.free)) < rng.choice([0.3, 0.5, 0.8, 1.0])
            value = self.norm(self._at(on), rng)
            for k in rng.permutation(len(self.free))[:24]:
                on[k] = ~on[k]
                other = self.norm(self._at(on), rng)
                if other < value:
                    on[k] = ~on[k]
                value = max(value, other)
            best = max(best, value)
        return best

    def _at(self, on: Array) -> Array:
        slopes = self.low.copy()
        slopes[self.free[np.asarray(on, dtype=bool)]] = self.high[self.free[np.asarray(on, dtype=bool)]]
        return slopes


def attack(number: int) -> float | None:
    """The bound of one network over its rival; None where nothing was proved."""
    rng = np.random.default_rng(number)
    net = network(rng)
    norm = str(rng.choice(["2", "inf"]))
    local = rng.random() < 0.3
    region = Box(rng.normal(size=net.inputs), 10.0 ** rng.uniform(-2, 0.5)) if local else Everywhere()
    whole = net.outputs > 1 and rng.random() < 0.5
    output = "all" if whole else int(rng.integers(net.outputs)) if net.outputs > 1 else None
    problem = Problem.of(net, region, output, norm, "2" if whole else None)
    program = slope_program(problem)
    some = multipliers(rng, program)
    certificate = None if some is None else prove_slopes(problem, some)
    if certificate is None or not np.isfinite(certificate.upper):
        return None
    if number % 50 == 0 and not verify(certificate, net).proved:
        return -1.0
    rival = Rival(program).largest(rng)
    return certificate.upper / rival if rival else np.inf


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deep_attack")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args(arguments)
    proved, least, failures = 0, np.inf, []
    with np.errstate(all="ignore"):
        for number in range(chosen.first, chosen.first + chosen.count):
            ratio = attack(number)
            if ratio is None:
                continue
            proved, least = proved + 1, min(least, ratio)
            if ratio < 1 - 1e-12:  # the rival is computed in floating point
                failures.append(number)
                print(f"network {number}: a bound is {ratio:.15g} times a Jacobian's norm", flush=True)
            if proved % 1000 == 0:
                print(f"{number + 1:,} networks, {proved:,} bounds, {len(failures)} failures", flush=True)
    print(f"{chosen.count:,} networks, {proved:,} bounds proved, the smallest {least:.6f} times a Jacobian's norm")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
