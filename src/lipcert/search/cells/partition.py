"""partition(): the public function. It checks its arguments, has the cells bounded, and keeps them in a folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lipcert.budget.threads import one_thread
from lipcert.errors import InputError
from lipcert.files import write_json
from lipcert.jobs import JobFolder, chosen_executor
from lipcert.problem.arrays import whole_of
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import Output, OutputChoice, output_of
from lipcert.problem.question import Question
from lipcert.problem.region import Box, Region
from lipcert.proof.cells import Grid
from lipcert.proof.partition import BoxQuestion
from lipcert.proof.tree import MOST_NODES, Tree
from lipcert.readers.given import TorchModule, network_of
from lipcert.search.blocks import BlockRunner
from lipcert.search.boxes import BoxSearch, CellGoal
from lipcert.search.cells.norm import NormOfCells
from lipcert.search.cells.result import Partition
from lipcert.search.progress import Progress
from lipcert.search.settings import Settings

MOST_CELLS = 1_000_000


def partition(
    net: Network | str | os.PathLike[str] | TorchModule,
    region: Box,
    *,
    cells: int | Sequence[int] | None = None,
    gap: float | None = None,
    target: float | None = None,
    largest: float | None = None,
    output: OutputChoice | Output = None,
    norm: str | Norm = "inf",
    output_norm: str | None = None,
    input_weights: ArrayLike | None = None,
    output_weights: ArrayLike | None = None,
    inputs: Sequence[int] | None = None,
    time_limit: float = 60.0,
    work: float | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    max_cells: int = MOST_CELLS,
    on_progress: Callable[[Progress], None] | None = None,
) -> Partition:
    """Bracket the Lipschitz constant on every cell of a box, a grid or an adaptive partition, by linear bounds.

    Args:
        net, output, norm, output_norm, input_weights, output_weights, inputs: as in `bound`.
        region: a `Box`.
        cells: a grid: how many cells along every input, or one number for each. Inputs in which the box has no width
            have one. None: cells are split, the worst first, until all are good enough; this needs a goal.
        gap: a goal: a cell is good enough when upper - lower <= gap times the largest lower bound of the region.
        target: a goal: a cell is good enough when upper <= target.
        largest: a goal: a cell is good enough when upper <= (1 + largest) times the largest lower bound of the region,
            for who wants the region's constant and not those of the cells. Any of the goals given is enough. With a
            grid the cells stay as they are, and splits inside them sharpen their constants.
        time_limit: seconds; at the limit, or on Ctrl-C, the cells there are cover the region with what is proved.
        work: counted work instead, in nominal seconds of one core: the same cells on a quiet and on a busy machine.
        workers: processes; `scheduler`: the address of a Dask cluster instead.
        folder: a job folder that keeps every block of cells and at the end cells.npz, certificate.npz and result.json;
            `resume` goes on with it after a kill. Blocks in it are proved again, not believed.
        max_cells: the most cells there may be, those inside a grid's cells included.
        on_progress: called with a `Progress` of the region's constant after every block.

    Guarantees: `upper` is proved on every cell with outward rounding for the given float64 weights, `lower` at a point
    of it; the cells cover the region exactly. `certificate` proves all of them again, without a solver.
    """
    goal = CellGoal(gap, target, largest)
    settings = Settings(time_limit=time_limit, work=work, workers=workers)
    _check(region, cells, goal, max_cells)
    if resume and folder is None:
        raise InputError(
            "resume needs a folder, the job to go on with; give one", "--resume needs --out DIR, the job to go on with"
        )
    network = network_of(net, region.shape)
    weights = (input_weights, output_weights, inputs)
    question = Question.of_constant(network, [region], output, (norm, output_norm), weights)
    box_question = BoxQuestion(network, region, question.norm, question.c, question.frame)
    box_question.problem  # noqa: B018 - refuses weights that do not fit before anything is written
    along = _whole_cells(cells)
    cover = Tree.none(Grid.equal(region, _counts(along, region), max_cells))
    budget = settings.budget()
    with ExitStack() as stack:
        executor = stack.enter_context(chosen_executor(settings.workers, scheduler))
        job = None
        if folder is not None:
            content = _job_question(box_question, along, goal, max_cells)
            job = stack.enter_context(JobFolder.open(Path(folder), "cells", content, resume=resume))
        stack.enter_context(one_thread() if budget.repeatable else nullcontext())
        search = BoxSearch(
            BlockRunner(NormOfCells(box_question), executor, job), cover, goal, cells is not None, max_cells
        )
        search.on_progress = on_progress
        search.run(budget)
        found = _result(search, box_question)
        if job is not None:
            _keep(found, job.path)
    return found


def _result(search: BoxSearch, box_question: BoxQuestion) -> Partition:
    leaves, net, folder = search.leaves, box_question.network, search.runner.folder
    cover, rows = leaves.cover()
    upper, lower, spent = leaves.upper, leaves.lower, search.budget.spent()
    if search.of_grid:
        upper, lower, rows = leaves.of_roots()
        assert cover.grid is not None
        cells = cover.grid.cells(np.arange(cover.roots))
        lo, hi = cells.lo, cells.hi
    else:
        lo, hi, upper, lower = leaves.lo[rows], leaves.hi[rows], upper[rows], lower[rows]
    notes = [*net.notes, *search.notes, *(folder.notes if folder is not None else ())]
    return Partition(
        lo=lo,
        hi=hi,
        upper=upper,
        lower=lower,
        points=leaves.points[rows],
        region=box_question.region,
        norm=box_question.norm,
        output=output_of(box_question.c),
        cover=cover,
        of_grid=search.of_grid,
        goal=search.goal,
        status=search.status,
        seconds=spent.wall,
        splits=search.splits,
        bounded=search.bounded,
        network={"sha256": net.sha256, "shape": list(net.shape)},
        resumed=search.runner.resumed,
        notes=tuple(dict.fromkeys(notes)),
        frame=box_question.frame,
        work=spent.counted,
    )


def _keep(found: Partition, folder: Path) -> None:
    """The answer in a job folder; the record last: it says that the others are there."""
    found.save(folder / "cells.npz")
    found.certificate.save(folder / "certificate.npz")
    write_json(folder / "result.json", found.to_dict())


def _job_question(
    box_question: BoxQuestion, cells: int | list[int] | None, goal: CellGoal, most: int
) -> dict[str, Any]:
    """Everything that the cells depend on, but for the time: more of it is a reason to resume."""
    parts = (
        []
        if box_question.frame is None
        else [f"{k}{v.dtype}{v.shape}".encode() + v.tobytes() for k, v in box_question.frame.arrays().items()]
    )
    return {
        "network": box_question.network.sha256,
        "region": [box_question.region.lo.tolist(), box_question.region.hi.tolist()],
        "norm": box_question.norm.words,
        "output": box_question.c.tolist(),
        "weights": hashlib.sha256(b"".join(parts)).hexdigest() if parts else None,
        "cells": cells,
        "goal": goal.to_dict(),
        "max_cells": most,
    }


def _whole_cells(cells: object) -> int | list[int] | None:
    """How many cells there are along every input, or along each, in plain numbers."""
    one = whole_of(cells)
    if cells is None or one is not None:
        return one
    counts: list[int] = []
    for n in cells if isinstance(cells, Iterable) and not isinstance(cells, str) else [cells]:
        count = whole_of(n)
        if count is None:
            raise InputError.about("cells", f"must be whole numbers >= 1, not {n!r}")
        counts.append(count)
    return counts


def _counts(cells: int | list[int] | None, region: Box) -> list[int]:
    if cells is None:
        return [1] * region.size
    counts = [cells] * region.size if isinstance(cells, int) else cells
    if len(counts) != region.size:
        raise InputError.about(
            "cells", f"has {len(counts)} numbers, the region {region.size} inputs; give one, or one for each"
        )
    for n in counts:
        if n < 1:
            raise InputError.about("cells", f"must be whole numbers >= 1, not {n!r}")
    return counts


def _check(
    region: Region,
    cells: int | Sequence[int] | None,
    goal: CellGoal,
    most: int,
) -> None:
    if not isinstance(region, Box):
        kind = type(region).__name__
        raise InputError(
            f"region={kind}: only a Box has cells; give Box(center, radius)",
            "only a box has cells; give one with --center and --radius, or a property of one",
        )
    if not np.any(region.lo < region.hi):
        raise InputError("the region is one point, and its cells have no width; use bound, or give a radius > 0")
    goal.check()
    if cells is None and goal.none:
        raise InputError(
            "no cells: give cells=N for a grid, or a goal (gap, target or largest) for an adaptive partition",
            "--adaptive needs a goal; give --gap G, --target T or --largest G",
        )
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_NODES // 2:
        raise InputError.about("max_cells", f"must be a whole number from 1 to {MOST_NODES // 2:,}, not {most!r}")


cells = partition  # the command line calls it so
