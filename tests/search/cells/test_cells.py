"""Constants on all cells: against enumeration and samples, covers without gaps, jobs that are killed, bad input."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lipcert
from lipcert import Box, Everywhere, InputError, Network, Status, partition
from lipcert.bounds import Interval, linear_bounds, slope_bounds
from lipcert.bounds.gradients import OPEN_UP_TO, vertex_bounds
from lipcert.chart.render import document
from lipcert.cli.app import run
from lipcert.jobs import JobFolder
from lipcert.problem.norms import Norm
from lipcert.proof.cells import Grid
from lipcert.proof.tree import LEAF, Tree
from lipcert.report.heatmap import cell_map
from lipcert.rounding import Array
from lipcert.search import boxes as search
from lipcert.search.cells.result import Partition
from tests.enumeration import exact_constant, operator
from tests.problems import net_of
from tests.strategies import SMOOTH, branched_networks, small_cases

NORMS = ("inf", "2", "1")


def sampled(net: Network, found: Partition, norm: Norm, c: Array, seed: int = 0) -> Array:
    """The largest norm at some points of every cell."""
    rng = np.random.default_rng(seed)
    best = np.zeros(len(found))
    for _ in range(4):
        points = rng.uniform(found.lo, found.hi)
        if norm.out is None:
            values = norm.dual.of(np.broadcast_to(net.gradient(points, c), points.shape))
        else:
            rows = np.stack([np.broadcast_to(net.gradient(points, e), points.shape) for e in c], axis=1)
            values = np.array([operator(J, norm) for J in rows])
        best = np.maximum(best, values)
    return best


def test_a_grid_against_enumeration() -> None:
    """Every cell's bracket holds the exact constant of that cell."""
    net, box = net_of(2, 5, 4, 2, seed=3), Box([0.1, -0.2], [1.0, 0.7])
    for norm in NORMS:
        found = partition(net, box, cells=(4, 3), gap=0.05, output=1, norm=norm)
        assert len(found) == 12
        assert found.status is Status.DONE
        for k in range(12):
            exact = exact_constant(net, Box.from_bounds(found.lo[k], found.hi[k]), np.eye(2)[1], Norm(norm))
            assert found.lower[k] <= exact * (1 + 1e-9)
            assert exact <= found.upper[k] * (1 + 1e-9)
        assert np.all(found.good)
        assert found.certificate.verify(net).proved


@settings(max_examples=15)
@given(small_cases(kinds=("relu", "leaky_relu", *SMOOTH)), st.sampled_from(NORMS), st.booleans())
def test_cells_of_random_networks(case: tuple[Network, Box, Array], norm: str, adaptive: bool) -> None:
    net, box, c = case
    how: dict[str, Any] = {"gap": 0.2, "max_cells": 30} if adaptive else {"cells": 2}
    found = partition(net, box, output=c, norm=norm, **how)
    assert np.all(found.lower <= found.upper)
    assert np.all(sampled(net, found, Norm(norm), c) <= found.upper * (1 + 1e-9))
    answer = found.certificate.verify(net)
    assert answer.proved or not np.all(np.isfinite(found.upper)), answer.reason


@settings(max_examples=10)
@given(branched_networks(), st.sampled_from(NORMS), st.sampled_from(NORMS))
def test_whole_maps_with_branches(case: tuple[Network, Box, Array], p: str, q: str) -> None:
    net, box, _ = case
    found = partition(net, box, cells=2, largest=0.1, max_cells=24, output="all", norm=p, output_norm=q)
    assert np.all(sampled(net, found, Norm(p, q), np.eye(net.outputs)) <= found.upper * (1 + 1e-9))
    assert found.certificate.verify(net).proved


def test_weights_and_changed_inputs() -> None:
    """In the units of the weights the cells are those of the scaled network."""
    net, box = net_of(3, 6, 5, 2, seed=1), Box(np.zeros(3), 1.0)
    w = np.array([2.0, 0.5, 4.0])
    found = partition(net, box, cells=3, output=0, norm="2", input_weights=w)
    points = np.random.default_rng(0).uniform(found.lo, found.hi)
    sizes = np.linalg.norm(net.gradient(points, np.eye(2)[0]) / w, axis=1)
    assert np.all(sizes <= found.upper)
    assert np.all(found.lower > 0)
    assert found.certificate.verify(net).proved
    assert found.to_dict()["weights"]["input_weights"] == w.tolist()
    some = partition(net, box, cells=3, output="all", norm="2", inputs=[1], output_weights=[1.0, 3.0])
    columns = np.stack([net.gradient(points, e)[:, 1] for e in np.eye(2)], axis=1) * [1.0, 3.0]
    assert np.all(np.linalg.norm(columns, axis=1) <= some.upper)
    assert some.certificate.verify(net).proved
    P = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 0.5]])
    full = partition(net, box, gap=0.3, output=0, norm="2", input_weights=P, max_cells=200)
    g = net.gradient(points, np.eye(2)[0])
    assert np.all(np.sqrt(np.sum(g * np.linalg.solve(P, g.T).T, axis=1)) <= full.constant_at(points) * (1 + 1e-9))
    assert np.all(full.lower <= full.upper)
    assert full.certificate.verify(net).proved


def test_a_network_without_neurons() -> None:
    net = Network.from_weights([np.array([[1.0, -2.0], [0.0, 3.0]])])
    found = partition(net, Box([0.0, 0.0], 1.0), cells=2, output=0)
    assert found.upper == pytest.approx([3.0] * 4)
    assert found.certificate.verify(net).proved


@settings(max_examples=25)
@given(small_cases(kinds=("relu", "leaky_relu", "tanh")), st.sampled_from(NORMS))
def test_the_ends_of_open_slopes(case: tuple[Network, Box, Array], p: str) -> None:
    """No choice of slopes between their ends has a longer gradient, and where it is used it is not idle."""
    net, _, c = case
    rng = np.random.default_rng(0)
    slopes = []
    for block in net.hidden:
        lo = rng.uniform(-0.2, 1.0, size=(3, block.width))
        slopes.append(Interval(lo, np.where(rng.uniform(size=lo.shape) < 0.5, lo, lo + rng.uniform(size=lo.shape))))
    upper = vertex_bounds(net, slopes, Norm(p), c)
    for _ in range(20):
        chosen = [rng.uniform(s.lo, s.hi) for s in slopes]
        sizes = Norm(p).dual.of(np.broadcast_to(net.chain_rule(chosen, c), (3, net.inputs)))
        assert np.all(sizes <= upper * (1 + 1e-9))
    count = sum((s.hi > s.lo).sum(axis=1) for s in slopes)
    assert np.array_equal(np.isfinite(upper), (count >= 2) & (count <= OPEN_UP_TO))
    lines = linear_bounds(net, slopes, Norm(p), c).upper
    assert np.all(np.where(np.isfinite(upper), upper, 0.0) <= lines * (1 + 1e-9) + 1e-40)


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.integers(1, 6)), min_size=1, max_size=3),
    st.integers(0, 2**32 - 1),
)
def test_covers_have_no_gaps(sides: list[tuple[float, float, int]], seed: int) -> None:
    """Random splits of random grids: every point of the region lies in its cell, volumes add up, edges are shared."""
    lo = np.array([a for a, _, _ in sides])
    box = Box.from_bounds(lo, lo + [w for _, w, _ in sides])
    try:
        cover = Tree.none(Grid.equal(box, [n for _, _, n in sides], 1000))
    except InputError:
        return  # no room for so many floats
    rng = np.random.default_rng(seed)
    cover = _split_somewhere(cover, rng)
    assert cover.fault(net_of(box.size, 1), box) is None
    low, high, _ = cover.boxes()
    assert np.array_equal(low.min(axis=0), box.lo)
    assert np.array_equal(high.max(axis=0), box.hi)
    wide = box.hi > box.lo
    volumes = np.prod((high - low)[:, wide] / (box.hi - box.lo)[wide], axis=1)
    assert volumes.sum() == pytest.approx(1.0)
    points = np.clip(rng.uniform(box.lo, box.hi, size=(50, box.size)), box.lo, box.hi)
    points[0], points[1] = box.lo, box.hi
    leaf = cover.locate(points)[1]
    assert np.all((low[leaf] <= points) & (points <= high[leaf]))
    assert np.all(cover.locate(points + 2 * (box.hi - box.lo) + 1.0)[1] == -1)


def _split_somewhere(cover: Tree, rng: np.random.Generator) -> Tree:
    """Two levels of splits in the middle of a random coordinate."""
    coordinate, value, first = cover.where, cover.value, 0
    for _ in range(2):
        lo, hi, _root = Tree(coordinate, value, cover.grid).boxes()
        last = np.flatnonzero(coordinate < 0) >= first  # the leaves of the last level
        lo, hi, node = lo[last], hi[last], np.flatnonzero(coordinate < 0)[last]
        i = rng.integers(lo.shape[1], size=len(lo))
        k = np.arange(len(i))
        middle = lo[k, i] / 2 + hi[k, i] / 2
        can = (lo[k, i] < middle) & (middle < hi[k, i]) & (rng.uniform(size=len(i)) < 0.5)
        coordinate, value, first = coordinate.copy(), value.copy(), len(coordinate)
        coordinate[node[can]], value[node[can]] = i[can], middle[can]
        more = 2 * int(can.sum())
        coordinate, value = np.append(coordinate, np.full(more, -1)), np.append(value, np.zeros(more))
    return Tree(coordinate, value, cover.grid)


def test_goals() -> None:
    net, box = net_of(2, 8, 8, 1, seed=5), Box([0.0, 0.0], 1.0)
    by_gap = partition(net, box, gap=0.05)
    low, high = by_gap.largest
    assert by_gap.status is Status.DONE
    assert np.all(by_gap.upper - by_gap.lower <= 0.05 * low)
    assert high <= 1.05 * low
    by_largest = partition(net, box, largest=0.05)
    assert by_largest.status is Status.DONE
    assert by_largest.largest[1] <= 1.05 * by_largest.largest[0]
    assert len(by_largest) < len(by_gap)
    target = 1.02 * high
    by_target = partition(net, box, target=target)
    assert np.all(by_target.upper <= target)
    assert by_target.status is Status.DONE
    few = partition(net, box, gap=1e-6, max_cells=20)
    assert few.status is Status.OPEN
    assert len(few) == 20
    assert "limit of 20" in few.notes[0]
    same = partition(net, box, cells=3, gap=0.05)
    assert len(same) == 9
    assert same.splits > 0
    assert np.all(same.upper <= partition(net, box, cells=3).upper * (1 + 1e-9))


def test_counted_work_repeats_and_covers() -> None:
    net, box = net_of(2, 12, 12, 1, seed=2), Box([0.0, 0.0], 1.0)
    first, second = (partition(net, box, gap=1e-4, work=0.02) for _ in range(2))
    assert first.status is Status.WORK_LIMIT
    assert len(first) > 1
    assert np.array_equal(first.upper, second.upper)
    assert np.array_equal(first.lo, second.lo)
    assert first.certificate.verify(net).proved
    assert np.prod(first.hi - first.lo, axis=1).sum() == pytest.approx(4.0)


def test_interrupted_with_what_is_proved() -> None:
    net, box, seen = net_of(2, 8, 8, 1, seed=5), Box([0.0, 0.0], 1.0), []

    def see(progress: lipcert.Progress) -> None:
        seen.append(progress)
        if len(seen) == 6:
            raise KeyboardInterrupt

    found = partition(net, box, gap=1e-5, on_progress=see)
    assert found.status is Status.INTERRUPTED
    assert len(found) > 1
    assert found.certified
    assert found.certificate.verify(net).proved


def test_where_points_lie_and_what_is_written(tmp_path: Path) -> None:
    net, box = net_of(2, 6, 1, seed=4), Box([0.0, 0.0], 1.0)
    for found in (partition(net, box, cells=(3, 2)), partition(net, box, gap=0.1)):
        rng = np.random.default_rng(1)
        points = rng.uniform(-1, 1, size=(40, 2))
        cell = found.cell_at(points)
        assert np.all((found.lo[cell] <= points) & (points <= found.hi[cell]))
        assert np.array_equal(found.constant_at(points), found.upper[cell])
        assert found.constant_at([[2.0, 0.0]])[0] == np.inf
        assert found.cell_at([2.0, 0.0])[0] == -1
        found.save(tmp_path / "cells.csv")
        table = np.loadtxt(tmp_path / "cells.csv", delimiter=",", skiprows=1)
        assert np.array_equal(table, np.column_stack([found.lo, found.hi, found.lower, found.upper]))
        found.save(tmp_path / "cells.npz")
        with np.load(tmp_path / "cells.npz") as arrays:
            assert np.array_equal(arrays["upper"], found.upper)
        assert json.dumps(found.to_dict(), allow_nan=False)
        assert f"{len(found)} " in repr(found)
        assert "<table>" in found._repr_html_()
        with pytest.raises(InputError, match="rows of 2 numbers"):
            found.cell_at([[1.0, 2.0, 3.0]])
        with pytest.raises(InputError, match=r"\.npz, \.csv or \.json"):
            found.save(tmp_path / "cells.txt")


def test_pictures() -> None:
    net, box = net_of(3, 6, 1, seed=4), Box(np.zeros(3), 1.0)
    found = partition(net, box, cells=4)
    cube = found.upper.reshape(4, 4, 4)
    for at, shown in (({}, cube.max(axis=2)), ({2: 0.1}, cube[:, :, 2])):
        drawing = cell_map(found, (0, 1), at)
        hints = sorted(str(getattr(s, "hint", "")) for s in drawing.shapes if getattr(s, "hint", ""))
        assert hints == sorted(f"at most {lipcert.chart.numbers.up(float(v))}" for v in shown.reshape(-1))
        assert document(drawing).startswith("<svg")
    with pytest.raises(InputError, match="outside the region"):
        cell_map(found, (0, 1), {2: 3.0})


class Killed(BaseException):
    """In place of a signal that cannot be caught."""


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_BLOCK", 8)
    monkeypatch.setattr(search, "_FIRST", 16)


@pytest.mark.usefixtures("small_blocks")
def test_killed_at_any_block_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, box = net_of(2, 8, 8, 1, seed=5), Box([0.0, 0.0], 1.0)
    whole = partition(net, box, gap=0.2, folder=tmp_path / "whole")
    store, stored = JobFolder.store, len(list((tmp_path / "whole" / "pieces").glob("*.json")))
    assert stored > 4
    for moment in (0, 1, stored // 2, stored - 1):
        left = [moment]

        def stop(self: JobFolder, finished: Any, left: list[int] = left) -> Any:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return store(self, finished)

        place = tmp_path / f"killed-{moment}"
        monkeypatch.setattr(JobFolder, "store", stop)
        with pytest.raises(Killed):
            partition(net, box, gap=0.2, folder=place)
        monkeypatch.setattr(JobFolder, "store", store)
        again = partition(net, box, gap=0.2, folder=place, resume=True)
        assert again.resumed == moment
        for name in ("lo", "hi", "upper", "lower", "points"):
            assert np.array_equal(getattr(again, name), getattr(whole, name))
        assert (place / "certificate.npz").read_bytes() == (tmp_path / "whole" / "certificate.npz").read_bytes()


KILLED = """
import os, signal, sys
import numpy as np
from lipcert import Box, load, partition
from lipcert.search import boxes as search
search._BLOCK, search._FIRST = 8, 16
seen = []
def see(progress):
    seen.append(progress)
    if len(seen) == 12:
        os.kill(os.getpid(), signal.SIGKILL)
partition(load(sys.argv[1]), Box([0.0, 0.0], 1.0), gap=0.2, folder=sys.argv[2], on_progress=see)
"""


@pytest.mark.usefixtures("small_blocks")
def test_kill_9(tmp_path: Path) -> None:
    net, box = net_of(2, 8, 8, 1, seed=5), Box([0.0, 0.0], 1.0)
    net.save(tmp_path / "net.npz")
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "net.npz"), str(tmp_path / "job")], check=False
    )
    assert ended.returncode == -signal.SIGKILL
    again = partition(net, box, gap=0.2, folder=tmp_path / "job", resume=True)
    alone = partition(net, box, gap=0.2)
    assert again.resumed > 0
    assert np.array_equal(again.upper, alone.upper)
    assert np.array_equal(again.lo, alone.lo)


@pytest.mark.usefixtures("small_blocks")
def test_nothing_in_a_folder_is_believed(tmp_path: Path) -> None:
    """Blocks that claim less, hold nonsense, or are damaged: the answer stays the same."""
    net, box = net_of(2, 8, 8, 1, seed=5), Box([0.0, 0.0], 1.0)
    whole = partition(net, box, gap=0.2, folder=tmp_path / "job")
    files = sorted((tmp_path / "job" / "pieces").glob("*.npz"))
    for k, path in enumerate(files):
        with np.load(path) as kept:
            arrays = dict(kept)
        if k % 4 == 0:
            arrays["upper"], arrays["lower"] = 0 * arrays["upper"], 9.0 + arrays["lower"]
            arrays["signs"] = np.ones_like(arrays["signs"])
        elif k % 4 == 1:
            arrays["points"] = arrays["points"] + 100.0
        elif k % 4 == 2:
            arrays["choice"] = arrays["choice"] + 7
        np.savez(path, **arrays)
        if k % 4 == 3:
            path.write_bytes(path.read_bytes()[:-40] + bytes(40))
    again = partition(net, box, gap=0.2, folder=tmp_path / "job", resume=True)
    assert np.array_equal(again.upper, whole.upper)
    assert np.array_equal(again.lo, whole.lo)
    assert np.array_equal(again.lower, whole.lower)
    assert 0 < again.resumed < len(files)


def test_processes_give_the_same_cells() -> None:
    net, box = net_of(2, 8, 8, 1, seed=5), Box([0.0, 0.0], 1.0)
    here, there = partition(net, box, cells=8, gap=0.1), partition(net, box, cells=8, gap=0.1, workers=2)
    assert np.array_equal(here.upper, there.upper)
    assert here.splits == there.splits


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cells": 0}, "whole numbers >= 1"),
        ({"cells": [2, 2, 2]}, "one for each"),
        ({"cells": 5000}, "more than the limit of 1,000,000"),
        ({"cells": None}, "no cells"),
        ({"cells": None, "target": 0.0}, "target must be a finite number > 0"),
        ({"target": float("nan")}, "target must be"),
        ({"gap": -1.0}, "gap must be"),
        ({"region": lipcert.Everywhere()}, "only a Box has cells"),
        ({"region": lipcert.Ball([0.0, 0.0], 1.0)}, "only a Box has cells"),
        ({"region": Box.from_bounds([1.0, 0.0], [1.0 + 2**-51, 1.0])}, "have no width"),
        ({"time_limit": 0.0}, "time_limit must be"),
        ({"workers": 0}, "workers must be"),
        ({"max_cells": 0}, "max_cells must be"),
        ({"resume": True}, "resume needs a folder"),
        ({"output": 3}, "label 3"),
        ({"input_weights": [1.0, -1.0], "folder": "job"}, "weights"),
    ],
)
def test_bad_input(change: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given_: dict[str, Any] = {"region": Box([0.0, 0.0], 1.0), "cells": 20, "output": 0} | change
    with pytest.raises(InputError, match=words) as caught:
        partition(net_of(2, 4, 2, seed=0), given_.pop("region"), **given_)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_flat_coordinate_has_one_cell() -> None:
    found = partition(net_of(2, 4, 1, seed=0), Box([0.0, 0.5], [1.0, 0.0]), cells=4)
    assert found.cover.grid is not None
    assert found.cover.grid.shape == (4, 1)
    assert np.all(found.lo[:, 1] == found.hi[:, 1])


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = str(tmp_path / "net.npz")
    net_of(3, 6, 5, 2, seed=1).save(net)
    place = {name: str(tmp_path / f"out.{name}") for name in ("csv", "svg", "npz")}
    proof, folder = str(tmp_path / "proof.npz"), str(tmp_path / "job")
    base = ["cells", net, "--radius", "1", "--output", "0"]
    code = run(
        [
            *base,
            "--cells",
            "3,3,2",
            "--largest",
            "0.5",
            "--json",
            "--csv",
            place["csv"],
            "--npz",
            place["npz"],
            "--plot",
            place["svg"],
            "--axes",
            "0,2",
            "--at",
            "x1=0.5",
            "--certificate",
            proof,
            "--out",
            folder,
        ]
    )
    said = json.loads(capsys.readouterr().out)
    assert code == 0
    assert said["cells"] == 18
    assert all(Path(p).exists() for p in place.values())
    assert run(["verify", proof, "--network", net]) == 0
    assert "18, which cover the region" in capsys.readouterr().out
    assert run(["verify", str(Path(folder) / "certificate.npz"), "--network", net, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["proved"] is True
    other = str(tmp_path / "other.npz")
    net_of(3, 6, 5, 2, seed=2).save(other)
    assert run(["verify", proof, "--network", other]) == 1
    assert "another network" in capsys.readouterr().out
    assert run([*base, "--adaptive", "--gap", "1e-9", "--max-cells", "10"]) == 1
    assert "limit of 10" in capsys.readouterr().out
    assert run([*base, "--adaptive", "--gap", "0.5", "--out", folder]) == 2
    assert "another job" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [
        ["--cells", "0"],
        ["--cells", "x"],
        ["--cells", "2", "--adaptive"],
        [],
        ["--adaptive"],
        ["--adaptive", "--gap", "0.1", "--target", "-1"],
        ["--cells", "999999"],
        ["--cells", "2", "--plot", "a.svg", "--axes", "0,9"],
        ["--cells", "2", "--plot", "a.svg", "--axes", "0,0"],
        ["--cells", "2", "--plot", "a.svg", "--at", "x7=1"],
        ["--cells", "2", "--plot", "a.svg", "--at", "x2=7"],
        ["--cells", "2", "--plot", "a.svg", "--at", "x0=0"],
        ["--cells", "2", "--plot", "a.txt"],
        ["--cells", "2", "--csv", "nowhere/a.csv"],
        ["--cells", "2", "--ball", "--out", "job"],
        ["--cells", "2", "--resume"],
    ],
)
def test_bad_command_lines(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    net_of(3, 6, 5, 2, seed=1).save(tmp_path / "net.npz")
    monkeypatch.chdir(tmp_path)
    assert run(["cells", "net.npz", "--radius", "1", "--output", "0", *more]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert not said.out
    assert [p.name for p in tmp_path.iterdir()] == ["net.npz"]


def test_global_regions_have_no_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net_of(3, 6, 1, seed=1).save(tmp_path / "net.npz")
    for other in (["--global"], ["--radius", "1", "--ball"]):
        assert run(["cells", str(tmp_path / "net.npz"), *other, "--cells", "2"]) == 2
        assert f"{other[-1]}: only a box has cells; give --radius R" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"only a Box has cells; give Box\(center, radius\)"):
        partition(net_of(3, 6, 1, seed=1), Everywhere(), cells=2)  # type: ignore[arg-type]


def test_leaf_that_no_walk_reaches_has_no_finite_bound() -> None:
    """A node behind the end of the tree is no part of the cover; nothing is proved of it, whoever forgot `fault`."""
    from lipcert.proof.partition import BoxQuestion, cover_uppers

    net, box = net_of(2, 8, 1, seed=5), Box([0.3, 0.3], 0.2)
    grid = Tree.none(Grid.equal(box, (2, 2), most=4))
    longer = Tree(np.append(grid.where, LEAF), np.append(grid.value, 0.0), grid.grid)
    assert longer.fault(net, box) is not None
    uppers = cover_uppers(BoxQuestion(net, box, Norm("inf"), np.ones(1)), longer, of_grid=False)
    assert np.all(np.isfinite(uppers[:-1]))
    assert uppers[-1] == np.inf


def test_slopes_of_halves_are_inherited() -> None:
    """Signs pass from a box to its halves: what is known of a neuron is not asked again."""
    from lipcert.proof.partition import BoxQuestion, preactivations_on

    net, box = net_of(2, 8, 8, 1, seed=5), Box([0.3, 0.3], 0.2)
    asked = BoxQuestion(net, box, Norm("inf"), np.ones(1))
    whole = asked.places(box.lo[None], box.hi[None])
    pre, signs = preactivations_on(asked, whole, asked.unknown(1))
    assert signs.any()
    small = Interval(whole.lo, whole.lo / 2 + whole.hi / 2)
    after, later = preactivations_on(asked, small, signs)
    assert np.all((later != 0) | (signs == 0))
    for a, b in zip(slope_bounds(net, after), slope_bounds(net, pre), strict=True):
        assert np.all(a.lo >= b.lo)
        assert np.all(a.hi <= b.hi)
