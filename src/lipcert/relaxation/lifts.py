"""Any depth: the chain rule as variables, one moment matrix over (1, w, t, v_i, x_i, s_i, y_i), in any norm (`ends`).

    backward    the gradient's way down:  L = max t' g_0
    forward     the direction's way up:   L = max d'(what it does to the scores)
    both        s_i and y_i with the identities that make the derivative the same on both ways

each with the values x, or free of them (everywhere, or on boxes where x carries little). Stable neurons are
substituted in every block; leaky ReLU and smooth activations are brought to the rows of ReLU (`layers`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipcert.problem.norms import Matrix, Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import ball_of, hull
from lipcert.relaxation.derivative import derivative
from lipcert.relaxation.ends import ball_rows, end_blocks, within
from lipcert.relaxation.exclusions import exclusions
from lipcert.relaxation.layers import Layers, layers_of
from lipcert.relaxation.model import Factors, Family, Finish, Index, Relaxation, Space, assemble, diagonal
from lipcert.relaxation.passes import Pass, inputs_of, values
from lipcert.relaxation.switched import stored
from lipcert.relaxation.tracked import Tracked, exactly, product
from lipcert.rounding import Array, sum_up

PRODUCTS_UP_TO = 100  # inputs, for the rows (1 +- t)(1 +- w) >= 0
WIDE_UP_TO = 300  # the order of the matrix
LARGE = 0.2  # |z| in the middle of the box over its reach
RANK_UP_TO = 1000  # neurons, for a rank


def lift(problem: Problem, form: str, with_values: bool, wide: bool, exclude: bool) -> Relaxation:
    """The lift of a form, backward, forward or both, with the rows that are asked for (see `Specification`)."""
    layers = layers_of(problem)
    moving = _moving(problem, layers, with_values)
    space = _space(problem, layers, form, moving)
    blocks = _blocks(problem, space, layers, form, moving)
    families = diagonal(space, blocks) + ball_rows(space)
    passes: list[Pass] = []
    if moving is not None:
        box = hull(problem.region)
        assert box is not None
        x = inputs_of(space, box, moving)
        passes.append(values(problem.network, space, layers, x, wide))
        families += _of_region(problem, space, layers, x, moving, exclude)
    found = derivative(problem, space, layers, form, wide)
    passes += found.passes
    families += [*(family for part in passes for family in part.families), *found.families]
    offset = [found.offset] if found.scale else [found.offset, layers.lost]
    whole = assemble(space, found.objective, families, sum_up(np.array(offset)), blocks, _factors(space, passes))
    return replace(whole, finish=Finish(found.scale, layers.lost)) if found.scale else whole


def wide_fits(problem: Problem, form: str, with_values: bool) -> bool:
    """Whether the matrix is small enough for wide chords."""
    layers = layers_of(problem)
    return _space(problem, layers, form, _moving(problem, layers, with_values)).size <= WIDE_UP_TO


def needs_values(problem: Problem) -> bool:
    """Whether values carry much: not where the box brings every sign pattern of the first block within easy reach.

    A guess, as `needs_x` of one hidden layer: leaving x out is a relaxation, and lets cuts do more in the time.
    """
    box, (_, A), b = hull(problem.region), problem.network.blocks[0].terms[0], problem.network.blocks[0].bias
    if box is None or len(b) > RANK_UP_TO:
        return box is not None
    with np.errstate(over="ignore", invalid="ignore"):
        reach = abs(A) @ (box.hi / 2 - box.lo / 2)
        if (ball := ball_of(problem.region)) is not None:
            reach = np.minimum(reach, ball.radius * Norm("2").of(_dense(A)))
        middle = A @ (box.hi / 2 + box.lo / 2) + b
    matters = reach > 0
    if np.any(np.abs(middle) > LARGE * reach):
        return True
    return int(np.linalg.matrix_rank(_dense(A)[matters])) != int(matters.sum())


def _moving(problem: Problem, layers: Layers, with_values: bool) -> Index | None:
    """The coordinates of x that have a variable; None where values are not in the matrix."""
    box = hull(problem.region)
    if not with_values or box is None or not any(len(layer.free) for layer in layers.tied):
        return None
    return np.flatnonzero(box.hi > box.lo)


def _space(problem: Problem, layers: Layers, form: str, moving: Index | None) -> Space:
    sizes: dict[str, int] = {} if moving is None else {"w": len(moving)}
    sizes |= end_blocks(problem, form)
    sizes |= {layer.switch: len(layer.free) for layer in layers.hidden}
    if moving is not None:
        sizes |= {layer.name("x"): len(layer.free) for layer in layers.hidden if layer.followed}
    for letter, other in (("s", "forward"), ("y", "backward")):
        if form != other:
            sizes |= {layer.name(letter): len(layer.free) for layer in layers.hidden if layer.lifted}
    return Space(**sizes)


def _blocks(
    problem: Problem, space: Space, layers: Layers, form: str, moving: Index | None
) -> dict[str, tuple[Index, int]]:
    """By block of y: the places of its entries, and among how many."""
    blocks = {name: (np.arange(size), size) for name, size in end_blocks(problem, form).items()}
    blocks |= {layer.name(letter): (layer.free, layer.width) for layer in layers.hidden for letter in "vdxsy"}
    if moving is not None:
        blocks["w"] = (moving, problem.network.inputs)
    return {name: where for name, where in blocks.items() if name in space.slices}


def _factors(space: Space, passes: list[Pass]) -> dict[str, Factors]:
    return {item.layer.name(item.own): stored(space, item) for part in passes for item in part.items}


def _of_region(
    problem: Problem, space: Space, layers: Layers, x: Tracked, moving: Index, exclude: bool
) -> list[Family]:
    """Rows of x besides those of its single entries and of the passes."""
    families: list[Family] = []
    region, ball, net = problem.region, ball_of(problem.region), problem.network
    if ball is not None and len(moving):
        families += within(space, x, ball.center, ball.radius)
    box, first, block = hull(region), layers.hidden[0], net.blocks[0]
    if exclude and box is not None and first.binary:
        layer = _dense(block.terms[0][1]), block.bias, block.doubt
        families += exclusions(space, layer, box, first.free, first.name("v"))
    if net.inputs <= PRODUCTS_UP_TO and problem.norm.p == "inf":
        families += _products(space, moving, net.inputs)
    return families


def _products(space: Space, moving: Index, p0: int) -> list[Family]:
    """(1 + s t_i)(1 + q w_i) >= 0 for the coordinates that move."""
    one, w = exactly(space.constant(np.ones(len(moving)))), exactly(space["w"])
    t = exactly(space["t"])[moving]
    pairs = [(a, b, t if a == "+" else -t, w if b == "+" else -w) for a in "+-" for b in "+-"]
    return [product(f"(1{a}t)(1{b}w) >= 0", -(one + first), one + second, moving, p0) for a, b, first, second in pairs]


def _dense(A: Matrix) -> Array:
    return A if isinstance(A, np.ndarray) else np.asarray(A.toarray(), dtype=np.float64)
