"""Cases that are not one bracket: reading files, a data set, polynomial problems, cells, the command line."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from tests.polynomial_problems import LIBRARY, Named

import lipcert
from benchmarks._measure import ROOT, data_folder, run
from benchmarks._measure import lipcert as command_line
from benchmarks._networks import CASES, he_normal
from benchmarks._rows import Measured
from benchmarks.results._case import DATA, ONLY_FULL, Case, Stopwatch, gigabytes
from lipcert import Box, Network
from lipcert.cli.demo import digits
from lipcert.polynomial.hierarchy.solve import PolynomialOptions, solve_problem

DIGITS = ROOT / "src" / "lipcert" / "data" / "digits_net.npz"
RADII = (0.01, 0.02, 0.05, 0.1)


def startup() -> Iterable[Measured]:
    """Medians of five fresh processes: what a person waits for before anything is computed."""
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "import lipcert": [sys.executable, "-c", "import lipcert"],
        "from lipcert import bound, load": [sys.executable, "-c", "from lipcert import bound, load"],
        "lipcert --help": [sys.executable, "-m", "lipcert", "--help"],
    }
    for name, command in commands.items():
        yield Measured("-", name, wall=median(run(command).seconds for _ in range(5)))
    options = ["--radius", "0.1", "--center", "0.5", "--output", "0", "--no-lower", "--method", "interval", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "784-500-10.npz"
        he_normal((784, 500, 10)).save(file)
        done = command_line("bound", str(file), *options)
    upper = json.loads(done.output)["upper"]
    yield Measured("784-500-10 He-normal", "lipcert bound --method interval", upper=upper, wall=done.seconds)


def _read(path: Path) -> Measured:
    watch = Stopwatch()
    net = lipcert.load(path)
    facts: dict[str, float | str] = {"neurons": net.neurons, "inputs": net.inputs, "bytes": path.stat().st_size}
    return Measured(
        path.name, f"load {path.suffix}", wall=watch.wall, cpu=watch.cpu, gigabytes=gigabytes(), facts=facts
    )


def reading() -> Iterable[Measured]:
    """Networks by recipe, written and read back; the first read pays for imports, so one goes before."""
    lipcert.load(DIGITS)
    yield _read(DIGITS)
    with tempfile.TemporaryDirectory() as folder:
        for sizes in ((784, 500, 10), (784, 1000, 1000, 10), (3072, 2048, 1024, 100)):
            path = Path(folder) / f"{'-'.join(map(str, sizes))}.npz"
            he_normal(sizes).save(path)
            yield _read(path)


def reading_real() -> Iterable[Measured]:
    lipcert.load(DIGITS)
    for path in sorted((data_folder() / "nets").iterdir()):
        yield _read(path)


def certification() -> Iterable[Measured]:
    """The digits that ship: constants by `hr2`, which ends by itself, attacks from a seed; then all verified."""
    net, images, labels = digits()
    inputs, limits = images.reshape(len(images), -1), (0.0, 1.0)
    with tempfile.TemporaryDirectory() as folder:
        watch, job = Stopwatch(), str(Path(folder) / "job")
        found = lipcert.certify(
            net, inputs, labels, radius=RADII, domain=limits, method="hr2", time_limit=600.0, out=job
        )
        wall, cpu, watch = watch.wall, watch.cpu, Stopwatch()
        proved, verify_seconds = lipcert.verify_folder(job, net, inputs, labels).proved, watch.wall
    for radius in RADII:
        counts = found.counts(radius)
        facts: dict[str, float | str] = {"inputs": len(images), "radius": radius, **counts}
        facts["misclassified"] = int(found.wrong.sum())
        yield Measured(
            "digits 64-32-10",
            "certify --method hr2",
            f"every image, radius {radius:g}",
            "inf",
            wall=wall,
            cpu=cpu,
            facts=facts,
            proved=proved,
            verify_seconds=verify_seconds,
            status="finished" if found.complete else "incomplete",
        )


def mnist(method: str, limit: float) -> Iterable[Measured]:
    """The 10,000 test images of MNIST on a network of 784-500-10: 45 constants, no attacks."""
    folder = data_folder()
    net = lipcert.load(folder / "sdp_nn" / "sdp_nn_rsl18a.npz")
    names = [str(folder / "mnist" / f"t10k-{name}-ubyte.gz") for name in ("images-idx3", "labels-idx1")]
    data, radii = lipcert.read_data(names[0], names[1], "1/255"), tuple(k / 100 for k in range(1, 11))
    watch = Stopwatch()
    found = lipcert.certify(net, data, radius=radii, domain=(0.0, 1.0), method=method, time_limit=limit, attacks=False)
    for radius in radii:
        facts: dict[str, float | str] = {"inputs": len(data), "radius": radius, **found.counts(radius)}
        facts["misclassified"] = int(found.wrong.sum())
        yield Measured(
            "SDP-NN 784-500-10, MNIST",
            f"certify --method {method}",
            f"every image, radius {radius:g}",
            "inf",
            limit=f"{limit:g} s",
            wall=watch.wall,
            cpu=watch.cpu,
            facts=facts,
        )


def polynomials() -> Iterable[Measured]:
    """Named problems with known optima; one solve goes before, so that none pays for imports."""
    polynomial(LIBRARY[0])
    for named in LIBRARY:
        yield polynomial(named)


def polynomial(named: Named) -> Measured:
    """One of them, by the relaxation and order that its entry names."""
    watch = Stopwatch()
    found = solve_problem(named.problem, PolynomialOptions(named.relaxation, named.order))
    least = named.problem.sense == "min"
    return Measured(
        named.name,
        f"{named.relaxation}, order {named.order}",
        lower=found.bound if least else None,
        upper=None if least else found.bound,
        known=named.optimum,
        status=found.status,
        wall=watch.wall,
        cpu=watch.cpu,
        proved=bool(np.isfinite(found.bound)),
        facts={"variables": len(named.problem.names or ()), "sense": named.problem.sense},
    )


def cells(net: Network, name: str) -> Iterable[Measured]:
    """A grid, the same with a goal, and adaptive cells, each verified."""
    hows: tuple[tuple[str, dict[str, float]], ...] = (
        ("grid of 20", {"cells": 20}),
        ("grid of 20, largest 5 %", {"cells": 20, "largest": 0.05}),
        ("adaptive, largest 1 %", {"largest": 0.01}),
    )
    for method, how in hows:
        watch = Stopwatch()
        found = lipcert.partition(net, Box(np.zeros(net.inputs), 1.0), output=0, work=120.0, **how)  # type: ignore[arg-type]
        wall, cpu = watch.wall, watch.cpu
        watch = Stopwatch()
        proved = found.certificate.verify(net).proved
        yield Measured(
            name,
            method,
            found.region.words,
            "inf",
            *found.largest,
            status=found.status.name.lower().replace("_", " "),
            limit="work 120",
            work=found.work,
            wall=wall,
            cpu=cpu,
            proved=proved,
            verify_seconds=watch.wall,
            facts={"cells": len(found), "bounded": found.bounded},
        )


def _recipe_cells() -> Iterable[Measured]:
    yield from cells(he_normal((3, 32, 32, 1)), "3-32-32-1 He-normal")


def _controller() -> Iterable[Measured]:
    net = next(c for c in CASES if c.name == "vdp 1").make()[0]
    yield from cells(net, "vdp (van der Pol, 3-32-32-3)")


def cases() -> list[Case]:
    return [
        Case("start/processes", "start", startup),
        Case("reading/recipes", "reading", reading),
        Case("reading/real", "reading", reading_real, ONLY_FULL, (DATA,)),
        Case("certification/digits", "certification", certification),
        Case("certification/MNIST shor", "certification", partial(mnist, "shor", 60.0), ONLY_FULL, (DATA,)),
        Case("certification/MNIST tight", "certification", partial(mnist, "tight", 130.0), ONLY_FULL, (DATA,)),
        Case("polynomial/library", "polynomial", polynomials),
        Case("partition/3-32-32-1", "partition", _recipe_cells),
        Case("partition/vdp", "partition", _controller, ONLY_FULL, (DATA,)),
    ]
