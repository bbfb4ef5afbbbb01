"""auto_LiRPA's bounds of Jacobians [Shi, Wang, Zhang, Kolter, Hsieh 2022], imported from a checkout of its own.

The calls are those of its example `examples/vision/jacobian.py`; nothing of it is part of this project.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers._peer import Answer, dense_weights, plain_relu_chain
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box

VARIABLE = "LIPCERT_AUTO_LIRPA"  # names the checkout


class AutoLiRPA:
    """Backward linear bounds (CROWN) of the graph of the gradient's norm, in double precision."""

    name = "auto_LiRPA (CROWN)"
    proof = False  # its bounds hold in real arithmetic; rounding is not counted
    optimised = False

    def available(self) -> str | None:
        folder = os.environ.get(VARIABLE)
        if not folder:
            return f"no checkout of auto_LiRPA is given (--auto-lirpa DIR, or {VARIABLE})"
        if not (Path(folder) / "auto_LiRPA" / "jacobian.py").is_file():
            return f"{folder} is not a checkout of auto_LiRPA with Jacobian bounds"
        return None if importlib.util.find_spec("torch") else "the Python package torch is not installed"

    def refusal(self, problem: Problem) -> str | None:
        if problem.norm.p != "inf" or problem.norm.out is not None or not isinstance(problem.region, Box):
            return "compared for one output in norm inf on boxes"
        return plain_relu_chain(problem)

    def rival(self, problem: Problem) -> str | None:  # noqa: ARG002
        return "linear"

    def run(self, problem: Problem) -> Answer:
        box = problem.region
        assert isinstance(box, Box)
        folder = os.environ[VARIABLE]
        if folder not in sys.path:
            sys.path.insert(0, folder)
        torch = importlib.import_module("torch")
        lirpa = importlib.import_module("auto_LiRPA")
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1)
        middle = torch.from_numpy((0.5 * (box.lo + box.hi))[None, :].copy())
        lo, hi = (torch.from_numpy(end[None, :].copy()) for end in (box.lo, box.hi))
        start = time.perf_counter()
        module = lirpa.BoundedModule(_gradient_norm(torch, _module(torch, problem)), middle)
        ball = importlib.import_module("auto_LiRPA.perturbations").PerturbationLpNorm(norm=np.inf, x_L=lo, x_U=hi)
        x = lirpa.BoundedTensor(middle, ball)
        upper = module.compute_jacobian_bounds(x, optimize=self.optimised, bound_lower=False)[1]
        return Answer(float(upper.max()), time.perf_counter() - start)


class OptimisedLiRPA(AutoLiRPA):
    """The same after gradient steps on the slopes below each ReLU (alpha-CROWN), which is its own default."""

    name = "auto_LiRPA (optimised)"
    optimised = True


def _module(torch: Any, problem: Problem) -> Any:
    """The network up to c'scores as a torch module."""
    weights = dense_weights(problem)
    biases = [np.asarray(a.bias) for a in problem.network.affines[:-1]]
    layers = []
    for weight, bias in zip(weights, [*biases, np.zeros(len(weights[-1]))], strict=True):
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight.data, layer.bias.data = torch.from_numpy(weight.copy()), torch.from_numpy(bias.copy())
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def _gradient_norm(torch: Any, scores: Any) -> Any:
    """x to the sum of the gradient's absolute values, in the operators whose bounds auto_LiRPA knows."""
    jacobian = importlib.import_module("auto_LiRPA.jacobian")

    class GradientNorm(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scores, self.norm = scores, jacobian.GradNorm(norm=1)

        def forward(self, x: Any) -> Any:
            return self.norm(jacobian.JacobianOP.apply(self.scores(x), x))

    return GradientNorm()
