"""Depth: bounds by one multiplier per neuron on deep networks, beside ECLipsE, with steps, operations and seconds.

python -m benchmarks.depth recipe       square layers of depth 16 to 64, in norms 2 and inf
python -m benchmarks.depth peers        ECLipsE's random networks, width 20 to 100, depth 2 to 100
python -m benchmarks.depth wide         100 layers of width 1,000, proved (20 minutes)
python -m benchmarks.depth trained      ERAN's networks, whole maps in norm 2; LIPCERT_DATA names the folder of data

ECLipsE's own package (eclipse-nn, with torch) is used where it is installed, else its closed form as written here.
Except for `wide`, values are what multipliers promise in plain floating point; `bound` proves them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks._measure import data_folder
from benchmarks._random_chains import chain, closed_form, positive_layers, product_of_norms, square_layers
from benchmarks.peers._eclipse import EclipseFast
from lipcert import Network, Progress, bound, verify
from lipcert.budget import Budget
from lipcert.problem.problem import Problem
from lipcert.problem.region import Everywhere
from lipcert.readers import load
from lipcert.relaxation.slopes import SlopeMultipliers, SlopeProgram, slope_program
from lipcert.rounding import Array
from lipcert.solver.slopes import solve_slopes

RECIPES = ((16, 16, 3.0), (32, 16, 8.0), (64, 16, 30.0), (32, 32, 30.0), (64, 64, 120.0))


def solve(name: str, program: SlopeProgram, seconds: float, rivals: str = "") -> float:
    """One line: first and last value, how often it became better, nominal work, seconds of the clock and processor."""
    seen: list[tuple[float, float]] = []
    budget, start = Budget.of_seconds(seconds), time.perf_counter()

    def better(_: SlopeMultipliers, value: float) -> bool:
        seen.append((value, time.perf_counter() - start))
        return False

    solve_slopes(program, budget, better)
    work, first = budget.spent(), seen[0]
    print(
        f"{name:30s} {rivals}greedy {first[0]:.7g} in {first[1]:.2f} s, best {seen[-1][0]:.9g}, {len(seen)} times "
        f"better, {work.counted:.1f} nominal s, {time.perf_counter() - start:.1f} s, processor {work.processor:.1f} s",
        flush=True,
    )
    return seen[-1][0]


def recipe() -> None:
    for depth, width, seconds in RECIPES:
        weights = square_layers(depth, width)
        rivals = f"product {product_of_norms(weights):.4g}, closed form {closed_form(weights):.4g}, "
        solve(f"depth {depth}, width {width}", chain(weights), seconds, rivals)
        if width <= 16:
            solve("  norm inf at the input", replace(chain(weights), weighted=True), seconds)


def peer() -> Callable[[list[Array]], float]:
    """ECLipsE_Fast, of its package or as written here."""
    package = EclipseFast()
    if package.available() is not None:
        return closed_form
    return package.value


def peers(layers: tuple[int, ...] = (2, 5, 10, 20, 50, 100), widths: tuple[int, ...] = (20, 60, 100)) -> None:
    fast = peer()
    print("ECLipsE_Fast " + ("as written here" if fast is closed_form else "of its package"))
    for depth in layers:
        for width in widths:
            _beside(fast, positive_layers(depth, width), f"layers {depth}, width {width}", 20.0)


def _beside(fast: Callable[[list[Array]], float], weights: list[Array], name: str, seconds: float) -> None:
    start = time.perf_counter()
    other = fast(weights)
    rivals = f"product {product_of_norms(weights):.5g}, fast {other:.6g} in {time.perf_counter() - start:.2f} s, "
    ours = solve(name, chain(weights), seconds, rivals)
    if ours > other * (1 + 1e-9):
        print(f"  ABOVE ECLipsE_Fast by {ours / other - 1:.2e}")


def wide(depth: int = 100, width: int = 1000, seconds: float = 840.0) -> None:
    """Proved and verified, beside ECLipsE_Fast in the same run."""
    weights = positive_layers(depth, width)
    start = time.perf_counter()
    other = peer()(weights)
    took = time.perf_counter() - start
    print(f"{depth} layers of width {width}: ECLipsE_Fast {other:.6g} in {took:.0f} s", flush=True)
    network, start = Network.from_weights(weights), time.perf_counter()

    def tell(now: Progress) -> None:
        print(f"  {now.seconds:.0f} s {now.stage}: {now.upper:.6g}", flush=True)

    region = Everywhere()
    result = bound(
        network, region, output="all", norm="2", method="slopes", time_limit=seconds, lower=False, on_progress=tell
    )
    print(f"  proved {result.upper:.6g} in {time.perf_counter() - start:.0f} s, {result.status}", flush=True)
    start = time.perf_counter()
    again = verify(result.certificate, network)
    print(f"  verified: {again.proved}, {again.upper:.6g}, {time.perf_counter() - start:.0f} s")


def trained() -> None:
    for name in ("eran_mnist_relu_3_50", "eran_mnist_relu_5_100"):
        network = load(data_folder() / "nets" / f"{name}.onnx")
        problem = Problem.of(network, Everywhere(), "all", "2")
        solve(name, slope_program(problem), 60.0)


def main(arguments: list[str]) -> None:
    parts = {"recipe": recipe, "peers": peers, "wide": wide, "trained": trained}
    for name in arguments or ["recipe", "peers", "trained"]:
        if name not in parts:
            raise SystemExit(f"{name}: one of {', '.join(parts)}")
        parts[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
