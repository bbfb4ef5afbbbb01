"""Sign patterns that no input of a box has, each refused by multipliers of linear rows.

With v = relu(z) and w = v - z = relu(-z) of the neurons whose sign is open, every input of the box satisfies

    z_k(x, v) - v_k + w_k = 0,   z_k = b_k + sum A_k (x, v)          up to the slack of the block
    v_k p_k + w_k q_k <= 1,      p_k <= 1/h_k,  q_k <= -1/l_k        one of v_k, w_k is zero (the triangle)
    0 <= v_k <= h_k,  0 <= w_k <= -l_k,                              v_k = 0 where z_k <= 0, w_k = 0 where z_k >= 0

where [l, h] bounds z. A known slope s leaves s z_k - v_k = 0. For any y and any t >= 0 the sum

    sum y_k (s_k z_k - v_k + w_k) + sum t_k (1 - p_k v_k - q_k w_k)  >=  - sum |y_k| s_k slack_k

at every input, and likewise with t_i (b_i - a_i'x) added for half-spaces a_i'x <= b_i of the region. If its maximum
over the boxes of x, v, w under some signs (the literals) is smaller than that, no input has these signs. Coefficients
are exact by definition; what rounds is paid with the largest |x|, |v| and |w|.

Signs that some inputs have, but no set of inputs with interior, are refused by rows that cancel (`interior`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert import steps
from lipcert.bounds import Interval, preactivations, slope_bounds, slopes
from lipcert.bounds.interval import middle_and_radius
from lipcert.errors import FileFormatError
from lipcert.files.numbers import LARGEST_WHOLE, real, whole, within
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Region, ball_of, hull, sides_of
from lipcert.proof.interior import Rows, has_interior, known_signs, no_interior
from lipcert.rounding import TINY, Array, add_up, down, gamma, grow

Index = NDArray[np.int64]
Signs = NDArray[np.int8]  # (.., hidden neurons of all blocks): 1 where z >= 0, -1 where z <= 0, 0 where nothing is said

_NUMBERS = 1 << 22  # in one array of coefficients


@dataclass(frozen=True, eq=False)
class System:
    """The rows above of a problem on a box; neurons of all hidden blocks stand side by side."""

    net: Network
    region: Region
    known: Signs  # on the whole region
    box: Interval
    slope: Array  # 1 where it is open
    open: NDArray[np.bool_]
    values: Interval  # v
    away: Array  # the largest w, zero where the slope is known
    p: Array
    q: Array
    bias: Array
    slack: Array
    ball: Ball | None = None  # the region, if it is a ball; the box is around it
    sides: tuple[Array, Array] | None = None  # A and b of half-spaces A x <= b of the region
    exact: Rows | None = None  # for `interior`

    @classmethod
    def of(cls, problem: Problem) -> System | None:
        """None where a neuron's slope is open and it is no ReLU, and on the whole space; of a ball its box is taken."""
        if refusal(problem) is not None:
            return None
        pre = preactivations(problem)
        return replace(cls.over(problem.network, problem.region, pre), exact=Rows.of(problem, pre))

    @classmethod
    def over(cls, net: Network, region: Region, pre: tuple[Interval, ...]) -> System:
        """The system of a network with these pre-activation bounds on a bounded region; its open neurons are ReLU."""
        known, around = slope_bounds(net, pre), hull(region)
        assert around is not None
        lo, hi = (np.concatenate([end[k] for end in pre]) for k in (0, 1))
        least, most = (np.concatenate([end[k] for end in known]) for k in (0, 1))
        values = [f.value_bounds(*z) for f, z in zip(net.activations, pre, strict=True)]
        v = Interval(*(np.concatenate([end[k] for end in values]) for k in (0, 1)))
        still = least < most
        away = np.where(still, np.maximum(-lo, 0.0), 0.0)
        slack = [np.zeros(b.width) if b.slack is None else b.slack for b in net.hidden]
        box = Interval(around.lo, around.hi)
        bias = np.concatenate([b.bias for b in net.hidden])
        triangle = _inverse(hi, still), _inverse(-lo, still)
        cut = sides_of(region)
        sides = None if cut is None else (cut.A, cut.b)
        slope = np.where(still, 1.0, least)
        about = net, region, known_signs(pre)
        return cls(*about, box, slope, still, v, away, *triangle, bias, np.concatenate(slack), ball_of(region), sides)

    @property
    def neurons(self) -> int:
        return len(self.bias)

    @property
    def cuts(self) -> int:
        """How many half-spaces the region has; their multipliers stand behind those of the neurons in t."""
        return 0 if self.sides is None else len(self.sides[1])

    def flat(self, rows: Index, literals: Signs) -> bool:
        """Whether these rows of `interior` prove that the inputs with these signs have no interior."""
        if self.exact is None or not has_interior(self.region):
            return False
        return no_interior(self.exact.net, self.region, *self.exact.named(rows, literals))

    def largest(self, y: Array, t: Array, literals: Signs, scores: Array | None = None) -> tuple[Array, Array]:
        """At least the maximum of every sum under its literals with what slack allows, and its size for comparisons.

        Shapes (sums, neurons), t >= 0 with columns for the region's half-spaces too. Where the maximum is negative, no
        input has the literals' signs. With weights of the scores, (sums, outputs), their sum is added to each: so a
        maximum bounds it on the inputs with these signs.
        """
        step = max(1, _NUMBERS // (self.net.inputs + 2 * self.neurons + self.cuts))
        pieces = (slice(k, k + step) for k in range(0, len(y), step))
        none = np.zeros((len(y), 0)) if scores is None else scores
        parts = [self._largest(y[some], t[some], literals[some], none[some]) for some in pieces]
        if not parts:
            return np.zeros(0), np.zeros(0)
        return np.concatenate([top for top, _ in parts]), np.concatenate([size for _, size in parts])

    def coefficients(self, y: Array, t: Array) -> tuple[Array, Array, Array]:
        """The coefficients of x, v and w in the sums, in plain floating point."""
        of, _ = self._pulled(y * self.slope, np.zeros((len(y), 0)))
        if self.sides is not None:
            of[0] = of[0] - t[:, self.neurons :] @ self.sides[0]
        t = t[:, : self.neurons]
        return of[0], np.concatenate(of[1:], axis=1) - y - t * self.p, np.where(self.open, y - t * self.q, 0.0)

    def _pulled(self, y: Array, scores: Array, magnitudes: bool = False) -> tuple[list[Array], list[Array]]:
        """sum y z (and weighted scores, where there are weights) without the biases: the coefficients of x_0 .. x_m,
        and sums of the magnitudes where asked for."""
        net, start = self.net, 0
        of = [np.zeros((len(y), width)) for width in net.shape[:-1]]
        bulk = [np.zeros((len(y), width)) for width in net.shape[:-1]] if magnitudes else []
        for block in net.blocks if scores.shape[1] else net.hidden:
            own = scores if block is net.scores else y[:, start : start + block.width]
            start += block.width
            for source, weight in block.terms:
                of[source] = of[source] + own @ weight
                if magnitudes:
                    bulk[source] = bulk[source] + np.abs(own) @ abs(weight)
        return of, bulk

    def _largest(self, y: Array, t: Array, literals: Signs, scores: Array) -> tuple[Array, Array]:
        n, last = self.net.inputs + 2 * self.neurons + self.cuts + scores.shape[1], self.net.scores
        t, own = t[:, : self.neurons], t[:, self.neurons :]
        longest = n + 2 * len(self.net.blocks) + 16
        with np.errstate(all="ignore"):
            scaled = y * self.slope
            of, bulk = self._pulled(scaled, scores, magnitudes=True)
            if self.sides is not None:
                of[0], bulk[0] = of[0] - own @ self.sides[0], bulk[0] + own @ np.abs(self.sides[0])
            ends = Interval(*self._ends(literals))
            coefficient = np.concatenate([*of, np.where(self.open, y, 0.0)], axis=1)
            size = np.concatenate([*bulk, np.where(self.open, np.abs(y), 0.0)], axis=1)
            inside = slice(self.net.inputs, self.net.inputs + self.neurons)
            coefficient[:, inside] -= y + t * self.p
            size[:, inside] += np.abs(y) + t * self.p
            coefficient[:, inside.stop :] -= t * self.q
            size[:, inside.stop :] += t * self.q
            m, r = middle_and_radius(ends)
            reach = np.maximum(np.abs(ends.lo), np.abs(ends.hi))
            constant = scaled @ self.bias + t.sum(axis=1)
            parts = np.abs(scaled) @ np.abs(self.bias) + t.sum(axis=1) + (np.abs(coefficient) * np.abs(m)).sum(axis=1)
            if self.sides is not None:
                constant, parts = constant + own @ self.sides[1], parts + own @ np.abs(self.sides[1])
            doubt = np.abs(scaled) @ self.slack
            if scores.shape[1]:
                constant, parts = constant + scores @ last.bias, parts + np.abs(scores) @ np.abs(last.bias)
                doubt = doubt + np.abs(scores) @ last.doubt
            rounding = gamma(longest) * ((size * reach).sum(axis=1) + parts)
            floor = longest * TINY * (1.0 + reach.sum(axis=1) + np.abs(self.bias).sum() + np.abs(last.bias).sum())
            floor += 0.0 if self.sides is None else longest * TINY * np.abs(self.sides[1]).sum()
            paid = (np.abs(coefficient) * r).sum(axis=1) + rounding + doubt + floor
            top = add_up(constant + (coefficient * m).sum(axis=1), grow(paid, 3 * longest))
            if self.ball is not None:
                top = np.fmin(top, self._in_ball(coefficient, m, r, constant, rounding + floor + doubt, longest))
        return np.where(np.isnan(top), np.inf, top), parts + paid

    def _in_ball(self, a: Array, m: Array, r: Array, constant: Array, paid: Array, longest: int) -> Array:
        """The same maximum with x in the ball: a x <= a center + |a|_2 radius."""
        assert self.ball is not None
        n, center = self.net.inputs, self.ball.center
        a_x, rest, m_rest = a[:, :n], a[:, n:], m[:, n:]
        off = gamma(longest) * (np.abs(a_x) @ np.abs(center) + (np.abs(rest) * np.abs(m_rest)).sum(axis=1))
        most = np.abs(a_x).max(axis=1, initial=0.0)
        unit = a_x / np.where(most > 0, most, 1.0)[:, None]  # squares of small coefficients would vanish
        length = most * np.sqrt((unit * unit).sum(axis=1))
        reach = length * self.ball.radius + (np.abs(rest) * r[:, n:]).sum(axis=1)
        total = grow(reach + off + paid, 3 * longest)
        return add_up(constant + a_x @ center + (rest * m_rest).sum(axis=1), total)

    def _ends(self, literals: Signs) -> tuple[Array, Array]:
        """The boxes of x, v and w, side by side, under literals."""
        count = len(literals)
        off, on = literals < 0, literals > 0
        lo = np.where(off, np.minimum(self.values.lo, 0.0), self.values.lo)
        hi = np.where(off, 0.0, self.values.hi)
        away = np.where(on, 0.0, self.away)
        x = [np.broadcast_to(end, (count, len(end))) for end in self.box]
        return np.concatenate([x[0], lo, np.zeros_like(away)], axis=1), np.concatenate([x[1], hi, away], axis=1)


def refusal(problem: Problem) -> str | None:
    """Why signs cannot be branched on in this problem; None when they can."""
    net = problem.network
    if problem.coordinate is not None:
        return "branching over signs is for all inputs together; use tight"
    if hull(problem.region) is None:
        return "branching over signs works on boxes and balls; use tight, or one of them"
    if net.depth == 0:
        return "branching over signs needs a hidden layer; an affine network is exact with linear"
    for f, z, s in zip(net.activations, preactivations(problem), slopes(problem), strict=True):
        if not (np.all(np.isfinite(z.lo)) and np.all(np.isfinite(z.hi))):
            return "the pre-activation bounds overflow; rescale the network"
        if f.kind != "relu" and (np.any(s.lo < s.hi) or not f.piecewise_linear):
            return f"branching over signs needs ReLU where slopes are open, not {f}; use tight"
    return None


@dataclass(frozen=True, eq=False)
class Nogoods:
    """Refused sets of signs, in tables that name the nogood first.

    `literals` has a row (nogood, neuron, sign) for every literal. `rows` has a row (nogood, row) for every entry of y
    and t that is not zero, with its number in `numbers`: row k < neurons is y_k, row neurons + k is t_k, and behind
    them come the half-spaces of the region. Behind all of these come the rows of `interior`: a nogood that has some
    names the rows that cancel, and needs no numbers.
    """

    count: int
    literals: Index
    rows: Index
    numbers: Array

    def fits(self, neurons: int, cuts: int = 0, others: int = 0) -> bool:
        """Whether every index means something in a system with so many neurons, half-spaces and rows of `interior`."""
        own, rows = self.literals, self.rows
        if own.shape[1:] != (3,) or rows.shape[1:] != (2,) or self.numbers.shape != rows.shape[:1]:
            return False
        inside = np.all(own[:, :2] >= 0) and np.all(own[:, 0] < self.count) and np.all(own[:, 1] < neurons)
        inside = inside and np.all(rows >= 0) and np.all(rows < [self.count, 2 * neurons + cuts + others])
        return bool(inside and np.all((own[:, 2] == 1) | (own[:, 2] == -1)))

    def proved(self, system: System, wanted: Index | None = None) -> NDArray[np.bool_]:
        """A mask of the nogoods that are proved: no input of the box has their literals' signs; `fits` must hold.

        Nogoods that are not wanted are not looked at, and those without multipliers refuse nothing.
        """
        found = np.zeros(self.count, dtype=bool)
        some = np.arange(self.count) if wanted is None else wanted
        some = some[np.isin(some, self.rows[:, 0])]
        named = self.named(system.neurons, system.cuts)
        for k, literals in self.signs_of(some[np.isin(some, list(named))], system.neurons, system.cuts):
            found[k] = system.flat(named[k], literals)
        some = some[~np.isin(some, list(named))]
        step = max(1, _NUMBERS // (2 * system.neurons + system.cuts))
        for start in range(0, len(some), step):
            steps.step()
            own = some[start : start + step]
            found[own] = self._proved(system, own)
        return found

    def containment(self, neurons: int) -> Callable[[Index, Index, Signs], bool]:
        """A function of nogoods, the numbers of some neurons and their signs in rows: whether every row of signs has
        all literals of its nogood."""
        own = self.literals[np.argsort(self.literals[:, 0], kind="stable")]
        ends = np.searchsorted(own[:, 0], np.arange(self.count + 1))

        def holds(wanted: Index, numbers: Index, signs: Signs) -> bool:
            place = np.full(neurons, -1)
            place[numbers] = np.arange(len(numbers))
            counts = ends[wanted + 1] - ends[wanted]
            row = np.repeat(np.arange(len(wanted)), counts)
            literal = own[np.repeat(ends[wanted] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())]
            column = place[literal[:, 1]]
            return bool(np.all(column >= 0) and np.all(signs[row, column] == literal[:, 2]))

        return holds

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays of a file."""
        return {"nogood_literals": self.literals, "nogood_rows": self.rows, "nogood_numbers": self.numbers}

    def named(self, neurons: int, cuts: int = 0) -> dict[int, Index]:
        """By nogood the rows of `interior` that it names, where it names some."""
        own = self.rows[self.rows[:, 1] >= 2 * neurons + cuts]
        own = own[np.argsort(own[:, 0], kind="stable")]
        numbers, starts = np.unique(own[:, 0], return_index=True)
        return dict(zip(numbers.tolist(), np.split(own[:, 1] - 2 * neurons - cuts, starts[1:]), strict=False))

    def signs_of(self, some: Index, neurons: int, cuts: int = 0) -> Iterator[tuple[int, Signs]]:
        """Every one of some nogoods with its literals."""
        step = max(1, _NUMBERS // (2 * neurons + cuts))
        for start in range(0, len(some), step):
            own = some[start : start + step]
            yield from zip(own.tolist(), self.laid_out(neurons, own, cuts)[2], strict=True)

    def _proved(self, system: System, some: Index) -> NDArray[np.bool_]:
        y, t, literals = self.laid_out(system.neurons, some, system.cuts)
        valid = np.all(np.isfinite(y), axis=1) & np.all(np.isfinite(t), axis=1) & np.all(t >= 0, axis=1)
        kept = np.flatnonzero(valid)
        valid[kept] = system.largest(y[kept], t[kept], literals[kept])[0] < 0
        return np.asarray(valid)

    def laid_out(self, neurons: int, some: Index, cuts: int = 0) -> tuple[Array, Array, Signs]:
        """y, t and the literals of some of them, dense."""
        numbers = np.zeros((len(some), 2 * neurons + cuts))
        literals = np.zeros((len(some), neurons), dtype=np.int8)
        place = np.full(self.count, -1, dtype=np.int64)
        place[some] = np.arange(len(some))
        rows, own = self.rows, self.literals
        mine, others = (place[rows[:, 0]] >= 0) & (rows[:, 1] < numbers.shape[1]), place[own[:, 0]] >= 0
        numbers[place[rows[mine, 0]], rows[mine, 1]] = self.numbers[mine]
        literals[place[own[others, 0]], own[others, 1]] = own[others, 2]
        return numbers[:, :neurons], numbers[:, neurons:], literals


def no_nogoods() -> Nogoods:
    """Nothing is refused."""
    return Nogoods(0, np.zeros((0, 3), dtype=np.int64), np.zeros((0, 2), dtype=np.int64), np.zeros(0))


def read_nogoods(arrays: Mapping[str, Any], used: Index, most: int) -> Nogoods:
    """The nogoods of a file, at most so many; `used` are the numbers that leaves name."""
    literals = whole(arrays, "nogood_literals", (None, 3), -1, LARGEST_WHOLE)
    rows = whole(arrays, "nogood_rows", (None, 2), 0, LARGEST_WHOLE)
    numbers = real(arrays, "nogood_numbers", (len(rows),))
    if not within(literals, [0, 0, -1], [LARGEST_WHOLE, LARGEST_WHOLE, 1]):
        raise FileFormatError("the literals of the nogoods are none")
    if any(len(np.unique(pairs, axis=0)) < len(pairs) for pairs in (literals[:, :2], rows)):
        raise FileFormatError("a nogood of the signs names the same neuron or row twice")
    count = int(np.max(np.concatenate([used, literals[:, 0], rows[:, 0]]), initial=-1)) + 1
    if count > most:
        raise FileFormatError("the signs have more nogoods than leaves")
    return Nogoods(count, literals, rows, numbers)


def gathered(y: Array, t: Array, literals: Signs, named: Sequence[Index] = ()) -> Nogoods:
    """The nogoods of dense arrays, one row for each; some may have rows of `interior` in place of numbers."""
    own = np.argwhere(literals != 0)
    numbers = np.concatenate([y, t], axis=1)
    others = [(k, numbers.shape[1] + row) for k, some in enumerate(named) for row in some.tolist()]
    rows = np.argwhere(numbers != 0)
    values = np.concatenate([numbers[rows[:, 0], rows[:, 1]], np.ones(len(others))])
    rows = np.concatenate([rows, np.array(others, dtype=np.int64).reshape(-1, 2)])
    signs = literals[own[:, 0], own[:, 1]].astype(np.int64)
    return Nogoods(len(y), np.column_stack([own, signs]).astype(np.int64), rows, values)


def _inverse(h: Array, still: NDArray[np.bool_]) -> Array:
    """At most 1/h where h > 0, zero elsewhere."""
    with np.errstate(all="ignore"):
        below = down(1.0 / np.where(h > 0, h, 1.0))
    return np.where(still & (h > 0) & np.isfinite(below), np.maximum(below, 0.0), 0.0)
