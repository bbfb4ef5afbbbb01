"""Linear maps: a convolution is the matrix that its definition says, and a network of them is the same network."""

from __future__ import annotations

import itertools
import math
import pickle
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from lipcert import Affine, Network, load
from lipcert.bounds.interval import Interval, affine_interval
from lipcert.bounds.propagation import preactivation_bounds
from lipcert.errors import FileFormatError, InputError, MethodError
from lipcert.problem import convolution as convolution_module
from lipcert.problem import maps, sliding
from lipcert.problem.activations import RELU
from lipcert.problem.convolution import Convolution, TransposedConvolution, Window, folded
from lipcert.problem.maps import LinearMap, dense, entries, entrywise, fingerprint, matrix, numbers, stored, times
from lipcert.problem.region import Box
from lipcert.readers.graph import linear
from lipcert.readers.graph.linear import normalize_channels
from lipcert.readers.graph.tensors import Graph
from lipcert.readers.graph.windows import average, convolve, convolve_transposed
from lipcert.rounding import Array
from tests.constants import set_constant
from tests.reader_tools import data_file, refuse
from tests.strategies import convolutional_networks, convolutions


def plain_window(taps: int, stride: int = 1, pad: int = 0) -> Window:
    """The same along two axes."""
    return Window((taps, taps), (stride, stride), (1, 1), (pad, pad), (pad, pad))


def by_definition(map_: Convolution) -> Array:
    """The matrix, entry by entry: output o meets input o stride + tap dilation - before."""
    w, (out_channels, per_group) = map_.window, map_.kernel.shape[:2]
    full = np.zeros((out_channels, *map_.outputs, map_.channels, *map_.spatial))
    for o in itertools.product(*(range(n) for n in map_.outputs)):
        for tap in itertools.product(*(range(n) for n in w.kernel)):
            p = tuple(o[i] * w.strides[i] + tap[i] * w.dilations[i] - w.before[i] for i in range(len(o)))
            if all(0 <= p[i] < map_.spatial[i] for i in range(len(o))):
                for out, inner in itertools.product(range(out_channels), range(per_group)):
                    group = out // (out_channels // map_.groups)
                    full[(out, *o, group * per_group + inner, *p)] = map_.kernel[(out, inner, *tap)]
    return full.reshape(map_.shape)


@settings(max_examples=60)
@given(
    convolutions(),
    st.sampled_from((1, 50, 1 << 19)),
    st.sampled_from((1, 7, 256)),
    st.sampled_from((1, 1 << 20)),
    st.sampled_from((1, 40, 1 << 20)),
)
def test_a_convolution_is_its_matrix(map_: Convolution, tile: int, columns: int, deep: int, piece: int) -> None:
    """Whatever the sizes are that it works in, and however a batch is laid out."""
    A = by_definition(map_)
    rng = np.random.default_rng(0)
    X, G = rng.normal(size=(A.shape[1], 3)), rng.normal(size=(4, A.shape[0]))
    with (
        patch.multiple(sliding, _TILE=tile, _COLUMNS=columns, _DEEP=deep, _RUN=2),
        patch.object(maps, "_PIECE", piece),
    ):
        close = [
            (map_ @ X, A @ X),
            (map_ @ X[:, 0], A @ X[:, 0]),
            (map_ @ np.asfortranarray(X), A @ X),
            (G @ map_, G @ A),
            (np.asfortranarray(G) @ map_, G @ A),
            (G[::-1, ::-1] @ map_, G[::-1, ::-1] @ A),
            (G[0] @ map_, G[0] @ A),
            (map_.T @ G.T, A.T @ G.T),
            (X.T @ map_.T, X.T @ A.T),
            (times(map_, X.T), X.T @ A.T),
            (map_.sum(axis=1), A.sum(axis=1)),
            (abs(map_).sum(axis=0), abs(A).sum(axis=0)),
            (entrywise(map_, np.square).sum(axis=1), (A * A).sum(axis=1)),
            (map_.astype(np.float32) @ X.astype(np.float32), (A @ X)),
        ]
        equal = [
            (map_.toarray(), A),
            (map_.tocsr().toarray(), A),
            (map_.T.toarray(), A.T),
            (map_.T.tocsr().toarray(), A.T),
            (map_.T.T.toarray(), A),
            (abs(map_).max(axis=1), abs(A).max(axis=1)),
            (abs(map_).T.max(axis=1), abs(A).max(axis=0)),
        ]
    for got, wanted in close:
        np.testing.assert_allclose(got, wanted, rtol=1e-12 if got.dtype == np.float64 else 1e-4, atol=1e-5)
    for got, wanted in equal:
        np.testing.assert_array_equal(got, wanted)
    assert map_.entries == map_.tocsr().nnz >= np.count_nonzero(A)
    assert (map_.shape, map_.ndim, stored(map_)) == (A.shape, 2, map_.kernel.size)


class Term:
    """A number that knows of how many products it is the sum."""

    def __init__(self, products: int) -> None:
        self.products = products

    def __mul__(self, other: Term | int) -> Term | int:
        return Term(1) if isinstance(other, Term) else 0

    def __add__(self, other: Term | int) -> Term:
        return Term(self.products + (other.products if isinstance(other, Term) else 0))

    __rmul__, __radd__ = __mul__, __add__


@settings(max_examples=60)
@given(convolutions(), st.sampled_from((1, 50, 1 << 18)), st.sampled_from((1, 1 << 20)))
def test_no_sum_has_more_terms_than_the_map_says(map_: Convolution, tile: int, deep: int) -> None:
    """Products and sums that take place are counted; those with a zero outside of the tensor are exact."""

    def terms(*shape: int) -> NDArray[Any]:
        return np.array([Term(1) for _ in range(math.prod(shape))], dtype=object).reshape(shape)

    counted = map_.entrywise(lambda kernel: terms(*kernel.shape))
    with patch.multiple(sliding, _TILE=tile, _COLUMNS=1, _DEEP=deep):
        for map_of_terms, wanted in ((counted, map_.tocsr()), (counted.T, map_.tocsr().T)):
            found = map_of_terms @ terms(map_of_terms.shape[1], 2)
            products = [[getattr(number, "products", 0) for number in row] for row in found.tolist()]
            entries = np.diff(sparse.csr_array(wanted).indptr)
            np.testing.assert_array_equal(products, np.stack([entries, entries], axis=1))
            assert entries.max(initial=0) <= map_of_terms.summed(1)


@settings(max_examples=60)
@given(convolutions(), st.integers(0, 2**32 - 1))
def test_rows_of_a_convolution(map_: Convolution, seed: int) -> None:
    A, rng = map_.toarray(), np.random.default_rng(seed)
    rows, columns = (rng.permutation(n)[: rng.integers(0, n + 1)] for n in A.shape)
    X, G = rng.normal(size=(A.shape[1], 2)), rng.normal(size=(2, len(rows)))
    np.testing.assert_array_equal(dense(map_[rows]), A[rows])
    np.testing.assert_array_equal(dense(map_[1:3]), A[1:3])
    np.testing.assert_array_equal(dense(map_.T[columns]), A.T[columns])
    np.testing.assert_array_equal(dense(map_[rows].T[columns]), A[rows].T[columns])
    np.testing.assert_array_equal(dense(map_[rows][::-1]), A[rows][::-1])
    np.testing.assert_allclose(map_[rows] @ X, A[rows] @ X, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(G @ abs(map_[rows]), G @ abs(A[rows]), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(map_[rows].T.tocsr().toarray(), A[rows].T)
    with pytest.raises(IndexError, match="twice"):
        map_[[0, 0]]


@settings(max_examples=30)
@given(convolutions())
def test_products_with_sparse_matrices_are_sparse(map_: Convolution) -> None:
    A = map_.toarray()
    left, right = sparse.eye_array(A.shape[0], format="csr") * 2.0, sparse.eye_array(A.shape[1], format="csr") * 3.0
    for got, wanted in ((left @ map_, 2 * A), (map_ @ right, 3 * A), (map_ @ map_.T, A @ A.T)):
        assert sparse.issparse(got)
        np.testing.assert_allclose(got.toarray(), wanted, rtol=1e-12, atol=1e-12)


def test_arrays_sparse_arrays_and_convolutions_are_linear_maps() -> None:
    A = np.array([[1.0, 0.0, -2.0]])
    kinds: list[LinearMap] = [A, sparse.csr_array(A), Convolution(A[None], (3,), Window((3,), (1,), (1,), (0,), (0,)))]
    for map_, kept in zip(kinds, (3, 2, 3), strict=True):
        assert (map_.shape, map_.ndim, stored(map_), entries(map_)) == ((1, 3), 2, kept, kept)
        np.testing.assert_array_equal(dense(map_), A)
        np.testing.assert_array_equal(dense(matrix(map_)), A)
        np.testing.assert_array_equal(dense(entrywise(map_, np.square)), [[1, 0, 4]])
        np.testing.assert_array_equal(dense(abs(map_).T), abs(A).T)
        np.testing.assert_array_equal(times(map_, np.array([[1.0, 2.0, 3.0]])), [[-5]])
        np.testing.assert_array_equal(np.asarray(map_.sum(1)).reshape(-1), [-1])
        assert np.sort(numbers(map_).reshape(-1))[0] == -2
        assert map_.astype(np.float32).dtype == np.float32
        assert b"".join(fingerprint(map_)) == b"".join(fingerprint(A))


def test_a_matrix_that_would_fill_the_memory_is_refused() -> None:
    map_ = Convolution(np.ones((2, 1, 3, 3)), (9, 9), plain_window(3))
    with patch.object(maps, "MAX_WEIGHTS", 100):
        for write_out in (map_.tocsr, map_.toarray, map_.T.tocsr, map_[5:].toarray):
            with pytest.raises(MethodError, match=r"81 inputs .* use product or interval"):
                write_out()


@pytest.mark.parametrize(
    ("shape", "spatial", "window", "groups", "message"),
    [
        ((2, 1, 3, 3), (9,), plain_window(3), 1, "does not fit an input"),
        ((2, 1, 2, 3), (9, 9), plain_window(3), 1, "does not fit an input"),
        ((0, 1, 3, 3), (9, 9), plain_window(3), 1, "does not fit an input"),
        ((3, 1, 3, 3), (9, 9), plain_window(3), 2, "2 groups"),
        ((3, 1, 3, 3), (9, 9), plain_window(3), 0, "0 groups"),
        ((2, 1, 3, 3), (2, 2), plain_window(3), 1, "does not fit an axis"),
        ((2, 1, 3, 3), (0, 9), plain_window(3, pad=2), 1, "beyond the limit"),
        ((2, 1, 3, 3), (3000, 3000), plain_window(3), 1, "beyond the limit"),
        ((2, 1, 1, 1), (9, 9), plain_window(1, 1 << 20, 1 << 20), 1, "padding of"),
        ((64, 64, 3, 3), (250, 250), plain_window(3), 1, "stored weights is beyond"),
    ],
)
def test_what_is_no_convolution(
    shape: tuple[int, ...], spatial: tuple[int, ...], window: Window, groups: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Convolution(np.ones(shape), spatial, window, groups)


@settings(max_examples=40)
@given(convolutions(), st.floats(-12, 12), st.integers(0, 2**32 - 1))
def test_intervals_contain_the_exact_values(map_: Convolution, scale: float, seed: int) -> None:
    """In rational arithmetic, where cancellation and tiny terms occur; forward and transposed."""
    rng = np.random.default_rng(seed)
    map_ = map_.entrywise(lambda k: k * 10.0 ** (scale * rng.uniform(-1, 1, size=k.shape)))
    for weight, A in ((map_, map_.toarray()), (map_.T, map_.toarray().T)):
        x = rng.normal(size=(A.shape[1],))
        bounds = affine_interval(weight, np.zeros(A.shape[0]), Interval(x, x))
        for row, lo, hi in zip(A, *bounds, strict=True):
            exact = sum((Fraction(a) * Fraction(v) for a, v in zip(row.tolist(), x.tolist(), strict=True)), Fraction(0))
            assert Fraction(float(lo)) <= exact <= Fraction(float(hi))


@settings(max_examples=60)
@given(convolutional_networks())
def test_the_hash_does_not_depend_on_the_storage(nets: tuple[Network, Network]) -> None:
    kept, written = nets
    full = Network([Affine(dense(a.weight), a.bias) for a in kept.affines], kept.activations)
    with patch.object(maps, "_PIECE", 20):
        assert kept.sha256 == written.sha256 == full.sha256 == pickle.loads(pickle.dumps(kept)).sha256
    assert kept.entries == written.entries == written.stored
    x = np.random.default_rng(0).normal(size=(5, kept.inputs))
    np.testing.assert_allclose(kept.forward(x), written.forward(x), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(kept.gradient(x, [1.0, -1.0]), written.gradient(x, [1.0, -1.0]), rtol=1e-9, atol=1e-9)


@settings(max_examples=30)
@given(convolutional_networks())
def test_a_saved_convolution_comes_back(
    tmp_path_factory: pytest.TempPathFactory, nets: tuple[Network, Network]
) -> None:
    net = nets[0]
    path = tmp_path_factory.mktemp("saved") / "net.npz"
    with patch("os.fsync"):
        net.save(path)
    again = load(path)
    assert again.sha256 == net.sha256
    assert [type(a.weight) for a in again.affines] == [type(a.weight) for a in net.affines]
    assert again.stored == net.stored


@settings(max_examples=40)
@given(convolutions(), st.booleans())
def test_a_network_keeps_the_transpose_of_a_convolution(
    tmp_path_factory: pytest.TempPathFactory, map_: Convolution, many: bool
) -> None:
    """Its hash, its file, its rows and its scalings are those of the matrix."""
    turned, A, rng = map_.T, map_.toarray().T, np.random.default_rng(0)
    last = rng.normal(size=(2, A.shape[0]))
    net, written = (
        Network([Affine(w, np.ones(len(A))), Affine(last, np.zeros(2))], [RELU]) for w in (turned, sparse.csr_array(A))
    )
    path = tmp_path_factory.mktemp("saved") / "net.npz"
    with patch("os.fsync"):
        net.save(path)
    again = load(path)
    assert [type(a.weight) for a in again.affines] == [TransposedConvolution, np.ndarray]
    assert net.sha256 == written.sha256 == again.sha256
    x = rng.normal(size=(3, A.shape[1]))
    np.testing.assert_allclose(again.forward(x), written.forward(x), rtol=1e-10, atol=1e-10)
    with patch.object(convolution_module, "_FEW", 0 if many else 1 << 20):
        np.testing.assert_array_equal(turned.block(np.arange(len(A))[::-1]).toarray(), A[::-1])
    ends = [np.repeat(rng.uniform(1, 2, size=count), len(a) // count) for a, count in ((A, map_.channels), (A.T, 1))]
    for got, wanted in (
        (turned.rows_scaled(ends[0]), ends[0][:, None] * A),
        (turned.columns_scaled(ends[1]), A * ends[1]),
        (folded(turned, sparse.diags_array(ends[1], format="csr")), A * ends[1]),
        (folded(sparse.diags_array(ends[0], format="csr"), turned), ends[0][:, None] * A),
    ):
        assert isinstance(got, TransposedConvolution)
        np.testing.assert_array_equal(got.toarray(), wanted)


def test_readers_keep_large_transposed_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, nets = np.random.default_rng(0), []
    kernel, scale = rng.normal(size=(3, 2, 3, 3)), list(rng.uniform(0.5, 2.0, size=(4, 2)))
    for limit in (1 << 40, 0):
        set_constant(monkeypatch, "CONVOLUTION_BYTES", limit)
        graph = Graph((1, 3, 5, 5))
        x = graph.activate(graph.input, RELU)
        x = convolve_transposed(graph, x, kernel, np.ones(2), 1, plain_window(3, 2, 1), (1, 1))
        nets.append(graph.network(normalize_channels(graph, x, scale, 1e-5)))
    written, kept = nets
    assert isinstance(written.affines[-1].weight, np.ndarray | sparse.csr_array)
    assert isinstance(kept.affines[-1].weight, TransposedConvolution)
    assert kept.sha256 == written.sha256


def saved_parts() -> dict[str, Any]:
    map_ = Convolution(np.arange(1.0, 17.0).reshape(4, 1, 2, 2), (3, 4), plain_window(2), 2)
    return {
        "W1_kernel": map_.kernel.reshape(4, 4),
        "W1_geometry": map_.geometry,
        "b1": np.zeros(map_.shape[0]),
        "format": np.array(2),
    }


def geometry(**changes: int) -> Array:
    """That of `saved_parts`, with some of its numbers changed: p0 stands for the place 0."""
    values = saved_parts()["W1_geometry"].copy()
    for name, value in changes.items():
        values[int(name[1:])] = value
    return np.asarray(values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, []),
        ({"W1_kernel": np.ones((4, 4), dtype=np.float32)}, []),
        ({"W1_kernel": None}, ["W1_kernel is missing"]),
        ({"W1_geometry": None}, ["W1_geometry is missing"]),
        ({"W1_kernel": np.ones(16)}, ["two axes"]),
        ({"W1_kernel": np.ones((4, 5))}, ["taps"]),
        ({"W1_kernel": np.ones((4, 0))}, ["does not fit"]),
        ({"W1_kernel": np.ones((3, 4))}, ["2 groups"]),
        ({"W1_kernel": np.full((4, 4), np.nan)}, ["not finite"]),
        ({"W1_kernel": np.full((4, 4), "x")}, ["W1_kernel has type"]),
        ({"W1_geometry": geometry().astype(float)}, ["whole numbers"]),
        ({"W1_geometry": geometry()[None]}, ["whole numbers"]),
        ({"W1_geometry": np.ones(1 + 6 * 1000, dtype=int)}, ["whole numbers"]),
        ({"W1_geometry": geometry()[:-1]}, ["1 + 6 numbers"]),
        ({"W1_geometry": geometry()[:1]}, ["1 + 6 numbers"]),
        ({"W1_geometry": np.append(geometry(), 0)}, ["1 + 6 numbers"]),
        ({"W1_geometry": np.append(geometry(), 1)}, []),
        ({"W1_geometry": geometry(p0=0)}, ["0 groups"]),
        ({"W1_geometry": geometry(p0=1 << 40)}, ["groups"]),
        ({"W1_geometry": geometry(p1=1 << 40)}, ["limit"]),
        ({"W1_geometry": geometry(p1=-1)}, ["axis of -1"]),
        ({"W1_geometry": geometry(p3=0)}, ["at least 1"]),
        ({"W1_geometry": geometry(p5=0)}, ["at least 1"]),
        ({"W1_geometry": geometry(p9=-1)}, ["at least 0"]),
        ({"W1_geometry": geometry(p9=1 << 40)}, ["limited to"]),
        ({"W1_geometry": geometry(p9=1)}, ["b1 has the shape"]),
        ({"W1": np.ones((24, 24))}, ["two of the forms"]),
        ({"W1_data": np.ones(3)}, ["two of the forms"]),
    ],
)
def test_files_that_lie_about_a_convolution(tmp_path: Path, change: dict[str, Any], words: list[str]) -> None:
    arrays = {name: a for name, a in (saved_parts() | change).items() if a is not None}
    np.savez(tmp_path / "net.npz", **arrays)
    if words:
        refuse(tmp_path / "net.npz", *words, kind=FileFormatError)
    else:
        assert load(tmp_path / "net.npz").shape == (24, 24)


def stages(rng: np.random.Generator, steps: tuple[str, ...]) -> Network:
    """A network of these operations on an image with 4 channels, read as readers do."""
    graph = Graph((1, 4, 6, 6))
    x = graph.input
    for step in steps:
        channels = x.shape[1]
        match step:
            case "conv":
                x = convolve(graph, x, rng.normal(size=(4, 2, 3, 3)), rng.normal(size=4), 2, plain_window(3, pad=1))
            case "norm":
                x = normalize_channels(graph, x, list(rng.uniform(0.5, 2.0, size=(4, channels))), 1e-5)
            case "scale":
                x = graph.scale_and_shift(x, rng.uniform(1.0, 2.0, size=x.shape), rng.normal(size=x.shape))
            case "transpose":
                x = graph.transpose(x, (0, 1, 3, 2))
            case "pool":
                x = average(graph, x, plain_window(2, 2))
            case "relu":
                x = graph.activate(x, RELU)
            case _:
                x = x.reshaped((1, x.width))
                x = linear.times(graph, x, rng.normal(size=(x.width, 3)))
    return graph.network(x)


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        (("conv", "relu", "conv"), 2),
        (("norm", "conv", "norm", "relu", "conv", "norm"), 2),
        (("scale", "conv", "relu", "conv", "scale"), 0),
        (("transpose", "conv", "relu", "conv", "transpose"), 0),
        (("conv", "conv", "relu", "conv", "pool"), 0),
        (("conv", "dense", "relu"), 0),
        (("conv", "relu", "dense"), 1),
        (("conv", "norm", "relu", "pool", "relu", "conv", "relu", "dense"), 2),
    ],
)
def test_readers_keep_convolutions_and_fold_what_is_beside_them(
    monkeypatch: pytest.MonkeyPatch, steps: tuple[str, ...], kept: int
) -> None:
    """The network is the same, to the last bit, as the one of CSR matrices; `kept` convolutions stay convolutions."""
    written = stages(np.random.default_rng(0), steps)
    assert not any(isinstance(a.weight, Convolution) for a in written.affines)
    set_constant(monkeypatch, "CONVOLUTION_BYTES", 0)
    net = stages(np.random.default_rng(0), steps)
    assert sum(isinstance(a.weight, Convolution) for a in net.affines) == kept
    assert net.sha256 == written.sha256
    x = np.random.default_rng(1).normal(size=(3, net.inputs))
    np.testing.assert_allclose(net.forward(x), written.forward(x), rtol=1e-9, atol=1e-9)


def test_affine_maps_fold_around_a_convolution() -> None:
    rng = np.random.default_rng(0)
    middle = Affine(Convolution(rng.normal(size=(2, 3, 2, 2)), (4, 4), plain_window(2)), rng.normal(size=18))
    before = Affine(sparse.diags_array(np.repeat([1.0, 2.0, 3.0], 16), format="csr"), rng.normal(size=48))
    after = Affine(sparse.diags_array(np.repeat([4.0, 5.0], 9), format="csr"), rng.normal(size=18))
    uneven = Affine(sparse.diags_array(rng.normal(size=18), format="csr"), np.zeros(18))
    last = Affine(rng.normal(size=(2, 18)), np.zeros(2))
    x = rng.normal(size=(5, 48))
    for maps_, kind in (
        ([before, middle, after], Convolution),
        ([middle, uneven], np.ndarray),
        ([middle, last], np.ndarray),
        ([before, middle, after, last], np.ndarray),
    ):
        net = Network.from_steps(maps_)
        y = x
        for map_ in maps_:
            y = map_(y)
        assert isinstance(net.affines[0].weight, kind)
        np.testing.assert_allclose(net.forward(x), y, rtol=1e-10)


def test_a_large_network_of_convolutions_needs_little_memory(tmp_path: Path) -> None:
    """Its matrices would have 42 million entries: half a gigabyte."""
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        graph = Graph((1, 3, 32, 32))
        y = graph.input
        for width, channels in ((64, 3), (72, 64)):
            kernel = rng.normal(size=(width, channels, 3, 3)) / 24
            y = graph.activate(convolve(graph, y, kernel, None, 1, plain_window(3, pad=1)), RELU)
        y = convolve(graph, y, rng.normal(size=(2, 72, 4, 4)) / 30, None, 1, plain_window(4, 4))
        net = graph.network(y.reshaped((1, 128)))
        net.save(tmp_path / "net.npz")
        net = load(tmp_path / "net.npz")
        x = rng.uniform(size=net.inputs)
        scores = net.forward(x)
        pre = preactivation_bounds(net, Box(x, 0.01), backward=False)
        name = net.sha256
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert net.entries > 40_000_000
    assert net.stored < 4_000_000
    assert peak < 300e6
    assert (tmp_path / "net.npz").stat().st_size < 50e6
    assert len(name) == 64
    assert np.all(np.isfinite(scores))
    for z, bounds in zip(net.preactivations(x), pre, strict=True):
        assert np.all((bounds.lo <= z[0] + 1e-9) & (z[0] - 1e-9 <= bounds.hi))


@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("nets/cifar_base_kw.onnx", "7f675e500b86317c86be96d8f9c9d63690d679699e57fcd4151d603ad87170fc"),
        ("nets/mnist_conv.onnx", "934327dbd5b8550cee2c3ca0a3fb90da491f3cb7a69d67fdc753612d855bd87b"),
    ],
)
def test_hashes_of_published_networks(monkeypatch: pytest.MonkeyPatch, name: str, sha256: str) -> None:
    assert load(data_file(name)).sha256 == sha256
    set_constant(monkeypatch, "CONVOLUTION_BYTES", 0)
    kept = load(data_file(name))
    assert kept.sha256 == sha256
    assert kept.stored < kept.entries
