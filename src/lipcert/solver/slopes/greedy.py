"""The greedy pass: for each block in turn the multipliers that make what the next one sees smallest.

With G the Gram matrix of the readers of a block and Z what it receives, v minimises the trace of G times the
covariance of its values,

    f(v) = tr(C G C V (V - Z)^-1 V) - sum_k G_kk a_k b_k v_k,

by Newton's method in v. The minimum lies close to where the next block has no room; so v is divided by a number below
one before the pass goes on. (At depth 16 and width 16 this proves 92 where v = 2 lmax(Z), known from the literature,
proves 595.) Without Newton steps the pass is the latter. With more room than is best for the pass alone the bound
depends less wildly on early blocks: what other methods start from.

`scalar_multipliers` is a cheaper pass with one number for all neurons of a block but for their slopes. With
t_k = 1 / (lambda b_k (b_k - a_k)), where b_k is the larger end of the slopes in size and lambda the largest eigenvalue
of W X^-1 W', X being what is left of the blocks before, what is left of a block is at least 1 / (lambda b_k^2): in a
chain the bound is never above the product of norms.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from lipcert.relaxation.slopes import SlopeMultipliers, SlopeProgram
from lipcert.rounding import Array
from lipcert.solver.dense import invert_definite
from lipcert.solver.slopes.recursion import gram_of_readers, largest
from lipcert.solver.slopes.walk import Walk, walk

ROOM = 0.87  # share of the best multipliers for the bound of the pass; best were 0.9 at width 16, 0.87 at 32 and 64
START = 0.76  # the same for a start of other methods: 15 first-order steps gained most from 0.75 to 0.8 on all of them
GAIN = 1e-3  # a relative gain of a Newton step below which the block is left
LEAST_WEIGHT = 1e-6  # smallest weight of an input coordinate, relative to the largest
LINEAR = 1e-6  # second derivatives below this, relative to first ones, are none: slopes between -1 and 1
CALLS = 1.2e7  # operations in the time of the calls of one step
OPERATIONS = 9.0  # times the width cubed: one Newton step with its trial


def greedy(program: SlopeProgram, rounds: int, room: float = ROOM) -> tuple[Walk, Array | None]:
    """The walk with the best multipliers of every block, by at most so many Newton steps each, and input weights."""
    weights = input_weights(program) if program.weighted else None

    def choose(i: int, Z: Array, _: int) -> Array:
        block = program.blocks[i]
        top = max(largest(Z), float(np.max(np.diagonal(Z))), np.finfo(float).tiny)
        v = np.full(len(Z), 2.0 * top)
        if rounds:
            gram = gram_of_readers(program, i + 1)
            v = best(Z, gram, block.a, block.b, v, rounds) / room
        return np.asarray(2.0 / (v * (block.b - block.a) ** 2))

    return walk(program, weights, choose), weights


def input_weights(program: SlopeProgram) -> Array:
    """The input weights of sum 1 that minimise the trace of G Lambda^-1."""
    weights = np.sqrt(np.diagonal(gram_of_readers(program, 0)))
    weights = np.maximum(weights, LEAST_WEIGHT * np.max(weights, initial=1e-300))
    return np.asarray(weights / weights.sum())


def greedy_operations(program: SlopeProgram, rounds: int) -> float:
    """Operations of the greedy pass."""
    orders = [sum(program.widths[j] for j in state) for state in program.states]
    widths = np.array(program.widths[1:], dtype=float)
    before = np.array(orders[: len(widths)], dtype=float)
    passing = 2 * before**2 * widths + 5 * before * widths**2 + 2 * widths**3
    return float(np.sum(passing + rounds * OPERATIONS * widths**3) + CALLS * len(widths) * (1 + rounds))


def best(Z: Array, G: Array, a: Array, b: Array, v: Array, rounds: int) -> Array:
    """v near the minimum of f from a v with V - Z > 0."""
    c = (a + b) / 2
    Gc, linear = c[:, None] * G * c, -np.diagonal(G) * a * b
    now = _value(Z, Gc, linear, v)
    for _ in range(rounds):
        direction = _direction(Z, Gc, linear, v)
        length = 1.0
        while length > 1e-3:
            trial = v + length * direction
            value = _value(Z, Gc, linear, trial)
            if value < now:
                break
            length *= 0.4
        else:
            return v
        little = now - value < GAIN * abs(now)
        v, now = trial, value
        if little:
            return v
    return v


def _value(Z: Array, G: Array, linear: Array, v: Array) -> float:
    """f, infinite where V - Z is not positive."""
    if not np.all(v > 0):
        return float("inf")
    Y = -Z
    Y.flat[:: len(Y) + 1] += v
    factor, info = lapack.dpotrf(Y, lower=1, overwrite_a=1, clean=1)
    if info != 0:
        return float("inf")
    image = lapack.dpotrs(factor, v[:, None] * G, lower=1)[0]
    return float(np.diagonal(image) @ v + linear @ v)


def _direction(Z: Array, G: Array, linear: Array, v: Array) -> Array:
    """Newton's, or down the gradient where the second derivative is not positive."""
    Y = -Z
    Y.flat[:: len(Y) + 1] += v
    inverse = invert_definite(Y)
    K = inverse * v
    C = K @ G
    A = C @ K.T
    gradient = linear + 2 * np.diagonal(C) - np.diagonal(A)
    second = inverse * (G + A - C - C.T)
    second = second + second.T  # symmetric, and twice what stands above
    diagonal = np.diagonal(second)
    top = float(np.max(diagonal))
    if top > LINEAR * float(np.max(np.abs(gradient / v))):
        scale = 1 / np.sqrt(np.maximum(diagonal, 1e-12 * top))
        system = scale[:, None] * second * scale
        system.flat[:: len(system) + 1] += 1e-9
        factor, info = lapack.dpotrf(system, lower=1, overwrite_a=1, clean=0)
        if info == 0:
            return np.asarray(-scale * lapack.dpotrs(factor, scale * gradient, lower=1)[0])
    return np.asarray(-v * gradient / max(float(np.max(np.abs(gradient))), np.finfo(float).tiny) * 0.3)


_INSIDE = 0.9  # share of the largest multipliers: the rest of the matrix keeps full rank
_SHARED = 0.5  # share of the remaining state that may go into a block if later blocks read the state too
_EQUAL = 1e-6  # relative to the slope: a shorter interval counts as this long


def scalar_multipliers(program: SlopeProgram) -> SlopeMultipliers | None:
    """The multipliers of one pass; None where numbers overflow."""
    inputs = np.full(program.inputs, 1.0 / program.inputs) if program.weighted else None
    X = np.eye(program.inputs) if inputs is None else np.diag(inputs)
    found: list[Array] = []
    for i in range(1, len(program.blocks) + 1):
        step = _step(program, X, i)
        if step is None:
            return None
        t, X = step
        found.append(t)
    return SlopeMultipliers(tuple(found), inputs)


def _step(program: SlopeProgram, X: Array, i: int) -> tuple[Array, Array] | None:
    """The multipliers of a block, and what is left for the state after it."""
    from scipy.linalg import LinAlgError, cholesky, solve_triangular  # here, so that importing lipcert stays fast

    block, rows, later = program.blocks[i - 1], program.rows(i), set(program.states[i])
    size = np.maximum(np.abs(block.a), np.abs(block.b))
    try:
        V = solve_triangular(cholesky(X, lower=True), rows.T, lower=True)
        most = float(np.linalg.norm(V, 2)) ** 2
        stay = np.concatenate([np.full(program.widths[j], j in later) for j in (*program.states[i - 1], i)])
        share = _SHARED if np.any(stay[: len(X)]) else _INSIDE
        t = share / (most * size * np.maximum(block.b - block.a, _EQUAL * size))
        n = len(X)
        F = np.zeros((n + len(t), n + len(t)))
        F[:n, :n] = X + rows.T @ ((2 * t * block.a * block.b)[:, None] * rows)
        F[n:, :n] = -(t * (block.a + block.b))[:, None] * rows
        F[:n, n:] = F[n:, :n].T
        F[n:, n:] = np.diag(2 * t)
        V = solve_triangular(cholesky(F[np.ix_(~stay, ~stay)], lower=True), F[np.ix_(~stay, stay)], lower=True)
    except (LinAlgError, ValueError, ArithmeticError):
        return None
    left = F[np.ix_(stay, stay)] - V.T @ V
    return t, (left + left.T) / 2
