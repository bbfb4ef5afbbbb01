"""Relaxations and proofs of networks with branches: rows at true points, bounds against enumeration, files, cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipcert
from lipcert import Activation, Box, MethodError, Network
from lipcert.bounds import Split, bounds_of, halves, splits_here, whole
from lipcert.method.branching.relax import RelaxationTask, relax
from lipcert.method.solving import Task
from lipcert.problem.activations import IDENTITY, RELU
from lipcert.problem.blocks import Block
from lipcert.problem.norms import Norm
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.proof import Certificate, Multipliers, prove_interval, prove_product
from lipcert.proof.cases import ProvedCase, case_of, case_table, prove_cases
from lipcert.proof.leaves import BY_INTERVALS
from lipcert.proof.multipliers import prove
from lipcert.relaxation.cuts import NO_CUTS
from lipcert.relaxation.model import Relaxation
from lipcert.relaxation.specification import LIFTS
from lipcert.rounding import Array
from lipcert.solver.rank_two import Options, solve_rank_two
from tests.enumeration import exact_constant
from tests.lift_tools import built, deep_net, objective, on_cell, true_points, violations
from tests.strategies import branched_networks
from tests.trees import leaves_of, tree_of

Case = tuple[Network, Box, Array]
NORMS = [Norm(p, q) for p in ("inf", "2", "1") for q in (None, "1", "2", "inf")]
ANY = ("relu", "leaky_relu", "identity", "tanh")


def asked(net: Network, region: Region, norm: Norm, c: Array) -> Problem:
    return Problem.of(net, region, "all" if norm.out is not None else c, norm)


def one_of(problem: Problem) -> Problem:
    """The problem, or one of its cases."""
    return case_of(problem, problem.network.outputs - 1, 0) if problem.has_cases else problem


def multipliers(relaxation: Relaxation) -> Array:
    """The interior point's; a constant network has a matrix of order one, which needs no solver."""
    if relaxation.problem.size == 1:
        return np.ones(relaxation.problem.rows)
    return solve_rank_two(relaxation.problem, Options()).y


def proved(problem: Problem, method: str) -> Certificate:
    """The certificate from the interior point's multipliers; of several cases, from those of all."""
    if not problem.has_cases:
        task = Task.of(problem, method)
        return task.prove(multipliers(task.relaxation))
    table = case_table(problem)
    cases = []
    for row, column in np.ndindex(*table.shape):
        kept = proved(case_of(problem, row, column), method)
        assert isinstance(kept.proof, Multipliers)
        cases.append(ProvedCase(row, column, kept.proof, kept.upper))
    return prove_cases(problem, method, table, tuple(cases))


@settings(max_examples=21)
@given(branched_networks(kinds=ANY), st.sampled_from(("tight", *LIFTS)), st.sampled_from(NORMS))
def test_rows_hold_at_true_points(case: Case, name: str, norm: Norm) -> None:
    net, box, c = case
    problem = one_of(asked(net, box, norm, c))
    relaxation = built(problem, name, wide=True)
    Y, value = true_points(relaxation, problem, 500)
    assert violations(relaxation, Y) <= 1e-9
    reached = objective(relaxation, Y) + relaxation.offset
    found = np.array([relaxation.finish(max(v, 0.0)) for v in reached]) if relaxation.finish.scale else reached
    assert np.all(found >= value - 1e-8 * (1 + np.abs(value)))


@settings(max_examples=8)
@given(branched_networks(max_neurons=7), st.sampled_from(("tight", *LIFTS)), st.sampled_from(NORMS))
def test_nothing_is_below_the_enumerated_constant(case: Case, name: str, norm: Norm) -> None:
    net, box, c = case
    problem = asked(net, box, norm, c)
    exact = exact_constant(net, box, problem.c, norm)
    for certificate in (prove_product(problem), prove_interval(problem), proved(problem, name)):
        assert exact <= certificate.upper * (1 + 1e-9) + 1e-12, certificate.method
        assert lipcert.verify(certificate, net).proved


@settings(max_examples=6)
@given(branched_networks(max_neurons=6), st.sampled_from(("tight", *LIFTS)), st.sampled_from(NORMS))
def test_lies_only_loosen(case: Case, name: str, norm: Norm) -> None:
    net, box, c = case
    problem = one_of(asked(net, box, norm, c))
    exact, rng = 0.0, np.random.default_rng(0)
    if problem.coordinate is None:
        exact = exact_constant(net, box, problem.c, problem.norm)
    elif not problem.whole_map:  # of all coordinates the first alone
        exact = float(np.abs(net.gradient(rng.uniform(box.lo, box.hi, size=(300, box.size)), problem.c)[:, 0]).max())
    relaxation = built(problem, name)
    honest = multipliers(relaxation)
    for y in (0 * honest, -honest, rng.normal(size=honest.shape), honest * rng.uniform(0, 2, size=honest.shape)):
        assert prove(relaxation, y).upper >= exact * (1 - 1e-9)


@pytest.mark.parametrize("method", ["tight", "both", "forward-free"])
@pytest.mark.parametrize("norm", [Norm("inf"), Norm("2"), Norm("1", "inf"), Norm("2", "2")])
def test_files_are_verified(method: str, norm: Norm, tmp_path: Path) -> None:
    net = residual(3)
    problem = asked(net, Box(np.zeros(3), 0.6), norm, np.array([1.0, -1.0]))
    kept = proved(problem, method)
    kept.save(tmp_path / "proof.npz")
    answer = lipcert.verify(tmp_path / "proof.npz", net)
    assert answer.proved
    assert answer.upper == pytest.approx(kept.upper, rel=1e-9)
    with np.load(tmp_path / "proof.npz") as arrays:
        forged = dict(arrays)
    exact = exact_constant(net, Box(np.zeros(3), 0.6), problem.c, norm)
    for factor in (0.5, -1.0, 2.0):
        np.savez(tmp_path / "forged.npz", **(forged | {"numbers": factor * forged["numbers"]}))
        assert lipcert.verify(tmp_path / "forged.npz", net).upper >= exact * (1 - 1e-9)


def residual(blocks: int, seed: int = 0) -> Network:
    """x_{i+1} = relu(A x_i + b) + x_i, written with a block of ReLU and one that adds, and scores."""
    rng = np.random.default_rng(seed)
    found = [Block(((0, rng.normal(size=(3, 3))),), rng.normal(size=3) / 2, RELU)]
    for _ in range(blocks - 1):
        last = len(found)
        found.append(Block(((last, rng.normal(size=(3, 3)) / 2),), rng.normal(size=3) / 2, RELU))
        found.append(Block(((last, np.eye(3)), (last + 1, np.eye(3))), np.zeros(3), IDENTITY))
    found.append(Block(((len(found), rng.normal(size=(2, 3))),), np.zeros(2)))
    return Network.from_blocks(found)


def test_a_chain_in_other_words_has_the_same_bounds() -> None:
    """Terms with zeros, a block that only copies, one that nobody reads: the relaxations do not become looser."""
    chain, box = deep_net(4, 5, 4, 1, seed=2), Box(np.zeros(4), 0.5)
    A, B, C = (a.weight for a in chain.affines)
    a, b, c = (a.bias for a in chain.affines)
    f = Activation("relu")
    same = Network.from_blocks(
        [
            Block(((0, A),), a, f),
            Block(((0, np.ones((2, 4))),), np.zeros(2), f),  # nobody reads it
            Block(((1, np.eye(5)),), np.zeros(5), IDENTITY),
            Block(((0, np.zeros((4, 4))), (3, B)), b, f),
            Block(((0, np.zeros((1, 4))), (4, C)), c),
        ]
    )
    assert not same.is_chain
    for name in LIFTS:
        uppers = [proved(Problem.of(net, box), name).upper for net in (chain, same)]
        assert uppers[1] == pytest.approx(uppers[0], rel=1e-4), name


def test_scores_that_read_the_input() -> None:
    """score = w'x + relu(v'x): one hidden layer, and not a chain."""
    w, v = np.array([[1.0, -2.0]]), np.array([[0.5, 1.0]])
    net = Network.from_blocks([Block(((0, v),), np.zeros(1), RELU), Block(((0, w), (1, np.ones((1, 1)))), np.zeros(1))])
    box = Box(np.zeros(2), 1.0)
    for name in ("tight", *LIFTS):
        assert proved(Problem.of(net, box), name).upper == pytest.approx(3.0, rel=1e-5), name
    with pytest.raises(MethodError, match="use tight"):
        proved(Problem.of(net, box), "hr2")


@settings(max_examples=10)
@given(branched_networks(max_neurons=8, kinds=ANY), st.sampled_from([Norm("inf"), Norm("2")]), st.integers(0, 99))
def test_half_spaces_of_cells_hold_at_their_points(case: Case, norm: Norm, seed: int) -> None:
    net, box, c = case
    rng = np.random.default_rng(seed)
    cell = whole(net, box)
    z = net.preactivations(rng.uniform(box.lo, box.hi)[None, :])
    for i in range(1, net.depth + 1):
        split = Split(i, int(rng.integers(net.shape[i])))
        if splits_here(cell, split, net):
            cell = halves(cell, split)[int(z[i - 1][0, split.index] > 0)]
    problem, relaxation = on_cell(asked(net, box, norm, c), cell)
    Y, value = true_points(relaxation, problem, 1000, cell)
    if len(Y):
        assert violations(relaxation, Y) <= 1e-9
        reached = objective(relaxation, Y) + relaxation.offset
        found = np.array([relaxation.finish(max(v, 0.0)) for v in reached]) if relaxation.finish.scale else reached
        assert np.all(found >= value - 1e-8 * (1 + np.abs(value)))


def test_a_tree_of_a_residual_network_is_proved(tmp_path: Path) -> None:
    net, box = residual(3, seed=1), Box(np.zeros(3), 0.5)
    problem = Problem.of(net, box, 0)
    exact = exact_constant(net, box, problem.c)
    cells = halves(whole(net, box), Split(2, 0))
    bounds = bounds_of(net, list(cells))
    on_cells = [problem.on(cell.region, preactivations=bounds.of(k)) for k, cell in enumerate(cells)]
    asked = zip(on_cells, cells, strict=True)
    replies = [relax(RelaxationTask(own, cell, 0.0, 10.0, True, NO_CUTS.table)) for own, cell in asked]
    assert all(isinstance(reply.leaf, Multipliers) for reply in replies)
    tree = tree_of(net, (Split(2, 0), None, None), tuple(reply.leaf for reply in replies))
    upper = max(reply.upper for reply in replies)
    Certificate.of(problem, tree, upper).save(tmp_path / "tree.npz")
    answer = lipcert.verify(tmp_path / "tree.npz", net)
    assert answer.proved
    assert exact * (1 - 1e-9) <= answer.upper <= 1.01 * proved(problem, "tight").upper
    exchanged = tree_of(net, (Split(2, 0), None, None), leaves_of(tree)[::-1])
    assert exchanged.check(problem) >= exact * (1 - 1e-9)
    assert tree_of(net, (Split(2, 0), None, None), (BY_INTERVALS,) * 2).check(problem) >= upper * (1 - 1e-9)
