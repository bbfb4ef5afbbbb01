"""Random small problems: every activation, branches, convolutions, whole maps, norms, and regions of any kind."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import lipcert
from benchmarks.fuzz._cuts import cut, plain
from lipcert import Activation, Ball, Box, Everywhere, Network, Polytope
from lipcert.problem.activations import BOUNDED
from lipcert.problem.blocks import Block
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.norms import Matrix
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.rounding import Array

Random = np.random.Generator
KINKED = ("relu", "relu", "relu", "leaky_relu", "identity")
NORMS = ("inf", "2", "1")
CUT = 1 / 7  # of boxes and balls


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, plain enough to be written to a file and made smaller; c is None for the whole map."""

    network: Network
    region: Region
    c: Array | None
    p: str
    q: str | None = None
    seed: int = 0
    method: str = ""

    def problem(self) -> Problem:
        return Problem.of(self.network, self.region, "all" if self.c is None else self.c, self.p, self.q)

    @property
    def kinked(self) -> bool:
        return all(f.piecewise_linear for f in self.network.activations)

    def save(self, stem: Path) -> dict[str, Any]:
        """The network beside `stem`; what else there is as plain values, which JSON keeps to the last bit."""
        self.network.save(stem.with_suffix(".npz"))
        about = {"region": plain(self.region), "c": None if self.c is None else self.c.tolist()}
        return about | {"p": self.p, "q": self.q, "seed": self.seed, "method": self.method}

    @classmethod
    def load(cls, stem: Path, about: dict[str, Any]) -> Case:
        given = about["region"]
        region: Box | Ball | Polytope | Everywhere = Everywhere()
        if "center" in given:
            region = Ball(given["center"], given["radius"], given["clip"] and tuple(given["clip"]))
        elif given:
            region = Box.from_bounds(np.array(given["lo"]), np.array(given["hi"]))
        if "A" in given and isinstance(region, Box | Ball):
            hints = None if given["multipliers"] is None else np.array(given["multipliers"])
            region = Polytope(region, given["A"], given["b"], multipliers=hints)
        c = None if about["c"] is None else np.array(about["c"], dtype=np.float64)
        net = lipcert.load(stem.with_suffix(".npz"))
        return cls(net, region, c, about["p"], about["q"], about["seed"], about["method"])

    def with_network(self, network: Network) -> Case:
        return replace(self, network=network)


def text_of(about: dict[str, Any]) -> str:
    return json.dumps(about, indent=1, sort_keys=True)


def random_case(rng: Random, seed: int = 0, *, blocks: int = 4, width: int = 5) -> Case:
    """Up to so many hidden blocks of so many neurons."""
    net = random_network(rng, blocks, width)
    region = random_region(rng, net.inputs)
    p, q = str(rng.choice(NORMS)), str(rng.choice(NORMS))
    if rng.uniform() < 0.2:
        return Case(net, region, None, p, q, seed)
    c = rng.normal(size=net.outputs) if rng.uniform() < 0.7 else np.eye(net.outputs)[int(rng.integers(net.outputs))]
    return Case(net, region, c, p, None, seed)


def random_network(rng: Random, most: int, width: int) -> Network:
    """Blocks that read one or several of those before them; one in six begins with a convolution."""
    kinds = BOUNDED if rng.uniform() < 0.6 else KINKED
    count, branches = int(rng.integers(1, most + 1)), rng.uniform() < 0.4
    blocks: list[Block] = []
    widths = [int(rng.integers(1, width))]
    scale = 10.0 ** rng.uniform(-1.5, 1.0)
    if rng.uniform() < 1 / 6:
        map_ = _convolution(rng)
        widths = [map_.shape[1], map_.shape[0]]
        blocks.append(Block(((0, map_),), rng.normal(size=widths[1]), random_activation(rng, kinds)))
    while len(blocks) <= count:
        i = len(blocks) + 1
        last = i == count + 1
        own = int(rng.integers(1, 4 if last else width + 1))
        sources = {i - 1} | ({int(j) for j in range(i) if rng.uniform() < 0.4} if branches else set())
        terms = tuple((j, _weight(rng, own, widths[j], scale)) for j in sorted(sources))
        kind = Activation("identity") if last else random_activation(rng, kinds)
        blocks.append(Block(terms, rng.normal(size=own) * rng.choice((0.0, 0.5)), kind))
        widths.append(own)
    return Network.from_blocks(blocks)


def random_activation(rng: Random, kinds: tuple[str, ...]) -> Activation:
    return Activation(str(rng.choice(kinds)), float(rng.choice((0.01, 0.3, 0.9))))


def _convolution(rng: Random) -> Matrix:
    taps = int(rng.integers(1, 3))
    side, channels, out = int(rng.integers(2, 4)), int(rng.integers(1, 3)), int(rng.integers(1, 3))
    pad = int(rng.integers(0, taps))
    window = Window((taps, taps), (int(rng.integers(1, 3)),) * 2, (1, 1), (pad, pad), (pad, pad))
    return Convolution(rng.normal(size=(out, channels, taps, taps)), (side, side), window)


def _weight(rng: Random, m: int, n: int, scale: float) -> Array:
    weight = rng.normal(size=(m, n)) * scale
    if rng.uniform() < 0.3:
        weight *= rng.uniform(size=(m, n)) < 0.6
    if m > 1 and rng.uniform() < 0.15:
        weight[-1] = weight[0] * rng.choice((1.0, -1.0, 2.0))  # kinks that coincide
    if rng.uniform() < 0.1:
        weight = np.round(weight)  # ties and exact zeros
    if rng.uniform() < 0.02:
        weight *= 10.0 ** rng.uniform(-150, 150)
    return np.asarray(weight)


def random_region(rng: Random, inputs: int) -> Region:
    """A region of any kind; boxes and balls are cut by half-spaces now and then."""
    region = _uncut_region(rng, inputs)
    return cut(rng, region) if isinstance(region, Box | Ball) and rng.uniform() < CUT else region


def _uncut_region(rng: Random, inputs: int) -> Box | Ball | Everywhere:
    center, radius = rng.normal(size=inputs) * rng.choice((0.0, 1.0, 1.0)), 10.0 ** rng.uniform(-3, 1)
    match int(rng.integers(8)):
        case 0:
            return Everywhere()
        case 1:
            return Ball(center, radius)
        case 2:
            return Box(center, radius * (rng.uniform(size=inputs) < 0.7))  # flat in some coordinates
        case 3:
            return Box(center, 0.0) if rng.uniform() < 0.5 else Ball(center, 0.0)
        case _:
            return Box(center, radius)
