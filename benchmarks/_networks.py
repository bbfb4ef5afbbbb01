"""The networks and regions that brackets are compared on: real ones from the data folder, and recipes."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.io

import lipcert
from benchmarks._measure import ROOT, data_folder
from lipcert import Activation, Box, Everywhere, Network
from lipcert.paper.entries import paper_network, paper_region
from lipcert.problem.blocks import Block
from lipcert.problem.region import Region
from lipcert.rounding import Array

Made = tuple[Network, Region, int | tuple[int, int] | str | None, str]  # network, region, output, norm


@dataclass(frozen=True)
class Case:
    """A question with its name, and what is known: a lower bound, the peer's upper bound, its seconds."""

    name: str
    make: Callable[[], Made]
    lower: float | None = None
    peer: float | None = None
    peer_seconds: float | None = None


def digit() -> Array:
    """The first test image of MNIST, pixels in [0, 1]."""
    with gzip.open(data_folder() / "mnist" / "t10k-images-idx3-ubyte.gz") as file:
        return np.frombuffer(file.read(16 + 784)[16:], dtype=np.uint8) / 255.0


def mnist(file: str, radius: float, norm: str = "inf") -> Callable[[], Made]:
    """Score 7 against score 3 around the first test image, pixels clipped."""
    return lambda: (read(file), Box(digit(), radius, clip=(0, 1)), (7, 3), norm)


def around_zero(file: str, radius: float, output: int | str = 0, norm: str = "inf") -> Callable[[], Made]:
    def make() -> Made:
        net = read(file)
        return net, Box(np.zeros(net.inputs), radius), output, norm

    return make


def read(file: str) -> Network:
    """A network of the data folder: of its folder `nets`, or by its path."""
    return lipcert.load(data_folder() / (file if "/" in file else f"nets/{file}"))


def paper(size: int, sparsity: int, seed: int, region: str, layers: int = 1) -> Callable[[], Made]:
    """A random network of the paper on one of its boxes."""
    return lambda: (paper_network(size, sparsity, seed, layers), paper_region(size, seed, region), None, "inf")


def _cifar() -> Made:
    return read("cifar_base_kw.onnx"), Box(np.random.RandomState(0).rand(3072), 0.00784, clip=(0, 1)), 0, "inf"


def sdp_nn(radius: float) -> Callable[[], Made]:
    """The paper's trained network (784,500)."""

    def make() -> Made:
        parts = scipy.io.loadmat(data_folder() / "sdp_nn" / "sdp_nn_paper.mat")
        A, b, c, x = (np.asarray(parts[name], dtype=np.float64) for name in ("A", "b", "c", "x00"))
        net = Network.from_weights([A, c.reshape(1, -1)], [b.reshape(-1), np.zeros(1)])
        return net, Box(x.reshape(-1), radius), None, "inf"

    return make


def _tutorial() -> Made:
    folder = ROOT / "src" / "lipcert" / "data"
    image = np.load(folder / "digits_images.npz")["images"][0] / 16
    return lipcert.load(folder / "digits_net.npz"), Box(image.reshape(-1), 0.02, clip=(0, 1)), (0, 9), "inf"


def he_normal(sizes: tuple[int, ...], seed: int = 0) -> Network:
    """A random chain of ReLUs with He-normal weights and small biases."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, n)) * np.sqrt(2 / n) for n, m in pairwise(sizes)]
    return Network.from_weights(weights, [0.1 * rng.normal(size=len(w)) for w in weights])


def recipe(sizes: tuple[int, ...], radius: float, kind: str = "relu", seed: int = 0, norm: str = "inf") -> Made:
    rng = np.random.RandomState(seed)
    weights = [rng.randn(m, n) * np.sqrt(2 / n) for n, m in zip(sizes, sizes[1:], strict=False)]  # noqa: RUF007
    net = Network.from_weights(weights, [0.1 * rng.randn(len(w)) for w in weights], kind)
    return net, Box(rng.rand(sizes[0]), radius), 0, norm


def residual(inputs: int, width: int, blocks: int, radius: float, kind: str = "relu") -> Made:
    """A chain of blocks x + W2 f(W1 x + b), each followed by f."""
    rng, f = np.random.RandomState(1), Activation(kind)
    made = [Block(((0, rng.randn(width, inputs) * np.sqrt(2 / inputs)),), 0.1 * rng.randn(width), f)]
    for k in range(blocks):
        last = 2 * k + 1
        inner = rng.randn(width, width) * np.sqrt(2 / width)
        made.append(Block(((last, inner),), 0.1 * rng.randn(width), f))
        outer = rng.randn(width, width) * np.sqrt(0.5 / width)
        made.append(Block(((last, np.eye(width)), (last + 1, outer)), np.zeros(width), f))
    made.append(Block(((2 * blocks + 1, rng.randn(3, width) / np.sqrt(width)),), np.zeros(3)))
    return Network.from_blocks(made), Box(rng.rand(inputs), radius), 0, "inf"


def everywhere(file: str, norm: str, output: tuple[int, int] | int | str | None = None) -> Callable[[], Made]:
    return lambda: (read(file), Everywhere(), output, norm)


CASES = (
    Case("256x2 0.01", mnist("mnist-net_256x2.onnx", 0.01), 124.0453, 157.98737, 1.2),
    Case("256x2 0.05", mnist("mnist-net_256x2.onnx", 0.05), 371.9, 3042.93, 6.6),
    Case("256x2 global", everywhere("mnist-net_256x2.onnx", "inf", (7, 3)), 2195.0),
    Case("5_100 0.01", mnist("eran_mnist_relu_5_100.onnx", 0.01), 23.7938, 28.9693, 0.9),
    Case("3_50 0.02", mnist("eran_mnist_relu_3_50.onnx", 0.02), 222.58, 632.1, 1.4),
    Case("DiffAI 0.05", mnist("eran_convSmallRELU_DiffAI.onnx", 0.05), 86.8948, 98.31071, 8.9),
    Case("cifar_base_kw", _cifar, 8.4556, 8.68989, 4.9),
    Case("mnist_conv 0.01", mnist("mnist_conv.onnx", 0.01), 12.7094, 12.711, 1.1),
    Case("ACAS 2_1 0.05", around_zero("ACASXU_run2a_2_1.onnx", 0.05), 54.19, 24049.3, 25.5),
    Case("ACAS 2_1 0.2", around_zero("ACASXU_run2a_2_1.onnx", 0.2), 102.2, 227431.5, 23.0),
    Case("ACAS 1_1 0.05", around_zero("ACASXU_experimental_v2a_1_1.nnet", 0.05), 0.371205, 996.0, 6.1),
    Case("lindex 0.5", around_zero("lindex.onnx", 0.5), 251.047, 1643.3, 10.6),
    Case("vdp 1", around_zero("vdp.onnx", 1.0), 4.548636, 29.8915, 2.6),
    Case("cartpole 0.5", around_zero("cartpole.onnx", 0.5), 15.0396, 24.1333, 5.4),
    Case("tll_2_8 1", around_zero("tll_2_8.onnx", 1.0), 2.84, 686.03, 24.9),
    Case("SDP-NN 0.1", sdp_nn(0.1), 9.8907, 77.4),
    Case("(80,80) local", paper(80, 80, 0, "local"), 1.87298),
    Case("wine", everywhere("exlipbab_wine_11-12-12-1.npz", "2"), 1.74337),
    Case("abalone", everywhere("exlipbab_abalone_9-16-16-1.npz", "2"), 11.1216),
    Case("tutorial", _tutorial, 136.295),
    Case("sigmoid 20-40-40", lambda: recipe((20, 40, 40, 3), 0.1, "sigmoid")),
    Case("tanh 4-30-30-30", lambda: recipe((4, 30, 30, 30, 2), 0.3, "tanh")),
    Case("leaky 30-40-40", lambda: recipe((30, 40, 40, 2), 0.05, "leaky_relu", norm="2")),
    Case("deep 10-8x16", lambda: recipe((10, *(16,) * 8, 2), 0.05)),
    Case("residual 12-24x6", lambda: residual(12, 24, 3, 0.05)),
)
