"""`lipcert doctor` checks an installation: versions, solvers, a self-test with proofs, and the machine's speed."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

import click
import numpy as np
from scipy import sparse

from lipcert._version import __version__
from lipcert.budget.threads import one_thread, product_speed
from lipcert.chart.numbers import near
from lipcert.cli.demo import RADIUS, digits
from lipcert.cli.options import options
from lipcert.cli.show import print_facts, print_json
from lipcert.errors import LipcertError
from lipcert.method.bound import bound
from lipcert.method.result import Result
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.proof.verify import verify
from lipcert.solver.conic.conic import CONIC_SOLVERS, Cone, ConicProblem, solve_conic

# The packages that each extra brings, by their names in the index.
PACKAGES = {
    "core": ("numpy", "scipy", "clarabel", "scs", "highspy"),
    "onnx": ("onnx",),
    "torch": ("torch",),
    "plot": ("matplotlib",),
    "exact": ("python-flint",),
    "cluster": ("distributed",),
    "mosek": ("mosek",),
}
SECONDS = 5.0  # limit of the bound of the self-test, which takes a second on a machine of 2024
_NEAR_ONE = 1e-4  # what a solver may be off on a program whose optimum is one


@click.command("doctor", short_help="Check this installation: versions, solvers, a self-test, speed.")
@options("as_json")
def doctor_command(as_json: bool) -> int:
    """Check this installation: versions, solvers, a self-test with proofs, and the speed of this machine.

    Paste what it prints into a report of a problem. Exit code 0 when every part of the self-test passed, 1 when not.
    """
    solvers, tests = check_solvers(), self_test()
    facts = {**_program(), **packages(), **_speed()}
    passed = all(tests.values()) and all(said.startswith(("works", "not installed")) for said in solvers.values())
    if as_json:
        print_json({"passed": passed, "facts": facts, "solvers": solvers, "tests": tests})
    else:
        rows = [*facts.items(), *((f"solver {name}", said) for name, said in solvers.items())]
        rows += [("self-test", f"{'passed' if good else 'FAILED'}: {name}") for name, good in tests.items()]
        print_facts(f"lipcert {__version__}: {'everything works' if passed else 'something does not work'}", rows)
    return 0 if passed else 1


def _program() -> dict[str, str]:
    from threadpoolctl import threadpool_info

    pools = [p for p in threadpool_info() if p["user_api"] == "blas"]
    blas = dict.fromkeys(f"{p['internal_api']} {p['version']}, {p['num_threads']} threads" for p in pools)
    return {
        "python": f"{platform.python_version()} ({sys.implementation.name}), {platform.system()} {platform.machine()}",
        "blas": "; ".join(blas) or "unknown",
        "cores": str(os.cpu_count() or "unknown"),
    }


def packages() -> dict[str, str]:
    """The version of every package that lipcert can use, by the extra that brings it."""
    return {extra: ", ".join(f"{name} {_version_of(name)}" for name in names) for extra, names in PACKAGES.items()}


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "is not installed"


def _speed() -> dict[str, str]:
    every = product_speed()
    with one_thread():
        alone = product_speed()
    return {"speed": f"{near(every / 1e9)} Gflop/s in products of matrices, {near(alone / 1e9)} on one thread"}


def check_solvers() -> dict[str, str]:
    """For every conic solver whether it solves a program whose optimum is one, or why it does not."""
    return {name: _solved(name) for name in CONIC_SOLVERS if name != "auto"}


def _solved(name: str) -> str:
    linear = ConicProblem(np.ones(1), sparse.csc_array([[-1.0]]), -np.ones(1), (Cone("nonnegative", 1),))
    corner = sparse.csc_array([[-1.0], [0.0], [-1.0]])  # min t such that [[t, 1], [1, t]] is semidefinite
    semidefinite = ConicProblem(np.ones(1), corner, np.array([0.0, 2.0**0.5, 0.0]), (Cone("psd", 2),))
    try:
        found = solve_conic(linear if name.startswith("highs") else semidefinite, name)
    except LipcertError as error:
        return f"not installed: {str(error).removeprefix(f'solver {name}: ')}"
    good = found.status.has_solution and abs(float(found.x[0]) - 1.0) < _NEAR_ONE
    return "works" if good else f"failed: {found.status.value}"


def self_test() -> dict[str, bool]:
    """Bound a small classifier, check the proof, and check that a false proof is refused."""
    net, images, _ = digits()
    begin = time.monotonic()
    result = bound(net, Box(images[0], RADIUS, clip=(0.0, 1.0)), output=(7, 3), time_limit=SECONDS)
    seconds, lower = time.monotonic() - begin, result.lower or 0.0
    tests: dict[str, Callable[[], bool]] = {
        f"a bound of the shipped network, {near(seconds)} s": lambda: 0.0 < lower <= result.upper < np.inf,
        "its certificate is proved without a solver": lambda: verify(result.certificate, net).proved,
        "a claim below the lower bound is refused": lambda: _refuses(result, 0.99 * lower, net),
    }
    if _version_of("python-flint")[0].isdigit():
        exactly = "the certificate is proved in ball arithmetic"
        tests[exactly] = lambda: verify(result.certificate, net, exact=True).proved
    return {name: bool(test()) for name, test in tests.items()}


def _refuses(result: Result, claim: float, net: Network) -> bool:
    """Whether the proof fails for a smaller claim than its own."""
    return not verify(replace(result.certificate, upper=claim, claim=claim), net).proved
