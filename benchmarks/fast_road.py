"""HR-2 and SHOR on the fast road: certified bounds and times, CSDP on the same program in the same run, SDP-NN.

    python -m benchmarks.fast_road [--no-csdp] [--no-sdp-nn]

CSDP 6.2 is Debian's coinor-csdp, run on the exported .dat-s file; without it on the PATH those rows say so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._measure import data_folder, lipcert
from lipcert.budget.threads import threads_for
from lipcert.paper.networks import paper_network, paper_region
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.proof.multipliers import check, prove
from lipcert.relaxation.build import build
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.sdpa import write_sdpa
from lipcert.relaxation.specification import Specification
from lipcert.solver.rank_two import Options, solve_rank_two


def random_net(n: int) -> tuple[Network, Box]:
    """A Gaussian network and a box in which about a quarter of the neurons is stable."""
    rng = np.random.default_rng(1)
    A, b, c = (rng.standard_normal(s) / np.sqrt(n) for s in ((n, n), n, (1, n)))
    return Network.from_weights([A, c], [b, np.zeros(1)]), Box(rng.standard_normal(n), 0.1)


def ours(name: str, relaxation: Relaxation) -> tuple[float, float]:
    """Solve and prove; wall seconds of both, and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    with threads_for(relaxation.problem.size):
        result = solve_rank_two(relaxation.problem, Options(tolerance=1e-7))
        proof = prove(relaxation, result.y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    start = time.perf_counter()
    checked = check(relaxation, proof.multipliers, proof.shift).upper
    print(
        f"{name:34s} ours  {proof.upper:.7f} certified, primal {result.primal:.7f}, gap {result.gap:.0e}, "
        f"{wall:6.2f} s ({cpu:.2f} s CPU), {result.iterations} iterations, checked {checked:.7f} in "
        f"{time.perf_counter() - start:.2f} s"
    )
    return proof.upper, cpu


def csdp(name: str, relaxation: Relaxation, upper: float, cpu: float) -> None:
    """The peer on the same program, one thread, its own default tolerances."""
    if shutil.which("csdp") is None:
        print(f"{name:34s} CSDP  is not on the PATH (Debian: coinor-csdp)")
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.dat-s"
        write_sdpa(file, relaxation, name)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        before = os.times()
        run = subprocess.run(["csdp", str(file)], capture_output=True, text=True, check=False, env=environment)
        after = os.times()
    theirs = after.children_user - before.children_user
    found = re.findall(r"objective value: *([-+.\deE]+)", run.stdout)
    values = " and ".join(found) if found else run.stdout.strip().splitlines()[-1]
    difference = abs(float(found[1]) + relaxation.offset - upper) if len(found) > 1 else float("nan")
    print(
        f"{name:34s} CSDP  {values}, {theirs:6.2f} s CPU: {theirs / cpu:.0f} times ours; "
        f"values differ by {difference:.1e}"
    )


def sdp_nn() -> None:
    """The paper's trained (784,500) network through the command line, as a user runs it."""
    file = str(data_folder() / "sdp_nn" / "sdp_nn_paper.mat")
    with tempfile.TemporaryDirectory() as folder:
        proof = str(Path(folder) / "proof.npz")
        for name, arguments in [
            ("radius 0.1, hr2, no lower", ["--radius", "0.1", "--method", "hr2", "--no-lower", "--time-limit", "60"]),
            ("radius 0.1, auto, 15 s", ["--radius", "0.1", "--time-limit", "15"]),
            ("radius 0.1, auto, 60 s", ["--radius", "0.1", "--time-limit", "60"]),
            ("radius 10, shor, no lower", ["--radius", "10", "--method", "shor", "--no-lower"]),
        ]:
            run = lipcert("bound", file, "--center", file, *arguments, "--certificate", proof, "--json")
            answer = json.loads(run.output)
            verified = lipcert("verify", proof, "--network", file, "--json")
            proved = json.loads(verified.output)["proved"]
            print(
                f"SDP-NN {name:27s} [{answer['lower']}, {answer['upper']:.6f}] {answer['status']}, "
                f"{run.seconds:.1f} s, {run.gigabytes:.2f} GB; verified {proved} in {verified.seconds:.1f} s"
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-csdp", action="store_true")
    parser.add_argument("--no-sdp-nn", action="store_true")
    options = parser.parse_args()
    if not options.no_sdp_nn:
        sdp_nn()
    net = paper_network(80, 80, 0)
    cases = [
        ("(80,80) s=80 seed 0, global", net, paper_region(80, 0, "global")),
        ("(80,80) s=80 seed 0, local", net, paper_region(80, 0, "local")),
        ("(160,160) Gaussian, local", *random_net(160)),
    ]
    for name, case, region in cases:
        for chords in (True, False):
            relaxation = build(Problem.of(case, region), Specification("hr2", "hr2", wide=chords))
            upper, cpu = ours(f"{name}{'' if chords else ', no chords'}", relaxation)
            if not options.no_csdp and not chords:
                csdp(name, relaxation, upper, cpu)


if __name__ == "__main__":
    main()
