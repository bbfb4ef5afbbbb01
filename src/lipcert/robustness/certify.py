"""certify(): constants that a whole data set shares or proofs input by input, a decision for every input, and attacks
from the other side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import replace
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
from lipcert.robustness.pairs import PairConstant, constants_of, matrix, pair_pieces
from lipcert.robustness.question import TIME_LIMIT, DataQuestion, Radii, check_domain, check_radii, check_seconds
from lipcert.robustness.refine import OpenInput, SharedRadii, refine_pieces, refined_radii
from lipcert.robustness.result import PREDICTED, Certification
from lipcert.robustness.stored import write_sources
from lipcert.robustness.trial import (
    TRIED,
    TriedInputs,
    hurried_pieces,
    share_by_constants,
    tried_pieces,
    try_inputs,
    worth_sharing,
)
from lipcert.rounding import Array
from lipcert.search.settings import Settings

MINUTE = 60.0
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
    time_limit: float | None = None,
    lower: bool = False,
    refine: float = 0.0,
    per_input: bool | None = None,
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
            Without a time limit all constants together have as long as linear bounds of all inputs, but at least a
            second each; where no trial is made (see `per_input`), a minute each.
        refine: seconds for relaxations of the margins of inputs that are still open, most promising first.
        per_input: True for proofs input by input, without shared constants; False for all constants. Left out, the
            constants of two pairs and linear bounds of a few inputs are tried, and what they certify decides.
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
    seconds = MINUTE if time_limit is None else time_limit
    settings = Settings(method=method, solver=solver, time_limit=seconds, lower=lower, seed=seed, memory=each)
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
        per_input=per_input,
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
        job.hurried = time_limit is None
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
        self.complete, self.interrupted = True, False
        self.hurried = False  # whether a trial says how long constants may take
        self.by_lines = 0.0  # the share of tried inputs that linear bounds certify
        self.failed: list[tuple[str, str]] = []
        self.notes: list[str] = [*question.net.notes, *([PREDICTED] if question.data.labels is None else [])]

    def run(self, attacks: bool) -> Certification:
        q = self.q
        method, where = q.method_and_region()
        self._stage("decision")
        classified = classify(q.net, q.data.inputs, q.data.labels).portable()
        reach = reach_in_region(q.data.inputs, where, q.radii[-1], q.clip)
        pairs = self._shared_constants(classified, reach)
        constants = matrix(pairs, class_count(q.net))
        shared = SharedRadii(rival_radii(classified, constants, reach), constants, reach)
        found = no_counterexamples(len(q.data), q.net.inputs)
        if attacks and not self.interrupted:
            self._stage("attacks")
            found = search_counterexamples(q, classified, shared.certified)
        refined = np.zeros(len(q.data), dtype=bool)
        for stage, seconds in self._single_proofs(bool(pairs)):
            if self.complete:
                certified, seen = self._prove_inputs(stage, seconds, classified, shared, found)
                shared, refined = replace(shared, single=certified), refined | seen
        result = self._result(method, pairs, classified, shared.certified, found, refined)
        if self.folder is not None:
            result.save(self.folder.path)
        return result

    def _shared_constants(self, classified: Classified, reach: Array) -> tuple[PairConstant, ...]:
        """The constants of all pairs of classes; none where inputs are to be proved one by one.

        A job that has constants goes on with them.
        """
        q = self.q
        work = [] if q.per_input else pair_pieces(q.net, q.region, q.settings, q.norm)
        stored = self._checked_outcomes(work, check_kept_pair)
        if q.per_input is None and not q.settings.lower and len(work) > 2 * TRIED:
            self._stage("trial")
            inputs = try_inputs(q, classified)
            self.by_lines = inputs.share
            work = work if stored else self._work_by_trial(work, classified, reach, inputs)
        run = self._run_pieces("pair constants", work, stored, None)
        short = sum(o.value is not None and o.value.get("status") == "memory_limit" for o in run.outcomes.values())
        if short:
            self.notes.append(f"{short} of {len(run.outcomes)} constants ended at the memory limit: more may be proved")
        return constants_of(run.outcomes)

    def _work_by_trial(
        self, work: list[Piece], classified: Classified, reach: Array, inputs: TriedInputs
    ) -> list[Piece]:
        """The pieces of all pairs, with the time of the trial unless a limit was given; none where a trial says that
        they are not worth their time. The constants of the trial are not kept."""
        q = self.q
        short = hurried_pieces(work, classified, inputs)
        run = run_pieces(tried_pieces(short, classified), None, self.executor)
        if run.end is End.INTERRUPTED:
            raise KeyboardInterrupt
        constants = matrix(constants_of(run.outcomes), class_count(q.net))
        share = share_by_constants(classified, constants, reach, q.radii[0])
        if worth_sharing(share, inputs):
            return short if self.hurried else work
        self.notes.append(
            f"inputs are proved one by one: the constants of {len(run.outcomes)} pairs of classes certify "
            f"{share:.0%} of what they are asked for, linear bounds {inputs.share:.0%} of a few inputs"
        )
        return []

    def _single_proofs(self, shared: bool) -> list[tuple[str, float]]:
        """The stages of proofs of single inputs, from cheap to dear, with their seconds."""
        q = self.q
        skipped = q.per_input is False or (shared and self.by_lines == 0)
        cheap = [] if skipped else [("linear bounds", 0.0)]
        return [*cheap, *([("refinement", q.refine)] if q.refine > 0 else [])]

    def _prove_inputs(
        self, stage: str, seconds: float, classified: Classified, shared: SharedRadii, found: Counterexamples
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Certified radii and which inputs were looked at, after those still open were tried one by one.

        An input is open if it is neither certified nor attacked at some radius. Linear bounds, which have no seconds,
        are made of all of them.
        """
        q = self.q
        still_open = OpenInput.most_promising_first(
            q.data.inputs, classified, shared, found.radius, q.radii, (q.limits, q.norm)
        )
        work = refine_pieces(q.net, still_open, seconds, q.settings.memory)
        stored = self._checked_outcomes(work, check_kept_input)
        run = self._run_pieces(stage, work, stored, time.monotonic() + seconds if seconds > 0 else None)
        if run.end is End.DEADLINE:
            self.complete = True  # the time given was used
            left = len(still_open) - len(run.outcomes)
            self.notes.append(f"{stage} stopped at its time limit; {left} open inputs were not looked at")
        return refined_radii(shared.certified, run.outcomes)

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
        self.interrupted = self.interrupted or run.end is End.INTERRUPTED
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
