"""The choice of a split: cheap bounds try a few candidates whose open slopes cost most, many cells at once."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Interval, Split, halves
from lipcert.method.branching.judge import Judged, judge_together
from lipcert.method.branching.node import Node
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull
from lipcert.rounding import Array
from lipcert.search.scores import BOXES_UP_TO, NEVER, best_coordinates

# Measured on the paper's (10,10) and (20,20) networks and ACAS Xu 1_1.
SPLITS_TRIED = 3  # neurons tried at a time if boxes are not split
SIGNS_BESIDE_BOXES = 12  # a neuron is tried besides a coordinate if at most so many signs are open,
BOXES_IDLE = 4  # or after so many splits of boxes in a row that gained little
# Looks at numbers of a cell, measured on 784-40, 200-50-50, 8-100-100 and 20-40-40 neurons.
CELL_SIDES = 40.0  # at an entry of a form, for each half-space
CELL_SMOOTH = 60.0  # at a weight of a smooth block


@dataclass(frozen=True, eq=False)
class Halves:
    """A split and its two cells."""

    split: Split
    judged: Judged
    first: int  # the number of the lower one among the judged cells; the upper one is next


def splits_boxes(net: Network, node: Node) -> bool:
    """Whether coordinates are split too: few inputs, and more to gain than with the neurons of one layer.

    Slopes of smooth activations leave no other choice, however many inputs there are.
    """
    box = hull(node.cell.region)
    if box is None:
        return False
    if not node.free.any() and not all(f.piecewise_linear for f in net.activations):
        return True
    return box.size <= BOXES_UP_TO and (net.depth > 1 or not node.open)


def coordinate_cuts(net: Network, nodes: list[Node]) -> list[Split | None]:
    """For every node the best coordinate of its box, in the middle; None where there is none, or boxes are not cut."""
    found: list[Split | None] = [None] * len(nodes)
    boxes = {k: box for k, node in enumerate(nodes) if splits_boxes(net, node) and (box := hull(node.cell.region))}
    if not boxes:
        return found
    lo, hi = (np.stack([getattr(box, end) for box in boxes.values()]) for end in ("lo", "hi"))
    best = best_coordinates(lo, hi, np.stack([nodes[k].coordinates for k in boxes]))
    middle = lo / 2 + hi / 2
    for row, (k, i) in enumerate(zip(boxes, best.tolist(), strict=True)):
        found[k] = None if i == NEVER else Split(0, i, float(middle[row, i]))
    return found


def candidates(net: Network, node: Node, cut: Split | None) -> list[Split]:
    """The best cut of a box with few inputs; neurons where few signs are open, where boxes did not help (all
    kinks may meet on one line), or where there are no such boxes."""
    boxes = splits_boxes(net, node)
    splits = [] if cut is None else [cut]
    if splits and node.open > SIGNS_BESIDE_BOXES and node.idle < BOXES_IDLE:
        return splits
    score = node.neurons if node.doubt is None else node.neurons * (0.02 + node.doubt)
    score = np.where(node.free, score, -1.0)
    if not node.free.any():
        return splits
    if not boxes:
        ranked = np.argsort(-score, kind="stable")[:SPLITS_TRIED]
        return [_neuron(net, int(j)) for j in ranked if node.free[j]]
    # Besides the best one the best of the first block with open signs: behind it everything is known better.
    best, end = _neuron(net, int(np.argmax(score))), np.cumsum(net.shape[1:-1])
    first = int(np.searchsorted(end, int(np.argmax(node.free)), side="right"))
    early = _neuron(net, int(np.argmax(score[: end[first]])))
    return [*splits, best] if early == best else [*splits, best, early]


def _neuron(net: Network, j: int) -> Split:
    ends = np.cumsum(net.shape[1:-1])
    layer = int(np.searchsorted(ends, j, side="right"))
    return Split(layer + 1, j - int(ends[layer - 1] if layer else 0))


@dataclass(frozen=True, eq=False)
class Tried:
    """For every node the best of its splits, None without candidates; and what it took: how many cells were bounded,
    the share of their signs that is open, and the half-spaces that each had."""

    best: list[Halves | None]
    cells: int
    open: float
    sides: int


def try_splits(problem: Problem, nodes: list[Node], threshold: float, executor: Executor) -> Tried:
    """For every node the candidate whose halves are best by the cheap bounds."""
    net = problem.network
    splits = [candidates(net, *pair) for pair in zip(nodes, coordinate_cuts(net, nodes), strict=True)]
    pairs = [(node, split) for node, some in zip(nodes, splits, strict=True) for split in some]
    if not pairs:
        return Tried([None] * len(nodes), 0, 0.0, 0)
    cells = [cell for node, split in pairs for cell in halves(node.cell, split)]
    origin = np.repeat(np.repeat(np.arange(len(nodes)), [len(s) for s in splits]), 2)
    pre = [[node.alone.pre[k] for node in nodes] for k in range(problem.network.depth)]
    known = tuple(
        Interval(np.concatenate([z.lo for z in block])[origin], np.concatenate([z.hi for z in block])[origin])
        for block in pre
    )
    judged = judge_together(problem, cells, known, executor)
    cost = _cost(judged.uppers, judged.count, threshold).reshape(-1, 2).sum(axis=1)
    # A cut beside a point where kinks meet closes one half and leaves the other as it is, again and again.
    idle = [node.idle if split.layer == 0 else 0 for node, split in pairs]
    cost = cost * np.exp2(np.minimum(idle, 1000))
    answers: list[Halves | None] = []
    start = 0
    for some in splits:
        if not some:
            answers.append(None)
            continue
        k = start + int(np.argmin(cost[start : start + len(some)]))
        answers.append(Halves(some[k - start], judged, 2 * k))
        start += len(some)
    return Tried(answers, len(cells), float(judged.free.mean()), judged.bounds.sides.count)


def _cost(uppers: Array, still_open: NDArray[np.int64], threshold: float) -> Array:
    """About how much work a cell will be: nothing when it is decided, else growing with its open signs and excess."""
    with np.errstate(all="ignore"):
        excess = np.log2(np.maximum(uppers / max(threshold, 1e-300), 1.0))
    excess = np.minimum(np.nan_to_num(excess, nan=100.0, posinf=100.0), 100.0)
    return np.where(excess > 0, np.exp2(0.3 * np.minimum(still_open, 200) + 0.3 * excess), 0.0)


def look_operations(problem: Problem, tried: Tried) -> float:
    """Looks at the entries of forms: several for each multiple of a half-space in those of open neurons, and many where
    lines are tangents and chords of smooth activations."""
    net = problem.network
    pushes = CELL_SIDES * 2.0 * tried.open * net.neurons * net.inputs * tried.sides
    smooth = sum(b.entries for b in net.hidden if not b.activation.piecewise_linear)
    return tried.cells * (pushes + CELL_SMOOTH * smooth)
