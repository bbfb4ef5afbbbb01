"""The networks of [CLMP20] are regenerated exactly: the published sampled lower bounds come out to six digits."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from lipcert.errors import InputError
from lipcert.paper.entries import SAMPLES, paper_center, paper_network, paper_region, paper_samples
from lipcert.problem.problem import Problem
from lipcert.witness import sample_points
from tests.conftest import ROOT
from tests.problems import Cell, published

# The published networks: size -> sparsities. Seeds 0..9, (80, 80) 0..4.
SPARSITIES: dict[int, tuple[int, ...]] = {
    10: (4, 8, 12, 16, 20),
    20: (8, 16, 24, 32, 40),
    80: (10, 20, 30, 40, 50, 60, 70, 80),
}
SPARSITIES_TWO_LAYERS: dict[int, tuple[int, ...]] = {
    10: (4, 8, 12, 16, 20),
    20: (4, 8, 12, 16, 20, 24, 28, 32, 36, 40),
}


def sampled(size: int, sparsity: int, seed: int, layers: int) -> float:
    net = paper_network(size, sparsity, seed, layers)
    points = paper_samples(size, seed, layers)
    return sample_points(Problem.of(net, paper_region(size, seed, "global")), points).value


@pytest.mark.parametrize("cell", published("LBS"), ids=str)
def test_published_sampling(cell: Cell) -> None:
    assert sampled(cell.size, cell.sparsity, cell.seed, cell.layers) == pytest.approx(cell.value, abs=1e-5)


@pytest.mark.parametrize(("name", "layers"), [("one_hidden_layer.csv", 1), ("two_hidden_layers.csv", 2)])
def test_published_tables(name: str, layers: int) -> None:
    folder = Path(os.environ.get("LIPCERT_REFERENCE", ROOT.parent / "shared" / "reference"))
    if not (folder / name).exists():
        pytest.skip(f"{folder / name} is not there; set LIPCERT_REFERENCE to its folder")
    with (folder / name).open() as file:
        rows = [r for r in csv.DictReader(file) if (r["method"], r["region"]) == ("LBS", "global")]
    known = SPARSITIES if layers == 1 else SPARSITIES_TWO_LAYERS
    assert {(int(r["size"]), int(r["sparsity"])) for r in rows} == {(n, s) for n in known for s in known[n]}
    small = [r for r in rows if int(r["size"]) < 80 and int(r["seed"]) == 3][::3]
    for r in small:
        cell = (int(r["size"]), int(r["sparsity"]), int(r["seed"]), layers)
        assert sampled(*cell) == pytest.approx(float(r["bound"]), abs=1e-5), cell


def test_the_stream_does_not_depend_on_how_it_is_cut() -> None:
    whole = next(paper_samples(10, 0, chunk=SAMPLES))
    pieces = np.concatenate(list(paper_samples(10, 0, chunk=777)))
    assert np.array_equal(whole, pieces)
    assert whole.shape == (SAMPLES, 10)
    assert whole.min() >= 0
    assert whole.max() <= 10


def test_shapes_bands_and_regions() -> None:
    assert paper_network(20, 8, 0).shape == (20, 20, 1)
    assert paper_network(20, 8, 0, 2).shape == (20, 20, 10, 1)
    row, column = np.nonzero(np.asarray(paper_network(20, 8, 0).affines[0].weight))
    assert np.abs(row - column).max() == 3
    center = paper_center(20, 5)
    assert paper_region(20, 5, "local").contains(center + 0.1)
    assert not paper_region(20, 5, "local").contains(center + 0.11)
    with pytest.raises(InputError, match="local"):
        paper_region(20, 5, "nowhere")
    with pytest.raises(InputError, match="layers"):
        paper_network(20, 8, 0, 3)
