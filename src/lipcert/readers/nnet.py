"""The .nnet text format of ACAS Xu and Marabou.

// comments
layers, inputs, outputs, largest layer,                 or the number of layers alone
sizes of all layers, the input first,
a flag that has no use,
smallest inputs,  largest inputs,  means and  ranges (one per input, one for all outputs)
then for every layer: one line per row of the weight, one line per entry of the bias.

Controllers of the ARCH competition have headers with other counts: the layers alone, or one more number, which is left
aside. Where they store no normalisation, a single 0 stands for each of its lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from lipcert.errors import FileFormatError
from lipcert.files import MAX_WEIGHTS, MAX_WIDTH, contents
from lipcert.files.boundary import located, quoted
from lipcert.problem.activations import RELU, Activation
from lipcert.problem.blocks import Affine
from lipcert.problem.network import Network
from lipcert.rounding import Array


def read(path: Path, *, normalize: bool = False) -> Network:
    """The network, fed with normalised inputs; with `normalize`, with raw inputs and giving raw outputs.

    The format also clips inputs to their smallest and largest values. Clipping is not affine and is left out: it
    makes no difference for inputs between these values.
    """
    with located(path):
        return _network(_NumberLines(contents(path)), normalize)


class _NumberLines:
    """The lines that carry numbers, each with its number in the file."""

    def __init__(self, data: bytes) -> None:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise FileFormatError("not a text file; .nnet files are text") from None
        lines = [line.strip().rstrip(", \t") for line in text.splitlines()]
        self._numbers = [i for i, line in enumerate(lines, start=1) if line and not line.startswith("//")]
        self._lines = [lines[i - 1] for i in self._numbers]
        self._next = 0

    def take(self, what: str, count: int, *widths: int) -> Array:
        """The next `count` lines as a (count, width) array, each with one of the allowed numbers of entries."""
        start, stop = self._next, self._next + count
        if stop > len(self._lines):
            raise FileFormatError(f"the file ends before {what}; {stop - len(self._lines)} lines are missing")
        lines, self._next = self._lines[start:stop], stop
        entries = [line.count(",") + 1 for line in lines]
        allowed = [w for w in widths if w == entries[0]] or widths
        for offset, entry in enumerate(entries):
            if entry != allowed[0]:
                expected = " or ".join(map(str, widths))
                raise FileFormatError(
                    f"line {self._numbers[start + offset]}: {what} needs {expected} numbers, found {entry}"
                )
        text = ",".join(lines)
        try:
            values = np.array(list(map(float, text.split(","))))
        except ValueError:
            raise self._not_a_number(what, start, stop) from None
        # Python reads 1_0 as ten; a file that says so is damaged.
        if "_" in text or not np.all(np.isfinite(values)):
            raise self._not_a_number(what, start, stop)
        return values.reshape(count, -1)

    def integers(self, what: str, *widths: int, positive: int | None = None) -> list[int]:
        """The next line as whole numbers, all of them or the first few positive, the others at least 0."""
        number = self._numbers[self._next] if self._next < len(self._numbers) else 0
        values = self.take(what, 1, *widths)[0]
        least = np.arange(values.size) < (values.size if positive is None else positive)
        if np.any(values != np.floor(values)) or np.any(values < least) or np.any(values > MAX_WIDTH):
            raise FileFormatError(f"line {number}: {what} must be whole numbers from 1 to {MAX_WIDTH:,}")
        return [int(v) for v in values]

    def finish(self) -> None:
        if self._next < len(self._lines):
            raise FileFormatError(f"line {self._numbers[self._next]}: more lines than the layer sizes ask for")

    def _not_a_number(self, what: str, start: int, stop: int) -> FileFormatError:
        for number, line in zip(self._numbers[start:stop], self._lines[start:stop], strict=True):
            for entry in line.split(","):
                if not _is_finite(entry):
                    return FileFormatError(f"line {number}: {what} holds {quoted(entry)}, which is not a finite number")
        return FileFormatError(f"{what} holds something that is not a number")


def _network(lines: _NumberLines, normalize: bool) -> Network:
    header = lines.integers("the header (layers, inputs, outputs, largest layer)", 4, 3, 5, 1, positive=3)
    sizes = lines.integers("the layer sizes", header[0] + 1)
    inputs, outputs = header[1:3] or (sizes[0], sizes[-1])
    if (sizes[0], sizes[-1]) != (inputs, outputs):
        raise FileFormatError(
            f"the header says {inputs} inputs and {outputs} outputs, the sizes say {sizes[0]} and {sizes[-1]}"
        )
    if sum(n * m for n, m in pairwise(sizes)) > MAX_WEIGHTS:
        raise FileFormatError(f"the layer sizes ask for more than {MAX_WEIGHTS:,} weights")
    lines.take("the flag", 1, 1)
    lines.take("the smallest inputs", 1, inputs, 1)
    lines.take("the largest inputs", 1, inputs, 1)
    mean, scale = _normalisation(lines, inputs)
    affines = []
    for i, (n, m) in enumerate(pairwise(sizes), start=1):
        weight = lines.take(f"the weight of layer {i}", m, n)
        affines.append(Affine(weight, lines.take(f"the bias of layer {i}", m, 1)[:, 0]))
    lines.finish()
    if normalize:
        affines = _folded(affines, mean, scale)
        note = "the normalisation is folded in; the clipping of inputs to their smallest and largest values is not"
    else:
        note = "the normalisation stored in the file is not applied: inputs are to be normalised already"
    trivial = not np.any(mean) and bool(np.all(scale == 1.0))
    steps: list[Affine | Activation] = [affines[0]]
    for affine in affines[1:]:
        steps += [RELU, affine]
    return Network.from_steps(steps, [] if trivial else [note])


def _normalisation(lines: _NumberLines, inputs: int) -> tuple[Array, Array]:
    """Means and ranges, one per input and one for the outputs; 0 and 1 where a single 0 says that there are none."""
    means = lines.take("the means", 1, inputs + 1, inputs, 1)[0]
    ranges = lines.take("the ranges", 1, inputs + 1, inputs, 1)[0]
    if means.size == ranges.size == 1 and not means.any() and not ranges.any():
        return np.zeros(inputs + 1), np.ones(inputs + 1)
    if min(means.size, ranges.size) < inputs:
        raise FileFormatError(f"the means or ranges are one number for {inputs} inputs; one for each is needed")
    return _completed(means, inputs, 0.0), _completed(ranges, inputs, 1.0)


def _folded(affines: Sequence[Affine], mean: Array, scale: Array) -> list[Affine]:
    """Inputs enter as (x - mean) / range, outputs leave as y range + mean."""
    if np.any(scale == 0.0):
        raise FileFormatError("a range is zero, so its normalisation cannot be applied; read it without normalize")
    first = affines[0]
    weight = first.weight / scale[:-1]
    maps = [Affine(weight, first.bias - weight @ mean[:-1]), *affines[1:]]
    last = maps[-1]
    maps[-1] = Affine(last.weight * scale[-1], last.bias * scale[-1] + mean[-1])
    return maps


def _completed(values: Array, inputs: int, default: float) -> Array:
    """One value per input and one for the outputs, which some files leave out."""
    return values if values.size > inputs else np.append(values, default)


def _is_finite(entry: str) -> bool:
    try:
        return "_" not in entry and bool(np.isfinite(float(entry)))
    except ValueError:
        return False
