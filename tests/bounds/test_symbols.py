"""Norms of convolutions by their symbols, and of large sparse matrices by positive vectors: never below the truth."""

from __future__ import annotations

import itertools
import math
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse

from lipcert.bounds import operator_norms as spectral_module
from lipcert.bounds import symbols
from lipcert.bounds.operator_norms import spectral_norm, spectral_operations
from lipcert.bounds.symbols import Symbol, convolution_norm
from lipcert.problem.convolution import Convolution, Window
from lipcert.problem.norms import Norm
from lipcert.rounding import Array
from lipcert.rounding.definite import are_positive


def drawn(rng: np.random.Generator) -> Convolution:
    """A random convolution over one or two axes of 4 to 64 places, with kernels of 1 to 7 taps."""
    axes = int(rng.integers(1, 3))
    taps, strides, dilations, before, after = (
        tuple(int(n) for n in rng.integers(least, most + 1, axes))
        for least, most in ((1, 7), (1, 3), (1, 3), (0, 3), (0, 3))
    )
    room = tuple(max(4, d * (k - 1) + 1) for d, k in zip(dilations, taps, strict=True))
    spatial = tuple(n + int(rng.integers(0, 46 if axes == 1 else 5)) for n in room)
    groups = int(rng.choice([1, 1, 2, 3]))
    kernel = rng.normal(size=(groups * int(rng.integers(1, 4)), int(rng.integers(1, 4)), *taps))
    return Convolution(np.abs(kernel) if rng.random() < 0.3 else kernel, spatial, Window(
        taps, strides, dilations, before, after), groups)  # fmt: skip


def supremum(map_: Convolution, points: int) -> float:
    """The largest value of the symbol at many frequencies, in the words of the definition: a frequency of the outputs
    meets `stride` of those of the input on every axis."""
    window, axes = map_.window, len(map_.spatial)
    best = 0.0
    grouped = map_.kernel.reshape(map_.groups, -1, *map_.kernel.shape[1:])
    offsets = np.array(list(itertools.product(*map(range, window.kernel)))) * window.dilations
    turns = np.array(list(itertools.product(*map(range, window.strides))))
    flat = grouped.reshape(*grouped.shape[:3], -1)
    for place in itertools.product(range(points // 2 + 1), *[range(points)] * (axes - 1)):
        w = (2 * np.pi / np.array(window.strides)) * (np.array(place) / points + turns)
        phases = np.exp(1j * (w @ offsets.T))
        W = np.einsum("goit,rt->goir", flat, phases) / math.sqrt(len(turns))
        best = max(best, float(np.linalg.norm(W.reshape(*W.shape[:2], -1), 2, axis=(1, 2)).max()))
    return best


def test_norms_lie_between_the_matrix_and_the_supremum_of_the_symbol() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        map_ = drawn(rng)
        found = convolution_norm(map_)
        assert np.linalg.norm(map_.toarray(), 2) <= found
        assert found <= 1.01 * 1.003 * supremum(map_, 96 if len(map_.spatial) == 1 else 28)  # the latter is sampled
        assert spectral_norm(map_.T) <= 1.000002 * spectral_norm(map_)


@pytest.mark.parametrize("taps", [2, 3, 6, 7])
@pytest.mark.parametrize("tolerance", [0.2, 0.5])
def test_the_correction_pays_for_frequencies_between_those_of_the_grid(taps: int, tolerance: float) -> None:
    """Kernels whose symbol is largest anywhere, on so many places that the matrix comes close to the supremum."""
    window = Window((taps,), (1,), (1,), (taps // 2,), (taps // 2,))
    for angle in np.linspace(0.0, math.pi, 40):
        map_ = Convolution(np.cos(angle * np.arange(taps) + 0.3)[None, None], (400,), window)
        with patch.object(symbols, "_FINE", tolerance):
            assert Symbol.of(map_).points[0] < 20
            assert np.linalg.norm(map_.toarray(), 2) <= convolution_norm(map_)


@pytest.mark.parametrize("lie", [0.0, 0.5, 1.0, 3.0, math.nan, math.inf])
def test_eigenvalues_are_hints(lie: float) -> None:
    """A solver of eigenvalues that lies makes the bound larger, or infinite."""
    rng, honest = np.random.default_rng(1), np.linalg.eigvalsh
    for _ in range(20):
        map_ = drawn(rng)
        # One frequency at a time, so that the largest value follows smaller ones.
        with patch("numpy.linalg.eigvalsh", lambda S: lie * honest(S)), patch.object(symbols, "_NUMBERS", 1):
            assert np.linalg.norm(map_.toarray(), 2) <= convolution_norm(map_)


def test_scales_and_numbers_that_are_none() -> None:
    rng = np.random.default_rng(2)
    window = Window((3, 3), (2, 1), (1, 2), (1, 0), (1, 2))
    kernel = rng.normal(size=(4, 3, 3, 3))
    usual = convolution_norm(Convolution(kernel, (9, 8), window))
    for power in (-800, -300, 300, 800):
        own = convolution_norm(Convolution(np.ldexp(kernel, power), (9, 8), window))
        assert own == pytest.approx(math.ldexp(usual, power), rel=1e-12)
    assert convolution_norm(Convolution(0 * kernel, (9, 8), window)) == 0.0
    for bad in (math.inf, math.nan, 1e300):
        kernel[0, 0, 0, 0] = bad
        assert convolution_norm(Convolution(kernel, (9, 8), window)) >= bad or math.isnan(bad)


def test_pooling_is_exact_and_its_groups_are_looked_at_once() -> None:
    window = Window((2, 2), (2, 2), (1, 1), (0, 0), (0, 0))
    pooling = Convolution(np.full((64, 1, 2, 2), 0.25), (32, 32), window, 64)
    assert convolution_norm(pooling) == pytest.approx(0.5, rel=1e-6)
    assert Symbol.of(pooling).kernels.shape == (1, 1, 4, 1)


@pytest.mark.parametrize("signed", [False, True])
def test_large_sparse_matrices_by_a_positive_vector(signed: bool) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        A = rng.normal(size=(30, 25)) * (rng.random((30, 25)) < 0.2)
        A = A if signed else np.abs(A)
        with patch.object(spectral_module, "_SPECTRAL_UP_TO", 0):
            found, row_sums = spectral_norm(sparse.csr_array(A)), Norm("2").gain(A)
            assert spectral_operations(sparse.csr_array(A)) > 0
        true = float(np.linalg.norm(A, 2))
        assert true <= found <= row_sums
        assert signed or found <= 1.02 * true


def test_stacks_of_matrices_are_positive_or_not() -> None:
    rng = np.random.default_rng(4)
    V = np.linalg.qr(rng.normal(size=(5, 8, 8)))[0]

    def stack(least: float) -> Array:
        values = np.abs(rng.normal(size=(5, 8))) + 0.1
        values[3, 2] = least
        S = (V * values[:, None, :]) @ V.swapaxes(1, 2)
        return np.asarray((S + S.swapaxes(1, 2)) / 2)

    assert are_positive(stack(1e-9), 0.0, 0.0)
    assert are_positive(stack(-0.5), 0.6, 0.05)
    for S, shift, error in ((stack(-1e-9), 0.0, 0.0), (stack(1e-9), 0.0, 1e-8), (stack(-0.5), 0.6, 0.2)):
        assert not are_positive(S, shift, error)
    assert not are_positive(np.full((1, 2, 2), math.nan), 1.0, 0.0)
