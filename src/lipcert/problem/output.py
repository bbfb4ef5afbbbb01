"""The scalar output c'scores whose Lipschitz constant is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lipcert.errors import InputError, shown
from lipcert.problem.arrays import floats_of, whole_of
from lipcert.rounding import Array

OutputChoice = int | tuple[int, int] | ArrayLike | None
ALL = "all"
_SHOWN = 6  # weights that are read at a glance


@dataclass(frozen=True, eq=False)
class Output:
    """The weights c, and the words for them; c is the identity where all scores are asked for together."""

    c: Array
    description: dict[str, Any]

    def __str__(self) -> str:
        match self.description:
            case {"label": k}:
                return f"score {k}"
            case {"versus": [i, j]}:
                return f"score {i} - score {j}"
            case {"all": _}:
                return "all scores"
            case {"weights": weights} if len(weights) <= _SHOWN:
                return f"scores weighted by {', '.join(f'{w:g}' for w in weights)}"
            case _:
                return "weighted scores"


def choose_output(choice: OutputChoice | Output, outputs: int) -> Output:
    """One label (int), a difference of two labels (pair of ints), a weight vector, or "all" for the whole map.

    None when there is only one.
    """
    if isinstance(choice, Output):
        if choice.c.shape in ((outputs,), (outputs, outputs)):
            return choice
        choice = choice.c
    if choice is None:
        if outputs != 1:
            raise InputError(
                f"the network has {outputs} outputs; give output=K, (i, j) for a difference, 'all' or a weight vector",
                f"the network has {outputs} outputs; give --output K, --versus I J or --output all",
            )
        choice = 0
    if isinstance(choice, str) and choice == ALL:
        return _frozen(np.eye(outputs), {"all": outputs})
    if isinstance(choice, bool):
        raise InputError("output must be a label, a pair of labels or a weight vector, not a bool")
    label = whole_of(choice)
    if label is not None:
        c = np.zeros(outputs)
        c[_label(label, outputs)] = 1.0
        return _frozen(c, {"label": label})
    labels = [whole_of(k) for k in choice] if isinstance(choice, tuple) and len(choice) == 2 else [None]
    if None not in labels:
        i, j = (_label(int(k), outputs) for k in labels if k is not None)
        if i == j:
            raise InputError(f"versus {i} {j}: the two labels must differ")
        c = np.zeros(outputs)
        c[i], c[j] = 1.0, -1.0
        return _frozen(c, {"versus": [i, j]})
    _refuse_a_list_of_labels(choice, outputs)
    try:
        c = np.array(floats_of(choice))
    except (TypeError, ValueError):
        ways = "give a label as a number, (i, j) for a difference, 'all' or a weight vector of numbers"
        raise InputError(f"output={shown(choice)}: {ways}") from None
    if c.ndim == 0:
        raise InputError(
            f"output={choice}: give a whole number for a label, a pair of labels, 'all' or a weight vector"
        )
    if c.shape != (outputs,) or not np.all(np.isfinite(c)):
        raise InputError(f"output weights must be {outputs} finite numbers, one per score; got shape {c.shape}")
    return _frozen(c, {"weights": [float(e) for e in c]})


def _refuse_a_list_of_labels(choice: Any, outputs: int) -> None:
    """[0, 1] would be the weights of score 1 where the tuple is score 0 - score 1: nobody should find out later."""
    if not (isinstance(choice, list) and len(choice) == 2 and all(type(k) is int for k in choice)):
        return
    i, j = choice
    if outputs != 2 or {i, j} == {0, 1}:
        hint = f", or floats for weights: [{i}.0, {j}.0]" if outputs == 2 else ""
        raise InputError(f"output={choice}: give the tuple ({i}, {j}) for score {i} - score {j}{hint}")


def output_of(c: Array) -> Output:
    """The output that these weights mean, by its labels where it has them."""
    if c.ndim == 2:
        return choose_output(ALL, c.shape[1])
    plus, minus = np.flatnonzero(c == 1.0), np.flatnonzero(c == -1.0)
    if len(plus) == 1 and len(minus) <= 1 and np.count_nonzero(c) == 1 + len(minus):
        first, rest = int(plus[0]), [int(j) for j in minus]
        return choose_output((first, rest[0]) if rest else first, len(c))
    return choose_output(c, len(c))


def _label(k: int, outputs: int) -> int:
    if not 0 <= k < outputs:
        raise InputError(f"label {k} is out of range: the network has {outputs} outputs, 0 to {outputs - 1}")
    return k


def _frozen(c: Array, description: dict[str, Any]) -> Output:
    c.flags.writeable = False
    return Output(c, description)
