"""Products with convolutions beside torch: processor time of ours over torch's, both on one thread.

Usage: python -m benchmarks.convolutions [float32]. It needs torch; set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lipcert.problem.convolution import Convolution, Window

# Name, kernel (out, in per group, taps, taps), side of the image, stride, padding, groups.
LAYERS: tuple[tuple[str, tuple[int, ...], int, int, int, int], ...] = (
    ("generator, 256 to 512, 4 x 4", (512, 256, 4, 4), 8, 2, 1, 1),
    ("first, 3 to 16, stride 2", (16, 3, 3, 3), 32, 2, 1, 1),
    ("first, 3 to 64, 7 x 7, stride 2", (64, 3, 7, 7), 64, 2, 3, 1),
    ("16 to 32 on 16 x 16", (32, 16, 3, 3), 16, 1, 1, 1),
    ("32 to 32 on 28 x 28", (32, 32, 3, 3), 28, 1, 1, 1),
    ("64 to 64 on 32 x 32", (64, 64, 3, 3), 32, 1, 1, 1),
    ("64 to 128, stride 2", (128, 64, 3, 3), 32, 2, 1, 1),
    ("256 to 256 on 8 x 8", (256, 256, 3, 3), 8, 1, 1, 1),
    ("512 to 512 on 4 x 4", (512, 512, 3, 3), 4, 1, 1, 1),
    ("1 x 1, 64 to 128, stride 2", (128, 64, 1, 1), 32, 2, 0, 1),
    ("1 x 1, 256 to 64", (64, 256, 1, 1), 32, 1, 0, 1),
    ("64 channels, 4 groups", (64, 16, 3, 3), 32, 1, 1, 4),
    ("64 channels, 64 groups", (64, 1, 3, 3), 32, 1, 1, 64),
    ("mean of 2 x 2, 64 channels", (64, 1, 2, 2), 32, 2, 0, 64),
)
BATCHES = (1, 16)
LEAST = 0.05  # seconds that one measurement takes at least


def seconds(work: Callable[[], Any]) -> float:
    """Processor seconds of one call: the best of three, each over several calls."""
    work()
    start = time.process_time()
    work()
    once = time.process_time() - start
    calls, found = max(1, int(LEAST / max(once, 1e-6))), []
    for _ in range(3):
        start = time.process_time()
        for _ in range(calls):
            work()
        found.append((time.process_time() - start) / calls)
    return min(found)


def ratios(layer: Convolution, stride: int, pad: int, batch: int, rng: np.random.Generator) -> tuple[float, float]:
    """Ours over torch's, of the product and of the transposed product."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    turned = torch.nn.functional.conv_transpose2d
    x, g = (rng.normal(size=(batch, size)).astype(layer.dtype) for size in layer.shape[::-1])
    kernel = torch.from_numpy(layer.kernel.copy())
    images = torch.from_numpy(x).reshape(batch, -1, *layer.spatial)
    outputs = torch.from_numpy(g).reshape(batch, -1, *layer.outputs)
    taps = layer.window.kernel[0]
    extra = layer.spatial[0] - ((layer.outputs[0] - 1) * stride - 2 * pad + taps)
    given: dict[str, Any] = {"stride": stride, "padding": pad, "groups": layer.groups}
    forward = seconds(lambda: layer.forward(x)) / seconds(lambda: torch.conv2d(images, kernel, **given))
    theirs = seconds(lambda: turned(outputs, kernel, output_padding=extra, **given))
    return forward, seconds(lambda: layer.backward(g)) / theirs


def main() -> int:
    dtype = np.float32 if "float32" in sys.argv[1:] else np.float64
    rng = np.random.default_rng(0)
    print("| layer | " + " | ".join(f"batch {batch}" for batch in BATCHES) + " |")
    print("|---|" + "---|" * len(BATCHES))
    for name, shape, side, stride, pad, groups in LAYERS:
        window = Window(shape[2:], (stride, stride), (1, 1), (pad, pad), (pad, pad))
        layer = Convolution(rng.normal(size=shape).astype(dtype), (side, side), window, groups)
        found = (ratios(layer, stride, pad, batch, rng) for batch in BATCHES)
        print(f"| {name} | " + " | ".join(f"{one:.2f}, {two:.2f}" for one, two in found) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
