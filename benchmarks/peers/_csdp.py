"""CSDP on the program that our relaxation states: the same rows, written as an SDPA file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.peers._peer import Answer
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.relaxation.model import write_sdpa
from lipcert.relaxation.specification import Specification, build, plan_specification

SECONDS = 600.0
LARGEST = 700  # 1 + inputs + neurons; minutes above
VALUE = re.compile(r"(?:Primal|Dual) objective value: *([-+.\deE]+)")


def specification(problem: Problem) -> Specification:
    """The rows that our own method takes at this size: `hr2` for one hidden layer, the backward lift for more."""
    return plan_specification(problem, "hr2" if problem.network.depth == 1 else "backward")


class CSDP:
    """The program `csdp` (Borchers 1999) with one thread and its own tolerances."""

    name = "CSDP"
    proof = False

    def available(self) -> str | None:
        return None if shutil.which("csdp") else "csdp is not on the PATH (Debian: coinor-csdp)"

    def refusal(self, problem: Problem) -> str | None:
        if problem.norm.p != "inf" or problem.norm.out is not None or not isinstance(problem.region, Box):
            return "compared for one output in norm inf on boxes"
        size = 1 + problem.network.inputs + problem.network.neurons
        return None if size <= LARGEST else f"{size} variables are too many"

    def rival(self, problem: Problem) -> str | None:
        return specification(problem).method

    def run(self, problem: Problem) -> Answer:
        relaxation = build(problem, specification(problem))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "problem.dat-s"
            write_sdpa(file, relaxation, "one relaxation")
            threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            start = time.perf_counter()
            try:
                done = subprocess.run(
                    ["csdp", str(file)],
                    capture_output=True,
                    text=True,
                    check=False,
                    env=os.environ | threads,
                    timeout=SECONDS,
                    cwd=folder,  # it leaves files where it runs
                )
            except subprocess.TimeoutExpired:
                return Answer(float("nan"), SECONDS, f"not in {SECONDS:g} s")
            seconds = time.perf_counter() - start
        found = VALUE.findall(done.stdout)
        if len(found) < 2:
            return Answer(float("nan"), seconds, (done.stdout.strip().splitlines() or ["no output"])[-1])
        said = "" if done.returncode == 0 else f"CSDP: exit code {done.returncode}"
        return Answer(float(found[1]) + relaxation.offset, seconds, said)
