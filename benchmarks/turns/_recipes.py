"""Networks by recipe that look trained: small ones, fitted to made up data by Adam in numpy, the same in every run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from benchmarks._measure import ROOT
from benchmarks._networks import Made
from lipcert import Activation, Network
from lipcert.problem.region import Region
from lipcert.rounding import Array

STEPS, RATE = 400, 0.01
Data = tuple[Array, Array]  # inputs and targets, one row each


def waves(inputs: int, samples: int = 400) -> Data:
    """A sum of a few waves of random directions on [-1, 1]^inputs."""
    rng = np.random.default_rng(inputs)
    x = rng.uniform(-1, 1, (samples, inputs))
    directions = rng.normal(size=(inputs, 3)) * 3 / np.sqrt(inputs)
    return x, np.sin(x @ directions).sum(axis=1, keepdims=True)


def clusters(inputs: int, classes: int, samples: int = 400) -> Data:
    """Each class is three clouds; the targets are one for the class, zero for the others."""
    rng = np.random.default_rng(inputs + classes)
    middles = rng.normal(size=(3 * classes, inputs))
    number = rng.integers(0, 3 * classes, samples)
    return middles[number] + 0.3 * rng.normal(size=(samples, inputs)), np.eye(classes)[number % classes]


def digits() -> Data:
    """The 40 images of 64 pixels that ship with the package, ten times each with noise."""
    kept = np.load(ROOT / "src" / "lipcert" / "data" / "digits_images.npz")
    rng = np.random.default_rng(0)
    images = np.tile(kept["images"] / 16, (10, 1))
    return np.clip(images + 0.1 * rng.normal(size=images.shape), 0, 1), np.tile(np.eye(10)[kept["labels"]], (10, 1))


def digit8() -> Array:
    """The first of the images that ship with the package."""
    kept = np.load(ROOT / "src" / "lipcert" / "data" / "digits_images.npz")
    return np.asarray(kept["images"][0] / 16, dtype=np.float64).reshape(-1)


def fitted(data: Data, hidden: tuple[int, ...], kind: str = "relu") -> Network:
    """Least squares by Adam on all samples at once, from He-normal weights."""
    x, y = data
    rng, f = np.random.default_rng(0), Activation(kind)
    values: list[Array] = []
    for n, m in pairwise((x.shape[1], *hidden, y.shape[1])):
        values += [rng.normal(size=(m, n)) * np.sqrt(2 / n), np.zeros(m)]
    means, squares = [np.zeros_like(v) for v in values], [np.zeros_like(v) for v in values]
    for step in range(1, STEPS + 1):
        for v, m, s, g in zip(values, means, squares, _gradients(values, f, x, y), strict=True):
            m += 0.1 * (g - m)
            s += 0.001 * (g * g - s)
            v -= RATE * (m / (1 - 0.9**step)) / (np.sqrt(s / (1 - 0.999**step)) + 1e-8)
    return Network.from_weights(values[::2], values[1::2], kind)


def _gradients(values: list[Array], f: Activation, x: Array, y: Array) -> list[Array]:
    """Of half the mean squared error, for weights and biases in turns."""
    pre: list[Array] = []
    last = [x]
    for W, b in zip(values[::2], values[1::2], strict=True):
        pre.append(last[-1] @ W.T + b)
        last.append(f(pre[-1]))
    back, found = (pre[-1] - y) / len(x), []
    for k in reversed(range(len(pre))):
        found += [back.sum(axis=0), back.T @ last[k]]
        if k:
            back = (back @ values[2 * k]) * f.derivative(pre[k - 1])
    return found[::-1]


def trained(
    data: Data, hidden: tuple[int, ...], region: Region, *, kind: str = "relu", norm: str = "inf", output: int | str = 0
) -> Callable[[], Made]:
    return lambda: (fitted(data, hidden, kind), region, output, norm)
