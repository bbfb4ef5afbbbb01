"""jacobian(): the public function. It checks its arguments, has the entries bounded, and returns what is proved."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

import numpy as np

from lipcert.budget import Budget
from lipcert.budget.threads import one_thread
from lipcert.errors import InputError
from lipcert.jobs import JobFolder
from lipcert.problem.network import Network
from lipcert.problem.region import Ball, Box, Polytope, Region, check_region
from lipcert.proof.cells import Index
from lipcert.proof.jacobian import EntryQuestion
from lipcert.readers.given import TorchModule, network_of
from lipcert.search.jacobian.goal import EntryGoal
from lipcert.search.jacobian.result import Jacobian
from lipcert.search.jacobian.resume import CERTIFICATE, found_before, job_question
from lipcert.search.jacobian.search import JacobianProgress, JacobianSearch
from lipcert.search.settings import Settings

MOST_CELLS = 1_000_000


def jacobian(
    net: Network | str | os.PathLike[str] | TorchModule,
    region: Region,
    *,
    outputs: Sequence[int] | None = None,
    inputs: Sequence[int] | None = None,
    gap: float | None = None,
    time_limit: float = 60.0,
    work: float | None = None,
    max_cells: int = MOST_CELLS,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    on_progress: Callable[[JacobianProgress], None] | None = None,
) -> Jacobian:
    """Enclose every entry d score / d input of the Jacobian on a region, and decide its sign.

        lower <= d score_i / d input_j (x) <= upper      at all x of the region where there is a derivative

    Linear bounds first; then the region is split, at coordinates (boxes) and at kinks of neurons, where entries are not
    good enough yet.

    Args:
        net: a `Network`, the path of a network file, or a torch module.
        region: a `Box`, a `Ball` or `Everywhere()`; the last two are split at kinks alone.
        outputs, inputs: numbers of the scores and of the inputs whose entries are wanted. None: all.
        gap: an entry is good enough when both ends of its enclosure are within gap times the largest |value| seen of it
            from values that were seen at points. None: when its sign is decided.
        time_limit: seconds; at the limit, or on Ctrl-C, the best enclosures so far are returned.
        work: counted work instead, in nominal seconds of one core: the same answer on a quiet and on a busy machine.
        max_cells: the most cells that the region may be split into.
        folder: a job folder that keeps certificate.npz, written from time to time, and at the end entries.csv and
            result.json; `resume` goes on with it after a kill. Its cells are proved again first, not believed.
        on_progress: called with a `JacobianProgress` after every block of cells.

    Guarantees: `lower` and `upper` are proved with outward rounding for the given float64 weights, `seen_least` and
    `seen_most` next to points of the region. `certificate` proves all of it again, without a solver.
    """
    goal = EntryGoal(gap)
    goal.check()
    settings = Settings(time_limit=time_limit, work=work)
    if isinstance(max_cells, bool) or not isinstance(max_cells, int | np.integer) or max_cells < 1:
        raise InputError.about("max_cells", f"must be a whole number >= 1, not {max_cells!r}")
    if resume and folder is None:
        raise InputError(
            "resume needs a folder, the job to go on with; give one", "--resume needs --out DIR, the job to go on with"
        )
    network = network_of(net, region.shape if isinstance(region, Box | Ball) else None)
    check_region(region, network.inputs)
    if isinstance(region, Polytope):
        raise InputError("region=Polytope: jacobian is for Box, Ball or Everywhere; leave the half-spaces out")
    scores, columns = chosen("outputs", outputs, network.outputs), chosen("inputs", inputs, network.inputs)
    question = EntryQuestion(network, region, scores, columns)
    budget = settings.budget()
    with ExitStack() as stack:
        stack.enter_context(one_thread() if budget.repeatable else nullcontext())
        if folder is None:
            search = JacobianSearch(question, goal, max_cells)
            search.on_progress = on_progress
            search.run(budget)
            return _result(search)
        job = stack.enter_context(
            JobFolder.open(Path(folder), "jacobian", job_question(question, goal.gap), resume=resume)
        )
        search = JacobianSearch(question, goal, max_cells, found_before(job, question))
        search.on_progress = on_progress
        return _in_folder(search, budget, job)


def _in_folder(search: JacobianSearch, budget: Budget, job: JobFolder) -> Jacobian:
    """The search with a job folder, which keeps the earlier certificate until all of it is proved again."""
    search.keep = lambda: _result(search).certificate.save(job.path / CERTIFICATE)
    search.run(budget)
    if not search.ready:
        job.notes.append(f"{job.path}: interrupted before its cells were proved again; it is left as it was")
    search.notes += job.notes
    found = _result(search)
    if search.ready:
        found.certificate.save(job.path / CERTIFICATE)
        found.save(job.path / "entries.csv")
        found.save(job.path / "result.json")
    return found


def chosen(name: str, numbers: Sequence[int] | None, count: int) -> Index:
    """The scores or inputs that are asked for, all of them by default; what there is not is refused."""
    if numbers is None:
        return np.arange(count)
    given: object = numbers
    kept = [] if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) else list(given)
    if not kept:
        raise InputError(f"{name} must be a list of whole numbers from 0 to {count - 1}, not {numbers!r}")
    for k in kept:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 0 <= k < count:
            raise InputError(f"{name}: there is no {k!r}; the network has {count}, 0 to {count - 1}")
    if len(set(kept)) < len(kept):
        raise InputError(f"{name}: a number is given twice; give each once")
    return np.array(kept, dtype=np.int64)


def _result(search: JacobianSearch) -> Jacobian:
    question, net, spent = search.question, search.question.network, search.budget.spent()
    hull = search.leaves.hull
    points, most_at, least_at = search.seen.points()
    return Jacobian(
        lower=hull.lo,
        upper=hull.hi,
        seen_least=search.seen.least.copy(),
        seen_most=search.seen.most.copy(),
        points=points,
        least_at=least_at,
        most_at=most_at,
        scores=question.scores,
        inputs=question.inputs,
        region=question.region,
        splits=search.leaves.splits(),
        goal=search.goal,
        status=search.status,
        seconds=spent.wall,
        network={"sha256": net.sha256, "shape": list(net.shape)},
        notes=tuple(dict.fromkeys([*net.notes, *search.notes])),
        work=spent.counted,
        resumed=search.resumed,
    )
