"""Pre-activation bounds made sharper than those of a checker by multipliers of linear rows, and proofs with them.

For a neuron k of a block, the rows of `nogoods` over the neurons of the blocks before it hold at every input. Then

    z_k <= max over the boxes of x, v, w of  z_k(x, v) + sum y_j (s_j z_j - v_j + w_j) + sum t_j (1 - p_j v_j - q_j w_j)

and the slack, for any y and any t >= 0; likewise -z_k. Best multipliers give what linear programs with the triangles
give; any others give something that is true as well. All this happens on the network of the open neurons where that is
smaller (`bounds.collapse`): their z are those of the network itself. Blocks are bounded in one pass upward, in which
each is also bounded by linear forms again, from the sharper bounds of those before it (`bounds.propagation`).

`Within` is a proof about the network of the open neurons, which is a proof about the network itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds import Interval, preactivations, slope_bounds
from lipcert.bounds import whole as whole_cell
from lipcert.bounds.collapse import collapse
from lipcert.bounds.propagation import ForwardPass
from lipcert.files.numbers import LARGEST_WHOLE, real, whole
from lipcert.problem.activations import IDENTITY
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import hull, sides_of
from lipcert.proof.certificate import Certificate, Proof
from lipcert.proof.nogoods import Index, System
from lipcert.proof.ways import WithBounds
from lipcert.rounding import Array

COLLAPSED = "collapsed"  # the flag in a file of a proof about the network of the open neurons
NAMES = "sharpened_targets|sharpened_rows|sharpened_numbers"
_NUMBERS = 1 << 22  # multipliers laid out at a time

Before = Callable[[int, System, Interval], Interval]  # sharper bounds of a block, with the rows of those before it


@dataclass(frozen=True, eq=False)
class Sharper:
    """Multipliers: of every target its (block, neuron, side), side 1 for z and -1 for -z, and the entries that are not
    zero, rows (target, row) with their `numbers`: row 2k is y_k, row 2k + 1 is t_k, over the neurons of all blocks; row
    -1 - i is t of half-space i of the region."""

    targets: Index
    rows: Index
    numbers: Array

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps of the proof, by name."""
        numbers = {"sharpened_rows": self.rows, "sharpened_numbers": self.numbers}
        return {"sharpened_targets": self.targets, **numbers}

    def around(self, inner: Proof) -> Proof:
        """A proof about the problem from one about the problem with sharper bounds."""
        return Sharpened(inner, self)

    def of(self, problem: Problem) -> Problem | None:
        """The same problem with the bounds that are proved; None where the multipliers do not fit it.

        A proof about the returned problem needs these multipliers: `Certificate.of` adds them to it.
        """
        base = rows_of(problem)
        cut = sides_of(problem.region)
        if base is None or not self.fits(base.network, 0 if cut is None else cut.count):
            return None
        return with_bounds(problem, swept(base, self._block), self)

    def fits(self, net: Network, cuts: int = 0) -> bool:
        """Whether targets and rows mean something: finite numbers, t >= 0, and only neurons before the target's."""
        targets, rows, numbers = self.targets, self.rows, self.numbers
        if targets.shape[1:] != (3,) or rows.shape[1:] != (2,) or numbers.shape != rows.shape[:1]:
            return False
        if len(targets) > 2 * net.neurons or not np.all((targets[:, 0] >= 1) & (targets[:, 0] <= net.depth)):
            return False
        widths = np.array([b.width for b in net.hidden], dtype=np.int64)
        own = targets[:, 0] - 1
        sides = (targets[:, 2] == 1) | (targets[:, 2] == -1)
        inside = np.all((targets[:, 1] >= 0) & (targets[:, 1] < widths[own]) & sides)
        if not inside or not np.all((rows >= [0, -cuts]) & (rows < [len(targets), 2 * net.neurons])):
            return False
        before = (np.cumsum(widths) - widths)[own]
        earlier = rows[:, 1] // 2 < before[rows[:, 0]]
        signed = (rows[:, 1] < 0) | (rows[:, 1] % 2 == 1)
        return bool(np.all(earlier) and np.all(np.isfinite(numbers)) and np.all(numbers[signed] >= 0))

    def _block(self, k: int, system: System, z: Interval) -> Interval:
        some = np.flatnonzero(self.targets[:, 0] == k + 1)
        step = max(1, _NUMBERS // (2 * system.neurons + system.cuts + system.net.outputs))
        for start in range(0, len(some), step):
            own = some[start : start + step]
            target = self.targets[own]
            z = narrowed(z, target, tops(system, target, *self.laid_out(system.neurons, own, system.cuts))[0])
        return z

    def laid_out(self, neurons: int, some: Index, cuts: int = 0) -> tuple[Array, Array]:
        """y and t of some targets; behind the neurons' t those of half-spaces."""
        place = np.full(len(self.targets), -1, dtype=np.int64)
        place[some] = np.arange(len(some))
        mine = place[self.rows[:, 0]] >= 0
        both = np.zeros((len(some), 2 * neurons + cuts))
        column = self.rows[mine, 1]
        both[place[self.rows[mine, 0]], np.where(column < 0, 2 * neurons - 1 - column, column)] = self.numbers[mine]
        return both[:, 0 : 2 * neurons : 2], np.hstack([both[:, 1 : 2 * neurons : 2], both[:, 2 * neurons :]])


@dataclass(frozen=True, eq=False)
class Sharpened:
    """A proof about the problem with sharper pre-activation bounds, and the multipliers that prove these."""

    inner: Proof
    sharper: Sharper

    @property
    def method(self) -> str:
        """The name of the method that made the inner proof."""
        return self.inner.method

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps of the proof, by name."""
        return self.inner.arrays() | self.sharper.arrays()

    def check(self, problem: Problem) -> float:
        """The bound of the inner proof, with the pre-activation bounds that the multipliers prove."""
        better = self.sharper.of(problem)
        return np.inf if better is None else self.inner.check(better)


def read_sharper(arrays: Mapping[str, Any]) -> Sharper:
    """The multipliers of a file."""
    targets = whole(arrays, "sharpened_targets", (None, 3), -1, LARGEST_WHOLE)
    rows = whole(arrays, "sharpened_rows", (None, 2), -LARGEST_WHOLE, LARGEST_WHOLE)
    return Sharper(targets, rows, real(arrays, "sharpened_numbers", (len(rows),)))


def gathered(targets: Index, y: list[Array], t: list[Array]) -> Sharper:
    """From a row of y and one of t for every target, each over the neurons before it; t has the half-spaces too."""
    rows, numbers = [], []
    for k, (own, other) in enumerate(zip(y, t, strict=True)):
        both = np.stack([own, other[: len(own)]], axis=1).reshape(-1)
        there, sides = np.flatnonzero(both), np.flatnonzero(other[len(own) :])
        columns = np.concatenate([there, -1 - sides])
        rows.append(np.stack([np.full(len(columns), k), columns], axis=1))
        numbers.append(np.concatenate([both[there], other[len(own) :][sides]]))
    none = np.zeros((0, 2), dtype=np.int64)
    return Sharper(targets, np.concatenate([none, *rows]), np.concatenate([np.zeros(0), *numbers]))


def rows_of(problem: Problem) -> Problem | None:
    """The problem whose rows are taken: collapsed where it can be. None where they do not cover it."""
    small = collapse(problem)
    base = problem if small is None else small.problem
    if hull(base.region) is None or base.network.depth < 2:
        return None
    finite = all(np.all(np.isfinite(end)) for z in preactivations(base) for end in z)
    return base if finite else None


def swept(base: Problem, better: Before) -> tuple[Interval, ...]:
    """Bounds of all blocks in one pass, `better` ones of those whose earlier neurons the rows cover."""
    net = base.network

    def block(k: int, below: tuple[Interval, ...], z: Interval) -> Interval:
        pre = tuple(b.rows(0) for b in below)
        part = Network.from_blocks((*net.hidden[:k], replace(net.hidden[k], activation=IDENTITY)))
        if not k or not covered(part, pre):
            return z
        found = better(k, System.over(part, base.region, pre), z.rows(0))
        return Interval(found.lo[None, :], found.hi[None, :])

    known = tuple(Interval(z.lo[None, :], z.hi[None, :]) for z in preactivations(base))
    return ForwardPass(net, [whole_cell(net, base.region)]).run(known, block).of(0)


def covered(net: Network, pre: tuple[Interval, ...]) -> bool:
    """Whether these blocks are linear but for open ReLUs."""
    both = zip(net.activations, slope_bounds(net, pre), strict=True)
    return all(f.piecewise_linear and (f.kind == "relu" or np.array_equal(*s)) for f, s in both)


def with_bounds(problem: Problem, found: tuple[Interval, ...], sharper: Sharper) -> Problem:
    """The same problem with the sharper bounds of `rows_of` it."""
    pre, small = [Interval(z.lo.copy(), z.hi.copy()) for z in preactivations(problem)], collapse(problem)
    every = [(i, np.arange(len(z.lo))) for i, z in enumerate(pre, start=1)]
    for (i, own), z in zip(every if small is None else small.neurons, found, strict=True):
        pre[i - 1].lo[own] = np.fmax(pre[i - 1].lo[own], z.lo)
        pre[i - 1].hi[own] = np.fmin(pre[i - 1].hi[own], z.hi)
    return problem.on(problem.region, tuple(pre), completion=sharper.around, way=problem.facts.way)


def tops(system: System, targets: Index, y: Array, t: Array) -> tuple[Array, Array]:
    """Proved bounds of z or -z of the neurons in question, the scores of the system, and sizes for comparisons."""
    scores = scores_of(targets, system.net.outputs)
    return system.largest(y, t, np.zeros(y.shape, dtype=np.int8), scores)


def scores_of(targets: Index, outputs: int) -> Array:
    """The weights of the scores that are z or -z of the neurons in question, a row for each."""
    scores = np.zeros((len(targets), outputs))
    scores[np.arange(len(targets)), targets[:, 1]] = targets[:, 2]
    return scores


def narrowed(z: Interval, targets: Index, top: Array) -> Interval:
    """With the bounds of `tops`; those that are no numbers say nothing."""
    lo, hi, above = z.lo.copy(), z.hi.copy(), targets[:, 2] > 0
    np.fmin.at(hi, targets[above, 1], top[above])
    np.fmax.at(lo, targets[~above, 1], -top[~above])
    return Interval(lo, hi)


@dataclass(frozen=True, eq=False)
class Within:
    """A proof about the collapsed problem. A file keeps that proof and a flag: the checker collapses again."""

    inner: Proof

    @property
    def method(self) -> str:
        """The name of the method that proved it of the collapsed problem."""
        return self.inner.method

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps of the proof, by name."""
        return self.inner.arrays() | {COLLAPSED: np.array(1)}

    def check(self, problem: Problem) -> float:
        """The bound of the inner proof on the collapsed problem plus its price; infinite where nothing collapses."""
        small = collapse(problem)
        return np.inf if small is None else small.above(self.inner.check(small.problem))


def innermost(proof: Proof) -> Proof:
    """The proof without what says which bounds and which network it is about."""
    return innermost(proof.inner) if isinstance(proof, Sharpened | Within | WithBounds) else proof


def prove_within(problem: Problem, certificate: Certificate) -> Certificate:
    """The certificate about a problem from one about its collapsed problem, which must exist."""
    small = collapse(problem)
    assert small is not None
    return Certificate.of(problem, Within(certificate.proof), small.above(certificate.upper))
