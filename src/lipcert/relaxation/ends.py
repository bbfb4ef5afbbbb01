"""The two ends of the chain rule: the set of the input's change t, and the weights d of the outputs.

    L = max d'J t       t in the unit ball of the norm p,  d the given weights c, or any in the ball dual to the norm q

    p = inf    t are signs: the ends of the box            p = 2    |t|^2 <= 1, one row for all of t
    p = 1      t = +-e_i: one sign, one problem for every coordinate i
    q = 1      d are signs                                 q = 2    |d|^2 <= 1
    q = inf    d = +-e_k: one problem for every output, with weights e_k

By homogeneity max t'a over |t|_2 <= 1 is |a|_2: where t (or d) is in no other row it needs no variables. The matrix
bounds |a|_2^2 / scale, and the bound is sqrt(scale * that).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lipcert.problem.maps import dense, matrix
from lipcert.problem.norms import Matrix, Norm
from lipcert.problem.problem import Problem
from lipcert.relaxation.model import AffineForms, Family, Space, Tracked, constants, exactly, merge
from lipcert.rounding import TINY, Array, gamma, grow, sum_up


def end_blocks(problem: Problem, form: str) -> dict[str, int]:
    """The blocks of t and d that a lift of this form has, with their sizes."""
    net, norm = problem.network, problem.norm
    sizes: dict[str, int] = {}
    if norm.p != "2":
        sizes["t"] = net.inputs if problem.coordinate is None else 1
    elif form != "backward":
        sizes["tb"] = net.inputs
    if norm.out == "1":
        sizes["o"] = net.outputs
    elif norm.out == "2" and form != "forward":
        sizes["ob"] = net.outputs
    return sizes


def source(problem: Problem, space: Space) -> Tracked | None:
    """t, one form for each input; None where it has no variables."""
    if "tb" in space.slices:
        return exactly(space["tb"])
    if "t" not in space.slices:
        return None
    if problem.coordinate is None:
        return exactly(space["t"])
    return merge(space, [(np.array([problem.coordinate]), exactly(space["t"]))], problem.network.inputs)


def weights(problem: Problem, space: Space) -> Tracked | None:
    """The weights of the outputs, one form for each: given numbers, or d; None where d has no variables."""
    if not problem.whole_map:
        return constants(space, problem.c)
    name = next((name for name in ("o", "ob") if name in space.slices), None)
    return None if name is None else exactly(space[name])


def reach(problem: Problem, weight: Matrix) -> Array:
    """Bounds of |weight t|, entry by entry."""
    if problem.coordinate is None:
        return problem.norm.dual.rows_above(weight)
    return np.abs(dense(matrix(weight)[:, [problem.coordinate]])).reshape(-1)


def pull(problem: Problem, weight: Matrix) -> Array:
    """Bounds of |weight'd|, entry by entry: d the given weights, or any in the ball dual to q."""
    if problem.whole_map:
        return problem.norm.outputs.rows_above(weight.T)
    product = grow(np.asarray(abs(weight.T) @ np.abs(problem.c), dtype=np.float64), len(problem.c) + 4)
    return np.where(np.isnan(product), np.inf, product)


def ball_rows(space: Space) -> list[Family]:
    """|t|^2 <= 1 and |d|^2 <= 1, beside the rows of the single entries."""
    return [
        _group(f"|{name}|^2 <= 1", space[name], 1.0)
        for name in ("tb", "ob")
        if name in space.slices and space.slices[name].stop > space.slices[name].start
    ]


def within(space: Space, x: Tracked, center: Array, radius: float) -> list[Family]:
    """|x - center|^2 <= radius^2 over radius^2; forms f = (x - center)/radius, off by e: |f|^2 <= 1 + 2 |f||e| + |e|^2.

    |f| <= 1 + |e| at true points, so |f|^2 <= (1 + |e|)^2.
    """
    if not 1e-150 < radius < 1e150:
        return []
    moved = Tracked(sparse.csr_array(x.matrix - space.constant(center).matrix), x.error)
    rounding = grow(2 * 2.0**-53 * (x.magnitude + np.abs(center)) + TINY, 4)
    forms = Tracked(moved.matrix, grow(x.error + rounding, 2)).scaled(np.full(len(x), 1.0 / radius))
    # 1/radius is rounded: |f| is at most (1 + 2u) times what it should be.
    off = Norm("2").above(forms.error) + 4 * 2.0**-53
    rhs = float(grow(np.asarray((1.0 + off) ** 2), 8))
    return [_group("|x - c|^2 <= r^2", AffineForms(forms.matrix), rhs)] if np.isfinite(rhs) else []


def _group(name: str, forms: AffineForms, rhs: float) -> Family:
    owner = np.zeros(len(forms), dtype=np.int64)
    return Family(name, forms, forms, np.array([rhs]), False, np.arange(1), 1, None, owner)


def squared(space: Space, vector: Tracked, factor: float) -> tuple[sparse.csr_array, float]:
    """C and offset with factor^2 |vector|_2^2 <= y'Cy + offset.

    (f + e)^2 <= f^2 + 2 |f| e + e^2, and the product of the forms rounds by at most gamma sum_j |f_j|^2.
    """
    forms = vector.scaled(np.full(len(vector), factor))
    C = sparse.csr_array(forms.matrix.T @ forms.matrix)
    size, error = forms.magnitude, forms.error
    rounding = gamma(len(vector) + 8) * sum_up(grow(size * size, 2)) + len(vector) * space.size * TINY
    paid = sum_up(grow(2 * size * error + error * error, 4))
    return sparse.csr_array((C + C.T) / 2), sum_up(np.array([rounding, paid]))


def euclidean(space: Space, vector: Tracked) -> tuple[sparse.csr_array, float, float]:
    """C, offset and scale with |vector|_2 <= sqrt(scale (y'Cy + offset)); the scale is about |vector|_2 itself."""
    with np.errstate(over="ignore"):
        size = float(np.linalg.norm(vector.magnitude))
    scale = size if np.isfinite(size) and 1e-150 < size < 1e150 else 1.0
    factor = float(grow(np.asarray(1.0 / np.sqrt(scale)), 4))
    return *squared(space, vector, factor), scale
