"""Frame: norms with weights, and changes of some inputs only, as an ordinary question about another network.

    |f(x) - f(x')|_out <= L |x - x'|_in     for x, x' in the region that differ in the chosen inputs only

    |t|_in  = |diag(w) t|_p or sqrt(t'Pt),      |e|_out = |diag(v) e|_q or sqrt(e'Qe)

Changes are written t = S u, outcomes C e, where S is so wide that the unit ball of |.|_in lies in S times that of |.|_p
(s_i w_i >= 1, or S'PS >= I), and C so large that |C e|_q >= |e|_out (C'C >= Q). A bound of u -> C f(x + S u) in
plain norms is then a bound of f in the weighted ones. S and C are kept in a file and compared with the weights there.

With a diagonal S the inputs are x = S y. Inputs that do not change get a scale so small that nobody sees it: they still
move within the region. With any other S they are (x', u) -> x = small x' + S u, at u = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lipcert.errors import InputError
from lipcert.files.numbers import LARGEST_WHOLE, real, whole
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.output import ALL, choose_output
from lipcert.problem.problem import Problem
from lipcert.problem.region import Ball, Box, Everywhere, Polytope, Region
from lipcert.problem.rewriting import diagonal, followed, led, scaled_inputs
from lipcert.problem.weights import (
    Index,
    check_inputs,
    check_weights,
    cover_share,
    covering,
    covers,
    powers_of_two,
    product_share,
    ranges,
    reciprocals,
    span_share,
    spanning,
    spans,
)
from lipcert.rounding import TINY, Array, add_up, down, gamma, grow, up

NAMES = "input_weights|output_weights|changed_inputs|input_scale|output_scale"
_SMALL = 2.0**-40  # against the largest scale: how far an input that does not change is seen


@dataclass(frozen=True, eq=False)
class Frame:
    """Weights of both ends (a vector, or a positive definite matrix), which inputs change, and the S and C in use.

    `inputs` are in increasing order; None means all. `scale` is S: a vector with one entry for every input of the
    network, or a matrix with a row for each. `outcome` is C, None where the outputs have no weights.
    """

    input_weights: Array | None
    output_weights: Array | None
    inputs: Index | None
    scale: Array
    outcome: Array | None

    @classmethod
    def of(
        cls,
        net: Network,
        norm: Norm,
        input_weights: ArrayLike | None = None,
        output_weights: ArrayLike | None = None,
        inputs: Sequence[int] | Index | None = None,
    ) -> Frame | None:
        """The frame of the weights that a user gives; None where there are none and all inputs change."""
        if input_weights is None and output_weights is None and inputs is None:
            return None
        own, theirs, chosen = _checked(net, norm, input_weights, output_weights, inputs)
        outcome = theirs if theirs is None or theirs.ndim == 1 else covering(theirs)
        return cls(own, theirs, chosen, _scale(net.inputs, own, chosen), outcome)

    def covers(self, net: Network, norm: Norm) -> bool:
        """Whether S and C are wide enough for the weights, and all of it fits the network; for a checker of files."""
        try:
            own, _, chosen = _checked(net, norm, self.input_weights, self.output_weights, self.inputs)
        except InputError:
            return False
        columns = net.inputs if chosen is None else len(chosen)
        shape = (net.inputs, columns) if own is not None and own.ndim == 2 else (net.inputs,)
        if self.scale.shape != shape or not np.all(np.isfinite(self.scale)):
            return False
        return self._wide_enough() and self._large_enough()

    def _wide_enough(self) -> bool:
        scale, w = self.scale, self.input_weights
        rest = np.ones(len(scale), dtype=bool)
        rest[self._changed] = False
        if scale.ndim == 1:
            s = scale[self._changed]
            own = np.ones(len(s)) if w is None else w[self._changed]
            with np.errstate(over="ignore", under="ignore"):
                wide = np.where(powers_of_two(s) | powers_of_two(own), s * own >= 1.0, down(s * own) >= 1.0)
            return bool(np.all(wide) and np.all(scale > 0))
        return w is not None and not np.any(scale[rest]) and spans(scale[self._changed], w)

    def _large_enough(self) -> bool:
        C, v = self.outcome, self.output_weights
        if C is None or v is None:
            return C is v
        if C.shape != v.shape or not np.all(np.isfinite(C)):
            return False
        return bool(np.all(v <= C)) if v.ndim == 1 else covers(C, v)

    def problem(self, net: Network, region: Region, norm: Norm, c: Array) -> Problem:
        """The problem in plain norms. Its region is a little larger because of rounding, and a box in place of a ball.

        Half-spaces are kept where the weights are a vector, one for each input.
        """
        box = region.box if isinstance(region, Ball | Polytope) else region
        outer, chosen = self._outer(net), choose_output(c if norm.out is None else ALL, net.outputs)
        place: Region = box if isinstance(box, Everywhere) else Box.from_bounds(*self.places(box.lo, box.hi))
        if isinstance(region, Polytope) and isinstance(place, Box) and self.scale.ndim == 1:
            place = self._cut(place, region)
        if self.scale.ndim == 1:
            return Problem(scaled_inputs(outer, self.scale), place, norm, chosen)
        if isinstance(box, Everywhere) and self.inputs is None:
            return Problem(led(outer, self.scale), place, norm, chosen)
        return Problem(led(outer, self._both), place, norm, chosen)

    def _cut(self, place: Box, region: Polytope) -> Region:
        """The box cut by A S y <= b; the rounding error of A S times the largest |y| is added to b."""
        n, reach = place.size, np.maximum(np.abs(place.lo), np.abs(place.hi))
        with np.errstate(all="ignore"):
            A = region.A * self.scale
            off = grow(gamma(4) * (np.abs(A) @ reach) + TINY * (1.0 + reach.sum()), n + 8)
            b = add_up(region.b, off)
            inside = None if region.inside is None else region.inside / self.scale
        if not (np.all(np.isfinite(A)) and np.all(np.isfinite(b))):
            return place
        return Polytope(place, A, b, inside=inside)

    def places(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """The boxes lo <= x <= hi (one, or a row for each) in the ordinary question, rounded outward."""
        if self.scale.ndim == 1:
            return _divided(lo, self.scale, down), _divided(hi, self.scale, up)
        zero, small = np.zeros((*lo.shape[:-1], self.scale.shape[1])), np.asarray(self._small)
        ends = (_divided(lo, small, down), _divided(hi, small, up))
        return np.concatenate([ends[0], zero], axis=-1), np.concatenate([ends[1], zero], axis=-1)

    def point(self, y: Array) -> Array:
        """The place of a point of the ordinary question, in floating point."""
        if self.scale.ndim == 1:
            return np.asarray(self.scale * y)
        return np.asarray((self.scale if len(y) == self.scale.shape[1] else self._both) @ y)

    def beside(self, net: Network) -> tuple[Network, int]:
        """(x, u) -> C f(x + S u), and how many entries u has: at u = 0 their columns are the Jacobian in question."""
        S = self.scale
        if S.ndim == 1:
            S = np.zeros((len(S), len(self._changed)))
            S[self._changed, np.arange(len(self._changed))] = self.scale[self._changed]
        return led(self._outer(net), np.concatenate([np.eye(net.inputs), S], axis=1)), S.shape[1]

    @property
    def share(self) -> float:
        """The constant in weighted norms is at least this share of the one with S and C, which are a little wide."""
        own, theirs = self.input_weights, self.output_weights
        S = self.scale[self._changed]
        found = 1.0
        if own is not None:
            found = span_share(S, own) if own.ndim == 2 else product_share(S, own[self._changed])
        if theirs is not None and theirs.ndim == 2 and self.outcome is not None:
            found *= cover_share(self.outcome, theirs)
        return found * (1.0 - gamma(8))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The weights, the inputs that change, and the scales, by the names of a file."""
        return self.defining_arrays() | self.scales()

    def scales(self) -> dict[str, NDArray[np.generic]]:
        """S and C, which belong to a proof: the question is the same with others."""
        found: dict[str, NDArray[np.generic]] = {"input_scale": self.scale}
        return found if self.outcome is None else found | {"output_scale": self.outcome}

    def defining_arrays(self) -> dict[str, NDArray[np.generic]]:
        """The weights and the inputs that change, which belong to the question."""
        found: dict[str, NDArray[np.generic] | None] = {
            "input_weights": self.input_weights,
            "output_weights": self.output_weights,
            "changed_inputs": self.inputs,
        }
        return {name: value for name, value in found.items() if value is not None}

    def to_dict(self, norm: Norm) -> dict[str, Any]:
        """Plain values for JSON, and what the constant means."""
        return {
            "meaning": self.words(norm),
            "input_weights": None if self.input_weights is None else self.input_weights.tolist(),
            "output_weights": None if self.output_weights is None else self.output_weights.tolist(),
            "inputs": None if self.inputs is None else self.inputs.tolist(),
        }

    def words(self, norm: Norm) -> str:
        """The meaning of the constant L in one sentence."""
        left, right, names = "|f(x) - f(x')|", f"|x - x'|_{norm.p}", []
        if norm.out is not None:
            left += f"_{norm.out}"
        if self.output_weights is not None:
            diagonal_ones = self.output_weights.ndim == 1
            left = f"|V (f(x) - f(x'))|_{norm.out}" if diagonal_ones else "|f(x) - f(x')|_Q"
            names.append("V = diag(output weights)" if diagonal_ones else "|e|_Q = sqrt(e'Qe), Q the output weights")
        if self.input_weights is not None:
            diagonal_ones = self.input_weights.ndim == 1
            right = f"|W (x - x')|_{norm.p}" if diagonal_ones else "|x - x'|_P"
            names.append("W = diag(input weights)" if diagonal_ones else "|t|_P = sqrt(t'Pt), P the input weights")
        among = "" if self.inputs is None else f" that differ in inputs {ranges(self.inputs)} only"
        return "; ".join([f"{left} <= L {right} for x, x' in the region{among}", *names])

    @property
    def _changed(self) -> Index:
        return np.arange(len(self.scale)) if self.inputs is None else self.inputs

    @property
    def _small(self) -> float:
        """The scale of inputs that do not change: a power of two, tiny beside the largest entry of S."""
        return float(_SMALL * 2.0 ** np.floor(np.log2(np.abs(self.scale).max())))

    @property
    def _both(self) -> Array:
        return np.concatenate([self._small * np.eye(len(self.scale)), self.scale], axis=1)

    def _outer(self, net: Network) -> Network:
        if self.outcome is None:
            return net
        return followed(net, diagonal(self.outcome) if self.outcome.ndim == 1 else self.outcome)


def read_frame(arrays: Mapping[str, Any]) -> Frame | None:
    """The frame of a file; None where it has none."""
    if "input_scale" not in arrays:
        return None
    inputs = whole(arrays, "changed_inputs", (None,), 0, LARGEST_WHOLE) if "changed_inputs" in arrays else None
    own, theirs, outcome = (_read_weights(arrays, name) for name in ("input_weights", "output_weights", "output_scale"))
    scale = _read_weights(arrays, "input_scale")
    assert scale is not None
    return Frame(own, theirs, inputs, scale, outcome)


def _read_weights(arrays: Mapping[str, Any], name: str) -> Array | None:
    """A vector or a matrix; None where the file has none."""
    if name not in arrays:
        return None
    return real(arrays, name, (None, None) if arrays[name].ndim == 2 else (None,))


def _divided(x: Array, scale: Array, outward: Callable[[Array], Array]) -> Array:
    """x / scale rounded outward; left alone where the scale is a power of two and no digit is lost to underflow."""
    found = x / scale
    return np.where(powers_of_two(scale) & ((np.abs(found) >= TINY) | (x == 0)), found, outward(found))


def _checked(
    net: Network,
    norm: Norm,
    input_weights: ArrayLike | None,
    output_weights: ArrayLike | None,
    inputs: Sequence[int] | Index | None,
) -> tuple[Array | None, Array | None, Index | None]:
    """The weights of both ends and the inputs that change, refused where they do not fit the network or the norms."""
    chosen = None if inputs is None else check_inputs(inputs, net.inputs)
    order = net.inputs if chosen is None else len(chosen)
    own = None if input_weights is None else check_weights("input", input_weights, (net.inputs, order), norm.p)
    if output_weights is None:
        return own, None, chosen
    if norm.out is None:
        raise InputError("output weights belong to the whole map; ask for output 'all'")
    return own, check_weights("output", output_weights, (net.outputs, net.outputs), norm.out), chosen


def _scale(count: int, weights: Array | None, chosen: Index | None) -> Array:
    own = np.arange(count) if chosen is None else chosen
    if weights is not None and weights.ndim == 2:
        scale = np.zeros((count, len(own)))
        scale[own] = spanning(weights)
        return scale
    s = np.ones(count) if weights is None else reciprocals(weights)
    small = np.full(count, _SMALL * 2.0 ** np.floor(np.log2(s[own].max())))
    small[own] = s[own]
    return small
