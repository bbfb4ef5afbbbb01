"""LCEP and the literal relaxations: against the fast road, against enumeration, and with wrong multipliers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipcert import Box, Everywhere, Network
from lipcert.errors import MethodError
from lipcert.paper.entries import paper_network, paper_region
from lipcert.polynomial.hierarchy.hierarchies import dense, nearly_sparse
from lipcert.polynomial.hierarchy.model import MomentBlock, with_submoments
from lipcert.polynomial.hierarchy.solve import solve_model
from lipcert.polynomial.lcep.literal import cubic_bases, hr, lift, lifted
from lipcert.polynomial.lcep.literal import shor as literal_shor
from lipcert.polynomial.lcep.methods import LITERAL_METHODS, literal_bound
from lipcert.polynomial.lcep.problem import lcep
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.rounding import Array
from lipcert.solver.conic.conic import ConicProblem, ConicSolution, ConicStatus
from tests import literal
from tests.enumeration import exact_constant
from tests.one_layer_tools import Case, exact, one_layer_cases, random_case, solved, weights
from tests.polynomial.test_lipopt import ONE, two_layers
from tests.problems import Cell, published
from tests.strategies import convolutional

RADII = (0.1, 0.4, 1.0)


def bound(net: Network, region: Region, c: Array, method: str, submoments: str = "large") -> float:
    return literal_bound(Problem.of(net, region, c), method, submoments=submoments)[0]


def two_layer_case(seed: int) -> tuple[Network, Box]:
    return two_layers(seed), Box(np.random.default_rng(seed).normal(size=3), RADII[seed % 3])


@pytest.mark.parametrize("seed", range(10))
def test_the_literal_and_the_fast_road_agree(seed: int) -> None:
    size, region = 5 + seed % 4, ("local", "global")[seed % 2]
    net, box = paper_network(size, 20, seed), paper_region(size, seed, region)
    true = exact(net, box, ONE)
    for method in ("hr2", "shor"):
        fast, slow = solved(net, box, ONE, method, chords=True).upper, bound(net, box, ONE, method)
        assert slow == pytest.approx(fast, rel=1e-4)
        assert slow >= true * (1 - 1e-9)


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 10])
def test_the_fast_road_is_never_looser(seed: int) -> None:
    """Seed 10: literal 2.92963 (the independent reference too), fast 2.92781: its products of x and t imply the clique
    {x, t} of order two, and are a little more."""
    net, box, c = random_case(seed, 4 + seed % 3, 5 + seed % 2, RADII[seed % 3], alpha=0.1 * (seed % 2))
    A, b, w = weights(net, c)
    slow = bound(net, box, c, "hr2")
    reference = literal.hr2(A, b, w, box.lo, box.hi, net.activations[0].alpha, order=1)
    assert slow == pytest.approx(reference, rel=1e-4)
    assert solved(net, box, c, "hr2", chords=True).upper <= slow * (1 + 1e-5)


@pytest.mark.parametrize("cell", published("SHOR", "HR-2"), ids=str)
def test_published_values(cell: Cell) -> None:
    """SHOR to 1e-4; the published HR-2 has errors up to 2e-3 of its own (the literal form is ill-conditioned)."""
    method, room = ("shor", 1e-4) if cell.method == "SHOR" else ("hr2", 2e-3)
    assert bound(cell.network, cell.box, ONE, method) == pytest.approx(cell.value, abs=room)


@settings(max_examples=20, deadline=None)
@given(one_layer_cases(max_inputs=3, max_neurons=4), st.sampled_from(("shor", "hr1", "hr2")))
def test_one_layer_never_below_the_exact_constant(case: Case, method: str) -> None:
    net, region, c = case
    assert bound(net, region, c, method) >= exact(net, region, c) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("submoments", ["small", "large"])
def test_two_layers_in_order(seed: int, submoments: str) -> None:
    net, box = two_layer_case(seed)
    one, two = (bound(net, box, ONE, method, submoments) for method in ("hr1", "hr2"))
    true = exact_constant(net, box, ONE)
    assert two >= true * (1 - 1e-9)
    assert one >= two * (1 - 1e-5)
    assert bound(net, Everywhere(), ONE, "hr1", submoments) >= true * (1 - 1e-9)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("seed", [1, 4, 5, 6])
def test_ties_leave_the_first_matrix_and_the_bound_stays(seed: int, order: int) -> None:
    """L(h m) = 0 in place of L(h^2) = 0 is the same relaxation: no row of z in M_1, no square, the same bound."""
    net, box = two_layer_case(seed) if seed % 2 else random_case(seed, 4, 5, 0.5)[:2]
    model, found = hr(Problem.of(net, box), order)
    assert any(len(layer.z) for layer in found.layers)
    stated = nearly_sparse(found.problem, order, found.cliques, found.ties)
    bases = cubic_bases(found.problem.objective, "large")
    before, after = (solve_model(m, "clarabel").bound for m in (with_submoments(stated, bases), model))
    z = {(int(i),) for layer in found.layers for i in layer.z}
    assert z <= set(stated.blocks[0].basis)
    assert not z & set(model.blocks[0].basis)
    assert (len(stated.products), len(model.products)) == (1, 0)
    assert after == pytest.approx(before, rel=2e-4)
    assert after >= exact_constant(net, box, ONE) * (1 - 1e-9)


@pytest.mark.parametrize("seed", [1, 3, 4, 6])
def test_t_has_a_matrix_of_its_own_and_the_bound_stays(seed: int) -> None:
    """Of order 1, entries between t and x are in no constraint: two matrices that share 1 and some u do as well."""
    net, box = two_layer_case(seed) if seed % 2 else random_case(seed, 4, 5, 0.5)[:2]
    model, found = hr(Problem.of(net, box), 1)
    others, own = (set(block.basis) for block in model.blocks[:2])
    t, u = ({(int(i),) for i in found.t}, {(int(i),) for layer in found.layers for i in layer.u})
    assert t <= own <= t | u | {()}
    assert u | {()} <= others
    assert not t & others
    whole = MomentBlock(tuple(sorted(own | others, key=lambda m: (len(m), m))))
    before, after = (
        solve_model(m, "clarabel").bound for m in (replace(model, blocks=(whole, *model.blocks[2:])), model)
    )
    assert after == pytest.approx(before, rel=1e-6)
    assert after >= exact_constant(net, box, ONE) * (1 - 1e-9)


def test_a_rough_answer_of_scs_is_a_proof_all_the_same() -> None:
    net, box = two_layer_case(1)
    fine, rough = (literal_bound(Problem.of(net, box), "hr1", solver="scs", tolerance=e)[0] for e in (None, 1e-3))
    assert fine < rough <= 1.01 * fine
    assert fine >= exact_constant(net, box, ONE) * (1 - 1e-9)


@pytest.mark.parametrize(("depth", "method"), [(1, "shor"), (2, "hr1"), (2, "lipopt3")])
def test_a_convolution_has_the_bound_of_its_matrix(depth: int, method: str) -> None:
    kept, written = convolutional(depth)
    box = Box(np.zeros(kept.inputs), 0.5)
    assert bound(kept, box, ONE, method) == pytest.approx(bound(written, box, ONE, method), rel=1e-6)


@pytest.mark.parametrize("seed", [2, 5, 8])
def test_large_submoments_and_lifting_are_tighter(seed: int) -> None:
    net, box = two_layer_case(seed)
    small, large = (bound(net, box, ONE, "hr1", kind) for kind in ("small", "large"))
    lifting = [literal_bound(Problem.of(net, box), "lifting", order=k)[0] for k in (1, 2)]
    true = exact_constant(net, box, ONE)
    assert small >= large * (1 - 1e-5)
    assert large >= lifting[0] * (1 - 1e-5) >= lifting[1] * (1 - 2e-5)
    assert min(lifting) >= true * (1 - 1e-9)


def test_sampled_gradients_of_a_published_network_are_below() -> None:
    net, box = paper_network(10, 4, 1, 2), paper_region(10, 1, "local")
    x = np.random.default_rng(0).uniform(box.lo, box.hi, size=(4000, 10))
    sampled = np.abs(net.gradient(x, ONE)).sum(axis=1).max()
    assert bound(net, box, ONE, "hr1") >= sampled


@pytest.mark.parametrize("seed", range(3))
def test_dense_order_two_of_tiny_networks(seed: int) -> None:
    """On the whole space (3,3) has six variables and order two finds the exact value; on a box it never goes below."""
    net = random_case(seed, 3, 3, 0.0)[0]
    found = lcep(Problem.of(net, Everywhere()))
    result = solve_model(dense(found.problem, 2))
    A, w = np.asarray(net.affines[0].weight), np.asarray(net.affines[1].weight)[0]
    patterns = np.stack(np.meshgrid(*[[0.0, 1.0]] * 3), axis=-1).reshape(-1, 3)
    best = np.abs((patterns * w) @ A).sum(axis=1).max()
    assert best * (1 - 1e-9) <= result.bound + found.error <= best * (1 + 1e-4)


def test_dense_order_two_on_a_box_is_exact_on_a_tiny_network() -> None:
    net, box, c = random_case(7, 2, 2, 0.8)
    found = lcep(Problem.of(net, box, c))
    result = solve_model(dense(found.problem, 2))
    true = exact(net, box, c)
    assert true * (1 - 1e-9) <= result.bound + found.error
    assert result.bound <= bound(net, box, c, "hr2") * (1 + 1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_true_points_are_feasible(seed: int) -> None:
    """x, z, u of the network satisfy every constraint, and the objective is t'gradient; the lifted problem too."""
    net, box = two_layer_case(seed)
    rng = np.random.default_rng(seed)
    found = lcep(Problem.of(net, box))
    for x in rng.uniform(box.lo, box.hi, size=(20, 3)):
        t = rng.choice([-1.0, 1.0], size=3)
        point = true_point(net, box, found, x, t)
        assert found.problem.violation(point) < 1e-12
        gradient = net.gradient(x[None, :], ONE)[0]
        assert found.problem.objective.evaluate(point)[0] == pytest.approx(t @ gradient, abs=1e-12)


def true_point(net: Network, box: Box, found: object, x: Array, t: Array) -> Array:
    """The variables at an input; units as in `polynomial.lcep.forms`: powers of two read off the ties."""
    problem, layers = found.problem, found.layers  # type: ignore[attr-defined]
    point = np.zeros(problem.n)
    point[found.x] = (x - (box.lo + box.hi) / 2) / ((box.hi - box.lo) / 2)  # type: ignore[attr-defined]
    point[found.t] = t  # type: ignore[attr-defined]
    value = x
    ties = {int(tie.variables[tie.variables >= 0].max()): tie for tie in found.ties}  # type: ignore[attr-defined]
    for affine, layer in zip(net.affines, layers, strict=False):
        z = np.asarray(affine.weight) @ value + affine.bias
        value = np.maximum(z, 0.0)
        for k, j in enumerate(layer.neurons):
            tie = ties[int(layer.z[k])]
            point[layer.z[k]] = 0.0
            scaled = -tie.evaluate(point)[0]
            point[layer.z[k]], point[layer.u[k]] = scaled, float(z[j] > 0)
            if len(layer.x):
                point[layer.x[k]] = max(scaled, 0.0)
    return point


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(("noise", "scaled", "zero", "nan")), st.booleans())
def test_wrong_multipliers_only_loosen(seed: int, lie: str, deep: bool) -> None:
    rng = np.random.default_rng(seed)
    net, box = two_layer_case(seed % 20) if deep else random_case(seed % 20, 3, 3, 0.5)[:2]
    model, question = hr(Problem.of(net, box), 1 + seed % 2)

    def liar(problem: ConicProblem) -> ConicSolution:
        z = rng.normal(size=problem.rows) * 10.0 ** rng.uniform(-6, 2)
        z = {"noise": z, "scaled": np.abs(z), "zero": 0 * z, "nan": np.full(problem.rows, np.nan)}[lie]
        x = np.zeros(problem.columns)
        return ConicSolution(x, problem.b, z, ConicStatus.OPTIMAL, 0.0, 0.0, 0.0, 1, "liar")

    result = solve_model(model, solve=liar)
    assert result.bound + question.error >= exact_constant(net, box, ONE) * (1 - 1e-9)


def test_three_hidden_layers_as_a_problem() -> None:
    rng = np.random.default_rng(3)
    net = Network.from_weights([rng.normal(size=(3, 3)) for _ in range(3)] + [rng.normal(size=(1, 3))])
    found = lcep(Problem.of(net, Box(rng.normal(size=3), 0.5)))
    assert found.problem.objective.degree <= 4
    assert len(found.layers) == 3
    assert found.problem.names is not None
    assert {name[:2] for name in found.problem.names} <= {"x0", "t_", "u1", "z1", "x1", "u2", "z2", "x2", "u3", "z3"}


def test_bases_and_lifting_cover_the_cubic_terms() -> None:
    net = two_layers(2)
    found = lcep(Problem.of(net, Everywhere()))
    objective = found.problem.objective
    pairs = len(found.layers[0].u) * len(found.layers[1].u)
    assert len(cubic_bases(objective, "small")) == int((objective.indices[:, 0] >= 0).sum())
    large = cubic_bases(objective, "large")
    assert len(large) == len(found.layers[1].u)
    assert all(len(basis) == 1 + 3 + 4 for basis in large)
    quadratic = lift(found)
    assert quadratic.problem.objective.degree == 2
    assert quadratic.problem.n == found.problem.n + pairs


def test_names_and_refusals() -> None:
    net = two_layers(0)
    problem = Problem.of(net, Everywhere())
    deep = Problem.of(Network.from_weights([np.eye(2)] * 4), Everywhere(), np.ones(2))
    smooth = Problem.of(Network.from_weights([np.eye(2)] * 2, None, "tanh"), Everywhere(), np.ones(2))
    with pytest.raises(MethodError, match="no literal form"):
        literal_bound(problem, "interval")
    with pytest.raises(MethodError, match="infinity norm"):
        literal_bound(Problem.of(net, Everywhere(), norm="2"), "hr1")
    with pytest.raises(MethodError, match="submoments"):
        literal_bound(problem, "hr1", submoments="huge")
    with pytest.raises(MethodError, match="at least 1"):
        literal_bound(problem, "hr1", order=0)
    with pytest.raises(MethodError, match="exactly one hidden layer"):
        literal_shor(problem)
    with pytest.raises(MethodError, match="one or two"):
        hr(deep, 1)
    with pytest.raises(MethodError, match="exactly two"):
        lifted(deep)
    with pytest.raises(MethodError, match="ReLU"):
        lcep(smooth)
    upper, info = literal_bound(problem, "lipopt3", order=4)
    assert info.details["degree"] == 4
    assert np.isfinite(upper)
    assert set(LITERAL_METHODS) >= {"shor", "hr1", "hr2", "lipopt3", "lipopt4", "lifting"}
