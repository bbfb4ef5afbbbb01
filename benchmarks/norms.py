"""Norms of all layers of a random ResNet-50 on 224 x 224, and of a random ResNet-18 on 32 x 32, with their seconds.

Usage: python -m benchmarks.norms [18]. Pooling is the mean of the same windows, in place of the largest value.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks._residual_networks import _Blocks, _same, residual
from lipcert import layer_norms
from lipcert.problem.activations import IDENTITY
from lipcert.problem.blocks import Block
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.network import Network

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels in the middle of a block, and blocks


def mean(channels: int, side: int, taps: int, stride: int, pad: int) -> Convolution:
    """The mean of square windows, channel by channel."""
    window = Window((taps, taps), (stride, stride), (1, 1), (pad, pad), (pad, pad))
    return Convolution(np.full((channels, 1, taps, taps), 1 / taps**2), (side, side), window, channels)


def resnet50(seed: int = 0) -> Network:
    """Random weights, He-normal, with the shapes of ResNet-50."""
    made = _Blocks(np.random.default_rng(seed))
    last = made.add([(0, made.convolution(64, 3, 224, 7, 2))])
    last, side, channels = made.add([(last, mean(64, 112, 3, 2, 1))]), 56, 64
    for stage, (width, blocks) in enumerate(STAGES):
        for k in range(blocks):
            stride = 2 if stage and not k else 1
            first = made.add([(last, made.convolution(width, channels, side, 1, 1))])
            second = made.add([(first, made.convolution(width, width, side, 3, stride))])
            around = _same(channels, side) if k else made.convolution(4 * width, channels, side, 1, stride)
            side, channels = side // stride, 4 * width
            last = made.add([(last, around), (second, made.convolution(channels, width, side, 1, 1))])
    last = made.add([(last, mean(channels, side, side, 1, 0))])
    scores = made.rng.normal(size=(1000, channels)) / np.sqrt(channels)
    return Network.from_blocks([*made.blocks, Block(((last, scores),), np.zeros(1000), IDENTITY)])


def main(arguments: list[str]) -> None:
    """Print the table, and the seconds of the processor."""
    net = residual(64, 32) if "18" in arguments else resnet50()
    start = time.process_time()
    print(layer_norms(net))
    print(f"{time.process_time() - start:.1f} s of the processor")


if __name__ == "__main__":
    main(sys.argv[1:])
