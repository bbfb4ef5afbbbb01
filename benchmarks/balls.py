"""Both checkers on a corpus of every kind of proof, honest and forged: python -m benchmarks.balls

    python -m benchmarks.balls [--forged 4] [--seed 0]

For every family of `tests.ball_corpus`: certificates; how much smaller the bound of the balls is than that of `verify`,
at least and at most, relative to it; certificates that the balls refuse and `verify` proves (none); certificates with
one number changed, and how many of them either refuses; bounds below the largest gradient that was found (none).
Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from tests.ball_corpus import FAMILIES, a_gradient_norm, forged

from lipcert import Certificate, Network, verify
from lipcert.proof.balls import check_with_balls


def main() -> None:
    """Print a line for each family."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--forged", type=int, default=4, help="forgeries of each certificate")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    head = (
        "family",
        "proofs",
        "nearest",
        "farthest",
        "refused",
        "forged",
        "by verify",
        "by balls",
        "false",
        "verify",
        "balls",
    )
    print(" ".join(f"{name:>10}" for name in head))
    for family in FAMILIES:
        print(" ".join(f"{entry:>10}" for entry in (family, *line(family, given.forged, given.seed))), flush=True)


def line(family: str, count: int, seed: int) -> list[str]:
    """The figures of one family."""
    rng = np.random.default_rng(seed)
    apart, refused, wrong, tried = [], 0, 0, 0
    no, seconds = [0, 0], [0.0, 0.0]

    def both(certificate: Certificate, net: Network) -> list[float]:
        found = []
        for k, check in enumerate((lambda c, n: verify(c, n).upper, check_with_balls)):
            start = time.process_time()
            found.append(check(certificate, net))
            seconds[k] += time.process_time() - start
        return found

    for entry in FAMILIES[family](1):
        least = a_gradient_norm(entry) * (1 - 1e-9)
        ordinary, balls = both(entry.certificate, entry.net)
        apart.append((ordinary - balls) / max(ordinary, 1e-300))
        refused += not balls <= entry.certificate.claim
        wrong += min(ordinary, balls) < least
        for _ in range(count):
            false = forged(entry, rng)
            if false is None:
                continue
            tried += 1
            answers = both(false, entry.net)
            wrong += min(answers) < least
            no = [n + math.isinf(answer) for n, answer in zip(no, answers, strict=True)]
    distance = [f"{min(apart):.1e}", f"{max(apart):.1e}"]
    times = [f"{s:.1f} s" for s in seconds]
    return [str(len(apart)), *distance, *(str(n) for n in (refused, tried, *no, wrong)), *times]


if __name__ == "__main__":
    main()
