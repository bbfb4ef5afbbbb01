"""Networks of powers, exponentials, logarithms and waves, and of products, quotients, softmax and normalisations.

Their activations have poles and edges of domains, and overflow: half of the cases lie near one. Where a region leaves a
domain the bound must be infinite, which no gradient exceeds; points outside of a domain do not count.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from benchmarks.fuzz._problems import Case, Random, random_case
from benchmarks.fuzz.cheap import Cheap
from lipcert import Activation, Box, Network
from lipcert.problem.blocks import Block
from lipcert.problem.region import Region
from lipcert.readers.graph import linear, norms, products, recognised
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.rounding import Array

POWERS = (2.0, 3.0, 4.0, 5.0, -1.0, -2.0, -3.0, 0.5, -0.5, 1.5, 0.1, -0.3, 1 / 3)
ELEMENTARY = ("power", "power", "power", "exp", "log", "sin", "cos", "atan", "sinh", "cosh")
OTHERS = ("identity", "relu", "tanh", "sigmoid")
SHAPE = (2, 3)  # of the tensors of graphs


class Smooth(Cheap):
    name = "smooth"

    def make(self, rng: Random, number: int) -> Case:
        case = random_case(rng, number, blocks=1)
        net = elementary_network(rng) if rng.uniform() < 0.6 else graph_network(rng)
        c = None if case.c is None else rng.normal(size=net.outputs)
        q = None if c is not None else "2"
        return replace(case, network=net, region=small_region(rng, net), c=c, p=str(rng.choice(("inf", "2"))), q=q)


def elementary_network(rng: Random) -> Network:
    """Up to three blocks; biases put the first ones beside the edges of domains, or away from them."""
    widths = [int(n) for n in rng.integers(1, 5, size=int(rng.integers(3, 6)))]
    blocks: list[Block] = []
    for i, (into, out) in enumerate(itertools.pairwise(widths), start=1):
        kind = str(rng.choice(ELEMENTARY if rng.uniform() < 0.7 else OTHERS))
        alpha = float(rng.choice(POWERS)) if kind == "power" else 0.3
        weight = rng.normal(size=(out, into)) * rng.choice((0.1, 0.5, 1.0)) * (rng.uniform(size=(out, into)) < 0.8)
        if rng.uniform() < 0.1:
            weight = weight * 10.0 ** rng.uniform(0, 4)  # overflows behind an exponential
        bias = rng.choice((0.0, 1.0, 3.0, -2.0)) + rng.normal(size=out) * rng.choice((0.0, 0.1, 1.0))
        last = i == len(widths) - 1
        blocks.append(Block(((i - 1, weight),), bias, Activation("identity" if last else kind, alpha)))
    return Network.from_blocks(blocks)


def small_region(rng: Random, net: Network) -> Region:
    """Boxes that are small more often than not; some touch the edge of a domain in the first block."""
    center = rng.normal(size=net.inputs)
    radius = 10.0 ** rng.uniform(-4, 0.3)
    return Box(center, radius * (rng.uniform(size=net.inputs) < 0.9))


def _multiplied(graph: Graph, x: Tensor, rng: Random) -> Tensor:
    return recognised.product(graph, x, _mixed(graph, x, rng))


def _divided(graph: Graph, x: Tensor, rng: Random) -> Tensor:
    return recognised.quotient(graph, x, graph.scale_and_shift(_mixed(graph, x, rng), 1.0, float(rng.uniform(0, 4))))


def _attended(graph: Graph, x: Tensor, rng: Random) -> Tensor:
    scores = linear.matmul(graph, _mixed(graph, x, rng), graph.transpose(x, (1, 0)))
    return linear.matmul(graph, products.softmax(graph, scores, (1,)), x)


def _softmax(graph: Graph, x: Tensor, rng: Random) -> Tensor:
    return products.softmax(graph, x, (int(rng.integers(2)),), logarithm=bool(rng.integers(2)))


def _normal(graph: Graph, x: Tensor, rng: Random) -> Tensor:
    epsilon, centred = float(rng.choice((0.0, 1e-3, 0.1))), bool(rng.integers(2))
    return norms.normalized(graph, x, (1,), epsilon, centred=centred)


def _gated(graph: Graph, x: Tensor, rng: Random) -> Tensor:
    return recognised.product(graph, graph.activate(_mixed(graph, x, rng), Activation("sigmoid")), x)


def _applied(graph: Graph, x: Tensor, rng: Random) -> Tensor:
    kind = str(rng.choice(ELEMENTARY))
    alpha = float(rng.choice(POWERS)) if kind == "power" else 0.0
    return graph.activate(graph.scale_and_shift(x, 1.0, float(rng.choice((0.0, 2.0)))), Activation(kind, alpha))


def _mixed(graph: Graph, x: Tensor, rng: Random) -> Tensor:
    return linear.times(graph, x, rng.normal(size=(SHAPE[1], SHAPE[1])) / 2)


OPERATIONS: tuple[Callable[[Graph, Tensor, Random], Tensor], ...] = (
    *(_multiplied, _divided, _attended, _softmax, _normal, _gated, _applied, _mixed),
)


def graph_network(rng: Random) -> Network:
    """One to three operations on a tensor of two rows, and a linear map."""
    graph = Graph(SHAPE)
    x = graph.input
    for _ in range(int(rng.integers(1, 4))):
        x = OPERATIONS[int(rng.integers(len(OPERATIONS)))](graph, x, rng)
    weight: Array = rng.normal(size=(int(rng.integers(1, 3)), x.width))
    return graph.network(graph.apply(x, weight, (len(weight),)))
