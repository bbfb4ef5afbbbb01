"""certify(): one set of constants for a whole data set, a decision for every input, and attacks from the other side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lipcert.budget.memory import as_size, check_share, resident, unwatched
from lipcert.errors import InputError, SoundnessError, shown
from lipcert.jobs import End, JobFolder, JobProgress, Outcome, Piece, Run, chosen_executor, local, run_pieces
from lipcert.jobs.executors import Cluster, check_workers
from lipcert.problem.arrays import array_of
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm, parse_norm
from lipcert.readers.given import TorchModule, network_of
from lipcert.robustness.attack import Counterexamples, Perturbation, attack, no_counterexamples
from lipcert.robustness.check import Check, check_kept_input, check_kept_pair, checked_outcomes
from lipcert.robustness.data import DataSet, as_data_set
from lipcert.robustness.decision import Classified, class_count, classify, reach_in_region, rival_radii
from lipcert.robustness.pairs import constants_of, matrix, pair_pieces
from lipcert.robustness.question import TIME_LIMIT, DataQuestion, Radii, check_domain, check_radii, check_seconds
from lipcert.robustness.refine import OpenInput, SharedRadii, refine_pieces, refined_radii
from lipcert.robustness.result import PREDICTED, Certification
from lipcert.robustness.stored import write_sources
from lipcert.rounding import Array
from lipcert.search.settings import Settings

OnProgress = Callable[[str, JobProgress | None], None]


def certify(
    net: Network | str | os.PathLike[str] | TorchModule,
    inputs: ArrayLike | DataSet,
    labels: ArrayLike | None = None,
    *,
    radius: Radii,
    domain: tuple[float, float] | None = None,
    clip: bool = False,
    norm: str | Norm = "inf",
    method: str = "auto",
    solver: str = "auto",
    time_limit: float = 60.0,
    lower: bool = False,
    refine: float = 0.0,
    attacks: bool = True,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    recheck: bool = False,
    workers: int = 1,
    scheduler: str | None = None,
    memory: int | float | str | None = None,
    network_file: str | None = None,
    on_progress: OnProgress | None = None,
) -> Certification:
    """Which inputs keep their class within `radius` in a norm?

    Args:
        net: the classifier, or the path of its file, or a torch module; one output is a binary classifier by its sign.
        inputs: one row or image for each, or a `DataSet`; pixels in the units that the network takes.
        labels: the true classes; left out, those that the network predicts.
        radius: one or several. The shared constants are proved for the largest.
        domain: (lo, hi) of every input value; the shared region is this box, or the inputs' own, plus the radius.
        clip: perturbed inputs stay in the domain, as pixels do.
        norm: of the radius: "inf", "2" or "1"; constants and attacks are in that norm.
        method, solver, time_limit, lower: of every pair constant, as in `bound`; "shor" holds on the whole space.
        refine: seconds to spend on inputs that the shared constants leave open, most promising first.
        attacks, seed: look for counterexamples by projected gradients, from this seed.
        out: a job folder that keeps certificates and results, and survives a kill; `resume` goes on with it.
            Whatever the folder holds is proved again from its certificates before it is used, or done again.
        recheck: without effect, because `resume` checks everything; kept for callers of earlier versions.
        workers: processes; `scheduler`: the address of a Dask cluster instead.
        memory: as in `bound`, shared among the workers; those of a cluster have it each, of their machine.
        network_file: where the network came from, for the report and for `verify_folder`.
        on_progress: called with a stage and the progress of its pieces.

    Guarantees: a certified radius is proved with outward rounding for the given float64 weights and inputs; a
    counterexample lies within its radius and another class is proved to win there.
    """
    data = as_data_set(inputs, labels)
    limit = as_size(memory)
    check_workers(workers)
    each = memory if scheduler is not None else share_of(limit, workers)
    method = method.lower() if isinstance(method, str) else method  # one job, however it was written
    settings = Settings(method=method, solver=solver, time_limit=time_limit, lower=lower, seed=seed, memory=each)
    network = network_of(net, data.image_shape if isinstance(inputs, DataSet) else array_of(inputs).shape[1:])
    if network_file is None and isinstance(net, str | os.PathLike):
        network_file = os.fspath(net)
    question = DataQuestion(
        network,
        data,
        radii=check_radii(radius),
        domain=check_domain(domain),
        clip=clip,
        norm=parse_norm(norm),
        settings=settings,
        refine=check_seconds(refine),
    )
    question.check()
    if out is not None and not isinstance(out, str | os.PathLike):
        raise InputError(f"out={shown(out)}: give the path of a job folder")
    if resume and out is None:
        raise InputError(
            "resume needs a job folder to go on with; give one as out",
            "--resume needs --out DIR, the job to go on with",
        )
    if recheck and out is None:
        raise InputError(
            "recheck needs a job folder with certificates; give one as out",
            "--recheck needs a job folder with certificates; give --out DIR",
        )
    with ExitStack() as stack:
        # The executor comes first: a dead address leaves no folder behind.
        executor = stack.enter_context(chosen_executor(workers, scheduler))
        folder = None
        if out is not None:
            stated = question.to_dict()
            folder = stack.enter_context(JobFolder.open(out, "certify", stated, resume=resume, may_differ=TIME_LIMIT))
            write_sources(folder.path, network_file, data)
        job = _Job(question, folder, executor, on_progress, network_file)
        unseen = unwatched(memory)
        job.notes += [] if unseen is None else [unseen]
        job.notes += [] if folder is None else _other_limit(folder, settings.time_limit)
        return job.run(attacks)


class _Job:
    """One call of `certify`: its clock, its notes, the pieces that failed, and whether all of them ended."""

    def __init__(
        self,
        question: DataQuestion,
        folder: JobFolder | None,
        executor: Executor,
        on_progress: OnProgress | None,
        network_file: str | None,
    ) -> None:
        self.q, self.folder, self.executor, self.on_progress = question, folder, executor, on_progress
        self.network_file = network_file
        self.start = time.monotonic()
        self.complete = True
        self.failed: list[tuple[str, str]] = []
        self.notes: list[str] = [*question.net.notes, *([PREDICTED] if question.data.labels is None else [])]

    def run(self, attacks: bool) -> Certification:
        q = self.q
        method, where = q.method_and_region()
        work = pair_pieces(q.net, q.region, q.settings, q.norm)
        run = self._run_pieces("pair constants", work, self._checked_outcomes(work, check_kept_pair), None)
        pairs = constants_of(run.outcomes)
        short = sum(o.value is not None and o.value.get("status") == "memory_limit" for o in run.outcomes.values())
        if short:
            self.notes.append(f"{short} of {len(run.outcomes)} constants ended at the memory limit: more may be proved")
        self._stage("decision")
        classified = classify(q.net, q.data.inputs, q.data.labels).portable()
        reach = reach_in_region(q.data.inputs, where, q.radii[-1], q.clip)
        constants = matrix(pairs, class_count(q.net))
        rivals = rival_radii(classified, constants, reach)
        certified = np.asarray(rivals.min(axis=1), dtype=np.float64)
        found = no_counterexamples(len(q.data), q.net.inputs)
        if attacks and run.end is not End.INTERRUPTED:
            self._stage("attacks")
            found = search_counterexamples(q, classified, certified)
        refined = np.zeros(len(q.data), dtype=bool)
        if q.refine > 0 and run.complete:
            certified, refined = self._refine(classified, SharedRadii(rivals, constants, reach), found)
        result = self._result(method, pairs, classified, certified, found, refined)
        if self.folder is not None:
            result.save(self.folder.path)
        return result

    def _refine(
        self, classified: Classified, shared: SharedRadii, found: Counterexamples
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Certified radii and which inputs were looked at, after those still open were tried one by one.

        An input is open if it is neither certified nor attacked at some radius; the time is that of the question.
        """
        q = self.q
        still_open = OpenInput.most_promising_first(q.data.inputs, classified, shared, found.radius, q.radii, q.limits)
        work = refine_pieces(q.net, still_open, q.refine, q.settings.memory)
        stored = self._checked_outcomes(work, check_kept_input)
        run = self._run_pieces("refinement", work, stored, time.monotonic() + q.refine)
        if run.end is End.DEADLINE:
            self.complete = True  # the time given was used
            left = len(still_open) - len(run.outcomes)
            self.notes.append(f"refinement stopped at its time limit; {left} open inputs were not looked at")
        return refined_radii(np.asarray(shared.rivals.min(axis=1), dtype=np.float64), run.outcomes)

    def _checked_outcomes(self, pieces: list[Piece], check: Check) -> dict[str, Outcome]:
        """The outcomes in the folder that their certificates prove again now, by the names of their pieces."""

        def see(progress: JobProgress) -> None:
            self._stage("checking what is kept", progress)

        here = local() if isinstance(self.executor, Cluster) else self.executor  # its workers may not see the folder
        stored, notes = checked_outcomes(pieces, check, self.folder, here, see)
        self.notes += notes
        return stored

    def _run_pieces(self, stage: str, pieces: list[Piece], stored: dict[str, Outcome], deadline: float | None) -> Run:
        def see(progress: JobProgress) -> None:
            self._stage(stage, progress)

        run = run_pieces(pieces, self.folder, self.executor, see, deadline, stored=stored)
        for name, error in run.failures.items():
            if error.startswith(SoundnessError.__name__):  # a contradiction is never just a failure
                raise SoundnessError(f"{name}: {error}")
        self.failed += list(run.failures.items())
        self.notes += run.notes
        if run.end is End.EXECUTOR_LOST:
            self.notes.append(run.end.value)
        self.complete = self.complete and run.complete
        return run

    def _stage(self, stage: str, progress: JobProgress | None = None) -> None:
        if self.on_progress is not None:
            self.on_progress(stage, progress)

    def _result(
        self,
        method: str,
        pairs: tuple[Any, ...],
        classified: Classified,
        certified: Array,
        found: Counterexamples,
        refined: NDArray[np.bool_],
    ) -> Certification:
        q = self.q
        return Certification(
            network={
                "file": self.network_file and Path(self.network_file).name,
                "sha256": q.net.sha256,
                "shape": list(q.net.shape),
            },
            data=q.data,
            domain=q.domain,
            clip=q.clip,
            radii=q.radii,
            norm=q.norm,
            method=method,
            classes=class_count(q.net),
            pairs=pairs,
            labels=classified.labels,
            predicted=classified.predicted,
            certified_radius=np.where(classified.wrong, 0.0, certified),
            counterexamples=found.named(q.net, classified.labels),
            refined=refined,
            seconds=time.monotonic() - self.start,
            complete=self.complete,
            failed=tuple(self.failed),
            notes=tuple(dict.fromkeys(self.notes)),
        )


def search_counterexamples(question: DataQuestion, classified: Classified, certified: Array) -> Counterexamples:
    """Attack every correct input at the largest radius, certified or not: a certified one that falls is a bug that must
    come out. Then go down the radii with those that fell, where they are not certified.
    """
    q, inputs = question, question.data.inputs
    found = no_counterexamples(len(inputs), q.net.inputs)
    for k, radius in enumerate(reversed(q.radii)):
        if k == 0:
            where = np.flatnonzero(~classified.wrong)
        else:
            fell = np.isfinite(found.radius) & (found.radius > radius)
            where = np.flatnonzero(fell & (certified < radius))
        allowed = Perturbation(radius, q.limits, q.norm)
        found = found.merged(attack(q.net, inputs, classified.labels, allowed, where, q.settings.seed))
    return found


def share_of(limit: float, workers: int) -> float:
    """Bytes for each worker: the whole limit for this process alone, else equal parts of what this process leaves."""
    if workers <= 1:
        return limit
    each = (limit - (resident() or 0.0)) / workers
    check_share(each, limit, workers)
    return each


def _other_limit(folder: JobFolder, seconds: float) -> list[str]:
    """A note where an earlier run of the job had another time limit: what it proved is kept as it is."""
    before = folder.question[TIME_LIMIT]
    if before == seconds:
        return []
    return [f"the job began with a time limit of {before:g} s for each constant; those that it has are kept"]
