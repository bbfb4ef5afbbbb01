"""One loop for all kinds of cases: make, judge, count, and of what fails keep a small reproduction.

Case number k of seed s is the same on every machine: `numpy.random.default_rng([s, k])` makes it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from benchmarks.fuzz._problems import Random, text_of

C = TypeVar("C")
TRIES = 600  # judgements that making a case smaller may take
KEPT = 20  # reproductions of one run
PROGRESS = 10.0  # seconds between two lines


@dataclass
class Verdict:
    """Counts of checks by name, and the failures: one word that names the check, and a sentence."""

    counts: list[str] = field(default_factory=list)
    cases: int = 1  # that were looked at: of one network several regions, say
    fault: str = ""
    detail: str = ""


class Kind(Protocol[C]):
    """One kind of cases."""

    name: str

    def make(self, rng: Random, number: int) -> C:
        """Case `number`, all of whose chance comes from `rng`."""

    def judge(self, case: C) -> Verdict:
        """The same verdict every time."""

    def smaller(self, case: C) -> Iterable[C]:
        """Cases that are simpler, the simplest first."""

    def save(self, case: C, stem: Path) -> dict[str, Any]:
        """Arrays and files beside `stem`, plain values as the result."""

    def load(self, stem: Path, about: dict[str, Any]) -> C:
        """The bytes that `save` wrote."""


@dataclass
class Run(Generic[C]):
    """The cases `first`, `first` + 1, ... of a seed."""

    kind: Kind[C]
    seed: int
    out: Path | None = None
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    done: int = 0

    def go(self, count: int, first: int = 0, minutes: float | None = None, quiet: bool = False) -> None:
        """So many cases, or as many as fit into the minutes."""
        start = last = time.monotonic()
        for number in range(first, first + count):
            self.one(number)
            now = time.monotonic()
            if not quiet and now - last > PROGRESS:
                last = now
                print(f"  {self.line(now - start)}", flush=True)
            if minutes is not None and now - start > 60 * minutes:
                break
        if not quiet:
            print(self.line(time.monotonic() - start), flush=True)
            print("  " + ", ".join(f"{name} {n:,}" for name, n in sorted(self.counts.items())), flush=True)

    def one(self, number: int) -> None:
        with np.errstate(all="ignore"):
            case = self.kind.make(np.random.default_rng([self.seed, number]), number)
        verdict = judged(self.kind, case)
        self.done += verdict.cases
        self.counts.update(verdict.counts)
        if verdict.fault:
            self.keep(number, case, verdict)

    def keep(self, number: int, case: C, verdict: Verdict) -> None:
        """Count a fault, make it small and write it."""
        words = f"{self.kind.name} {self.seed}:{number}: {verdict.fault}: {verdict.detail}"
        self.faults.append(words)
        print(f"! {words}", flush=True)
        if self.out is None or len(self.faults) > KEPT:
            return
        small, found = shrunk(self.kind, case, verdict)
        self.out.mkdir(parents=True, exist_ok=True)
        stem = self.out / f"{self.kind.name}-{self.seed}-{number}"
        about = self.kind.save(small, stem)
        about |= {"kind": self.kind.name, "fault": found.fault, "detail": found.detail, "case": [self.seed, number]}
        path = stem.with_suffix(".json")
        path.write_text(text_of(about | {"again": f"python -m benchmarks.fuzz again {path}"}))
        print(f"  written to {path}: {found.detail}", flush=True)

    def line(self, seconds: float) -> str:
        rate = self.done / max(seconds, 1e-9)
        return f"{self.kind.name}: {self.done:,} cases, {len(self.faults)} faults, {seconds:.0f} s, {rate:.0f}/s"


def judged(kind: Kind[C], case: C) -> Verdict:
    """An exception that is no answer of the product is a fault as well."""
    try:
        with np.errstate(all="ignore"):
            return kind.judge(case)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return Verdict(["exception"], fault=type(error).__name__, detail=f"{error}"[:300])


def shrunk(kind: Kind[C], case: C, verdict: Verdict) -> tuple[C, Verdict]:
    """The simplest case with the same fault that was found."""
    tries = TRIES
    going = True
    while going:
        going = False
        for other in simpler(kind, case):
            tries -= 1
            if tries < 0:
                return case, verdict
            found = judged(kind, other)
            if found.fault == verdict.fault:
                case, verdict, going = other, found, True
                break
    return case, verdict


def simpler(kind: Kind[C], case: C) -> Iterator[C]:
    """The problems that can be made at all: a network without neurons, say, is refused."""
    cases = iter(kind.smaller(case))
    while True:
        try:
            yield next(cases)
        except StopIteration:
            return
        except (ValueError, ArithmeticError, IndexError):
            return
