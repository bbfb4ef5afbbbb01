"""Certificates with arrays that nobody writes, and small ones that ask for much: one line says so, and no bug shows."""

from __future__ import annotations

import io
import weakref
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipcert
from lipcert import Box, Network
from lipcert.bounds.cell import Split
from lipcert.budget import Budget
from lipcert.cli.app import run
from lipcert.errors import FileFormatError
from lipcert.jobs import local
from lipcert.method.bracket import Bracket
from lipcert.method.branching import branch
from lipcert.method.signs import search_signs
from lipcert.method.solving import Task
from lipcert.problem.problem import Problem
from lipcert.proof import encoding, leaves, nogoods, tree
from lipcert.proof.cases import ProvedCase, case_of, case_table, prove_cases
from lipcert.proof.cells import Grid
from lipcert.proof.certificate import Certificate
from lipcert.proof.file import load_certificate
from lipcert.proof.leaves import BY_LINES, are_places
from lipcert.proof.margins import MarginProof, certificate_of, linear_margins
from lipcert.proof.multipliers import Multipliers
from lipcert.proof.partition import PartitionCertificate
from lipcert.proof.tree import Tree
from lipcert.relaxation.cuts import Cuts
from lipcert.relaxation.specification import build
from lipcert.search.cells.partition import partition
from lipcert.solver.rank_two import Options, solve_rank_two
from tests.conftest import ROOT
from tests.reader_tools import refuse
from tests.trees import mended, tree_of

Arrays = dict[str, Any]
OLD = ROOT / "tests" / "data" / "version-1.0.0"
C = np.array([1.0, -1.0])
BOX = Box([0.1, -0.2], 1.0)


@cache
def network() -> Network:
    rng = np.random.default_rng(7)
    return Network.from_weights([rng.normal(size=(4, 2)), rng.normal(size=(3, 4)), rng.normal(size=(2, 3))])


def problem() -> Problem:
    return Problem.of(network(), BOX, C)


def arrays_of(certificate: Certificate | None) -> Arrays:
    assert certificate is not None
    return dict(certificate.arrays())


def relaxed(asked: Problem, method: str) -> Certificate:
    task = Task.of(asked, method)
    return task.prove(solve_rank_two(task.relaxation.problem, Options(iterations=12)).y)


@cache
def certificates() -> dict[str, Arrays]:
    """A certificate of every kind of file, by name."""
    found: dict[str, Arrays] = {}
    for method in ("linear", "slopes"):
        found[method] = arrays_of(lipcert.bound(network(), BOX, output=C, method=method, work=0.3).certificate)
    found["tight"] = arrays_of(relaxed(problem(), "tight"))
    found["tree"] = arrays_of(branch(problem(), Bracket(), Budget.of_work(0.02), local()).certificate)
    found["patterns"] = arrays_of(search_signs(problem(), Bracket(), Budget.of_work(0.1)).certificate)
    in_norm_1 = Problem.of(network(), BOX, C, norm="1")
    case = relaxed(case_of(in_norm_1, 0, 1), "backward")
    assert isinstance(case.proof, Multipliers)
    proved = (ProvedCase(0, 1, case.proof, case.upper),)
    found["cases"] = arrays_of(prove_cases(in_norm_1, "backward", case_table(in_norm_1), proved))
    found["partition"] = dict(partition(network(), BOX, cells=2, output=0).certificate.arrays())
    margin = MarginProof(C, float(linear_margins(network(), BOX, C[None, :])[1][0]))
    with np.load(io.BytesIO(certificate_of(network(), BOX, (margin,)).to_bytes())) as file:
        found["margins"] = dict(file)
    return found


def written(folder: Path, arrays: Arrays) -> Path:
    path = folder / "odd.npz"
    np.savez_compressed(path, allow_pickle=False, **mended(dict(arrays)))
    return path


def odd(array: Any) -> list[Any]:
    """The array with numbers that are none, fractions, other shapes, or another type."""
    if array.dtype.kind == "U":
        texts = [np.full(array.shape, text, dtype="U64") for text in ("\U0010ffff", "\n")]
        return [*texts, np.array(["x", "y"]), np.array("x")]
    numbers = array.astype(np.float64)
    spoilt = [numbers.copy() for _ in range(2)]
    for copy, value in zip(spoilt, (np.nan, np.inf), strict=True):
        copy.reshape(-1)[: max(copy.size // 2, 1)] = value
    largest = np.full(array.shape, np.iinfo(np.uint64).max, dtype=np.uint64)
    return [*spoilt, numbers + 0.5, largest, array[None], np.array(0.5)]


@pytest.mark.parametrize("kind", ["linear", "tight", "slopes", "tree", "patterns", "cases", "partition", "margins"])
def test_odd_arrays_are_one_line(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network().save(tmp_path / "net.npz")
    honest = certificates()[kind]
    command = ["verify", str(tmp_path / "odd.npz"), "--network", str(tmp_path / "net.npz")]
    written(tmp_path, honest)
    assert run(command) == 0
    for name, array in honest.items():
        for value in odd(array):
            written(tmp_path, honest | {name: value})
            code, said = run(command), capsys.readouterr()
            assert code in (0, 1, 2), (name, value, said.err)
            assert code != 2 or (said.err.count("\n") == 1 and said.err.strip().isprintable()), (name, said.err)


@pytest.mark.parametrize("name", ["tree", "tree_values", "leaf_kinds", "tree_digest", "method", "norm", "c", "upper"])
def test_odd_arrays_of_old_files_are_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = OLD / "bound" / "exact-everywhere.npz"
    with np.load(path) as file:
        honest = dict(file)
    nets = {lipcert.load(p).sha256: p for p in (OLD / "networks").glob("*.npz")}
    command = ["verify", str(tmp_path / "odd.npz"), "--network", str(nets[str(honest["network"])])]
    written(tmp_path, honest)
    assert run(command) == 0
    for value in odd(honest[name]):
        written(tmp_path, honest | {name: value})
        code, said = run(command), capsys.readouterr()
        assert code in (0, 1, 2), (value, said.err)
        assert code != 2 or (said.err.count("\n") == 1 and said.err.strip().isprintable()), said.err


def test_fractions_are_no_places() -> None:
    assert are_places(np.array([0.0, 2.0, 1.0]), 3)
    for wrong in ([0.5], [3.0], [-1.0], [np.nan], [np.inf], [-0.25]):
        assert not are_places(np.array(wrong), 3)


def test_a_split_is_inside_its_cell() -> None:
    """Else one half is the whole cell again, and a small file asks for it thousands of times."""
    inside = tree_of(network(), (Split(0, 0, 0.3), None, None), (BY_LINES, BY_LINES))
    assert np.isfinite(inside.check(problem()))
    for value in (BOX.lo[0], BOX.hi[0], np.nan):
        asked = tree_of(network(), (Split(0, 0, float(value)), None, None), (BY_LINES, BY_LINES))
        assert asked.check(problem()) == np.inf


def test_trees_of_files_are_limited(tmp_path: Path) -> None:
    depth = tree.MOST_DEPTH + 1
    table = np.array([[0, 0]] * depth + [[-1, 0]] * (depth + 1))
    leaves = depth + 1
    proof = {
        "tree": table,
        "tree_values": np.zeros(len(table)),
        "leaf_kinds": np.zeros(leaves, dtype=np.int64),
        "specifications": np.tile([-1, 0, 0, 0, 0, 0, 0], (leaves, 1)),
    }
    honest = certificates()["tree"]
    none = {"cuts": np.zeros((0, 9), dtype=int), "reductions": np.zeros(0, dtype=int), "names": np.array([""])}
    none |= {"segments": np.zeros((0, 5), dtype=int), "index": np.zeros(0, dtype=int), "numbers": np.zeros(0)}
    path = written(tmp_path, honest | proof | none)
    refuse(path, f"deeper than the limit of {tree.MOST_DEPTH:,}", kind=FileFormatError, reader=load_certificate)
    few = {name: array[:4] if name != "tree" else array for name, array in proof.items()}
    refuse(written(tmp_path, honest | few | none), kind=FileFormatError, reader=load_certificate)


def wide_tree(levels: int, wide: int) -> tuple[Split | None, ...]:
    """In preorder; every level has twice as many nodes as `wide`, and those at its end are split: the others wait."""
    below: dict[tuple[int, int], tuple[float, int]] = {}  # of a node its split, and the place of the lower half
    cells = [(float(BOX.lo[0]), float(BOX.hi[0]))]
    for level in range(levels):
        first = max(0, len(cells) - wide)
        kept, cells = cells[first:], []
        for place, (lo, hi) in enumerate(kept, first):
            value = lo + 0.005 * (hi - lo)
            below[level, place] = (value, len(cells))
            cells += [(lo, value), (value, hi)]
    found: list[Split | None] = []
    waiting = [(0, 0)]
    while waiting:
        level, place = waiting.pop()
        split = below.get((level, place))
        found.append(None if split is None else Split(0, 0, split[0]))
        waiting += [] if split is None else [(level + 1, split[1] + 1), (level + 1, split[1])]
    return tuple(found)


def test_nodes_that_wait_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """However a tree is made, it is checked in little memory."""
    levels, wide, groups = 30, 8, 4
    splits = wide_tree(levels, wide)
    made = tree_of(network(), splits, (BY_LINES,) * splits.count(None))
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most, whole = 0, leaves.Group

    def counted(*parts: Any) -> Any:
        nonlocal most
        level = whole(*parts)
        alive.add(level)
        most = max(most, sum(len(other.cells) for other in alive))
        return level

    upper = made.check(problem())
    monkeypatch.setattr(tree, "_AT_ONCE", wide // 2)
    monkeypatch.setattr(tree, "_WAITING", groups)
    monkeypatch.setattr(leaves, "Group", counted)
    assert made.check(problem()) == pytest.approx(upper, rel=1e-9)
    assert most < 2 * groups * wide + 2 * levels < (levels - 3) * wide


def test_nodes_and_proofs_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, limit, kind in (
        (tree, "MOST_SIGNED_NODES", "tree"),
        (tree, "MOST_SIGNED_NODES", "patterns"),
        (encoding, "MOST_PROOFS", "tree"),
    ):
        path = written(tmp_path, certificates()[kind])
        load_certificate(path)
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, 1)
            refuse(path, "the limit of 1", kind=FileFormatError, reader=load_certificate)


def test_cuts_stand_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = certificates()["tight"]
    cuts = honest["cuts"] if len(honest["cuts"]) else np.array([[1, 0, 1, 2, 0, 1, -1, 0, 0]])
    specifications = honest["specifications"].copy()
    for copies, words in ((1, None), (2, "stands there twice")):
        table = np.concatenate([cuts] * copies)
        specifications[0, 5] = len(table)
        path = written(tmp_path, honest | {"cuts": table, "specifications": specifications})
        if words is None:
            proof = load_certificate(path).proof
        else:
            refuse(path, words, kind=FileFormatError, reader=load_certificate)
    monkeypatch.setattr(encoding, "MOST_CUTS", len(cuts) - 1)
    specifications[0, 5] = len(cuts)
    path = written(tmp_path, honest | {"cuts": cuts, "specifications": specifications})
    refuse(path, f"the limit of {len(cuts) - 1:,}", kind=FileFormatError, reader=load_certificate)
    twice = Cuts(np.concatenate([cuts, cuts]))
    with pytest.raises(lipcert.LipcertError, match="these cuts"):
        build(problem(), replace(proof.specification, cuts=twice))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "names", "words"),
    [
        ("cases", ("cases", "specifications", "segments"), "same output and coordinate"),
        ("tight", ("segments", "index", "numbers"), "twice"),
        ("slopes", ("slope_parts", "slope_numbers", "slope_steps"), "same case"),
    ],
)
def test_nothing_stands_there_twice(kind: str, names: tuple[str, ...], words: str, tmp_path: Path) -> None:
    honest = certificates()[kind]
    twice = {name: np.concatenate([honest[name], honest[name]]) for name in names}
    if kind == "cases":
        twice |= {
            "cuts": np.concatenate([honest["cuts"]] * 2),
            "reductions": np.concatenate([honest["reductions"]] * 2),
        }
        twice |= {"index": np.concatenate([honest["index"]] * 2), "numbers": np.concatenate([honest["numbers"]] * 2)}
        twice["segments"][len(honest["segments"]) :, 0] += len(honest["cases"])
    refuse(written(tmp_path, honest | twice), words, kind=FileFormatError, reader=load_certificate)


@pytest.mark.parametrize(
    "twice",
    [
        {"nogood_literals": np.array([[0, 1, 1], [0, 1, 1]])},
        {"nogood_rows": np.array([[0, 1], [0, 1]]), "nogood_numbers": np.ones(2)},
    ],
    ids=["literals", "rows"],
)
def test_nogoods_name_nothing_twice(twice: Arrays, tmp_path: Path) -> None:
    honest = certificates()["patterns"]
    once = {name: array[:1] for name, array in twice.items()}
    load_certificate(written(tmp_path, honest | once))
    refuse(written(tmp_path, honest | twice), "twice", kind=FileFormatError, reader=load_certificate)


def test_nogoods_that_no_leaf_names_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    system = nogoods.System.of(problem())
    assert system is not None
    rows = np.array([[3, 0], [5, 1], [1 << 19, 2]])
    many = nogoods.Nogoods(1 << 20, np.zeros((0, 3), dtype=np.int64), rows, np.ones(3))
    looked: list[int] = []
    largest = nogoods.System.largest

    def counted(self: nogoods.System, y: Any, *rest: Any) -> Any:
        looked.append(len(y))
        return largest(self, y, *rest)

    monkeypatch.setattr(nogoods.System, "largest", counted)
    assert not np.any(many.proved(system, np.array([3, 4, 7])))  # of which only one has multipliers
    assert sum(looked) == 1
    assert not np.any(many.proved(system))
    assert sum(looked) == 1 + len(rows)


def test_covers_are_not_deeper_than_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Box([0.0], 1.0)
    ends = 1.0 - 0.5 ** np.arange(1, 11)
    coordinate = np.array([0, *([-1, 0] * 9), -1, -1])
    value = np.zeros(len(coordinate))
    value[coordinate == 0] = ends
    chain, net = Tree(coordinate, value, Grid((np.array([-1.0, 1.0]),))), Network.from_weights([np.ones((1, 1))])
    assert chain.fault(net, asked) is None
    monkeypatch.setattr("lipcert.proof.tree.MOST_DEPTH", 9)
    assert "9 times" in str(chain.fault(net, asked))


def test_cells_are_checked_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many cells a file has: groups of them, those below before the next."""
    from lipcert.proof import partition as proofs

    net, region = network(), Box([0.0, 0.0], 1.0)
    found = partition(net, region, cells=5, output=0, gap=0.1, max_cells=60)
    kept: PartitionCertificate = found.certificate
    whole = kept.verify(net)
    assert whole.proved
    groups: list[int] = []
    on = proofs.preactivations_on

    def counted(asked: proofs.BoxQuestion, places: Any, signs: Any) -> Any:
        groups.append(len(signs))
        return on(asked, places, signs)

    monkeypatch.setattr("lipcert.proof.partition.preactivations_on", counted)
    monkeypatch.setattr("lipcert.proof.cells._NUMBERS", 7 * net.neurons)
    again = kept.verify(net)
    assert max(groups) <= 7
    assert again.proved
    np.testing.assert_allclose(again.found.hi, whole.found.hi, rtol=1e-9)
