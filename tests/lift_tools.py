"""For the tests of lifts: networks, and the vectors y that true points have."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from lipcert import Activation, Box, Everywhere, Network
from lipcert.bounds import Cell, bounds_of
from lipcert.bounds.interval import Interval
from lipcert.method.bracket import Bracket
from lipcert.method.solving import Task
from lipcert.problem.norms import Matrix
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull
from lipcert.proof import Certificate
from lipcert.proof.leaves import problem_on
from lipcert.relaxation.layers import LiftedLayer, layers_of
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import Specification, build, plan_specification
from lipcert.rounding import Array
from lipcert.search.settings import Settings
from lipcert.witness import Witness


def deep_net(*sizes: int, seed: int = 0, activation: Activation | str = "relu") -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in itertools.pairwise(sizes)]
    return Network.from_weights(weights, [rng.normal(size=len(w)) / 3 for w in weights], activation)


def sampled(box: Box, count: int) -> tuple[Array, Array]:
    """Points of the box, a third of them corners, and directions t."""
    rng = np.random.default_rng(count)
    x = rng.uniform(box.lo, box.hi, size=(count, box.size))
    x[::3] = np.where(rng.uniform(size=x[::3].shape) < 0.5, box.lo, box.hi)
    return x, np.where(rng.uniform(size=x.shape) < 0.5, -1.0, 1.0)


def built(problem: Problem, method: str, **choices: Any) -> Relaxation:
    """The relaxation that a method means for a problem, with some of its choices changed."""
    return build(problem, replace(plan_specification(problem, method), **choices))


def task_of(problem: Problem, specification: Specification) -> Task:
    """The task of a relaxation that no method means."""
    return Task(problem, specification, build(problem, specification))


class Keeping(Bracket):
    """A bracket that keeps every certificate of a run, not the best alone."""

    def __init__(self, settings: Settings = Settings()) -> None:  # noqa: B008 - frozen
        super().__init__(settings)
        self.certificates: list[Certificate] = []

    def improve(self, found: Certificate | Witness) -> None:
        if isinstance(found, Certificate):
            self.certificates.append(found)
        super().improve(found)


def on_cell(problem: Problem, cell: Cell) -> tuple[Problem, Relaxation]:
    """The problem on a cell, with its bounds, and its tight relaxation."""
    own, signs = problem_on(problem, cell, bounds_of(problem.network, [cell]).of(0))
    with np.errstate(all="ignore"):  # as `bound` and `verify` do
        return own, build(own, plan_specification(own, "tight", signs))


def true_points(
    relaxation: Relaxation, problem: Problem, count: int, cell: Cell | None = None, truth: Network | None = None
) -> tuple[Array, Array]:
    """y at points of the region with random ends t and d, by the definitions of the variables; and d'J t there.

    Where an end has no variables, the largest over it: the Euclidean norm. With a cell of the region: at its points
    among them; the problem is then the one on the cell. `truth` has the true z where the network's have slack.
    """
    net, region = problem.network, problem.region
    truth = net if truth is None else truth
    assert not isinstance(region, Everywhere)
    box = hull(region)
    assert box is not None
    x, t = sampled(box, count)
    if not isinstance(region, Box):
        x = region.project(x)
    if cell is not None:
        signs = zip(cell.signs, truth.preactivations(x), strict=True)
        inside = np.all([np.all(s * z >= 0, axis=1) for s, z in signs], axis=0)
        x, t = x[inside], t[inside]
        count = len(x)
    zs = truth.preactivations(x)
    layers = layers_of(problem)
    radius = (box.hi - box.lo) / 2
    blocks = {"one": np.ones((count, 1)), "t": t}
    t = end_points(blocks, t, problem)
    d = weights(blocks, np.random.default_rng(count + 1).normal(size=(count, net.outputs)), problem)
    blocks["w"] = (x - (box.lo / 2 + box.hi / 2)) / np.where(radius > 0, radius, 1.0)
    slopes = [f.derivative(z) for f, z in zip(net.activations, zs, strict=True)]
    opens = [_open(layer, z, u) for layer, z, u in zip(layers.hidden, zs, slopes, strict=True)]
    for layer, z, u, open_ in zip(layers.hidden, zs, slopes, opens, strict=True):
        u[:, layer.pruned] = 0.0
        blocks[layer.switch] = 2 * open_ - 1
        blocks[layer.name("x")] = _scaled(open_ * z, Interval(np.zeros(layer.width), layer.z.hi))
    passed = {len(net.blocks): d}
    for i in range(net.depth, 0, -1):
        g = _sum([passed[k] @ _dense(weight) for k, weight in net.readers[i]], (count, net.shape[i]))
        blocks[f"s{i}"] = _scaled(opens[i - 1] * g, layers.hidden[i - 1].g)
        passed[i] = slopes[i - 1] * g
    passed = {0: t}
    for i, block in enumerate(net.hidden, start=1):
        q = _sum([passed[j] @ _dense(weight).T for j, weight in block.terms], (count, block.width))
        blocks[f"y{i}"] = _scaled(opens[i - 1] * q, layers.hidden[i - 1].q)
        passed[i] = slopes[i - 1] * q
    if net.depth == 1:  # as the relaxations of one hidden layer call them
        blocks["v"] = blocks[layers.hidden[0].switch]
    parts = []
    for name, where in relaxation.space.slices.items():
        members = relaxation.blocks.get(name, (np.arange(where.stop - where.start), 0))[0]
        parts.append(blocks[name][:, members])
    J = np.stack([np.broadcast_to(truth.gradient(x, e), x.shape) for e in np.eye(net.outputs)], axis=1)
    down, up = np.einsum("ko,koi->ki", d, J), np.einsum("koi,ki->ko", J, t)
    if relaxation.finish.scale == 0.0:
        return np.concatenate(parts, axis=1), np.einsum("ki,ki->k", t, down)
    backward = problem.norm.p == "2" and "tb" not in relaxation.space.slices
    return np.concatenate(parts, axis=1), np.linalg.norm(down if backward else up, axis=1)


def end_points(blocks: dict[str, Array], t: Array, problem: Problem) -> Array:
    """t in the unit ball of the norm, and its block."""
    match problem.norm.p:
        case "2":
            t = np.random.default_rng(len(t)).normal(size=t.shape)
            blocks["tb"] = t / np.linalg.norm(t, axis=1)[:, None]
            return blocks["tb"]
        case "1":
            blocks["t"] = t[:, :1]
            return np.asarray(np.eye(t.shape[1])[problem.coordinate] * t[:, :1])
        case _:
            return t


def weights(blocks: dict[str, Array], d: Array, problem: Problem) -> Array:
    """d: the weights given, or any in the ball dual to the norm of outputs, and its block."""
    match problem.norm.out:
        case "2":
            blocks["ob"] = d / np.linalg.norm(d, axis=1)[:, None]
            return blocks["ob"]
        case "1":
            blocks["o"] = np.where(d < 0, -1.0, 1.0)
            return blocks["o"]
        case _:
            return np.broadcast_to(problem.c, d.shape)


def violations(relaxation: Relaxation, Y: Array) -> float:
    """The largest violation of any row, of the diagonal, over the points Y."""
    problem = relaxation.problem
    forms = np.asarray((problem.vectors.T @ Y.T).T)
    terms = forms[:, problem.ia] * forms[:, problem.ib]
    rows = np.zeros((len(Y), problem.rows))
    np.add.at(rows.T, problem.owner, terms.T)
    rows -= problem.rhs
    off = np.where(problem.equality, np.abs(rows) - relaxation.tolerance, rows)
    return float(max(off.max(initial=0.0), (Y**2 - problem.diagonal).max(initial=0.0)))


def objective(relaxation: Relaxation, Y: Array) -> Array:
    return np.asarray(np.einsum("ki,ki->k", Y, np.asarray((relaxation.problem.objective @ Y.T).T)))


def _open(layer: LiftedLayer, z: Array, u: Array) -> Array:
    """u' of every neuron."""
    if layer.binary:
        return (z > 0).astype(float)
    return np.asarray(np.clip((u - layer.base) / np.where(layer.delta > 0, layer.delta, 1.0), 0.0, 1.0))


def _scaled(values: Array, interval: Interval) -> Array:
    lo, hi = np.minimum(interval.lo, 0.0), np.maximum(interval.hi, 0.0)
    return np.asarray((values - (lo + hi) / 2) / np.where(hi > lo, (hi - lo) / 2, 1.0))


def _sum(parts: list[Array], shape: tuple[int, int]) -> Array:
    return np.asarray(sum(parts, np.zeros(shape)))


def _dense(weight: Matrix) -> Array:
    return np.asarray(weight.toarray() if sparse.issparse(weight) else weight)
