"""Certified data sets: the paper's binary task, SDP-NN on the MNIST test set, refinement, attacks.

    python -m benchmarks.robustness spheres|mnist-shor|mnist-tight|refine|attacks [--job DIR] [--count N]

`refine` and `attacks` use the constants of the job that `mnist-shor` (or `mnist-tight`) left in --job.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from benchmarks._measure import data_folder, lipcert
from lipcert import certify, load, read_data, verify
from lipcert.paper.published import EPSILONS, TABLE3
from lipcert.paper.spheres import REACH, sphere_points, train
from lipcert.problem.network import Network
from lipcert.robustness.attack import Perturbation, attack
from lipcert.robustness.data import DataSet
from lipcert.robustness.decision import Classified, classify, rival_radii
from lipcert.robustness.refine import SECONDS_EACH, Ball, SharedRadii, refine_input
from lipcert.rounding import Array


def spheres(points: int = 1_000_000) -> None:
    """Train, prove one constant on [-3, 3]^80, decide a million points at ten radii."""
    begin = start = time.perf_counter()
    net = train()
    x, labels = sphere_points(4000, seed=7)
    right = np.mean((net.forward(x)[:, 0] > 0) == (labels == 1))
    print(f"trained in {time.perf_counter() - start:.1f} s; {100 * right:.2f} % of 4,000 fresh points are right")
    start = time.perf_counter()
    box = np.random.default_rng(1).uniform(-REACH, REACH, (points, net.inputs))
    result = certify(net, box, radius=EPSILONS, domain=(-REACH, REACH), method="tight", attacks=False, lower=True)
    pair = result.pairs[0]
    print(f"constant {pair.upper:.5f} ({pair.method}), lower bound {pair.lower:.5f}, {pair.seconds:.1f} s")
    print(f"{points:,} points at ten radii, constant included: {time.perf_counter() - start:.1f} s")
    shares = [100 * result.counts(r)["certified"] / points for r in EPSILONS]
    print("epsilon          ", *(f"{r:7.2f}" for r in EPSILONS))
    print("certified %      ", *(f"{s:7.2f}" for s in shares))
    for name, values in TABLE3.items():
        print(f"paper, {name:10s}", *(f"{v:7.2f}" for v in values))
    fresh = certify(net, x, labels, radius=EPSILONS, method="tight", time_limit=30.0)
    print("the task's own points, certified / attacked of 4,000:")
    for r in EPSILONS:
        counts = fresh.counts(r)
        print(f"  {r:.2f}  {100 * counts['certified'] / 4000:6.2f} %  {100 * counts['attacked'] / 4000:6.2f} %")
    print(f"the whole thing: {time.perf_counter() - begin:.1f} s")


def mnist() -> tuple[Network, DataSet]:
    folder = data_folder()
    files = [str(folder / "mnist" / f"t10k-{name}-ubyte.gz") for name in ("images-idx3", "labels-idx1")]
    return load(folder / "sdp_nn" / "sdp_nn_rsl18a.npz"), read_data(files[0], files[1], "1/255")


def constants(method: str, job: str, time_limit: float, *more: str) -> None:
    """All 45 constants through the command line, then the decision alone."""
    folder = data_folder()
    run = lipcert(
        "certify",
        str(folder / "sdp_nn" / "sdp_nn_rsl18a.npz"),
        str(folder / "mnist" / "t10k-images-idx3-ubyte.gz"),
        *("--labels", str(folder / "mnist" / "t10k-labels-idx1-ubyte.gz"), "--scale", "1/255", "--domain", "0", "1"),
        *("--radius", ",".join(map(str, EPSILONS)), "--method", method, "--time-limit", str(time_limit)),
        *("--no-attack", "--out", job, "--resume", "--json", *more),
    )
    answer = json.loads(run.output)
    seconds = sum(pair["seconds"] for pair in answer["pairs"])
    print(f"{method}: {len(answer['pairs'])} constants in {seconds:.0f} s, everything {run.seconds:.0f} s")
    for row in answer["per_radius"]:
        print(f"  {row['radius']:.2f}  correct and certified {row['certified'] / 100:6.2f} %")
    net, data = mnist()
    decision(net, data, job)
    start = time.perf_counter()
    proved = sum(verify(path, net).proved for path in sorted(Path(job).glob("pieces/pair-*.npz")))
    print(f"  {proved} certificates verified in {time.perf_counter() - start:.0f} s")


def kept_constants(job: str) -> Array:
    """The matrix of the job's constants."""
    answer = json.loads((Path(job) / "result.json").read_text())
    L = np.zeros((answer["classes"], answer["classes"]))
    for pair in answer["pairs"]:
        L[pair["i"], pair["j"]] = L[pair["j"], pair["i"]] = np.inf if pair["upper"] is None else pair["upper"]
    return L


def decision(net: Network, data: DataSet, job: str) -> tuple[Classified, Array]:
    """Scores, leads and radii of all images and rivals; they hold at ten epsilons and at any other."""
    start = time.perf_counter()
    classified = classify(net, data.inputs, data.labels)
    radii = rival_radii(classified, kept_constants(job), np.full(len(data), 0.1))
    shares = [float(np.mean(radii.min(axis=1) >= r)) for r in EPSILONS]
    print(f"  decision for {len(data):,} images: {time.perf_counter() - start:.2f} s; {100 * shares[-1]:.2f} % at 0.1")
    return classified, radii


def refine(job: str, count: int, seconds: float, limits: tuple[float, float] | None) -> None:
    """The first images that the constants leave open at 0.1; limits [0, 1] are those of the SDP verifier."""
    net, data = mnist()
    classified, radii = decision(net, data, job)
    still = np.flatnonzero(~classified.wrong & (radii.min(axis=1) < 0.1))[:count]
    start = time.perf_counter()
    found = attack(net, data.inputs, classified.labels, Perturbation(0.1, limits), still)
    attacked = int(np.sum(np.isfinite(found.radius)))
    print(f"  {len(still)} open images, {attacked} attacked in {time.perf_counter() - start:.1f} s")
    balls = Ball.open_ones(data.inputs, classified, SharedRadii(radii), found.radius, (0.1,), limits)
    chosen, certified, spent = [b for b in balls if b.index in set(still.tolist())], 0, []
    for ball in sorted(chosen, key=lambda b: b.index):
        start, cpu = time.perf_counter(), time.process_time()
        value = refine_input(net, ball, seconds).value
        spent.append((time.perf_counter() - start, time.process_time() - cpu))
        certified += value["radius"] > 0
        last = value["attempts"][-1]
        pairs = int(np.sum(ball.rivals < 0.1))
        print(
            f"    image {ball.index:5d} {spent[-1][0]:6.1f} s ({spent[-1][1]:5.1f} s CPU)  {pairs} open pairs  "
            f"{'certified' if last['proved'] else 'open'} ({last['how']}, {last['worst']})",
            flush=True,
        )
    left = len(still) - certified - attacked
    print(f"  of {len(still)}: certified {certified}, attacked {attacked}, undecided {left}")
    for name, column in zip(("seconds", "processor seconds"), np.transpose(spent), strict=True):
        middle, most = np.median(column), np.max(column)
        print(f"  {name} for an image: mean {np.mean(column):.1f}, median {middle:.1f}, most {most:.1f}")


def attacks(job: str) -> None:
    """Every image is attacked; a certified one that falls is a bug."""
    net, data = mnist()
    classified, radii = decision(net, data, job)
    for domain in (None, (0.0, 1.0)):
        start = time.perf_counter()
        found = attack(net, data.inputs, classified.labels, Perturbation(0.1, domain))
        fell = np.isfinite(found.radius)
        bugs = int(np.sum(fell & ~classified.wrong & (found.radius <= radii.min(axis=1))))
        print(
            f"  domain {domain}: {len(data):,} attacks in {time.perf_counter() - start:.1f} s; "
            f"{np.sum(fell & ~classified.wrong):,} correct images fell; certified ones among them: {bugs}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=["spheres", "mnist-shor", "mnist-tight", "refine", "attacks"])
    parser.add_argument("--job", default="sdp-nn-job", help="the job folder with the constants")
    parser.add_argument("--count", type=int, default=100, help="open images to refine")
    parser.add_argument("--seconds", type=float, default=SECONDS_EACH, help="for each of them")
    parser.add_argument("--no-clip", action="store_true", help="perturbed images may leave [0, 1]")
    arguments = parser.parse_args()
    match arguments.part:
        case "spheres":
            spheres()
        case "mnist-shor":
            constants("shor", arguments.job, 60.0)
        case "mnist-tight":
            constants("tight", arguments.job, 130.0, "--workers", "2")
        case "refine":
            limits = None if arguments.no_clip else (0.0, 1.0)
            refine(arguments.job, arguments.count, arguments.seconds, limits)
        case "attacks":
            attacks(arguments.job)


if __name__ == "__main__":
    main()
