"""Random networks and boxes for property tests."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from lipcert.errors import InputError
from lipcert.problem.activations import Activation
from lipcert.problem.blocks import Affine, Block
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.maps import Matrix, matrix
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.rounding import Array

SMOOTH = ("elu", "softplus", "sigmoid", "tanh", "gelu", "mish", "hardswish", "softsign")


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


@st.composite
def branched_networks(
    draw: st.DrawFn,
    max_blocks: int = 5,
    max_neurons: int = 9,
    kinds: tuple[str, ...] = ("relu", "leaky_relu", "identity"),
) -> tuple[Network, Box, Array]:
    """A network of 2 to max_blocks hidden blocks that read several of the blocks before them, a box, an output vector.

    Some blocks add another one as it is (a residual connection), some only add or put side by side (identity), some
    are read by nobody. It has at most max_neurons neurons, or one in every block.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(2, max_blocks))
    inputs, outputs = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    zeros = draw(st.sampled_from((0.0, 0.3)))
    widths, blocks = [inputs], []
    for i in range(1, count + 1):
        kind = draw(st.sampled_from(kinds))
        widths.append(draw(st.integers(1, max(1, max_neurons // count))))
        others = [j for j in range(i) if rng.uniform() < 0.4]
        sources = sorted({*others, i - 1} if i == 1 or rng.uniform() < 0.8 else {*others, int(rng.integers(i))})
        terms = tuple((j, _branch(rng, widths[i], widths[j], zeros)) for j in sources)
        blocks.append(
            Block(terms, rng.normal(size=widths[i]) / 2, Activation(kind, draw(st.sampled_from((0.01, 0.2)))))
        )
    ends = sorted({count, *(j for j in range(count) if rng.uniform() < 0.3)})
    terms = tuple((j, _random_map(rng, outputs, widths[j], zeros).weight) for j in ends)
    blocks.append(Block(terms, rng.normal(size=outputs)))
    radius = draw(st.sampled_from((0.01, 0.1, 1.0, 10.0)))
    box = Box(rng.normal(size=inputs), radius * rng.uniform(0.2, 1.0, size=inputs))
    return Network.from_blocks(blocks), box, rng.normal(size=outputs)


def _branch(rng: np.random.Generator, m: int, n: int, zeros: float) -> Array:
    """A random matrix, or one that carries values over as they are."""
    if rng.uniform() < 0.3:
        return np.eye(m, n, k=int(rng.integers(-1, 2)))
    return np.asarray(_random_map(rng, m, n, zeros).weight)


@st.composite
def convolutions(draw: st.DrawFn, channels: int | None = None, spatial: tuple[int, ...] | None = None) -> Convolution:
    """A convolution over one to three axes with any strides, pads, dilations and groups; some numbers are zero."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    axes = draw(st.integers(1, 3)) if spatial is None else len(spatial)
    sizes = tuple(draw(st.integers(1, 5)) for _ in range(axes)) if spatial is None else spatial
    groups = draw(st.sampled_from([g for g in (1, 2, 3) if channels is None or channels % g == 0]))
    per_group = draw(st.integers(1, 2)) if channels is None else channels // groups
    taps, strides, dilations, before, after = (
        tuple(draw(st.integers(least, most)) for _ in range(axes))
        for least, most in ((1, 3), (1, 3), (1, 2), (0, 2), (0, 2))
    )
    kernel = rng.normal(size=(groups * draw(st.integers(1, 2)), per_group, *taps))
    kernel *= rng.uniform(size=kernel.shape) >= draw(st.sampled_from((0.0, 0.3)))
    try:
        return Convolution(kernel, sizes, Window(taps, strides, dilations, before, after, draw(st.booleans())), groups)
    except InputError:  # the window does not fit: give it room
        wide = tuple(d * k for d, k in zip(dilations, taps, strict=True))
        return Convolution(kernel, sizes, Window(taps, strides, dilations, before, wide), groups)


@st.composite
def convolutional_networks(draw: st.DrawFn, kinds: tuple[str, ...] = ("relu", "leaky_relu")) -> tuple[Network, Network]:
    """A network of two convolutions and a dense layer, and the same with CSR matrices in place of the convolutions."""
    first = draw(convolutions())
    second = draw(convolutions(first.kernel.shape[0], first.outputs))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    maps: list[Matrix] = [first, second, rng.normal(size=(2, second.shape[0]))]
    biases = [rng.normal(size=(w.shape[0],)) / 2 for w in maps]
    activations = [Activation(draw(st.sampled_from(kinds)), 0.1) for _ in range(2)]
    kept, written = (
        Network([Affine(w, b) for w, b in zip(weights, biases, strict=True)], activations)
        for weights in (maps, [first.tocsr(), second.tocsr(), maps[2]])
    )
    return kept, written


def convolutional(depth: int) -> tuple[Network, Network]:
    """One or two convolutions with ReLU on a line of five and one score, and the same with CSR matrices."""
    rng, line = np.random.default_rng(5), Window((2,), (1,), (1,), (0,), (0,))
    maps: list[Matrix] = [Convolution(rng.normal(size=(1, 1, 2)), (size,), line) for size in (5, 4)[:depth]]
    maps.append(rng.normal(size=(1, 5 - depth)))
    biases = [rng.normal(size=(w.shape[0],)) / 9 for w in maps]
    return Network.from_weights(maps, biases), Network.from_weights([matrix(w) for w in maps], biases)
