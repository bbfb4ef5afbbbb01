"""The network of the open neurons: the original within slack and price, and proofs about it are proofs about that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from benchmarks._mixed_integer_program import formulate
from benchmarks._residual_networks import residual as residual_convolutions
from hypothesis import given, settings
from hypothesis import strategies as st

import lipcert
from lipcert import Activation, Ball, Box, Everywhere, FileFormatError, MethodError, Network
from lipcert.bounds import Split, bounds_of, halves, preactivations, slope_bounds, slopes, splits_here, whole
from lipcert.bounds.collapse import Collapsed, Index, RowSweep, collapse, collapsed
from lipcert.budget import Budget
from lipcert.problem.blocks import Block
from lipcert.problem.maps import Matrix
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof import Certificate, Multipliers, Within, prove_interval, prove_product, prove_within
from lipcert.proof.balls import check_with_balls
from lipcert.proof.file import load_certificate
from lipcert.proof.leaves import BY_INTERVALS
from lipcert.relaxation.margin import margin
from lipcert.relaxation.specification import LIFTS
from lipcert.rounding import Array
from tests.constants import set_constant
from tests.enumeration import exact_constant, operator
from tests.forging import wordless
from tests.lift_tools import built, deep_net, objective, on_cell, true_points, violations
from tests.problems import net_of
from tests.rational import exact_pass
from tests.relaxation.test_lifts_branches import asked, one_of, proved, residual
from tests.strategies import SMOOTH, branched_networks, convolutional_networks, small_cases
from tests.trees import tree_of

Case = tuple[Network, Box, Array]
Vector = list[Fraction]
ANY = ("relu", "leaky_relu", "identity", *SMOOTH)
COARSE = 1e-3
NORMS = [Norm(p, q) for p in ("inf", "2", "1") for q in (None, "1", "2", "inf")]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it does not pay."""
    for name in ("COLLAPSE_SHARE", "COLLAPSE_TRIED", "COLLAPSE_PRICE"):
        set_constant(monkeypatch, name, np.inf)


def small_of(problem: Problem) -> Collapsed:
    found = collapsed(problem)
    assert found is not None
    return found


def points_of(region: Region, count: int) -> Array:
    box = region.box if isinstance(region, Ball) else region
    assert isinstance(box, Box)
    x = np.random.default_rng(1).uniform(box.lo, box.hi, size=(count, box.size))
    return region.project(x)


def exactly(numbers: Array) -> Vector:
    return [Fraction(float(e)) for e in numbers]


def product(rows: Array, x: Vector) -> Vector:
    return [sum((Fraction(float(w)) * e for w, e in zip(row, x, strict=True)), Fraction(0)) for row in rows]


def chain_rule(net: Network, slopes: Sequence[Vector], c: Array) -> Vector:
    """The gradient for these slopes, in rational arithmetic."""
    behind = [[Fraction(0)] * width for width in net.shape[:-1]] + [exactly(c)]
    for i in range(len(net.blocks), 0, -1):
        g = behind[i]
        if i <= net.depth:
            g = [e * s for e, s in zip(g, slopes[i - 1], strict=True)]
        for j, weight in net.blocks[i - 1].terms:
            behind[j] = [a + b for a, b in zip(behind[j], product(np.asarray(weight).T, g), strict=True)]
    return behind[0]


@settings(max_examples=39)
@given(branched_networks(max_neurons=12))
def test_slack_and_price_in_rational_arithmetic(case: Case) -> None:
    """z at points, and the gradient for slopes that no point need have: for any that the bounds allow."""
    net, box, c = case
    problem = Problem.of(net, box, c)
    small = small_of(problem)
    tiny = small.problem.network
    for x in points_of(box, 2):
        zs = exact_pass(net, x, c)[0]
        values = [exactly(x)]
        for block, (i, own) in zip(tiny.hidden, small.neurons, strict=True):
            z = exactly(block.bias)
            for j, weight in block.terms:
                z = [a + b for a, b in zip(z, product(np.asarray(weight), values[j]), strict=True)]
            true = [zs[i - 1][k] for k in own]
            assert all(abs(a - b) <= Fraction(float(e)) for a, b, e in zip(true, z, block.doubt, strict=True))
            values.append([max(e, Fraction(0)) for e in true])
    rng = np.random.default_rng(3)
    signs = [rng.integers(0, 2, size=len(own)) for _, own in small.neurons]
    given_ = {i: dict(zip(own, u, strict=True)) for (i, own), u in zip(small.neurons, signs, strict=True)}
    own_slopes = []
    for i, (f, s) in enumerate(zip(net.activations, slopes(problem), strict=True), start=1):
        low = Fraction(f.alpha)
        chosen = [
            Fraction(float(lo)) if lo == hi else low + (1 - low) * int(given_.get(i, {}).get(k, 0))
            for k, (lo, hi) in enumerate(zip(*s, strict=True))
        ]
        own_slopes.append(chosen)
    true = chain_rule(net, own_slopes, c)
    rounded = chain_rule(tiny, [[Fraction(int(e)) for e in u] for u in signs], np.ones(1))
    assert sum(abs(a - b) for a, b in zip(true, rounded, strict=True)) <= Fraction(small.price)
    assert small.price <= 1e-11 * (1 + small.scale)


def test_a_wide_block_with_few_rows_above_it_collapses(monkeypatch: pytest.MonkeyPatch) -> None:
    """One hidden layer has the row of the score over its values; the rows of its neurons are over the inputs."""
    rng = np.random.default_rng(0)
    net = Network.from_weights(
        [rng.normal(size=(3000, 6)), rng.normal(size=(1, 3000))], [rng.normal(size=3000), np.zeros(1)]
    )
    problem = Problem.of(net, Box(np.zeros(6), 0.01), 0)
    set_constant(monkeypatch, "COLLAPSE_NUMBERS", 3000)
    small = collapse(problem)
    assert small is not None
    assert 10 < small.problem.network.neurons < 400
    set_constant(monkeypatch, "COLLAPSE_NUMBERS", 2999)
    assert collapse(Problem.of(net, problem.region, 0)) is None


def test_deep_convolutions_collapse_with_a_price_that_is_seen() -> None:
    """A price above 1e-7 is taken where little of a large network is left, and spectral norms are asked for then."""
    net = residual_convolutions(2, 16)
    problem = Problem.of(net, Box(np.random.default_rng(1).uniform(size=net.inputs), 1e-4), 0)
    small = collapse(problem)
    assert small is not None
    assert small.problem.network.neurons < net.neurons / 100
    certificate = prove_within(problem, prove_interval(small.problem))
    assert lipcert.verify(certificate, net).proved
    with pytest.MonkeyPatch.context() as strict:
        set_constant(strict, "COLLAPSE_PRICE", small.price / small.scale / 2)
        set_constant(strict, "COLLAPSE_TINY", 0.0)
        assert collapse(Problem.of(net, problem.region, 0)) is None


class Coarse(RowSweep):
    """Arithmetic that errs by as much as `pulled` says that it may, with units of a thousandth."""

    @staticmethod
    def _wrong(exact: Array, most: Array) -> Array:
        return exact + np.where((np.arange(exact.size).reshape(exact.shape) * 7 + exact.size) % 3 > 0, most, -most)

    @staticmethod
    def _product(rows: Array, weight: Matrix, neurons: Index) -> Array:
        exact, size = RowSweep._product(rows, weight, neurons), RowSweep._product(np.abs(rows), np.abs(weight), neurons)
        return Coarse._wrong(exact, (len(weight) + 4) * COARSE * size)

    @staticmethod
    def _scaled(rows: Array, factors: Array) -> Array:
        return np.where(factors == 1, rows, Coarse._wrong(rows * factors, 3 * COARSE * np.abs(rows * factors)))

    @staticmethod
    def _sum(a: Array, b: Array) -> Array:
        return Coarse._wrong(a + b, np.where(b == 0, 0.0, 1.9 * COARSE * np.abs(a + b)))


@settings(max_examples=52)
@given(branched_networks(max_neurons=12), st.sampled_from(NORMS))
def test_every_error_is_paid_for(case: Case, norm: Norm) -> None:
    """With errors so large that nothing else pays for them: values and gradients, for any slopes."""
    net, box, c = case
    problem = asked(net, box, norm, c)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lipcert.bounds.collapse.UNIT", COARSE)
        patch.setattr("lipcert.bounds.collapse.gamma", lambda n: n * COARSE)
        patch.setattr("lipcert.bounds.collapse.RowSweep", Coarse)
        small = small_of(problem)
    tiny, x = small.problem.network, points_of(box, 20)
    zs = net.preactivations(x)
    values = [x, *(np.maximum(zs[i - 1][:, own], 0.0) for i, own in small.neurons)]
    rows = np.atleast_2d(problem.c)
    true = [*(zs[i - 1][:, own] for i, own in small.neurons), net.forward(x) @ rows.T]
    for block, z in zip(tiny.blocks, true, strict=True):
        assert np.all(np.abs(block(values) - z) <= block.doubt * (1 + 1e-9) + 1e-9 * (1 + np.abs(z)))
    rng = np.random.default_rng(3)
    for _ in range(5):
        signs = [rng.integers(0, 2, size=len(own)).astype(float) for _, own in small.neurons]
        own_slopes = [s.lo.copy() for s in slopes(problem)]
        for (i, own), u in zip(small.neurons, signs, strict=True):
            own_slopes[i - 1][own] = net.activations[i - 1].derivative(2 * u - 1)
        big, little = ([u[None, :] for u in parts] for parts in (own_slopes, signs))
        J = np.concatenate([net.chain_rule(big, row) for row in rows])
        J -= np.concatenate([tiny.chain_rule(little, row) for row in np.eye(len(rows))])
        apart = operator(J if problem.whole_map else J[0], norm)
        assert apart <= small.price * (1 + 1e-9) + 1e-9 * (1 + small.scale)


@settings(max_examples=39)
@given(branched_networks(max_neurons=12, kinds=ANY), st.sampled_from(NORMS), st.booleans())
def test_it_is_the_same_function(case: Case, norm: Norm, ball: bool) -> None:
    net, box, c = case
    region = Ball(box.center, float(box.radius.max())) if ball else box
    problem = one_of(asked(net, region, norm, c))
    small = small_of(problem)
    x = points_of(region, 50)
    zs, own = net.preactivations(x), small.problem.network.preactivations(x)
    for (i, neurons), z, known in zip(small.neurons, own, preactivations(small.problem), strict=True):
        np.testing.assert_allclose(z, zs[i - 1][:, neurons], rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(known.hi, preactivations(problem)[i - 1].hi[neurons])
    scores = net.forward(x) if problem.whole_map else net.forward(x) @ problem.c[:, None]
    np.testing.assert_allclose(small.problem.network.forward(x), scores, rtol=1e-9, atol=1e-9)
    rows = np.eye(net.outputs) if problem.whole_map else problem.c[None, :]
    true = np.stack([np.broadcast_to(net.gradient(x, row), x.shape) for row in rows])
    found = [small.problem.network.gradient(x, row) for row in np.eye(len(rows))]
    near = np.any([np.any(np.abs(z) < 1e-9, axis=1) for z in zs], axis=0)  # rounding decides which slope
    np.testing.assert_allclose(
        np.stack([np.broadcast_to(g, x.shape) for g in found])[:, ~near], true[:, ~near], 1e-9, 1e-9
    )


@settings(max_examples=10)
@given(convolutional_networks())
def test_convolutions_are_pulled_back_like_matrices(both: tuple[Network, Network]) -> None:
    box = Box(np.zeros(both[0].inputs), 0.1)
    found = [small_of(Problem.of(net, box, 0)).problem.network for net in both]
    assert found[0].shape == found[1].shape
    x = points_of(box, 20)
    np.testing.assert_allclose(found[0].forward(x), both[1].forward(x)[:, :1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[0].forward(x), found[1].forward(x), rtol=1e-9, atol=1e-12)


def test_leaky_slopes_above_one_and_collapse_of_a_collapsed_problem() -> None:
    net = deep_net(4, 8, 8, 1, activation=Activation("leaky_relu", 1.7))
    problem = Problem.of(net, Box(np.full(4, 0.3), 0.1))
    small = small_of(problem)
    again = small_of(small.problem)
    assert small.problem.network.neurons == again.problem.network.neurons < net.neurons
    x = points_of(problem.region, 30)
    for tiny in (small.problem.network, again.problem.network):
        assert all(f.kind == "relu" for f in tiny.activations)
        np.testing.assert_allclose(tiny.forward(x), net.forward(x), rtol=1e-12)
        np.testing.assert_allclose(tiny.gradient(x, np.ones(1)), net.gradient(x, np.ones(1)), rtol=1e-12)
    slack = zip(again.problem.network.blocks, small.problem.network.blocks, strict=True)
    assert all(np.all(b.doubt >= a.doubt) for b, a in slack)


def test_neurons_that_only_closed_ones_read_are_left_out() -> None:
    weights = [np.eye(2), np.array([[1.0, 0.0], [0.0, 1.0]]), np.ones((1, 2))]
    net = Network.from_weights(weights, [np.zeros(2), np.array([0.5, -9.0]), np.zeros(1)])
    small = small_of(Problem.of(net, Box(np.zeros(2), 1.0)))
    assert [(i, list(own)) for i, own in small.neurons] == [(1, [0])]


# --- slack: everything that is said of z pays for it ------------------------------------------------------------------


def doubtful(net: Network, size: float, seed: int) -> Network:
    """The network with biases that are wrong, by at most the slack that it owns up to."""
    rng = np.random.default_rng(seed)
    blocks = []
    for b in net.hidden:
        slack = size * rng.uniform(size=b.width)
        blocks.append(replace(b, bias=b.bias + 0.999 * slack * rng.choice((-1.0, 1.0), size=b.width), slack=slack))
    return Network.from_blocks([*blocks, net.scores])


@settings(max_examples=26)
@given(branched_networks(kinds=ANY), st.sampled_from((1e-3, 0.3)), st.booleans(), st.integers(0, 99))
def test_bounds_pay_for_slack(case: Case, size: float, ball: bool, seed: int) -> None:
    net, box, c = case
    region = Ball(box.center, float(box.radius.max())) if ball else box
    wrong = doubtful(net, size, seed)
    x = points_of(region, 300)
    zs = net.preactivations(x)
    cells = [whole(wrong, region)]
    for i in range(1, net.depth + 1) if not ball else ():
        split = Split(i, 0)
        if splits_here(cells[-1], split, wrong):
            cells.append(halves(cells[-1], split)[int(zs[i - 1][0, 0] > 0)])
    bounds = bounds_of(wrong, cells)
    for k, cell in enumerate(cells):
        inside = np.all([np.all(s * z >= 0, axis=1) for s, z in zip(cell.signs, zs, strict=True)], axis=0)
        assert not (inside.any() and bounds.empty[k])
        for found in (bounds.of(k), preactivations(Problem.of(wrong, region, c)))[: 2 - (k > 0)]:
            for z, known in zip(zs, found, strict=True):
                assert np.all(z[inside] >= known.lo - 1e-12)
                assert np.all(z[inside] <= known.hi + 1e-12)


@settings(max_examples=20)
@given(branched_networks(kinds=(*ANY[:3], "tanh")), st.sampled_from(("tight", *LIFTS)), st.sampled_from(NORMS))
def test_rows_hold_at_points_of_the_true_network(case: Case, name: str, norm: Norm) -> None:
    net, box, c = case
    problem = one_of(asked(doubtful(net, 0.2, 1), box, norm, c))
    relaxation = built(problem, name, wide=True, exclusions=True)
    Y, value = true_points(relaxation, problem, 500, truth=net)
    assert violations(relaxation, Y) <= 1e-9
    reached = objective(relaxation, Y) + relaxation.offset
    found = np.array([relaxation.finish(max(v, 0.0)) for v in reached]) if relaxation.finish.scale else reached
    assert np.all(found >= value - 1e-8 * (1 + np.abs(value)))


@settings(max_examples=13)
@given(small_cases(max_depth=1), st.sampled_from(("shor", "hr2", "tight")))
def test_rows_of_one_layer_hold_at_points_of_the_true_network(case: Case, name: str) -> None:
    net, box, c = case
    problem = Problem.of(doubtful(net, 0.2, 1), box, c)
    relaxation = built(problem, name, values=True, wide=True, exclusions=True)
    Y, value = true_points(relaxation, problem, 500, truth=net)
    assert violations(relaxation, Y) <= 1e-9
    assert np.all(objective(relaxation, Y) + relaxation.offset >= value - 1e-8 * (1 + np.abs(value)))


@settings(max_examples=10)
@given(branched_networks(max_neurons=8), st.integers(0, 99))
def test_half_spaces_pay_for_slack(case: Case, seed: int) -> None:
    net, box, c = case
    wrong = doubtful(net, 0.1, seed)
    cell = whole(wrong, box)
    z = net.preactivations(points_of(box, 1))
    for i in range(1, net.depth + 1):
        if splits_here(cell, Split(i, 0), wrong):
            cell = halves(cell, Split(i, 0))[int(z[i - 1][0, 0] > 0)]
    problem, relaxation = on_cell(Problem.of(wrong, box, c), cell)
    Y, _ = true_points(relaxation, problem, 1000, cell, net)
    if len(Y):
        assert violations(relaxation, Y) <= 1e-9


def test_who_cannot_pay_refuses() -> None:
    wrong = doubtful(deep_net(3, 4, 4, 1), 0.1, 0)
    with pytest.raises(MethodError, match="rounded"):
        _ = wrong.affines
    for refusing in (formulate, margin):
        with pytest.raises(MethodError, match="rounded"):
            refusing(Problem.of(wrong, Box(np.zeros(3), 1.0)))


# --- proofs -----------------------------------------------------------------------------------------------------------


@settings(max_examples=13)
@given(branched_networks(max_neurons=7), st.sampled_from(("tight", "both", "backward-free")), st.sampled_from(NORMS))
@pytest.mark.usefixtures("always")
def test_nothing_proved_within_is_below_the_enumerated_constant(case: Case, name: str, norm: Norm) -> None:
    net, box, c = case
    problem = asked(net, box, norm, c)
    exact = exact_constant(net, box, problem.c, norm)
    small = collapse(problem)
    assert small is not None
    certificates = [prove_interval(small.problem), prove_product(small.problem)]
    if small.problem.network.depth:
        certificates.append(proved(small.problem, name))
    for kept in certificates:
        certificate = prove_within(problem, kept)
        assert exact <= certificate.upper * (1 + 1e-9) + 1e-12, kept.method
        assert lipcert.verify(certificate, net).proved
        low = replace(certificate, claim=certificate.upper * 0.999 - 1e-6)
        assert not lipcert.verify(low, net).proved


@pytest.mark.usefixtures("always")
def test_a_tree_within(tmp_path: Path) -> None:
    net, box = residual(3, seed=1), Box(np.zeros(3), 0.2)
    problem = Problem.of(net, box, 0)
    small = collapse(problem)
    assert small is not None
    layer = next(i for i in range(1, small.problem.network.depth + 1))
    tree = tree_of(small.problem.network, (Split(layer, 0), None, None), (BY_INTERVALS,) * 2)
    certificate = prove_within(problem, Certificate.of(small.problem, tree, tree.check(small.problem)))
    certificate.save(tmp_path / "tree.npz")
    answer = lipcert.verify(tmp_path / "tree.npz", net)
    assert answer.proved
    assert exact_constant(net, box, problem.c) * (1 - 1e-9) <= answer.upper <= prove_interval(problem).upper
    assert (
        Within(tree_of(small.problem.network, (Split(layer, 99), None, None), (BY_INTERVALS,) * 2)).check(problem)
        == np.inf
    )


def test_files_are_about_the_original(tmp_path: Path) -> None:
    net = net_of(20, 30, 30, 3)
    problem = Problem.of(net, Box(np.zeros(20), 0.02), (0, 1))
    small = collapse(problem)
    assert small is not None
    assert small is collapse(problem)
    assert small.problem.network.entries < net.entries / 2
    certificate = prove_within(problem, proved(small.problem, "tight"))
    assert isinstance(certificate.proof, Within)
    assert isinstance(certificate.proof.inner, Multipliers)
    assert certificate.network_sha256 == net.sha256
    file = tmp_path / "proof.npz"
    certificate.save(file)
    answer = lipcert.verify(file, net)
    assert answer.proved
    assert answer.upper == pytest.approx(certificate.upper, rel=1e-12)
    if find_spec("flint") is not None:
        assert check_with_balls(load_certificate(file), net) == pytest.approx(answer.upper, rel=1e-9)
    with np.load(file) as arrays:
        kept = wordless(arrays)
    for flag in (0, 2, 1.0, [1], [[1, 1]], "1"):
        np.savez(file, **(kept | {"collapsed": np.array(flag)}))
        with pytest.raises(FileFormatError):
            lipcert.verify(file, net)
    np.savez(file, **{name: array for name, array in kept.items() if name != "collapsed"})
    assert not lipcert.verify(file, net).proved  # its rows are not those of the original
    np.savez(file, **(kept | {"numbers": 0.5 * kept["numbers"]}))
    assert not lipcert.verify(file, net).proved
    np.savez(file, **(kept | {"lo": kept["lo"] - 1.0, "hi": kept["hi"] + 1.0}))
    assert lipcert.verify(file, net).upper == np.inf  # nothing is stable there


# --- where it applies -------------------------------------------------------------------------------------------------


def test_it_is_made_where_it_pays() -> None:
    net = net_of(20, 30, 30, 1)
    assert collapse(Problem.of(net, Box(np.zeros(20), 0.02))) is not None
    assert collapse(Problem.of(net, Everywhere())) is None
    assert collapse(Problem.of(net, Box(np.zeros(20), 100.0))) is None
    assert collapse(Problem.of(net_of(20, 30, 30, 1, kind="tanh"), Box(np.zeros(20), 0.02))) is None
    assert collapse(Problem.of(Network.from_weights([np.eye(2)]), Box(np.zeros(2), 1.0), 0)) is None


def test_bounds_without_work_leave_more_neurons_open() -> None:
    net = net_of(20, 30, 30, 1)
    short, full = (Problem.of(net, Box(np.zeros(20), 0.02)) for _ in range(2))
    preactivations(short, Budget.of_work(0.0))
    found, best = collapse(short), collapse(full)
    assert found is not None
    assert best is not None
    assert found.problem.network.neurons >= best.problem.network.neurons


def test_a_network_without_open_neurons_is_affine() -> None:
    net = net_of(20, 30, 30, 4)
    problem = Problem.of(net, Box(np.full(20, 0.1), 0.0), "all", "2")
    small = collapse(problem)
    assert small is not None
    assert small.problem.network.depth == 0
    J = np.concatenate([net.gradient(np.full((1, 20), 0.1), e) for e in np.eye(4)])
    certificate = prove_within(problem, prove_interval(small.problem))
    assert certificate.upper >= operator(J, problem.norm) * (1 - 1e-12)
    assert lipcert.verify(certificate, net).proved


def test_slopes_of_smooth_neurons_stay() -> None:
    blocks = [
        Block(((0, np.eye(3)),), np.array([5.0, -5.0, 0.0]), Activation("relu")),
        Block(((1, np.ones((2, 3))),), np.zeros(2), Activation("sigmoid")),
        Block(((0, np.ones((1, 3))), (2, np.ones((1, 2)))), np.zeros(1)),
    ]
    small = small_of(Problem.of(Network.from_blocks(blocks), Box(np.zeros(3), 1.0)))
    assert [(i, list(own)) for i, own in small.neurons] == [(1, [2]), (2, [0, 1])]
    tiny = small.problem.network
    assert [f.kind for f in tiny.activations] == ["relu", "sigmoid"]
    assert slope_bounds(tiny, preactivations(small.problem))[1].hi.max() <= 0.25
