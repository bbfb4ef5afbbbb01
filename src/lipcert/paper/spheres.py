"""The binary task of [CLMP20]: points near spheres of radius 1 and 2 in dimension 80, and a network trained on them.

The paper gives no weights; this network is trained here, in plain numpy, from a fixed seed. Its sign is the class:
negative near the inner sphere, positive near the outer one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lipcert.paper.training import Adam, batches
from lipcert.problem.network import Network
from lipcert.rounding import Array

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


def train(seed: int = 0, epochs: int = 30, decay: float = 1e-4) -> Network:
    """An (80, 80) network with one output, by Adam on the logistic loss in batches of 100."""
    x, labels = sphere_points(seed=seed)
    sign = np.asarray(2.0 * labels - 1.0, dtype=np.float64)
    rng = np.random.default_rng(seed + 1)
    scale = np.sqrt(2.0 / DIMENSION)
    weights = [scale * rng.standard_normal((DIMENSION, DIMENSION)), scale * rng.standard_normal((1, DIMENSION))]
    parameters = [weights[0], np.zeros(DIMENSION), weights[1], np.zeros(1)]
    adam = Adam(parameters)
    for _, rate, batch in batches(rng, len(x), epochs):
        slopes = _slopes(parameters, x[batch], sign[batch])
        for k, (mean, young, size) in enumerate(adam.steps(slopes)):
            parameters[k] = parameters[k] - rate * (mean / young / size + decay * parameters[k])
    return Network.from_weights(parameters[0::2], parameters[1::2])


def _slopes(parameters: list[Array], x: Array, sign: Array) -> list[Array]:
    """The gradient of the mean of log(1 + exp(-sign output))."""
    A, b, c, d = parameters
    z = x @ A.T + b
    h = np.maximum(z, 0.0)
    output = h @ c[0] + d[0]
    outer = -sign / (1.0 + np.exp(np.minimum(sign * output, 50.0))) / len(x)
    inner = outer[:, None] * c[0] * (z > 0)
    return [inner.T @ x, inner.sum(axis=0), (outer @ h)[None, :], np.array([outer.sum()])]
