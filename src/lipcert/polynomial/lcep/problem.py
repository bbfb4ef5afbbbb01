"""LCEP of [CLMP20] as a polynomial problem, for ReLU networks of any depth in the infinity norm.

    max  t' A_1' diag(u_1) ... A_m' diag(u_m) c
    s.t. t^2 <= 1,  x_0 in the box,  u_i (u_i - 1) = 0,  (u_i - 1/2) z_i >= 0,  z_i = A_i x_{i-1} + b_i      (ties)
         x_i (x_i - z_i) = 0,  x_i >= 0,  x_i >= z_i                                                     (i < m)
         u_i (hi - z_i) >= 0,  (1 - u_i)(z_i - lo) >= 0                        proved pre-activation bounds

Variables: x_0, t, then u_i, z_i and x_i layer by layer, of the neurons whose sign is not known. Units are changed:
x_0 is counted from the middle of the box in its radius, z_i and x_i in a power of two that brings them into [-1, 1]. On
the whole space x and z say nothing and are left out.

*Exactness.* z_i and x_i are *defined* by the floating-point coefficients of the ties and by x_i = ReLU(z_i); they
differ from those of the given network by at most a proved e_i. So the ties are exact, (u_i - 1/2) z_i >= -e_i / 2 is
true of the network's own u_i, and bounds of z_i are widened by e_i. `error` bounds the rounding of the objective's
coefficients.

*Affine forms* of the layers' values have proved distances from the network's own values. A layer's input
is x = constants + coefficients y + d with |d| <= error, where y are variables with |y| <= 1 and the coefficients are
floats, exact by definition. Pre-activations of neurons with variables are counted in powers of two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import preactivations
from lipcert.errors import MethodError
from lipcert.polynomial.lcep.chain import Chain, gradient_chain
from lipcert.polynomial.polynomial import Polynomial
from lipcert.polynomial.problem import PolynomialProblem
from lipcert.problem.blocks import Affine
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.rounding import TINY, Array, add_down, add_up, down, gamma, grow, sum_up, up

Index = NDArray[np.int64]

# Relative to a neuron's scale: smaller coefficients become part of the error, no solver could use them.
_SMALL_FORM = 2.0**-200
_LEAST_BOUND = (
    2.0**-60
)  # of the scale: bounds and errors that are not zero are at least this large, which costs nothing


@dataclass(frozen=True, eq=False)
class ValueForms:
    """|value - constants - coefficients y| <= error, over the columns `variables` of y."""

    constants: Array
    coefficients: Array
    error: Array
    variables: Index

    @property
    def reach(self) -> Array:
        """An upper bound on |form|."""
        return grow(np.abs(self.constants) + np.abs(self.coefficients).sum(axis=1), self.coefficients.shape[1] + 2)


@dataclass(frozen=True, eq=False)
class LayerForms:
    """One layer: the ties z = constants + coefficients y of the neurons with variables, in units of `scale`.

    `sign_error` is e/2 of (u - 1/2) z >= -e/2; `lo` and `hi` bound z; `all` are the forms of every neuron's z.
    """

    constants: Array
    coefficients: Array
    variables: Index
    sign_error: Array
    lo: Array
    hi: Array
    scale: Array
    neurons: Index
    all: ValueForms
    on: NDArray[np.bool_]

    def outputs(self, x: Index) -> ValueForms:
        """The forms of ReLU(z): the variable where there is one, z where the neuron is on, 0 where it is off."""
        z = self.all
        free = np.zeros(len(z.constants), dtype=bool)
        free[self.neurons] = True
        on = self.on & ~free
        constants = np.where(on, z.constants, 0.0)
        own = np.zeros((len(constants), len(x)))
        own[self.neurons, np.arange(len(x))] = self.scale
        coefficients = np.concatenate([np.where(on[:, None], z.coefficients, 0.0), own], axis=1)
        # ReLU does not stretch distances, so a neuron with a variable keeps the error of its z.
        error = np.where(on | free, z.error, 0.0)
        return ValueForms(constants, coefficients, error, np.concatenate([z.variables, x]))


def input_forms(box: Box, variables: Index) -> ValueForms:
    """x_0 = middle + radius y on the coordinates that move."""
    middle = box.lo / 2 + box.hi / 2
    radius = np.maximum(add_up(box.hi, -middle), add_up(middle, -box.lo))
    moving = np.flatnonzero(variables >= 0)
    coefficients = np.zeros((box.size, len(moving)))
    coefficients[moving, np.arange(len(moving))] = radius[moving]
    flat = np.where(variables >= 0, 0.0, radius)
    return ValueForms(middle, coefficients, flat, variables[moving])


def layer_forms(affine: Affine, x: ValueForms, known: Interval, neurons: Index) -> LayerForms:
    """z = A x + b; `known` bounds the network's own z, `neurons` have variables."""
    A = dense(affine.weight)
    n = A.shape[1] + x.coefficients.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        constants, coefficients = A @ x.constants + affine.bias, A @ x.coefficients
        rounding = gamma(n + 8) * (np.abs(A) @ x.reach + np.abs(affine.bias)) + n * TINY
        least = _SMALL_FORM * np.maximum(np.maximum(np.abs(known.lo), np.abs(known.hi)), 2.0**-400)
        small, nothing = np.abs(coefficients) < least[:, None], np.abs(constants) < least
        dropped = np.abs(np.where(small, coefficients, 0.0)).sum(axis=1) + np.abs(np.where(nothing, constants, 0.0))
        constants, coefficients = np.where(nothing, 0.0, constants), np.where(small, 0.0, coefficients)
        error = grow(np.abs(A) @ x.error + rounding + dropped, n + 8)
        lo, hi = down(add_down(known.lo, -error)), up(add_up(known.hi, error))
    if not all(bool(np.all(np.isfinite(part))) for part in (constants, coefficients, error, lo, hi)):
        raise MethodError("pre-activations overflow: LCEP has no finite form here")
    every = ValueForms(constants, coefficients, error, x.variables)
    size = np.maximum(np.abs(lo), np.abs(hi))[neurons]
    scale = np.ldexp(1.0, np.clip(np.frexp(np.where(size > 0, size, 1.0))[1], -400, 400))
    return LayerForms(
        constants[neurons] / scale,
        coefficients[neurons] / scale[:, None],
        x.variables,
        np.maximum(grow(error[neurons] / scale / 2 + n * TINY, 4), _LEAST_BOUND),
        -_raised(-down(lo[neurons] / scale - n * TINY)),
        _raised(up(hi[neurons] / scale + n * TINY)),
        scale,
        neurons,
        every,
        (known.lo >= 0) & (known.hi > 0),
    )


def _raised(above: Array) -> Array:
    """Upper bounds that are not next to zero: zero, or as large as anything that a solver can use."""
    return np.where(np.abs(above) >= _LEAST_BOUND, above, np.where(above > 0, _LEAST_BOUND, 0.0))


Clique = tuple[int, ...]

_SMALL = 1e-90  # a smaller coefficient of the objective is paid for by the error


@dataclass(frozen=True, eq=False)
class LayerVariables:
    """The neurons of one layer whose sign is not known, and the variables of each (empty where there are none)."""

    neurons: Index
    u: Index
    z: Index
    x: Index


@dataclass(frozen=True, eq=False)
class Lcep:
    """The problem, where its variables are, and what to add to a bound of it to bound the network.

    `cliques` are those of the paper, {x_0i, t_i}, {u_j, z_j} and {x_j, z_j}; `ties` are the constraints that fit none.
    """

    problem: PolynomialProblem
    x: Index  # variable of each input, -1 where the box is flat or there is none
    t: Index
    layers: tuple[LayerVariables, ...]
    cliques: tuple[Clique, ...]
    ties: tuple[Polynomial, ...]
    error: float


def lcep(problem: Problem, *, bounds: bool = True) -> Lcep:
    """LCEP of c'scores on the region; `bounds` adds the two products with pre-activation bounds."""
    net, region = problem.network, problem.region
    _check(net)
    known = preactivations(problem)
    builder = _Builder(gradient_chain(problem), isinstance(region, Box), bounds)
    forms = input_forms(region, builder.input_variables(region)) if isinstance(region, Box) else None
    layers = []
    for k in range(net.depth):
        variables = builder.layer_variables(k, last=k == net.depth - 1)
        layers.append(variables)
        if forms is not None:
            forms = _add_layer(builder, net, k, known[k], variables, forms)
        else:
            builder.cliques += [(int(u),) for u in variables.u]
    return builder.finish(tuple(layers))


def _check(net: Network) -> None:
    kinds = {f.kind for f in net.activations}
    if net.depth == 1 and kinds <= {"relu", "leaky_relu"} and net.activations[0].alpha <= 1.0:
        return
    if kinds != {"relu"}:
        raise MethodError(f"LCEP needs ReLU layers (one leaky layer at most), not {', '.join(sorted(kinds))}")


def _add_layer(
    builder: _Builder, net: Network, k: int, known: Interval, variables: LayerVariables, forms: ValueForms
) -> ValueForms:
    """Ties, signs, bounds and ReLU relations of one layer; the forms of its outputs (of no use after the last)."""
    layer = layer_forms(net.affines[k], forms, known, variables.neurons)
    builder.tie(variables, layer.coefficients, layer.constants, layer.variables)
    builder.signs(variables, layer.sign_error, layer.lo, layer.hi)
    builder.relus(variables)
    return layer.outputs(variables.x) if k < net.depth - 1 else forms


class _Builder:
    """Collects variables and constraints; `finish` freezes them."""

    def __init__(self, chain: Chain, with_x: bool, bounds: bool) -> None:
        self.chain, self.with_x, self.with_bounds = chain, with_x, bounds
        self.names: list[str] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.inequalities: list[Polynomial] = []
        self.equalities: list[Polynomial] = []
        self.ties: list[Polynomial] = []
        self.cliques: list[Clique] = []
        self.x = np.full(chain.inputs, -1)
        self.t = np.empty(0, dtype=np.int64)
        if not with_x:
            self._directions()

    def new(self, letter: str, places: Index, lo: float, hi: float) -> Index:
        """One variable per place, named letter_place from 1."""
        first = len(self.names)
        self.names += [f"{letter}_{int(p) + 1}" for p in places]
        self.lower += [lo] * len(places)
        self.upper += [hi] * len(places)
        return np.arange(first, len(self.names))

    def input_variables(self, box: Box) -> Index:
        """x_0 of the coordinates that move, and t of all; each pair is a clique."""
        moving = np.flatnonzero(box.hi > box.lo)
        self.x[moving] = self.new("x0", moving, -1.0, 1.0)
        self._directions()
        self.inequalities += [_inside(int(i)) for i in self.x[moving]]
        return self.x

    def _directions(self) -> None:
        self.t = self.new("t", np.arange(self.chain.inputs), -1.0, 1.0)
        self.inequalities += [_inside(int(i)) for i in self.t]
        pairs = zip(self.x.tolist(), self.t.tolist(), strict=True)
        self.cliques += [(x, t) if x >= 0 else (t,) for x, t in pairs]

    def layer_variables(self, k: int, last: bool) -> LayerVariables:
        """u, z and x of the neurons whose slope is not known; without x_0 only u, and only where it matters."""
        slopes = self.chain.layers[k]
        neurons = np.flatnonzero(slopes.width > 0 if self.with_x else slopes.free)
        name, none = str(k + 1), np.empty(0, dtype=np.int64)
        u = self.new("u" + name, neurons, 0.0, 1.0)
        self.equalities += [Polynomial.from_terms({(i, i): 1.0, (i,): -1.0}) for i in u.tolist()]
        z = self.new("z" + name, neurons, -1.0, 1.0) if self.with_x else none
        x = self.new("x" + name, neurons, 0.0, 1.0) if self.with_x and not last else none
        return LayerVariables(neurons, u, z, x)

    def tie(self, v: LayerVariables, coefficients: Array, constants: Array, variables: Index) -> None:
        """z - A x - b = 0."""
        for z, row, constant in zip(v.z.tolist(), coefficients, constants.tolist(), strict=True):
            columns = np.concatenate([[z], variables])
            self.ties.append(Polynomial.affine(-constant, columns, np.concatenate([[1.0], -row])))

    def signs(self, v: LayerVariables, error: Array, lo: Array, hi: Array) -> None:
        """(u - 1/2) z >= -e/2 and, with bounds, u (hi - z) >= 0 and (1-u)(z - lo) >= 0; the clique {u, z}."""
        for k, (u, z) in enumerate(zip(v.u.tolist(), v.z.tolist(), strict=True)):
            self.lower[z], self.upper[z] = float(lo[k]), float(hi[k])
            self.cliques.append((u, z))
            self.inequalities.append(Polynomial.from_terms({(u, z): 1.0, (z,): -0.5, (): float(error[k])}))
            if self.with_bounds:
                low, high = float(lo[k]), float(hi[k])
                below = {(z,): 1.0, (): -low, (u, z): -1.0, (u,): low}
                above = {(u,): high, (u, z): -1.0}
                self.inequalities += [Polynomial.from_terms(above), Polynomial.from_terms(below)]

    def relus(self, v: LayerVariables) -> None:
        """x (x - z) = 0, x >= 0, x >= z; the clique {x, z}."""
        for x, z in zip(v.x.tolist(), v.z[: len(v.x)].tolist(), strict=True):
            self.upper[x] = max(self.upper[z], 0.0)
            self.cliques.append((z, x))
            self.equalities.append(Polynomial.from_terms({(x, x): 1.0, (z, x): -1.0}))
            self.inequalities += [Polynomial.variable(x), Polynomial.affine(0.0, [x, z], [1.0, -1.0])]

    def finish(self, layers: tuple[LayerVariables, ...]) -> Lcep:
        error = self._without_small_terms()
        problem = PolynomialProblem(
            self._objective(layers),
            tuple(self.inequalities),
            tuple(self.equalities + self.ties),
            "max",
            tuple(self.names),
            np.array(self.lower),
            np.array(self.upper),
        )
        return Lcep(problem, self.x, self.t, layers, tuple(self.cliques), tuple(self.ties), error)

    def _without_small_terms(self) -> float:
        """Leave out terms that no solver could use: monomials are at most one, so the error pays for them."""
        small = np.abs(self.chain.coefficients) < _SMALL
        if not small.any():
            return self.chain.error
        dropped = sum_up(np.abs(self.chain.coefficients[small]))
        kept = np.where(small, 0.0, self.chain.coefficients)
        self.chain = replace(self.chain, coefficients=kept)
        return float(add_up(np.asarray(self.chain.error), np.asarray(dropped)))

    def _objective(self, layers: tuple[LayerVariables, ...]) -> Polynomial:
        """The chain's polynomial in this problem's variables."""
        place = np.full(self.chain.n + 1, -1)  # the last entry serves index -1
        place[: self.chain.inputs] = self.t
        for slopes, variables in zip(self.chain.layers, layers, strict=True):
            free = slopes.free[variables.neurons]
            place[slopes.variable[variables.neurons[free]]] = variables.u[free]
        return Polynomial(place[self.chain.indices].astype(np.int32), self.chain.coefficients)


def _inside(i: int) -> Polynomial:
    return Polynomial.from_terms({(): 1.0, (i, i): -1.0})
