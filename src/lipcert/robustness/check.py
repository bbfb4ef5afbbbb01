"""Claims of a job folder, one by one, against the files that should prove them.

Nothing that a record says is believed. A constant follows from its certificate, the radius of a refined input from the
margins on that input's own box, a lower bound and a counterexample from a point. `certify --resume` and
`lipcert verify FOLDER` both ask here; every function answers with the reason why a claim does not follow, in words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import InputError, SoundnessError
from lipcert.files.json_kinds import many as several
from lipcert.files.json_kinds import maybe, number, record, size, text, verbatim, whole
from lipcert.jobs import End, JobFolder, JobProgress, Outcome, Piece, run_pieces
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import choose_output
from lipcert.problem.problem import Problem
from lipcert.problem.question import Question
from lipcert.problem.region import Ball, Box, Everywhere, Region, hull
from lipcert.proof.certificate import Certificate
from lipcert.proof.file import load_certificate
from lipcert.proof.margins import MarginCertificate
from lipcert.robustness.attack import Counterexamples, another_class_wins, distance
from lipcert.robustness.data import Labels
from lipcert.robustness.decision import pair_output
from lipcert.robustness.refine import OpenInput, against
from lipcert.rounding import Array
from lipcert.search.progress import Status
from lipcert.search.settings import Settings
from lipcert.witness.witness import evaluate

Domain = tuple[float, float] | None
Reason = str | None
Check = Callable[..., dict[str, Reason]]  # takes a piece's arguments, the value stored and the path of its file

_PAIR = record(i=whole(), j=whole(), upper=maybe(size), lower=maybe(size), method=text, witness=maybe(several(number)))
_INPUT = record(input=whole(), label=whole(), radius=size)
_REASON = record(reason=maybe(verbatim))
SOMETHING_ELSE = "its certificate is about something else"


def check_upper(net: Network, region: Region, norm: Norm, i: int, j: int, upper: float, file: Path) -> Reason:
    """Why the certificate in the file does not prove L_ij <= upper on the region; None when it does."""
    try:
        certificate = load_certificate(file)
    except InputError as error:
        return str(error)
    if certificate.network_sha256 != net.sha256:
        return "its certificate is about another network"
    c = choose_output(pair_output(net, i, j), net.outputs).c
    plain = certificate.coordinate is None and certificate.frame is None
    same = plain and certificate.norm == norm and np.array_equal(certificate.c, c)
    if not same or not _covers(certificate.region, region):
        return SOMETHING_ELSE
    # Only the proof and its region are taken from the file; the question is made anew, whatever else the file says.
    question = Question(net, (certificate.region,), norm, c)
    answer = Certificate(question, certificate.proof, upper, claim=upper).verify(net)
    if np.isinf(answer.upper):
        return answer.reason
    return None if answer.upper <= upper else f"its certificate proves {answer.upper:.9g}, not {upper:.9g}"


def _covers(proved: Region, asked: Region) -> bool:
    if isinstance(proved, Everywhere):
        return True
    if isinstance(proved, Ball) and isinstance(asked, Ball):
        same = np.array_equal(proved.center, asked.center) and proved.clip in (None, asked.clip)
        return same and asked.radius <= proved.radius
    around = hull(asked)
    if around is None or not (isinstance(proved, Box) and proved.size == around.size):
        return False
    return proved.contains(around.lo) and proved.contains(around.hi)


def check_lower(
    net: Network, region: Region, norm: Norm, i: int, j: int, lower: float, point: tuple[float, ...] | None
) -> Reason:
    """Why the gradient of score_i - score_j at the point does not prove L_ij >= lower; None when it does."""
    if lower == 0:
        return None
    if point is None or len(point) != net.inputs or not region.contains(np.array(point)):
        return "its lower bound has no point of the region"
    found = evaluate(Problem.of(net, region, pair_output(net, i, j), norm), np.array(point))
    return None if found >= lower else f"its point proves {found:.9g}, not {lower:.9g}"


def proved_radius(net: Network, ball: OpenInput, file: Path) -> tuple[float, Reason]:
    """The radius within which the margins in the file prove that the input keeps its label, and why it is 0.

    The region of the margins must hold the input's own at one of its radii; what follows is for the largest of them.
    A rival that the shared constants leave open there must have a margin, proved below zero just now.
    """
    try:
        kept = load_certificate(file, MarginCertificate)
    except InputError as error:
        return 0.0, str(error)
    if kept.network_sha256 != net.sha256 or kept.region.size != net.inputs:
        return 0.0, "its margins are about another network"
    inside = [r for r in ball.radii if _covers(kept.region, ball.region(r))]
    if not inside:
        return 0.0, "its margins are about another box or ball"
    radius = max(inside)
    uppers = kept.verify(net).found.hi.tolist()
    margins = np.full(len(ball.rivals), np.inf)
    rows = {against(net, ball.label, k).tobytes(): k for k in range(len(ball.rivals)) if k != ball.label}
    for proof, upper, claim in zip(kept.proofs, uppers, kept.claims, strict=True):
        rival = rows.get(proof.c.tobytes())
        if rival is not None and upper <= claim < 0:  # false for nan
            margins[rival] = min(margins[rival], claim)
    behind = margins < 0
    left = np.flatnonzero(~(ball.rivals >= radius) & ~behind)
    if left.size:
        return 0.0, f"class {left[0]} is not proved to stay behind within {radius:g}"
    rivals = np.flatnonzero(behind)
    return ball.beyond(radius, rivals, margins[rivals]), None


def check_kept_pair(
    net: Network,
    region: Region,
    pair: tuple[int, int],
    _settings: Settings,
    norm: Norm,
    value: dict[str, Any],
    file: Path | None,
) -> dict[str, Reason]:
    """The answer about a stored outcome of `pair_constant` with these arguments."""
    try:
        claim = _PAIR(value, "")
    except InputError as error:
        return {"reason": f"its record is damaged: {error}"}
    if (claim["i"], claim["j"]) != pair or (claim["upper"] is None) != (file is None):
        return {"reason": "its record is about something else"}
    if value.get("status") == Status.INTERRUPTED.name.lower():  # an earlier release kept these
        return {"reason": "it was interrupted"}
    about = (net, region, norm, *pair)
    reason = None if file is None else check_upper(*about, claim["upper"], file)
    if reason is None and claim["lower"] is not None:
        reason = check_lower(*about, claim["lower"], claim["witness"])
    return {"reason": reason}


def check_kept_input(
    net: Network, ball: OpenInput, _seconds: float, _memory: Any, value: dict[str, Any], file: Path | None
) -> dict[str, Reason]:
    """The answer about a stored outcome of `refine_input` with these arguments."""
    try:
        claim = _INPUT(value, "")
    except InputError as error:
        return {"reason": f"its record is damaged: {error}"}
    same = (claim["input"], claim["label"]) == (ball.index, ball.label)
    if not same or (claim["radius"] == 0) != (file is None):
        return {"reason": "its record is about something else"}
    return {"reason": None if file is None else check_refined(net, ball, claim["radius"], file)}


def check_refined(net: Network, ball: OpenInput, radius: float, *files: Path) -> Reason:
    """Why the margins in none of the files prove this radius, in the words of the last one; None when some do."""
    reason: Reason = "there are no margins"
    for file in files:
        proved, reason = proved_radius(net, ball, file)
        if reason is None and radius <= proved:
            return None
        reason = reason or f"its margins prove the radius {proved:.9g}, not {radius:.9g}"
    return reason


def reason_of(answer: dict[str, Any] | None, error: str | None) -> Reason:
    """The reason that a check gave when it ran as a piece; a check that failed gives its error."""
    return error if answer is None else _REASON(answer, "")["reason"]


def check_counterexamples(
    net: Network, inputs: Array, labels: Labels, found: Counterexamples, limits: Domain, norm: Norm
) -> NDArray[np.bool_]:
    """For every point of `found` whether it proves what is said of its input: another class wins at the point, within
    the radius, and within the limits where there are any."""
    if not len(found.places):
        return np.zeros(0, dtype=bool)
    with np.errstate(all="ignore"):  # a number that overflows proves nothing, and needs no warning
        near = distance(found.points, inputs[found.places], norm) <= found.radius[found.places]
        good = near & another_class_wins(net, found.points, labels[found.places])
    if limits is not None:
        good &= (found.points.min(axis=1) >= limits[0]) & (found.points.max(axis=1) <= limits[1])
    return np.asarray(good)


def checked_outcomes(
    pieces: Sequence[Piece],
    check: Check,
    folder: JobFolder | None,
    executor: Executor,
    on_progress: Callable[[JobProgress], None] | None = None,
) -> tuple[dict[str, Outcome], list[str]]:
    """The outcomes in the folder that their files prove, by name, and a note on each piece that is done again.

    A piece that failed before keeps its error, which proves nothing; a contradiction is looked for again.
    """
    loaded = {} if folder is None else {piece.name: folder.load(piece.name) for piece in pieces}
    stored = {name: outcome for name, outcome in loaded.items() if outcome is not None}
    kept = {name: o for name, o in stored.items() if o.failed and not str(o.error).startswith(SoundnessError.__name__)}
    checks = [
        _check_of(piece, check, stored[piece.name]) for piece in pieces if piece.name in stored.keys() - kept.keys()
    ]
    run = run_pieces(checks, None, executor, on_progress if checks else None)
    if run.end is End.INTERRUPTED:
        raise KeyboardInterrupt
    notes = []
    for name in [piece.name for piece in checks]:
        outcome = run.outcomes.get(name)
        reason = "it was not checked" if outcome is None else reason_of(outcome.value, outcome.error)
        if reason is None:
            kept[name] = stored[name]
        else:
            notes.append(f"{name} is done again: {reason}")
    return kept, notes


def _check_of(piece: Piece, check: Check, outcome: Outcome) -> Piece:
    if outcome.value is None:
        return Piece(piece.name, _contradiction)
    file = outcome.files.get("npz")
    where: Any = file if isinstance(file, Path) else None
    return Piece(piece.name, check, (*piece.arguments, outcome.value, where))


def _contradiction() -> dict[str, Reason]:
    return {"reason": "it ended with a contradiction"}
