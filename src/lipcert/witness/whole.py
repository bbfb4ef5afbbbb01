"""Lower bounds for the whole map: a point and a direction d of the outputs, |J'd|_dual / |d| <= the operator norm.

At a point the best d is a row for the infinity norm of outputs, a singular vector from 2 to 2, and what alternating
between both ends settles on otherwise. Points are found by the search for one output, c = d, with d renewed there.
"""

from __future__ import annotations

import time

import numpy as np

from lipcert.problem.network import Network
from lipcert.problem.norms import Norm
from lipcert.problem.region import Region, check_region
from lipcert.relaxation.model import Relaxation
from lipcert.rounding import Array, gamma
from lipcert.witness.record import OnProgress
from lipcert.witness.screen import Chart, direction
from lipcert.witness.search import improve, search
from lipcert.witness.witness import Witness, evaluate

_SAMPLES = 200
_SAMPLING_SHARE = 0.2  # of the time
_ROUNDS = 8
_SETTLING = 30  # alternations


def evaluate_whole(net: Network, point: Array, norm: Norm) -> float:
    """A proved lower bound on the operator norm of the Jacobian next to a point, from the point alone."""
    return along(net, point, steepest(jacobian(net, point), norm), norm)


def along(net: Network, point: Array, d: Array, norm: Norm) -> float:
    """The same, by one direction of the outputs: any d proves a lower bound."""
    size = norm.outputs.dual.above(np.abs(d))
    if not (0.0 < size < np.inf):
        return 0.0
    return max(0.0, evaluate(net, point, d, Norm(norm.p)) / size * (1.0 - gamma(4)))


def jacobian(net: Network, point: Array) -> Array:
    """In plain floating point."""
    zs = net.preactivations(point)
    with np.errstate(all="ignore"):
        rows = [net.gradient_from(zs, e)[0] for e in np.eye(net.outputs)]
    return np.asarray(np.nan_to_num(np.array(rows), nan=0.0, posinf=0.0, neginf=0.0), dtype=np.float64)


def steepest(J: Array, norm: Norm) -> Array:
    """d in the ball dual to q with |J'd|_dual large: the largest for q = inf, for p = 1 and from 2 to 2."""
    if norm.out == "inf":
        return np.asarray(np.eye(len(J))[int(np.argmax(norm.dual.of(J)))])
    if norm.p == "1":
        return _unit(norm.outputs, J[:, int(np.argmax(norm.outputs.of(J.T)))])
    left = np.linalg.svd(J, full_matrices=False)[0][:, 0]
    if norm.p == norm.out == "2":
        return np.asarray(left)
    starts = [_unit(norm.outputs, left), *(_unit(norm.outputs, row) for row in np.eye(len(J)))]
    settled = [_settle(J, norm, d) for d in starts]
    return max(settled, key=lambda d: float(norm.dual.of(d @ J)))


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


def search_whole(
    net: Network,
    region: Region,
    norm: Norm,
    *,
    seconds: float,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Witness:
    """A point of the region with a large operator norm: samples, then searches for one output along the best d."""
    check_region(region, net.inputs)
    end = time.monotonic() + seconds
    keep = _Best(net, norm, on_progress)
    found = _samples(net, region, norm, seed, time.monotonic() + _SAMPLING_SHARE * seconds)
    for point, _ in found[:4]:
        keep.offer(point, "sampling")
    tried: list[Array] = []
    queue = [d for _, d in found] if norm.out == "inf" else [d for _, d in found[:1]]
    while queue and len(tried) < (net.outputs if norm.out == "inf" else _ROUNDS) and time.monotonic() < end:
        d = queue.pop(0)
        if any(np.array_equal(d, other) or np.array_equal(d, -other) for other in tried):
            continue
        tried.append(d)
        left = max(end - time.monotonic(), 0.0)
        one = search(net, region, d, Norm(norm.p), seconds=left / 2, seed=seed + len(tried), samples=5_000)
        before = keep.best.value
        keep.offer(one.point, one.method)
        if norm.out != "inf" and keep.best.value > before * (1 + 1e-7):
            queue.append(steepest(jacobian(net, one.point), norm))
    return keep.best


def improve_whole(
    net: Network,
    region: Region,
    norm: Norm,
    known: Witness,
    relaxation: Relaxation,
    X: Array,
    weights: Array,
    *,
    seconds: float,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Witness:
    """The better of a known witness and what a moment matrix leads to: `weights` are those of its outputs, and where
    they are variables their leading direction is taken."""
    keep = _Best(net, norm, on_progress, known)
    d = weights if weights.ndim == 1 else _leading_weights(net, norm, relaxation, X, known)
    start = Witness(known.point, evaluate(net, known.point, d, Norm(norm.p)), known.method)
    one = improve(net, region, d, Norm(norm.p), start, relaxation, X, seconds=seconds, seed=seed)
    keep.offer(one.point, one.method)
    return keep.best


def _leading_weights(net: Network, norm: Norm, relaxation: Relaxation, X: Array, known: Witness) -> Array:
    block = next((relaxation.space.slices[name] for name in ("o", "ob") if name in relaxation.space.slices), None)
    if block is None or not np.all(np.isfinite(X)):
        return steepest(jacobian(net, known.point), norm)
    leading = np.linalg.eigh(X[block, block])[1][:, -1]
    return leading if norm.out == "2" else np.where(leading < 0, -1.0, 1.0)


class _Best:
    """The best witness so far."""

    def __init__(self, net: Network, norm: Norm, on_progress: OnProgress | None, known: Witness | None = None) -> None:
        self.net, self.norm, self.on_progress = net, norm, on_progress
        self.best = Witness(np.zeros(net.inputs), -1.0, "none") if known is None else known

    def offer(self, point: Array, method: str) -> None:
        """`point` is inside the region."""
        value = evaluate_whole(self.net, point, self.norm)
        if value > self.best.value:
            self.best = Witness(point, value, method)
            if self.on_progress is not None:
                self.on_progress(self.best)


def _samples(net: Network, region: Region, norm: Norm, seed: int, end: float) -> list[tuple[Array, Array]]:
    """Points and their directions, best first; the middle of the region is always one of them."""
    chart = Chart.of(net, region)
    drawn = chart.draw(np.random.default_rng(seed), _SAMPLES, np.float64)
    points = chart.points(np.concatenate([np.zeros((1, net.inputs)), drawn]))
    found: list[tuple[float, Array, Array]] = []
    for point in points:
        if found and time.monotonic() > end:
            break
        if region.contains(point):
            J = jacobian(net, point)
            d = steepest(J, norm)
            found.append((float(norm.dual.of(d @ J)), point, d))
    if norm.out == "inf":  # every output gets its turn
        found += [(0.0, points[0], e) for e in np.eye(net.outputs)]
    found.sort(key=lambda entry: -entry[0])
    return [(point, d) for _, point, d in found]
