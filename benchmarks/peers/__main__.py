"""Ours beside other people's methods, in one run: ECLipsE, LipSDP-Neuron, GeoLIP, CSDP, auto_LiRPA.

    python -m benchmarks.peers [--out FILE.jsonl] [--resume] [--set quick|full] [--auto-lirpa DIR]

The same cases are part of `python -m benchmarks.results`. What is not installed leaves a row that says so.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.peers._auto_lirpa import VARIABLE
from benchmarks.peers._cases import PEERS, cases
from benchmarks.results._case import FULL, QUICK
from benchmarks.results._run import run_cases


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("peers.jsonl"))
    parser.add_argument("--resume", action="store_true", help="leave out what the file has for this commit")
    parser.add_argument("--set", choices=[QUICK, FULL], default=QUICK)
    parser.add_argument("--auto-lirpa", type=Path, help="a checkout of auto_LiRPA")
    given = parser.parse_args(arguments)
    if given.auto_lirpa is not None:
        os.environ[VARIABLE] = str(given.auto_lirpa.resolve())
    for peer in PEERS:
        print(f"{peer.name}: {peer.available() or 'here'}")
    failed = run_cases([c for c in cases() if given.set in c.sets], given.out, resume=given.resume)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
