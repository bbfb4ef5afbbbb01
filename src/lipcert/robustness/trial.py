"""A trial of the two ways to certify a data set: constants that all inputs share, or proofs input by input.

Shared constants are a price paid once, and give every input a radius of its own; on deep networks they are often so
large that they certify nothing. Linear bounds of a few inputs, and the constants of the two pairs of classes that
matter to the most inputs, tell which way is worth it before the time of all pairs is spent.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from lipcert.budget import Budget
from lipcert.jobs import Piece
from lipcert.robustness.decision import Classified, rival_radii
from lipcert.robustness.question import DataQuestion
from lipcert.robustness.refine import OpenInput, prove_class
from lipcert.rounding import Array

TRIED = 2  # pairs of classes whose constants are tried
_SAMPLE = 10  # inputs that linear bounds are tried on
_LONGEST = 10.0  # seconds after which no further input is tried
_LEAST = 1.0  # seconds for each pair, at least
_AS_GOOD = 0.5  # share of what linear bounds certify that constants have to certify: they serve every radius at once


@dataclass(frozen=True)
class TriedInputs:
    """The share of a sample of inputs that linear bounds certify at the smallest radius, and the seconds of each."""

    share: float
    seconds: float


def try_inputs(question: DataQuestion, classified: Classified) -> TriedInputs:
    """Linear bounds of a few inputs that are classified right, evenly spread over the data set."""
    q, right = question, np.flatnonzero(~classified.wrong)
    start, proved, count = time.monotonic(), 0, 0
    for k in right[np.unique(np.linspace(0, len(right) - 1, min(_SAMPLE, len(right))).astype(np.int64))]:
        label = int(classified.labels[k])
        ball = OpenInput(int(k), q.data.inputs[k], label, q.radii, q.limits, np.zeros(0), norm=q.norm)
        rivals = np.delete(np.arange(classified.lead.shape[1]), label)
        proved += prove_class(q.net, ball.region(q.radii[0]), label, rivals, Budget.of_work(0.0)).proved
        count += 1
        if time.monotonic() - start > _LONGEST:
            break
    return TriedInputs(proved / max(count, 1), (time.monotonic() - start) / max(count, 1))


def hurried_pieces(pieces: list[Piece], classified: Classified, inputs: TriedInputs) -> list[Piece]:
    """The pieces with as much time, all together, as linear bounds of all inputs take, but at least a second each."""
    seconds = max(_LEAST, inputs.seconds * int(np.sum(~classified.wrong)) / len(pieces))
    return [_shorter(piece, seconds) for piece in pieces]


def tried_pieces(pieces: list[Piece], classified: Classified) -> list[Piece]:
    """The pieces of the pairs that are tried: label and nearest rival of the most inputs."""
    right = np.flatnonzero(~classified.wrong)
    rivals = np.argmin(classified.lead[right], axis=1)
    pairs = Counter(
        tuple(sorted(pair)) for pair in zip(classified.labels[right].tolist(), rivals.tolist(), strict=True)
    )
    names = [f"pair-{i}-{j}" for (i, j), _ in pairs.most_common(TRIED)]
    return [piece for piece in pieces if piece.name in names]


def _shorter(piece: Piece, seconds: float) -> Piece:
    net, where, pair, settings, norm = piece.arguments
    settings = replace(settings, time_limit=min(settings.time_limit, seconds))
    return replace(piece, arguments=(net, where, pair, settings, norm))


def share_by_constants(classified: Classified, constants: Array, reach: Array, radius: float) -> float:
    """The share of the inputs of the tried classes whose other class stays behind within the radius."""
    behind = rival_radii(classified, constants, reach) >= radius
    known = np.isfinite(constants[classified.labels])
    known[np.arange(len(known)), classified.labels] = False
    known &= ~classified.wrong[:, None]
    return float(behind[known].mean()) if known.any() else 0.0


def worth_sharing(by_constants: float, inputs: TriedInputs) -> bool:
    """Whether all pairs are worth their time."""
    return by_constants > 0 and by_constants >= _AS_GOOD * inputs.share
