"""verify_folder(): a whole certified data set proved again from its job folder, without any solver.

Claims are those of result.json and arrays.npz. Constants follow from certificates, lower bounds and counterexamples
from points, radii from constants and margins, and every status and tally from what was proved, not from what is stored.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lipcert.chart.facts import Facts, Shown
from lipcert.errors import InputError, SoundnessError, shown
from lipcert.jobs import End, JobProgress, Piece, chosen_executor, run_pieces
from lipcert.jobs.executors import check_workers
from lipcert.problem.network import Network
from lipcert.problem.region import Region
from lipcert.readers.given import TorchModule, network_of
from lipcert.robustness.attack import class_wins
from lipcert.robustness.check import check_counterexamples, check_lower, check_refined, check_upper, reason_of
from lipcert.robustness.data import DataSet, as_data_set
from lipcert.robustness.decision import (
    ATTACKED,
    CERTIFIED,
    STATUSES,
    UNDECIDED,
    Classified,
    Codes,
    class_count,
    classify,
    decide,
    lead,
    reach_in_region,
    rival_radii,
)
from lipcert.robustness.question import DataQuestion
from lipcert.robustness.refine import OpenInput
from lipcert.robustness.stored import Claims, read_claims, read_sources
from lipcert.rounding import Array
from lipcert.steps import step

OnProgress = Callable[[str, JobProgress | None], None]
Reasons = dict[str, str | None]

_SHOWN = 100  # failures of one kind that are kept in words


@dataclass(frozen=True)
class ClaimsOfOneKind:
    """How many claims of a kind the folder makes, how many of them are proved, and the first failures in words."""

    kind: str
    count: int
    proved: int
    seconds: float
    failures: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "count": self.count,
            "proved": self.proved,
            "not_proved": self.count - self.proved,
            "seconds": round(self.seconds, 3),
            "failures": list(self.failures),
        }


class FolderCheck:
    """One call of `verify_folder`: the kinds of claims that are checked so far, and the constants that are proved."""

    def __init__(
        self, question: DataQuestion, claims: Claims, executor: Executor, on_progress: OnProgress | None
    ) -> None:
        self.q, self.claims, self.executor, self.on_progress = question, claims, executor, on_progress
        self.kinds: list[ClaimsOfOneKind] = []
        self.clock = time.monotonic()
        classes = class_count(question.net)
        self.constants = np.full((classes, classes), np.inf)
        np.fill_diagonal(self.constants, 0.0)

    def run(self) -> tuple[ClaimsOfOneKind, ...]:
        self._check_question()
        _, where = self.q.method_and_region()
        self._check_constants(where)
        classified = self._check_classes()
        reach = reach_in_region(self.q.data.inputs, where, self.q.radii[-1], self.q.clip)
        certified = self._check_radii(classified, reach)
        attacked = self._check_counterexamples(classified)
        self._check_statuses(classified, certified, attacked)
        return tuple(self.kinds)

    def _check_question(self) -> None:
        """Check that result.json is about the question of the job."""
        q, result = self.q, self.claims.result
        domain = None if q.domain is None else list(q.domain)
        pairs = [
            ("network", result["network"]["sha256"], q.net.sha256),
            ("network's shape", list(result["network"]["shape"]), list(q.net.shape)),
            ("number of inputs", result["data"]["count"], len(q.data)),
            ("number of classes", result["classes"], class_count(q.net)),
            ("norm", result["norm"], str(q.norm)),
            ("domain", None if result["domain"] is None else list(result["domain"]), domain),
            ("clipping", result["clip"], q.clip),
            ("list of radii", list(result["radii"]), list(q.radii)),
        ]
        wrong = [f"result.json has another {name} than the job" for name, found, asked in pairs if found != asked]
        self._record("question", len(pairs), wrong)
        if result["data"]["count"] != len(q.data) or result["classes"] != class_count(q.net):
            raise InputError(f"{self.claims.folder}: {wrong[0]}; the folder is damaged")

    def _check_constants(self, where: Region) -> None:
        about = (self.q.net, where, self.q.norm)
        uppers = [p for p in self.claims.pairs if p.upper is not None]
        work = [Piece(p.name, _answer_upper, (*about, p.i, p.j, p.upper, self.claims.file(p.name))) for p in uppers]
        found = self._reasons("constants", work)
        for pair in uppers:
            if found[pair.name] is None and pair.upper is not None:
                self.constants[pair.i, pair.j] = self.constants[pair.j, pair.i] = pair.upper
        self._record("constants", len(work), _failed(found))
        lowers = [p for p in self.claims.pairs if p.lower is not None]
        reasons = {p.name: check_lower(*about, p.i, p.j, p.lower or 0.0, self.claims.point(p)) for p in lowers}
        self._record("lower bounds", len(lowers), _failed(reasons))

    def _check_classes(self) -> Classified:
        """Check labels and predictions; returns those that are right, with the leads that follow from them.

        Labels are those of the data, or the predicted ones. A prediction is right where no other class is proved to
        have a larger score, so that a tie within rounding may be called either way.
        """
        q, claims = self.q, self.claims
        found = classify(q.net, q.data.inputs, q.data.labels)
        rows = np.arange(len(q.data))
        known = (claims.predicted >= 0) & (claims.predicted < class_count(q.net))
        predicted = np.where(known, claims.predicted, found.predicted)
        good = known & (found.scores.hi[rows, predicted] >= found.scores.lo.max(axis=1))
        predicted = np.where(good, predicted, found.predicted)
        labels = predicted if q.data.labels is None else q.data.labels
        good &= claims.labels == labels
        self._record("labels and predictions", len(good), _words("its label or prediction is another one", ~good))
        return replace(found, labels=labels, predicted=predicted, lead=lead(found.scores, labels))

    def _check_radii(self, classified: Classified, reach: Array) -> Array:
        """Check the radii; returns the claimed ones where constants or margins prove them, else those by constants."""
        q, claimed = self.q, self.claims.certified
        rivals = rival_radii(classified, self.constants, reach)
        shared = np.where(classified.wrong, 0.0, rivals.min(axis=1))
        further = np.flatnonzero(claimed > shared)
        plain = (claimed > 0) & (claimed <= shared)
        self._record("radii by constants", int(plain.sum()), [])
        sound, wrong = further[~classified.wrong[further]], further[classified.wrong[further]]
        balls = {f"input-{k}": self._ball(int(k), int(classified.labels[k]), rivals[k], float(reach[k])) for k in sound}
        work = [
            Piece(name, _answer_refined, (q.net, ball, float(claimed[ball.index]), *self.claims.margins(ball.index)))
            for name, ball in balls.items()
        ]
        found = self._reasons("refined inputs", work)
        failed = _failed(found) + [f"input-{k}: it is misclassified and has a certified radius" for k in wrong]
        self._record("refined inputs", len(further), failed)
        proved = np.array([ball.index for name, ball in balls.items() if found[name] is None], dtype=np.intp)
        certified = np.minimum(claimed, shared)
        certified[proved] = claimed[proved]
        return certified

    def _ball(self, k: int, label: int, rivals: Array, reach: float) -> OpenInput:
        q = self.q
        return OpenInput(k, q.data.inputs[k], label, q.radii, q.limits, rivals, self.constants[label], reach, q.norm)

    def _check_counterexamples(self, classified: Classified) -> Array:
        """Check the counterexamples; returns their distances where a point proves them, infinite elsewhere."""
        q, found = self.q, self.claims.counterexamples
        claimed = np.isfinite(found.radius)
        proved = np.zeros(len(claimed), dtype=bool)
        if found.points.shape[1] == q.net.inputs:
            self._report("counterexamples", None)
            about = (q.net, q.data.inputs, classified.labels, found, q.limits, q.norm)
            proved[found.places[check_counterexamples(*about)]] = True
        failed = _words("no point proves its counterexample", claimed & ~proved)
        if found.classes is not None and found.points.shape[1] == q.net.inputs:
            owned = classified.labels[found.places]
            named = proved[found.places] & ~class_wins(q.net, found.points, owned, found.classes)
            failed += [f"input-{k}: its counterexample gets another class" for k in np.unique(found.places[named])]
        self._record("counterexamples", int(claimed.sum()), failed)
        return np.where(proved, found.radius, np.inf)

    def _check_statuses(self, classified: Classified, certified: Array, attacked: Array) -> None:
        """Check every status, tally and picture against those that follow from the proved radii and distances."""
        q, claims, result = self.q, self.claims, self.claims.result
        contradicted = np.flatnonzero(~classified.wrong & (attacked <= certified))
        if contradicted.size:
            at = f"{certified[contradicted[0]]!s}, and so is a counterexample at {attacked[contradicted[0]]!s}"
            raise SoundnessError(f"input {contradicted[0]} is proved up to {at}: a bug in lipcert, please report it")
        status = decide(q.radii[-1], certified, attacked, classified.wrong)
        failed = [f"input-{k}: its status is {STATUSES[status[k]]}" for k in np.flatnonzero(status != claims.status)]
        self._record("statuses", len(status), failed)
        wrong = int(classified.wrong.sum())
        asked = {"correct": len(status) - wrong, "misclassified": wrong}
        rows = [_tally(r, decide(r, certified, attacked, classified.wrong)) for r in q.radii]
        lines = [] if result["counts"] == asked else ["result.json counts other numbers of misclassified inputs"]
        stated = {row["radius"]: row for row in result["per_radius"]}
        others = [row["radius"] for row in rows if stated.get(row["radius"]) != row]
        lines += [f"result.json counts other numbers at radius {radius:g}" for radius in others]
        if len(result["per_radius"]) != len(rows):
            lines.append("result.json counts at other radii")
        images = q.data.inputs[: len(claims.images)].astype(np.float32)
        if not np.array_equal(claims.images, images):
            lines.append("arrays.npz shows other inputs")
        self._record("tallies and pictures", len(rows) + 3, lines)

    def _reasons(self, stage: str, work: list[Piece]) -> Reasons:
        """Check claims as pieces of a job: for each name why the claim is not proved, None where it is."""
        run = run_pieces(work, None, self.executor, lambda progress: self._report(stage, progress))
        if run.end is End.INTERRUPTED:
            raise KeyboardInterrupt
        reasons: Reasons = {piece.name: "it was not checked: the workers are gone" for piece in work}
        return reasons | {name: reason_of(o.value, o.error) for name, o in run.outcomes.items()}

    def _report(self, stage: str, progress: JobProgress | None) -> None:
        step()
        if self.on_progress is not None:
            self.on_progress(stage, progress)

    def _record(self, kind: str, count: int, failures: list[str]) -> None:
        now = time.monotonic()
        first = tuple(failures[:_SHOWN])
        self.kinds.append(ClaimsOfOneKind(kind, count, count - len(failures), now - self.clock, first))
        self.clock = now


def _answer_upper(*about: Any) -> Reasons:
    return {"reason": check_upper(*about)}


def _answer_refined(*about: Any) -> Reasons:
    return {"reason": check_refined(*about)}


def _failed(reasons: Reasons) -> list[str]:
    return [f"{name}: {reason}" for name, reason in reasons.items() if reason is not None]


def _words(reason: str, bad: NDArray[np.bool_]) -> list[str]:
    return [f"input-{k}: {reason}" for k in np.flatnonzero(bad)]


def _tally(radius: float, status: Codes) -> dict[str, Any]:
    counts = np.bincount(status, minlength=len(STATUSES)).tolist()
    codes = {"certified": CERTIFIED, "attacked": ATTACKED, "undecided": UNDECIDED}
    return {"radius": radius, **{name: counts[code] for name, code in codes.items()}}


@dataclass(frozen=True, eq=False, repr=False)
class FolderVerification(Shown):
    """The answer of `verify_folder`; `proved` if every claim follows from the certificates in the folder."""

    question: DataQuestion
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
        """The short table that a person reads first."""
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
    question = DataQuestion.of_job(claims.question, _network(claims.folder, net, data), data)
    with chosen_executor(workers) as executor:
        kinds = FolderCheck(question, claims, executor, on_progress).run()
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
