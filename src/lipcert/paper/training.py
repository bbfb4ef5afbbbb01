"""Training in plain numpy, the same numbers everywhere: batches from a fixed stream, and the moments of Adam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lipcert.rounding import Array

_BATCH = 100


def batches(rng: np.random.Generator, count: int, epochs: int) -> Iterator[tuple[int, float, NDArray[np.int64]]]:
    """Epoch, learning rate (it falls along a cosine) and the places of about 100 samples, each once in an epoch."""
    for epoch in range(epochs):
        rate = 2e-3 * 0.5 * (1.0 + np.cos(np.pi * epoch / epochs))
        for batch in np.array_split(rng.permutation(count), max(1, count // _BATCH)):
            yield epoch, rate, batch


class Adam:
    """Running means of the gradients and of their squares."""

    def __init__(self, parameters: Sequence[Array]) -> None:
        self._moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
        self._step = 0

    def steps(self, slopes: Sequence[Array]) -> Iterator[tuple[Array, float, Array]]:
        """For each parameter the mean gradient, what it is to be divided by as long as it is young, and its size."""
        self._step += 1
        for slope, (mean, square) in zip(slopes, self._moments, strict=True):
            mean += 0.1 * (slope - mean)
            square += 1e-3 * (slope * slope - square)
            yield mean, 1.0 - 0.9**self._step, np.sqrt(square / (1.0 - 0.999**self._step)) + 1e-8
