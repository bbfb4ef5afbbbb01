"""One hidden layer of ReLU or leaky ReLU in the infinity norm: the relaxations `shor` and `hr2` [CLMP20].

    L = max  t' A' diag(u) c     t in {-1,1}^p0,  x in the box,  z = A x + b,  u_j = 1 if z_j > 0, else alpha

in scaled variables y = (1, w, t, v):  x = m + r w,  u = (1 + alpha)/2 + (1 - alpha)/2 v,  v in {-1,1}, |w| <= 1.
z is eliminated, stable neurons leave the problem, and (see docs/mathematics/one-hidden-layer.md)

    diagonal    w^2 <= 1,  t^2 = 1,  v^2 = 1
    sign        (1+v) z >= 0,  (1-v) z <= 0              the clique {u, z} of order two
    reach       (1+v)(hi - z) >= 0,  (1-v)(z - lo) >= 0  proved pre-activation bounds
    product     (1 +- t)(1 +- w) >= 0                    the clique {x, t} of order two
    chord       z (z - hi u - lo (1-u)) <= 0             the clique {u, z} of order two with its bounds

`shor` has the diagonal and v z >= 0 alone. Without x (everywhere, `shor` also on large boxes) both are the diagonal
rows over (1, t, v). The chord rows couple all of w with itself, which costs the solver its sparsity: they are left out
of large problems, where they change the fourth digit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lipcert.bounds.gradients import gradient_bounds
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import preactivations
from lipcert.problem.blocks import Affine
from lipcert.problem.maps import dense
from lipcert.problem.network import Network
from lipcert.problem.problem import Fact, Problem
from lipcert.problem.region import Box, hull
from lipcert.relaxation.exclusions import exclusions
from lipcert.relaxation.model import AffineForms, Family, Index, Relaxation, Space, assemble, with_families
from lipcert.rounding import TINY, UNIT, Array, add_up, gamma, grow, sum_up

CHORDS = "z (z - hi u - lo (1-u)) <= 0"
LARGE = 0.2  # |z| in the middle of the box over its reach
CHORDS_UP_TO = 600  # the order of the matrix


@dataclass(frozen=True, eq=False)
class _Data:
    """The instance: dense A, the output's weights c on the hidden layer with |error| <= c_error, slope alpha.

    z is A x + b up to the slack.
    """

    A: Array
    b: Array
    slack: Array
    c: Array
    c_error: Array
    alpha: float
    free: Index  # neurons whose slope is not known
    on: Index  # neurons with slope 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape[0], self.A.shape[1]


def one_layer(problem: Problem, form: str, with_x: bool, chords: bool, exclude: bool) -> Relaxation:
    """`shor` or the reduced form of `hr2`, with x where that is asked for and there is a box.

    `exclude` adds the pairs of signs that the box does not allow, which the paper does not know.
    """
    data, box = _instance(problem), hull(problem.region)
    if box is None or not len(data.free) or not with_x:
        return without_x(data)
    relaxation = _with_x(data, box, preactivations(problem)[0] if form == "hr2" else None, chords)
    if not exclude:
        return relaxation
    return with_families(relaxation, exclusions(relaxation.space, (data.A, data.b, data.slack), box, data.free, "v"))


def chords_fit(problem: Problem) -> bool:
    """Whether the matrix is small enough for chords."""
    return 1 + 2 * problem.network.inputs + len(_instance(problem).free) <= CHORDS_UP_TO


def needs_x(problem: Problem) -> bool:
    """Whether x is to be in `shor`: not everywhere, nor where every sign pattern is within easy reach of the box.

    The rows v_j z_j >= 0 then hold for some w, whatever the moments of v are, when the rows of A are independent and
    the box moves every z_j far past its value in the middle. Leaving x out is a relaxation: a wrong guess here costs
    tightness, never soundness.
    """
    data, box = _instance(problem), hull(problem.region)
    if box is None or not len(data.free):
        return False
    p1, p0 = data.shape
    with np.errstate(over="ignore", invalid="ignore"):
        reach = np.abs(data.A) @ (box.hi / 2 - box.lo / 2)
        middle = data.A @ (box.hi / 2 + box.lo / 2) + data.b
    if p1 > p0 or len(data.free) < p1 or np.any(np.abs(middle) > LARGE * reach):
        return True
    return int(np.linalg.matrix_rank(data.A)) != p1


def without_x(data: _Data) -> Relaxation:
    """max over unit vectors, bipartite between t and (1, v)."""
    p1, p0 = data.shape
    space = Space(t=p0, v=len(data.free))
    objective, offset = _objective(space, data)
    families = _diagonal(space, data)
    return assemble(space, objective, families, offset, {"v": (data.free, p1)})


def _with_x(data: _Data, box: Box, bounds: Interval | None, chords: bool = False) -> Relaxation:
    p1, p0 = data.shape
    m = box.lo / 2 + box.hi / 2
    r = np.maximum(add_up(box.hi, -m), add_up(m, -box.lo))
    if not _in_range(data, m, r, bounds):
        return without_x(data)
    moving = np.flatnonzero(r > 0)
    space = Space(w=len(moving), t=p0, v=len(data.free))
    objective, offset = _objective(space, data)
    families = _diagonal(space, data, moving)
    z, error, scale = _preactivations(space, data, m, r, moving)
    if bounds is None:
        rhs = grow(error, 4)
        families.append(Family("v z >= 0", -space["v"], z, rhs, False, data.free, p1))
    else:
        families += _sign_and_reach(space, data, z, error, scale, bounds)
        families += _products(space, moving, p0)
        if chords:
            families.append(_chords(space, data, z, error, scale, bounds))
    return assemble(space, objective, families, offset, {"w": (moving, p0), "v": (data.free, p1)})


@Fact
def _instance(problem: Problem) -> _Data:
    """The numbers of the problem. A neuron that changes no gradient (zero row, or zero weight on the output up to
    `c_error`, which the offset pays) leaves it whatever its sign.
    """
    net, bounds = problem.network, preactivations(problem)[0]
    on, off = (bounds.lo >= 0) & (bounds.hi > 0), (bounds.hi <= 0) & (bounds.lo < 0)
    free = ~(on | off)
    hidden, last = net.blocks  # a chain
    A = dense(hidden.terms[0][1])
    head = gradient_bounds(Network([Affine(last.terms[0][1], last.bias)], ()), (), problem.c)[0]
    overflow = ~(np.isfinite(head.lo) & np.isfinite(head.hi))
    head = Interval(np.where(overflow, 0.0, head.lo), np.where(overflow, 0.0, head.hi))
    middle = head.lo / 2 + head.hi / 2
    error = np.maximum(add_up(head.hi, -middle), add_up(middle, -head.lo))
    error[overflow] = np.inf
    matters = A.any(axis=1) & (middle != 0)
    return _Data(
        A,
        hidden.bias,
        hidden.doubt,
        middle,
        error,
        hidden.activation.alpha,
        np.flatnonzero(free & matters),
        np.flatnonzero(on),
    )


def _objective(space: Space, data: _Data) -> tuple[sparse.csr_array, float]:
    """C with y'Cy = t'(slope + M v), and a proved bound on what rounding took from the exact gradient: infinite when
    something overflowed.
    """
    p1, _ = data.shape
    alpha = data.alpha
    fixed = np.full(p1, alpha)
    fixed[data.on] = 1.0
    fixed[data.free] = (1.0 + alpha) / 2
    with np.errstate(over="ignore", invalid="ignore"):
        slope = data.A.T @ (fixed * data.c)
        M = data.A[data.free].T * (data.c[data.free] * ((1.0 - alpha) / 2))
    finite = bool(np.all(np.isfinite(slope)) and np.all(np.isfinite(M)))
    if not finite:
        slope, M = np.zeros_like(slope), np.zeros_like(M)
    t, v = space.slices["t"], space.slices["v"]
    p0 = len(slope)
    rows = np.arange(t.start, t.stop)
    half = sparse.coo_array(M / 2)
    upper = sparse.coo_array(
        (
            np.concatenate([slope / 2, half.data]),
            (
                np.concatenate([rows, half.coords[0] + t.start]),
                np.concatenate([np.zeros(p0, int), half.coords[1] + v.start]),
            ),
        ),
        (space.size, space.size),
    )
    C = sparse.csr_array(upper + upper.T)
    g = gamma(p1 + 32)
    with np.errstate(over="ignore", invalid="ignore"):
        weights = grow(np.abs(data.A).sum(axis=1), data.A.shape[1])
        offset = sum_up(weights * (2 * g * np.abs(data.c) + (1.0 + g) * data.c_error + TINY)) * (1.0 + 2 * g)
    return C, float(offset) if finite and np.isfinite(offset) else np.inf


def _diagonal(space: Space, data: _Data, moving: Index | None = None) -> list[Family]:
    p1, p0 = data.shape
    one, t, v = space["one"], space["t"], space["v"]
    families = [
        Family("1 = 1", one, one, np.ones(1), True, np.arange(1), 1),
        Family("t^2 = 1", t, t, np.ones(p0), True, np.arange(p0), p0),
        Family("v^2 = 1", v, v, np.ones(len(data.free)), True, data.free, p1),
    ]
    if moving is not None:
        w = space["w"]
        families.append(Family("w^2 <= 1", w, w, np.ones(len(moving)), False, moving, p0))
    return families


def _preactivations(space: Space, data: _Data, m: Array, r: Array, moving: Index) -> tuple[AffineForms, Array, Array]:
    """z of the free neurons over a power of two, as exact forms; a bound on |form - true z|, in the same units; and
    the powers."""
    A, b = data.A[data.free], data.b[data.free]
    n = A.shape[1]
    middle = A @ m + b
    G = A[:, moving] * r[moving]
    g = gamma(n + 8)
    rounding = g * (np.abs(A) @ np.abs(m) + np.abs(b)) + 2 * UNIT * np.abs(G).sum(axis=1) + n * TINY
    error = grow(rounding + data.slack[data.free], n + 8)
    scale = row_scales(data.A, data.b, m, r)[data.free]
    z = space.constant(middle * scale) + space.linear(G * scale[:, None], "w")
    return z, error * scale + TINY, scale


def row_scales(A: Array, b: Array, m: Array, r: Array) -> Array:
    """For every neuron the power of two that its rows are multiplied by: z(m + r w) then has coefficients up to 1."""
    size = np.maximum(np.abs(A @ m + b), np.abs(A * r).max(axis=1, initial=0.0))
    return np.asarray(np.ldexp(1.0, np.clip(-np.frexp(np.where(size > 0, size, 1.0))[1], -900, 900)))


def _in_range(data: _Data, m: Array, r: Array, bounds: Interval | None) -> bool:
    """Whether no number of the rows with z overflows; otherwise x is left out, which gives a looser bound."""
    with np.errstate(over="ignore", invalid="ignore"):
        reach = np.abs(data.A) @ (np.abs(m) + r) + np.abs(data.b)
    ends = [reach] if bounds is None else [reach, bounds.lo[data.free], bounds.hi[data.free]]
    return all(bool(np.all(np.isfinite(end))) for end in ends)


def _sign_and_reach(
    space: Space, data: _Data, z: AffineForms, error: Array, scale: Array, bounds: Interval
) -> list[Family]:
    """(1+v) z >= 0 at a true point, |z - form| <= error and 1+v <= 2: so (1+v)(-form) <= 2 error; others likewise."""
    p1, _ = data.shape
    free, k = data.free, len(data.free)
    plus, minus = space.constant(np.ones(k)) + space["v"], space.constant(np.ones(k)) - space["v"]
    hi, lo = bounds.hi[free] * scale, bounds.lo[free] * scale
    # The constants of z - hi and lo - z are rounded once more.
    more = grow(2 * error + 4 * UNIT * (np.abs(z.matrix[:, [0]].toarray()[:, 0]) + np.maximum(hi, -lo)), 8)
    twice = grow(2 * error, 8)
    above, below = z - space.constant(hi), z - space.constant(lo)
    return [
        Family("(1+v) z >= 0", -plus, z, twice, False, free, p1),
        Family("(1-v) z <= 0", minus, z, twice, False, free, p1),
        Family("(1+v)(hi - z) >= 0", plus, above, more, False, free, p1),
        Family("(1-v)(z - lo) >= 0", -minus, below, more, False, free, p1),
    ]


def _chords(space: Space, data: _Data, z: AffineForms, error: Array, scale: Array, bounds: Interval) -> Family:
    """z^2 <= g z with g = hi where v = 1 (z in [0, hi]) and g = lo where v = -1 (z in [lo, 0]).

    g = middle + half v. The form of z is off by at most e, that of g by at most d, and |z|, |z - g| <= R: so the
    product of the forms is at most R (2 e + d) + e (e + d).
    """
    p1, _ = data.shape
    hi, lo = bounds.hi[data.free] * scale, bounds.lo[data.free] * scale
    middle, half = hi / 2 + lo / 2, hi / 2 - lo / 2
    constant = np.abs(z.matrix[:, [0]].toarray()[:, 0])
    R = np.maximum(hi, -lo)
    d = 8 * UNIT * (R + constant) + 4 * TINY
    rhs = grow(R * (2 * error + d) + error * (error + d), 16)
    chord = z - space.constant(middle) - space["v"].scaled(half)
    return Family(CHORDS, z, chord, rhs, False, data.free, p1)


def _products(space: Space, moving: Index, p0: int) -> list[Family]:
    """(1 + s t_i)(1 + q w_i) >= 0 for the coordinates that move."""
    k = len(moving)
    one, w = space.constant(np.ones(k)), space["w"]
    t = AffineForms(space["t"].matrix[moving])
    families = []
    for s, first in (("+", one + t), ("-", one - t)):
        for q, second in (("+", one + w), ("-", one - w)):
            families.append(Family(f"(1{s}t)(1{q}w) >= 0", -first, second, np.zeros(k), False, moving, p0))
    return families
