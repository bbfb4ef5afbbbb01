"""Read the findings of a run of `lipcert reproduce` back from the files in docs/paper: for its pages, and as a job
folder with which the run continues on another machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.paper._read import NOT_RUN, NOT_TRIED, Record, Reproduced, number
from lipcert.jobs import JobFolder, Outcome
from lipcert.jobs.piece import Finished
from lipcert.paper.entries import RandomNetwork, TargetEntry
from lipcert.paper.estimators import Findings


def begin_with(found: Reproduced, folder: Path, retry: bool = False) -> int:
    """Write what was computed as pieces of a job; returns how many. Trained networks are bounded again.

    With `retry` entries that ran out of time or memory, or failed, are left out, so that they are tried again.

    Points are kept of refuted values alone; those of other lower bounds are not needed again.
    """
    known = [r for r in found.networks if r["word"] not in (NOT_RUN, NOT_TRIED) and not (retry and r["word"])]
    with JobFolder.open(folder, "reproduce", found.question) as job:
        for outcome in _outcomes(found, known):
            job.store(Finished(outcome))
    return len(known)


def findings(found: Reproduced) -> Findings:
    """The estimates of all entries on random networks."""
    known = [r for r in found.networks if r["word"] != NOT_RUN]
    return Findings([_entry(r) for r in known], {outcome.name: outcome for outcome in _outcomes(found, known)})


def _outcomes(found: Reproduced, records: Iterable[Record]) -> Iterator[Outcome]:
    points = {_entry(r).name: r["point"] for t in found.targets for r in found.read(f"{t}-refuted") if "network" in r}
    return (_outcome(r, _point_of(r, points)) for r in records)


def _outcome(r: Record, point: list[float] | None) -> Outcome:
    value = {key: number(r[key]) for key in ("upper", "lower", "floor")}
    seconds = number(r["seconds"])
    about = {"ended": r["word"], "seconds": seconds, "note": r["note"].split("; NOT LOWEST")[0], "point": point}
    return Outcome(_entry(r).name, {**value, **about}, None, seconds or 0.0)


def _point_of(r: Record, points: dict[str, str]) -> list[float] | None:
    """The point whose gradient refutes another method's value on the same network."""
    if not r["lower"]:
        return None
    of_network = _entry({**r, "method": ""}).name
    found = next((p for name, p in points.items() if name.startswith(of_network)), None)
    return None if not found else [float(e) for e in found.split()]


def _entry(r: Record) -> TargetEntry:
    size, layers = int(r["network"].strip("()").split(",")[0]), r["network"].count(",")
    return TargetEntry(RandomNetwork(layers, size, int(r["sparsity"]), int(r["seed"])), r["region"], r["method"])
