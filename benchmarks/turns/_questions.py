"""The questions on which `auto` stands beside every single method: ten families, each in two halves, A and B.

Constants are chosen on the questions of half A and looked at on half B afterwards; halves alternate within a family.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks._large_networks import conv_network
from benchmarks._large_networks import made as large
from benchmarks._measure import data_folder
from benchmarks._networks import (
    CASES,
    Made,
    around_zero,
    digit,
    everywhere,
    he_normal,
    mnist,
    paper,
    read,
    recipe,
    residual,
    sdp_nn,
)
from benchmarks.turns._recipes import clusters, digit8, digits, trained, waves
from lipcert import Ball, Box, Everywhere, Network
from lipcert.paper.entries import paper_network
from lipcert.problem.region import Region

Make = Callable[[], Made]
Output = int | str | tuple[int, int]  # a score, all scores, or the difference of two
ACAS_1_1, ACAS_2_1 = "ACASXU_experimental_v2a_1_1.nnet", "ACASXU_run2a_2_1.onnx"
SMALL, FIVE, WIDE = "eran_mnist_relu_3_50.onnx", "eran_mnist_relu_5_100.onnx", "mnist-net_256x2.onnx"


@dataclass(frozen=True)
class TurnsQuestion:
    """A question with its family and its half."""

    name: str
    family: str
    half: str
    make: Make


def _sigmoid(radius: float) -> Make:
    return mnist("eran_ffnnSIGMOID_6x200.onnx", radius)


def _on(
    make: Callable[[], Network], region: Region, output: int | str | tuple[int, int] = 0, norm: str = "inf"
) -> Make:
    """A network on a region around nothing in particular."""
    return lambda: (make(), region, output, norm)


def _file(name: str, radius: float, output: int | str = 0, norm: str = "inf", *, ball: bool = False) -> Make:
    """A file of the data folder around a random point of the unit cube."""

    def make() -> Made:
        net = read(name)
        center = np.random.RandomState(1).rand(net.inputs)
        return net, Ball(center, radius) if ball else Box(center, radius), output, norm

    return make


def _image(file: str, radius: float) -> Make:
    """Score 7 against score 3 on a Euclidean ball around the first test image."""
    return lambda: (read(file), Ball(digit(), radius), (7, 3), "2")


def _picture(radius: float) -> Make:
    """The first of SDP-CROWN's CIFAR images, normalised as its network was trained."""

    def make() -> Made:
        center = np.load(data_folder() / "sdp_crown" / "cifar_200.npz")["images"][0].astype(np.float64)
        return read("sdp_crown/cifar10_cnn_a.onnx"), Ball(center, radius), (0, 1), "2"

    return make


def _random(
    sizes: tuple[int, ...], radius: float, output: Output = 0, norm: str = "inf", *, ball: bool = False
) -> Make:
    """He-normal ReLUs on a box or a ball inside the unit cube."""

    def make() -> Made:
        center = np.random.default_rng(1).uniform(size=sizes[0])
        return he_normal(sizes), Ball(center, radius) if ball else Box(center, radius), output, norm

    return make


def _globally(sizes: tuple[int, ...], output: int | str = 0, norm: str = "2") -> Make:
    return _on(lambda: he_normal(sizes), Everywhere(), output, norm)


def _smooth(sizes: tuple[int, ...], radius: float, kind: str, norm: str = "inf") -> Make:
    return lambda: recipe(sizes, radius, kind, norm=norm)


def _residual(inputs: int, width: int, blocks: int, radius: float, kind: str = "relu") -> Make:
    return lambda: residual(inputs, width, blocks, radius, kind)


def _residual_globally() -> Made:
    net, _, _, _ = residual(10, 16, 2, 1.0)
    return net, Everywhere(), 0, "2"


def _pixels(norm: str, radius: float) -> Make:
    """A convolutional network by recipe on pictures of 16 x 16."""
    center = np.random.default_rng(1).uniform(size=256)
    region = Box(center, radius) if norm == "inf" else Ball(center, radius)
    return _on(lambda: conv_network(1, 16, 4, 8), region, (0, 1), norm)


def _large_conv() -> Made:
    net, box = large("conv-3x32x32-local")
    return net, box, (0, 1), "inf"


def _of_cases(*names: str) -> dict[str, Make]:
    return {name: next(case.make for case in CASES if case.name == name) for name in names}


_ZERO80 = np.zeros(80)
_SMALL_DIGIT = Box(digit8(), 0.05, clip=(0, 1))

FAMILIES: dict[str, dict[str, Make]] = {
    "landmarks": _of_cases("SDP-NN 0.1", "ACAS 2_1 0.2", "ACAS 2_1 0.05", "tll_2_8 1", "256x2 0.05", "256x2 global")
    | _of_cases("3_50 0.02", "(80,80) local")
    | {
        "SDP-NN 10": sdp_nn(10.0),
        "SIGMOID 6x200 0.01": _sigmoid(0.01),
        "256x2 0.05 norm 2": mnist(WIDE, 0.05, "2"),
        "cora trades 0.005": _file("cora_mnist_trades.onnx", 0.005),
        "bike whole map": everywhere("exlipbab_bike_13-20-16-8-3.npz", "2", "all"),
        "wine 11-24-24": everywhere("exlipbab_wine_11-24-24-1.npz", "2"),
    },
    "images": _of_cases("256x2 0.01", "5_100 0.01", "DiffAI 0.05", "mnist_conv 0.01", "cifar_base_kw")
    | {
        "5_100 0.02": mnist(FIVE, 0.02),
        "3_50 global": everywhere(SMALL, "inf", (7, 3)),
        "3_50 ball 0.5": _image(SMALL, 0.5),
        "256x2 ball 0.3": _image(WIDE, 0.3),
        "mnist_conv 0.03": mnist("mnist_conv.onnx", 0.03),
        "maxpool 0.005": mnist("mnist_conv_maxpool.onnx", 0.005),
        "avgpool 0.005": mnist("Convnet_avgpool.onnx", 0.005),
        "marabou 10x10 0.02": mnist("marabou_mnist10x10.nnet", 0.02),
        "lipsdp 0.1": mnist("lipsdp_784-50-10.mat", 0.1),
        "lipsdp whole map": everywhere("lipsdp_784-50-10.mat", "2", "all"),
        "SDP-NN classes 0.1": mnist("sdp_nn/sdp_nn_rsl18a.npz", 0.1),
        "SDP-NN classes ball 1": _image("sdp_nn/sdp_nn_rsl18a.npz", 1.0),
        "SDP-CROWN MLP ball 0.3": _image("sdp_crown/mnist_mlp.npz", 0.3),
        "SDP-CROWN CNN ball 0.1": _picture(0.1),
        "resnet_2b 0.002": _file("resnet_2b.onnx", 0.002),
        "C3_CH8 whole map": everywhere("conv_chains/cnn_C3_CH8.onnx", "2", "all"),
        "SIGMOID 6x200 0.002": _sigmoid(0.002),
    },
    "few inputs": _of_cases("ACAS 1_1 0.05", "lindex 0.5", "vdp 1", "cartpole 0.5", "wine", "abalone")
    | {
        "ACAS 1_1 0.2": around_zero(ACAS_1_1, 0.2),
        "ACAS 2_1 0.05 norm 2": around_zero(ACAS_2_1, 0.05, norm="2"),
        "ACAS 2_1 0.02 whole map": around_zero(ACAS_2_1, 0.02, "all"),
        "tll_2_8 0.3": around_zero("tll_2_8.onnx", 0.3),
        "cartpole 1 whole map": around_zero("cartpole.onnx", 1.0, "all", "2"),
        "abalone GroupSort": everywhere("exlipbab_abalone_9-16-16-1_groupsort8.npz", "2"),
        "vdp everywhere": everywhere("vdp.onnx", "1", 0),
        "bias field 0.02": around_zero("cifar_bias_field_0.onnx", 0.02),
    },
    "paper": {
        "(20,20) s=10 local": paper(20, 10, 0, "local"),
        "(40,40) local": paper(40, 40, 1, "local"),
        "(40,40) global": paper(40, 40, 1, "global"),
        "(80,80) s=40 local": paper(80, 40, 2, "local"),
        "(80,80) s=20 global": paper(80, 20, 0, "global"),
        "(80,80) global": paper(80, 80, 0, "global"),
        "(40,40,10) global": paper(40, 40, 0, "global", 2),
        "(40,40,10) s=80 local": paper(40, 80, 0, "local", 2),
        "(80,80) norm 2": _on(lambda: paper_network(80, 80, 0), Everywhere(), 0, "2"),
        "(80,80) norm 1": _on(lambda: paper_network(80, 80, 0), Box(_ZERO80, 0.1), 0, "1"),
    },
    "dense": _of_cases("tutorial")
    | {
        "50-100-100-1": _random((50, 100, 100, 1), 0.1),
        "784-100-100-10": _random((784, 100, 100, 10), 0.01, (0, 1)),
        "784-3x100-10 0.02": _random((784, 100, 100, 100, 10), 0.02, (0, 1)),
        "784-3x100-10 ball": _random((784, 100, 100, 100, 10), 0.5, (0, 1), "2", ball=True),
        "30-60-1 norm 1": _random((30, 60, 1), 0.3, norm="1"),
        "2-40-40-1": _random((2, 40, 40, 1), 0.5),
        "20-30-30-1 norm 2": _globally((20, 30, 30, 1)),
        "20-200-1": _random((20, 200, 1), 10.0),
        "4-12-12-5 whole map": _random((4, 12, 12, 5), 0.3, "all", "1"),
        "10-20-20-10 whole map ball": _random((10, 20, 20, 10), 0.3, "all", "2", ball=True),
        "60-40-40-10 whole map": _globally((60, 40, 40, 10), "all"),
    },
    "deep": _of_cases("deep 10-8x16")
    | {
        "8-10x20-1": _random((8, *(20,) * 10, 1), 0.2),
        "6-4x50-3": _random((6, *(50,) * 4, 3), 0.1),
        "50-8x125-10": _random((50, *(125,) * 8, 10), 0.02),
        "12-16x16-2 norm 2": _globally((12, *(16,) * 16, 2)),
    },
    "smooth": _of_cases("sigmoid 20-40-40", "tanh 4-30-30-30")
    | {
        "sigmoid 784-6x200-10": _smooth((784, *(200,) * 6, 10), 0.01, "sigmoid"),
        "tanh 784-40-10": _smooth((784, 40, 10), 0.05, "tanh"),
        "tanh 6-6x20-2": _smooth((6, *(20,) * 6, 2), 0.1, "tanh"),
        "softplus 10-30-30": _smooth((10, 30, 30, 2), 0.5, "softplus"),
        "gelu 8-24-24": _smooth((8, 24, 24, 2), 0.3, "gelu"),
        "gelu 50-60-60": _smooth((50, 60, 60, 2), 0.05, "gelu"),
        "silu 2-30-30": _smooth((2, 30, 30, 1), 1.0, "silu"),
        "silu 5-20-20-20 norm 2": _smooth((5, 20, 20, 20, 1), 0.3, "silu", "2"),
        "softplus everywhere": _on(lambda: recipe((12, 24, 24, 1), 1.0, "softplus")[0], Everywhere(), 0, "2"),
    },
    "kinked": _of_cases("leaky 30-40-40")
    | {
        "leaky 4-30-30-30": _smooth((4, 30, 30, 30, 1), 0.5, "leaky_relu"),
        "elu 12-40-1": _smooth((12, 40, 1), 0.3, "elu"),
    },
    "structured": _of_cases("residual 12-24x6")
    | {
        "residual 30-20x8": _residual(30, 20, 4, 0.1),
        "residual tanh 10-16x6": _residual(10, 16, 3, 0.2, "tanh"),
        "residual everywhere": _residual_globally,
        "conv 16x16 0.02": _pixels("inf", 0.02),
        "conv 16x16 ball": _pixels("2", 0.5),
        "conv 3x32x32 0.002": _large_conv,
    },
    "trained": {
        "waves 2-32-32": trained(waves(2), (32, 32), Box(np.zeros(2), 1.0)),
        "waves 2-32-32 tanh": trained(waves(2), (32, 32), Box(np.zeros(2), 1.0), kind="tanh"),
        "waves 6-40-40": trained(waves(6), (40, 40), Box(np.zeros(6), 0.3)),
        "waves 6-40-40 gelu": trained(waves(6), (40, 40), Box(np.zeros(6), 0.3), kind="gelu"),
        "clusters 12-40-40": trained(clusters(12, 4), (40, 40), Box(np.zeros(12), 0.2)),
        "clusters 12-40-40 leaky": trained(
            clusters(12, 4), (40, 40), Ball(np.zeros(12), 0.5), kind="leaky_relu", norm="2"
        ),
        "clusters 12-30-30 silu": trained(clusters(12, 4), (30, 30), Box(np.zeros(12), 0.2), kind="silu"),
        "digits 40-40": trained(digits(), (40, 40), _SMALL_DIGIT),
        "digits 3x30 sigmoid": trained(digits(), (30, 30, 30), _SMALL_DIGIT, kind="sigmoid"),
        "digits 40-40 everywhere": trained(digits(), (40, 40), Everywhere(), norm="2"),
        "digits 40-40 whole map": trained(digits(), (40, 40), Everywhere(), norm="2", output="all"),
        "digits 200": trained(digits(), (200,), Box(digit8(), 0.3, clip=(0, 1))),
    },
}


def halves(count: int, first: str = "A") -> list[str]:
    """A and B in turns."""
    return [("AB" if first == "A" else "BA")[k % 2] for k in range(count)]


def questions() -> list[TurnsQuestion]:
    """All of them; families begin with A and B in turns, so that small families do not make one half larger."""
    found = []
    for (family, made), first in zip(FAMILIES.items(), halves(len(FAMILIES)), strict=True):
        for (name, make), half in zip(made.items(), halves(len(made), first), strict=True):
            found.append(TurnsQuestion(name, family, half, make))
    return found
