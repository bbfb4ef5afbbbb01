"""verify_folder(): a whole certified data set proved again from its job folder, without any solver.

Claims are those of result.json and arrays.npz. Constants follow from certificates, lower bounds and counterexamples
from points, radii from constants and margins, and every status and tally from what was proved, not from what is stored.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from lipcert.chart.facts import Facts, Shown
from lipcert.errors import InputError, shown
from lipcert.jobs import chosen_executor
from lipcert.jobs.executors import check_workers
from lipcert.problem.network import Network
from lipcert.readers.given import TorchModule, network_of
from lipcert.robustness.data import DataSet, as_data_set
from lipcert.robustness.proving import ClaimsOfOneKind, OnProgress, Proving
from lipcert.robustness.question import Question
from lipcert.robustness.stored import read_claims, read_sources


@dataclass(frozen=True, eq=False, repr=False)
class FolderVerification(Shown):
    """What `verify_folder` found; `proved` when every claim follows from what the folder holds."""

    question: Question
    kinds: tuple[ClaimsOfOneKind, ...]
    seconds: float

    @property
    def proved(self) -> bool:
        return all(kind.proved == kind.count for kind in self.kinds)

    @property
    def failures(self) -> tuple[str, ...]:
        """The first failures of every kind, in words."""
        return tuple(line for kind in self.kinds for line in kind.failures)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        claims = [kind.to_dict() for kind in self.kinds]
        return {
            "proved": self.proved,
            "statement": {"sentence": self.question.sentence},
            "question": self.question.to_dict(),
            "claims": claims,
            "seconds": round(self.seconds, 3),
        }

    def facts(self) -> Facts:
        """What a person wants to read first."""
        rows = [("about", self.question.sentence)]
        rows += [(kind.kind, f"{kind.proved:,} of {kind.count:,} proved") for kind in self.kinds]
        rows += [("failed", line) for line in self.failures]
        rows.append(("time", f"{self.seconds:.2f} s"))
        return Facts(f"Certified data set {'' if self.proved else 'not '}proved", rows)


def verify_folder(
    folder: str | os.PathLike[str],
    net: Network | str | os.PathLike[str] | TorchModule | None = None,
    inputs: ArrayLike | DataSet | None = None,
    labels: ArrayLike | None = None,
    *,
    workers: int = 1,
    on_progress: OnProgress | None = None,
) -> FolderVerification:
    """Does every claim of a certified data set follow from the certificates in its folder? No solver is asked.

    Args:
        folder: what `certify(out=...)` wrote.
        net, inputs, labels: as they were given to `certify`; left out, read from the files that the folder names.
            Their hashes must be those of the job.
        workers: processes.
        on_progress: called with a stage and the progress of its pieces.
    """
    if not isinstance(folder, str | os.PathLike):
        raise InputError(f"folder={shown(folder)}: give the path of a folder that certify(out=...) wrote")
    check_workers(workers)
    start = time.monotonic()
    claims = read_claims(Path(folder))
    data = _data(claims.folder, inputs, labels)
    question = Question.of_job(claims.question, _network(claims.folder, net, data), data)
    with chosen_executor(workers) as executor:
        kinds = Proving(question, claims, executor, on_progress).run()
    return FolderVerification(question, kinds, time.monotonic() - start)


def _data(folder: Path, inputs: ArrayLike | DataSet | None, labels: ArrayLike | None) -> DataSet:
    if inputs is not None:
        return as_data_set(inputs, labels)
    origin = read_sources(folder).data
    if origin is None:
        what = f"{folder}: it does not say which file the data came from; give"
        raise InputError(f"{what} inputs", f"{what} --data")
    return as_data_set(origin.read(), labels)


def _network(folder: Path, net: Network | str | os.PathLike[str] | TorchModule | None, data: DataSet) -> Network:
    if net is None:
        net = read_sources(folder).network
    if net is None:
        what = f"{folder}: it does not say which file the network came from; give"
        raise InputError(f"{what} net", f"{what} --network")
    return network_of(net, data.image_shape or data.inputs.shape[1:])
