"""A case of the results: a name, the sets that it belongs to, the files that it needs, and the measurement itself.

Brackets come from counted work, so that the same code on the same machine gives the same ones, bit for bit; seconds
are told beside them.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import lipcert
from benchmarks._measure import ROOT
from benchmarks._networks import Made
from benchmarks._rows import Measured, Point
from lipcert.problem.norms import Norm

QUICK, FULL = "quick", "full"
BOTH, ONLY_FULL = frozenset({QUICK, FULL}), frozenset({FULL})


@dataclass(frozen=True)
class Need:
    """Something that a case cannot do without: `missing` says in a sentence why it is not there, or None."""

    name: str
    missing: Callable[[], str | None]


@dataclass(frozen=True)
class Case:
    """One measurement, of one row or several: run alone in a process of its own."""

    name: str
    section: str
    run: Callable[[], Iterable[Measured]]
    sets: frozenset[str] = BOTH
    needs: tuple[Need, ...] = ()

    def missing(self) -> str | None:
        """Why it cannot be run here."""
        return next((reason for need in self.needs if (reason := need.missing())), None)


@dataclass(frozen=True)
class Question:
    """A network with a region, as a person names it."""

    network: str
    make: Callable[[], Made]


def _no_data() -> str | None:
    folder = Path(os.environ.get("LIPCERT_DATA", ROOT.parent / "shared" / "data"))
    return None if folder.is_dir() else "needs networks that are not part of the project (LIPCERT_DATA)"


def package(name: str) -> Need:
    """A Python package that is not among the dependencies."""
    return Need(name, lambda: None if importlib.util.find_spec(name) else f"needs the Python package {name}")


def program(name: str, remedy: str) -> Need:
    """A program on the PATH."""
    return Need(name, lambda: None if shutil.which(name) else f"needs {name} on the PATH ({remedy})")


DATA = Need("data", _no_data)


class Stopwatch:
    """Seconds of the clock and of the processor since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @property
    def wall(self) -> float:
        return time.perf_counter() - self._wall

    @property
    def cpu(self) -> float:
        return time.process_time() - self._cpu


def gigabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@cache
def warm(method: str, lower: bool, literal: bool) -> None:
    """One small bound before the clock starts, so that no row pays for modules that are loaded on the way."""
    net = lipcert.Network.from_weights([[[1.0, -2.0], [0.5, 1.0], [1.0, 1.0]], [[1.0, 1.0, -1.0]]])
    with suppress(lipcert.LipcertError):  # a method for two hidden layers alone
        lipcert.bound(net, lipcert.Box([0.1, 0.2], 0.5), method=method, work=0.5, lower=lower, literal=literal)


def bracket(
    question: Question,
    method: str,
    work: float,
    *,
    known: float | None = None,
    gap: float = 0.0,
    lower: bool = True,
    literal: bool = False,
) -> Measured:
    """`lipcert.bound` with counted work, its way in seconds, and the certificate verified."""
    net, region, output, norm = question.make()
    curve: list[Point] = []
    warm(method, lower, literal)
    watch = Stopwatch()

    def tell(now: lipcert.Progress) -> None:
        if now.upper < float("inf") and (not curve or (now.lower, now.upper) != curve[-1][1:]):
            curve.append((round(watch.wall, 3), now.lower, now.upper))

    result = lipcert.bound(
        net,
        region,
        output=output,
        norm=norm,
        method=method,
        work=work,
        gap=gap,
        lower=lower,
        literal=literal,
        on_progress=tell,
    )
    wall, cpu = watch.wall, watch.cpu
    curve.append((round(wall, 3), result.lower, result.upper))
    measured = Measured(
        question.network,
        method,
        region.words,
        Norm(norm, norm if output == "all" else None).words,
        result.lower,
        result.upper,
        known=known,
        status=result.status.name.lower().replace("_", " "),
        limit=f"work {work:g}",
        work=result.work,
        wall=wall,
        cpu=cpu,
        gigabytes=gigabytes(),
        curve=tuple(curve) if len(curve) > 2 else (),
        facts={"by": result.method},
    )
    watch = Stopwatch()
    proved = lipcert.verify(result.certificate, net).proved
    return replace(measured, proved=proved, verify_seconds=watch.wall)
