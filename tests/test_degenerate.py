"""Every method on problems where little is left: flat boxes, zero networks, one neuron, no open ones, a zero output."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import lipcert
from lipcert import Box, Network
from lipcert.errors import MethodError


@cache
def problems() -> dict[str, tuple[Network, Box]]:
    rng = np.random.default_rng(0)
    W, b = [rng.normal(size=(3, 2)), rng.normal(size=(2, 3))], [rng.normal(size=3), rng.normal(size=2)]
    deep = [np.zeros((3, 2)), np.zeros((2, 3)), np.zeros((1, 2))]
    box = Box([0.1, -0.2], 0.5)
    return {
        "flat box": (Network.from_weights(W, b), Box([0.1, 0.2], 0.0)),
        "flat box at a kink": (Network.from_weights(W), Box([0.0, 0.0], 0.0)),
        "zero network": (Network.from_weights([0 * w for w in W]), box),
        "zero network of two layers": (Network.from_weights(deep), box),
        "tiny weights": (Network.from_weights([1e-70 * w for w in W]), box),
        "one by one": (Network.from_weights([[[2.0]], [[3.0]]], [[0.1], [0.0]]), Box([0.0], 1.0)),
        "no open neuron": (Network.from_weights(W, [np.full(3, 50.0), b[1]]), box),
        "zero output": (Network.from_weights([W[0], 0 * W[1]], b), box),
    }


def steepest(net: Network, box: Box) -> float:
    """The largest L_1 norm of the gradient of score 0 at points of the box."""
    rng, worst = np.random.default_rng(1), 0.0
    for x in rng.uniform(box.lo, box.hi, size=(20, net.inputs)):
        g, slopes = net.affines[-1].weight[0], []
        z = x
        for map_ in net.affines[:-1]:
            z = map_.weight @ z + map_.bias
            slopes.append(z > 0)
            z = np.maximum(z, 0.0)
        for map_, on in zip(net.affines[-2::-1], slopes[::-1], strict=True):
            g = (g * on) @ map_.weight
        worst = max(worst, float(np.abs(g).sum()))
    return worst


def layers(method: str) -> int | None:
    """How many hidden layers a method is for; None for any."""
    return {"shor": 1, "hr2": 1, "elimination": 1, "lifting": 2}.get(method)


@pytest.mark.parametrize("name", problems())
@pytest.mark.parametrize("method", lipcert.METHODS)
def test_every_method_bounds_it(method: str, name: str) -> None:
    net, box = problems()[name]
    attained, product = steepest(net, box), lipcert.bound(net, box, output=0, method="product", lower=False).upper
    for literal in (False, True) if method in ("shor", "hr2") else (False,):
        try:
            result = lipcert.bound(net, box, output=0, method=method, literal=literal, work=0.2, lower=False)
        except MethodError:
            assert layers(method) not in (None, net.depth)
            continue
        assert result.upper >= attained * (1 - 1e-9)
        assert result.upper <= product * (1 + 1e-9) + 1e-6  # a solver stops that early
        assert not any("failed" in note for note in result.notes), result.notes
