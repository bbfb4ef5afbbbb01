"""Any depth: the chain rule as variables, one moment matrix over (1, w, t, v_i, x_i, s_i, y_i), in any norm (`ends`).

    backward    the gradient's way down:  L = max t' A_1' s_1
    forward     the direction's way up:   L = max s_m' q_m
    both        s_i and y_i with the identities that make the derivative the same at every layer

each with the values x, or free of them (everywhere, or on boxes where x carries little). Stable neurons are
substituted at every layer; leaky ReLU and smooth activations are brought to the rows of ReLU (`layers`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from lipcert.bounds.propagation import Interval, preactivation_bounds
from lipcert.errors import MethodError
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix, Norm
from lipcert.problem.region import Ball, Box, Region, hull
from lipcert.relaxation.derivative import derivative
from lipcert.relaxation.ends import Ends, ball_rows, within
from lipcert.relaxation.exclusions import exclusions
from lipcert.relaxation.layers import Layer, Layers, layers_of
from lipcert.relaxation.model import Factors, Family, Finish, Index, Relaxation, Space, assemble, is_sign
from lipcert.relaxation.passes import Pass, inputs_of, values, with_values
from lipcert.relaxation.switched import WIDE, stored
from lipcert.relaxation.tracked import Tracked, exactly, product
from lipcert.rounding import Array, sum_up

LIFTS = ("backward", "forward", "both", "backward-free", "forward-free", "both-free")
PRODUCTS_UP_TO = 100  # inputs, for the rows (1 +- t)(1 +- w) >= 0
WIDE_UP_TO = 300  # the order of the matrix
LARGE = 0.2  # |z| in the middle of the box over its reach
RANK_UP_TO = 1000  # neurons, for a rank


def check_applies(net: Network, name: str = "backward") -> None:
    """Refuse what the lifts do not cover, by name."""
    if net.depth == 0:
        raise MethodError(f"method {name} needs a hidden layer; an affine network is exact with interval")


def lift(
    name: str,
    net: Network,
    region: Region,
    c: Array,
    pre: tuple[Interval, ...] | None = None,
    wide: bool | None = None,
    exclude: bool = False,
    ends: Ends = Ends(),  # noqa: B008 - frozen
) -> Relaxation:
    """One of LIFTS; `pre` as from `preactivation_bounds`, wide chords as the size suggests when None.

    `exclude` adds the pairs of signs of the first layer that the box does not allow; `ends` are the norms.
    """
    pre = preactivation_bounds(net, region) if pre is None else pre
    layers = layers_of(net, pre, c, ends)
    kind, _, free = name.partition("-")
    box = None if free or not any(len(k.free) for k in with_values(layers)) else hull(region)
    moving = np.flatnonzero(box.hi > box.lo) if box is not None else np.arange(0)
    space = _space(net, layers, kind, None if box is None else len(moving), ends)
    if wide is None:
        wide = space.size <= WIDE_UP_TO
    families = _diagonal(space, net, layers, moving, ends.blocks(net, kind)) + ball_rows(space)
    passes: list[Pass] = []
    if box is not None:
        x = inputs_of(net, space, box, moving)
        passes.append(values(net, space, layers, x, wide))
        families += _of_region(net, space, layers, region, x, moving, exclude)
        if net.inputs <= PRODUCTS_UP_TO and ends.norm.p == "inf":
            families += _products(space, moving, net.inputs)
    found = derivative(net, space, layers, kind, wide, ends)
    passes += found.passes
    families += [*(family for part in passes for family in part.families), *found.families]
    blocks, offset = _blocks(space, layers, moving, net.inputs), np.array([found.offset])
    if found.scale == 0.0:
        offset = np.append(offset, layers.lost)
    whole = assemble(name, space, found.objective, families, sum_up(offset), blocks, _factors(space, passes))
    return whole if found.scale == 0.0 else replace(whole, finish=Finish(found.scale, layers.lost))


def _of_region(
    net: Network, space: Space, layers: Layers, region: Region, x: Tracked, moving: Index, exclude: bool
) -> list[Family]:
    """Rows of x besides those of its single entries and of the passes."""
    families: list[Family] = []
    if isinstance(region, Ball) and len(moving):
        families += within(space, x, region.center, region.radius)
    box = hull(region)
    if exclude and box is not None:
        families += _exclusions(net, space, layers.hidden[0], box)
    return families


def reaches_everything(net: Network, region: Region) -> bool:
    """Whether values carry little: the box brings every sign pattern of the first layer within easy reach.

    A guess, as `box_is_large` of one hidden layer: leaving x out is a relaxation, and lets cuts do more in the time.
    """
    box = hull(region)
    if box is None or net.affines[0].outputs > RANK_UP_TO:
        return box is None
    A, b = net.affines[0].weight, net.affines[0].bias
    with np.errstate(over="ignore", invalid="ignore"):
        reach = abs(A) @ (box.hi / 2 - box.lo / 2)
        if isinstance(region, Ball):
            reach = np.minimum(reach, region.radius * Norm("2").of(_dense(A)))
        middle = A @ (box.hi / 2 + box.lo / 2) + b
    matters = reach > 0
    if np.any(np.abs(middle) > LARGE * reach):
        return False
    return int(np.linalg.matrix_rank(_dense(A)[matters])) == int(matters.sum())


def backward(
    net: Network, region: Region, c: Array, pre: tuple[Interval, ...] | None = None, exclude: bool = False
) -> Relaxation:
    """The backward lift with values."""
    return lift("backward", net, region, c, pre, exclude=exclude)


def _space(net: Network, layers: Layers, kind: str, moving: int | None, ends: Ends) -> Space:
    sizes: dict[str, int] = {} if moving is None else {"w": moving}
    sizes |= ends.blocks(net, kind)
    sizes |= {layer.switch: len(layer.free) for layer in layers.hidden}
    if moving is not None:
        sizes |= {layer.name("x"): len(layer.free) for layer in with_values(layers)[:-1]}
    inner = layers.hidden if ends.whole else layers.hidden[:-1]  # the last s is linear in u where c is given
    for letter, other in (("s", "forward"), ("y", "backward")):
        if kind != other:
            sizes |= {layer.name(letter): len(layer.free) for layer in inner}
    return Space(**sizes)


def _blocks(space: Space, layers: Layers, moving: Index, inputs: int) -> dict[str, tuple[Index, int]]:
    blocks = {layer.name(letter): (layer.free, layer.width) for layer in layers.hidden for letter in "vdxsy"}
    return {name: where for name, where in (blocks | {"w": (moving, inputs)}).items() if name in space.slices}


def _diagonal(space: Space, net: Network, layers: Layers, moving: Index, more: dict[str, int]) -> list[Family]:
    """y_i^2 = 1 for signs, y_i^2 <= 1 for scaled quantities."""
    where = {name: (np.arange(size), size) for name, size in ({"one": 1} | more).items()}
    where |= _blocks(space, layers, moving, net.inputs)
    families = []
    for name in space.slices:
        (members, total), forms = where[name], space[name]
        sign = is_sign(name)
        text = f"{name}^2 {'=' if sign else '<='} 1"
        families.append(Family(text, forms, forms, np.ones(len(members)), sign, members, total))
    return families


def _factors(space: Space, passes: list[Pass]) -> dict[str, Factors]:
    return {item.layer.name(item.own): stored(space, item) for part in passes for item in part.items}


def _exclusions(net: Network, space: Space, first: Layer, box: Box) -> list[Family]:
    return exclusions(space, _dense(net.affines[0].weight), net.affines[0].bias, box, first.free, first.name("v"))


def _products(space: Space, moving: Index, p0: int) -> list[Family]:
    """(1 + s t_i)(1 + q w_i) >= 0 for the coordinates that move."""
    one, w = exactly(space.constant(np.ones(len(moving)))), exactly(space["w"])
    t = exactly(space["t"])[moving]
    pairs = [(a, b, t if a == "+" else -t, w if b == "+" else -w) for a in "+-" for b in "+-"]
    return [product(f"(1{a}t)(1{b}w) >= 0", -(one + first), one + second, moving, p0) for a, b, first, second in pairs]


def _dense(A: Matrix) -> Array:
    return A if isinstance(A, np.ndarray) else np.asarray(A.toarray(), dtype=np.float64)


def has_wide(names: Iterable[str]) -> bool:
    """Whether stored families contain wide chords: a certificate is rebuilt with what it used."""
    return any(name.endswith(WIDE) for name in names)
