"""A second formulation of `shor` and `hr2`, in ball arithmetic: the true rows, with the true z and no slack.

Only the powers of two of `row_scales` and the names of the families are shared with the builder, so that a mistake in
its rows, or in what it pays for rounding, shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lipcert.bounds.propagation import preactivation_bounds
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.proof import Certificate, Multipliers
from lipcert.proof.balls.numbers import BITS, LIFTS, float_above, is_positive_definite, load_flint
from lipcert.relaxation.one_layer import CHORDS, row_scales
from lipcert.rounding import Array

_EQUALITIES = ("1 = 1", "t^2 = 1", "v^2 = 1")
_PRODUCTS = {f"(1{'+' if s > 0 else '-'}t)(1{'+' if q > 0 else '-'}w) >= 0": (s, q) for s in (1, -1) for q in (1, -1)}
_OF_INPUTS = ("w^2 <= 1", *_PRODUCTS)
_OF_Z = {
    "shor": ("v z >= 0",),
    "hr2": ("(1+v) z >= 0", "(1-v) z <= 0", "(1+v)(hi - z) >= 0", "(1-v)(z - lo) >= 0", CHORDS),
}


def check_from_formulas(certificate: Certificate, net: Network) -> float:
    """The bound that a certificate of shor or hr2 proves, rounded up; infinite when it proves none."""
    flint, region = load_flint(), certificate.region
    fits = certificate.network_sha256 == net.sha256 and certificate.c.shape == (net.outputs,)
    if not fits or (isinstance(region, Box) and region.size != net.inputs):
        return math.inf
    numbers = _Numbers.of(certificate, net)
    if numbers is None:
        return math.inf
    with flint.ctx.workprec(BITS):
        return _Check(flint, certificate, net, numbers).bound()


@dataclass(frozen=True, eq=False)
class _Numbers:
    """The stored multipliers and shift, complete: what the file leaves out is zero."""

    multipliers: Mapping[str, Array]
    shift: Mapping[str, Array]

    @classmethod
    def of(cls, certificate: Certificate, net: Network) -> _Numbers | None:
        """None for unknown names, other lengths, wrong signs, or what is no number."""
        p0, p1 = net.inputs, net.affines[0].outputs
        rows = {"1 = 1": 1, "t^2 = 1": p0, "v^2 = 1": p1} | dict.fromkeys(_OF_Z[certificate.method], p1)
        rows |= dict.fromkeys(_OF_INPUTS, p0)
        assert isinstance(certificate.proof, Multipliers)
        multipliers = _complete(certificate.proof.multipliers, rows)
        shift = _complete(certificate.proof.shift, {"one": 1, "w": p0, "t": p0, "v": p1})
        if multipliers is None or shift is None:
            return None
        signed = [v for name, v in multipliers.items() if name not in _EQUALITIES] + list(shift.values())
        return cls(multipliers, shift) if all(np.all(v >= 0) for v in signed) else None


def _complete(given: Mapping[str, Array], lengths: Mapping[str, int]) -> dict[str, Array] | None:
    full = {name: np.zeros(n) for name, n in lengths.items()}
    for name, values in given.items():
        if name not in full or np.shape(values) != full[name].shape or not np.all(np.isfinite(values)):
            return None
        full[name] = np.asarray(values, dtype=np.float64)
    return full


@dataclass(eq=False)
class _Check:
    """One check. `S` is kept as a dictionary of its entries (i <= j), both triangles added up."""

    flint: Any
    certificate: Certificate
    net: Network
    numbers: _Numbers
    S: dict[tuple[int, int], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ball, weight = self.flint.arb, self.net.affines[0].weight
        dense = np.asarray(weight if isinstance(weight, np.ndarray) else weight.toarray())
        self.weight, self.bias = dense, self.net.affines[0].bias
        self.A = [[ball(e) for e in row] for row in dense.tolist()]
        head = self.net.affines[1].weight
        head = np.asarray(head if isinstance(head, np.ndarray) else head.toarray()).tolist()
        c = [ball(e) for e in self.certificate.c.tolist()]
        self.head = [sum((c[k] * head[k][j] for k in range(len(c))), ball(0)) for j in range(len(self.A))]
        self.alpha = ball(self.net.activations[0].alpha)
        self.total = ball(0)

    def bound(self) -> float:
        """b'lambda + the shift + what is paid for, when S + diag(shift) > 0."""
        lam, region = self.numbers.multipliers, self.certificate.region
        # A neuron takes part when the file gives it a diagonal; any other choice would be as true.
        self.free = np.flatnonzero((lam["v^2 = 1"] != 0) | (self.numbers.shift["v"] != 0)).tolist()
        x_families = (*_OF_INPUTS, *_OF_Z[self.certificate.method])
        with_x = any(np.any(lam[name]) for name in x_families) or bool(np.any(self.numbers.shift["w"]))
        if with_x and not isinstance(region, Box):
            return math.inf
        self.moving = np.flatnonzero(region.hi > region.lo).tolist() if with_x and isinstance(region, Box) else []
        p0 = len(self.A[0])
        self.w = {i: 1 + k for k, i in enumerate(self.moving)}
        self.t = [1 + len(self.moving) + i for i in range(p0)]
        self.v = {j: 1 + len(self.moving) + p0 + k for k, j in enumerate(self.free)}
        if not self._ranges():
            return math.inf
        self._objective()
        self._diagonal()
        if isinstance(region, Box) and with_x:
            self._input_rows()
            self._z_rows(region)
        return self._prove(1 + len(self.moving) + p0 + len(self.free))

    def _ranges(self) -> bool:
        """The exact range of every z, and whether the floats lo and hi used in the rows bound it."""
        ball, region = self.flint.arb, self.certificate.region
        bounds = preactivation_bounds(self.net, region)[0]
        self.lo, self.hi = bounds.lo.tolist(), bounds.hi.tolist()
        self.stable: dict[int, Any] = {}
        if not isinstance(region, Box):
            return True
        low, high = [ball(e) for e in region.lo.tolist()], [ball(e) for e in region.hi.tolist()]
        self.m = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
        self.r = [(b - a) / 2 for a, b in zip(low, high, strict=True)]
        self.middle = []
        for j, row in enumerate(self.A):
            middle = sum((a * m for a, m in zip(row, self.m, strict=True)), ball(self.bias.tolist()[j]))
            reach = sum((abs(a) * r for a, r in zip(row, self.r, strict=True)), ball(0))
            self.middle.append(middle)
            if not (ball(self.lo[j]) <= middle - reach and middle + reach <= ball(self.hi[j])):
                return False
            if middle - reach >= 0 and middle + reach > 0:
                self.stable[j] = ball(1)
            elif middle + reach <= 0 and middle - reach < 0:
                self.stable[j] = self.alpha
        return True

    def _objective(self) -> None:
        """-C for t'A' diag(u) head; a neuron outside with unknown slope is paid for."""
        half = (1 - self.alpha) / 2
        for j, row in enumerate(self.A):
            inside, known = j in self.v, self.stable.get(j)
            fixed = known if known is not None and not inside else (1 + self.alpha) / 2
            if not inside and known is None:
                self.total += half * abs(self.head[j]) * sum((abs(a) for a in row), self.flint.arb(0))
            for i, a in enumerate(row):
                self._add(0, self.t[i], -a * fixed * self.head[j])
                if inside:
                    self._add(self.t[i], self.v[j], -a * half * self.head[j])

    def _diagonal(self) -> None:
        ball, lam = self.flint.arb, self.numbers.multipliers
        places = [("1 = 1", {0: 0}), ("t^2 = 1", dict(enumerate(self.t))), ("v^2 = 1", self.v), ("w^2 <= 1", self.w)]
        for name, where in places:
            for k, i in where.items():
                self._add(i, i, ball(float(lam[name][k])))
                self.total += ball(float(lam[name][k]))

    def _input_rows(self) -> None:
        """-(1 + s t)(1 + q w) <= 0."""
        for name, (s, q) in _PRODUCTS.items():
            for i in self.moving:
                value = self.flint.arb(float(self.numbers.multipliers[name][i]))
                self._add(0, 0, -value)
                self._add(0, self.t[i], -s * value)
                self._add(0, self.w[i], -q * value)
                self._add(self.t[i], self.w[i], -s * q * value)

    def _z_rows(self, box: Box) -> None:
        """Sums of p z + q v z + constants, with z = middle + sum_i A_ji r_i w_i."""
        m = box.lo / 2 + box.hi / 2
        with np.errstate(over="ignore", invalid="ignore"):
            scales = row_scales(self.weight, self.bias, m, np.maximum(box.hi - m, m - box.lo)).tolist()
        squares: list[Any] = []
        for j in self.free:
            mine = [
                self.flint.arb(float(self.numbers.multipliers[name][j])) * scales[j]
                for name in _OF_Z[self.certificate.method]
            ]
            if self.certificate.method == "shor":  # -v z <= 0
                self._affine_times_z(j, self.flint.arb(0), -mine[0])
                continue
            above, below, top, bottom, chord = mine
            hi, lo = self.flint.arb(self.hi[j]), self.flint.arb(self.lo[j])
            # -(1+v) z, (1-v) z, (1+v)(z - hi), -(1-v)(z - lo), all <= 0
            self._affine_times_z(j, below + top - above - bottom, top + bottom - above - below)
            self._add(0, 0, bottom * lo - top * hi)
            self._add(0, self.v[j], -bottom * lo - top * hi)
            # z^2 - ((hi + lo)/2 + (hi - lo)/2 v) z <= 0, where z is scaled twice; the squares follow for all at once
            squares.append(chord * scales[j])
            self._affine_times_z(j, -squares[-1] * (hi + lo) / 2, -squares[-1] * (hi - lo) / 2)
        if squares:
            self._squares_of_z(squares)

    def _squares_of_z(self, factors: list[Any]) -> None:
        """Adds sum_j factor_j z_j^2, a matrix product over the coefficients of (1, w)."""
        rows = [[self.middle[j], *(self.A[j][i] * self.r[i] for i in self.moving)] for j in self.free]
        G = self.flint.arb_mat(rows)
        scaled = self.flint.arb_mat([[f * e for e in row] for f, row in zip(factors, rows, strict=True)])
        square = G.transpose() * scaled
        for i in range(1 + len(self.moving)):
            self._add(i, i, square[i, i])
            for k in range(i):
                self._add(k, i, square[k, i] + square[i, k])

    def _affine_times_z(self, j: int, p: Any, q: Any) -> None:
        """Adds (p + q v_j) z_j."""
        self._add(0, 0, p * self.middle[j])
        self._add(0, self.v[j], q * self.middle[j])
        for i in self.moving:
            slope = self.A[j][i] * self.r[i]
            self._add(0, self.w[i], p * slope)
            self._add(self.v[j], self.w[i], q * slope)

    def _add(self, i: int, j: int, value: Any) -> None:
        """Adds value y_i y_j to the quadratic form y'Sy."""
        key = (min(i, j), max(i, j))
        self.S[key] = self.S[key] + value if key in self.S else value

    def _prove(self, n: int) -> float:
        ball = self.flint.arb
        shift = [0.0] * n
        for name, where in (("one", {0: 0}), ("t", dict(enumerate(self.t))), ("v", self.v), ("w", self.w)):
            for k, i in where.items():
                shift[i] = float(self.numbers.shift[name][k])
                self.total += ball(shift[i])
        S = self.flint.arb_mat(n, n)
        for (i, j), value in self.S.items():
            S[i, j] = S[j, i] = value if i == j else value / 2
        largest = max([abs(float(S[i, i].mid())) + shift[i] for i in range(n)], default=0.0)
        for lift in (lift * largest for lift in LIFTS):
            B = self.flint.arb_mat(S)
            for i in range(n):
                B[i, i] = B[i, i] + ball(shift[i]) + ball(lift)
            if is_positive_definite(B):
                return float_above(self.total + n * ball(lift))
        return math.inf
