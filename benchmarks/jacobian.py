"""Entries of Jacobians against gradients and enumeration on random networks: python -m benchmarks.jacobian

    python -m benchmarks.jacobian [--networks 10000] [--first 0] [--every 10]
    python -m benchmarks.jacobian --network FILE (--radius R | --vnnlib FILE) [--gap G] [--time-limit S]

Random networks as `benchmarks.fuzz` makes them: chains and branches, kinks and smooth activations, convolutions, kinks
that coincide, very large and very small weights; boxes, flat ones, points, balls and the whole space. Every enclosure
is compared with Jacobians at points by an independent forward pass, one network in `--every` with the exact ranges by
enumeration where it has few kinks. Every certificate is verified, one in three once more with one end moved past a
value that was seen, which must be refused. With `--network` one question is timed, in seconds of the processor and of
the clock.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from tests.enumeration import exact_ranges

from benchmarks.fuzz._oracle import ROUNDING, SLACK, enumerable, jacobians, points_of
from benchmarks.fuzz._problems import Case, random_case
from lipcert import Box, Jacobian, Network, Status, jacobian, load
from lipcert.bounds.interval import Interval
from lipcert.proof.file import load_certificate
from lipcert.proof.jacobian import JacobianCertificate
from lipcert.readers.vnnlib import read_property
from lipcert.rounding import Array

CLOSE = 1e-6  # the gap of every other question; the others ask for signs
WORK = 0.0015  # for each


@dataclass
class Tally:
    """Counts of checks and of failures: violations, proofs not verified, forgeries that were believed."""

    networks: int = 0
    entries: int = 0
    increasing: int = 0
    decreasing: int = 0
    zero: int = 0
    both: int = 0
    open: int = 0
    finished: int = 0
    enumerated: int = 0
    forged: int = 0
    violations: int = 0
    unproved: int = 0
    believed: int = 0


def _only(path: str) -> Box:
    (region,) = read_property(path).regions
    if not isinstance(region, Box):
        raise SystemExit(f"{path}: the region is no box")
    return region


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--networks", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--network", help="a file: time one question about it instead")
    parser.add_argument("--radius", type=float, default=0.5)
    parser.add_argument("--vnnlib")
    parser.add_argument("--gap", type=float)
    parser.add_argument("--time-limit", type=float, default=60.0)
    given = parser.parse_args()
    if given.network is not None:
        net = load(given.network)
        region = Box(np.zeros(net.inputs), given.radius) if given.vnnlib is None else _only(given.vnnlib)
        timed(net, region, given.gap, given.time_limit)
        return
    tally, start = Tally(), time.process_time()
    for seed in range(given.first, given.first + given.networks):
        compare(tally, seed, seed % given.every == 0)
        if (seed + 1) % 1000 == 0:
            print(f"{seed + 1:,}: {tally}, {time.process_time() - start:.0f} s of the processor", flush=True)
    print(", ".join(f"{getattr(tally, f.name):,} {f.name}" for f in fields(tally)))
    print(f"{time.process_time() - start:.0f} s of the processor")


def compare(tally: Tally, seed: int, enumerate_: bool) -> None:
    """One network with one question."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, seed)
    found = jacobian(case.network, case.region, gap=CLOSE if seed % 2 else None, work=WORK)
    tally.networks += 1
    tally.entries += found.lower.size
    for word, count in found.counts.items():
        setattr(tally, word, getattr(tally, word) + count)
    tally.finished += found.status is Status.DONE
    tally.violations += _outside(case, found, points_of(rng, case.region, case.network.inputs))
    if enumerate_ and enumerable(case):
        assert isinstance(case.region, Box)
        tally.enumerated += 1
        tally.violations += _beyond(found, *exact_ranges(case.network, case.region, samples=100))
    tally.unproved += bool(np.all(np.isfinite(found.upper))) and not found.certificate.verify(case.network).proved
    forged = _forged(found, rng) if seed % 3 == 0 else None
    if forged is not None:
        tally.forged += 1
        tally.believed += forged.verify(case.network).proved


def _outside(case: Case, found: Jacobian, points: Array) -> int:
    """How many entries lie outside their enclosures, by more than the oracle's own rounding."""
    with np.errstate(all="ignore"):
        J, off, size = jacobians(case, points)
        sure = off & np.all(np.isfinite(J), axis=(1, 2))
        J, room = J[sure], ROUNDING * size + SLACK * np.abs(J[sure])
        wrong = (J - room > found.upper) | (J + room < found.lower)
    return int(wrong.sum())


def _beyond(found: Jacobian, low: Array, high: Array) -> int:
    """How many ends are not what enumeration says they can be; pieces of no size are not enumerated."""
    room = 1e-8 * (np.abs(low) + np.abs(high)).max(initial=0.0) + 1e-12
    proved = np.sum(found.lower > low + room) + np.sum(found.upper < high - room)
    return int(proved)


def _forged(found: Jacobian, rng: np.random.Generator) -> JacobianCertificate | None:
    """The certificate with one end between zero and what was seen beyond it."""
    i, j = (int(rng.integers(n)) for n in found.lower.shape)
    seen, size = found.seen_most[i, j], found.upper[i, j] - found.lower[i, j]
    if not np.isfinite(size) or not np.isfinite(seen):
        return None
    kept = found.certificate
    upper = kept.claims.hi.copy()
    upper[i, j] = seen - 1e-6 * max(abs(seen), size) - 1e-300
    return replace(kept, claims=Interval(kept.claims.lo, upper))


def timed(net: Network, box: Box, gap: float | None, limit: float) -> None:
    """One question: what it costs, what it gives, and what its certificate costs."""
    before, clock = time.process_time(), time.monotonic()
    found = jacobian(net, box, gap=gap, time_limit=limit)
    spent, wall = time.process_time() - before, time.monotonic() - clock
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "jacobian.npz"
        found.certificate.save(place)
        size, before = place.stat().st_size / 1e6, time.process_time()
        answer = load_certificate(place, JacobianCertificate).verify(net)
    print(found)
    gaps = f"gaps: median {np.median(found.gaps):.3g}, largest {found.gaps.max():.3g}"
    cost = f"{spent:.1f} s CPU, {wall:.1f} s, {size:.3f} MB, verified in {time.process_time() - before:.1f} s CPU"
    print(f"{gaps}; {found.counts}; {cost}: {answer.reason}")


if __name__ == "__main__":
    main()
