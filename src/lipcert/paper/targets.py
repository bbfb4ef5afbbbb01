"""The targets: which entries each table and figure is made of, in full and for a quick look."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from lipcert.errors import InputError
from lipcert.paper.entries import HR1, HR2, LBS, LIPOPT3, LIPOPT4, OURS, SHOR, Entry, Random
from lipcert.paper.published import TABLE1_SPARSITIES

FIGURES = ("figure-global-1", "figure-local-1", "figure-global-2", "figure-local-2")
TARGETS = ("table1", "table2", "table3", "table4", *FIGURES, "matrix")
NEEDS_IMAGES = ("table2", "table4", "matrix")
SEEDS, QUICK_SEEDS = 10, 2

ONE_LAYER = (LBS, SHOR, HR2, LIPOPT3, LIPOPT4, OURS)
TWO_LAYERS = (LBS, HR1, HR2, LIPOPT3, LIPOPT4, OURS)


@dataclass(frozen=True)
class Grid:
    """Networks of one size: sparsities and methods."""

    size: int
    sparsities: tuple[int, ...]
    methods: tuple[str, ...]


_TENS = (10, 20, 30, 40, 50, 60, 70, 80)
FULL: dict[int, tuple[Grid, ...]] = {
    1: (
        Grid(10, (4, 8, 12, 16, 20), ONE_LAYER),
        Grid(20, (8, 16, 24, 32, 40), ONE_LAYER),
        Grid(40, _TENS, ONE_LAYER),
        Grid(80, _TENS, ONE_LAYER),
    ),
    2: (
        Grid(10, (4, 8, 12, 16, 20), TWO_LAYERS),
        Grid(20, (4, 8, 12, 16, 20, 24, 28, 32, 36, 40), TWO_LAYERS),
        Grid(30, (10, 20, 30, 40, 50, 60), TWO_LAYERS),
        Grid(40, _TENS, TWO_LAYERS),
    ),
}
# For a quick look: what is known not to end within seconds is left out.
QUICK: dict[int, tuple[Grid, ...]] = {
    1: (
        Grid(10, (4, 12, 20), ONE_LAYER),
        Grid(20, (8, 24, 40), (LBS, SHOR, HR2, LIPOPT3, OURS)),
        Grid(40, (20, 80), (LBS, SHOR, HR2, OURS)),
        Grid(80, (20, 80), (LBS, SHOR, HR2, OURS)),
    ),
    2: (
        Grid(10, (4, 12, 20), (LBS, HR1, LIPOPT3, OURS)),
        Grid(20, (8, 40), (LBS, LIPOPT3, OURS)),
        Grid(40, (20, 80), (LBS, LIPOPT3, OURS)),
    ),
}
# Table 1: methods of its two halves. Quick: HR-1 and LipOpt-4 take minutes there.
_TABLE1 = {1: (LBS, HR2, LIPOPT3, LIPOPT4, OURS), 2: (LBS, HR1, LIPOPT3, LIPOPT4, OURS)}
_TABLE1_QUICK = {1: (LBS, HR2, OURS), 2: (LBS, LIPOPT3, OURS)}


def check_target(name: str) -> tuple[str, ...]:
    """The targets that a name means."""
    if name == "all":
        return TARGETS
    if name not in TARGETS:
        raise InputError(f"unknown target {name!r}; use one of {', '.join(TARGETS)}, all")
    return (name,)


def target_entries(target: str, quick: bool) -> list[Entry]:
    """The entries of a target on random networks; none for the trained ones."""
    seeds = range(QUICK_SEEDS if quick else SEEDS)
    if target == "table1":
        methods = _TABLE1_QUICK if quick else _TABLE1
        grids = [(1, Grid(80, TABLE1_SPARSITIES, methods[1])), (2, Grid(40, TABLE1_SPARSITIES, methods[2]))]
        return [entry for layers, grid in grids for entry in _entries(layers, grid, "global", seeds)]
    if target not in FIGURES:
        return []
    region, layers = target.split("-")[1], int(target[-1])
    chosen = (QUICK if quick else FULL)[layers]
    return [entry for grid in chosen for entry in _entries(layers, grid, region, seeds)]


def _entries(layers: int, grid: Grid, region: str, seeds: range) -> list[Entry]:
    return [
        Entry(Random(layers, grid.size, sparsity, seed), region, method)
        for sparsity, method, seed in product(grid.sparsities, grid.methods, seeds)
    ]
