"""A verb of its own: max |f| on a box. It takes this file and one entry in the table of commands.

The search brings the order of the cells, the splits, budgets, Ctrl-C, workers and job folders.
"""

from __future__ import annotations

import sys
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from lipcert import Box, Network, Status, load
from lipcert.bounds.interval import Interval
from lipcert.bounds.propagation import box_bounds
from lipcert.budget import Budget
from lipcert.cli.app import COMMANDS, run
from lipcert.jobs import JobFolder, local, processes
from lipcert.proof.cells import Cells, Grid
from lipcert.proof.margins import with_margins
from lipcert.proof.tree import Tree
from lipcert.rounding import Array
from lipcert.search.blocks import BlockRunner, Found, Hints
from lipcert.search.boxes import BoxSearch, CellGoal
from lipcert.search.scores import best_coordinates
from tests.problems import net_of


@dataclass(frozen=True, eq=False)
class LargestValue:
    """The objective: max |c'scores| on every cell, by intervals of one more layer; seen at the middle of the cell."""

    net: Network
    c: Array
    batch: int = 1024
    sign_columns: int = 0

    @property
    def operations(self) -> float:
        return 10.0 * self.net.entries * self.net.inputs

    def _values(self, lo: Array, hi: Array) -> Interval:
        net = with_margins(self.net, self.c[None])
        nothing = tuple(
            Interval(np.full((len(lo), b.width), -np.inf), np.full((len(lo), b.width), np.inf)) for b in net.hidden
        )
        return box_bounds(net, Interval(lo, hi), nothing)[-1]

    def bound(self, cells: Cells, hints: Hints | None = None) -> Found:
        points = cells.lo / 2 + cells.hi / 2 if hints is None else hints[0]
        choice = best_coordinates(cells.lo, cells.hi, np.zeros_like(cells.lo)) if hints is None else hints[1]
        upper = self._values(cells.lo, cells.hi).magnitude[:, 0]
        return Found(upper, self._values(points, points).mignitude[:, 0], points, choice, cells.signs)


def largest_value(
    net: Network,
    box: Box,
    *,
    gap: float,
    work: float = 5.0,
    executor: Executor | None = None,
    folder: JobFolder | None = None,
) -> BoxSearch:
    """The verb: lower <= max |f| <= upper, where f is the first score."""
    objective = LargestValue(net, np.eye(net.outputs)[0])
    runner = BlockRunner(objective, local() if executor is None else executor, folder)
    region = Tree.none(Grid.equal(box, [1] * box.size, 1))
    search = BoxSearch(runner, region, CellGoal(largest=gap), of_grid=False, most=100_000)
    search.run(Budget.of_work(work))
    return search


@click.command("largest")
@click.argument("network")
@click.option("--radius", type=float, required=True)
def largest_command(network: str, radius: float) -> None:
    """Bound max |f| on the box of this radius around zero."""
    net = load(network)
    found = largest_value(net, Box(np.zeros(net.inputs), radius), gap=0.1)
    click.echo(f"{found.top:.6g} <= max |f| <= {found.leaves.upper.max():.6g}")


NET, BOX = net_of(2, 8, 6, 2, seed=3), Box([0.1, -0.2], 1.0)


def test_it_encloses_the_largest_value() -> None:
    found = largest_value(NET, BOX, gap=0.02)
    assert found.status is Status.DONE
    assert found.splits > 10
    points = np.random.default_rng(0).uniform(BOX.lo, BOX.hi, size=(5000, 2))
    seen = np.abs(NET.forward(points)[:, 0]).max()
    upper = found.leaves.upper.max()
    assert seen <= upper <= 1.02 * found.top
    assert found.top <= upper
    assert found.leaves.cover()[0].count == len(found.leaves)


def test_limits_workers_and_folders_come_with_the_search(tmp_path: Path) -> None:
    assert largest_value(NET, BOX, gap=1e-6, work=1e-5).status is Status.WORK_LIMIT
    here = largest_value(NET, BOX, gap=0.02)
    with processes(2) as executor:
        there = largest_value(NET, BOX, gap=0.02, executor=executor)
    assert np.array_equal(here.leaves.upper, there.leaves.upper)
    for resume in (False, True):
        with JobFolder.open(tmp_path / "job", "largest", {"network": NET.sha256}, resume=resume) as folder:
            kept = largest_value(NET, BOX, gap=0.02, folder=folder)
        assert np.array_equal(here.leaves.upper, kept.leaves.upper)
        assert (kept.runner.resumed > 0) == resume


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    place: Any = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "lipcert.cli.largest", place)
    monkeypatch.setitem(COMMANDS, "largest", "Bound max |f| on a box.")
    NET.save(tmp_path / "net.npz")
    assert run(["largest", str(tmp_path / "net.npz"), "--radius", "0.5"]) == 0
    assert "<= max |f| <=" in capsys.readouterr().out
