"""Backward substitution [CROWN18]: linear forms in the input above neurons of a block, on many cells at once.

A form has coefficients for several blocks. From the top down, the values x_i of a block are replaced by linear bounds
in z_i, and z_i by the values that the block reads,

    r x_i  <=  r+ (a z_i + b) + r- (a' z_i + b'),      z_i = b_i + sum_j A_ij x_j,

until only the input is left. The form is exact by definition: a change that rounding makes to a coefficient is paid for
at once, as |change| times the largest |x|, in `error`, and so is the slack of z. `size` bounds the constants added, for
the errors of adding them.

A `Tangent` is a block with lines close to a smooth activation (`problem.activations.enclosures`), and with lines of
its slope too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.forms import LinearForms, each
from lipcert.bounds.interval import Interval, times
from lipcert.problem.activations import Activation, Lines
from lipcert.problem.activations.enclosures import secant
from lipcert.problem.blocks import Block
from lipcert.problem.maps import Matrix, dense, dense_work, entries, is_sparse
from lipcert.problem.network import Network
from lipcert.rounding import TINY, UNIT, Array, gamma
from lipcert.steps import DENSE, RATES, THIN, step

_PASSES = 50  # operations on one coefficient besides the products, on one core


@dataclass(frozen=True, eq=False)
class BoundedBlock:
    """A block with what is known of it on every cell: bounds of z, of x, and of the values of each of its sources."""

    block: Block
    z: Interval
    x: Interval
    sources: tuple[Interval, ...]

    @cached_property
    def lines(self) -> Lines:
        """Linear bounds of the activation."""
        return self.block.activation.lines(self.z.lo, self.z.hi)

    def carried(self, rows: Array) -> tuple[Array, Array, Array]:
        """Coefficients of z in a bound of rows x from above, what is added to the constants, and |rows|."""
        return through_lines(rows, self.lines)

    @cached_property
    def flow(self) -> Array:
        """At least sum_j |A_ij| |x_j|, by which the rounding of the coefficients is multiplied."""
        pairs = zip(self.block.terms, self.sources, strict=True)
        return np.asarray(sum(times(x.magnitude, abs(weight)) for (_, weight), x in pairs))

    def prices(self, paid: Array) -> Array:
        """The price of a coefficient of x, in sizes of constants and in errors, where one of z costs `paid`.

        The coefficient that z gets is at most the steeper slope times as large.
        """
        lines, bias = self.lines, np.abs(self.block.bias)
        steep = np.maximum(np.abs(lines.up_slope), np.abs(lines.low_slope))
        shift = np.maximum(np.abs(lines.up_shift), np.abs(lines.low_shift))
        return np.stack([shift + steep * bias, steep * paid], axis=2)

    @cached_property
    def reach(self) -> Array:
        """At least the sum of all |x_j| and |z|, cell by cell, by which underflow is multiplied."""
        return np.asarray(sum(x.magnitude.sum(axis=1) for x in (self.z, *self.sources)))


def forms_above(block: Block, neurons: NDArray[np.int64], stages: Sequence[BoundedBlock], box: Interval) -> LinearForms:
    """Forms above z of some neurons of a block (first half) and above -z (second half).

    `stages` are the blocks before it; `neurons` are the same for all cells, or a row for each.
    """
    count, r = len(box.lo), 2 * neurons.shape[-1]
    own = np.broadcast_to(neurons, (count, r // 2))
    constant = np.concatenate([block.bias[own], -block.bias[own]], axis=1)
    size, error = np.abs(constant), np.tile(block.doubt[own], (1, 2))
    longest = _longest([*(s.block for s in stages), block])
    pending = {j: np.broadcast_to(_both(weight, neurons), (count, r, weight.shape[1])) for j, weight in block.terms}
    return descend(stages, pending, {}, LinearForms(np.zeros((count, r, 0)), constant, size, error, longest))


def descend(
    stages: Sequence[BoundedBlock], pending: dict[int, Array], lifted: dict[int, Array], start: LinearForms
) -> LinearForms:
    """Forms in the input above sums of values x_j and pre-activations z_i: `pending` and `lifted` are coefficients.

    `start` has the constants, sizes and errors so far, to which this function adds; its rows are not used.
    """
    constant, size, error, longest = start.constant, start.size, start.error, start.longest
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(len(stages), 0, -1):
            if i not in pending and i not in lifted:
                continue
            stage, rows = stages[i - 1], lifted.get(i)
            paid = 8 * UNIT * stage.z.magnitude + gamma(longest) * stage.flow + stage.block.doubt
            error += (longest * TINY * (1.0 + stage.reach))[:, None]
            if rows is not None:
                bias = np.broadcast_to(np.abs(stage.block.bias), paid.shape)
                sums = np.matmul(np.abs(rows), np.stack([bias, paid], axis=2))
                size += sums[:, :, 0]
                error += sums[:, :, 1]
            if i in pending:
                more, shift, weights = stage.carried(pending.pop(i))
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
    return LinearForms(pending[0], constant, size, error, longest)


def _both(weight: Matrix, neurons: NDArray[np.int64]) -> Array:
    A = weight[neurons] if isinstance(weight, np.ndarray) else dense(weight[neurons])
    return np.concatenate([A, -A], axis=-2)


def through_lines(rows: Array, lines: Lines) -> tuple[Array, Array, Array]:
    """Coefficients of z in a bound of rows x from above, the constants that the lines add, and |rows|."""
    positive = np.maximum(rows, 0.0)
    shift = each(positive, lines.up_shift)
    if lines.low_shift.any():
        shift += each(rows - positive, lines.low_shift)
    return steeper(rows, positive, lines.up_slope, lines.low_slope), shift, np.abs(rows)


def steeper(rows: Array, positive: Array, up: Array, low: Array) -> Array:
    """Positive rows times `up`, negative ones times `low`, within 6 units in the last place of the steeper slope.

    The array `positive` holds the positive parts of the rows, and is used up: few passes over few arrays are quick.
    """
    positive *= (up - low)[:, None, :]
    found = rows * low[:, None, :]
    found += positive
    return found


def through(rows: Array, weight: Matrix) -> Array:
    """rows times a matrix."""
    step()
    return np.asarray(rows @ weight, dtype=np.float64)


def _longest(blocks: Sequence[Block]) -> int:
    """No number in a form of the last of these blocks is a sum of more terms."""
    return longest_side(blocks) + 8 * (sum(len(b.terms) for b in blocks) + 1)


def longest_side(blocks: Iterable[Block]) -> int:
    """The longest side of the blocks' weight matrices."""
    return max(int(max(weight.shape)) for b in blocks for _, weight in b.terms)


def work(block: Block, below: Sequence[Block]) -> tuple[float, str]:
    """Operations for the forms of one neuron of a block and their kind; a dense product is counted at its own rate."""
    weights = [weight for b in below for _, weight in b.terms]
    loose = _PASSES * 2.0 * sum(b.width for b in (block, *below))
    solid = 4.0 * sum(dense_work(weight) for weight in weights if not is_sparse(weight))
    thin = 4.0 * sum(entries(weight) for weight in weights if is_sparse(weight))
    ratio = RATES[DENSE] / RATES[THIN]
    return (thin + loose + solid / ratio, THIN) if thin else (solid + loose * ratio, DENSE)


def value_lines(f: Activation, lo: Array, hi: Array) -> Lines:
    """Linear bounds of the activation on finite intervals."""
    return f.lines(lo, hi) if f.piecewise_linear else secant(f, f.value_bounds, f.derivative_bounds, lo, hi)


def slope_lines(f: Activation, lo: Array, hi: Array) -> Lines:
    """Linear bounds of the derivative on finite intervals."""
    return secant(f.derivative, f.derivative_bounds, f.second_bounds, lo, hi)


@dataclass(frozen=True, eq=False)
class Tangent(BoundedBlock):
    """A stage whose lines are close to its activation, and that has lines of the slope too."""

    @cached_property
    def lines(self) -> Lines:
        return value_lines(self.block.activation, self.z.lo, self.z.hi)

    def rows(self, k: slice | NDArray[np.int64]) -> Tangent:
        """The blocks of some of the cells."""
        return Tangent(self.block, self.z.rows(k), self.x.rows(k), tuple(x.rows(k) for x in self.sources))

    @cached_property
    def slope(self) -> Lines:
        """Linear bounds of the derivative."""
        return slope_lines(self.block.activation, self.z.lo, self.z.hi)


def tangents(net: Network, box: Interval, pre: tuple[Interval, ...]) -> list[Tangent] | None:
    """The stages of cells with these boxes and pre-activation bounds; None where no line would help.

    No line helps where all activations are piecewise linear, and on unbounded regions.
    """
    smooth = any(not f.piecewise_linear for f in net.activations)
    if not smooth or not all(bool(np.all(np.isfinite(z.lo) & np.isfinite(z.hi))) for z in (box, *pre)):
        return None
    values, stages = [box], list[Tangent]()
    for block, z in zip(net.hidden, pre, strict=True):
        x = Interval(*block.activation.value_bounds(*z))
        stages.append(Tangent(block, z, x, tuple(values[j] for j, _ in block.terms)))
        values.append(x)
    return stages
