"""Fuzzing with independent oracles, to be left running: python -m benchmarks.fuzz cheap|deep|smooth|ways|files|...

    python -m benchmarks.fuzz cheap|deep|smooth|ways|relaxations|files|forged|hostile|folders|all
                              [--count N] [--seed S] [--first K] [--minutes M] [--out DIR]
    python -m benchmarks.fuzz again FILE.json

Case K of seed S is always the same. Faults are made small and written to DIR, each with the line that runs it again.
Exit code 1 where there was one.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.fuzz._harness import Kind, Run, judged

NAMES = ("cheap", "deep", "smooth", "ways", "relaxations", "files", "forged", "hostile", "folders")


def kind_of(name: str) -> Kind[Any]:
    """Imported when it is asked for: some need packages that others do not."""
    if name in ("cheap", "deep"):
        from benchmarks.fuzz.cheap import Cheap, Deep

        return Cheap() if name == "cheap" else Deep()
    if name == "smooth":
        from benchmarks.fuzz.smooth import Smooth

        return Smooth()
    if name == "ways":
        from benchmarks.fuzz.ways import Ways

        return Ways()
    if name == "relaxations":
        from benchmarks.fuzz.relaxations import Relaxations

        return Relaxations()
    if name == "files":
        from benchmarks.fuzz.files import Files

        return Files()
    if name == "forged":
        from benchmarks.fuzz.forged import Forged

        return Forged()
    if name == "hostile":
        from benchmarks.fuzz.hostile import Hostile

        return Hostile()
    from benchmarks.fuzz.folders import Folders

    return Folders()


def again(path: Path) -> int:
    """Judge a reproduction once more."""
    about = json.loads(path.read_text())
    kind = kind_of(about["kind"])
    verdict = judged(kind, kind.load(path.with_suffix(""), about))
    print(f"{path}: {verdict.fault}: {verdict.detail}" if verdict.fault else f"{path}: nothing is wrong")
    return 1 if verdict.fault else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=(*NAMES, "all", "again"))
    parser.add_argument("file", nargs="?", type=Path, help="with again: the .json of a reproduction")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="of each kind, at most")
    parser.add_argument("--out", type=Path, default=Path("fuzz-faults"))
    given = parser.parse_args(arguments)
    if given.what == "again":
        if given.file is None:
            parser.error("again needs the .json of a reproduction")
        return again(given.file)
    faults = 0
    for name in NAMES if given.what == "all" else (given.what,):
        run = Run(kind_of(name), given.seed, given.out)
        run.go(given.count, given.first, given.minutes)
        faults += len(run.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
