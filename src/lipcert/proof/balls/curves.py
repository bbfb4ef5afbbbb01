"""Activations in balls: formulas of the value and its first two derivatives, and what they are at most on intervals.

Nothing is taken from the floating-point classes but the number `alpha`, which intervals lie in the domain, and bounds
on intervals that are unbounded or leave the domain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipcert.bounds.interval import Interval
from lipcert.errors import MethodError
from lipcert.problem.activations import Activation
from lipcert.proof.balls.numbers import Balls, above, balls, load_flint
from lipcert.rounding import Array

Function = Callable[[Any], Any]

_DEEP = 70  # halvings of an interval on which a derivative turns
_WORK = 4000  # pieces of one interval at most
_NOTHING = 2.0**-64  # differences of bounds below this one do not count


@dataclass(frozen=True)
class CurvePiece:
    """On [left, right] the activation is one formula: value, derivative, second derivative."""

    left: float
    right: float
    value: Function
    slope: Function
    second: Function


def pieces_of(f: Activation) -> tuple[CurvePiece, ...]:
    """The formulas of an activation, from left to right."""
    arb = load_flint().arb
    zero, one, inf = arb(0), arb(1), np.inf
    alpha = arb(f.alpha)

    def line(left: float, right: float, slope: Any) -> CurvePiece:
        return CurvePiece(left, right, lambda z: slope * z, lambda _: slope, lambda _: zero)

    match f.kind:
        case "identity":
            return (line(-inf, inf, one),)
        case "relu" | "leaky_relu":
            return line(-inf, 0.0, alpha), line(0.0, inf, one)
        case "elu":
            low = CurvePiece(
                -inf, 0.0, lambda z: alpha * z.expm1(), lambda z: alpha * z.exp(), lambda z: alpha * z.exp()
            )
            return low, line(0.0, inf, one)
        case "softsign":
            left = (lambda z: z / (1 - z), lambda z: (1 - z) ** -2, lambda z: 2 * (1 - z) ** -3)
            right = (lambda z: z / (1 + z), lambda z: (1 + z) ** -2, lambda z: -2 * (1 + z) ** -3)
            return CurvePiece(-inf, 0.0, *left), CurvePiece(0.0, inf, *right)
        case "hardswish":
            bump = (lambda z: z * (z + 3) / 6, lambda z: (2 * z + 3) / 6, lambda _: one / 3)
            return line(-inf, -3.0, zero), CurvePiece(-3.0, 3.0, *bump), line(3.0, inf, one)
        case "power":
            return (CurvePiece(-inf, inf, *(_power(f.alpha, k) for k in range(3))),)
        case _:
            return (CurvePiece(-inf, inf, *_smooth(f.kind)),)


def _power(exponent: float, order: int) -> Function:
    """A derivative of z^exponent; whole powers are products, others are 0 at 0 where the exponent is positive."""
    arb = load_flint().arb
    factor, left = arb(1), arb(exponent) - order
    for k in range(order):
        factor *= arb(exponent) - k
    if exponent == round(exponent):
        return lambda z: factor * z ** (round(exponent) - order) if factor != 0 else factor
    return lambda z: arb(0) if z == 0 and left > 0 else factor * z**left


def _smooth(kind: str) -> tuple[Function, Function, Function]:
    """Formulas that hold everywhere."""
    arb = load_flint().arb
    if kind == "tanh":
        return lambda z: z.tanh(), lambda z: 1 - z.tanh() ** 2, lambda z: -2 * z.tanh() * (1 - z.tanh() ** 2)
    if kind in _ELEMENTARY:
        return _ELEMENTARY[kind]
    if kind == "erf":
        c = 2 / arb.pi().sqrt()
        return lambda z: z.erf(), lambda z: c * (-z * z).exp(), lambda z: -2 * c * z * (-z * z).exp()
    if kind == "sigmoid":
        return _logistic, lambda z: _bell(_logistic(z)), lambda z: _bell(_logistic(z)) * (1 - 2 * _logistic(z))
    if kind == "softplus":
        return _softplus, _logistic, lambda z: _bell(_logistic(z))
    if kind in _SHARES:
        share = _SHARES[kind]  # f = z s: f' = s + z s', f'' = 2 s' + z s''
        return (
            lambda z: z * share(z)[0],
            lambda z: share(z)[0] + z * share(z)[1],
            lambda z: 2 * share(z)[1] + z * share(z)[2],
        )
    raise MethodError(f"the exact check has no formula of {kind}; use verify without it")


def _logistic(z: Any) -> Any:
    return (1 + (z / 2).tanh()) / 2


def _bell(s: Any) -> Any:
    return s * (1 - s)


def _softplus(z: Any) -> Any:
    """log(1 + exp(z)), which rises: of a wide ball from one end to the other."""
    if z.is_exact():
        return z.exp().log1p()
    return z.lower().exp().log1p().union(z.upper().exp().log1p())


def _silu_share(z: Any) -> tuple[Any, Any, Any]:
    s = _logistic(z)
    return s, _bell(s), _bell(s) * (1 - 2 * s)


def _gelu_share(z: Any) -> tuple[Any, Any, Any]:
    arb = load_flint().arb
    density = (-z * z / 2).exp() / (2 * arb.pi()).sqrt()
    return (1 + (z / arb(2).sqrt()).erf()) / 2, density, -z * density


def _tanh_gelu_share(z: Any) -> tuple[Any, Any, Any]:
    """The logistic function of w = 2 sqrt(2/pi) (z + c z^3), with the float c nearest to 0.044715."""
    arb = load_flint().arb
    k, c = 2 * (2 / arb.pi()).sqrt(), arb(0.044715)
    s, dw, ddw = _logistic(k * (z + c * z**3)), k * (1 + 3 * c * z * z), 6 * k * c * z
    return s, _bell(s) * dw, _bell(s) * ((1 - 2 * s) * dw * dw + ddw)


def _mish_share(z: Any) -> tuple[Any, Any, Any]:
    t, s = _softplus(z).tanh(), _logistic(z)
    rise = 1 - t * t
    return t, rise * s, rise * _bell(s) - 2 * t * rise * s * s


_ELEMENTARY: dict[str, tuple[Function, Function, Function]] = {
    "exp": (lambda z: z.exp(),) * 3,
    "log": (lambda z: z.log(), lambda z: 1 / z, lambda z: -1 / z**2),
    "sin": (lambda z: z.sin(), lambda z: z.cos(), lambda z: -z.sin()),
    "cos": (lambda z: z.cos(), lambda z: -z.sin(), lambda z: -z.cos()),
    "atan": (lambda z: z.atan(), lambda z: 1 / (1 + z * z), lambda z: -2 * z / (1 + z * z) ** 2),
    "sinh": (lambda z: z.sinh(), lambda z: z.cosh(), lambda z: z.sinh()),
    "cosh": (lambda z: z.cosh(), lambda z: z.sinh(), lambda z: z.cosh()),
}
_SHARES: dict[str, Callable[[Any], tuple[Any, Any, Any]]] = {
    "silu": _silu_share,
    "gelu": _gelu_share,
    "gelu_tanh": _tanh_gelu_share,
    "mish": _mish_share,
}


def most(f: Function, df: Function, lo: Any, hi: Any) -> Any:
    """At least the maximum of f over [lo, hi], df being its derivative: halved until df has a sign, or nothing is left.

    On a piece without sign f is at most its value in the middle plus the largest |df| times half the width.
    """
    best, todo, work = f(lo).max(f(hi)), [(lo, hi, 0)], 0
    while todo:
        a, b, depth = todo.pop()
        slope = df(a.union(b))
        work += 1
        if slope >= 0 or slope <= 0:
            continue  # the ends have been looked at
        middle = ((a + b) / 2).mid()
        value, half = f(middle), (b - middle).max(middle - a)
        bound = value + abs(slope) * half
        if bound <= best:
            continue
        best = best.max(value)
        if depth >= _DEEP or work > _WORK or bound - best < _NOTHING:
            best = best.max(bound)
            continue
        todo += [(a, middle, depth + 1), (middle, b, depth + 1)]
    return best


def _over(f: Activation, order: int, sign: int, slope: float, lo: float, hi: float) -> Any:
    """At least the maximum of sign (F(z) - slope z) on [lo, hi], F being the value (0) or the derivative (1)."""
    arb, best = load_flint().arb, None
    for piece in pieces_of(f):
        a, b = max(lo, piece.left), min(hi, piece.right)
        if a > b or (a == b and lo < hi):
            continue
        own, first = (piece.value, piece.slope) if order == 0 else (piece.slope, piece.second)

        def value(z: Any, own: Function = own) -> Any:
            return sign * (own(z) - slope * z)

        def change(z: Any, first: Function = first) -> Any:
            return sign * (first(z) - slope)

        found = most(value, change, arb(a), arb(b))
        best = found if best is None else best.max(found)
    assert best is not None
    return best


def shifts(f: Activation, slope: Array, z: Interval, order: int = 0) -> tuple[Balls, Balls]:
    """At most the minimum and at least the maximum of F(z) - slope z on finite intervals, entry by entry; infinite
    where an interval leaves the domain."""
    rows = list(zip(slope.tolist(), z.lo.tolist(), z.hi.tolist(), strict=True))
    low, high = balls(np.full(len(rows), -np.inf)), balls(np.full(len(rows), np.inf))
    for k in np.flatnonzero(f.defined(*z)):
        low[k], high[k] = -_over(f, order, -1, *rows[k]), _over(f, order, 1, *rows[k])
    return low, high


def value_bounds(f: Activation, z: Interval) -> Interval:
    """Floats around the values on intervals; infinite ends are allowed."""
    if f.kind == "identity":
        return z
    if f.kind == "relu":
        return Interval(np.maximum(z.lo, 0.0), np.maximum(z.hi, 0.0))
    if f.kinked:
        ends = [np.where(end > 0, end, _outward(f.alpha, end, side)) for end, side in ((z.lo, -1), (z.hi, 1))]
        return Interval(*ends)
    return _bounds(f, z, 0)


def slope_bounds(f: Activation, z: Interval) -> Interval:
    """Floats around the derivatives on intervals; a kink at an end of an interval counts with what is inside."""
    if f.piecewise_linear:
        a, b = f.slopes
        on, off = (z.lo >= 0) & (z.hi > 0), (z.hi <= 0) & (z.lo < 0)
        below = np.where(off, f.alpha, np.where(on, 1.0, a)) if f.kinked else np.ones_like(z.lo)
        top = np.where(off, f.alpha, np.where(on, 1.0, b)) if f.kinked else np.ones_like(z.lo)
        return Interval(below, top)
    return _bounds(f, z, 1)


def _outward(alpha: float, end: Array, side: int) -> Array:
    """alpha times negative ends, rounded down (-1) or up (1); infinite ones stay."""
    arb = load_flint().arb
    finite = np.where(np.isfinite(end), np.minimum(end, 0.0), 0.0)
    found = np.empty(len(end), dtype=object)
    found[:] = [arb(alpha) * arb(e) for e in finite.tolist()]
    return np.where(np.isneginf(end) & (alpha > 0), -np.inf, side * above(side * found))


def _bounds(f: Activation, z: Interval, order: int) -> Interval:
    """Bounds in balls; intervals that are unbounded or leave the domain have those of the floating-point class."""
    whole = ~(np.isfinite(z.lo) & np.isfinite(z.hi) & f.defined(*z))
    inside = Interval(np.where(whole, 0.0, z.lo), np.where(whole, 0.0, z.hi))
    low, high = shifts(f, np.zeros(len(z.lo)), inside, order)
    lo, hi = -above(-low), above(high)
    if np.any(whole):
        said = (f.derivative_bounds if order else f.value_bounds)(*z)
        lo, hi = np.where(whole, said[0], lo), np.where(whole, said[1], hi)
    return Interval(lo, hi)
