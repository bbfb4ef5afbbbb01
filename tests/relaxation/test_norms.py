"""The norms 2 and 1, balls, and whole maps: rows, bounds against enumeration, certificates, forgeries, LipSDP."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import lipcert
from lipcert import Ball, Box, Everywhere, InputError, MethodError, Network
from lipcert.bounds.operator_norms import operator_norm, spectral_norm
from lipcert.bounds.propagation import preactivation_bounds
from lipcert.cli.app import run
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof import Cases
from lipcert.proof.balls import check_with_balls
from lipcert.proof.cases import case_of, case_table
from lipcert.proof.multipliers import prove
from lipcert.relaxation.cuts import Cuts, Pairs, cross_rows, most_violated_crosses, valid_table, with_cuts
from lipcert.relaxation.rank_two import RankTwoProblem
from lipcert.relaxation.specification import LIFTS
from lipcert.robustness.attack import Perturbation, _Search
from lipcert.rounding import Array
from lipcert.solver.rank_two import solve_rank_two
from lipcert.witness import evaluate
from tests.enumeration import exact_constant, operator
from tests.forging import wordless
from tests.lift_tools import built, deep_net, objective, sampled, true_points, violations
from tests.one_layer_tools import changed, proof_of
from tests.strategies import small_cases

Case = tuple[Network, Box, Array]
NORMS = [Norm(p, q) for p in ("inf", "2", "1") for q in (None, "1", "2", "inf")]
SOLVED = ("backward", "forward", "both", "tight")
ONE_PROBLEM = [norm for norm in NORMS if norm.out != "inf"]


def asked(net: Network, region: Region, norm: Norm, c: Array, row: int = 0) -> Problem:
    """The problem, of several cases that of an output and of the first input."""
    problem = Problem.of(net, region, "all" if norm.out is not None else c, norm)
    return case_of(problem, row, 0) if problem.has_cases else problem


def weights_of(net: Network, norm: Norm, c: Array) -> Array:
    return c if norm.out is None else np.eye(net.outputs)


def bound(net: Network, region: Region, norm: Norm, c: Array, **options: object) -> lipcert.Result:
    output = "all" if norm.out is not None else c
    options.setdefault("work", 5.0)
    return lipcert.bound(net, region, output=output, norm=norm.p, output_norm=norm.out, **options)  # type: ignore[arg-type]


@settings(max_examples=8)
@given(small_cases(kinds=("relu", "leaky_relu", "tanh")), st.sampled_from(LIFTS), st.sampled_from(ONE_PROBLEM))
def test_rows_hold_at_true_points(case: Case, name: str, norm: Norm) -> None:
    """All rows of a lift with every pair of ends, on boxes and balls, at 1,000 points."""
    net, box, c = case
    ball = Ball(box.center, float(box.radius.max()), (-1e3, 1e3))
    for region in (box, ball):
        problem = asked(net, region, norm, c)
        relaxation = built(problem, name, wide=True, exclusions=True)
        Y, value = true_points(relaxation, problem, 1000)
        assert violations(relaxation, Y) <= 1e-9
        reached = objective(relaxation, Y) + relaxation.offset
        proved = np.array([relaxation.finish(max(v, 0.0)) for v in reached]) if relaxation.finish.scale else reached
        assert np.all(proved >= value - 1e-8 * (1 + np.abs(value)))


@settings(max_examples=12)
@given(
    small_cases(max_depth=3, max_neurons=6),
    st.sampled_from(NORMS),
    st.sampled_from(SOLVED),
)
def test_between_enumeration_and_every_method(case: Case, norm: Norm, name: str) -> None:
    """lower <= exact <= upper for all norms; products and intervals are above the exact constant too."""
    net, box, c = case
    exact = exact_constant(net, box, weights_of(net, norm, c), norm)
    for method in ("product", "interval", name):
        result = bound(net, box, norm, c, method=method, work=0.4, lower=method == name)
        assert exact <= result.upper * (1 + 1e-9) + 1e-12, method
    assert result.lower is not None
    assert result.lower <= exact * (1 + 1e-9) + 1e-12


@settings(max_examples=6)
@given(small_cases(max_depth=3, max_neurons=6), st.sampled_from(NORMS), st.integers(0, 2**32 - 1))
def test_any_multipliers_prove_something_true(case: Case, norm: Norm, seed: int) -> None:
    """A solver that lies: random multipliers, also on the rows that share one, never prove less than the truth."""
    net, box, c = case
    rng = np.random.default_rng(seed)
    row = int(rng.integers(net.outputs)) if norm.out == "inf" else 0
    problem = asked(net, box, norm, c, row)
    relaxation = built(problem, "tight")
    exact = exact_constant(net, box, problem.c, problem.norm)
    if norm.p == "1":  # of all coordinates the first alone
        points = sampled(box, 100)[0]
        exact = max(float(operator_column(net, x, problem.c, norm)) for x in points)
    for scale in (1e-3, 1.0, 1e3):
        upper = prove(relaxation, scale * rng.normal(size=relaxation.problem.rows)).upper
        assert upper >= exact * (1 - 1e-9)


def jacobian(net: Network, x: Array) -> Array:
    return np.concatenate([net.gradient(x, e) for e in np.eye(net.outputs)])


def operator_column(net: Network, x: Array, weights: Array, norm: Norm) -> float:
    """The norm of the derivative with respect to the first input."""
    J = weights @ jacobian(net, x)
    return abs(float(J[0])) if J.ndim == 1 else float(norm.outputs.of(J[:, :1].T)[0])


@settings(max_examples=6)
@given(small_cases(max_neurons=6), st.sampled_from(NORMS), st.booleans())
def test_balls_against_samples(case: Case, norm: Norm, clipped: bool) -> None:
    """Sampled operator norms in the ball are below the bound, the witness is in the ball, the proof is verified."""
    net, box, c = case
    ball = Ball(box.center, float(box.radius.max()), (float(box.center.min()), 1e3) if clipped else None)
    result = bound(net, ball, norm, c, work=0.4)
    points = ball.project(sampled(ball.box, 100)[0])
    weights = weights_of(net, norm, c)
    assert max(operator(weights @ jacobian(net, x), norm) for x in points) <= result.upper * (1 + 1e-9) + 1e-12
    assert result.witness is not None
    assert ball.contains(result.witness)
    assert np.sum((result.witness - ball.center) ** 2) <= ball.radius**2 * (1 + 1e-12)
    assert lipcert.verify(result.certificate, net).proved


def test_a_ball_is_tighter_than_its_box() -> None:
    net, c = deep_net(6, 10, 8, 1, seed=3), np.ones(1)
    ball = Ball(np.zeros(6), 0.3)
    uppers = [bound(net, r, Norm("2"), c, method="backward", lower=False).upper for r in (ball, ball.box, Everywhere())]
    assert uppers[0] < 0.99 * uppers[1] < 0.99 * uppers[2]


def test_preactivations_on_a_ball() -> None:
    net = deep_net(5, 7, 6, 2, seed=1)
    ball = Ball(np.linspace(-1, 1, 5), 0.4)
    points = ball.project(ball.center + np.random.default_rng(0).normal(size=(4000, 5)))
    wider = preactivation_bounds(net, ball.box)
    for z, own, other in zip(net.preactivations(points), preactivation_bounds(net, ball), wider, strict=True):
        assert np.all(own.lo <= z.min(axis=0))
        assert np.all(z.max(axis=0) <= own.hi)
        assert np.all(own.hi - own.lo < 0.9 * (other.hi - other.lo))
    first = preactivation_bounds(net, ball)[0]
    far = net.affines[0](ball.center[None, :])[0] + 0.4 * np.linalg.norm(net.affines[0].weight, axis=1)
    assert first.hi == pytest.approx(far, rel=1e-12)


def test_ball_is_a_region() -> None:
    ball = Ball([0.2, 0.4], 0.3, (0.0, 0.5))
    assert ball == pickle.loads(pickle.dumps(ball))
    assert hash(ball) == hash(Ball([0.2, 0.4], 0.3, (0.0, 0.5)))
    assert ball != Ball([0.2, 0.4], 0.3)
    assert ball.to_dict()["type"] == "ball"
    assert np.all(ball.box.lo == 0.0 + np.array([0.0, 0.4 - 0.3]).clip(0))
    assert np.all(ball.box.hi == 0.5)
    points = np.random.default_rng(0).normal(size=(500, 2))
    assert all(ball.contains(p) for p in ball.project(points))
    assert not ball.contains(np.array([0.2, 0.701]))
    outside = np.nextafter(0.2 + 0.3, 1.0)
    assert not Ball([0.2, 0.4], 0.3).contains(np.array([outside, 0.4]))
    far = Ball(np.full(3, 1e8), 1e-9)  # adding the center rounds away more than the radius
    assert far.contains(far.project(np.full(3, 2e8)))
    with pytest.raises(AttributeError):
        ball.radius = 1.0
    for bad in (-1.0, np.inf, np.array([1.0, 2.0])):
        with pytest.raises(InputError):
            Ball([0.0, 0.0], bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="clip"):
        Ball([2.0, 0.0], 1.5, (0.0, 1.0))


@pytest.mark.parametrize(("p", "q"), list(itertools.product(("inf", "2", "1"), repeat=2)))
def test_operator_norms(p: str, q: str) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 5), (6, 2), (1, 4)):
        A = rng.normal(size=shape)
        exact, above = operator(A, Norm(p, q)), operator_norm(A, p, q)
        assert exact <= above * (1 + 1e-12)
        assert operator_norm(sparse.csr_array(A), p, q) == pytest.approx(above, rel=1e-9)
        if p == q or p == "1" or q == "inf":
            assert above <= exact * (1 + 1e-5)
        net = Network.from_weights([A])
        assert evaluate(Problem.of(net, Everywhere(), "all", Norm(p, q)), np.zeros(shape[1])) <= exact * (1 + 1e-12)
        if q != "1" or p == "1":
            assert evaluate(Problem.of(net, Everywhere(), "all", Norm(p, q)), np.zeros(shape[1])) >= exact * (1 - 1e-6)


def test_a_row_of_several_terms() -> None:
    """max <C, X> with trace X <= 1 is the largest eigenvalue, also beside rows for every X_ii."""
    rng = np.random.default_rng(2)
    C = rng.normal(size=(8, 8))
    C = C @ C.T
    at = np.r_[np.arange(8), np.arange(8)]
    owner = np.r_[np.zeros(8, int), 1 + np.arange(8)]
    problem = RankTwoProblem(C, sparse.identity(8), at, at, np.ones(9), np.zeros(9, bool), np.ones(8), owner)
    result = solve_rank_two(problem)
    assert result.dual == pytest.approx(np.linalg.eigvalsh(C)[-1], rel=1e-6)
    X = rng.normal(size=(8, 8))
    assert problem.apply(X + X.T)[0] == pytest.approx(2 * np.trace(X))
    y = rng.normal(size=9)
    assert np.vdot(problem.adjoint(y), X + X.T) == pytest.approx(y @ problem.apply(X + X.T))
    with pytest.raises(InputError, match="owner"):
        RankTwoProblem(C, sparse.identity(8), at, at, np.ones(9), np.zeros(9, bool), np.ones(8), owner + 1)


@settings(max_examples=6)
@given(small_cases(max_depth=3), st.sampled_from([Norm("2", "2"), Norm("inf", "1"), Norm("inf", "2")]), st.booleans())
def test_crosses_hold_at_true_points(case: Case, norm: Norm, up: bool) -> None:
    """All eight kinds, any pair, any t; and the search finds those that a matrix of vectors violates."""
    net, box, c = case
    problem = asked(net, box, norm, c)
    relaxation = built(problem, "forward" if up else "backward")
    pairs = Pairs.of(relaxation)
    names = {name: k for k, name in enumerate(relaxation.space.slices)}
    blocks = [name for name in relaxation.factors if len(relaxation.space[name])]
    rng = np.random.default_rng(0)
    table = np.zeros((200, 9), dtype=np.int64)
    for row in table:
        for k in (0, 3):
            name = blocks[rng.integers(len(blocks))] if blocks else "one"
            row[k], row[k + 1] = names[name], rng.choice(relaxation.blocks.get(name, (np.zeros(1, int), 0))[0])
        row[2], row[5], row[6] = rng.integers(1, 9), rng.integers(-80, 80), -3
    assert valid_table(table)
    with_them = with_cuts(relaxation, Cuts(table))
    Y, _ = true_points(relaxation, problem, 500)
    assert violations(with_them, Y) <= 1e-9 * (1 + float(np.exp2(5.0)))
    assert with_them.problem.terms >= with_them.problem.rows
    table[0, 2] = 9
    assert not valid_table(table)
    if len(pairs.own) > 1:
        X = np.eye(relaxation.space.size)
        i, j, code, step = most_violated_crosses(pairs, X, 50, 1e-3)
        left, right, rhs = cross_rows(pairs, i, j, code, step)
        value = np.asarray(((left @ X) * right.toarray()).sum(axis=1)).reshape(-1, 4).sum(axis=1)
        assert np.all(value > rhs)


def lipsdp_neuron(net: Network) -> float:
    """LipSDP-Neuron [LipSDP19] with one hidden layer, by Clarabel: min sqrt(rho), [rho I, -A'T; -TA, 2T - B'B] >= 0."""
    clarabel = pytest.importorskip("clarabel")
    A, B = np.asarray(net.affines[0].weight), np.asarray(net.affines[1].weight)
    p1, p0 = A.shape
    n = p0 + p1
    low, high = np.triu_indices(n)[1], np.triu_indices(n)[0]
    order = np.lexsort((high, low))  # columns of the upper triangle, as the cone wants them
    rows, columns = high[order], low[order]
    weight = np.where(rows == columns, 1.0, np.sqrt(2.0))

    def packed(M: Array) -> Array:
        return np.asarray(weight * M[rows, columns])

    parts = [packed(np.diag(np.r_[np.ones(p0), np.zeros(p1)]))]
    for j in range(p1):
        M = np.zeros((n, n))
        M[:p0, p0 + j] = M[p0 + j, :p0] = -A[j]
        M[p0 + j, p0 + j] = 2.0
        parts.append(packed(M))
    fixed = np.zeros((n, n))
    fixed[p0:, p0:] = -B.T @ B
    G = sparse.csc_matrix(np.vstack([-np.stack(parts, axis=1), -np.eye(1 + p1)]))
    h = np.r_[packed(fixed), np.zeros(1 + p1)]
    cones = [clarabel.PSDTriangleConeT(n), clarabel.NonnegativeConeT(1 + p1)]
    options = clarabel.DefaultSettings()
    options.verbose = False
    q = np.r_[1.0, np.zeros(p1)]
    answer = clarabel.DefaultSolver(sparse.csc_matrix((1 + p1, 1 + p1)), q, G, h, cones, options).solve()
    return float(np.sqrt(answer.obj_val))


@pytest.mark.parametrize("seed", range(2))
def test_two_to_two_contains_lipsdp(seed: int) -> None:
    """Never above LipSDP-Neuron; equal to it when nothing but slopes and the ball of outputs is kept."""
    rng = np.random.default_rng(seed)
    shapes = [(5, 4), (3, 5)] if seed % 2 else [(6, 3), (2, 6)]
    net = Network.from_weights([rng.normal(size=shape) for shape in shapes])
    known = lipsdp_neuron(net)
    whole = Norm("2", "2")
    for name in ("backward", "forward", "both"):
        relaxation = built(Problem.of(net, Everywhere(), "all", whole), name)
        assert prove(relaxation, solve_rank_two(relaxation.problem).y).upper <= known * (1 + 1e-5)
    relaxation = built(Problem.of(net, Everywhere(), "all", whole), "backward")
    slopes = [f for f in relaxation.families if f.name in ("1: s (s - g) = 0", "|ob|^2 <= 1")]
    assert len(slopes) == 2
    y = solve_rank_two(relaxation.problem).y
    packed = relaxation.pack(y)
    only = relaxation.unpack({f.name: packed[f.name] for f in slopes})
    # The multipliers of a slope-only relaxation are those of LipSDP: T = lambda, rho = that of the ball.
    assert prove(relaxation, only).upper == pytest.approx(known, rel=1e-4)


@pytest.mark.parametrize("norm", [Norm("2"), Norm("1"), Norm("2", "2"), Norm("1", "inf")])
def test_certificates_are_checked(norm: Norm, tmp_path: Path) -> None:
    """The file proves its claim; with another norm, a larger ball, other numbers or a part less it proves less."""
    net = deep_net(3, 6, 5, 2, seed=4)
    ball = Ball(np.full(3, 0.1), 0.4)
    result = bound(net, ball, norm, np.array([1.0, -1.0]), method="backward", lower=False)
    assert result.method == "backward"
    file = tmp_path / "proof.npz"
    result.certificate.save(file)
    answer = lipcert.verify(file, net)
    assert answer.proved
    assert answer.upper == pytest.approx(result.upper, rel=1e-8)
    with np.load(file) as arrays:
        kept = wordless(arrays)
    for change in _forgeries(kept, norm):
        np.savez(file, **(kept | change))
        forged = lipcert.verify(file, net)
        about = kept | change
        points = _region(about).project(np.random.default_rng(0).normal(size=(50, 3)))
        seen = max(operator(about["c"] @ jacobian(net, x), _norm(about)) for x in points)
        assert not forged.proved or forged.upper >= seen, list(change)
    if isinstance(result.certificate.proof, Cases):
        dataclasses.replace(result.certificate, proof=Cases("backward", ())).save(file)
        assert not lipcert.verify(file, net).proved


def _forgeries(kept: dict[str, Array], norm: Norm) -> list[dict[str, Array]]:
    changes: list[dict[str, Array]] = [{"radius": np.array(4.0)}, {"center": kept["center"] + 1.0}]
    changes += [{"norm": np.array(p, dtype="U8")} for p in ("inf", "2", "1") if p != norm.p]
    if norm.out is not None:
        changes += [{"output_norm": np.array(q, dtype="U8")} for q in ("inf", "2", "1") if q != norm.out]
    ends = np.cumsum(kept["segments"][:, 4])
    for start, end in itertools.pairwise([0, *ends[:3]]):
        part = (np.arange(ends[-1]) >= start) & (np.arange(ends[-1]) < end)
        changes.append({"numbers": np.where(part, 0.9, 1.0) * kept["numbers"]})
    changes.append({"numbers": 0 * kept["numbers"]})
    changes.append({"upper": 0.9 * kept["upper"]})
    return changes


def _region(kept: dict[str, Array]) -> Ball:
    return Ball(kept["center"], float(kept["radius"]))


def _norm(kept: dict[str, Array]) -> Norm:
    return Norm(str(kept["norm"]), str(kept["output_norm"]) if "output_norm" in kept else None)


@pytest.mark.parametrize("norm", [Norm("2"), Norm("inf", "2"), Norm("2", "2")])
def test_balls_agree_on_rows_of_several_terms(norm: Norm) -> None:
    """The second checker, in ball arithmetic: the same bound, and none from a forged file."""
    pytest.importorskip("flint")
    net, ball = deep_net(3, 4, 2, seed=2), Ball(np.full(3, 0.1), 0.6)
    for name in ("backward", "forward"):
        honest = bound(net, ball, norm, np.array([1.0, 2.0]), method=name, lower=False).certificate
        assert honest.method == name
        assert check_with_balls(honest, net) == pytest.approx(honest.upper, rel=1e-6)
        multipliers = proof_of(honest).multipliers
        group = next(family for family in multipliers if family.startswith("|"))
        for change in (0.5 * multipliers[group], -multipliers[group]):
            forged = changed(honest, multipliers={**multipliers, group: change})
            upper = lipcert.verify(forged, net).upper
            balls = check_with_balls(forged, net)
            assert np.isinf(balls) == np.isinf(upper)
            assert np.isinf(balls) or balls == pytest.approx(upper, rel=1e-6)


def test_norm_1_solves_what_can_win_alone() -> None:
    """One column is far larger than the others: theirs stay with their intervals."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 6))
    A[:, 3] *= 6
    net = Network.from_weights([A, rng.normal(size=(1, 5))])
    result = lipcert.bound(net, Everywhere(), norm="1", work=5.0)
    proof = result.certificate.proof
    assert [case.column for case in proof.cases] == [3] if isinstance(proof, Cases) else proof.method == "interval"
    assert result.upper == pytest.approx(exact_constant(net, Box(np.zeros(6), 1e4), np.ones(1), Norm("1")), rel=1e-4)
    table = case_table(Problem.of(net, Everywhere(), norm="1"))
    assert table.shape == (1, 6)
    assert table[0, 3] == table.max()


def test_products_use_the_spectral_norm() -> None:
    net = deep_net(30, 20, 10, seed=5)
    exact = np.prod([np.linalg.norm(a.weight, 2) for a in net.affines])
    upper = lipcert.bound(net, Everywhere(), output="all", norm="2", method="product", work=1.0, lower=False).upper
    assert exact <= upper <= exact * (1 + 1e-5)


def test_refusals() -> None:
    net, box = deep_net(3, 4, 2), Box(np.zeros(3), 0.1)
    for method in ("shor", "hr2", "lipopt3"):
        with pytest.raises(MethodError, match="infinity norm only"):
            lipcert.bound(net, box, output=0, norm="2", method=method)
        with pytest.raises(MethodError, match="balls"):
            lipcert.bound(net, Ball(np.zeros(3), 0.1), output=0, method=method)
    with pytest.raises(MethodError, match="norm 3"):
        lipcert.bound(net, box, output=0, norm="3")
    with pytest.raises(InputError, match="whole map"):
        lipcert.bound(net, box, output=0, norm="2", output_norm="2")
    with pytest.raises(InputError, match="2 coordinates"):
        lipcert.bound(net, Ball(np.zeros(2), 0.1), output=0)


@pytest.mark.parametrize("norm", ["2", "1"])
def test_certify_in_the_norm_of_its_radius(norm: str, tmp_path: Path) -> None:
    """Certified radii against the exact distance to the decision line of a linear classifier, and against attacks."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(3, 4))
    inputs = rng.normal(size=(30, 4))
    result = lipcert.certify(Network.from_weights([A]), inputs, radius=[0.1, 0.5], norm=norm, method="product")
    scores = inputs @ A.T
    label = scores.argmax(axis=1)
    for k, radius in enumerate(result.certified_radius):
        rivals = [i for i in range(3) if i != label[k]]
        dual = Norm(norm).dual
        exact = min((scores[k, label[k]] - scores[k, i]) / dual.of(A[label[k]] - A[i]) for i in rivals)
        assert radius <= exact * (1 + 1e-12)
        assert radius >= 0.999 * min(exact, 0.5)
        if np.isfinite(result.attack_radius[k]):
            assert exact <= result.attack_radius[k] <= 0.5
            point = result.counterexamples.points[list(result.counterexamples.places).index(k)]
            assert Norm(norm).of(point - inputs[k]) <= 0.5
    assert np.isfinite(result.attack_radius).sum() >= 0.8 * (result.certified_radius < 0.45).sum() > 0
    assert result.to_dict()["norm"] == norm
    about: dict[str, Any] = {"radius": 0.2, "norm": norm, "time_limit": 1, "out": tmp_path / "job"}
    deep = lipcert.certify(deep_net(3, 5, 4, 2), inputs[:4, :3], **about)
    again = lipcert.certify(deep_net(3, 5, 4, 2), inputs[:4, :3], **about, resume=True, recheck=True)
    assert again.pairs[0].upper == pytest.approx(deep.pairs[0].upper, rel=1e-9)
    assert all(pair.upper is not None for pair in deep.pairs)
    finer = lipcert.certify(deep_net(3, 5, 4, 2), inputs[:4, :3], radius=0.2, norm=norm, time_limit=1, refine=9.0)
    assert np.all(finer.certified_radius >= 0.999 * deep.certified_radius)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, file, proof = deep_net(3, 5, 2), str(tmp_path / "net.npz"), str(tmp_path / "proof.npz")
    net.save(file)
    whole = ["bound", file, "--radius", "0.3", "--ball", "--clip", "-1", "1", "--output", "all", "--norm", "2"]
    assert run([*whole, "--output-norm", "1", "--certificate", proof]) == 0
    out = capsys.readouterr().out
    assert "all scores from the 2-norm to the 1-norm" in out
    assert "a Euclidean ball of radius 0.3, values in [-1, 1]" in out
    assert run(["verify", proof, "--network", file, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["proved"]
    assert (told["norm"], told["output_norm"], told["output"]) == ("2", "1", {"all": 2})
    assert told["region"]["type"] == "ball"
    for wrong, message in (
        (["--global", "--output", "0", "--norm", "2", "--method", "hr2"], "infinity norm only"),
        (["--global", "--ball", "--output", "0"], "--ball"),
        (["--global", "--output", "0", "--output-norm", "2"], "--output all"),
        (["--global", "--output", "some"], "--output some"),
        (["--global", "--output", "0", "--norm", "5"], "norm 5"),
    ):
        assert run(["bound", file, *wrong]) == 2
        assert message in capsys.readouterr().err


def test_attacks_in_other_norms_stay_in_the_domain() -> None:
    """x + (point - x) is past a point on the domain's edge for some x, by rounding."""
    edge = 0.3
    x = np.random.default_rng(0).uniform(-3.0, edge, size=(2000, 1))
    point = np.full_like(x, edge)
    assert np.any(x + (point - x) > edge)
    net = Network.from_weights([np.ones((1, 1)), np.ones((2, 1))], [np.zeros(1), np.zeros(2)])
    labels = np.zeros(len(x), dtype=np.int64)
    for name in ("2", "1"):
        search = _Search(net, x, labels, Perturbation(10.0, (-3.0, edge), Norm(name)), np.random.default_rng(0))
        assert np.all(search._inside(point, np.arange(len(x))) <= edge)


def test_a_matrix_on_which_lapack_gives_up() -> None:
    """Found by random networks: the search for the largest eigenvalue alone ends with an internal error there."""
    weight = np.array([[-1.0, 1.0, -0.0], [-0.0, -0.0, -2.0], [-1.0, -0.0, 0.0]])
    assert spectral_norm(weight) == pytest.approx(np.linalg.norm(weight, 2), rel=1e-5)
    assert spectral_norm(weight) >= 2.0
