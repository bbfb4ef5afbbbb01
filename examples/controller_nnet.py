"""You have a controller as an .nnet file: how strongly can its command react to sensor errors, and where?

    python examples/controller_nnet.py

A controller for an inverted pendulum (angle, angular velocity, cart position -> force) is fitted to a smooth law by
least squares and written as .nnet, with the means and ranges of its sensors in the file. The network then expects
inputs counted in ranges, so that "0.01 in the infinity norm" is one percent of every sensor's range.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import lipcert

Floats = NDArray[np.float64]

SENSORS = ("angle (rad)", "angular velocity (rad/s)", "position (m)")
MEANS = np.array([0.0, 0.0, 0.0])
RANGES = np.array([0.8, 4.0, 2.0])
FORCE = 10.0  # newton; the actuator's limit


def law(x: Floats) -> Floats:
    """The command that the network imitates, in units of FORCE: stabilise the angle, bring the cart home, saturate."""
    angle, speed, place = (MEANS + RANGES * x).T
    return np.asarray(np.tanh(3.5 * np.sin(angle) + 0.8 * speed + 0.4 * place))


def fit(hidden: int = 30) -> tuple[list[Floats], list[Floats]]:
    """Random ReLU features, output weights by ridge regression: one hidden layer, the same on every machine."""
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(hidden, 3)) * [3.0, 3.0, 1.5], rng.uniform(-1.5, 1.5, size=hidden)
    x = rng.uniform(-0.5, 0.5, size=(4000, 3))
    features = np.column_stack([np.maximum(x @ A.T + b, 0.0), np.ones(len(x))])
    c = np.linalg.solve(features.T @ features + 1e-2 * np.eye(hidden + 1), features.T @ law(x))
    print(f"fitted: mean error {np.abs(features @ c - law(x)).mean():.3f} of the largest force")
    return [A, c[None, :-1]], [b, c[-1:]]


def write_nnet(path: Path, weights: list[Floats], biases: list[Floats]) -> None:
    sizes = [weights[0].shape[1], *(len(w) for w in weights)]
    lines = ["// pendulum controller", f"{len(weights)},{sizes[0]},{sizes[-1]},{max(sizes)},"]
    lines += [",".join(map(str, sizes)) + ",", "0,", _numbers(MEANS - RANGES / 2), _numbers(MEANS + RANGES / 2)]
    lines += [_numbers(np.append(MEANS, 0.0)), _numbers(np.append(RANGES, FORCE))]
    for A, b in zip(weights, biases, strict=True):
        lines += [_numbers(row) for row in A] + [_numbers(np.array([entry])) for entry in b]
    path.write_text("\n".join(lines) + "\n")


def _numbers(row: Floats) -> str:
    return ",".join(repr(float(entry)) for entry in row) + ","


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "controller.nnet"
        write_nnet(file, *fit())
        net = lipcert.load(file)  # inputs counted in ranges, output in units of FORCE
    regions = {
        "whole envelope": lipcert.Box(np.zeros(3), 0.5),
        "upright, at rest": lipcert.Box(np.zeros(3), [0.05, 0.05, 0.5]),
        "falling fast": lipcert.Box([0.3, 0.35, 0.0], [0.1, 0.1, 0.5]),
    }
    error = 0.01
    for name, box in regions.items():
        result = lipcert.bound(net, box, work=2.5)  # counted, not timed: everyone gets the same numbers
        moves = error * result.upper * FORCE
        print(f"{name:17s} constant in [{result.lower:.4f}, {result.upper:.4f}]; ", end="")
        print(f"every sensor off by 1 % of its range: the force moves by at most {moves:.3f} N")
        worst = MEANS + RANGES * np.asarray(result.witness)
        readings = ", ".join(f"{sensor} {value:.3f}" for sensor, value in zip(SENSORS, worst, strict=True))
        print(f"{'':17s} steepest point found: {readings}")


if __name__ == "__main__":
    main()
