"""Any depth: the chain rule as variables, one moment matrix over (1, w, t, v_i, x_i, s_i, y_i), in any norm (`ends`).

    backward    the gradient's way down:  L = max t' g_0
    forward     the direction's way up:   L = max d'(J t)
    both        s_i and y_i with the identities that make the derivative the same on both ways

each with the values x, or free of them (everywhere, or on boxes where x carries little). Stable neurons are
substituted in every block; leaky ReLU and smooth activations are brought to the rows of ReLU (`layers`). Where both
ways are in the matrix,

    t' g_0  =  sum_j (A_{m+1,j}'d)' y_j         is the same number, seen at both ends,

and neuron by neuron s q = g y = s y. A block that only the scores read, with given weights, has no y: s'q stands for
it.

*Unsigned*: the backward lift of a whole map without values and without signs. Let d be a variable and turn d, t and all
s over: every row stays true, and so does the objective. The mean of a moment matrix and of the one turned over is
therefore as good, and in it d, t and s are not correlated with 1, v, w and x. The rows that tie s to its sign,
s (1-u) = 0 and u (s - g) = 0, and all that are linear in s, then say nothing. There remain

    s (s - g) = 0        (<= 0 where slopes lie between both)        s^2 <= its bound,        |d|^2 <= 1

which is method slopes, and the cross cuts on two neurons, which go below it. The matrix has one variable for each
output and each open neuron, about half as many as with signs, and a row or two for each in place of nine: whole maps of
networks with hundreds of open neurons get their cuts like that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from lipcert.problem.norms import Matrix, Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import ball_of, hull
from lipcert.relaxation.ends import ball_rows, end_blocks, euclidean, source, weights, within
from lipcert.relaxation.exclusions import exclusions
from lipcert.relaxation.layers import LiftedLayers, layers_of
from lipcert.relaxation.model import (
    Family,
    Finish,
    Index,
    NonnegativeForms,
    Relaxation,
    Space,
    Tracked,
    affine,
    assemble,
    constants,
    diagonal,
    exactly,
    product,
    stack,
)
from lipcert.relaxation.passes import (
    PassRows,
    directions,
    factors,
    gradients,
    inputs_of,
    slope_times_constant,
    stored,
    total,
    values,
)
from lipcert.rounding import UNIT, Array, gamma, grow, sum_up


@dataclass(frozen=True, eq=False)
class Derivative:
    """The objective and a bound of its error; `scale` as in `Finish`; the passes, and the rows that tie them."""

    objective: sparse.csr_array
    offset: float
    scale: float
    passes: tuple[PassRows, ...]
    families: tuple[Family, ...] = ()


def derivative(problem: Problem, space: Space, layers: LiftedLayers, form: str, wide: bool) -> Derivative:
    """The objective of a lift of this form, the passes that it needs, and the rows that tie them."""
    net = problem.network
    t, d = source(problem, space), weights(problem, space)
    if form == "backward":
        down = gradients(net, space, layers, wide, d)
        return Derivative(*meets(space, t, down.ends[0]), (down,))
    assert t is not None
    up = directions(net, space, layers, wide, t)
    at_top = _at_scores(problem, space, layers, up)
    if form == "forward":
        return Derivative(*at_top, (up,))
    down = gradients(net, space, layers, wide, d)
    at_input, off_at_input = bilinear(t, down.ends[0])
    # Equal at true points, and in the relaxation too where every layer is tied: the mean serves layers that are not.
    mean = sparse.csr_array((at_input + at_top[0]) / 2)
    rounding = 4 * UNIT * float(abs(at_input).sum() + abs(at_top[0]).sum())
    off = sum_up(np.array([max(at_top[1], off_at_input), rounding]))
    return Derivative(mean, off, 0.0, (down, up), (*ties(down, up), *corners(space, down, up)))


def _at_scores(
    problem: Problem, space: Space, layers: LiftedLayers, up: PassRows
) -> tuple[sparse.csr_array, float, float]:
    """d'(J t): the weights of the outputs times the derivative of the scores along the direction."""
    scores = problem.network.scores
    if problem.whole_map:
        return meets(space, weights(problem, space), total(space, scores.terms, up.passed, scores.width))
    slopes: list[Tracked] = []
    moved: list[Tracked] = []
    for j, _ in scores.terms:
        if j not in up.passed:
            slopes.append(slope_times_constant(space, layers.hidden[j - 1]))
            moved.append(up.ends[j])
    linear = [term for term in scores.terms if term[0] in up.passed]
    if linear:
        slopes.append(constants(space, np.ones(1)))
        moved.append(affine(space, problem.c[None, :], total(space, linear, up.passed, scores.width)))
    return *bilinear(stack(slopes), stack(moved)), 0.0


def meets(space: Space, end: Tracked | None, vector: Tracked) -> tuple[sparse.csr_array, float, float]:
    """end'vector, or the Euclidean norm of the vector where the end has no variables."""
    return euclidean(space, vector) if end is None else (*bilinear(end, vector), 0.0)


def ties(gradient: PassRows, direction: PassRows) -> list[Family]:
    """s q = s y = g y, neuron by neuron, where u' is 0 or 1."""
    families: list[Family] = []
    for s, y in zip(gradient.items, direction.items, strict=True):
        place, i = (s.layer.free, s.layer.width), s.layer.index
        if s.layer.binary:
            families += [
                product(f"{i}: s (q - y) = 0", s.a, y.b - y.a, *place, equality=True),
                product(f"{i}: (g - s) y = 0", s.b - s.a, y.a, *place, equality=True),
            ]
    return families


def corners(space: Space, gradient: PassRows, direction: PassRows) -> list[Family]:
    """(s - l u)(y - l' u) >= 0 and three more: products of the bounds of s with those of y."""
    families: list[Family] = []
    for s, y in zip(gradient.items, direction.items, strict=True):
        place, i = (s.layer.free, s.layer.width), s.layer.index
        of_s, of_y = factors(space, s)[:2], factors(space, y)[:2]
        for first, a in zip(("s - l u", "h u - s"), of_s, strict=True):
            for second, b in zip(("y - l u", "h u - y"), of_y, strict=True):
                families.append(product(f"{i}: ({first})({second}) >= 0", -a, b, *place))
    return families


def bilinear(a: Tracked, b: Tracked) -> tuple[sparse.csr_array, float]:
    """C with y'Cy = sum_k a_k b_k, and a bound of the errors and of the rounding."""
    half = sparse.csr_array((sparse.csr_array(a.matrix).T @ sparse.csr_array(b.matrix)) / 2)
    sizes = (a.magnitude, b.magnitude)
    with np.errstate(over="ignore", invalid="ignore"):
        terms: Array = sizes[0] * b.error + sizes[1] * a.error + a.error * b.error
        terms = terms + gamma(len(a) + 8) * sizes[0] * sizes[1]
        return sparse.csr_array(half + half.T), sum_up(grow(terms, 8))


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
    passes: list[PassRows] = []
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
    """Whether the values x tighten the lift; not where the box holds nearly every sign pattern of the first block.

    This is a guess, as `needs_x` for one hidden layer. Leaving x out is a relaxation, and leaves more time for cuts.
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


def _moving(problem: Problem, layers: LiftedLayers, with_values: bool) -> Index | None:
    """The coordinates of x that have a variable; None where values are not in the matrix."""
    box = hull(problem.region)
    if not with_values or box is None or not any(len(layer.free) for layer in layers.tied):
        return None
    return np.flatnonzero(box.hi > box.lo)


def _space(problem: Problem, layers: LiftedLayers, form: str, moving: Index | None) -> Space:
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
    problem: Problem, space: Space, layers: LiftedLayers, form: str, moving: Index | None
) -> dict[str, tuple[Index, int]]:
    """For every block of y the places of its entries, and the number of places."""
    blocks = {name: (np.arange(size), size) for name, size in end_blocks(problem, form).items()}
    blocks |= {layer.name(letter): (layer.free, layer.width) for layer in layers.hidden for letter in "vdxsy"}
    if moving is not None:
        blocks["w"] = (moving, problem.network.inputs)
    return {name: where for name, where in blocks.items() if name in space.slices}


def _factors(space: Space, passes: list[PassRows]) -> dict[str, NonnegativeForms]:
    return {item.layer.name(item.own): stored(space, item) for part in passes for item in part.items}


def _of_region(
    problem: Problem, space: Space, layers: LiftedLayers, x: Tracked, moving: Index, exclude: bool
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


def unsigned(problem: Problem) -> Relaxation:
    """The relaxation of a whole map: outputs' weights d, and s of the open neurons."""
    layers = layers_of(problem)
    space = _unsigned_space(problem, layers)
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
    return _unsigned_space(problem, layers_of(problem)).size


def _unsigned_space(problem: Problem, layers: LiftedLayers) -> Space:
    sizes = end_blocks(problem, "backward") | {layer.name("s"): len(layer.free) for layer in layers.hidden}
    return Space(**sizes)
