"""One encoding of trees: what is written is read again, paths are those of the splits, and damage is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lipcert import Box, Everywhere, FileFormatError, Network
from lipcert.bounds import Split, bounds_of, halves, whole
from lipcert.bounds.cell import Cell
from lipcert.problem.problem import Problem
from lipcert.proof.cells import Grid
from lipcert.proof.leaves import BY_INTERVALS, BY_LINES, Empty, Kind, Leaves, problem_on, prove_leaf
from lipcert.proof.multipliers import Multipliers
from lipcert.proof.nogoods import Nogoods
from lipcert.proof.preorder import read_preorder
from lipcert.proof.tree import LEAF, Tree, digest, read_tree
from lipcert.relaxation.specification import build, plan_specification
from lipcert.search.tree import level_order
from lipcert.solver.rank_two import Options, solve_rank_two
from tests.enumeration import exact_constant
from tests.lift_tools import deep_net
from tests.trees import mended, signs_of, tree_of

NET, BOX = deep_net(2, 4, 3, 1, seed=3), Box(np.array([0.1, -0.2]), 0.8)
SEEDS = st.integers(0, 2**32 - 1)


def some_tree(rng: np.random.Generator, grid: Grid | None = None, most: int = 40) -> Tree:
    """Leaves are split at random, each neuron at most once on a path and coordinates inside their cells."""
    n = NET.inputs
    lo, hi = (BOX.lo[None], BOX.hi[None]) if grid is None else (grid.cells(np.arange(grid.count)).lo, None)
    hi = grid.cells(np.arange(grid.count)).hi if grid is not None else hi
    assert hi is not None
    cells = [(lo[k].copy(), hi[k].copy(), frozenset[int]()) for k in range(len(lo))]
    first, where, value = [-1] * len(cells), [LEAF] * len(cells), [0.0] * len(cells)
    for _ in range(int(rng.integers(most))):
        node = int(rng.choice(np.flatnonzero(np.array(where) == LEAF)))
        low, high, fixed = cells[node]
        free = [] if grid is not None else [j for j in range(NET.neurons) if j not in fixed]
        number = int(rng.choice([*range(n), *(n + j for j in free)]))
        where[node], first[node] = number, len(cells)
        for side in range(2):
            ends = low.copy(), high.copy()
            if number < n:
                value[node] = low[number] + 0.4 * (high[number] - low[number])
                ends[1 - side][number] = value[node]
            cells.append((*ends, fixed if number < n else fixed | {number - n}))
            first, where, value = [*first, -1], [*where, LEAF], [*value, 0.0]
    split = np.array(where) != LEAF
    nodes = level_order(np.array(first), split, len(lo))
    return Tree(np.array(where)[nodes], np.where(split, value, 0.0)[nodes], grid)


def with_leaves(tree: Tree, rng: np.random.Generator) -> Tree:
    """With leaves of all kinds; what they say need not be true."""
    kinds = rng.integers(0, 6, size=tree.count)
    plan = plan_specification(Problem.of(NET, BOX), "tight")
    proofs: list[Empty | Multipliers] = []
    for kind in kinds:
        if kind == Kind.EMPTY:
            proofs.append(Empty({"half-spaces": rng.uniform(size=NET.neurons)}))
        elif kind == Kind.RELAXED:
            proofs.append(Multipliers(plan, {"rows": rng.uniform(size=3)}, {"one": rng.uniform(size=2)}))
    refused = rng.integers(0, 2, size=int(np.sum(kinds == Kind.NOGOOD)))
    nogoods = Nogoods(2, np.array([[0, 1, 1], [1, 0, -1]]), np.array([[0, 2], [1, 5]]), np.array([0.5, -1.0]))
    return Tree(tree.where, tree.value, None, Leaves(kinds, tuple(proofs), refused, nogoods))


def same(one: Tree, other: Tree) -> bool:
    """Whether the arrays of both are the same, bit for bit."""
    a, b = one.arrays(), other.arrays()
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@given(SEEDS, st.booleans())
@settings(max_examples=40, deadline=None)
def test_trees_are_read_as_they_were_written(seed: int, grid: bool) -> None:
    rng = np.random.default_rng(seed)
    bare = some_tree(rng, Grid.equal(BOX, (2, 3), 6) if grid else None)
    assert bare.fault(NET, BOX) is None
    assert same(read_tree(bare.arrays()), bare)
    assert len(bare.where) == bare.roots + 2 * (len(bare.where) - bare.count)
    if not grid:
        full = with_leaves(bare, rng)
        again = read_tree(full.arrays())
        assert same(again, full)
        assert again.method == full.method


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_paths_are_those_of_the_splits(seed: int) -> None:
    """From left to right, each leaf with the signs that lead to it."""
    rng = np.random.default_rng(seed)
    tree = some_tree(rng)
    expected: dict[int, dict[int, int]] = {}
    waiting: list[tuple[int, dict[int, int]]] = [(0, {})]
    while waiting:
        node, signs = waiting.pop()
        number = int(tree.where[node])
        if number == LEAF:
            expected[int(tree.leaf_numbers[node])] = signs
            continue
        for side in (1, 0):
            more = {} if number < NET.inputs else {number - NET.inputs: 2 * side - 1}
            waiting.append((int(tree.below[node]) + side, signs | more))
    found: dict[int, dict[int, int]] = {}
    for paths in tree.paths(NET, np.ones(tree.count, dtype=bool)):
        assert paths is not None
        for leaf, row in zip(paths.leaves.tolist(), paths.signs, strict=True):
            found[leaf] = {int(paths.neurons[k]): int(row[k]) for k in np.flatnonzero(row)}
    assert list(found) == list(expected)
    assert found == expected


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_damaged_tables_are_refused_or_prove_what_is_true(seed: int) -> None:
    """One line for what is no tree, whatever digest the file has; never a bound below the constant."""
    rng = np.random.default_rng(seed)
    arrays = dict(with_leaves(some_tree(rng), rng).arrays())
    name = str(rng.choice([n for n in arrays if n not in ("proof", "tree_digest", "names")]))
    damaged = damage(arrays[name], rng)
    forged = mended(arrays | {name: damaged}) if rng.random() < 0.9 else arrays | {name: damaged}
    try:
        tree = read_tree(forged)
    except FileFormatError as error:
        assert "\n" not in str(error)  # noqa: PT017 - not every damage is refused
        return
    with np.errstate(all="ignore"):
        upper = tree.check(Problem.of(NET, BOX))
    assert upper >= exact_constant(NET, BOX, np.ones(1)) * (1 - 1e-9)


def damage(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """One number changed, or some numbers left out or written twice."""
    flat = array.reshape(-1).copy()
    way = int(rng.integers(4))
    if way == 0 and flat.size:
        flat[int(rng.integers(flat.size))] = rng.choice([-2, -1, 0, 1, 2, 5, 100])
        return flat.reshape(array.shape)
    if way == 1:
        return array[: len(array) // 2]
    if way == 2:
        return np.concatenate([array, array])
    return array[::-1]


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_preorder_of_old_files_is_translated(seed: int) -> None:
    """A tree that is written as version 1.0.0 wrote it is the same tree."""
    rng = np.random.default_rng(seed)
    tree = some_tree(rng)
    starts = np.cumsum([0, *NET.shape[:-1]])
    rows, values, waiting = list[tuple[int, int]](), list[float](), [0]
    while waiting:
        node = waiting.pop()
        number = int(tree.where[node])
        layer = int(np.searchsorted(starts, number, side="right")) - 1
        rows.append((LEAF, 0) if number == LEAF else (layer, number - int(starts[layer])))
        values.append(float(tree.value[node]))
        waiting += [] if number == LEAF else [int(tree.below[node]) + 1, int(tree.below[node])]
    kinds = rng.choice([Kind.INTERVALS, Kind.LINES], size=tree.count)
    none: dict[str, NDArray[Any]] = {
        "specifications": np.tile([-1, 0, 0, 0, 0, 0, 0], (tree.count, 1)),
        "cuts": np.zeros((0, 9), dtype=np.int64),
        "reductions": np.zeros(0, dtype=np.int64),
        "names": np.array([""]),
        "segments": np.zeros((0, 5), dtype=np.int64),
        "index": np.zeros(0, dtype=np.int32),
        "numbers": np.zeros(0),
    }
    arrays = {"tree": np.array(rows), "tree_values": np.array(values), "leaf_kinds": kinds, **none}
    old = read_preorder(arrays | {"proof": np.array("tree"), "tree_digest": np.array(digest(arrays))})
    new = old.tree(NET)
    assert np.array_equal(new.where, tree.where)
    assert np.array_equal(new.value, tree.value)
    assert new.leaves is not None
    assert np.array_equal(new.leaves.kinds, kinds[_ranks(tree)])
    assert old.check(Problem.of(NET, BOX)) == new.check(Problem.of(NET, BOX))
    cut = {name: array[:-1] if name in ("tree", "tree_values") else array for name, array in arrays.items()}
    damaged = read_preorder(cut | {"proof": np.array("tree"), "tree_digest": np.array(digest(cut))})
    assert damaged.check(Problem.of(NET, BOX)) == np.inf


def _ranks(tree: Tree) -> NDArray[np.int64]:
    """The place from left to right of every leaf in the order of the nodes."""
    found = np.empty(tree.count, dtype=np.int64)
    found[tree.leaf_numbers[tree.left_to_right]] = np.arange(tree.count)
    return found


# --- Leaves with multipliers under a path of signs --------------------------------------------------------------------


def relaxed_leaf(problem: Problem, cell: Cell) -> Multipliers:
    """The proof of a cell by the moment relaxation, solved."""
    own, signs = problem_on(problem, cell, bounds_of(problem.network, [cell]).of(0))
    plan = plan_specification(own, "tight", signs)
    relaxation = build(own, plan)
    return prove_leaf(plan, relaxation, solve_rank_two(relaxation.problem, Options(tolerance=1e-8)).y)[0]


@pytest.mark.parametrize("seed", range(4))
def test_semidefinite_leaves_under_signs(seed: int) -> None:
    """A tree over signs whose leaves are closed in different ways proves a bound between the constant and the bound of
    the same tree without multipliers."""
    net, box = deep_net(3, 5, 4, 1, seed=seed), Box(np.zeros(3), 0.8)
    problem, truth = Problem.of(net, box), exact_constant(net, box, np.ones(1))
    signs = signs_of(net, [(1, 0), (1, 1), (0, 0), (0, 0), (0, 0)])
    plain = signs.check(problem)
    below, above = halves(whole(net, box), Split(1, 0))
    cells = [above, *halves(below, Split(1, 1))]  # the leaves in the order of the nodes
    uppers = []
    for number, cell in enumerate(cells):
        assert signs.leaves is not None
        kinds = signs.leaves.kinds.copy()
        kinds[number] = Kind.RELAXED
        mixed = Tree(signs.where, signs.value, None, Leaves(kinds, (relaxed_leaf(problem, cell),)))
        assert mixed.method == "signs"
        uppers.append(mixed.check(problem))
        assert same(read_tree(mixed.arrays()), mixed)
    every = Tree(signs.where, signs.value, None, Leaves.of([relaxed_leaf(problem, cell) for cell in cells]))
    assert truth * (1 - 1e-9) <= every.check(problem) <= plain * (1 + 1e-9)
    assert all(truth * (1 - 1e-9) <= upper <= plain * (1 + 1e-9) for upper in uppers)
    assert every.check(problem) <= tree_of(
        net, (Split(1, 0), Split(1, 1), None, None, None), (BY_INTERVALS,) * 3
    ).check(problem) * (1 + 1e-9)


def test_leaves_of_all_kinds_in_one_tree() -> None:
    """Coordinates and signs are split, and leaves by signs and by cells stand side by side: never below the truth."""
    truth, problem = exact_constant(NET, BOX, np.ones(1)), Problem.of(NET, BOX)
    where = np.array([NET.inputs, 0, NET.inputs + 1, *[LEAF] * 4])
    value = np.array([0.0, 0.3, 0.0, *[0.0] * 4])
    for kinds in product((Kind.INTERVALS, Kind.LINES, Kind.SIGNS), repeat=4):
        tree = Tree(where, value, None, Leaves(np.array(kinds)))
        upper = tree.check(problem)
        assert truth * (1 - 1e-9) <= upper < np.inf
        assert tree.check(Problem.of(NET, Everywhere())) == np.inf
    assert Tree(where, value).check(problem) == np.inf  # without a table of leaves there is no bound
    lines = Tree(where, value, None, Leaves.of([BY_LINES] * 4))
    assert lines.check(Problem.of(Network.from_weights([np.ones((1, 2))]), BOX)) == np.inf
