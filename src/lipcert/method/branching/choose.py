"""Where to split: a few candidates, tried with the cheap bounds, many cells at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lipcert import policy
from lipcert.bounds import (
    Bounds,
    Cell,
    Interval,
    Split,
    bounds_of,
    gradient_bounds,
    halves,
    interval_uppers,
    joined,
    slope_bounds,
)
from lipcert.bounds.interval import times
from lipcert.method.branching.node import Node
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.rounding import Array

_NARROW = 1e-9  # a box that is this narrow beside its numbers is not split


@dataclass(frozen=True, eq=False)
class Halves:
    """A split and its two cells with their cheap bounds."""

    split: Split
    cells: tuple[Cell, Cell]
    bounds: tuple[Bounds, Bounds]
    uppers: Array
    open: Array


def open_neurons(problem: Problem, pre: tuple[Interval, ...]) -> tuple[NDArray[np.bool_], Array]:
    """Per cell: which neurons have an open sign that matters, and how much they can change the gradient at most."""
    net = problem.network
    slopes, gradients = slope_bounds(net, pre), gradient_bounds(net, pre, problem.c)
    reach: list[Array] = [np.ones((len(pre[0].lo), net.inputs))]  # of every block, for changes of the input
    masks, weights = [], []
    for k, (s, block) in enumerate(zip(slopes, net.hidden, strict=True)):
        moved = sum((times(reach[source], abs(w)) for source, w in block.terms), np.zeros_like(s.hi))
        weight = np.nan_to_num(gradients[k + 1].magnitude * moved, posinf=1e300)
        masks.append((s.hi > s.lo) & (weight > 0) & block.activation.kinked)
        weights.append(weight)
        reach.append(s.hi * moved)
    return np.concatenate(masks, axis=1), np.concatenate(weights, axis=1)


def splits_boxes(net: Network, node: Node) -> bool:
    """Whether coordinates are split too: few inputs, and more to gain than with the neurons of one layer."""
    box = node.cell.region
    return isinstance(box, Box) and box.size <= policy.CELLS_INPUTS and (net.depth > 1 or not node.open)


def candidates(problem: Problem, node: Node) -> list[Split]:
    """Coordinates of a box with few inputs, and the neurons that matter most."""
    net, splits, box = problem.network, [], node.cell.region
    if isinstance(box, Box) and splits_boxes(net, node):
        wide = box.hi - box.lo > _NARROW * np.maximum(np.abs(box.lo), np.abs(box.hi))
        middle = box.lo / 2 + box.hi / 2
        splits += [Split(0, int(i), float(middle[i])) for i in np.flatnonzero(wide)]
    mask, weight = (a[0] for a in open_neurons(problem, node.alone.pre))
    lo, hi = (np.concatenate([getattr(z, end)[0] for z in node.alone.pre]) for end in ("lo", "hi"))
    with np.errstate(all="ignore"):
        balance = np.where(np.isfinite(lo) & np.isfinite(hi), np.minimum(hi, -lo) / (hi - lo), 0.5)
    score = weight * (balance if node.doubt is None else balance * (0.02 + node.doubt))
    ranked = np.argsort(-np.where(mask, score, -1.0), kind="stable")[: policy.SPLITS_TRIED]
    return splits + [_neuron(net, int(j)) for j in ranked if mask[j]]


def _neuron(net: Network, j: int) -> Split:
    ends = np.cumsum(net.shape[1:-1])
    layer = int(np.searchsorted(ends, j, side="right"))
    return Split(layer + 1, j - int(ends[layer - 1] if layer else 0))


def try_splits(problem: Problem, nodes: list[Node], threshold: float) -> tuple[list[Halves | None], int]:
    """For every node the candidate whose halves are best by intervals, with these halves (None without candidates), and
    how many cells were bounded for it."""
    splits = [candidates(problem, node) for node in nodes]
    pairs = [(node, split) for node, some in zip(nodes, splits, strict=True) for split in some]
    if not pairs:
        return [None] * len(nodes), 0
    cells = [cell for node, split in pairs for cell in halves(node.cell, split)]
    origin = np.repeat(np.repeat(np.arange(len(nodes)), [len(s) for s in splits]), 2)
    above = joined([node.alone for node in nodes])
    known = tuple(Interval(z.lo[origin], z.hi[origin]) for z in above.pre)
    bounds = _bounds(problem.network, cells, known, [2 * len(s) for s in splits])
    uppers = interval_uppers(problem.network, bounds, problem.norm, problem.c)
    still_open = np.where(bounds.empty, 0, open_neurons(problem, bounds.pre)[0].sum(axis=1))
    cost = _cost(uppers, still_open, threshold)
    answers: list[Halves | None] = []
    start = 0
    for some in splits:
        if not some:
            answers.append(None)
            continue
        k = start + 2 * int(np.argmin(cost[start : start + 2 * len(some)].reshape(-1, 2).sum(axis=1)))
        two = (bounds.rows(np.array([k])), bounds.rows(np.array([k + 1])))
        own = slice(k, k + 2)
        answers.append(Halves(some[(k - start) // 2], (cells[k], cells[k + 1]), two, uppers[own], still_open[own]))
        start += 2 * len(some)
    return answers, len(cells)


def _bounds(net: Network, cells: list[Cell], known: tuple[Interval, ...], counts: list[int]) -> Bounds:
    """All at once where calls cost more than numbers; else node by node: the halves of one have the same open signs."""
    if net.neurons <= policy.SMALL_NETWORK:
        return bounds_of(net, cells, known)
    ends = np.cumsum([0, *counts])
    pieces = [(slice(a, b), [Interval(z.lo[a:b], z.hi[a:b]) for z in known]) for a, b in pairwise(ends) if b > a]
    return joined([bounds_of(net, cells[own], tuple(pre)) for own, pre in pieces])


def _cost(uppers: Array, still_open: Array, threshold: float) -> Array:
    """About how much work a cell will be: nothing when it is decided, else growing with its open signs and excess."""
    with np.errstate(all="ignore"):
        excess = np.log2(np.maximum(uppers / max(threshold, 1e-300), 1.0))
    excess = np.minimum(np.nan_to_num(excess, nan=100.0, posinf=100.0), 100.0)
    return np.where(excess > 0, np.exp2(0.3 * np.minimum(still_open, 200) + 0.3 * excess), 0.0)


def cell_operations(net: Network) -> float:
    """About the operations of the cheap bounds of one cell: every neuron's form is carried down to the input."""
    below, total = 0.0, 0.0
    for block in net.hidden:
        below += block.entries
        total += 4.0 * block.width * below
    return total
