"""Closed loops x+ = A x + B f(C x) as networks with a connection past the controller, and their contraction.

The loop contracts on a convex region in the norm |t|_P = sqrt(t'Pt) when its constant there, from this norm to itself,
is below one: two states of the region come closer in every step.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lipcert.errors import InputError
from lipcert.method.bound import bound
from lipcert.method.result import Result
from lipcert.problem.arrays import floats_of
from lipcert.problem.network import Network
from lipcert.problem.region import Region, check_region, hull
from lipcert.problem.rewriting import followed, led
from lipcert.readers.given import TorchModule, network_of
from lipcert.rounding import Array

Controller = Network | str | os.PathLike[str] | TorchModule


def closed_loop(net: Controller, A: ArrayLike, B: ArrayLike, C: ArrayLike | None = None) -> Network:
    """The network x -> A x + B net(C x), exactly: no product of matrices is rounded.

    Args:
        net: the controller: a network, the path of its file, or a torch module.
        A: (states, states).
        B: (states, outputs of the controller).
        C: what the controller sees, (inputs of the controller, states); the state itself where it is left out.
    """
    net = network_of(net)
    a, b = _matrix("A", A), _matrix("B", B)
    states = a.shape[0]
    if a.shape != (states, states):
        raise InputError(f"A has the shape {a.shape}; give a square matrix, one row and column for every state")
    if b.shape != (states, net.outputs):
        raise InputError(f"B has the shape {b.shape}, not {(states, net.outputs)}: states by outputs of the network")
    if C is None and net.inputs != states:
        raise InputError(f"the network has {net.inputs} inputs, A has {states} states; give C, what the network sees")
    seen = net
    if C is not None:
        c = _matrix("C", C)
        if c.shape != (net.inputs, states):
            raise InputError(f"C has the shape {c.shape}, not {(net.inputs, states)}: inputs of the network by states")
        seen = led(net, c)
    return followed(seen, b, a)


def contraction(
    net: Controller,
    A: ArrayLike,
    B: ArrayLike,
    region: Region,
    *,
    C: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    norm: str = "2",
    **options: Any,
) -> Result:
    """Bracket the contraction constant of x+ = A x + B net(C x) on a region: below one, the loop contracts there.

    Args:
        net, A, B, C: as in `closed_loop`.
        region: of states.
        weights: of the norm, of both ends: a positive definite matrix (norm 2) or a vector; `loop_weights` finds one.
        norm: "2", "inf" or "1".
        options: what else `bound` takes: method, time_limit, gap, ...
    """
    own = [name for name in ("output", "output_norm", "input_weights", "output_weights") if name in options]
    if own:
        raise InputError(f"{own[0]}: the whole loop is bounded, from one norm to itself; give norm and weights instead")
    loop = closed_loop(net, A, B, C)
    return bound(loop, region, output="all", norm=norm, input_weights=weights, output_weights=weights, **options)


class NotContractingError(InputError):
    """No weights: the Jacobian at the middle of the region has a spectral radius of 1 or more, says floating point."""


def loop_weights(net: Controller, A: ArrayLike, B: ArrayLike, region: Region, C: ArrayLike | None = None) -> Array:
    """A P in whose norm the loop contracts near the middle of the region, where there is one; a hint, nothing proved.

    From the Lyapunov equation of the loop's Jacobian J there: J'PJ = r^2 (P - I), with r between its spectral radius
    and one.
    """
    from scipy.linalg import solve_discrete_lyapunov  # here, so that importing lipcert stays fast

    loop = closed_loop(net, A, B, C)
    check_region(region, loop.inputs)
    box = hull(region)
    middle = np.zeros(loop.inputs) if box is None else box.center
    J = np.concatenate([loop.gradient(middle, row) for row in np.eye(loop.outputs)])
    radius = float(np.abs(np.linalg.eigvals(J)).max(initial=0.0))
    if not radius < 1:
        raise NotContractingError(
            f"the loop does not contract at the middle of the region: its Jacobian has spectral radius {radius:.6g}"
        )
    slack = (1.0 + radius) / 2
    P = np.asarray(solve_discrete_lyapunov((J / slack).T, np.eye(len(J))), dtype=np.float64)
    P = (P + P.T) / 2
    return np.asarray(P / np.abs(P).max())


def _matrix(name: str, given: ArrayLike) -> Array:
    try:
        value = np.array(floats_of(given))
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a matrix of numbers") from None
    if value.ndim != 2 or not value.size or not np.all(np.isfinite(value)):
        raise InputError(f"{name} must be a matrix of finite numbers, not of shape {value.shape}")
    return value
