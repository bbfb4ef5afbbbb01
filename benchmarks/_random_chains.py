"""Deep chains by recipe, and bounds of others for them: the product of norms, and one number for each layer."""

from __future__ import annotations

import numpy as np

from lipcert.relaxation.slopes import SlopeBlock, SlopeProgram
from lipcert.rounding import Array


def square_layers(depth: int, width: int, seed: int = 0, outputs: int = 10) -> list[Array]:
    """Normal entries of variance 1 / width."""
    r = np.random.RandomState(seed)
    layers = [r.randn(width, width) / width**0.5 for _ in range(depth)]
    return [*layers, r.randn(outputs, width) / width**0.5]


def positive_layers(layers: int, width: int, inputs: int = 4, outputs: int = 1) -> list[Array]:
    """As the networks of [ECLipsE24] are made: uniform entries, scaled to a norm between 0.4 and 1.8, with biases."""
    r = np.random.RandomState(width * 7 + layers * 13)
    sizes = [inputs, *[width] * (layers - 1), outputs]
    weights = []
    for before, after in zip(sizes, sizes[1:], strict=False):  # noqa: RUF007
        norm = r.uniform(0.4, 1.8)
        weight = r.rand(after, before)
        weights.append(norm * weight / np.linalg.norm(weight, 2))
        r.rand(after)
    return weights


def chain(weights: list[Array]) -> SlopeProgram:
    """With slopes between 0 and 1."""
    blocks = [SlopeBlock(((i, w),), np.zeros(len(w)), np.ones(len(w))) for i, w in enumerate(weights[:-1])]
    return SlopeProgram(weights[0].shape[1], tuple(blocks), ((len(weights) - 1, weights[-1]),), False)


def product_of_norms(weights: list[Array]) -> float:
    """The bound that everybody knows."""
    return float(np.prod([np.linalg.norm(w, 2) for w in weights]))


def closed_form(weights: list[Array]) -> float:
    """[ECLipsE24]'s fast variant for slopes between 0 and 1: T = I / lmax(W X^-1 W') in every layer."""
    X = np.eye(weights[0].shape[1])
    for W in weights[:-1]:
        received = W @ np.linalg.solve(X, W.T)
        t = 1 / float(np.linalg.eigvalsh((received + received.T) / 2)[-1])
        X = 2 * t * np.eye(len(W)) - t * t * received
    last = weights[-1] @ np.linalg.solve(X, weights[-1].T)
    return float(np.sqrt(np.linalg.eigvalsh((last + last.T) / 2)[-1]))
