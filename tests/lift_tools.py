"""For the tests of lifts: networks, and the vectors y that true points have."""

from __future__ import annotations

import itertools

import numpy as np

from lipcert import Activation, Ball, Box, Network
from lipcert.bounds import Cell, bounds_of
from lipcert.bounds.propagation import Interval, preactivation_bounds
from lipcert.relaxation.ends import Ends
from lipcert.relaxation.layers import Layer, layers_of
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array


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


def true_points(
    relaxation: Relaxation,
    net: Network,
    region: Box | Ball,
    c: Array,
    count: int,
    ends: Ends | None = None,
    part: Cell | None = None,
) -> tuple[Array, Array]:
    """y at points of the region with random ends t and d, by the definitions of the variables; and d'J t there.

    Where an end has no variables, the largest over it: the Euclidean norm. With a part of the region: at its points
    among them, with its bounds.
    """
    ends = Ends() if ends is None else ends
    box = region.box if isinstance(region, Ball) else region
    x, t = sampled(box, count)
    if isinstance(region, Ball):
        x = region.project(x)
    pre = preactivation_bounds(net, region) if part is None else bounds_of(net, [part]).of(0)
    if part is not None:
        inside = np.all(
            [np.all(s * z >= 0, axis=1) for s, z in zip(part.signs, net.preactivations(x), strict=True)], axis=0
        )
        x, t = x[inside], t[inside]
        count = len(x)
    zs = net.preactivations(x)
    layers = layers_of(net, pre, c, ends)
    radius = (box.hi - box.lo) / 2
    blocks = {"one": np.ones((count, 1)), "t": t}
    t = end_points(blocks, t, ends)
    d = weights(blocks, np.random.default_rng(count + 1).normal(size=(count, net.outputs)), c, ends)
    blocks["w"] = (x - (box.lo / 2 + box.hi / 2)) / np.where(radius > 0, radius, 1.0)
    slopes = [f.derivative(z) for f, z in zip(net.activations, zs, strict=True)]
    opens = [_open(layer, z, u) for layer, z, u in zip(layers.hidden, zs, slopes, strict=True)]
    for u, layer in zip(slopes, layers.hidden, strict=True):
        u[:, layer.pruned] = 0.0
    g = d @ _dense(net, net.depth)
    for i in range(net.depth, 0, -1):
        layer = layers.hidden[i - 1]
        blocks[layer.switch] = 2 * opens[i - 1] - 1
        blocks[f"x{i}"] = _scaled(opens[i - 1] * zs[i - 1], Interval(np.zeros(layer.width), layer.z.hi))
        blocks[f"s{i}"] = _scaled(opens[i - 1] * g, layer.g)
        g = (slopes[i - 1] * g) @ _dense(net, i - 1)
    q = t
    for i, layer in enumerate(layers.hidden):
        q = q @ _dense(net, i).T
        blocks[f"y{i + 1}"] = _scaled(opens[i] * q, layer.q)
        q = slopes[i] * q
    if net.depth == 1:  # as the relaxations of one hidden layer call them
        blocks["v"] = blocks[layers.hidden[0].switch]
    parts = []
    for name, where in relaxation.space.slices.items():
        members = relaxation.blocks.get(name, (np.arange(where.stop - where.start), 0))[0]
        parts.append(blocks[name][:, members])
    J = np.stack([np.broadcast_to(net.gradient(x, e), x.shape) for e in np.eye(net.outputs)], axis=1)
    down, up = np.einsum("ko,koi->ki", d, J), np.einsum("koi,ki->ko", J, t)
    if relaxation.finish.scale == 0.0:
        return np.concatenate(parts, axis=1), np.einsum("ki,ki->k", t, down)
    return np.concatenate(parts, axis=1), np.linalg.norm(down if relaxation.name[:1] in "bt" else up, axis=1)


def end_points(blocks: dict[str, Array], t: Array, ends: Ends) -> Array:
    """t in the unit ball of the norm, and its block."""
    match ends.norm.p:
        case "2":
            t = np.random.default_rng(len(t)).normal(size=t.shape)
            blocks["tb"] = t / np.linalg.norm(t, axis=1)[:, None]
            return blocks["tb"]
        case "1":
            blocks["t"] = t[:, :1]
            return np.asarray(np.eye(t.shape[1])[ends.coordinate] * t[:, :1])
        case _:
            return t


def weights(blocks: dict[str, Array], d: Array, c: Array, ends: Ends) -> Array:
    """d: the weights given, or any in the ball dual to the norm of outputs, and its block."""
    match ends.norm.out:
        case "2":
            blocks["ob"] = d / np.linalg.norm(d, axis=1)[:, None]
            return blocks["ob"]
        case "1":
            blocks["o"] = np.where(d < 0, -1.0, 1.0)
            return blocks["o"]
        case _:
            return np.broadcast_to(c, d.shape)


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


def _open(layer: Layer, z: Array, u: Array) -> Array:
    """u' of every neuron."""
    if layer.binary:
        return (z > 0).astype(float)
    return np.asarray(np.clip((u - layer.base) / np.where(layer.delta > 0, layer.delta, 1.0), 0.0, 1.0))


def _scaled(values: Array, interval: Interval) -> Array:
    lo, hi = np.minimum(interval.lo, 0.0), np.maximum(interval.hi, 0.0)
    return np.asarray((values - (lo + hi) / 2) / np.where(hi > lo, (hi - lo) / 2, 1.0))


def _dense(net: Network, i: int) -> Array:
    return np.asarray(net.affines[i].weight)
