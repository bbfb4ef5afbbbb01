"""Pieces that a job folder holds, each used only after its check; the others are done again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from lipcert.errors import SoundnessError
from lipcert.jobs import End, JobFolder, Outcome, Piece, Progress, run_pieces
from lipcert.robustness.check import Reason, reason_of

Check = Callable[..., dict[str, Reason]]  # of the piece's arguments, the value stored and the path of its file


def checked_outcomes(
    pieces: Sequence[Piece],
    check: Check,
    folder: JobFolder | None,
    executor: Executor,
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[dict[str, Outcome], list[str]]:
    """By name the outcomes in the folder that their files prove, and notes on those that are done again.

    A piece that failed before keeps its error, which proves nothing; a contradiction is looked for again.
    """
    loaded = {} if folder is None else {piece.name: folder.load(piece.name) for piece in pieces}
    stored = {name: outcome for name, outcome in loaded.items() if outcome is not None}
    kept = {name: o for name, o in stored.items() if o.failed and not str(o.error).startswith(SoundnessError.__name__)}
    checks = [_check(piece, check, stored[piece.name]) for piece in pieces if piece.name in stored.keys() - kept.keys()]
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


def _check(piece: Piece, check: Check, outcome: Outcome) -> Piece:
    if outcome.value is None:
        return Piece(piece.name, _contradiction)
    file = outcome.files.get("npz")
    where: Any = file if isinstance(file, Path) else None
    return Piece(piece.name, check, (*piece.arguments, outcome.value, where))


def _contradiction() -> dict[str, Reason]:
    return {"reason": "it ended with a contradiction"}
