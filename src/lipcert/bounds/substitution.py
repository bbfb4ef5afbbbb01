"""Backward substitution [CROWN18]: linear forms in the input above neurons of a block, on many cells at once.

A form in hand has coefficients for several blocks. From the top down, the values x_i of a block give way to linear
bounds in z_i, and z_i to what it reads,

    r x_i  <=  r+ (a z_i + b) + r- (a' z_i + b'),      z_i = b_i + sum_j A_ij x_j,

until only the input is left. The form is exact by definition: what rounding changes in its coefficients is paid for at
once, as |change| times the largest |x|, in `error`, and so is the slack of z. `size` bounds the constants added, for
the errors of adding them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.forms import Forms, each
from lipcert.bounds.interval import Interval, times
from lipcert.problem.activations import Lines
from lipcert.problem.blocks import Block
from lipcert.problem.maps import Matrix, dense, dense_work, entries, is_sparse
from lipcert.rounding import TINY, UNIT, Array, gamma
from lipcert.steps import DENSE, RATES, THIN, step

_PASSES = 50  # operations for what is done to one coefficient besides the products, on one core


@dataclass(frozen=True, eq=False)
class Stage:
    """A block with what is known of it on every cell: bounds of z, of x, and of the values of each of its sources."""

    block: Block
    z: Interval
    x: Interval
    sources: tuple[Interval, ...]

    @cached_property
    def lines(self) -> Lines:
        """Linear bounds of the activation."""
        return self.block.activation.lines(self.z.lo, self.z.hi)

    @cached_property
    def flow(self) -> Array:
        """sum_j |A_ij| |x_j| at most: what the rounding of the coefficients is multiplied with."""
        pairs = zip(self.block.terms, self.sources, strict=True)
        return np.asarray(sum(times(x.magnitude, abs(weight)) for (_, weight), x in pairs))

    def prices(self, paid: Array) -> Array:
        """What a coefficient of x costs, in sizes of constants and in errors, where one of z costs `paid`: it has at
        most the steeper slope times as much."""
        lines, bias = self.lines, np.abs(self.block.bias)
        steep = np.maximum(np.abs(lines.up_slope), np.abs(lines.low_slope))
        shift = np.maximum(np.abs(lines.up_shift), np.abs(lines.low_shift))
        return np.stack([shift + steep * bias, steep * paid], axis=2)

    @cached_property
    def reach(self) -> Array:
        """The sum of all |x_j| and |z| at most, cell by cell: what underflow is multiplied with."""
        return np.asarray(sum(x.magnitude.sum(axis=1) for x in (self.z, *self.sources)))


def forms_above(block: Block, neurons: NDArray[np.int64], stages: Sequence[Stage], box: Interval) -> Forms:
    """Forms above z of some neurons of a block (first half) and above -z (second half); `stages` are those before.

    `neurons` are the same of all cells, or a row for each.
    """
    count, r = len(box.lo), 2 * neurons.shape[-1]
    own = np.broadcast_to(neurons, (count, r // 2))
    constant = np.concatenate([block.bias[own], -block.bias[own]], axis=1)
    size, error = np.abs(constant), np.tile(block.doubt[own], (1, 2))
    longest = _longest([*(s.block for s in stages), block])
    pending = {j: np.broadcast_to(_both(weight, neurons), (count, r, weight.shape[1])) for j, weight in block.terms}
    return descend(stages, pending, {}, Forms(np.zeros((count, r, 0)), constant, size, error, longest))


def descend(stages: Sequence[Stage], pending: dict[int, Array], lifted: dict[int, Array], start: Forms) -> Forms:
    """Forms in the input above sums of values x_j (`pending`) and pre-activations z_i (`lifted`), by coefficients.

    `start` has the constants, sizes and errors so far, which are added to; its rows are not looked at.
    """
    constant, size, error, longest = start.constant, start.size, start.error, start.longest
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(len(stages), 0, -1):
            if i not in pending and i not in lifted:
                continue
            stage, rows = stages[i - 1], lifted.get(i)
            paid = 4 * UNIT * stage.z.magnitude + gamma(longest) * stage.flow + stage.block.doubt
            error += (longest * TINY * (1.0 + stage.reach))[:, None]
            if rows is not None:
                bias = np.broadcast_to(np.abs(stage.block.bias), paid.shape)
                sums = np.matmul(np.abs(rows), np.stack([bias, paid], axis=2))
                size += sums[:, :, 0]
                error += sums[:, :, 1]
            if i in pending:
                more, shift, weights = through_lines(pending.pop(i), stage.lines)
                constant += shift
                sums = np.matmul(weights, stage.prices(paid))
                size += sums[:, :, 0]
                error += sums[:, :, 1]
                if rows is not None:
                    more = more + rows
                    error += 2 * UNIT * each(np.abs(more), stage.z.magnitude)
                rows = more
            assert rows is not None
            flat = rows.reshape(-1, rows.shape[2])
            constant += (flat @ stage.block.bias).reshape(constant.shape)
            for (j, weight), x in zip(stage.block.terms, stage.sources, strict=True):
                pulled = through(flat, weight).reshape(*rows.shape[:2], -1)
                if j in pending:
                    pulled += pending[j]
                    error += 2 * UNIT * each(np.abs(pulled), x.magnitude)
                pending[j] = pulled
    return Forms(pending[0], constant, size, error, longest)


def _both(weight: Matrix, neurons: NDArray[np.int64]) -> Array:
    A = weight[neurons] if isinstance(weight, np.ndarray) else dense(weight[neurons])
    return np.concatenate([A, -A], axis=-2)


def through_lines(rows: Array, lines: Lines) -> tuple[Array, Array, Array]:
    """Coefficients of z above rows x, with the constants that this adds, and |rows|."""
    positive = np.maximum(rows, 0.0)
    shift = each(positive, lines.up_shift)
    if lines.low_shift.any():
        shift += each(rows - positive, lines.low_shift)
    return rows * np.where(rows > 0, lines.up_slope[:, None, :], lines.low_slope[:, None, :]), shift, np.abs(rows)


def through(rows: Array, weight: Matrix) -> Array:
    """rows times a matrix."""
    step()
    return np.asarray(rows @ weight, dtype=np.float64)


def _longest(blocks: Sequence[Block]) -> int:
    """No number in a form of the last of these blocks is a sum of more terms."""
    return longest_side(blocks) + 8 * (sum(len(b.terms) for b in blocks) + 1)


def longest_side(blocks: Iterable[Block]) -> int:
    """Of their weight matrices."""
    return max(int(max(weight.shape)) for b in blocks for _, weight in b.terms)


def work(block: Block, below: Sequence[Block]) -> tuple[float, str]:
    """Operations for the forms of one neuron of a block and their kind; a dense product is counted at its own rate."""
    weights = [weight for b in below for _, weight in b.terms]
    loose = _PASSES * 2.0 * sum(b.width for b in (block, *below))
    solid = 4.0 * sum(dense_work(weight) for weight in weights if not is_sparse(weight))
    thin = 4.0 * sum(entries(weight) for weight in weights if is_sparse(weight))
    ratio = RATES[DENSE] / RATES[THIN]
    return (thin + loose + solid / ratio, THIN) if thin else (solid + loose * ratio, DENSE)
