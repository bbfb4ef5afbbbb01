"""Regions with half-spaces: bounds hold on them and gain by them, whatever a solver or a file says."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks._mixed_integer_program import formulate
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from lipcert import Ball, Box, Everywhere, FileFormatError, InputError, MethodError, Network, Polytope, bound, verify
from lipcert.bounds import preactivations
from lipcert.bounds.collapse import collapse
from lipcert.budget import Budget
from lipcert.cli.app import run
from lipcert.method import halfspaces
from lipcert.method.halfspaces import prepared
from lipcert.method.sharpen import sharpen
from lipcert.problem.problem import Problem
from lipcert.proof import Proof, Sharpened
from lipcert.proof.balls import check_with_balls
from lipcert.proof.balls.cells import box_is_proved
from lipcert.proof.file import load_certificate
from lipcert.proof.nogoods import Nogoods, System
from lipcert.proof.sharpened import Sharper, Within, innermost
from lipcert.proof.tree import Tree
from lipcert.relaxation.specification import build, plan_specification
from lipcert.rounding import Array
from tests.enumeration import exact_constant
from tests.forging import wordless
from tests.lift_tools import deep_net, true_points, violations
from tests.problems import net_of
from tests.strategies import small_cases

ONE = np.ones(1)
WORK = 0.1


@st.composite
def half_spaces(draw: st.DrawFn, box: Box, most: int = 4) -> tuple[Array, Array]:
    """Rows that leave a point of the box with a little room, some of them through it, some parallel to an axis."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, most))
    A = rng.normal(size=(count, box.size)) * (rng.uniform(size=(count, box.size)) < 0.8)
    inside = rng.uniform(box.lo, box.hi)
    A[:, 0] = np.where(A.any(axis=1), A[:, 0], 1.0)
    size = np.abs(A) @ box.radius
    return A, A @ inside + size * rng.uniform(0.01, 0.6, size=count)


def known() -> tuple[Network, Polytope]:
    """A network with two hidden layers on a box, cut so that its constant is smaller."""
    net = net_of(3, 6, 6, 1, seed=1)
    box = Box(np.zeros(3), 1.0)
    A = np.array([[1.0, 0.4, -0.3], [-0.2, 1.0, 0.5]])
    return net, Polytope(box, A, np.array([-0.4, -0.3]))


def points_of(region: Polytope, count: int = 4000) -> Array:
    around = region.base.box if isinstance(region.base, Ball) else region.base
    found = np.random.default_rng(1).uniform(around.lo, around.hi, (count, region.size))
    return np.array([x for x in found if region.contains(x)]).reshape(-1, region.size)


@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_every_method_holds_on_the_region_and_exact_closes(data: st.DataObject) -> None:
    net, box, c = data.draw(small_cases(max_depth=2, max_neurons=6, kinds=("relu",)))
    region = Polytope(box, *data.draw(half_spaces(box)))
    true = exact_constant(net, region, c)
    for method in ("interval", "linear", "tight", "exact"):
        found = bound(net, region, output=c, method=method, work=WORK)
        assert found.upper >= true * (1 - 1e-9)
        assert found.lower is not None
        assert found.witness is not None
        assert found.lower <= true * (1 + 1e-6) + 1e-9
        assert region.contains(found.witness)
        assert verify(found.certificate, net).proved


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_exact_is_exact(data: st.DataObject) -> None:
    net, box, c = data.draw(small_cases(max_depth=2, max_neurons=5, kinds=("relu",)))
    region = Polytope(box, *data.draw(half_spaces(box, 2)))
    true = exact_constant(net, region, c)
    found = bound(net, region, output=c, method="exact", work=2.0)
    assume(found.gap is not None and found.gap < 1e-5)  # some pieces are thinner than what a search meets
    assert found.upper == pytest.approx(true, rel=1e-4)


@pytest.mark.parametrize("method", ["interval", "linear", "slopes", "backward", "tight", "exact", "auto"])
def test_half_spaces_gain(method: str) -> None:
    net, region = known()
    cut, whole = (bound(net, r, method=method, work=0.3, lower=False) for r in (region, region.base))
    assert cut.upper < whole.upper * 0.98
    assert exact_constant(net, region, ONE) <= cut.upper * (1 + 1e-9)


@pytest.mark.parametrize("method", ["linear", "tight", "exact"])
def test_half_spaces_of_a_ball_gain(method: str) -> None:
    net, region = known()
    ball = Ball(np.zeros(3), 1.0)
    cut, whole = (bound(net, r, method=method, work=0.3) for r in (Polytope(ball, region.A, region.b), ball))
    assert cut.upper < whole.upper
    assert verify(cut.certificate, net).proved
    assert cut.lower is not None
    assert cut.lower <= cut.upper
    assert check_with_balls(cut.certificate, net) <= cut.certificate.claim


@pytest.mark.parametrize("method", ["interval", "linear", "slopes", "tight", "exact"])
def test_balls_prove_the_same(method: str) -> None:
    net, region = known()
    found = bound(net, region, method=method, work=0.5)
    assert check_with_balls(found.certificate, net) <= found.certificate.claim


def test_a_tree_of_cells_uses_the_half_spaces() -> None:
    """Cells that lie beyond a half-space are proved empty; forged multipliers of them prove nothing."""
    net, region = known()
    smooth = Network.from_weights(
        [net.blocks[0].terms[0][1], net.blocks[1].terms[0][1], net.blocks[2].terms[0][1]],
        [b.bias for b in net.blocks],
        activation="tanh",
    )
    cut, whole = (bound(smooth, r, method="exact", work=0.4) for r in (region, region.base))
    assert isinstance(innermost(cut.certificate.proof), Tree)
    assert cut.upper < whole.upper
    assert verify(cut.certificate, smooth).proved
    gradients = [smooth.gradient(x, ONE) for x in points_of(region, 500)]
    assert max(float(np.abs(g).sum()) for g in gradients) <= cut.upper


@pytest.mark.parametrize("sizes", [(3, 6, 1), (3, 5, 4, 1)])
@pytest.mark.parametrize("round_", [False, True])
def test_rows_of_the_region_hold_at_its_points(sizes: tuple[int, ...], round_: bool) -> None:
    net = deep_net(*sizes, seed=1)
    base = Ball(np.zeros(3), 1.0) if round_ else Box(np.zeros(3), 1.0)
    region = prepared(Polytope(base, known()[1].A, known()[1].b), Budget.unlimited())
    problem = Problem.of(net, region)
    relaxation = build(problem, plan_specification(problem, "tight"))
    assert {"half-space", "half-spaces"} <= {f.name for f in relaxation.families}
    Y, value = true_points(relaxation, problem, 2000)
    assert violations(relaxation, Y) <= 1e-9
    top = np.einsum("ki,ij,kj->k", Y, relaxation.problem.objective.toarray(), Y)
    assert np.all(value <= top + relaxation.offset + 1e-9)


def test_bounds_by_linear_programs_hold_at_its_points() -> None:
    net, region = deep_net(3, 8, 8, 8, 1, seed=2), prepared(known()[1], Budget.unlimited())
    problem = Problem.of(net, region)
    found = sharpen(problem, Budget.unlimited())
    assert found is not None
    x = region.project(np.random.default_rng(0).uniform(-2.0, 2.0, (5000, 3)))
    share = []
    for z, bounds, before in zip(net.preactivations(x), *map(preactivations, (found, problem)), strict=True):
        assert np.all(z >= bounds.lo - 1e-12)
        assert np.all(z <= bounds.hi + 1e-12)
        share += [np.mean((z.max(axis=0) - z.min(axis=0)) / (bounds.hi - bounds.lo)), np.mean(before.hi - before.lo)]
    assert share[0] > 0.9  # the first block is bounded almost exactly, which a shift of a half-space would show


def test_negative_multipliers_of_half_spaces_prove_nothing() -> None:
    """Of a half-space with much room a negative multiple would prove anything."""
    net = deep_net(2, 4, 4, 1, seed=0)
    problem = Problem.of(net, Polytope(Box(np.zeros(2), 1.0), [[1.0, 1.0]], [50.0]))
    system = System.of(problem)
    assert system is not None
    row, neurons = np.array([[0, 2 * net.neurons]]), net.neurons
    for number in (-1.0, -1e6):
        wrong = Nogoods(1, np.array([[0, 0, 1]]), row, np.array([number]))
        assert wrong.fits(neurons, 1)
        assert not wrong.fits(neurons)
        assert not wrong.proved(system).any()
        lie = Sharper(np.array([[2, 0, 1]]), np.array([[0, -1]]), np.array([number]))
        assert not lie.fits(net, 1)
    honest = Sharper(np.array([[2, 0, 1]]), np.array([[0, -1]]), np.array([1.0]))
    assert honest.fits(net, 1)
    assert not honest.fits(net)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_box_is_the_best_and_contains_the_region(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    box = Box(rng.normal(size=n), rng.uniform(0.01, 10.0, n))
    region = prepared(Polytope(box, *data.draw(half_spaces(box))), Budget.unlimited())
    assert region.inside is not None
    assert box_is_proved(region)
    for j in range(n):
        for sign, end in ((1.0, region.box.hi[j]), (-1.0, -region.box.lo[j])):
            best = linprog(-sign * np.eye(n)[j], region.A, region.b, bounds=list(zip(box.lo, box.hi, strict=True)))
            assert -best.fun - 1e-7 * box.radius[j] <= end <= -best.fun + 1e-6 * box.radius[j]


def test_balls_refuse_a_box_that_is_too_small() -> None:
    region = prepared(known()[1], Budget.unlimited())
    assert box_is_proved(region)
    hi = region.box.hi.copy()
    hi[0] = np.nextafter(hi[0], -1.0) - 1e-9
    object.__setattr__(region, "box", Box.from_bounds(region.box.lo, hi))
    assert not box_is_proved(region)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), ball=st.booleans())
def test_any_multipliers_give_a_box_around_the_region(data: st.DataObject, seed: int, ball: bool) -> None:
    rng = np.random.default_rng(seed)
    box = Box(rng.normal(size=3), rng.uniform(0.1, 2.0, 3))
    A, b = data.draw(half_spaces(box))
    base = Ball(box.center, float(box.radius.max())) if ball else box
    lies = rng.exponential(size=(6, len(b))) * (rng.uniform(size=(6, len(b))) < 0.7)
    region = Polytope(base, A, b, multipliers=lies)
    inside = points_of(Polytope(base, A, b), 500)
    assert np.all(inside >= region.box.lo)
    assert np.all(inside <= region.box.hi)


def test_a_solver_that_lies_loosens_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    net, region = known()
    rng, true = np.random.default_rng(0), exact_constant(net, region, ONE)
    noise = rng.exponential(size=(6, 2))
    monkeypatch.setattr(halfspaces, "_multipliers", lambda *_: noise)
    monkeypatch.setattr(halfspaces, "_inmost", lambda *_: (np.full(3, 7.0), rng.exponential(size=2)))
    for method in ("linear", "exact"):
        found = bound(net, region, method=method, work=0.5)
        assert found.upper >= true * (1 - 1e-9)
        assert found.lower is None or found.lower <= true * (1 + 1e-9)
        assert verify(found.certificate, net).proved


def test_no_point_is_proved() -> None:
    net = net_of(3, 4, 1)
    for base in (Box(np.zeros(3), 1.0), Ball(np.zeros(3), 1.0)):
        with pytest.raises(InputError, match="no point"):
            bound(net, Polytope(base, [[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0]], [-0.5, 0.4]))
        with pytest.raises(InputError, match="no point"):
            bound(net, Polytope(base, [[0.0, 0.0, 1.0]], [-1.5]))
        with pytest.raises(InputError, match="no point"):
            bound(net, Polytope(base, [[0.0, 0.0, 0.0]], [-1e-9]))
    with pytest.raises(InputError, match="no point"):
        Polytope(Box(np.zeros(1), 1.0), [[1.0], [-1.0]], [-0.1, -0.1], multipliers=np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert not Polytope(Box(np.zeros(1), 1.0), [[1.0]], [-1.0]).empty_by(np.ones(1))  # x = -1 is one


def test_a_region_without_interior_has_a_bracket_that_is_in_order() -> None:
    """x_0 + x_1 = 0.25, which floats meet: the gradients that the slopes allow there are bounded."""
    net = net_of(2, 6, 4, 1, seed=3)
    region = Polytope(Box(np.zeros(2), 1.0), [[1.0, 1.0], [-1.0, -1.0]], [0.25, -0.25])
    for method in ("linear", "exact"):
        found = bound(net, region, method=method, work=0.5)
        assert found.lower is None or found.lower <= found.upper
        assert found.witness is None or region.contains(found.witness)
        line = np.linspace(-0.75, 1.0, 200)
        steep = max(float(np.abs(net.gradient(np.array([t, 0.25 - t]), ONE)).sum()) for t in line)
        assert steep <= found.upper * (1 + 1e-9)


def test_points_are_decided_exactly() -> None:
    third = 1.0 / 3.0
    region = Polytope(Box(np.zeros(3), 1.0), [[1.0, 1.0, 1.0]], [1.0], inside=np.zeros(3))
    assert region.contains(np.array([0.5, 0.25, 0.25]))
    assert not region.contains(np.array([0.5, 0.25, np.nextafter(0.25, 1)]))
    assert region.contains(np.full(3, third)) == (third * 3 <= 1)  # in rationals: 3 fl(1/3) < 1
    assert not region.contains(np.array([1.5, -1.0, 0.0]))
    rows = np.random.default_rng(0).uniform(-2, 2, (200, 3))
    assert region.contains(region.project(rows))
    assert np.array_equal(region.project(np.full(3, 0.1)), np.full(3, 0.1))


@settings(max_examples=30, deadline=None)
@given(data=st.data(), ball=st.booleans())
def test_projected_points_are_inside(data: st.DataObject, ball: bool) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    box = Box(rng.normal(size=4) * 100, rng.uniform(1e-6, 2.0, 4))
    base = Ball(box.center, float(box.radius.max())) if ball else box
    try:
        region = prepared(Polytope(base, *data.draw(half_spaces(box))), Budget.unlimited())
    except InputError:  # the ball may miss what the box has
        return
    assume(region.inside is not None)
    assert region.contains(region.project(rng.normal(size=(50, 4)) * 200))


def test_forged_files(tmp_path: Path) -> None:
    net, region = known()
    found = bound(net, region, method="linear", work=0.3)
    found.certificate.save(tmp_path / "proof.npz")
    kept = wordless(np.load(tmp_path / "proof.npz"))

    def forged(**changes: Any) -> Path:
        arrays = {name: value for name, value in (kept | changes).items() if value is not None}
        np.savez(tmp_path / "forged.npz", **arrays)
        return tmp_path / "forged.npz"

    assert verify(forged(), net).proved
    for none in ({"side_multipliers": -kept["side_multipliers"]}, {"side_multipliers": np.ones((2, 2))}):
        with pytest.raises(FileFormatError, match="multipliers"):
            verify(forged(**none), net)
    with pytest.raises(FileFormatError, match="side_rows"):
        verify(forged(side_rows=np.ones((2, 5))), net)
    with pytest.raises(FileFormatError, match="half-spaces cut a box"):
        verify(forged(lo=None, hi=None), net)
    big = verify(forged(side_multipliers=100 * kept["side_multipliers"]), net)
    assert big.upper >= found.upper
    assert not verify(forged(side_rows=None, side_bounds=None, side_multipliers=None), net).proved  # the box alone
    weak = verify(forged(side_bounds=kept["side_bounds"] + 0.5), net)
    assert not weak.proved  # half-spaces further out are another question
    more = load_certificate(forged(side_bounds=kept["side_bounds"] - 0.2))
    assert more.region != region  # what it proves it proves of its own region, which `verify` prints
    assert more.region.to_dict() != region.to_dict()


def test_forged_refusals_of_signs_prove_nothing() -> None:
    net, region = known()
    found = bound(net, region, method="exact", work=1.0)
    proof = found.certificate.proof
    assert isinstance(proof, Sharpened)
    assert np.any(proof.sharper.rows[:, 1] < 0)  # half-spaces are used
    numbers = np.where(proof.sharper.rows[:, 1] < 0, -1.0, proof.sharper.numbers)
    sharper = replace(proof.sharper, numbers=numbers)
    assert not verify(replace(found.certificate, proof=replace(proof, sharper=sharper)), net).proved
    net, box = net_of(2, 12, 1, seed=2), Box(np.zeros(2), 1.0)
    found = bound(net, Polytope(box, [[1.0, 0.5], [-1.0, 0.5]], [0.1, 0.2]), method="exact", work=1.0)
    proof = found.certificate.proof
    inner, small = innermost(proof), collapse(Problem.of(net, found.region))
    assert isinstance(inner, Tree)
    assert inner.leaves is not None
    sides = inner.leaves.nogoods.rows[:, 1] >= 2 * (net if small is None else small.problem.network).neurons
    assert sides.any()
    for wrong in (-1.0, 0.0):
        nogoods = replace(inner.leaves.nogoods, numbers=np.where(sides, wrong, inner.leaves.nogoods.numbers))
        forged = _with_innermost(proof, replace(inner, leaves=replace(inner.leaves, nogoods=nogoods)))
        assert not verify(replace(found.certificate, proof=forged), net).proved


def _with_innermost(proof: Proof, inner: Proof) -> Proof:
    if isinstance(proof, Sharpened | Within):
        return replace(proof, inner=_with_innermost(proof.inner, inner))
    return inner


def test_what_is_no_half_space_is_refused() -> None:
    box = Box(np.zeros(2), 1.0)
    for A, b, words in (
        ([[1.0, 2.0, 3.0]], [1.0], "2 inputs"),
        ([[1.0, 2.0]], [1.0, 2.0], "a row for each"),
        ([[1.0, np.nan]], [1.0], "finite"),
        ([["x", "y"]], [1.0], "numbers"),
        (np.zeros((0, 2)), np.zeros(0), "a row for each"),
    ):
        with pytest.raises(InputError, match=words):
            Polytope(box, A, b)
    with pytest.raises(InputError, match="cut a Box"):
        Polytope(Everywhere(), [[1.0, 1.0]], [1.0])  # type: ignore[arg-type]
    net, region = net_of(2, 3, 1), Polytope(box, [[1.0, 1.0]], [1.0])
    with pytest.raises(MethodError):
        bound(net, region, method="lipopt3")
    with pytest.raises(MethodError, match="needs a box"):
        formulate(Problem.of(net, region))


def test_it_is_a_value() -> None:
    region = prepared(known()[1], Budget.unlimited())
    again = pickle.loads(pickle.dumps(region))
    assert again == region
    assert hash(again) == hash(region)
    assert again.box == region.box
    assert again.inside is not None
    assert region.inside is not None
    assert np.array_equal(again.inside, region.inside)
    assert region != region.base
    assert "2 half-spaces" in region.words
    assert region.to_dict()["halfspaces"]["b"] == [-0.4, -0.3]
    with pytest.raises(AttributeError):
        region.A = np.zeros(2)


@pytest.mark.parametrize("weights", [[1.0, 2.0, 4.0], [3.0, 0.7, 1.1]])
def test_weights_of_inputs_keep_the_half_spaces(weights: list[float]) -> None:
    net, region = known()
    found = bound(net, region, method="exact", work=1.0, input_weights=weights)
    w = np.array(weights)
    first, *others = net.blocks
    scaled = Network.from_weights(
        [first.terms[0][1] / w, *(b.terms[0][1] for b in others)], [b.bias for b in net.blocks]
    )
    moved = Polytope(Box.from_bounds(-w, w), region.A / w, region.b)
    assert found.upper == pytest.approx(exact_constant(scaled, moved, ONE), rel=1e-6)
    assert not any("box around" in note for note in found.notes)
    assert verify(found.certificate, net).proved
    assert check_with_balls(found.certificate, net) <= found.certificate.claim
    assert found.witness is not None
    assert region.contains(found.witness)


def test_a_matrix_of_weights_uses_the_box_around_the_region() -> None:
    net = known()[0]
    region = Polytope(Box(np.zeros(3), 1.0), [[1.0, 0.1, 0.0], [0.0, 0.1, 1.0]], [-0.7, -0.7])
    P = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    cut, whole = (bound(net, r, method="linear", work=0.5, norm="2", input_weights=P) for r in (region, region.base))
    assert cut.upper < whole.upper
    assert any("box around the region" in note for note in cut.notes)
    assert verify(cut.certificate, net).proved
    assert cut.witness is not None
    assert region.contains(cut.witness)


BAD_NUMBERS = {
    "negative.csv": "1,-1,2",
    "indefinite.csv": "1,2,0\n2,1,0\n0,0,1",
    "none.csv": "1,0,0,-9",
    "short.csv": "1,0",
}
BAD_INPUT = {
    "cells --radius 0 --cells 4": "no width",
    "cells --center 1 --radius 1e-16 --cells 40": "have no width",
    "bound --radius 1 --input-weights negative.csv": "weights must be > 0",
    "bound --radius 1 --norm 2 --input-weights indefinite.csv": "not positive definite",
    "bound --radius 1 --output all --norm 2 --output-weights indefinite.csv": "not positive definite",
    "bound --radius 1 --inputs 0:2,7": "input 7 is out of range",
    "bound --radius 1 --halfspaces none.csv": "no point",
    "bound --radius 1 --ball --halfspaces none.csv": "no point",
    "bound --radius 1 --halfspaces short.csv": "rows of 2 numbers, but 3 inputs need 4",
    "bound --radius 1 --halfspaces nowhere.csv": "no such file",
    "bound --radius 1 --halfspaces only_a.npz": "two arrays of numbers, A and b",
    "bound --radius 1 --halfspaces shapes.npz": "a row of A for each b",
    "bound --radius 1 --halfspaces other.npz": "unexpected array",
    "bound --global --halfspaces none.csv": "exclude each other",
    "cells --radius 1 --cells 2 --halfspaces none.csv": "No such option",
    "certify x.npy --radius 1 --halfspaces none.csv": "No such option",
}


@pytest.mark.parametrize(("line", "message"), BAD_INPUT.items())
def test_bad_input_is_one_line_and_nothing_is_written(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    deep_net(3, 4, 3, seed=0).save("net.npz")
    for name, text in BAD_NUMBERS.items():
        Path(name).write_text(text)
    np.savez("only_a.npz", A=np.ones((1, 3)))
    np.savez("shapes.npz", A=np.ones((2, 3)), b=np.ones(3))
    np.savez("other.npz", A=np.ones((2, 3)), b=np.ones(2), c=np.ones(2))
    before = sorted(p.name for p in tmp_path.iterdir())
    command, *options = line.split()
    if "all" not in options and command != "certify":
        options += ["--output", "0"]
    kept = [] if command == "certify" else ["--certificate", "proof.npz"]
    assert run([command, "net.npz", *options, *kept]) == 2
    caught = capsys.readouterr()
    assert message in caught.err
    assert caught.err.count("\n") == 1
    assert caught.out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    net, region = known()
    net.save("net.npz")
    table = np.column_stack([region.A, region.b])
    np.savetxt("rows.csv", table, delimiter=",", fmt="%.17g")
    np.save("rows.npy", table)
    np.savez("rows.npz", A=region.A, b=region.b)
    uppers = []
    for ending in ("csv", "npy", "npz"):
        options = ["--radius", "1", "--halfspaces", f"rows.{ending}", "--method", "linear", "--work", "0.2", "--json"]
        assert run(["bound", "net.npz", *options, "--certificate", "proof.npz"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["region"]["halfspaces"] == {"A": region.A.tolist(), "b": region.b.tolist()}
        uppers.append(answer["upper"])
    assert uppers == [uppers[0]] * 3
    assert run(["verify", "proof.npz", "--network", "net.npz", "--exact"]) == 0
    assert "cut by 2 half-spaces" in capsys.readouterr().out
    (tmp_path / "one.txt").write_text("1\n0\n0\n-0.5\n")  # a half-space over several lines
    assert run(["bound", "net.npz", "--radius", "1", "--halfspaces", "one.txt", "--method", "linear"]) == 0
    assert "cut by 1 half-space" in capsys.readouterr().out
