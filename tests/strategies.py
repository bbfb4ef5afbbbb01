"""Random networks and boxes for property tests."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from lipcert.problem.activations import Activation
from lipcert.problem.network import Affine, Network
from lipcert.problem.region import Box
from lipcert.rounding import Array

SMOOTH = ("elu", "softplus", "sigmoid", "tanh")


@st.composite
def small_cases(
    draw: st.DrawFn, max_depth: int = 4, max_neurons: int = 9, kinds: tuple[str, ...] = ("relu", "leaky_relu")
) -> tuple[Network, Box, Array]:
    """A network of depth 1 to max_depth with at most max_neurons neurons, a box, an output vector.

    Some weights are zero, some neurons are copies of each other, some boxes are flat in a coordinate.
    """
    depth = draw(st.integers(1, max_depth))
    inputs, outputs = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    widths = [draw(st.integers(1, max(1, max_neurons // depth))) for _ in range(depth)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = [inputs, *widths, outputs]
    zeros = draw(st.sampled_from((0.0, 0.3)))
    affines = [_random_map(rng, m, n, zeros) for n, m in itertools.pairwise(sizes)]
    activations = [Activation(draw(st.sampled_from(kinds)), draw(st.sampled_from((0.01, 0.2)))) for _ in widths]
    radius = draw(st.sampled_from((0.01, 0.1, 1.0, 10.0)))
    box = Box(rng.normal(size=inputs), radius * rng.uniform(0.2, 1.0, size=inputs))
    return Network(tuple(affines), tuple(activations)), box, rng.normal(size=outputs)


def _random_map(rng: np.random.Generator, m: int, n: int, zeros: float) -> Affine:
    W = rng.normal(size=(m, n)) * (rng.uniform(size=(m, n)) >= zeros) / np.sqrt(n)
    if m > 1 and rng.uniform() < 0.2:
        W[-1] = W[0]
    return Affine(W, rng.normal(size=m) / 2)
