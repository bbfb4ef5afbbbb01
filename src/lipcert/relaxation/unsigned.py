"""The backward lift of a whole map without values and without signs: what is left of it where d is a variable.

Turn d, t and all s over: every row stays true, and so does the objective. The mean of a moment matrix and of the one
turned over is therefore as good, and in it d, t and s are not correlated with 1, v, w and x. The rows that tie s to its
sign, s (1-u) = 0 and u (s - g) = 0, and all that are linear in s, then say nothing. What is left is

    s (s - g) = 0        (<= 0 where slopes lie between both)        s^2 <= its bound,        |d|^2 <= 1

which is method slopes, and the cuts of `crosses` on two neurons, which go below it. The matrix has one variable for
each output and each open neuron, about half as many as with signs, and a row or two for each in place of nine: that is
how whole maps of networks with hundreds of open neurons get their cuts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipcert.problem.problem import Problem
from lipcert.relaxation.derivative import meets
from lipcert.relaxation.ends import ball_rows, end_blocks, source, weights
from lipcert.relaxation.layers import Layers, layers_of
from lipcert.relaxation.model import Finish, Relaxation, Space, assemble, diagonal
from lipcert.relaxation.passes import gradients
from lipcert.relaxation.switched import stored
from lipcert.rounding import sum_up


def unsigned(problem: Problem) -> Relaxation:
    """The relaxation of a whole map: outputs' weights d, and s of the open neurons."""
    layers = layers_of(problem)
    space = _space(problem, layers)
    blocks = {name: (np.arange(size), size) for name, size in end_blocks(problem, "backward").items()}
    blocks |= {layer.name("s"): (layer.free, layer.width) for layer in layers.hidden}
    down = gradients(problem.network, space, layers, False, weights(problem, space))
    objective, offset, scale = meets(space, source(problem, space), down.ends[0])
    families = [*diagonal(space, blocks), *ball_rows(space), *down.families]
    factors = {item.layer.name("s"): stored(space, item) for item in down.items}
    paid = offset if scale else sum_up(np.array([offset, layers.lost]))
    relaxation = assemble(space, objective, families, paid, blocks, factors)
    return replace(relaxation, finish=Finish(scale, layers.lost)) if scale else relaxation


def unsigned_order(problem: Problem) -> int:
    """The order of its matrix."""
    return _space(problem, layers_of(problem)).size


def _space(problem: Problem, layers: Layers) -> Space:
    sizes = end_blocks(problem, "backward") | {layer.name("s"): len(layer.free) for layer in layers.hidden}
    return Space(**sizes)
