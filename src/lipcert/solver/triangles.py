"""max <C, X> over X >= 0 with X_ii = 1 and all triangles of signs: low-rank augmented Lagrangian with a working list.

    X = V V', rows of V of length one;   excess of a triangle  e = -1 - (pq X_ab + qr X_bc + pr X_ac) <= 0

Between the climbs over V the multipliers g <- (g + w e)_+ are updated, triangles that the vectors violate most join the
list and idle ones leave it. At fixed g what is left is a problem over unit vectors without rows: its multipliers d, and
g with them, are dual feasible after one eigenvalue (`Dual`).

Climbs are limited-memory quasi-Newton in single precision (`climb`): they end far above it, and half the memory to move
is twice the speed. In a violated triangle the edge of largest |x| pulls down, pq = -sign(x_ab); so the search for
violated triangles looks at pairs with large |x_ab|, and for each the violation over all c is one row,
|x_bc - sign x_ac| - (1 - |x_ab|).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh

from lipcert.budget import Budget
from lipcert.relaxation.rank_two import Floats, Integers
from lipcert.relaxation.triangles import NO_TRIANGLES, Triangles
from lipcert.solver.costs import EIGENVALUE, EIGENVALUE_CALLS, THIN_CALLS
from lipcert.solver.low_rank import Extrapolation
from lipcert.steps import THIN

# Entries that one search for violated triangles looks at. Where all pairs have more, a random part of the pairs is
# taken.
TRIANGLE_LOOKS = 4e8

_STRONG = 0.4  # |x| of an edge that is looked at; a triangle whose three edges are weaker is violated by at most 0.2
_BLOCK = 256  # pairs at a time: their rows stay in the cache
_FROM_BLOCK = 3000  # triangles of one block
LEAST = 0.02  # a violation that is worth a row


def violated(X: Singles, threshold: float, most: int, seed: int) -> tuple[Triangles, Floats, float]:
    """Triangles violated by more than about `threshold`, `most` at most; their violations; the next threshold."""
    size = len(X)
    rng = np.random.default_rng(seed)
    a, b = np.nonzero(np.triu(np.abs(X) > _STRONG, 1))
    if len(a) * size > TRIANGLE_LOOKS:
        some = rng.random(len(a)) < TRIANGLE_LOOKS / (len(a) * size)
        a, b = a[some], b[some]
    sign = -np.sign(X[a, b])
    room = 1.0 - np.abs(X[a, b])
    pieces = [_of_block(X, a[k], b[k], sign[k], room[k], threshold) for k in _blocks(len(a))]
    if not pieces:
        return NO_TRIANGLES, np.zeros(0), max(threshold / 2, LEAST)
    nodes, signs, size_of = (np.concatenate(part) for part in zip(*pieces, strict=True))
    following = max(threshold / 2, LEAST)
    if len(nodes) > most:
        worst = np.argpartition(-size_of, most)[:most]
        nodes, signs, size_of = nodes[worst], signs[worst], size_of[worst]
        following = max(float(size_of.min()), LEAST)
    return Triangles.of(nodes, signs), size_of, following


def _blocks(count: int) -> list[slice]:
    return [slice(k, k + _BLOCK) for k in range(0, count, _BLOCK)]


Found = tuple[np.ndarray, np.ndarray, np.ndarray]


def _of_block(
    X: Singles,
    a: np.ndarray,
    b: np.ndarray,
    sign: np.ndarray,
    room: np.ndarray,
    threshold: float,
) -> Found:
    """Nodes, signs and violations from these pairs."""
    pull = X[b]
    pull *= sign[:, None]
    pull += X[a]
    size = np.abs(pull)
    size -= room[:, None]
    flat = np.flatnonzero(size > threshold)
    if len(flat) > _FROM_BLOCK:
        flat = flat[np.argpartition(-size.ravel()[flat], _FROM_BLOCK)[:_FROM_BLOCK]]
    pair, c = np.divmod(flat, len(X))
    second, third = sign[pair].astype(np.int64), -np.sign(pull.ravel()[flat]).astype(np.int64)
    nodes = np.stack([a[pair], b[pair], c], axis=1)
    signs = np.stack([np.ones_like(second), second, third], axis=1)
    return nodes, signs, size.ravel()[flat].astype(np.float64)


Singles = NDArray[np.float32]
Slope = Callable[[Singles], tuple[float, Singles]]  # value and slope at unit rows; only the slope's tangent part counts

_MEMORY = 12
_SUFFICIENT = 1e-4  # share of the decrease that the slope predicts, in a line search (Armijo)
_HALVINGS = 12


def unit(V: Singles) -> Singles:
    """Rows of length one; a row of zeros stays."""
    norm = np.sqrt(np.einsum("ij,ij->i", V, V))
    return np.asarray(V / np.where(norm > 0, norm, 1.0)[:, None], dtype=np.float32)


def climb(f: Slope, V: Singles, steps: int) -> Singles:
    """A local maximum of f from V on, as far as `steps` steps and single precision go."""
    value, slope = f(V)
    slope = _tangent(slope, V)
    history: list[tuple[Singles, Singles, float]] = []
    for _ in range(steps):
        way = _newton(slope, history)
        promise = float(np.vdot(way, slope))
        if promise <= 0:
            history, way, promise = [], slope, float(np.vdot(slope, slope))
        length = 1.0 if history else 0.3 / max(float(np.sqrt(np.max(np.einsum("ij,ij->i", way, way)))), 1e-30)
        for _ in range(_HALVINGS):
            new = unit(V + np.float32(length) * way)
            value_there, slope_there = f(new)
            if value_there >= value + _SUFFICIENT * length * promise:
                break
            length /= 2 if length > 1e-3 else 10
        else:
            if not history:
                return V  # no way up that single precision can see
            history = []
            continue
        slope_there = _tangent(slope_there, new)
        s, y = new - V, slope - slope_there
        curvature = float(np.vdot(s, y))
        if curvature > 1e-10 * float(np.vdot(s, s)):
            history = [*history[1 - _MEMORY :], (s, y, 1.0 / curvature)]
        V, value, slope = new, value_there, slope_there
    return V


def _tangent(slope: Singles, V: Singles) -> Singles:
    return np.asarray(slope - np.einsum("ij,ij->i", slope, V)[:, None] * V)


def _newton(slope: Singles, history: list[tuple[Singles, Singles, float]]) -> Singles:
    """The two loops: an estimate of the inverse curvature times the slope."""
    q, weights = slope.copy(), []
    for s, y, inverse in reversed(history):
        weight = inverse * float(np.vdot(s, q))
        q -= np.float32(weight) * y
        weights.append(weight)
    if history:
        s, y, inverse = history[-1]
        q *= np.float32(1.0 / (inverse * float(np.vdot(y, y))))
    for (s, y, inverse), weight in zip(history, reversed(weights), strict=True):
        q += np.float32(weight - inverse * float(np.vdot(y, q))) * s
    return q


TRIANGLE_ENTRY = 20.0  # operations for each triangle of the list, in one evaluation
TRIANGLE_DRAW = 1.0  # operations of a search for violated triangles, times the order cubed

_MARGIN = 0.08  # a triangle this near its bound stays in the list


@dataclass(frozen=True)
class TriangleOptions:
    """Settings; measured in docs/experiments/triangles.md."""

    rank: int | None = None  # None: beyond sqrt(2 N), where local maxima are global
    inner: int = 120  # steps of a climb
    penalty: float = 0.06  # in units of the mean diagonal multiplier
    joining: int = 30_000  # triangles that may join in a round
    often: int = 16  # rounds at first in which the list is drawn anew every other time
    seldom: int = 16  # rounds that the next list serves, and how many more each following one
    tolerance: float = 2e-3  # violation at which the rounds end
    rounds: int = 10_000


@dataclass(frozen=True, eq=False)
class TriangleStart:
    """A start for another run on a similar problem: triangles, their multipliers, and the vectors."""

    triangles: Triangles
    g: Floats
    V: Singles


@dataclass(frozen=True, eq=False)
class Dual:
    """diag(d) + sum of the triangles at g >= C, up to rounding: sum(d) + sum(g) bounds <C, X>."""

    triangles: Triangles
    g: Floats
    d: Floats
    value: float


class _Edges:
    """Which moments the triangles of a list speak about: excess = -1 - B' x, x the moments at the places `at`."""

    def __init__(self, triangles: Triangles, size: int) -> None:
        (a, b, c), (p, q, r) = triangles.nodes.T, triangles.signs.T
        places = np.concatenate([a * size + b, b * size + c, a * size + c])
        signs = np.concatenate([p * q, q * r, p * r]).astype(np.float32)
        self.at, edge = np.unique(places, return_inverse=True)
        self.mirror: Integers = (self.at % size) * size + self.at // size
        which = np.tile(np.arange(len(triangles), dtype=np.int32), 3)
        self.B = sp.csr_matrix((signs, (edge.astype(np.int32), which)), shape=(len(self.at), len(triangles)))
        self.turned = sp.csr_matrix(self.B.T)

    def excess(self, X: Singles) -> Singles:
        return np.asarray(-1.0 - self.turned @ X.ravel()[self.at], dtype=np.float32)


class TriangleRun:
    """The rounds, one at a time."""

    def __init__(self, C: Floats, budget: Budget, options: TriangleOptions, start: TriangleStart | None = None) -> None:
        self.budget, self.begin = budget, budget.now()
        self.constant = np.diag(C).copy()
        self.M = C - np.diag(self.constant)
        self.single = self.M.astype(np.float32)
        self.options, self.size = options, len(C)
        rank = min(options.rank or int(np.sqrt(2.0 * self.size)) + 2, self.size)
        V = np.random.default_rng(0).standard_normal((self.size, rank)).astype(np.float32)
        self.triangles, self.g = NO_TRIANGLES, np.zeros(0)
        self.scale, self.weight = 1.0, 1.0
        if start is not None and start.V.shape == V.shape and np.all(start.triangles.nodes < self.size):
            V, self.triangles, self.g = start.V, start.triangles, start.g
        self.base, self.mean, self.extrapolation = self.g, self.g, Extrapolation()
        self.served = 0  # rounds since the list was drawn
        self.period = options.seldom  # rounds that it lasts, more each time: a longer list converges slower
        self.V, self.round, self.violation, self.threshold = unit(V), 0, np.inf, 0.35
        self.edges = _Edges(self.triangles, self.size)
        self._first()

    def _first(self) -> None:
        """A scale from the problem without triangles, and its vectors, unless given ones suit the multipliers more."""
        V = climb(self._counted(self._free, self._step_operations(0)), self.V, 60)
        lengths = np.linalg.norm(self.single @ V, axis=1)
        self.scale, self.weight = float(lengths.sum()), self.options.penalty * float(lengths.mean())
        M = self._priced()
        if np.vdot(M @ V, V) > np.vdot(M @ self.V, self.V):
            self.V = V

    def _priced(self) -> Floats:
        """The objective with the triangles paid at the mean multipliers."""
        S = np.zeros((self.size, self.size))
        S.reshape(-1)[self.edges.at] = self.edges.B @ self.mean
        return np.asarray(self.M + (S + S.T) / 2)

    def _free(self, V: Singles) -> tuple[float, Singles]:
        image = self.single @ V
        return float(np.einsum("ij,ij->", image, V, dtype=np.float64)), 2 * image

    def _step_operations(self, triangles: int) -> float:
        """Operations of one evaluation: moments and slope of all pairs, a few looks at every triangle of the list."""
        return 4.0 * self.size * self.V.size + TRIANGLE_ENTRY * triangles + THIN_CALLS

    def _counted(self, f: Slope, operations: float) -> Slope:
        """f with its work counted."""

        def counted(V: Singles) -> tuple[float, Singles]:
            with self.budget.measured(operations, THIN):
                return f(V)

        return counted

    def advance(self, budget: Budget) -> bool:
        """One round: the list is drawn anew, vectors climb, multipliers follow. False at the tolerance or the end."""
        self.budget = budget
        if budget.over():
            return False
        if self._due():
            with budget.measured(TRIANGLE_DRAW * self.size**3, THIN):
                self._draw()
        try:
            self.V = self._climb()
        except TimeoutError:
            return False
        self._update()
        self.round += 1
        return self.violation > self.options.tolerance and self.round < self.options.rounds

    def _due(self) -> bool:
        """Whether the list is drawn anew: often at first, seldom later, never when there is no time left to use it."""
        if self.round < self.options.often:
            return self.round % 2 == 0
        each = (self.budget.now() - self.begin) / self.round
        following = self.period + self.options.seldom
        return self.served >= self.period and following * each < self.budget.left()

    @property
    def settled(self) -> bool:
        """Whether the multipliers have seen their list for as long as it is going to last."""
        return self.round % 8 == 0 if self.round < self.options.often else self.served % self.period == 0

    def _draw(self) -> None:
        X = self.V @ self.V.T
        keep = (self.mean > 0) | (self.edges.excess(X) > -_MARGIN)
        known = self.triangles[keep]
        if self.round >= self.options.often:
            self.period += self.options.seldom
        found, size, self.threshold = violated(X, self.threshold, self.options.joining, self.round)
        new = found[~np.isin(found.names(), known.names())]
        self.violation = float(size.max(initial=0.0))
        none = np.zeros(len(new))
        self.triangles = known.joined(new)
        g = np.concatenate([self.mean[keep], none])
        self.g, self.base, self.mean, self.served, self.extrapolation.speed = g, g, g, 0, 1.0
        self.edges = _Edges(self.triangles, self.size)

    def _climb(self) -> Singles:
        """The vectors at the multipliers g; raises TimeoutError at the end of the budget."""
        S, edges, g = self.single.copy(), self.edges, self.g.astype(np.float32)
        flat, given = S.reshape(-1), S.reshape(-1)[edges.at]
        weight, start = np.float32(self.weight), float(g @ g)

        def lagrangian(V: Singles) -> tuple[float, Singles]:
            if self.budget.over():
                raise TimeoutError
            excess = edges.excess(V @ V.T)
            m = np.maximum(g + weight * excess, 0)
            pull = (edges.B @ m) / 2
            flat[edges.at] = flat[edges.mirror] = given + pull
            image = S @ V
            # <S, X> holds the triangles' pull too: m'(B'x) = -m'(1 + excess)
            value = float(np.einsum("ij,ij->", image, V, dtype=np.float64)) + float(m @ (excess + 1))
            value -= (float(m @ m) - start) / (2 * self.weight)
            return value / self.scale, image * np.float32(2 / self.scale)

        counted = self._counted(lagrangian, self._step_operations(len(self.triangles)))
        return climb(counted, self.V, self.options.inner)

    def _update(self) -> None:
        """(g + w e)_+, then a step further along the last change."""
        excess = self.edges.excess(self.V @ self.V.T)
        new = np.maximum(self.g + self.weight * excess, 0.0)
        change = float(np.linalg.norm(new - self.g))
        ahead = self.extrapolation.ahead(change)
        self.g, self.base = np.maximum(new + ahead * (new - self.base), 0.0), new
        self.served += 1
        self.mean = self.mean + (new - self.mean) * (2.0 / (self.served + 1.0))  # later rounds weigh more

    def primal(self) -> float:
        """The value of the vectors, which still violate some triangles."""
        return float(np.vdot(self.single @ self.V, self.V)) + float(self.constant.sum())

    def start(self) -> TriangleStart:
        used = self.mean > 0
        return TriangleStart(self.triangles[used], self.mean[used], self.V)

    def dual(self, steps: int) -> Dual:
        """Multipliers of the diagonal at fixed multipliers of the triangles."""
        d = self._diagonal(self._priced(), steps) + self.constant
        used = self.mean > 0
        g = self.mean[used]
        return Dual(self.triangles[used], g, d, float(d.sum() + g.sum()))

    def _diagonal(self, M: Floats, steps: int) -> Floats:
        """d with diag(d) >= M up to rounding, near the least sum: lengths at a maximum over unit vectors, then lifted.

        The climb ends early when the budget does; lifting is what makes d valid, however far it came.
        """
        single, scale = M.astype(np.float32), float(np.abs(M).sum())
        highest, best = -np.inf, self.V

        def value(U: Singles) -> tuple[float, Singles]:
            nonlocal highest, best
            if self.budget.over():
                raise TimeoutError
            image = single @ U
            height = float(np.einsum("ij,ij->", image, U, dtype=np.float64)) / scale
            if height > highest:
                highest, best = height, U
            return height, image * np.float32(2 / scale)

        with suppress(TimeoutError):
            best = climb(self._counted(value, self._step_operations(0)), self.V, steps)
        with self.budget.measured(2 * (EIGENVALUE * self.size**3 + EIGENVALUE_CALLS)):
            return _lifted(M, best.astype(np.float64))


def _lifted(M: Floats, V: Floats) -> Floats:
    V /= np.linalg.norm(V, axis=1)[:, None]
    d = np.einsum("ij,ij->i", M @ V, V)
    d = np.maximum(d, 1e-4 * max(float(d.mean()), np.finfo(float).tiny))
    low = eigh(np.diag(d) - M, eigvals_only=True, subset_by_index=(0, 0))[0]
    shifted = d + max(-float(low), 0.0) * (1.0 + 1e-9)
    root = 1.0 / np.sqrt(d)
    high = eigh(M * root[:, None] * root, eigvals_only=True, subset_by_index=(len(d) - 1, len(d) - 1))[0]
    scaled = d * max(float(high), 0.0) * (1.0 + 1e-12)
    return np.asarray(shifted if shifted.sum() < scaled.sum() else scaled)
