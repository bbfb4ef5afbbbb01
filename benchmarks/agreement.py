"""Enumeration, a mixed-integer solver and branch and bound on the same networks: python -m benchmarks.agreement

    python -m benchmarks.agreement [--nets 300] [--norms inf 1 2] [--limit 20]

Random networks as in `benchmarks.mixed_integer`: depths 1 to 3, ReLU and leaky ReLU, boxes of radius 0.1, 1 and 10. All
three numbers are of one output on one box; the mixed-integer program has the norms inf and 1, the other two all three.
The bracket of branch and bound is verified again from its certificate. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from tests.enumeration import exact_constant

from benchmarks.mixed_integer import random_case, solve
from lipcert import bound, verify
from lipcert.problem.norms import Norm

AGREED = 1e-5
SMALL = 1e-3  # constants below are compared absolutely: some networks are constant, and HiGHS has tolerances


@dataclass
class Tally:
    """One norm: the largest relative differences, and the methods that did not come to an end."""

    branching: float = 0.0
    witness: float = 0.0
    mixed_integer: float = 0.0
    open: int = 0
    seconds: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nets", type=int, default=300)
    parser.add_argument("--norms", nargs="+", choices=("inf", "1", "2"), default=["inf", "1", "2"])
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for one network")
    given = parser.parse_args()
    print(f"{'norm':5} {'nets':>5} {'branching':>10} {'witness':>10} {'MIP':>10} {'open':>5} {'CPU':>8}")
    for name in given.norms:
        tally = compare(Norm(name), given.nets, given.limit)
        claim = "-" if name == "2" else f"{tally.mixed_integer:.1e}"
        numbers = f"{tally.branching:10.1e} {tally.witness:10.1e} {claim:>10} {tally.open:5} {tally.seconds:8.1f}"
        print(f"{name:5} {given.nets:5} {numbers}", flush=True)


def compare(norm: Norm, nets: int, limit: float) -> Tally:
    """Largest relative differences from enumeration over the networks that were decided, disagreements by name."""
    tally = Tally()
    for seed in range(nets):
        net, box, c = random_case(seed)
        truth = exact_constant(net, box, c, norm)
        start = time.process_time()
        result = bound(net, box, output=c, norm=norm.p, method="exact", time_limit=limit, gap=AGREED / 10)
        tally.seconds += time.process_time() - start
        assert result.certificate is not None
        assert verify(result.certificate, net).proved
        scale = max(truth, SMALL)
        above, below = (result.upper - truth) / scale, (truth - (result.lower or 0.0)) / scale
        if result.upper - (result.lower or 0.0) > AGREED * scale:
            tally.open += 1
            print(f"norm {norm}, network {seed}: open, [{result.lower}, {result.upper:.7g}], enumerated {truth:.7g}")
        else:
            tally.branching, tally.witness = max(tally.branching, abs(above)), max(tally.witness, abs(below))
        claim = truth if norm.p == "2" else solve(net, box, c, norm, limit).value
        tally.mixed_integer = max(tally.mixed_integer, abs(claim - truth) / scale)
        if above < -1e-9 or below < -1e-6 or abs(claim - truth) > AGREED * scale:
            bracket = f"{result.lower!r} .. {result.upper!r}"
            print(f"norm {norm}, network {seed}: enumerated {truth!r}, {bracket}, MIP {claim!r}")
    return tally


if __name__ == "__main__":
    main()
