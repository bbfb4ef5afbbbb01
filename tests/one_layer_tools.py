"""For the tests of relaxations and certificates: cases with one hidden layer, their exact constants, their proofs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lipcert import Activation, Affine, Box, Everywhere, Network
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof import Certificate, Multipliers
from lipcert.relaxation.specification import plan_specification
from lipcert.relaxation.triangles import Triangles
from lipcert.rounding import Array
from lipcert.solver import RankTwoResult
from lipcert.solver.rank_two import Options, solve_rank_two
from tests.enumeration import exact_constant
from tests.lift_tools import task_of

Case = tuple[Network, Region, Array]


def solved(net: Network, region: Region, c: Array, method: str, chords: bool | None = None) -> Certificate:
    """The certificate from the interior point's multipliers."""
    return solve(net, region, c, method, chords)[0]


def solve(
    net: Network, region: Region, c: Array, method: str, chords: bool | None = None
) -> tuple[Certificate, RankTwoResult]:
    problem = Problem.of(net, region, c)
    plan = plan_specification(problem, method)
    task = task_of(problem, plan if chords is None else replace(plan, wide=chords))
    result = solve_rank_two(task.relaxation.problem, Options())
    return task.prove(result.y), result


def proof_of(certificate: Certificate) -> Multipliers:
    """The multipliers of a certificate that has them."""
    assert isinstance(certificate.proof, Multipliers)
    return certificate.proof


def changed(certificate: Certificate, **parts: Any) -> Certificate:
    """The certificate with other multipliers, shift or specification."""
    return replace(certificate, proof=replace(proof_of(certificate), **parts))


def with_specification(certificate: Certificate, **choices: Any) -> Certificate:
    """The certificate with another specification: other cuts, say."""
    return changed(certificate, specification=replace(proof_of(certificate).specification, **choices))


def exact(net: Network, region: Region, c: Array) -> float:
    """The exact constant by enumeration; on the whole space that of a large box, a lower bound.

    Neurons are first brought to pre-activations of about 1, which leaves the function as it is: the enumeration's
    margins are absolute. Weights that overflow on the way are not for this function.
    """
    box = region if isinstance(region, Box) else Box(np.zeros(net.inputs), 1e3)
    A, b, w = weights(net, c)
    size = np.abs(A) @ np.maximum(np.abs(box.lo), np.abs(box.hi)) + np.abs(b)
    scale = np.ldexp(1.0, -np.frexp(np.where(size > 0, size, 1.0))[1])
    top = np.abs(w / scale).max(initial=0.0)
    unit = np.ldexp(1.0, -np.frexp(top)[1]) if top > 0 else 1.0
    same = Network(
        (Affine(A * scale[:, None], b * scale), Affine((w / scale * unit)[None, :], np.zeros(1))), net.activations
    )
    return exact_constant(same, box, np.ones(1)) / unit


def weights(net: Network, c: Array) -> tuple[Array, Array, Array]:
    """A, b, and the output's weights on the hidden layer."""
    return np.asarray(net.affines[0].weight), net.affines[0].bias, np.asarray(c @ net.affines[1].weight)


def random_net(seed: int, p0: int, p1: int, alpha: float = 0.0, outputs: int = 1) -> Network:
    rng = np.random.default_rng(seed)
    return Network.from_weights(
        [rng.normal(size=(p1, p0)) / np.sqrt(p0), rng.normal(size=(outputs, p1))],
        [rng.normal(size=p1) / 2, np.zeros(outputs)],
        Activation("leaky_relu", alpha),
    )


def random_case(seed: int, p0: int, p1: int, radius: float, alpha: float = 0.0) -> tuple[Network, Box, Array]:
    return random_net(seed, p0, p1, alpha), Box(np.random.default_rng(seed + 1000).normal(size=p0), radius), np.ones(1)


@st.composite
def one_layer_cases(draw: st.DrawFn, max_inputs: int = 4, max_neurons: int = 6, everywhere: bool = True) -> Case:
    """Zeros, copies (also negated), dead and always active neurons, neurons without output, flat coordinates."""
    p0, p1, outputs = draw(st.integers(1, max_inputs)), draw(st.integers(1, max_neurons)), draw(st.integers(1, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    A = rng.normal(size=(p1, p0)) * (rng.uniform(size=(p1, p0)) >= draw(st.sampled_from((0.0, 0.4))))
    b = rng.normal(size=p1) / 2
    head = rng.normal(size=(outputs, p1)) * (rng.uniform(size=(outputs, p1)) >= draw(st.sampled_from((0.0, 0.3))))
    match draw(st.sampled_from(("plain", "copy", "mirror", "dead", "active", "zero row"))):
        case "copy":
            A[-1], b[-1] = A[0], b[0]
        case "mirror":
            A[-1], b[-1] = -A[0], -b[0]
        case "dead":
            b[-1] = -1e3
        case "active":
            b[-1] = 1e3
        case "zero row":
            A[-1] = 0.0
    f = Activation("leaky_relu", draw(st.sampled_from((0.0, 0.01, 0.3))))
    net = Network((Affine(A, b), Affine(head, np.zeros(outputs))), (f,))
    c = rng.normal(size=outputs)
    if everywhere and draw(st.integers(0, 7)) == 0:
        return net, Everywhere(), c
    radius = draw(st.sampled_from((0.03, 0.3, 1.0, 10.0))) * rng.uniform(0.2, 1.0, size=p0)
    if draw(st.integers(0, 3)) == 0:
        radius[rng.integers(p0)] = 0.0
    return net, Box(rng.normal(size=p0), radius), c


def all_triangles(size: int) -> Triangles:
    """Every triangle of so many signs."""
    a, b, c = (part.ravel() for part in np.meshgrid(*3 * [np.arange(size)], indexing="ij"))
    nodes = np.stack([a, b, c], axis=1)[(a < b) & (b < c)]
    signs = np.array([[1, q, r] for q in (1, -1) for r in (1, -1)])
    return Triangles.of(np.repeat(nodes, 4, axis=0), np.tile(signs, (len(nodes), 1)))
