"""Branch and bound: cells are bounded soundly and cover the region, answers are exact, trees cannot be forged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipcert
from lipcert import Box, Certificate, Everywhere, InputError, MethodError, Network, Status
from lipcert.bounds import Cell, Split, bounds_of, halves, interval_uppers, splits_here, whole
from lipcert.bounds.gradients import gradient_bounds, gradient_magnitudes
from lipcert.budget import Budget
from lipcert.cli.app import run
from lipcert.jobs import local, processes
from lipcert.method.bracket import Bracket
from lipcert.method.branching import branch
from lipcert.method.branching.relax import RelaxationTask, relax
from lipcert.problem.norms import INF, Norm
from lipcert.problem.problem import Problem
from lipcert.proof import Multipliers
from lipcert.proof.file import load_certificate
from lipcert.proof.leaves import BY_INTERVALS, SIDES, Empty, check_relaxed, prove_empty
from lipcert.proof.tree import NO_TREE, Tree
from lipcert.proof.verify import verify
from lipcert.relaxation.cuts import NO_CUTS
from lipcert.relaxation.passes import inputs_of
from lipcert.relaxation.specification import Specification
from lipcert.rounding import Array
from lipcert.search.loop import SearchOutcome, SearchState
from lipcert.search.progress import CLOSED
from lipcert.search.settings import Settings
from lipcert.witness import Witness, search
from tests.constants import set_constant
from tests.enumeration import exact_constant
from tests.lift_tools import built, deep_net, objective, on_cell, true_points, violations
from tests.problems import LEAKY
from tests.trees import leaves_of, tree_of

CASES = [  # sizes, radius of the box
    ((3, 6, 1), 0.4),
    ((4, 7, 1), 5.0),
    ((3, 5, 4, 1), 0.3),
    ((3, 4, 4, 1), 2.0),
    ((2, 4, 3, 3, 1), 0.5),
    ((12, 4, 2, 1), 0.5),
]


def solved(
    net: Network, region: Box | Everywhere, *, gap: float = 0.0, work: float = 120.0, **more: Any
) -> SearchOutcome:
    problem, bracket = Problem.of(net, region), Bracket(Settings(gap=max(gap, CLOSED)))
    bracket.improve(search(problem, Budget.of_work(0.2), samples=500))
    executor = more.pop("executor", None) or local()
    return branch(problem, bracket, Budget.of_work(work), executor, **more)


def relax_early(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Cells with more open signs than a few are relaxed before they are split."""
    set_constant(monkeypatch, "RELAX_OPEN", few)
    set_constant(monkeypatch, "CELLS_GROWTH", 60.0)
    for name in ("RELAX_SHARE", "RELAX_SHARE_OF_BOXES"):
        set_constant(monkeypatch, name, np.inf)


def random_cell(net: Network, box: Box, seed: int, depth: int = 4) -> Cell:
    """Some half of a half of a half, of the kind that has points."""
    rng = np.random.default_rng(seed)
    cell = whole(net, box)
    x = rng.uniform(box.lo, box.hi)
    z = net.preactivations(x[None, :])
    for _ in range(depth):
        layer = int(rng.integers(net.depth + 1))
        if layer == 0:
            assert isinstance(cell.region, Box)
            i = int(rng.integers(net.inputs))
            split = Split(0, i, float(rng.uniform(cell.region.lo[i], cell.region.hi[i])))
            cell = halves(cell, split)[int(x[i] > split.value)]
        else:
            split = Split(layer, int(rng.integers(net.shape[layer])))
            if splits_here(cell, split, net):
                cell = halves(cell, split)[int(z[layer - 1][0, split.index] > 0)]
    return cell


def points_of(cell: Cell, net: Network, count: int = 4000) -> Array:
    assert isinstance(cell.region, Box)
    x = np.random.default_rng(0).uniform(cell.region.lo, cell.region.hi, size=(count, net.inputs))
    signs = zip(cell.signs, net.preactivations(x), strict=True)
    return x[np.all([np.all(s * z >= 0, axis=1) for s, z in signs], axis=0)]


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_cells_hold_at_their_points(seed: int) -> None:
    net, box, c = deep_net(3, 6, 5, 4, 1, seed=seed), Box(np.zeros(3), 1.0), np.ones(1)
    cells = [random_cell(net, box, 10 * seed + k, depth=5) for k in range(12)]
    bounds = bounds_of(net, cells)
    gradients = gradient_bounds(net, bounds.pre, c)[0]
    magnitudes = gradient_magnitudes(net, bounds.pre, c)
    assert np.all(magnitudes <= gradients.magnitude)
    uppers = interval_uppers(net, bounds, INF, c)
    for k, cell in enumerate(cells):
        x = points_of(cell, net)
        assert not (bounds.empty[k] and len(x))
        for z, own in zip(net.preactivations(x), bounds.of(k), strict=True):
            assert np.all(z >= own.lo - 1e-12)
            assert np.all(z <= own.hi + 1e-12)
        sides = bounds.sides
        assert np.all(x @ sides.H[k].T + sides.h[k] >= -1e-12)
        g = net.gradient(x, c)
        assert np.all(g >= gradients.lo[k] - 1e-12)
        assert np.all(g <= gradients.hi[k] + 1e-12)
        assert np.all(np.abs(g) <= magnitudes[k] + 1e-12)
        assert np.all(np.abs(g).sum(axis=1) <= uppers[k] + 1e-12)
        alone = bounds_of(net, [cell])
        for a, b in zip(alone.of(0), bounds.of(k), strict=True):  # a cell's bounds do not depend on its company
            np.testing.assert_allclose([*a.lo, *a.hi], [*b.lo, *b.hi], rtol=1e-9, atol=1e-12)


def test_half_spaces_tighten_other_neurons() -> None:
    """z_1 = x + y, z_2 = x + y - 1: where z_2 >= 0, z_1 >= 1; where z_1 <= 0, z_2 <= -1."""
    net = Network.from_weights(
        [np.array([[1.0, 1.0], [1.0, 1.0]]), np.ones((1, 2))], [np.array([0.0, -1.0]), np.zeros(1)]
    )
    root = whole(net, Box(np.zeros(2), 1.0))
    above, below = halves(root, Split(1, 1))[1], halves(root, Split(1, 0))[0]
    z = bounds_of(net, [above, below]).pre[0]
    assert abs(z.lo[0, 0] - 1.0) < 1e-9
    assert abs(z.hi[1, 1] + 1.0) < 1e-9
    both = halves(below, Split(1, 1))[1]
    assert bounds_of(net, [both]).empty[0]


@pytest.mark.parametrize(("sizes", "radius"), [((4, 7, 1), 1.0), ((3, 6, 5, 1), 1.0), ((3, 4, 4, 3, 1), 0.8)])
def test_rows_of_half_spaces_hold_at_true_points(sizes: tuple[int, ...], radius: float) -> None:
    seen = 0
    for seed in range(4):
        net, box = deep_net(*sizes, seed=seed), Box(np.zeros(sizes[0]), radius)
        rng = np.random.default_rng(seed)
        cell = whole(net, box)
        z = net.preactivations(rng.uniform(box.lo, box.hi)[None, :])
        for layer in range(1, net.depth + 1):
            j = int(rng.integers(net.shape[layer]))
            cell = halves(cell, Split(layer, j))[int(z[layer - 1][0, j] > 0)]
        problem, relaxation = on_cell(Problem.of(net, box), cell)
        if "half-space" not in {f.name for f in relaxation.families}:
            continue
        Y, value = true_points(relaxation, problem, 4000, cell)
        assert violations(relaxation, Y) <= 1e-9
        top = np.einsum("ki,ij,kj->k", Y, relaxation.problem.objective.toarray(), Y)
        assert np.all(value <= top + relaxation.offset + 1e-9)
        seen += len(Y)
    assert seen > 1000


@pytest.mark.parametrize(("sizes", "radius"), CASES)
def test_exact_is_the_enumerated_constant(sizes: tuple[int, ...], radius: float) -> None:
    for seed in range(2):
        net, box = deep_net(*sizes, seed=seed), Box(np.zeros(sizes[0]), radius)
        outcome = solved(net, box)
        truth = exact_constant(net, box, np.ones(1))
        assert outcome.closed
        assert truth * (1 - 1e-9) <= outcome.certificate.upper <= truth * (1 + 2e-6)
        assert verify(outcome.certificate, net).proved


def test_relaxations_decide_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers when every cell is relaxed before it is split."""
    relax_early(monkeypatch, 1)
    kinds: set[type] = set()
    for sizes, radius in CASES[1:3]:
        net, box = deep_net(*sizes, seed=3), Box(np.zeros(sizes[0]), radius)
        outcome = solved(net, box)
        truth = exact_constant(net, box, np.ones(1))
        assert truth * (1 - 1e-9) <= outcome.certificate.upper <= truth * (1 + 2e-6)
        assert verify(outcome.certificate, net).proved
        assert isinstance(outcome.certificate.proof, Tree)
        kinds |= {type(leaf) for leaf in leaves_of(outcome.certificate.proof)}
    assert Multipliers in kinds


def test_everywhere_splits_neurons_only() -> None:
    net = deep_net(5, 4, 1, seed=2)
    result = lipcert.bound(net, Everywhere(), method="exact", work=10.0)
    large = exact_constant(net, Box(np.zeros(5), 1e3), np.ones(1))
    assert result.gap is not None
    assert result.gap <= 1e-6
    assert abs(result.upper - large) <= 1e-6 * large
    assert verify(result.certificate, net).proved


def test_smooth_activations_and_leaky_relu() -> None:
    outcome = solved(*LEAKY.pair)
    assert LEAKY.value * (1 - 1e-9) <= outcome.certificate.upper <= LEAKY.value * (1 + 2e-6)
    smooth = deep_net(2, 4, 3, 1, activation="tanh")
    outcome = solved(smooth, Box(np.zeros(2), 0.5), gap=0.05)
    assert outcome.witness is not None
    assert outcome.witness.value <= outcome.certificate.upper <= 1.05 * outcome.witness.value
    assert verify(outcome.certificate, smooth).proved


Case = tuple[Network, Box, Certificate, Tree]


@pytest.fixture(scope="module")
def case() -> Case:
    net, box = deep_net(3, 5, 4, 1, seed=1), Box(np.zeros(3), 1.0)
    kept = solved(net, box).certificate
    assert isinstance(kept.proof, Tree)
    assert kept.proof.count > 3
    return net, box, kept, kept.proof


def test_a_changed_tree_proves_nothing(case: Case, tmp_path: Path) -> None:
    net, _, kept, _ = case
    file, model = tmp_path / "proof.npz", tmp_path / "net.npz"
    kept.save(file)
    net.save(model)
    assert verify(file, net).proved
    assert run(["verify", str(file), "--network", str(model)]) == 0
    with np.load(file) as data:
        arrays = {name: data[name] for name in data.files}
    splits = arrays["splits"]
    changed = dict(arrays, leaf_kinds=arrays["leaf_kinds"][:-1])
    shifted = dict(arrays, values=arrays["values"] + np.where(splits[splits >= 0] < net.inputs, 1e-3, 0.0) + 1e-9)
    moved = dict(arrays, splits=splits[::-1])
    fewer = dict(arrays, splits=splits[:-1])
    for forged in (changed, shifted, moved, fewer):
        np.savez(file, **forged)
        assert not verify(file, net).proved
        assert run(["verify", str(file), "--network", str(model)]) == 1


def test_a_forged_tree_with_its_own_digest_proves_only_what_is_true(case: Case, tmp_path: Path) -> None:
    """Whoever writes a whole new file gets what its leaves prove, never less than the constant."""
    net, box, kept, tree = case
    c = np.ones(1)
    truth = exact_constant(net, box, c)
    assert tree.leaves is not None
    leaf, rest = int(np.argmax(tree.where < 0)), np.arange(1, tree.count)
    lost = Tree(np.delete(tree.where, leaf), np.delete(tree.value, leaf), None, tree.leaves.in_order(rest))
    pruned = tree_of(net, (None,), (BY_INTERVALS,))
    odd = tree_of(net, (Split(1, 99), None, None), (BY_INTERVALS,) * 2)
    outside = tree_of(net, (Split(0, 0, 7.0), None, None), (BY_INTERVALS,) * 2)
    twice = tree_of(net, (Split(1, 0), Split(1, 0), None, None, None), (BY_INTERVALS,) * 3)
    empty = tree_of(net, (Split(1, 0), None, None), (Empty({SIDES: np.ones(net.neurons)}),) * 2)
    for forged in (lost, pruned, odd, outside, twice, empty, NO_TREE):
        assert forged.check(Problem.of(net, box)) > kept.claim >= truth
        replace(kept, proof=forged).save(tmp_path / "forged.npz")
        assert not verify(tmp_path / "forged.npz", net).proved
    read = load_certificate(tmp_path / "forged.npz")
    assert isinstance(read.proof, Tree)
    assert not len(read.proof.where)


def test_leaves_with_multipliers_are_checked_on_their_own_cell() -> None:
    net, box, c = deep_net(4, 8, 1, seed=3), Box(np.zeros(4), 1.0), np.ones(1)
    below, above = halves(whole(net, box), Split(1, 2))
    bounds = bounds_of(net, [below, above])
    problem = Problem.of(net, box)
    replies = []
    for k, cell in enumerate((below, above)):
        own_problem = problem.on(cell.region, preactivations=bounds.of(k))
        replies.append(relax(RelaxationTask(own_problem, cell, 0.0, 10.0, True, NO_CUTS.table)))
    leaves = [reply.leaf for reply in replies if isinstance(reply.leaf, Multipliers)]
    own = [check_relaxed(problem, p, bounds.of(k), leaves[k]) for k, p in enumerate((below, above))]
    assert own == pytest.approx([r.upper for r in replies], rel=1e-9)
    x = np.random.default_rng(1).uniform(box.lo, box.hi, size=(20000, 4))
    norms, z = np.abs(net.gradient(x, c)).sum(axis=1), net.preactivations(x)[0][:, 2]
    for k, mask in enumerate((z <= 0, z >= 0)):
        exchanged = check_relaxed(problem, (below, above)[k], bounds.of(k), leaves[1 - k])
        assert exchanged >= norms[mask].max() - 1e-9  # another cell's multipliers: true or infinite
        assert own[k] >= norms[mask].max() - 1e-9


def test_only_empty_cells_are_proved_empty() -> None:
    net, box = deep_net(3, 6, 1, seed=0), Box(np.zeros(3), 1.0)
    rng = np.random.default_rng(0)
    for seed in range(20):
        cell = random_cell(net, box, seed, depth=6)
        if cell.fixed:
            bounds = bounds_of(net, [cell])
            assert all(prove_empty(net, cell, bounds, rng.exponential(size=6)) is None for _ in range(20))


def test_a_lying_solver_proves_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    from lipcert.solver import rank_two

    honest = rank_two.solve_rank_two
    rng = np.random.default_rng(0)

    def lie(problem: Any, *arguments: Any, **more: Any) -> Any:
        answer = honest(problem, *arguments, **more)
        y = answer.y * rng.choice([0.0, 0.5, 1.0, -1.0, np.nan], size=answer.y.shape)
        return replace(answer, y=y, X=None if answer.X is None else rng.normal(size=answer.X.shape))

    monkeypatch.setattr(rank_two, "solve_rank_two", lie)
    relax_early(monkeypatch, 2)
    net, box = deep_net(4, 7, 1, seed=5), Box(np.zeros(4), 1.0)
    outcome = solved(net, box, work=5.0)
    truth = exact_constant(net, box, np.ones(1))
    assert outcome.certificate.upper >= truth * (1 - 1e-9)
    assert outcome.witness is not None
    assert outcome.witness.value <= truth * (1 + 1e-9)
    assert verify(outcome.certificate, net).proved


def test_interrupt_time_limit_and_gap_leave_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constant(monkeypatch, "RELAX_OPEN", 100)  # intervals are enough here
    net, box = deep_net(6, 12, 10, 1, seed=1), Box(np.zeros(6), 1.0)
    states: list[SearchState] = []

    def stop(state: SearchState, _: Witness | None) -> None:
        states.append(state)
        if state.nodes > 40:
            raise KeyboardInterrupt

    outcome = solved(net, box, on_state=stop)
    assert outcome.interrupted
    assert not outcome.closed
    assert verify(outcome.certificate, net).proved
    uppers = [s.upper for s in states]
    assert uppers == sorted(uppers, reverse=True)
    assert all(s.lower <= s.upper for s in states)
    short = solved(net, box, work=0.05)
    assert not short.closed
    assert verify(short.certificate, net).proved
    rough = solved(net, box, gap=10.0)
    assert rough.closed
    assert rough.state.nodes < 41


def test_processes_give_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    relax_early(monkeypatch, 3)
    net, box = deep_net(5, 9, 1, seed=4), Box(np.zeros(5), 1.0)
    serial = solved(net, box)
    with processes(2) as executor:
        parallel = solved(net, box, executor=executor)
    assert parallel.closed
    assert serial.closed
    assert parallel.certificate.upper == pytest.approx(serial.certificate.upper, rel=2e-6)
    assert verify(parallel.certificate, net).proved


def test_bound_and_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, box = deep_net(3, 6, 4, 1, seed=2), Box(np.zeros(3), 0.7)
    seen: list[lipcert.Progress] = []
    result = lipcert.bound(net, box, method="exact", work=20.0, on_progress=seen.append)
    assert result.status is Status.DONE
    assert result.gap is not None
    assert result.gap <= 1e-6
    assert seen[-1].upper == result.upper
    assert lipcert.bound(net, box, work=20.0).upper == pytest.approx(result.upper, rel=2e-6)  # auto
    net.save(tmp_path / "net.npz")
    proof = str(tmp_path / "proof.npz")
    asked = ["bound", str(tmp_path / "net.npz"), "--radius", "0.7", "--method", "exact", "--gap", "0.5", "--json"]
    assert run([*asked, "--certificate", proof]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["method"] in ("tree", "linear")
    assert answer["gap"] <= 0.5
    assert run(["verify", proof, "--network", str(tmp_path / "net.npz")]) == 0


def test_what_is_refused() -> None:
    net, box = deep_net(3, 4, 1), Box(np.zeros(3), 1.0)
    for wrong in ({"gap": -0.1}, {"gap": float("nan")}, {"workers": 0}, {"workers": True}):
        with pytest.raises(InputError):
            lipcert.bound(net, box, method="exact", **wrong)
    with pytest.raises(MethodError, match="hidden layer"):
        lipcert.bound(deep_net(3, 1), box, method="exact")


def test_large_networks_are_not_refused() -> None:
    """Branch and bound has no largest size: it keeps the cheap bound where the budget allows nothing else."""
    net = Network.from_weights([np.ones((2001, 3)), np.ones((1, 2001))])
    result = lipcert.bound(net, Box(np.zeros(3), 1.0), method="exact", work=0.05)
    assert result.certified
    assert result.upper >= 3 * 2001 * (1 - 1e-12)  # all neurons on, in norm inf


def test_numbers_that_overflow_end_the_search() -> None:
    """No cell of such a network has a bound: the budget is not spent on looking for one."""
    net = Network.from_weights([np.full((3, 2), 1e200), np.full((1, 3), 1e200)])
    result = lipcert.bound(net, Box(np.zeros(2), 1.0), method="exact", work=30.0)
    assert result.upper == np.inf
    assert result.status is Status.OPEN


def test_half_spaces_know_the_norm() -> None:
    """A neuron with a row of zeros is pruned in one norm and not in the other: the rows must agree with the matrix."""
    weights = [np.array([[1.0], [0.0], [-2.0]]), np.array([[-2.0, 1.0, -2.0], [1.0, -2.0, 2.0]]), np.ones((1, 2))]
    biases = [np.array([0.3, 0.0, -0.1]), np.array([1.0, -0.3]), np.zeros(1)]
    net, box = Network.from_weights(weights, biases), Box(np.zeros(1), 1.0)
    for norm in (INF, Norm("2")):
        for cell in halves(whole(net, box), Split(2, 0)):
            problem, relaxation = on_cell(Problem.of(net, box, norm=norm), cell)
            assert "half-space" in {f.name for f in relaxation.families}
            Y, value = true_points(relaxation, problem, 500, cell)
            assert len(Y)
            assert violations(relaxation, Y) <= 1e-9
            reached = objective(relaxation, Y) + relaxation.offset
            assert all(relaxation.finish(max(v, 0.0)) >= w - 1e-9 for v, w in zip(reached, value, strict=True))


def test_forged_trees_of_odd_networks_prove_nothing_and_raise_nothing() -> None:
    """No hidden layer, weights whose products overflow, and inputs that are the smallest floats."""
    box = Box(np.zeros(2), 1.0)
    leaves = [Multipliers(Specification("tight", form), {}, {}) for form in ("hr2", "backward")]
    affine = Network((lipcert.Affine(np.ones((1, 2)), np.zeros(1)),), ())
    huge = Network.from_weights([np.full((3, 2), 1e200), np.full((1, 3), 1e200)], [np.zeros(3), np.zeros(1)])
    for norm in (INF, Norm("2"), Norm("1")):
        for net, tree in (
            (affine, tree_of(affine, (None,), (BY_INTERVALS,))),
            *((affine, tree_of(affine, (Split(0, 0), None, None), (leaf, leaf))) for leaf in leaves),
            *((huge, tree_of(huge, (Split(1, 0), None, None), (leaf, leaf))) for leaf in leaves),
        ):
            found = verify(Certificate.of(Problem.of(net, box, norm=norm), tree, 1.0), net)
            assert not found.proved
            assert found.upper == np.inf


def test_a_coordinate_at_the_smallest_float_keeps_its_value() -> None:
    """Half of it is zero: the form of x is off by that much, and says so."""
    least, big = 5e-324, 1e100
    net = Network.from_weights([np.array([[big, 1.0]]), np.ones((1, 1))], [np.zeros(1), np.zeros(1)])
    box = Box.from_bounds(np.array([least, -1.0]), np.array([least, 1.0]))
    cell = halves(whole(net, box), Split(1, 0))[1]
    for norm in (INF, Norm("2")):
        assert on_cell(Problem.of(net, box, norm=norm), cell)[1].problem.rows
    with np.errstate(all="ignore"):
        lifted = built(Problem.of(net, box), "backward")
    moving = lifted.blocks["w"][0]
    x = inputs_of(lifted.space, box, moving)
    assert list(moving) == [1]
    assert x.error[0] >= least
    assert x.error[1] == 0.0
