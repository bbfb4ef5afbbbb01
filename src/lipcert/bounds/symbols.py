"""The spectral norm of a convolution, proved by its symbol: a matrix as wide as the channels at every frequency.

The matrix of a convolution with zero padding has some rows and some columns of an operator on periodic tensors, if the
period leaves room for the padding, and of an operator on infinite tensors. Both act on every frequency w by itself,

    W(w) = sum_j K_j exp(i j.w),     so that  |matrix|  <=  max |W(w)|  over the frequencies of the period,
                                                        <=  sup |W(w)|  over all frequencies.

A stride s and a dilation d become one: taps whose numbers differ by s / gcd(s, d) see the same part of the input, and
each part is an input channel of its own (space to depth). On an axis with taps 0..2n and N frequencies, sup |W| is at
most 1 / cos(pi n / N) times the largest |W| at the frequencies: u*W(w)v is, but for a phase, a trigonometric polynomial
of degree n for any u and v, and near its largest value it falls no faster than a cosine [M. Riesz].

At a frequency |W|^2 <= m is proved by a factorisation of m I - W W* as a real matrix of twice the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from lipcert.problem.convolution import Convolution
from lipcert.problem.maps import Index
from lipcert.rounding import Array, gamma, grow
from lipcert.rounding.definite import are_positive
from lipcert.steps import step

_FINE, _COARSE = 1e-3, 9e-3  # relative distance from the supremum that the number of frequencies leaves
_CHEAP = 5e10  # operations up to which the finer grid is taken
_SMALL, _CALLS = 3e3, 5e4  # operations in the time that small matrices take besides, for n^2 and for each; measured
_NUMBERS = 1 << 21  # numbers in the matrices that are factored at a time
_GROWTHS = (1e-7, 1e-5, 1e-3, 0.05)  # relative distances from the largest eigenvalue; the first that is proved is taken
TABLE = 2.0**-44  # error of cosines and sines: libm's, and that of the angles, which are below 7 on every axis


@dataclass(frozen=True, eq=False)
class Symbol:
    """Kernels (groups, rows, columns, taps), the exponents of the taps, and the frequencies' number by axis.

    `correction` is what the largest value at the frequencies is to be multiplied by.
    """

    kernels: Array
    exponents: Index
    points: tuple[int, ...]
    correction: float

    @classmethod
    def of(cls, map_: Convolution) -> Symbol:
        """The symbol of a convolution, with fewer rows than columns."""
        parts, taps = _parts(map_), map_.kernel.ndim - 2
        count = parts.shape[3:]
        choices = [_points(map_, count, tolerance) for tolerance in (_FINE, _COARSE)]
        kernels = parts.reshape(*parts.shape[:3], -1)
        if kernels.shape[1] > kernels.shape[2]:
            kernels = kernels.swapaxes(1, 2)
        if len(kernels) > 1:
            kernels = np.unique(kernels, axis=0)  # the groups of a pooling are equal
        exponents = np.stack([e.reshape(-1) for e in np.meshgrid(*map(np.arange, count), indexing="ij")], axis=1)
        assert exponents.shape[1] == taps
        fine, coarse = (cls(kernels, exponents, *choice) for choice in choices)
        return fine if fine.operations <= _CHEAP else coarse

    @property
    def operations(self) -> float:
        """The operations of a proof, about."""
        groups, n, m, taps = self.kernels.shape
        one = 4.0 * n * m * (n + taps) + 3.0 * float(n) ** 3 + _SMALL * float(n) ** 2 + _CALLS
        return float(len(self._places) * groups * one)

    @cached_property
    def _places(self) -> Index:
        """The numbers of the frequencies by axis, one of each two that are conjugate; in no order."""
        first, *others = self.points
        axes = [np.arange(first // 2 + 1), *map(np.arange, others)]
        places = np.stack([k.reshape(-1) for k in np.meshgrid(*axes, indexing="ij")], axis=1)
        return np.random.default_rng(0).permutation(places)

    def values(self) -> Iterator[tuple[Array, Array]]:
        """Real and imaginary parts (matrices, rows, columns) at some frequencies at a time, for all groups."""
        groups, n, m, taps = self.kernels.shape
        some = max(1, _NUMBERS // (groups * (4 * n * n + 4 * n * m)))
        flat = self.kernels.reshape(-1, taps).T
        for start in range(0, len(self._places), some):
            angles = angles_of(self._places[start : start + some], self.exponents, self.points)
            step(self.operations * len(angles) / len(self._places))
            yield (np.cos(angles) @ flat).reshape(-1, n, m), (np.sin(angles) @ flat).reshape(-1, n, m)

    def norm(self) -> float:
        """An upper bound of the supremum, or of the largest value at the frequencies of a period."""
        _, n, m, taps = self.kernels.shape
        size = np.abs(self.kernels).sum(axis=3)
        rows, columns = (grow(size.sum(axis=k), taps + n + m).max(initial=0.0) for k in (2, 1))
        square = float(grow(np.asarray(rows * columns), 4))  # at least the squared norm of the sum of all |K_j|
        error = 5.0 * gamma(2 * m + 8) * square + 1e-200
        most = 0.0
        for real, imaginary in self.values():
            own = _largest(real, imaginary, most, error)
            if own == math.inf:
                return own
            most = max(most, own)
        off = 2.0 * (gamma(taps + 8) + TABLE) * math.sqrt(square)  # what rounding does to the symbol itself
        return float(grow(np.asarray((math.sqrt(most) + off) * self.correction), 16))


def angles_of(places: Index, exponents: Index, points: tuple[int, ...]) -> Array:
    """The angles j.w of the exponents j (a column for each) at some frequencies w = 2 pi places / points."""
    turns = (places[:, None] * exponents[None]) % np.array(points)
    return np.asarray((turns * (2.0 * math.pi / np.array(points))).sum(axis=2))


def convolution_norm(map_: Convolution) -> float:
    """An upper bound of the spectral norm; infinite where numbers overflow."""
    if map_ not in _NORMS:
        largest = float(np.abs(map_.kernel).max(initial=0.0))
        unit = math.frexp(largest)[1] if largest else 0
        if not largest:
            _NORMS[map_] = 0.0
        elif not math.isfinite(largest) or abs(unit) > 900:
            _NORMS[map_] = math.inf
        else:  # a factor that is a power of two, so that no square vanishes or overflows
            scaled = map_.entrywise(lambda numbers: np.ldexp(numbers, -unit))
            _NORMS[map_] = math.nextafter(math.ldexp(Symbol.of(scaled).norm(), unit), math.inf)
    return _NORMS[map_]


_NORMS: WeakKeyDictionary[Convolution, float] = WeakKeyDictionary()  # every part of a network asks for them again


def _parts(map_: Convolution) -> Array:
    """The kernel by (groups, out channels, in channels and parts of the input, taps of stride one on every axis)."""
    kernel, window = map_.kernel, map_.window
    periods = [s // math.gcd(s, d) for s, d in zip(window.strides, window.dilations, strict=True)]
    more = [(-taps) % period for taps, period in zip(window.kernel, periods, strict=True)]
    padded = np.pad(kernel, [(0, 0), (0, 0), *((0, n) for n in more)])
    split = [n for taps, period in zip(padded.shape[2:], periods, strict=True) for n in (taps // period, period)]
    axes = len(periods)
    apart = padded.reshape(map_.groups, -1, kernel.shape[1], *split)
    order = [0, 1, 2, *(4 + 2 * k for k in range(axes)), *(3 + 2 * k for k in range(axes))]
    return np.ascontiguousarray(
        apart.transpose(order).reshape(map_.groups, len(kernel) // map_.groups, -1, *split[::2])
    )


def _points(map_: Convolution, taps: tuple[int, ...], tolerance: float) -> tuple[tuple[int, ...], float]:
    """The number of frequencies by axis, and the correction: those of a period where these are fewer."""
    found, correction = [], 1.0
    for axis, count in enumerate(taps):
        half = (count - 1) / 2
        number = math.ceil(math.pi * half * math.sqrt(len(taps) / (2 * tolerance))) if count > 1 else 1
        period = _period(map_, axis)
        found.append(max(1, min(number, period)))
        if number < period:
            correction *= 1.0 / math.cos(math.pi * half / number)
    return tuple(found), correction * (1.0 + 2.0**-40)


def _period(map_: Convolution, axis: int) -> int:
    return -(-least_period(map_, axis) // map_.window.strides[axis])


def least_period(map_: Convolution, axis: int) -> int:
    """Places of the smallest periodic input on which no tap of an output reads around the end what it should not."""
    w, size, outputs = map_.window, map_.spatial[axis], map_.outputs[axis]
    before, stride = w.before[axis], w.strides[axis]
    reach = (outputs - 1) * stride + (w.kernel[axis] - 1) * w.dilations[axis] - before + 1
    return max(size + before, reach, outputs * stride)


def _largest(real: Array, imaginary: Array, most: float, error: float) -> float:
    """A proved bound, at least `most`, of the squared norms of matrices whose W W* is known with an error."""
    n = real.shape[1]
    if not np.any(imaginary):  # kernels of one tap, and averages
        gram = real @ real.swapaxes(1, 2)
        minus = -gram
    else:
        both = np.concatenate([real, imaginary], axis=2)
        own, cross = both @ both.swapaxes(1, 2), imaginary @ real.swapaxes(1, 2)
        cross = cross - cross.swapaxes(1, 2)
        minus = np.empty((len(real), 2 * n, 2 * n))
        minus[:, :n, :n] = minus[:, n:, n:] = -own
        minus[:, n:, :n], minus[:, :n, n:] = -cross, cross
        gram = own + 1j * cross
    if most > 0 and are_positive(minus, most, error):
        return most
    try:
        top = float(np.linalg.eigvalsh(gram).max())
    except np.linalg.LinAlgError:
        return math.inf
    for growth in _GROWTHS:
        hint = max(most, top * (1.0 + growth)) + 2.0 * error
        if are_positive(minus, hint, error):
            return hint
    return math.inf
