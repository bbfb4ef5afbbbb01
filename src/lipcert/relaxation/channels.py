"""Slopes by frequencies: the constraints of all slopes with one multiplier for each channel of a chain of convolutions.

A convolution with zero padding is C W P: W acts on periodic tensors whose period leaves room for the padding, P puts a
tensor into zeros, C cuts one out. Between two of them stand slopes in [0, b], and C and P are slopes 0 and 1, so

    x_k = D_k W_k x_{k-1}          with a diagonal D_k of slopes in [0, b_k], on periodic tensors

has every Jacobian of the chain among its own. With one multiplier for each channel the matrix of `relaxation.slopes`
acts on every frequency by itself, as wide as the channels, and its recursion is

    X_0 = 1,    X_k(w) = 2 T_k - b_k^2 T_k [mean over the aliases v of w of  W_k(v) X_{k-1}(v)^-1 W_k(v)*] T_k  >  0.

A frequency w of the outputs has one alias among those of the input for each place of the stride. Behind the last
convolution stands another one (the scores, W_{m+1}), or any other layer (the tail): then X_d(w) >= G, a diagonal.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.symbols import angles_of, least_period
from lipcert.problem.convolution import Convolution
from lipcert.problem.maps import Index
from lipcert.problem.problem import Fact, Problem
from lipcert.problem.recognised import convolution_of
from lipcert.rounding import Array

Complex = NDArray[np.complex128]
Sizes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ChannelStage:
    """A convolution: kernel (out, in, taps), where its taps lie in the input, its strides, and the largest slope."""

    kernel: Array
    exponents: Index
    strides: Sizes
    steep: float = 1.0

    @property
    def aliases(self) -> int:
        """Frequencies of the input that are one of the outputs."""
        return math.prod(self.strides)

    def symbol(self, sizes: Sizes, half: bool) -> tuple[Array, Array]:
        """Real and imaginary parts (frequencies, out, in) on a periodic input of this size."""
        angles = angles_of(places(sizes, half), self.exponents, sizes)
        flat, shape = self.kernel.reshape(-1, self.kernel.shape[2]).T, (-1, *self.kernel.shape[:2])
        return (np.cos(angles) @ flat).reshape(shape), (np.sin(angles) @ flat).reshape(shape)

    def by_alias(self, values: NDArray[Any], sizes: Sizes) -> NDArray[Any]:
        """(frequencies of the input, ...) as (frequencies of the outputs, aliases, ...)."""
        if self.aliases == 1:
            return values[:, None]
        axes, rest = len(sizes), values.shape[1:]
        split = [n for size, s in zip(sizes, self.strides, strict=True) for n in (s, size // s)]
        apart = values.reshape(*split, *rest)
        order = [*range(1, 2 * axes, 2), *range(0, 2 * axes, 2), *range(2 * axes, 2 * axes + len(rest))]
        return apart.transpose(order).reshape(-1, self.aliases, *rest)


@dataclass(frozen=True, eq=False)
class ChannelProgram:
    """The convolutions of blocks 1..d, the scores behind them if they are one too, the period of the last output."""

    stages: tuple[ChannelStage, ...]
    head: ChannelStage | None
    period: Sizes

    @property
    def layers(self) -> tuple[ChannelStage, ...]:
        """All convolutions."""
        return self.stages if self.head is None else (*self.stages, self.head)

    @property
    def half(self) -> bool:
        """Whether of two conjugate frequencies one is left out: where none has aliases."""
        return all(stage.aliases == 1 for stage in self.layers)

    @property
    def counts(self) -> tuple[int, ...]:
        """The channels of all blocks."""
        return tuple(len(stage.kernel) for stage in self.stages)

    @property
    def sizes(self) -> tuple[Sizes, ...]:
        """The periods of the input and of the outputs of all layers."""
        found = [self.period]
        for stage in reversed(self.layers):
            found.insert(0, tuple(n * s for n, s in zip(found[0], stage.strides, strict=True)))
        return tuple(found)

    def coarse(self, most: int) -> ChannelProgram:
        """The same with at most so many frequencies on every axis of the input: a hint, no bound."""
        finest = [max(s[k] for s in self.sizes) // n for k, n in enumerate(self.period)]
        return replace(self, period=tuple(max(3, min(n, most // f)) for n, f in zip(self.period, finest, strict=True)))

    @property
    def operations(self) -> float:
        """The operations of a pass through all layers, about."""
        points = [math.prod(sizes) / (2 if self.half else 1) for sizes in self.sizes]
        shapes = [stage.kernel.shape for stage in self.layers]
        return float(sum(30.0 * n * (o + i) ** 3 for n, (o, i, _) in zip(points, shapes, strict=False)))

    @property
    def numbers(self) -> float:
        """Numbers in memory during a pass with its gradient, about."""
        points = [math.prod(sizes) / (2 if self.half else 1) for sizes in self.sizes]
        shapes = [stage.kernel.shape for stage in self.layers]
        return float(sum(2.0 * n * (o + i) ** 2 for n, (o, i, _) in zip(points, shapes, strict=False)))


def places(sizes: Sizes, half: bool) -> Index:
    """The numbers of all frequencies by axis, the last axis fastest; of the first axis one half."""
    axes = [np.arange(n // 2 + 1 if half and not k else n) for k, n in enumerate(sizes)]
    return np.stack([k.reshape(-1) for k in np.meshgrid(*axes, indexing="ij")], axis=1)


@Fact
def channel_program(problem: Problem) -> ChannelProgram | None:
    """The program of the longest chain of convolutions at the input; None where there is none, or the norm is not 2."""
    net, norm = problem.network, problem.norm
    if norm.p != "2" or problem.coordinate is not None or not net.depth:
        return None
    maps: list[Convolution] = []
    for i, block in enumerate(net.blocks):
        map_ = convolution_of(block.terms[0][1]) if [j for j, _ in block.terms] == [i] else None
        scores = i == net.depth
        if map_ is None or block.slack is not None or (maps and not _follows(maps[-1], map_)):
            break
        if block.activation.slopes[0] < 0 if not scores else not (problem.whole_map and norm.out == "2"):
            break
        if any(j <= i for later in net.blocks[i + 1 :] for j, _ in later.terms):
            break
        maps.append(map_)
    if not maps:
        return None
    stages = [_stage(map_, net.blocks[i].activation.steepest) for i, map_ in enumerate(maps)]
    head = stages.pop() if len(maps) == len(net.blocks) else None
    return ChannelProgram(tuple(stages), head, _period(maps)) if stages else None


def _follows(first: Convolution, second: Convolution) -> bool:
    return first.outputs == second.spatial and len(first.kernel) == second.channels


def _stage(map_: Convolution, steep: float) -> ChannelStage:
    out, own = map_.kernel.shape[:2]
    taps = np.array(list(itertools.product(*map(range, map_.window.kernel))), dtype=np.int64) * map_.window.dilations
    full = np.zeros((map_.groups, out // map_.groups, map_.groups, own, len(taps)))
    grouped = map_.kernel.reshape(map_.groups, -1, own, len(taps))
    full[np.arange(map_.groups), :, np.arange(map_.groups)] = grouped
    return ChannelStage(full.reshape(out, map_.channels, len(taps)), taps, map_.window.strides, steep)


def _period(maps: list[Convolution]) -> Sizes:
    """The least period of the last output with which every layer has room."""
    found = [1] * len(maps[0].spatial)
    for axis in range(len(found)):
        stride = 1
        for map_ in reversed(maps):
            stride *= map_.window.strides[axis]
            found[axis] = max(found[axis], -(-least_period(map_, axis) // stride))
    return tuple(found)
