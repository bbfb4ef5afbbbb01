"""ECLipsE: the Euclidean constant of a whole map, layer by layer [Xu, Sivaranjani 2024]."""

from __future__ import annotations

import importlib
import importlib.util
import time
from pathlib import Path
from types import ModuleType

import numpy as np

from benchmarks._random_chains import closed_form
from benchmarks.peers._peer import Answer, dense_weights, plain_relu_chain
from lipcert.problem.problem import Problem
from lipcert.rounding import Array


def _euclidean(problem: Problem) -> str | None:
    if problem.norm.p != "2" or problem.norm.out not in (None, "2"):
        return "for norm 2"
    return plain_relu_chain(problem)


class ClosedForm:
    """The formula of ECLipsE-Fast as written in this project, in numpy."""

    name = "ECLipsE-Fast (closed form)"
    proof = False

    def available(self) -> str | None:
        return None

    def refusal(self, problem: Problem) -> str | None:
        return _euclidean(problem)

    def rival(self, problem: Problem) -> str | None:  # noqa: ARG002
        return "slopes"

    def run(self, problem: Problem) -> Answer:
        weights = dense_weights(problem)
        start = time.perf_counter()
        return Answer(closed_form(weights), time.perf_counter() - start)


class EclipseFast:
    """ECLipsE-Fast of its own package, in torch."""

    name = "ECLipsE-Fast (eclipse-nn)"
    proof = False

    def available(self) -> str | None:
        for package in ("torch", "eclipse_nn"):
            if importlib.util.find_spec(package) is None:
                return f"the Python package {package} is not installed (PyPI: eclipse-nn)"
        return None

    def refusal(self, problem: Problem) -> str | None:
        return _euclidean(problem)

    def rival(self, problem: Problem) -> str | None:  # noqa: ARG002
        return "slopes"

    def run(self, problem: Problem) -> Answer:
        weights = dense_weights(problem)
        self.value(weights[-1:])  # torch is loaded before the clock starts
        start = time.perf_counter()
        return Answer(self.value(weights), time.perf_counter() - start)

    def value(self, weights: list[Array]) -> float:
        """For slopes between 0 and 1; of a single matrix its norm."""
        tensor = importlib.import_module("torch").from_numpy
        fast, slopes = _file("eclipsE_fast").ECLipsE_Fast, len(weights) - 1
        if not slopes:
            return float(np.linalg.norm(weights[0], 2))
        return float(fast([tensor(w.copy()) for w in weights], [0.0] * slopes, [1.0] * slopes))


class Eclipse(EclipseFast):
    """ECLipsE of its own package: a small semidefinite program for every layer, through cvxpy."""

    name = "ECLipsE (eclipse-nn)"

    def available(self) -> str | None:
        if reason := super().available():
            return reason
        return None if importlib.util.find_spec("cvxpy") else "the Python package cvxpy is not installed"

    def refusal(self, problem: Problem) -> str | None:
        widest = max(problem.network.shape)
        return _euclidean(problem) or (None if widest <= 40 else f"a layer of {widest} takes its programs minutes")

    def run(self, problem: Problem) -> Answer:
        slow = _file("eclipsE").ECLipsE
        tensor = importlib.import_module("torch").from_numpy
        weights = [tensor(w.copy()) for w in dense_weights(problem)]
        slopes = len(weights) - 1
        start = time.perf_counter()
        value, failed = slow(weights, [0.0] * slopes, [1.0] * slopes)
        seconds = time.perf_counter() - start
        return (
            Answer(float("nan"), seconds, "its own check of its programs failed (exit code 1)")
            if failed
            else Answer(float(value), seconds)
        )


def _file(name: str) -> ModuleType:
    """One file of the package by itself: the package as a whole asks for more than it needs."""
    package = importlib.util.find_spec("eclipse_nn")
    folders = package.submodule_search_locations if package else None
    if not folders:
        raise ImportError("eclipse_nn has no files")
    spec = importlib.util.spec_from_file_location(name, Path(folders[0]) / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"eclipse_nn has no {name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
