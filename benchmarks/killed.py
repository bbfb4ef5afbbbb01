"""Jobs killed with SIGKILL at random moments: each is resumed, and every claim of its folder must be proved.

    python -m benchmarks.killed [--count 50] [--seed 0] [--dask]

Without --dask the whole `certify --refine` with two workers is killed and resumed. With --dask one of the two workers
of a Dask cluster is killed while the job goes on; the scheduler gives its pieces to the other.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from lipcert import Network

SHAPE = (6, 24, 4)
INPUTS = 100
RADII = "0.01,0.03,0.06"


def make(place: Path) -> None:
    """A network whose constants and inputs take some seconds, and data."""
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairwise(SHAPE)]
    Network.from_weights(weights, [0.3 * rng.normal(size=len(w)) for w in weights]).save(place / "net.npz")
    np.save(place / "points.npy", rng.uniform(0, 1, (INPUTS, SHAPE[0])))


def command(place: Path, job: Path, *more: str) -> list[str]:
    files = (str(place / "net.npz"), str(place / "points.npy"))
    options = ("--radius", RADII, "--domain", "0", "1", "--method", "hr2", "--refine", "60", "--out", str(job))
    return [sys.executable, "-m", "lipcert", "certify", *files, *options, "--json", *more]


def finish(arguments: list[str]) -> tuple[int, str, float]:
    """Exit code, what it printed, seconds."""
    start = time.perf_counter()
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        print(done.stderr.strip())
    return done.returncode, done.stdout, time.perf_counter() - start


def verified(job: Path) -> tuple[bool, float]:
    """Whether every claim is proved, and the seconds that the check takes."""
    code, _, seconds = finish([sys.executable, "-m", "lipcert", "verify", str(job), "--json"])
    return code == 0, seconds


def kill_and_resume(place: Path, count: int, rng: random.Random) -> int:
    """How many of the runs did not end as they should."""
    code, told, whole = finish(command(place, place / "whole", "--workers", "2"))
    good, seconds = verified(place / "whole")
    answer = json.loads(told)["per_radius"]
    print(f"not disturbed: {whole:.1f} s, exit code {code}, verify {seconds:.1f} s, {'' if good else 'not '}proved")
    bad, same, ended, pieces = int(not good), 0, 0, []
    for k in range(count):
        job = place / f"job{k}"
        process = subprocess.Popen(
            command(place, job, "--workers", "2"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(0.0, whole))
        ended += process.poll() is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        pieces.append(len([*job.glob("pieces/*.json")]))
        code, told, _ = finish(command(place, job, "--workers", "2", "--resume"))
        good, _ = verified(job)
        same += code == 0 and json.loads(told)["per_radius"] == answer
        if code != 0 or not good:
            bad += 1
            print(f"  run {k}: exit code {code}, {'' if good else 'not '}proved, kept in {job}")
    print(f"{count} killed ({ended} had ended), with {min(pieces)} to {max(pieces)} pieces done")
    print(f"{same} resumed to the tallies of the job that was not disturbed")
    return bad


def lose_a_worker(place: Path, count: int, rng: random.Random) -> int:
    """The same for jobs on a cluster that loses a worker."""
    from distributed import LocalCluster

    bad = 0
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    with LocalCluster(**options) as cluster:
        address = str(cluster.scheduler_address)
        _, _, whole = finish(command(place, place / "whole", "--cluster", address))
        total = len([*(place / "whole").glob("pieces/*.json")])
        print(f"not disturbed: {whole:.1f} s, {total} pieces")
        for k in range(count):
            job = place / f"job{k}"
            process = subprocess.Popen(command(place, job, "--cluster", address), stdout=subprocess.DEVNULL)
            target = rng.randrange(total)
            while process.poll() is None and len([*job.glob("pieces/*.json")]) < target:
                time.sleep(0.01)
            before, running = len([*job.glob("pieces/*.json")]), process.poll() is None
            victim = rng.choice([*cluster.workers.values()])
            os.kill(victim.pid, signal.SIGKILL)
            code = process.wait()
            good, _ = verified(job)
            bad += code != 0 or not good
            words = f"exit code {code}, {'' if good else 'not '}proved"
            print(f"  run {k}: a worker killed after {before} pieces{'' if running else ' (at the end)'}; {words}")
            cluster.wait_for_workers(2, timeout=60)
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=50, help="runs")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--dask", action="store_true", help="kill a worker of a Dask cluster instead")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make(place)
        work = lose_a_worker if arguments.dask else kill_and_resume
        bad = work(place, arguments.count, random.Random(arguments.seed))
    print(f"{bad} of {arguments.count} runs did not end proved")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
