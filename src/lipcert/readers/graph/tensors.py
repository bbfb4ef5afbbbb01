"""Graph and Tensor: a network gathered operation by operation, with branches as they come.

A tensor is a shape and an affine expression of the blocks so far, bias + sum_j term_j x_j, flattened in C order; 0 is
the input. An affine operation makes another expression, an activation makes a block. Where folding two maps into one
would cost more than both of them, the values between them become a block of their own that only adds up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.activations import IDENTITY, Activation
from lipcert.problem.blocks import Affine, Block, handed_over
from lipcert.problem.maps import Index, Matrix, Operator, entries
from lipcert.problem.network import Network
from lipcert.readers.graph.products import Probes
from lipcert.readers.graph.terms import (
    Picked,
    Term,
    added,
    applied,
    as_matrix,
    check_entries,
    check_width,
    everything,
    folded_entries,
    image,
    scaled,
    selected,
    term_entries,
)
from lipcert.rounding import Array

MAX_BLOCKS = 5_000
MAX_WORK = 1 << 31  # numbers that are made while reading
_ALWAYS = 1 << 20  # entries up to which two maps are folded, whatever they cost apart
_SAVES = 2  # times fewer multiplications that a block of its own must save


@dataclass(frozen=True, eq=False)
class Tensor:
    """Values that depend on the input; made and taken by the methods of a `Graph`.

    `order`: where its values are among those of the expression, if they are those in another order. `dropped` names
    what was left out behind it, which stays so where nothing but a change of shape follows; `behind` makes it.
    """

    shape: tuple[int, ...]
    terms: dict[int, Term]
    bias: Array
    order: Index | None = None
    dropped: str = ""
    behind: Callable[[], Tensor] | None = None

    @property
    def width(self) -> int:
        """The number of values."""
        return len(self.bias)

    @property
    def places(self) -> Index:
        """0, 1, .. in the tensor's shape: rearrange these and `Graph.pick` them."""
        return np.arange(self.width).reshape(self.shape)

    def reshaped(self, shape: Sequence[int]) -> Tensor:
        """The same values, in the same order, in another shape."""
        if math.prod(shape) != self.width:
            raise InputError(f"a tensor of shape {self.shape} cannot be reshaped to {tuple(shape)}")
        return replace(self, shape=tuple(int(n) for n in shape))

    def axis(self, axis: int) -> int:
        """An axis counted from the front, if the tensor has it."""
        if not -len(self.shape) <= axis < len(self.shape):
            raise InputError(f"a tensor of shape {self.shape} has no axis {axis}")
        return axis % len(self.shape)


@dataclass(eq=False)
class Graph:
    """The blocks so far. `input` is the tensor to begin with; `notes` say what was left out or read otherwise."""

    shape: tuple[int, ...]
    notes: list[str] = field(default_factory=list)
    blocks: list[tuple[Tensor, Activation]] = field(default_factory=list)
    pairs: dict[tuple[int, int], tuple[Tensor, ...]] = field(default_factory=dict)  # tensors that `rewrites.pair` made
    probes: Probes | None = None
    _work: int = 0

    def __post_init__(self) -> None:
        width = check_width(math.prod(self.shape))
        self.shape = tuple(int(n) for n in self.shape)
        self.input = Tensor(self.shape, {0: everything(width)}, np.zeros(width))

    # --- what makes a block ---------------------------------------------------------------------------------------

    def activate(self, tensor: Tensor, activation: Activation) -> Tensor:
        """The activation of every entry."""
        tensor = self.opened(tensor)
        if activation == IDENTITY:
            return tensor
        if not tensor.terms:
            return replace(tensor, bias=activation(tensor.bias))
        return self._block(tensor, activation)

    def settled(self, tensor: Tensor) -> Tensor:
        """The same values as those of one block: a new one that only adds up, unless they are that already."""
        tensor = self.opened(tensor)
        if not tensor.terms or self.source(tensor) is not None:
            return tensor
        return self._block(tensor, IDENTITY)

    def source(self, tensor: Tensor) -> int | None:
        """The block that the tensor's values are picked from, if they are all from one and nothing is added."""
        if len(tensor.terms) != 1 or tensor.bias.any():
            return None
        block, term = next(iter(tensor.terms.items()))
        return block if isinstance(term, Picked) else None

    def is_light(self, tensor: Tensor) -> bool:
        """Whether the expression may be repeated: few entries, and no convolution that would be written out."""
        terms = tensor.terms.values()
        return sum(map(term_entries, terms)) <= _ALWAYS and not any(isinstance(term, Operator) for term in terms)

    def _block(self, tensor: Tensor, activation: Activation) -> Tensor:
        if len(self.blocks) >= MAX_BLOCKS:
            raise InputError(f"more than {MAX_BLOCKS:,} groups of neurons are beyond the limit")
        self._charge(tensor.width)
        self.blocks.append((replace(tensor, order=None), activation))
        picked = everything(tensor.width) if tensor.order is None else Picked(tensor.order, tensor.width)
        return Tensor(tensor.shape, {len(self.blocks): picked}, np.zeros(tensor.width))

    # --- what rearranges ------------------------------------------------------------------------------------------

    def pick(self, tensor: Tensor, places: Index) -> Tensor:
        """The tensor of the values at these places, in their shape; zero where a place is -1.

        Places in their old order are a change of shape only, which may follow a softmax that was left out.
        """
        index = np.ascontiguousarray(places, dtype=np.int64).reshape(-1)
        check_width(index.size)
        if index.size == tensor.width and np.array_equal(index, np.arange(index.size)):
            return replace(tensor, shape=places.shape)
        tensor = self.opened(tensor)
        self._charge(index.size * (1 + len(tensor.terms)))
        written_out = any(isinstance(term, Operator) for term in tensor.terms.values())
        if written_out and _is_permutation(index, tensor.width):
            order = index if tensor.order is None else tensor.order[index]
            order_or_none = None if np.array_equal(order, np.arange(index.size)) else order
            return replace(tensor, shape=places.shape, order=order_or_none)
        plain = self._plain(tensor, keep_operators=False)
        there = index >= 0
        bias = np.where(there, plain.bias[index], 0.0)
        return Tensor(places.shape, {j: selected(t, index) for j, t in plain.terms.items()}, bias)

    def transpose(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """The tensor with its axes permuted."""
        if sorted(axes) != list(range(len(tensor.shape))):
            raise InputError(f"axes {list(axes)} are not a permutation for a tensor of shape {tensor.shape}")
        return self.pick(tensor, tensor.places.transpose(axes))

    def expand(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """The tensor repeated along axes, by numpy's rules of broadcasting."""
        check_width(math.prod(shape))
        if tuple(shape) == tensor.shape:
            return self.opened(tensor)
        try:
            places = np.broadcast_to(tensor.places, tuple(shape))
        except ValueError:
            raise InputError(f"a tensor of shape {tensor.shape} does not broadcast to {tuple(shape)}") from None
        return self.pick(tensor, places)

    def concatenate(self, parts: Sequence[Tensor | Array], axis: int) -> Tensor:
        """Tensors and constants one after the other along an axis."""
        shapes = [part.shape for part in parts]
        first = next(part for part in parts if isinstance(part, Tensor))
        axis = first.axis(axis)
        if any(s[:axis] + s[axis + 1 :] != shapes[0][:axis] + shapes[0][axis + 1 :] for s in shapes):
            raise InputError(f"tensors of the shapes {shapes} do not fit together along axis {axis}")
        length = sum(s[axis] for s in shapes)
        whole = (*shapes[0][:axis], length, *shapes[0][axis + 1 :])
        check_width(math.prod(whole))
        total, start = constant_tensor(np.zeros(whole)), 0
        for part in parts:
            here = (slice(None),) * axis + (slice(start, start + part.shape[axis]),)
            start += part.shape[axis]
            if isinstance(part, Tensor):
                places = np.full(whole, -1, dtype=np.int64)
                places[here] = part.places
                total = self.add(total, self.pick(part, places))
            else:
                shift = np.zeros(whole)
                shift[here] = part
                total = self.scale_and_shift(total, 1.0, shift)
        return total

    # --- affine operations ----------------------------------------------------------------------------------------

    def scale_and_shift(self, tensor: Tensor, scale: ArrayLike, shift: ArrayLike) -> Tensor:
        """scale x + shift with numpy's broadcasting, which may enlarge x."""
        tensor = self.opened(tensor)
        s, t = np.asarray(scale, dtype=np.float64), np.asarray(shift, dtype=np.float64)
        shape = broadcast(tensor.shape, s.shape, t.shape)
        tensor = self.expand(tensor, shape)
        self._charge(tensor.width)
        back = None if tensor.order is None else np.argsort(tensor.order)
        if np.any(s != 1.0):
            factor = _flat(s, shape, back)
            terms = {j: scaled(term, factor) for j, term in tensor.terms.items()}
            tensor = replace(tensor, terms=terms, bias=tensor.bias * factor)
        return replace(tensor, bias=tensor.bias + _flat(t, shape, back)) if np.any(t) else tensor

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """a + b with numpy's broadcasting."""
        a, b = self.opened(a), self.opened(b)
        shape = broadcast(a.shape, b.shape)
        a, b = self.expand(a, shape), self.expand(b, shape)
        if a.order is None and b.order is not None:
            a, b = b, a
        if a.order is not None and (b.order is None or not np.array_equal(a.order, b.order)):
            b = self.pick(self._plain(b, keep_operators=False), np.argsort(a.order))
        terms = dict(a.terms)
        for j, term in b.terms.items():
            terms[j] = added(terms[j], term) if j in terms else term
            self._charge(term_entries(terms[j]))
        return replace(a, shape=shape, terms=dict(sorted(terms.items())), bias=a.bias + b.bias)

    def subtract(self, a: Tensor, b: Tensor) -> Tensor:
        """a - b with numpy's broadcasting."""
        return self.add(a, self.scale_and_shift(b, -1.0, 0.0))

    def apply(self, tensor: Tensor, map_: Matrix, shape: Sequence[int]) -> Tensor:
        """A linear map of the flattened tensor; its values have this shape."""
        tensor = self.opened(tensor)
        check_width(math.prod(shape))
        tensor = self._plain(tensor, keep_operators=True)
        together = sum(folded_entries(map_, term) for term in tensor.terms.values())
        apart = entries(map_) + sum(term_entries(term) for term in tensor.terms.values())
        if together > max(_SAVES * apart, _ALWAYS):
            tensor = self.settled(tensor)
            tensor = self._block(tensor, IDENTITY) if _is_rearranged(tensor) else tensor
        self._charge(min(together, apart))
        terms = {j: applied(map_, term) for j, term in tensor.terms.items()}
        return Tensor(tuple(int(n) for n in shape), terms, image(map_, tensor.bias))

    def drop(self, tensor: Tensor, what: str, behind: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Leave out a softmax at the end: the network's outputs are its inputs, the scores.

        Where something follows nevertheless, `behind` makes the softmax of the scores.
        """
        tensor = self.opened(tensor)
        note = f"{what} at the end is left out: the outputs are the scores that enter it"
        self.notes.append(note)
        made: list[Tensor] = []

        def softmax() -> Tensor:
            if behind is None:
                raise UnsupportedOperator(f"{what} is only supported at the end of the network")
            if not made:
                made.append(behind(tensor))
                self.notes.remove(note)
            return made[0]

        return replace(tensor, dropped=what, behind=softmax)

    def opened(self, tensor: Tensor) -> Tensor:
        """The tensor; with a softmax that was left out, now that something follows it."""
        if not tensor.dropped:
            return tensor
        if tensor.behind is None:
            raise UnsupportedOperator(f"{tensor.dropped} is only supported at the end of the network")
        return tensor.behind().reshaped(tensor.shape)

    # --- the end --------------------------------------------------------------------------------------------------

    def network(self, output: Tensor) -> Network:
        """The network whose scores are this tensor, of the blocks that it depends on."""
        if not output.terms:
            raise InputError("the output does not depend on the input")
        last = self._written(replace(output, dropped="", behind=None))
        needed, stack = {0}, list(last.terms)
        while stack:
            j = stack.pop()
            if j not in needed:
                needed.add(j)
                stack += self.blocks[j - 1][0].terms
        number = {j: k for k, j in enumerate(sorted(needed))}
        made: dict[int, Matrix] = {}
        frozen = [self._frozen(z, f, number, made) for j, (z, f) in enumerate(self.blocks, start=1) if j in needed]
        return Network.from_blocks([*frozen, self._frozen(last, IDENTITY, number, made)], self.notes)

    def _frozen(self, z: Tensor, activation: Activation, number: dict[int, int], made: dict[int, Matrix]) -> Block:
        """A block; maps that several blocks share are kept once."""
        for term in z.terms.values():
            if id(term) not in made:
                made[id(term)] = Affine(handed_over(as_matrix(term)), z.bias).weight
        terms = tuple((number[j], made[id(term)]) for j, term in z.terms.items())
        check_entries(sum(entries(weight) for _, weight in terms if not isinstance(weight, Operator)))
        return Block(terms, z.bias, activation)

    def _plain(self, tensor: Tensor, *, keep_operators: bool) -> Tensor:
        """The tensor in the order of its expression, and on request without convolutions in it."""
        if tensor.order is None and keep_operators:
            return tensor
        written = any(isinstance(term, Operator) for term in tensor.terms.values())
        return self.settled(tensor) if written or tensor.order is not None else tensor

    def _written(self, tensor: Tensor) -> Tensor:
        """The tensor in the order of its values, with convolutions written out where that is needed for it."""
        if tensor.order is None:
            return tensor
        if sum(term_entries(term) for term in tensor.terms.values()) > _ALWAYS:
            return self.settled(tensor)
        terms = {j: selected(term, tensor.order) for j, term in tensor.terms.items()}
        return replace(tensor, terms=terms, bias=tensor.bias[tensor.order], order=None)

    def _charge(self, numbers: int) -> None:
        self._work += numbers
        if self._work > MAX_WORK:
            raise InputError("the network is too large to be read: its tensors have too many entries together")


def constant_tensor(values: Array) -> Tensor:
    """A tensor that does not depend on the input."""
    return Tensor(values.shape, {}, np.asarray(values, dtype=np.float64).reshape(-1))


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that tensors of these have together."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        named = " and ".join(str(s) for s in shapes if s)
        raise InputError(f"shapes {named} do not broadcast") from None


def _flat(values: Array, shape: tuple[int, ...], back: Index | None) -> Array:
    flat = np.broadcast_to(values, shape).reshape(-1)
    return flat if back is None else flat[back]


def _is_permutation(index: Index, width: int) -> bool:
    return index.size == width and bool(index.min() >= 0) and len(np.unique(index)) == width


def _is_rearranged(tensor: Tensor) -> bool:
    return any(isinstance(term, Picked) and not term.is_identity for term in tensor.terms.values())
