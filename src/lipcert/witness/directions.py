"""The whole map at a point: the direction d of the outputs along which the Jacobian is largest.

The operator norm is max |J'd|_dual over the unit ball of d. It is attained at a row for the infinity norm of outputs,
at a singular vector from 2 to 2, and about where alternating between both ends settles otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipcert.bounds.jacobian import directions
from lipcert.bounds.operator_norms import CORNERS_UP_TO, corners
from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array
from lipcert.witness.screen import direction

_SETTLING = 30  # alternations


def jacobian(problem: Problem, point: Array) -> Array:
    """The Jacobian at a point, in plain floating point; for a problem of one coordinate other columns are zero."""
    net = problem.network
    zs = net.preactivations(point)
    with np.errstate(all="ignore"):
        J = np.array([net.gradient_from(zs, e)[0] for e in np.eye(net.outputs)])
    if problem.coordinate is not None:
        J = J * (np.arange(net.inputs) == problem.coordinate)
    return np.asarray(np.nan_to_num(J, nan=0.0, posinf=0.0, neginf=0.0), dtype=np.float64)


def jacobians(net: Network, slopes: Sequence[Array]) -> Array:
    """The Jacobians for a batch of slope vectors, (batch, outputs, inputs), in plain floating point."""
    with np.errstate(all="ignore"):
        rows = [net.chain_rule(slopes, e) for e in np.eye(net.outputs)]
    return np.nan_to_num(np.stack(rows, axis=1), nan=0.0, posinf=0.0, neginf=0.0)


def steepness(problem: Problem, points: Array) -> Array:
    """An estimate of the constant next to every point: the dual norm of the gradient, or the norm of the Jacobian."""
    net, norm = problem.network, problem.norm
    if not problem.whole_map:
        return norm.dual.of(net.gradient(points, problem.c))
    slopes = [f.derivative(z) for f, z in zip(net.activations, net.preactivations(points), strict=True)]
    return operator_norms(jacobians(net, slopes), norm)


def operator_norms(J: Array, norm: Norm) -> Array:
    """Operator norms of a stack of matrices, in plain floating point; from below where the norm is hard."""
    if norm.out == "inf":
        return np.asarray(norm.dual.of(J).max(axis=1))
    if norm.p == "1":
        return np.asarray(norm.outputs.of(np.swapaxes(J, 1, 2)).max(axis=1))
    if norm.p == norm.out == "2":
        return np.asarray(np.linalg.norm(J, 2, axis=(1, 2)))
    rows = directions(norm, J.shape[1])
    if rows is not None:
        return np.asarray(norm.dual.of(rows @ J).max(axis=1))
    if norm.out == "2" and J.shape[2] <= CORNERS_UP_TO:
        return np.asarray(norm.outputs.of(corners(J.shape[2]) @ np.swapaxes(J, 1, 2)).max(axis=1))
    return np.array([float(norm.dual.of(steepest(one, norm) @ one)) for one in J])


def steepest(J: Array, norm: Norm) -> Array:
    """d in the ball dual to q with |J'd|_dual large: the largest for q = inf, for p = 1, from 2 to 2, and with
    few outputs (q = 1) or few inputs (from inf to 2)."""
    if norm.out == "inf":
        return np.asarray(np.eye(len(J))[int(np.argmax(norm.dual.of(J)))])
    if norm.p == "1":
        return _unit(norm.outputs, J[:, int(np.argmax(norm.outputs.of(J.T)))])
    left = np.linalg.svd(J, full_matrices=False)[0][:, 0]
    if norm.p == norm.out == "2":
        return np.asarray(left)
    rows = directions(norm, len(J))
    if rows is not None:
        return np.asarray(rows[int(np.argmax(norm.dual.of(rows @ J)))])
    if norm.out == "2" and J.shape[1] <= CORNERS_UP_TO:
        moved = corners(J.shape[1]) @ J.T
        return _unit(norm.outputs, moved[int(np.argmax(norm.outputs.of(moved)))])
    starts = [_unit(norm.outputs, left), *(_unit(norm.outputs, row) for row in np.eye(len(J)))]
    settled = [_settle(J, norm, d) for d in starts]
    return max(settled, key=lambda d: float(norm.dual.of(d @ J)))


def leading(problem: Problem, relaxation: Relaxation, X: Array, point: Array) -> Array:
    """The direction of the outputs in a moment matrix; the steepest at a point where the matrix has none."""
    block = next((relaxation.space.slices[name] for name in ("o", "ob") if name in relaxation.space.slices), None)
    if block is None or X.shape != (relaxation.space.size,) * 2 or not np.all(np.isfinite(X)):
        return steepest(jacobian(problem, point), problem.norm)
    d = np.linalg.eigh(X[block, block])[1][:, -1]
    return d if problem.norm.out == "2" else np.where(d < 0, -1.0, 1.0)


def _settle(J: Array, norm: Norm, d: Array) -> Array:
    for _ in range(_SETTLING):
        new = _unit(norm.outputs, J @ _unit(norm.dual, d @ J))
        if np.array_equal(new, d):
            break
        d = new
    return d


def _unit(norm: Norm, v: Array) -> Array:
    """d in the ball dual to a norm with d'v = |v|."""
    return np.asarray(direction(norm, v[None, :])[0])
