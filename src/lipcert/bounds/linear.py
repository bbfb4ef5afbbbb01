"""Linear bounds on the graph of the gradient: CROWN's substitution, run through the chain rule, on many cells at once.

    g_j = k_j + sum_i A_ij'(u_i g_i)      over the hidden blocks i that read x_j; k_j is the part from the scores

A slope u is known to lie in [a, b] only. With g in [l, h] the product lies between two lines,

    s' g - e'  <=  u g  <=  s g + e       chords of max(a g, b g) and of min(a g, b g) over [l, h],

so a linear form in g_j is replaced by one in the gradients of the blocks above, until only constants are left. From the
last block down this bounds every entry of every gradient; where u is known nothing is lost. Intervals for the entries
lose the terms that cancel. Where u = f'(z) is smooth there is a second way,

    u g  =  u0 g + g0 (u - u0) + (u - u0)(g - g0),      |u - u0| |g - g0| <= the product of both radii,

in which u lies between lines in z, and z between lines in x (`Tangent`): the loss falls with the square of the region's
size. The better of both is taken. A form is exact by definition: a change that rounding makes to a coefficient is paid
for at once, with the largest |g|.

The norm of the gradient is bounded by one more form:

    |g|_1  <=  sum_j alpha_j g_j + beta_j                chords of |g_j| over the interval of each entry
    |g|_2^2 <= sum_j (l_j + h_j) g_j - l_j h_j           chords of the squares

Each right-hand side is bounded as *one* linear form in g, so that terms cancel between entries too. The largest |entry|
needs no form of its own. This is auto_LiRPA's bound of the Jacobian [RecurJac19, LiRPA22], proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.forms import LinearForms, each
from lipcert.bounds.interval import Interval, finite_sum, middle_and_radius, outward, scaled, times
from lipcert.bounds.operator_norms import matrix_norms, operator_norm
from lipcert.bounds.substitution import Tangent, descend, steeper, through_lines
from lipcert.problem.maps import Matrix, dense
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.rounding import TINY, UNIT, Array, gamma, grow, or_infinite

_GROUP_NUMBERS = 1 << 20  # coefficients in one array of a group of forms


@dataclass(frozen=True, eq=False)
class ProductChords:
    """Lines above and below u g, up_slope g + shift and low_slope g - shift, for every neuron of every cell.

    One shift serves both chords, because max(a g, b g) + min(a g, b g) is linear.
    """

    up_slope: Array
    low_slope: Array
    shift: Array

    def above(self, w: Array) -> Array:
        """Coefficients r with w (u g) <= r g + |w| shift, for rows w of every cell."""
        return steeper(w, np.maximum(w, 0.0), self.up_slope, self.low_slope)


def product_lines(u: Interval, g: Interval) -> ProductChords:
    """The chords of u g, exact where u is a number or g has one sign.

    Shifts are rounded up. A slope may be rounded either way, because every slope gives a bound.
    """
    known, rises, falls = u.lo == u.hi, g.lo >= 0, g.hi <= 0
    with np.errstate(all="ignore"):
        width = g.hi - g.lo
        # Where the slope of the upper chord lies between u.lo (0) and u.hi (1).
        share = np.where(known | rises | falls, 0.0, g.hi / width)
        share = np.where(np.isfinite(share), share, 0.5)
        up = np.where(known | rises, u.hi, np.where(falls, u.lo, u.lo + (u.hi - u.lo) * share))
        low = np.where(known | rises, u.lo, np.where(falls, u.hi, u.hi - (u.hi - u.lo) * share))
        exact = known | rises | falls
        up_shift = np.where(exact, 0.0, np.maximum((u.lo - up) * g.lo, (u.hi - up) * g.hi))
        low_shift = np.where(exact, 0.0, np.maximum((low - u.hi) * g.lo, (low - u.lo) * g.hi))
        slack = 8 * UNIT * np.maximum(np.abs(u.lo), np.abs(u.hi)) * g.magnitude + TINY
        up_shift = np.where(exact, 0.0, np.maximum(up_shift, 0.0) + slack)
        low_shift = np.where(exact, 0.0, np.maximum(low_shift, 0.0) + slack)
    return ProductChords(up, low, or_infinite(grow(np.maximum(up_shift, low_shift), 2)))


class AdjointBounds:
    """Bounds of the gradients of c'scores on a batch of cells.

    `slopes` are given by hidden block; c is one vector for all cells, or a row for each. `values` are the blocks with
    secants of these cells, where secants are to be used. `gradients` holds the bounds found so far, from the last block
    down to the input.
    """

    def __init__(
        self, net: Network, slopes: tuple[Interval, ...], c: Array, values: Sequence[Tangent] | None = None
    ) -> None:
        self.net, self.slopes, self.values = net, slopes, values
        self.cells = len(slopes[0].lo) if slopes else len(np.atleast_2d(c))
        weights = np.broadcast_to(c, (self.cells, net.outputs))
        self.longest = sum(net.shape) + 16 * (len(net.blocks) + 1)
        self.given = [self._from_scores(j, weights) for j in range(net.depth + 1)]
        self.gradients: list[Interval | None] = [None] * (net.depth + 1)
        self.lines: list[ProductChords | None] = [None] * (net.depth + 1)
        self.prices: list[Array | None] = [None] * (net.depth + 1)
        self.middle: dict[int, Array] = {}  # the middles of the intervals k_j
        self.rounding: dict[int, Array] = {}  # the price of a coefficient of g_j: sizes of constants, and rounding
        self.reach: dict[int, Array] = {}  # at least the sum of all |g_j|, by which underflow is multiplied
        self.sigma = {net.depth + 1: Interval(weights, weights)}  # bounds of u_i g_i

    def _from_scores(self, j: int, weights: Array) -> Interval:
        """k_j: the part of g_j that comes from the scores."""
        terms = [(w.T, Interval(weights, weights)) for i, w in self.net.readers[j] if i > self.net.depth]
        nothing = np.zeros((self.cells, self.net.shape[j]))
        return finite_sum(terms) if terms else Interval(nothing, nothing)

    def run(self, entries: bool | NDArray[np.bool_] = True) -> tuple[Interval, ...]:
        """Bounds of the gradients with respect to x_0 .. x_m; entries of the input and open neurons get forms.

        With `entries=False`, entries of the input whose sign is known from intervals keep their intervals. A mask
        (cells, inputs) selects the entries that get forms.
        """
        for j in range(self.net.depth, -1, -1):
            self._enter(j, entries)
        return tuple(g for g in self.gradients if g is not None)

    def _enter(self, j: int, entries: bool | NDArray[np.bool_]) -> None:
        hidden = [(i, w) for i, w in self.net.readers[j] if i <= self.net.depth]
        g, flow = self.given[j], np.zeros(self.given[j].lo.shape)
        if hidden:
            g = finite_sum([(w.T, self.sigma[i]) for i, w in self.net.readers[j]])
            flow = np.asarray(sum(times(self.sigma[i].magnitude, abs(w.T)) for i, w in hidden))
            g = self._better(j, g, self._open(j) if j else self._wanted(g, entries))
        self.gradients[j] = g
        if j:
            self.lines[j] = product_lines(self.slopes[j - 1], g)
            self.sigma[j] = scaled(self.slopes[j - 1], g)
        self.prices[j] = self._price(j, g, flow)

    def _wanted(self, g: Interval, entries: bool | NDArray[np.bool_]) -> NDArray[np.bool_]:
        return entries if isinstance(entries, np.ndarray) else (g.lo < 0) & (g.hi > 0) | entries

    def _open(self, j: int) -> NDArray[np.bool_]:
        return self.slopes[j - 1].lo < self.slopes[j - 1].hi

    def _price(self, j: int, g: Interval, flow: Array) -> Array:
        """The price of a coefficient of u_j g_j in three columns: the shift of its line, sizes of constants, rounding.

        The coefficient that g_j gets is at most the steeper slope times as large. Its rounding comes from the product,
        from the sums behind it, and from k_j.
        """
        k, radius = middle_and_radius(self.given[j])
        self.middle[j] = k
        self.reach[j] = g.magnitude.sum(axis=1)
        size, paid = np.abs(k), 8 * UNIT * g.magnitude + gamma(self.longest) * flow + radius
        self.reach[j] += paid.sum(axis=1)
        lines, self.rounding[j] = self.lines[j], np.stack([size, paid], axis=2)
        if lines is None:
            return np.stack([np.zeros_like(size), size, paid], axis=2)
        steep = np.maximum(np.abs(lines.up_slope), np.abs(lines.low_slope))
        return np.stack([lines.shift, steep * size, steep * paid], axis=2)

    def _better(self, j: int, g: Interval, mine: NDArray[np.bool_]) -> Interval:
        """Tighten the entries of g_j by forms, from above and from below, where the mask of a cell says so."""
        lo, hi = g.lo.copy(), g.hi.copy()
        for own in self._some(j, mine):
            rows, count = np.broadcast_to(own, (self.cells, own.shape[-1])), own.shape[-1]
            given = Interval(*(np.take_along_axis(end, rows, axis=1) for end in self.given[j]))
            k, radius = middle_and_radius(given)
            both = np.concatenate([k, -k], axis=1)
            state = _Sums(both.copy(), np.abs(both), np.tile(radius, 2))
            pending: dict[int, Array] = {}
            for i, weight in self.net.readers[j]:
                if i <= self.net.depth:
                    columns = _columns(weight, own)
                    signed = np.concatenate([columns, -columns], axis=-2)
                    pending[i] = np.broadcast_to(signed, (self.cells, *signed.shape[-2:]))
            top = self._least(pending, j + 1, state)
            # Only where this cell asks for it: its bounds must not depend on the other cells of the batch.
            used = np.take_along_axis(mine, rows, axis=1)
            low, high = np.take_along_axis(lo, rows, axis=1), np.take_along_axis(hi, rows, axis=1)
            np.put_along_axis(hi, rows, np.where(used, np.minimum(high, top[:, :count]), high), axis=1)
            np.put_along_axis(lo, rows, np.where(used, np.maximum(low, -top[:, count:]), low), axis=1)
        return Interval(np.minimum(lo, hi), np.maximum(lo, hi))

    def _some(self, j: int, mine: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
        """Groups of entries whose forms fit into memory: the same for all cells, or a row for each cell if few."""
        neurons = np.flatnonzero(np.any(mine, axis=0))
        most = int(mine.sum(axis=1).max(initial=0))
        if most < len(neurons) and all(isinstance(w, np.ndarray) for _, w in self.net.readers[j]):
            neurons = np.argsort(~mine, axis=1, kind="stable")[:, :most]
        step = max(1, _GROUP_NUMBERS // (2 * self.cells * max(self.net.shape[1:-1])))
        return [neurons[..., k : k + step] for k in range(0, neurons.shape[-1], step)]

    def largest(self, rows: Array) -> tuple[Array, list[Array]]:
        """Upper bounds of rows g_0 for the rows of every cell, and how much each neuron's lines added to the first."""
        sums = _Sums(*(np.zeros(rows.shape[:2]) for _ in range(3)))
        losses: list[Array] = []
        return self._least({0: rows}, 0, sums, losses), losses

    def _least(self, pending: dict[int, Array], start: int, sums: _Sums, losses: list[Array] | None = None) -> Array:
        """The better of chords and, where there are any, secants."""
        if self.values is None:
            return self._up(pending, start, sums, losses)
        curved = self._up(dict(pending), start, sums.copy(), None, self.values)
        return np.minimum(curved, self._up(pending, start, sums, losses))

    def _up(
        self,
        pending: dict[int, Array],
        start: int,
        sums: _Sums,
        losses: list[Array] | None = None,
        values: Sequence[Tangent] | None = None,
    ) -> Array:
        net, lifted = self.net, {}
        with np.errstate(over="ignore", invalid="ignore"):
            for j in range(start, net.depth + 1):
                w = pending.pop(j, None)
                if w is None:
                    if losses is not None and j:
                        losses.append(np.zeros((self.cells, net.shape[j])))
                    continue
                if values is not None and j and not net.activations[j - 1].piecewise_linear:
                    rows, lifted[j] = self._tangent(j, w, values[j - 1], sums)
                else:
                    rows = self._chord(j, w, sums, losses)
                sums.constant += each(rows, self.middle[j])
                sums.error += (self.longest * TINY * (1.0 + self.reach[j]))[:, None]
                flat = rows.reshape(-1, rows.shape[2])
                for i, weight in net.readers[j]:
                    if i <= net.depth:
                        pushed = times(flat, weight).reshape(*rows.shape[:2], -1)
                        pending[i] = pending[i] + pushed if i in pending else pushed
            if values is None or not lifted:
                return or_infinite(sums.above(self.longest))
            forms = LinearForms(np.zeros((*sums.size.shape, 0)), sums.constant, sums.size, sums.error, 2 * self.longest)
            return descend(values, {}, lifted, forms).largest(values[0].sources[0])

    def _chord(self, j: int, w: Array, sums: _Sums, losses: list[Array] | None) -> Array:
        """Coefficients of g_j in a bound of w (u g) from above; the input has no slope, and w stays."""
        lines, price = self.lines[j], self.prices[j]
        assert price is not None
        paid = np.matmul(np.abs(w), price)
        sums.constant += paid[:, :, 0]
        sums.size += paid[:, :, 0] + paid[:, :, 1]
        sums.error += paid[:, :, 2]
        if lines is None:
            return w
        if losses is not None:
            losses.append(np.abs(w[:, 0]) * lines.shift)
        return lines.above(w)

    def _tangent(self, j: int, w: Array, stage: Tangent, sums: _Sums) -> tuple[Array, Array]:
        """Coefficients of g_j and of z_j in a bound of w (u g) from above, by secants."""
        g, u = self.gradients[j], self.slopes[j - 1]
        assert g is not None
        known = u.lo == u.hi
        u0, u_radius = middle_and_radius(u)
        g0, g_radius = middle_and_radius(g)
        g0 = np.where(known, 0.0, g0)
        both, product = np.where(known, 0.0, u_radius * g_radius * (1 + 4 * UNIT) + TINY), u0 * g0
        slopes, shift, _ = through_lines(w * g0[:, None, :], stage.slope)
        size, rows = np.abs(w), w * u0[:, None, :]
        largest = np.maximum(np.abs(stage.slope.up_shift), np.abs(stage.slope.low_shift))
        sums.constant += each(size, both) - each(w, product) + shift
        sums.size += each(size, both + np.abs(product) + np.abs(g0) * largest)
        off = np.abs(u0) * g.magnitude + np.abs(g0) * (u.magnitude + np.abs(u0) + largest) + TINY
        sums.error += 8 * UNIT * each(size, np.where(known, 0.0, off))
        paid = np.matmul(np.abs(rows), self.rounding[j])
        sums.size += paid[:, :, 0]
        sums.error += paid[:, :, 1]
        return rows, slopes


@dataclass(eq=False)
class _Sums:
    """For every form: the sum of its constants, the sum of their sizes, and the price of rounding so far."""

    constant: Array
    size: Array
    error: Array

    def copy(self) -> _Sums:
        return _Sums(self.constant.copy(), self.size.copy(), self.error.copy())

    def above(self, longest: int) -> Array:
        """The constants rounded up; `longest` bounds the number of terms in any sum behind them."""
        return outward(self.constant, grow(gamma(longest) * self.size + self.error, 2 * longest)).hi


def _columns(weight: Matrix, own: NDArray[np.int64]) -> Array:
    """Some columns of a weight, each as a row."""
    return np.ascontiguousarray(weight.T)[own] if isinstance(weight, np.ndarray) else dense(weight.T[own])


_BATCH_NUMBERS = 1 << 21  # coefficients in one array of all forms of a batch of cells
# The same for `norm_bounds`, and its least number of cells in a batch. There a form is made for every entry that some
# cell of the batch needs, so that smaller batches need fewer forms.
_NORM_NUMBERS, _NORM_CELLS = 1 << 20, 8


@dataclass(frozen=True, eq=False)
class LinearBounds:
    """For every cell: a proved bound of the norm, bounds of the gradients with respect to x_0 .. x_m, and by hidden
    block about how much every open slope costs (a hint where to split)."""

    upper: Array
    gradients: tuple[Interval, ...]
    loss: tuple[Array, ...]


def linear_bounds(
    net: Network,
    slopes: Sequence[Interval],
    norm: Norm,
    c: Array,
    coordinate: int | None = None,
    values: Sequence[Tangent] | None = None,
) -> LinearBounds:
    """Bounds of the gradient of c'scores on cells with these slopes, (cells, width) for every hidden block.

    c is one vector of weights, or a row for each cell; `coordinate` asks for one entry of the gradient alone; `values`
    (of `tangents`) tie the slopes of smooth activations to the input.
    """
    cells = len(slopes[0].lo) if slopes else len(np.atleast_2d(c))
    step = max(1, _BATCH_NUMBERS // (2 * net.inputs * max(net.shape[1:-1], default=1)))
    weights = np.broadcast_to(c, (cells, net.outputs))
    pieces = []
    for own in (slice(k, k + step) for k in range(0, cells, step)):
        stages = None if values is None else [stage.rows(own) for stage in values]
        adjoint = AdjointBounds(net, tuple(s.rows(own) for s in slopes), weights[own], stages)
        pieces.append(form_bounds(adjoint, norm, coordinate))
    return joined(pieces)


def joined(pieces: Sequence[LinearBounds]) -> LinearBounds:
    """Bounds of batches of cells, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    gradients = tuple(
        Interval(np.concatenate([g.lo for g in block]), np.concatenate([g.hi for g in block]))
        for block in zip(*(p.gradients for p in pieces), strict=True)
    )
    loss = tuple(np.concatenate(block) for block in zip(*(p.loss for p in pieces), strict=True))
    return LinearBounds(np.concatenate([p.upper for p in pieces]), gradients, loss)


def norm_bounds(net: Network, slopes: Sequence[Interval], norm: Norm, c: Array) -> Array:
    """The uppers of `linear_bounds`, in less time: in the infinity norm an entry whose sign is known needs no form."""
    cells = len(slopes[0].lo)
    step = max(_NORM_CELLS, _NORM_NUMBERS // (2 * net.inputs * max(net.shape[1:-1], default=1)))
    pieces = []
    for own in (slice(k, k + step) for k in range(0, cells, step)):
        adjoint = AdjointBounds(net, tuple(s.rows(own) for s in slopes), c)
        pieces.append(form_bounds(adjoint, norm, None, entries=norm.p != "inf").upper)
    return np.concatenate(pieces)


def linear_map_bound(
    net: Network,
    slopes: Sequence[Interval],
    norm: Norm,
    coordinate: int | None = None,
    values: Sequence[Tangent] | None = None,
) -> float:
    """A bound of the operator norm of the Jacobian under slopes without an axis for cells: its rows by forms.

    |J t|_q is at most the q-norm of the dual norms of the rows, at most that of the largest |entries|, and at most the
    norm of the middle and that of the radius of all entries: exact where no slope is open (`stacks`).
    """
    rows = tuple(Interval(*(np.broadcast_to(end, (net.outputs, len(end))) for end in s)) for s in slopes)
    every = None if values is None else [stage.rows(np.zeros(net.outputs, dtype=np.int64)) for stage in values]
    found = linear_bounds(net, rows, Norm(norm.p), np.eye(net.outputs), coordinate, every)
    size = found.gradients[0].magnitude
    if coordinate is not None:
        size = size[:, [coordinate]]
    size = np.where(np.isnan(size), np.inf, size)
    assert norm.out is not None
    by_entries = operator_norm(size, norm.p, norm.out) if np.all(np.isfinite(size)) else np.inf
    if coordinate is None:
        M, R = middle_and_radius(found.gradients[0])
        with np.errstate(all="ignore"):
            by_entries = min(by_entries, float(np.fmin(matrix_norms(M[None], R[None], norm.p, norm.out)[0], np.inf)))
    return float(min(by_entries, norm.outputs.above(found.upper)))


def linear_operations(net: Network, slopes: Sequence[Interval]) -> float:
    """An estimate of the operations for one cell: every entry and every open neuron is carried up to the scores."""
    above, total = 0.0, 0.0
    for j in range(net.depth, -1, -1):
        above += sum(float(np.prod(w.shape)) for i, w in net.readers[j] if i <= net.depth)
        rows = net.inputs if j == 0 else int(np.sum(np.any(np.atleast_2d(slopes[j - 1].lo < slopes[j - 1].hi), axis=0)))
        total += 4.0 * rows * above
    return total


def form_bounds(adjoint: AdjointBounds, norm: Norm, coordinate: int | None, entries: bool = True) -> LinearBounds:
    """The bounds of one batch of cells: entries by forms, then the norm by one form; `entries` as in `run`."""
    net, slopes = adjoint.net, adjoint.slopes
    with np.errstate(all="ignore"):
        gradients = adjoint.run(entries)
        g = gradients[0]
        nothing = [np.zeros(s.lo.shape) for s in slopes]
        if coordinate is not None:
            return LinearBounds(or_infinite(g.magnitude[:, coordinate]), gradients, tuple(nothing))
        if norm.p == "1":
            return LinearBounds(or_infinite(g.magnitude.max(axis=1, initial=0.0)), gradients, tuple(nothing))
        slope, shift, per_width = _chords(g, norm)
        top, losses = adjoint.largest(slope[:, None, :])
        n = g.lo.shape[1]
        rounding = grow(gamma(n + 4) * (np.abs(shift).sum(axis=1) + np.abs(top[:, 0])), n + 4)
        total = np.maximum(outward(top[:, 0] + shift.sum(axis=1), rounding).hi, 0.0)
        plain = grow((g.magnitude if norm.p == "inf" else np.square(g.magnitude)).sum(axis=1), n + 4)
        upper = np.fmin(or_infinite(total), or_infinite(plain))
        if norm.p == "2":
            upper = grow(np.sqrt(upper), 4)
        loss = spread_losses(net, slopes, gradients, losses, per_width)
    return LinearBounds(or_infinite(upper), gradients, tuple(loss))


def _chords(g: Interval, norm: Norm) -> tuple[Array, Array, Array]:
    """slope g + shift above |g| or g^2 on the interval, and the largest excess of this chord divided by the width.

    The quotient estimates how much a narrower interval saves. The excess is largest at zero for |g|, and in the middle
    of the interval for g^2.
    """
    width = g.hi - g.lo
    if norm.p == "inf":
        sure = (g.lo >= 0) | (g.hi <= 0)
        slope = np.where(g.lo >= 0, 1.0, np.where(g.hi <= 0, -1.0, (g.hi + g.lo) / np.where(sure, 1.0, width)))
        slope = np.where(np.isfinite(slope), slope, 0.0)
        shift = np.maximum(-g.lo - slope * g.lo, g.hi - slope * g.hi)
        shift = np.where(sure, 0.0, np.maximum(shift, 0.0) + 8 * UNIT * g.magnitude + TINY)
    else:
        slope = np.where(np.isfinite(g.lo + g.hi), g.lo + g.hi, 0.0)
        shift = np.maximum(g.lo * (g.lo - slope), g.hi * (g.hi - slope))  # negative where the sign is known
        shift = shift + 8 * UNIT * np.square(g.magnitude) + TINY
        return slope, or_infinite(shift), width / 4
    return slope, or_infinite(shift), np.where(width > 0, shift / np.where(width > 0, width, 1.0), 0.0)


def spread_losses(
    net: Network, slopes: tuple[Interval, ...], gradients: tuple[Interval, ...], losses: list[Array], share: Array
) -> list[Array]:
    """The cost of every open slope: the loss of its lines, and about how much it widens the entries' intervals."""
    reach, answer = [share], []
    for k, (block, s) in enumerate(zip(net.hidden, slopes, strict=True)):
        moved = np.asarray(sum(times(reach[source], abs(w)) for source, w in block.terms))
        reach.append(s.magnitude * moved)
        g = gradients[k + 1]
        spread = (s.hi - s.lo) * (np.maximum(g.hi, 0.0) - np.minimum(g.lo, 0.0))
        lost = losses[k] + moved * spread
        answer.append(np.where(s.hi > s.lo, np.nan_to_num(lost, nan=1e300, posinf=1e300), 0.0))
    return answer
