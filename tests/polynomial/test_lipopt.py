"""LipOpt: published values, soundness against enumeration, wrong multipliers, rows found one by one against all."""

from __future__ import annotations

import csv
import os
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Activation, Box, Everywhere, Network, bound, verify
from lipcert.bounds.interval import Interval
from lipcert.budget import Budget
from lipcert.errors import InputError, MethodError
from lipcert.paper.entries import paper_network, paper_region
from lipcert.polynomial.lcep.chain import Index, Multilinear, gradient_chain, gradient_polynomial
from lipcert.polynomial.lcep.lipopt import bound_polynomial, conic, largest_value, lipopt, multipliers
from lipcert.polynomial.lcep.literal import ProductProof
from lipcert.polynomial.lcep.products import ProductFamily, product_family
from lipcert.polynomial.lcep.separation import Lattice, ProductSums, Selection
from lipcert.problem.problem import Problem
from lipcert.proof.polynomials import prove_krivine
from lipcert.rounding import Array
from lipcert.solver.conic.conic import ConicProblem, ConicSolution, ConicStatus, solve_conic
from tests.conftest import ROOT
from tests.enumeration import exact_constant
from tests.one_layer_tools import Case, exact, one_layer_cases, random_case
from tests.problems import Cell, published

ONE = np.ones(1)
REFERENCE = Path(os.environ.get("LIPCERT_REFERENCE", ROOT.parent / "shared" / "reference"))


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
    f = gradient_polynomial(Problem.of(net, box))
    program = product_family(f, 3).program(f)
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
    f = gradient_polynomial(Problem.of(net, box, c))
    program = product_family(f, 3).program(f, found.numbers)
    for factor in (1 - 1e-3, 1 - 1e-6, 1 - 1e-9, 1.0):
        assert prove_krivine(program, found.values * factor) >= true * (1 - 1e-9)
    assert found.upper <= prove_krivine(program, None)


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
        product_family(f, 2).program(f)
    alone = replace(f, cliques=tuple(clique[:-1] for clique in f.cliques))
    with pytest.raises(MethodError, match="in no product"):
        product_family(alone, 3).program(alone)


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


# --- rows found by separation -----------------------------------------------------------------------------------------


def some_polynomial(seed: int, layers: int, size: int = 5) -> Multilinear:
    """Of a network with some weights missing, so that cliques differ; every slope free."""
    rng = np.random.default_rng(seed)
    shapes = [(size, size)] * layers + [(1, size)]
    weights = [rng.normal(size=shape) * (rng.random(shape) < 0.7) for shape in shapes]
    net = Network.from_weights(weights, [np.zeros(len(w)) for w in weights])
    unknown = tuple(Interval(np.full(size, -np.inf), np.full(size, np.inf)) for _ in range(layers))
    return gradient_polynomial(Problem.of(net, Everywhere()), unknown)


def corners(n: int) -> Array:
    return np.array(np.meshgrid(*[[0.0, 1.0]] * n)).reshape(n, -1).T


def values_of(f: Multilinear, x: Array) -> Array:
    padded = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    return np.asarray(f.constant + padded[:, f.indices].prod(axis=2) @ f.coefficients)


@pytest.mark.parametrize("degree", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(6))
def test_few_rows_have_the_bound_of_all(seed: int, degree: int) -> None:
    f = some_polynomial(seed, 1 if degree == 2 else 1 + seed % 2)
    program = product_family(f, degree).program(f)
    whole = solve_conic(conic(program), "highs")
    every = prove_krivine(program, multipliers(program, whole))
    found = bound_polynomial(f, degree)
    assert found.status is ConicStatus.OPTIMAL
    assert found.upper == pytest.approx(every, rel=2e-6)
    assert found.products == program.shape[0]


@pytest.mark.parametrize("seed", range(4))
def test_the_numbers_of_a_smaller_sets_products_are_those_of_a_larger_one(seed: int) -> None:
    """z'h is the same polynomial, whether written in the rows that were solved or in the whole family."""
    f = some_polynomial(seed, 1 + seed % 2)
    lattice, family = Lattice.of(f, 4), product_family(f, 4)
    rng = np.random.default_rng(seed)
    further = [ProductSums.none() for _ in lattice.sets]
    for size in (3, 4):
        sets, patterns = rng.integers(len(lattice.sets[size]), size=30), rng.integers(1 << size, size=30)
        further[size] = ProductSums(sets, patterns, patterns ^ 1)  # one factor is x in one and 1 - x in the other
    selection = Selection.of(lattice, f, further)
    z = rng.exponential(size=selection.program.shape[0])
    numbers, numbered = selection.numbered(z, family)
    x = rng.random((5, f.n))
    rows = selection.program.products.toarray() @ moments(lattice, selection, x) + selection.program.constants[:, None]
    assert numbered @ product_values(family, numbers, x) == pytest.approx(z @ rows, rel=1e-12)
    assert np.all(np.diff(numbers) > 0)


def moments(lattice: Lattice, selection: Selection, x: Array) -> Array:
    """The monomials of the selection at points, one column each."""
    found = np.zeros((selection.program.shape[1], len(x)))
    for size in range(1, lattice.degree + 1):
        there = selection.present[size]
        found[selection.columns[size][there]] = x[:, lattice.sets[size][there]].prod(axis=2).T
    return found


def product_values(family: ProductFamily, numbers: Index, x: Array) -> Array:
    """Products by their numbers, from the factors themselves."""
    found = np.zeros((len(numbers), len(x)))
    for start, end, sets in zip(family.starts, family.starts[1:], family.sets, strict=False):
        own = np.flatnonzero((numbers >= start) & (numbers < end))
        place, size = numbers[own] - start, sets.shape[1]
        factors = x[:, sets[place >> size]]
        ones = (place[:, None] >> np.arange(size)) & 1 == 1
        found[own] = np.where(ones, factors, 1 - factors).prod(axis=2).T
    return found


@pytest.mark.parametrize("seed", range(4))
def test_what_is_violated_is_violated_and_corners_violate_nothing(seed: int) -> None:
    f = some_polynomial(seed, 1)
    lattice = Lattice.of(f, 3)
    selection = Selection.of(lattice, f, [ProductSums.none() for _ in lattice.sets])
    for corner in corners(f.n)[:: 2 ** max(0, f.n - 6)]:
        assert not any(len(r) for r in selection.violated(moments(lattice, selection, corner[None])[:, 0], [100] * 4))
    chance = np.full(selection.program.shape[1], 0.5)  # all of one half, and all pairs of f exclude each other
    chance[selection.columns[2][selection.present[2]]] = 0.0
    found = selection.violated(chance, [1000] * 4)
    assert any(len(r) for r in found)
    again = Selection.of(lattice, f, found)
    column = np.full(again.program.shape[1], 0.5)
    column[again.columns[2][again.present[2]]] = 0.0
    rows = again.program.products @ column + again.program.constants
    assert rows[again.further[3]].min(initial=1.0) < 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(("noise", "nan", "zero", "huge")), st.integers(1, 2))
def test_a_lying_solver_only_loosens(seed: int, lie: str, layers: int) -> None:
    f = some_polynomial(seed % 40, layers, 3)
    rng = np.random.default_rng(seed)

    def lying(problem: ConicProblem, solver: str, *, budget: Budget) -> ConicSolution:
        told = solve_conic(problem, solver, budget=budget)
        noise = {"noise": 1.0, "nan": np.nan, "zero": 0.0, "huge": 1e200}[lie]
        x, z = (noise * rng.exponential(size=v.shape) for v in (told.x, told.z))
        return replace(told, x=x, z=np.abs(z), status=ConicStatus.OPTIMAL)

    with mock.patch("lipcert.polynomial.lcep.lipopt.solve_conic", lying):
        found = bound_polynomial(f, 3, budget=Budget.of_work(0.05))
    true = values_of(f, corners(f.n)).max()
    assert found.upper >= true * (1 - 1e-12)
    assert found.floor <= true * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_value_is_one_of_f(seed: int) -> None:
    f = some_polynomial(seed, 1 + seed % 2, 4)
    every = values_of(f, corners(f.n))
    found = largest_value(f, np.full(f.n, 0.5), seed)
    assert np.abs(every - found).min() <= 1e-12 * np.abs(every).max()
    assert found == pytest.approx(every.max(), rel=1e-9)


def test_it_solves_with_a_fraction_of_the_products() -> None:
    """Counted, not timed: (20,20), s = 24, LipOpt-4, whose program has 289,680 rows; and the bound is attained."""
    net = paper_network(20, 24, 0)
    found = lipopt(Problem.of(net, Everywhere()), 4)
    assert found.products == 289_680
    assert found.rows < found.products / 5
    assert found.floor <= found.upper <= found.floor * (1 + 1e-8)


def test_out_of_work_is_still_a_bound() -> None:
    problem = Problem.of(paper_network(20, 24, 0), Everywhere())
    found, whole = lipopt(problem, 4, budget=Budget.of_work(0.002)), lipopt(problem, 4)
    assert found.status in (ConicStatus.TIME_LIMIT, ConicStatus.ITERATION_LIMIT)
    assert whole.upper < found.upper < np.inf


def test_files_of_numbers_are_checked_with_no_other_products(tmp_path: Path) -> None:
    """Twice the same number counts once, numbers beyond the family are refused, and files say what the result says."""
    net = paper_network(10, 8, 0)
    result = bound(net, paper_region(10, 0, "local"), method="lipopt4")
    assert result.certificate is not None
    path = tmp_path / "proof.npz"
    result.certificate.save(path)
    told = verify(path, net)
    assert told.proved
    assert told.upper == result.upper
    problem = Problem.of(net, paper_region(10, 0, "local"))
    found = lipopt(problem, 4)
    twice = ProductProof("lipopt4", 4, np.tile(found.numbers, 2), np.tile(found.values, 2))
    assert twice.check(problem) == found.upper
    with pytest.raises(InputError, match="products that there are"):
        ProductProof("lipopt4", 4, np.array([found.products]), np.ones(1)).check(problem)
