"""The norms 2 and 1, balls and whole maps, on networks of others and of the paper.

python -m benchmarks.norms [name ...]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import lipcert
from benchmarks._measure import data_folder
from lipcert.paper.entries import paper_network
from lipcert.problem.network import Network
from lipcert.problem.region import Ball, Box, Everywhere, Region
from lipcert.rounding import Array


def image() -> Array:
    """The first test image of MNIST, a 7."""
    from lipcert.robustness.data import read_data

    return np.asarray(read_data(str(data_folder() / "mnist" / "t10k-images-idx3-ubyte.gz"), None, "1/255").inputs[0])


def line(name: str, net: Network, region: Region, known: str, **options: object) -> None:
    start = time.perf_counter()
    result = lipcert.bound(net, region, **options)  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    check = lipcert.verify(result.certificate, net)
    checked = time.perf_counter() - start
    lower = "-" if result.lower is None else f"{result.lower:.6g}"
    print(
        f"{name:44} upper {result.upper:.6g} ({result.method})  lower {lower}  {seconds:.1f} s  "
        f"verify {check.proved} {checked:.1f} s   {known}",
        flush=True,
    )
    for note in result.notes:
        print("    " + note)


def lipsdp() -> None:
    net = lipcert.load(data_folder() / "nets" / "lipsdp_784-50-10.mat")
    known = "LipSDP-Neuron 24.3656, ECLipsE_Fast 26.81, product 31.50"
    line("784-50-10, all scores, 2 to 2, global", net, Everywhere(), known, output="all", norm="2", time_limit=15)
    line("the same, backward alone", net, Everywhere(), known, output="all", norm="2", time_limit=15, method="backward")
    line("the same, 60 s", net, Everywhere(), known, output="all", norm="2", time_limit=60)


def paper() -> None:
    net = paper_network(80, 80, 0)
    center = np.zeros(net.inputs)
    line("(80,80) s=80 seed 0, norm 2, global", net, Everywhere(), "LipSDP 0.3461", norm="2")
    line("the same, box of radius 0.1 around 0", net, Box(center, 0.1), "", norm="2")
    line("the same, ball of radius 0.1 around 0", net, Ball(center, 0.1), "", norm="2")
    line("(80,80) s=80 seed 0, norm 1, global", net, Everywhere(), "", norm="1")
    line("the same, box of radius 0.1 around 0", net, Box(center, 0.1), "", norm="1")


def eran() -> None:
    net = lipcert.load(data_folder() / "nets" / "eran_mnist_relu_3_50.onnx")
    known = "auto_LiRPA 25.1, ECLipsE_Fast 28.2, known lower 10.08"
    about = {"output": (7, 3), "norm": "2"}
    line("ERAN 3_50, 7 - 3, box 0.02, norm 2", net, Box(image(), 0.02, (0, 1)), known, **about, time_limit=120)
    line("ERAN 3_50, 7 - 3, ball 0.02, norm 2", net, Ball(image(), 0.02, (0, 1)), "", **about, time_limit=60)
    line("ERAN 3_50, 7 - 3, ball 0.3, norm 2", net, Ball(image(), 0.3, (0, 1)), "", **about, time_limit=120)


PARTS: dict[str, Callable[[], None]] = {"lipsdp": lipsdp, "paper": paper, "eran": eran}


def main() -> None:
    parser = argparse.ArgumentParser(description="The norms 2 and 1, balls and whole maps, certified and verified.")
    parser.add_argument("part", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all of them when left out")
    names = parser.parse_args().part
    if unknown := set(names) - set(PARTS):
        parser.error(f"unknown part {min(unknown)}")
    for name in names or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
