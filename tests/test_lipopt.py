"""LipOpt: published values, soundness against enumeration, wrong multipliers, uncovered monomials."""

from __future__ import annotations

import csv
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Activation, Box, Everywhere, Network
from lipcert.bounds.propagation import Interval
from lipcert.errors import MethodError
from lipcert.paper.networks import paper_network, paper_region
from lipcert.polynomial.lcep.chain import gradient_chain, gradient_polynomial
from lipcert.polynomial.lcep.lipopt import lipopt, lipopt_program
from lipcert.problem.problem import Problem
from lipcert.proof.krivine import prove_krivine
from tests.enumeration import exact_constant
from tests.one_layer_tools import Case, exact, one_layer_cases, random_case
from tests.problems import Cell, published

ONE = np.ones(1)
REFERENCE = Path(os.environ.get("LIPCERT_REFERENCE", Path(__file__).parents[2] / "shared" / "reference"))


def published_bound(layers: int, region: str, size: int, sparsity: int, seed: int, degree: int) -> float:
    """LipOpt as published: globally every slope in [0, 1], also where all weights into a neuron have one sign."""
    net = paper_network(size, sparsity, seed, layers)
    if region == "local":
        return lipopt(Problem.of(net, paper_region(size, seed, region)), degree).upper
    unknown = tuple(Interval(np.full(a.outputs, -np.inf), np.full(a.outputs, np.inf)) for a in net.affines[:-1])
    return lipopt(Problem.of(net, Everywhere()), degree, pre=unknown).upper


def two_layers(seed: int, p0: int = 3, p1: int = 4, p2: int = 3) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(p1, p0)), rng.normal(size=(p2, p1)), rng.normal(size=(1, p2))]
    return Network.from_weights(weights, [rng.normal(size=p1) / 3, rng.normal(size=p2) / 3, np.zeros(1)])


@pytest.mark.parametrize("cell", published("LipOpt-3", "LipOpt-4"), ids=str)
def test_published_values(cell: Cell) -> None:
    about = (cell.layers, cell.place, cell.size, cell.sparsity, cell.seed, int(cell.method[-1]))
    assert published_bound(*about) == pytest.approx(cell.value, abs=1e-5)


def test_signs_of_weights_fix_neurons_of_the_second_layer() -> None:
    """A row of non-negative weights and bias keeps z_2 >= 0 on the whole space: below the published 0.114651."""
    problem = Problem.of(paper_network(10, 4, 0, 2), Everywhere())
    assert lipopt(problem, 3).upper == pytest.approx(0.104184, abs=1e-5)


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the published values are not part of the project")
def test_published_table_of_size_ten() -> None:
    with open(REFERENCE / "one_hidden_layer.csv", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["method"] == "LipOpt-3" and r["size"] == "10"]
    rows = [r for r in rows if int(r["seed"]) < 3]
    assert len(rows) == 30
    for r in rows:
        ours = published_bound(1, r["region"], 10, int(r["sparsity"]), int(r["seed"]), 3)
        assert ours == pytest.approx(float(r["bound"]), abs=1e-4), r


def test_published_degree_four_at_sparsity_four_dropped_monomials() -> None:
    """Published: 0.569964, below LipOpt-3. Whole cliques cover what products of four variables do not."""
    problem = Problem.of(paper_network(10, 4, 0), Everywhere())
    three, four = (lipopt(problem, k).upper for k in (3, 4))
    assert four == pytest.approx(0.609888, abs=1e-5)
    assert four <= three + 1e-7


@settings(max_examples=40, deadline=None)
@given(one_layer_cases(max_inputs=3, max_neurons=5))
def test_never_below_the_exact_constant(case: Case) -> None:
    net, region, c = case
    upper = lipopt(Problem.of(net, region, c), 3).upper
    assert upper >= exact(net, region, c) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_two_layers_never_below_the_exact_constant(seed: int) -> None:
    net, box = two_layers(seed), Box(np.random.default_rng(seed).normal(size=3), (0.1, 0.4, 1.0)[seed % 3])
    true = exact_constant(net, box, ONE)
    three, four = (lipopt(Problem.of(net, box), k).upper for k in (3, 4))
    assert four >= true * (1 - 1e-9)
    assert four <= three * (1 + 1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(("noise", "scaled", "nan", "huge", "none")), st.integers(1, 2))
def test_wrong_multipliers_only_loosen(seed: int, lie: str, layers: int) -> None:
    net = random_case(seed % 50, 3, 4, 0.5)[0] if layers == 1 else two_layers(seed % 50)
    box = Box(np.random.default_rng(seed % 50 + 1000).normal(size=3), 0.5)
    program = lipopt_program(gradient_polynomial(Problem.of(net, box)), 3)
    rng = np.random.default_rng(seed)
    z = rng.exponential(size=program.shape[0])
    lies = {
        "noise": rng.normal(size=len(z)),
        "scaled": z * 10.0 ** rng.uniform(-8, 8),
        "nan": np.where(rng.uniform(size=len(z)) < 0.5, np.nan, z),
        "huge": z * 1e300,
        "none": None,
    }
    upper = prove_krivine(program, lies[lie])
    assert upper >= exact_constant(net, box, ONE) * (1 - 1e-9)


def test_nudged_multipliers_stay_above() -> None:
    """Lowering the multipliers of an optimal solution lowers their sum, but not the bound below the constant."""
    net, box, c = random_case(2, 4, 4, 1.0)
    found = lipopt(Problem.of(net, box, c), 3)
    true = exact(net, box, c)
    for factor in (1 - 1e-3, 1 - 1e-6, 1 - 1e-9, 1.0):
        assert prove_krivine(found.program, found.program.multipliers(found.solution) * factor) >= true * (1 - 1e-9)
    assert found.upper <= prove_krivine(found.program, None)


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_units_of_the_weights_do_not_matter(factor: float) -> None:
    net, box, c = random_case(1, 3, 4, 0.5)
    scaled = Network.from_weights(
        [np.asarray(net.affines[0].weight), net.affines[1].weight * factor], [net.affines[0].bias, np.zeros(1)]
    )
    upper, plain = (lipopt(Problem.of(n, box, c), 3).upper for n in (scaled, net))
    assert upper == pytest.approx(plain * factor, rel=1e-6)


def test_an_uncovered_monomial_is_an_error() -> None:
    f = gradient_polynomial(Problem.of(two_layers(1), Everywhere()))
    with pytest.raises(MethodError, match="in no product"):
        lipopt_program(f, 2)
    alone = replace(f, cliques=tuple(clique[:-1] for clique in f.cliques))
    with pytest.raises(MethodError, match="in no product"):
        lipopt_program(alone, 3)


def test_the_polynomial_is_the_gradient() -> None:
    """t'g at sampled points, from the network's own derivatives, for any depth and activation."""
    rng = np.random.default_rng(5)
    for depth, kind in ((1, "leaky_relu"), (2, "relu"), (3, "relu")):
        widths = [4, 5, 4, 3][: depth + 1]
        weights = [rng.normal(size=(q, p)) for p, q in zip([*widths], [*widths[1:], 2], strict=True)]
        f = Activation("leaky_relu", 0.2) if kind == "leaky_relu" else Activation("relu")
        net = Network.from_weights(weights, [rng.normal(size=w.shape[0]) for w in weights], f)
        box, c = Box(rng.normal(size=4), 0.5), rng.normal(size=2)
        chain = gradient_chain(Problem.of(net, box, c))
        x = rng.uniform(box.lo, box.hi)
        t, value, g, v = rng.uniform(-1, 1, size=4), x, np.eye(4), np.zeros(chain.n + 1)
        v[:4], v[-1] = t, 1.0
        for layer, affine, a in zip(chain.layers, net.affines, net.activations, strict=False):
            z = np.asarray(affine.weight) @ value + affine.bias
            slope = a.derivative(z)
            v[layer.variable[layer.free]] = (slope - layer.low)[layer.free] / layer.width[layer.free]
            value, g = (
                np.where(z > 0, z, a.alpha * z if kind == "leaky_relu" else 0.0),
                slope[:, None] * (affine.weight @ g),
            )
        exact_value = c @ np.asarray(net.affines[-1].weight) @ g @ t
        assert chain.coefficients @ np.prod(v[chain.indices], axis=1) == pytest.approx(exact_value, abs=1e-12)


def test_other_activations_have_slopes_in_an_interval() -> None:
    rng = np.random.default_rng(1)
    net = Network.from_weights([rng.normal(size=(4, 3)), rng.normal(size=(1, 4))], None, Activation("tanh"))
    box = Box(rng.normal(size=3), 0.5)
    upper = lipopt(Problem.of(net, box), 3).upper
    x = rng.uniform(box.lo, box.hi, size=(2000, 3))
    gradients = ((1 - np.tanh(x @ net.affines[0].weight.T) ** 2) * net.affines[1].weight[0]) @ net.affines[0].weight
    assert np.abs(gradients).sum(axis=1).max() <= upper


def test_refusals() -> None:
    deep = Network.from_weights([np.eye(2)] * 4)
    with pytest.raises(MethodError, match="one or two hidden layers"):
        lipopt(Problem.of(deep, Everywhere(), np.ones(2)), 3)
    with pytest.raises(MethodError, match="at least 1"):
        lipopt(Problem.of(paper_network(10, 4, 0), Everywhere()), 0)
    with pytest.raises(MethodError, match="no hidden layer"):
        lipopt(Problem.of(Network.from_weights([np.eye(2)]), Everywhere(), np.ones(2)), 3)
    with pytest.raises(MethodError, match="products"):
        lipopt(Problem.of(paper_network(80, 160, 0), Everywhere()), 4)
