"""The search for violated triangles, and climbs over unit rows."""

from __future__ import annotations

import numpy as np

from lipcert.solver.climb import Singles, climb, unit
from lipcert.solver.triangles import Edges, violated
from tests.one_layer_tools import all_triangles


def test_the_search_finds_what_is_violated_most() -> None:
    V = unit(np.random.default_rng(3).standard_normal((16, 3)).astype(np.float32))
    X = V @ V.T
    triangles = all_triangles(16)
    (a, b, c), (p, q, r) = triangles.nodes.T, triangles.signs.T
    size = -(1.0 + p * q * X[a, b] + q * r * X[b, c] + p * r * X[a, c])
    assert np.allclose(Edges(triangles, 16).excess(X), size, atol=1e-5)
    strong = np.max(np.abs([X[a, b], X[b, c], X[a, c]]), axis=0) > 0.4
    found, sizes, _ = violated(X, 0.1, 10**6, 0)
    assert set(found.names()) == set(triangles[(size > 0.1) & strong].names())
    few, largest, following = violated(X, 0.1, 50, 0)
    assert len(few) <= 50
    assert abs(largest.min() - following) < 1e-6
    assert abs(sizes.max() - size.max()) < 1e-5


def test_the_climb_reaches_a_fixed_point() -> None:
    rng = np.random.default_rng(0)
    C = rng.standard_normal((20, 20)).astype(np.float32)
    C = C + C.T
    first = unit(rng.standard_normal((20, 8)).astype(np.float32))
    V, left = climb(lambda U: (float(np.vdot(C @ U, U)), 2 * C @ U), first, 200)
    image = C @ V
    assert left >= 0
    assert np.allclose(np.linalg.norm(V, axis=1), 1.0, atol=1e-5)
    assert np.linalg.norm(image - np.einsum("ij,ij->i", image, V)[:, None] * V) < 1e-2 * np.linalg.norm(image)


def test_a_climb_that_is_cut_goes_on() -> None:
    """The rows so far stay, and the steps that are left are told."""
    rng, calls = np.random.default_rng(1), [0]
    C = rng.standard_normal((12, 12)).astype(np.float32)
    C = C + C.T
    first = unit(rng.standard_normal((12, 5)).astype(np.float32))

    def cut(U: Singles) -> tuple[float, Singles]:
        calls[0] += 1
        if calls[0] > 12:
            raise TimeoutError
        return float(np.vdot(C @ U, U)), 2 * C @ U

    V, left = climb(cut, first, 50)
    assert 0 < left < 50
    assert np.vdot(C @ V, V) > np.vdot(C @ first, first)
