"""Limits of time and memory on large networks: seconds asked and taken, quiet and beside busy loops, and peak memory.

    python -m benchmarks.limits [--only TEXT] [--quiet] [--busy 4]

Every case is one command line in a process of its own, which writes its own peak. A limit is kept when the process ends
within a tenth and a second of it, and its peak is not above --memory. The networks of others come from LIPCERT_DATA;
where they are not, the case is skipped with a word. A ResNet-18 of 557,000 neurons, a generator with its discriminator
(168,000 neurons) and a sparse polynomial problem of 30 variables are written here, with random numbers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._measure import ROOT

_CHILD = """
import sys
from lipcert.cli.app import run
code = run(sys.argv[1:])
lines = open("/proc/self/status").read().splitlines()  # rusage would tell the peak of the process that started this one
print("peak", next(line.split()[1] for line in lines if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(code)
"""


@dataclass(frozen=True)
class Case:
    """A command with a limit of seconds, and perhaps one of memory in megabytes."""

    name: str
    verb: str
    file: str
    seconds: float
    options: tuple[str, ...]
    megabytes: int | None = None

    def arguments(self, path: Path) -> list[str]:
        memory = [] if self.megabytes is None else ["--memory", f"{self.megabytes}M"]
        return [self.verb, str(path), *self.options, "--time-limit", str(self.seconds), *memory]


_MAP = ("--global", "--norm", "2", "--output", "all")
_BOX = ("--radius", "0.01", "--output", "0")
CASES = (
    Case("generator to 64x64", "bound", "generator.onnx", 10, _BOX),
    Case("generator to 64x64, 1 GB", "bound", "generator.onnx", 10, _BOX, 1024),
    Case("cgan 32", "bound", "nets/cgan_32_1.onnx", 10, _BOX),
    Case("cifar bias field", "bound", "nets/cifar_bias_field_0.onnx", 10, _BOX),
    Case("ResNet-18, interval", "bound", "resnet18.onnx", 15, (*_BOX, "--method", "interval")),
    Case("ResNet-18, auto", "bound", "resnet18.onnx", 5, _BOX),
    Case("C3_CH8, whole map", "bound", "conv_chains/cnn_C3_CH8.onnx", 2, _MAP),
    Case("C5_CH16, whole map", "bound", "conv_chains/cnn_C5_CH16.onnx", 2, _MAP),
    Case("C17_CH32, whole map", "bound", "conv_chains/cnn_C17_CH32.onnx", 5, _MAP),
    Case("C17_CH32, whole map", "bound", "conv_chains/cnn_C17_CH32.onnx", 15, _MAP),
    Case("C17_CH32, whole map", "bound", "conv_chains/cnn_C17_CH32.onnx", 60, _MAP),
    Case("conv maxpool", "bound", "nets/mnist_conv_maxpool.onnx", 40, ("--radius", "0.1", "--output", "0")),
    Case("tll 2_8", "bound", "nets/tll_2_8.onnx", 2, ("--radius", "1", "--output", "0")),
    Case("maximum of 64 planes", "bound", "planes.onnx", 2, ("--radius", "1", "--output", "0")),
    Case("30 variables, orders", "pop", "sparse30.pop", 15, ("--relaxation", "sparse", "--order", "auto")),
    Case("30 variables, dense", "pop", "sparse30.pop", 15, ()),
)


class Graph:
    """An ONNX graph that grows by one node at a time; `self.op` returns the name of its output."""

    def __init__(self) -> None:
        import onnx  # here: the cases of others need no onnx

        self.onnx, self.nodes, self.weights = onnx, list[Any](), list[Any]()
        self.rng = np.random.default_rng(0)

    def constant(self, values: NDArray[Any]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(self.onnx.numpy_helper.from_array(values, name))
        return name

    def normal(self, *shape: int, scale: float) -> str:
        return self.constant((scale * self.rng.standard_normal(shape)).astype(np.float32))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def conv(self, x: str, inputs: int, outputs: int, taps: int, stride: int, pad: int, *, up: bool = False) -> str:
        """A convolution, or a transposed one, with weights of the size that He's initialisation has."""
        shape, scale = (inputs, outputs) if up else (outputs, inputs), np.sqrt(2 / (inputs * taps**2))
        weight = self.normal(*shape, taps, taps, scale=float(scale) * (stride if up else 1))
        bias = self.normal(outputs, scale=0.1)
        kind = "ConvTranspose" if up else "Conv"
        return self.op(kind, x, weight, bias, strides=[stride] * 2, pads=[pad] * 4, kernel_shape=[taps] * 2)

    def save(self, path: Path, shape: Sequence[int], last: str) -> None:
        value = self.onnx.helper.make_tensor_value_info
        graph = self.onnx.helper.make_graph(
            self.nodes, "g", [value("x", 1, shape)], [value(last, 1, None)], self.weights
        )
        opsets = [self.onnx.helper.make_opsetid("", 13)]
        self.onnx.save(self.onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def write_resnet(path: Path) -> None:
    """Basic blocks on images of 3 x 32 x 32, as ResNet-18 has for CIFAR."""
    g, width = Graph(), 64
    x = g.op("Relu", g.conv("x", 3, width, 3, 1, 1))
    for stage in range(4):
        for block in range(2):
            out, stride = 64 * 2**stage, 2 if stage and not block else 1
            y = g.conv(g.op("Relu", g.conv(x, width, out, 3, stride, 1)), out, out, 3, 1, 1)
            x = x if stride == 1 else g.conv(x, width, out, 1, stride, 0)
            x, width = g.op("Relu", g.op("Add", x, y)), out
    x = g.op("MatMul", g.op("Flatten", g.op("GlobalAveragePool", x)), g.normal(width, 10, scale=width**-0.5))
    g.save(path, [1, 3, 32, 32], x)


def write_generator(path: Path) -> None:
    """Five inputs, transposed convolutions to 3 x 64 x 64, and a discriminator behind them."""
    g = Graph()
    x = g.op("Relu", g.op("Add", g.op("MatMul", "x", g.normal(5, 4096, scale=0.5)), g.normal(4096, scale=0.1)))
    x = g.op("Reshape", x, g.constant(np.array([1, 256, 4, 4], dtype=np.int64)))
    for inputs, outputs in ((256, 128), (128, 64), (64, 32), (32, 16)):
        x = g.op("Relu", g.conv(x, inputs, outputs, 4, 2, 1, up=True))
    x, width = g.op("Tanh", g.conv(x, 16, 3, 3, 1, 1)), 3
    for outputs in (16, 32, 64):
        x, width = g.op("Relu", g.conv(x, width, outputs, 4, 2, 1)), outputs
    g.save(path, [1, 5], g.op("MatMul", g.op("Flatten", x), g.normal(4096, 1, scale=1 / 64)))


def write_planes(path: Path) -> None:
    """The least of 8 maxima of 8 affine functions of two inputs, as a two-level lattice network has, by poolings."""
    g = Graph()
    x = g.op("Add", g.op("MatMul", "x", g.normal(2, 64, scale=1.0)), g.normal(64, scale=1.0))
    x = g.op("Reshape", x, g.constant(np.array([1, 1, 64], dtype=np.int64)))
    x = g.op("MaxPool", x, kernel_shape=[8], strides=[8])
    x = g.op("Neg", g.op("MaxPool", g.op("Neg", x), kernel_shape=[8], strides=[8]))
    g.save(path, [1, 2], g.op("Flatten", x))


def write_problem(path: Path) -> None:
    """A sum of quartics, each of four neighbouring variables, on a box."""
    rng, terms = np.random.default_rng(1), list[str]()
    for i in range(27):
        a, b, c, d = (f"x{i + j}" for j in range(4))
        shapes = (f"{a}^2*{b}^2", f"{b}*{c}*{d}^2", f"{a}*{d}", f"{c}^3", f"{a}^4", f"{b}*{c}*{d}")
        terms += [f"{rng.normal():+.3f}*{shape}" for shape in shapes]
    rows = [f"  x{i}^2 <= 1" for i in range(30)]
    path.write_text("\n".join([f"minimize {' '.join(terms)}", "subject to", *rows, ""]))


WRITTEN = {
    "resnet18.onnx": write_resnet,
    "generator.onnx": write_generator,
    "planes.onnx": write_planes,
    "sparse30.pop": write_problem,
}


def found(case: Case, own: Path) -> Path | None:
    """The file of a case: written here, one of others, or None where it is not at hand."""
    if case.file in WRITTEN:
        path = own / case.file
        if not path.exists():
            WRITTEN[case.file](path)
        return path
    path = Path(os.environ.get("LIPCERT_DATA", ROOT.parent / "shared" / "data")) / case.file
    return path if path.exists() else None


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that do nothing but use a processor."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def measure(case: Case, path: Path, loops: int) -> bool:
    """Run it, print a row, and say whether its limits were kept."""
    with busy(loops):
        start = time.perf_counter()
        arguments = [sys.executable, "-c", _CHILD, *case.arguments(path)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=ROOT)
        taken = time.perf_counter() - start
    peak = next((int(line.split()[1]) >> 10 for line in done.stderr.splitlines() if line.startswith("peak")), -1)
    in_time = taken <= 1.1 * case.seconds + 1.0
    fits = case.megabytes is None or 0 <= peak <= case.megabytes
    shown = next((line for line in done.stdout.splitlines() if line.startswith(("upper", "lower bound"))), "nothing")
    words = "kept" if in_time and fits else "LATE" if fits else "TOO LARGE"
    where = f"beside {loops} loops" if loops else "quiet"
    print(
        f"{case.name:26s} {where:15s} asked {case.seconds:4.0f} s  taken {taken:6.1f} s  peak {peak:5d} MB  "
        f"{words:9s} {' '.join(shown.split())}",
        flush=True,
    )
    return in_time and fits and done.returncode in (0, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--quiet", action="store_true", help="not beside busy loops")
    parser.add_argument("--busy", type=int, default=4, help="how many loops")
    given = parser.parse_args()
    kept = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in (case for case in CASES if given.only in case.name):
            path = found(case, Path(folder))
            if path is None:
                print(f"{case.name:26s} skipped: {case.file} is not at hand; set LIPCERT_DATA")
                continue
            for loops in (0,) if given.quiet else (0, given.busy):
                kept, total = kept + measure(case, path, loops), total + 1
    print(f"{kept} of {total} kept")


if __name__ == "__main__":
    main()
