"""LCEP on a box as a mixed-integer linear program, for ReLU and leaky ReLU of any depth.

A neuron of open sign has a binary u; a leaky ReLU with slope a below zero has f(z) = a z + (1-a) r, r = max(z, 0), and
the derivative a + (1-a) u. With proved bounds l <= z <= h, and gl <= g <= gu of the gradient behind the neuron:

    r >= 0,  r >= z,  r <= h u,  r <= z - l (1-u)                 values; in the last layer  l (1-u) <= z <= h u
    gl u <= w <= gu u,   g - gu (1-u) <= w <= g - gl (1-u)        w = u g, the switched gradient (McCormick)
    p <= G + 2 |Gl| (1-b),   p <= -G + 2 Gu b                     p = |G|, b its sign, G the gradient at the input

For whole u and b these say exactly that; z = 0 allows both slopes, as LCEP does. Norm inf maximises the sum of p, norm
1 chooses one coordinate and sign. Inputs enter as x = middle + radius v, |v| <= 1. Coefficients are rounded as they
are computed: the program belongs to a solver with tolerances, not to a proof.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks._highs import MixedIntegerProblem
from lipcert.bounds.gradients import gradient_bounds, slope_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import preactivations
from lipcert.errors import MethodError
from lipcert.problem.maps import matrix
from lipcert.problem.network import Network
from lipcert.problem.norms import Matrix, Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Box
from lipcert.rounding import Array

Mask = NDArray[np.bool_]
Term = tuple[slice, Matrix]  # a block of variables and the matrix that multiplies it


@dataclass
class Assembly:
    """A program put together block by block; `problem()` is the frozen result."""

    lo: list[Array] = field(default_factory=list)
    hi: list[Array] = field(default_factory=list)
    integer: list[Any] = field(default_factory=list)
    rows: list[tuple[list[Term], Array, Array]] = field(default_factory=list)
    columns: int = 0

    def variables(self, lo: Array, hi: Array, integer: bool = False) -> slice:
        block = slice(self.columns, self.columns + len(lo))
        self.columns = block.stop
        self.lo.append(lo)
        self.hi.append(hi)
        self.integer.append(np.full(len(lo), integer))
        return block

    def binaries(self, count: int) -> slice:
        return self.variables(np.zeros(count), np.ones(count), integer=True)

    def between(self, lo: Array | None, terms: list[Term], hi: Array | None) -> None:
        """lo <= sum of matrix @ block <= hi; None leaves a side out."""
        count = terms[0][1].shape[0]
        low = np.full(count, -np.inf) if lo is None else lo
        high = np.full(count, np.inf) if hi is None else hi
        if count:
            self.rows.append((terms, low, high))

    def problem(self, cost: list[tuple[slice, Array]]) -> MixedIntegerProblem:
        """Maximise the sum of cost'block."""
        weights = np.zeros(self.columns)
        for block, values in cost:
            weights[block] = values
        groups = [self._group(terms) for terms, _, _ in self.rows]
        A = sparse.vstack(groups, format="csr") if groups else sparse.csr_array((0, self.columns))
        A = sparse.csr_array(A)
        A.eliminate_zeros()
        low = np.concatenate([np.zeros(0), *(lo for _, lo, _ in self.rows)])
        high = np.concatenate([np.zeros(0), *(hi for _, _, hi in self.rows)])
        ends = np.concatenate(self.lo), np.concatenate(self.hi)
        return MixedIntegerProblem(weights, A, low, high, *ends, np.concatenate(self.integer).astype(bool))

    def _group(self, terms: list[Term]) -> Any:
        parts = [(block, sparse.coo_array(matrix)) for block, matrix in terms]
        row = np.concatenate([m.coords[0] for _, m in parts])
        column = np.concatenate([m.coords[1] + block.start for block, m in parts])
        data = np.concatenate([m.data for _, m in parts])
        return sparse.coo_array((data, (row, column)), shape=(parts[0][1].shape[0], self.columns))


def check_linear(problem: Problem) -> None:
    """Refuse a problem that has no mixed-integer linear form, before any work."""
    net, region, norm = problem.network, problem.region, problem.norm
    if not net.is_chain:
        raise MethodError("the mixed-integer program is for chains of layers, and this network has branches")
    if norm.out is not None:
        raise MethodError("the mixed-integer program is for one output, not for the whole map")
    if norm.p not in ("inf", "1"):
        raise MethodError(f"the mixed-integer program is for norm inf or 1; the norm {norm} is not linear")
    if not isinstance(region, Box):
        raise MethodError("the mixed-integer program needs a box, which bounds its big constants")
    smooth = [str(f) for f in net.activations if not f.piecewise_linear]
    if smooth:
        raise MethodError(f"the mixed-integer program is for ReLU and leaky ReLU, this network has {smooth[0]}")


@dataclass(frozen=True, eq=False)
class Layer:
    """One hidden layer: which signs are open, fixed slopes `d` (of open neurons: that below zero), blocks by name."""

    open: Mask
    d: Array
    step: float  # 1 - d of an open neuron
    z: slice
    u: slice
    r: slice | None  # not in the last layer
    g: slice | None = None  # the gradient behind the layer; of the last one it is a constant
    w: slice | None = None


@dataclass(frozen=True, eq=False)
class Formulation:
    """The program and the meaning of its variables."""

    problem: MixedIntegerProblem
    net: Network
    box: Box
    norm: Norm
    c: Array
    v: slice
    layers: tuple[Layer, ...]
    G: slice
    signs: slice  # b of norm inf, the choice of norm 1
    free: Mask  # coordinates of G whose sign is open
    p: slice

    def point(self, solution: Array) -> Array:
        """The input of a solution."""
        m, r = _middle_and_radius(self.box)
        return self.box.project(m + r * solution[self.v])

    def pattern(self, solution: Array) -> Mask:
        """Which neurons a solution has on, all layers side by side."""
        parts = []
        for layer in self.layers:
            on = layer.d == 1.0
            on[layer.open] = solution[layer.u] > 0.5
            parts.append(on)
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)

    def assignment(self, points: Array) -> Array:
        """All variables at points of the box (a row each), as the true network has them."""
        full = np.zeros((len(points), len(self.problem.cost)))
        m, r = _middle_and_radius(self.box)
        full[:, self.v] = np.divide(points - m, r, out=np.zeros_like(points), where=r > 0)
        zs = self.net.preactivations(points)
        g = np.broadcast_to(self.c[None, :] @ self.net.affines[-1].weight, (len(points), self.net.shape[-2]))
        for k, layer in reversed(list(enumerate(self.layers))):
            z, u = zs[k], zs[k][:, layer.open] > 0
            full[:, layer.z], full[:, layer.u] = z, u
            if layer.r is not None and layer.g is not None and layer.w is not None:
                full[:, layer.r] = np.maximum(z[:, layer.open], 0.0)
                full[:, layer.g], full[:, layer.w] = g, u * g[:, layer.open]
            g = (g * self.net.activations[k].derivative(z)) @ self.net.affines[k].weight
        full[:, self.G] = g
        self._assign_objective(full, g)
        return full

    def _assign_objective(self, full: Array, g: Array) -> None:
        if self.norm.p == "inf":
            full[:, self.signs], full[:, self.p] = g[:, self.free] > 0, np.abs(g)
            return
        both = np.concatenate([g, -g], axis=1)
        rows, best = np.arange(len(g)), both.argmax(axis=1)
        full[rows, self.signs.start + best] = 1.0
        full[:, self.p] = both[rows, best][:, None]


def formulate(problem: Problem) -> Formulation:
    """The program, with big constants from the pre-activation bounds and the gradient bounds that they give."""
    check_linear(problem)
    net, box, norm, c = problem.network, problem.region, problem.norm, problem.c
    assert isinstance(box, Box)  # or it was refused
    pre = preactivations(problem)
    gradients = gradient_bounds(net, pre, c)
    if not all(np.all(np.isfinite(i.magnitude)) for i in (*pre, *gradients)):
        raise MethodError("the bounds of this network are not finite, so there are no big constants")
    build = Assembly()
    v = build.variables(-np.ones(box.size), np.ones(box.size))
    layers = _values(build, net, box, pre, v)
    layers, G = _gradients(build, net, c, layers, gradients)
    free = (gradients[0].lo < 0) & (gradients[0].hi > 0)
    largest = _sum_of_magnitudes if norm.p == "inf" else _largest_entry
    signs, p = largest(build, G, gradients[0], free)
    program = build.problem([(p, np.ones(p.stop - p.start))])
    return Formulation(program, net, box, norm, c, v, layers, G, signs, free, p)


def _values(build: Assembly, net: Network, box: Box, pre: tuple[Interval, ...], v: slice) -> tuple[Layer, ...]:
    """Pre-activations, signs and values, layer by layer from the input."""
    m, r = _middle_and_radius(box)
    inputs: list[Term] = [(v, -_csr(net.affines[0].weight) @ diagonal(r))]
    shift = net.affines[0](m[None, :])[0]
    layers: list[Layer] = []
    for k, (f, bounds, s) in enumerate(zip(net.activations, pre, slope_bounds(net, pre), strict=True)):
        is_open = s.hi > s.lo
        below = f.alpha  # zero for ReLU
        d = np.where(is_open, below, s.lo)
        z = build.variables(*bounds)
        u = build.binaries(int(is_open.sum()))
        build.between(shift, [(z, identity(len(d))), *inputs], shift)
        last = k == net.depth - 1
        block = None if last else _switched_value(build, bounds, is_open, z, u)
        if last:
            _sign(build, bounds, is_open, z, u)
        layers.append(Layer(is_open, d, 1.0 - below, z, u, block))
        weight, shift = _csr(net.affines[k + 1].weight), net.affines[k + 1].bias
        inputs = [(z, -weight @ diagonal(d))]
        if block is not None:
            inputs.append((block, -(1.0 - below) * weight @ chosen(is_open).T))
    return tuple(layers)


def _switched_value(build: Assembly, z_bounds: Interval, is_open: Mask, z: slice, u: slice) -> slice:
    """r = max(z, 0) for neurons of open sign."""
    lo, hi = z_bounds.lo[is_open], z_bounds.hi[is_open]
    r, one, pick = build.variables(np.zeros(len(hi)), hi), identity(len(hi)), chosen(is_open)
    build.between(None, [(z, pick), (r, -one)], np.zeros(len(hi)))
    build.between(None, [(r, one), (u, -diagonal(hi))], np.zeros(len(hi)))
    build.between(None, [(r, one), (z, -pick), (u, -diagonal(lo))], -lo)
    return r


def _sign(build: Assembly, z_bounds: Interval, is_open: Mask, z: slice, u: slice) -> None:
    """u = 1 where z > 0, u = 0 where z < 0."""
    lo, hi, pick = z_bounds.lo[is_open], z_bounds.hi[is_open], chosen(is_open)
    build.between(lo, [(z, pick), (u, diagonal(lo))], None)
    build.between(None, [(z, pick), (u, -diagonal(hi))], np.zeros(len(hi)))


def _gradients(
    build: Assembly, net: Network, c: Array, layers: tuple[Layer, ...], bounds: tuple[Interval, ...]
) -> tuple[tuple[Layer, ...], slice]:
    """Gradients behind the layers, from the output down to the input."""
    constant = (c[None, :] @ net.affines[-1].weight)[0]
    if not layers:
        return (), build.variables(constant, constant)
    done = list(layers)
    g: slice | None = None
    for k in reversed(range(net.depth)):
        layer = layers[k]
        back, pick = _csr(net.affines[k].weight).T.tocsr(), chosen(layer.open).T
        if g is None:  # the last layer: linear in the signs, with a constant from the fixed slopes
            shift = back @ (layer.d * constant)
            terms: list[Term] = [(layer.u, -layer.step * back @ pick @ diagonal(constant[layer.open]))]
        else:
            w = _switched_gradient(build, bounds[k + 1], layer, g)
            done[k] = replace(layer, g=g, w=w)
            shift = np.zeros(back.shape[0])
            terms = [(g, -back @ diagonal(layer.d)), (w, -layer.step * back @ pick)]
        g = build.variables(*bounds[k])
        build.between(shift, [(g, identity(len(shift))), *terms], shift)
    assert g is not None
    return tuple(done), g


def _switched_gradient(build: Assembly, bounds: Interval, layer: Layer, g: slice) -> slice:
    """w = u g for neurons of open sign."""
    lo, hi, pick = bounds.lo[layer.open], bounds.hi[layer.open], chosen(layer.open)
    zero, one = np.zeros(len(lo)), identity(len(lo))
    w = build.variables(np.minimum(lo, 0.0), np.maximum(hi, 0.0))
    build.between(zero, [(w, one), (layer.u, -diagonal(lo))], None)
    build.between(None, [(w, one), (layer.u, -diagonal(hi))], zero)
    build.between(-hi, [(w, one), (g, -pick), (layer.u, -diagonal(hi))], None)
    build.between(None, [(w, one), (g, -pick), (layer.u, -diagonal(lo))], -lo)
    return w


def _sum_of_magnitudes(build: Assembly, G: slice, bounds: Interval, free: Mask) -> tuple[slice, slice]:
    """Norm inf: p_i <= |G_i|, exact at a maximum, with a binary where the sign is open."""
    lo, hi, one = bounds.lo, bounds.hi, identity(len(free))
    p = build.variables(np.zeros(len(lo)), bounds.magnitude)
    b = build.binaries(int(free.sum()))
    pick = chosen(free)
    known = np.where(free, 0.0, np.where(lo >= 0, 1.0, -1.0))
    fixed = chosen(~free)
    build.between(None, [(p, fixed), (G, -fixed @ diagonal(known))], np.zeros(fixed.shape[0]))
    reach = -2.0 * lo[free]
    build.between(None, [(p, pick), (G, -pick @ one), (b, diagonal(reach))], reach)
    build.between(None, [(p, pick), (G, pick @ one), (b, -diagonal(2.0 * hi[free]))], np.zeros(len(reach)))
    return b, p


def _largest_entry(build: Assembly, G: slice, bounds: Interval, free: Mask) -> tuple[slice, slice]:
    """Norm 1: p <= s G_i for the one coordinate and sign that is chosen."""
    n = len(free)
    largest = np.array([bounds.magnitude.max(initial=0.0)])
    p, choice = build.variables(-largest, largest), build.binaries(2 * n)
    slack = largest[0] - np.concatenate([bounds.lo, -bounds.hi])
    signed = sparse.vstack([-identity(n), identity(n)], format="csr")
    ones = np.ones((2 * n, 1))
    build.between(None, [(p, ones), (G, signed), (choice, diagonal(slack))], slack)
    build.between(np.ones(1), [(choice, np.ones((1, 2 * n)))], np.ones(1))
    return choice, p


def _middle_and_radius(box: Box) -> tuple[Array, Array]:
    return box.lo / 2 + box.hi / 2, box.hi / 2 - box.lo / 2


def _csr(weight: Matrix) -> Any:
    return sparse.csr_array(matrix(weight))


def identity(count: int) -> Matrix:
    return sparse.eye_array(count, format="csr")


def diagonal(values: Array) -> Matrix:
    return sparse.diags_array(values, format="csr")


def chosen(mask: Any) -> Matrix:
    """Picks the entries of a vector where `mask` holds."""
    return sparse.eye_array(len(mask), format="csr")[np.flatnonzero(mask)]
