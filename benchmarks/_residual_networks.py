"""Random residual networks of convolutions, of any size."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lipcert.problem.activations import IDENTITY, RELU
from lipcert.problem.blocks import Block
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.maps import Matrix
from lipcert.problem.network import Network

Term = tuple[int, Matrix]


@dataclass
class _Blocks:
    """The blocks so far, with ReLU after each."""

    rng: np.random.Generator
    blocks: list[Block] = field(default_factory=list)

    def add(self, terms: list[Term]) -> int:
        """A block with ReLU after the sum of these terms."""
        width = terms[0][1].shape[0]
        self.blocks.append(Block(tuple(terms), 0.1 * self.rng.normal(size=width), RELU))
        return len(self.blocks)

    def convolution(self, made: int, given: int, side: int, taps: int, stride: int) -> Convolution:
        """A random one with half of its taps as padding; He-normal."""
        pad = taps // 2
        kernel = self.rng.normal(size=(made, given, taps, taps)) * np.sqrt(2 / (given * taps**2))
        window = Window((taps, taps), (stride, stride), (1, 1), (pad, pad), (pad, pad))
        return Convolution(kernel, (side, side), window)


def residual(width: int, side: int, stages: int = 4, seed: int = 0) -> Network:
    """A network as ResNet-18 is, without its first pooling: 3 x side x side, stages of two sums, ten scores.

    The first stage has `width` channels, and every stage has twice the channels of the one before it at half the side.
    `residual(64, 32)` has 557,056 neurons.
    """
    made = _Blocks(np.random.default_rng(seed))
    last, channels = made.add([(0, made.convolution(width, 3, side, 3, 1))]), width
    for stage in range(stages):
        wide = width << stage
        for stride in (2 if stage else 1, 1):
            inner = made.add([(last, made.convolution(wide, channels, side, 3, stride))])
            taps = 3 if stride == 1 and wide == channels else 1
            side //= stride
            second = made.convolution(wide, wide, side, 3, 1)
            around = _same(wide, side) if taps == 3 else made.convolution(wide, channels, side * stride, 1, stride)
            last, channels = made.add([(last, around), (inner, second)]), wide
    width_last = channels * side**2
    scores = made.rng.normal(size=(10, width_last)) / np.sqrt(width_last)
    return Network.from_blocks([*made.blocks, Block(((last, scores),), np.zeros(10), IDENTITY)])


def _same(channels: int, side: int) -> Convolution:
    """What goes around a stage unchanged."""
    kernel = np.eye(channels)[:, :, None, None]
    return Convolution(kernel, (side, side), Window((1, 1), (1, 1), (1, 1), (0, 0), (0, 0)))
