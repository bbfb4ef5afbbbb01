"""Read something, compare it with what it should compute, and say in a row what came of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import LipcertError

TOLERANCE = 1e-5
Array = NDArray[Any]


@dataclass
class Row:
    """One thing that was to be read: the errors are relative to the largest value, the message is of a refusal."""

    part: str
    name: str
    kind: str
    outcome: str = ""
    values: float | None = None
    gradients: float | None = None
    message: str = ""
    expected: bool = True
    counted: bool = True  # among those that should be read


@dataclass(frozen=True)
class Truth:
    """What a network computes on flat inputs, and the gradients of `weights` times the outputs where they are known.

    final: a softmax or log-softmax at the end, which a reader leaves out and says so: then what is compared are the
    logarithms of the probabilities up to a constant for each input, and the weights add up to zero. "probabilities" of
    scikit-learn are compared as they are, or so, or by their log-odds, by what the notes say.
    """

    inputs: Array
    values: Array | None
    weights: Array | None = None
    gradients: Array | None = None
    final: str = ""

    def scores(self, left_out: str) -> Array:
        """The values as they are before what was left out of the network: "softmax", "logistic" or nothing."""
        assert self.values is not None
        match left_out:
            case "softmax":
                return _centred(self.values if self.final == "log_softmax" else np.log(self.values))
            case "logistic":
                return np.asarray(np.log(self.values / (1.0 - self.values)))
            case _:
                return self.values


def judge(row: Row, read: Callable[[], Any], truth: Truth, refused: tuple[str, ...] = ()) -> Row:
    """The row with its outcome: read, wrong, refused or crash; `expected` is whether it should be so."""
    row.counted = not refused
    try:
        network = read()
    except LipcertError as error:
        row.outcome, row.message = "refused", str(error)
        row.expected = "\n" not in row.message and any(word in _reason(row.message) for word in refused)
        return row
    except Exception as error:
        row.outcome, row.message, row.expected = "crash", f"{type(error).__name__}: {error}", False
        return row
    if refused:
        row.outcome, row.message, row.expected = "read", "it should be refused", False
        return row
    try:
        row.message = _compare(row, network, truth)
    except Exception as error:
        row.message = f"{type(error).__name__}: {error}"
    row.outcome = "wrong" if row.message else "read"
    row.expected = not row.message
    return row


def _reason(message: str) -> str:
    """A refusal without the file's name, which may hold the words, and without the list of what is supported."""
    return re.sub(r"^\S+\.onnx: ", "", message).split("supported: ")[0]


def _compare(row: Row, network: Any, truth: Truth) -> str:
    """What is wrong with the network, or nothing; the errors go into the row."""
    notes = " ".join(network.notes).lower()
    left_out = next((word for word in ("softmax", "logistic") if word in notes and truth.final), "")
    if truth.final in ("softmax", "log_softmax") and left_out != "softmax":
        return "no note says that the softmax is left out"
    expected, found = truth.scores(left_out), np.asarray(network.forward(truth.inputs))
    if found.shape != expected.shape:
        return f"outputs of shape {found.shape}; {expected.shape} expected"
    row.values = relative(_centred(found) if left_out == "softmax" else found, expected)
    if truth.gradients is not None:
        slopes = np.broadcast_to(network.gradient(truth.inputs, truth.weights), truth.gradients.shape)
        row.gradients = relative(slopes, truth.gradients)
    else:
        row.gradients = _against_differences(network, truth.inputs)
    if not row.values <= TOLERANCE:
        return "the values differ"
    return "" if row.gradients <= TOLERANCE else "the gradients differ"


def relative(found: Array, expected: Array) -> float:
    """The largest difference, relative to the largest entry."""
    return float(np.max(np.abs(found - expected))) / max(float(np.max(np.abs(expected))), 1e-30)


def _against_differences(network: Any, inputs: Array) -> float:
    """The gradient beside central differences of the network itself, at the few inputs that are far from kinks."""
    rng = np.random.default_rng(2)
    weights, direction = rng.standard_normal((network.outputs,)), rng.standard_normal((inputs.shape[1],))
    direction = direction / np.linalg.norm(direction)
    slopes = network.gradient(inputs, weights) @ direction
    ends = [(network.forward(inputs + h * direction) @ weights) for h in (-1e-5, 0.0, 1e-5)]
    differences = (ends[2] - ends[0]) / 2e-5
    smooth = np.abs(ends[2] - 2 * ends[1] + ends[0]) <= 2e-9 * max(1.0, float(np.max(np.abs(ends[1]))))
    if not np.any(smooth):
        return 0.0
    error = np.abs(np.broadcast_to(slopes, differences.shape) - differences)[smooth]
    return float(np.max(error)) / max(float(np.max(np.abs(differences))), 1e-30)


def _centred(scores: Array) -> Array:
    return np.asarray(scores - scores.mean(axis=1, keepdims=True))
