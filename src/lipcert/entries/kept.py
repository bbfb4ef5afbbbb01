"""What a job folder keeps of `jacobian`: the certificate so far, which is all there is to go on with, and the answer.

certificate.npz    written from time to time and at the end; at any time `lipcert verify` proves it
entries.csv        at the end
result.json        last: it says that the others are there
"""

from __future__ import annotations

from typing import Any

from lipcert.entries.goal import Goal
from lipcert.entries.result import Jacobian
from lipcert.errors import FileFormatError
from lipcert.jobs import JobFolder
from lipcert.problem.question import region_arrays
from lipcert.proof.entries import Asked
from lipcert.proof.jacobian import JacobianCertificate, load_jacobian, refused

CERTIFICATE = "certificate.npz"


def question(asked: Asked, goal: Goal) -> dict[str, Any]:
    """Everything that is asked, but for time, work and cells: more of them is a reason to resume."""
    return {
        "network": asked.network.sha256,
        "region": {name: array.tolist() for name, array in region_arrays(asked.region).items()},
        "outputs": asked.scores.tolist(),
        "inputs": asked.inputs.tolist(),
        "gap": goal.gap,
    }


def found_before(job: JobFolder, asked: Asked) -> JacobianCertificate | None:
    """The certificate in a folder where it is about this question; with a note None where it is of no use.

    Whether it proves anything is not asked: its splits are advice, and its cells are bounded again.
    """
    path = job.path / CERTIFICATE
    if not job.resumed or not path.exists():
        return None
    try:
        found = load_jacobian(path)
    except (FileFormatError, OSError, MemoryError):
        found = None
    if found is not None and refused(found, asked.network) is None:
        here = (asked.region, asked.scores.tolist(), asked.inputs.tolist())
        if (found.region, found.scores.tolist(), found.inputs.tolist()) == here:
            return found
    job.notes.append(f"{path}: damaged or about another question, all of it is done again")
    return None


def keep(found: Jacobian, job: JobFolder) -> None:
    """The answer in a job folder."""
    found.certificate.save(job.path / CERTIFICATE)
    found.save(job.path / "entries.csv")
    found.save(job.path / "result.json")
