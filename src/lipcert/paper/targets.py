"""The targets: which entries each table and figure is made of, in full and for a quick look."""

from __future__ import annotations

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


_FIVE, _TENS = (4, 8, 12, 16, 20), (10, 20, 30, 40, 50, 60, 70, 80)

Grid = tuple[int, int, tuple[int, ...], tuple[str, ...]]  # hidden layers, size, sparsities, methods

# By table1, or by the number of hidden layers of a figure.
_FULL: dict[str, tuple[Grid, ...]] = {
    "table1": (
        (1, 80, TABLE1_SPARSITIES, (LBS, HR2, LIPOPT3, LIPOPT4, OURS)),
        (2, 40, TABLE1_SPARSITIES, (LBS, HR1, LIPOPT3, LIPOPT4, OURS)),
    ),
    "1": (
        (1, 10, _FIVE, ONE_LAYER),
        (1, 20, (8, 16, 24, 32, 40), ONE_LAYER),
        (1, 40, _TENS, ONE_LAYER),
        (1, 80, _TENS, ONE_LAYER),
    ),
    "2": (
        (2, 10, _FIVE, TWO_LAYERS),
        (2, 20, (*_FIVE, 24, 28, 32, 36, 40), TWO_LAYERS),
        (2, 30, _TENS[:6], TWO_LAYERS),
        (2, 40, _TENS, TWO_LAYERS),
    ),
}
# For a quick look: what is known not to end within seconds is left out.
_QUICK: dict[str, tuple[Grid, ...]] = {
    "table1": (
        (1, 80, TABLE1_SPARSITIES, (LBS, HR2, OURS)),
        (2, 40, TABLE1_SPARSITIES, (LBS, LIPOPT3, OURS)),
    ),
    "1": (
        (1, 10, (4, 12, 20), ONE_LAYER),
        (1, 20, (8, 24, 40), (LBS, SHOR, HR2, LIPOPT3, OURS)),
        (1, 40, (20, 80), (LBS, SHOR, HR2, OURS)),
        (1, 80, (20, 80), (LBS, SHOR, HR2, OURS)),
    ),
    "2": (
        (2, 10, (4, 12, 20), (LBS, HR1, LIPOPT3, OURS)),
        (2, 20, (8, 40), (LBS, LIPOPT3, OURS)),
        (2, 40, (20, 80), (LBS, LIPOPT3, OURS)),
    ),
}


def check_target(name: str) -> tuple[str, ...]:
    """The targets that a name means."""
    if name == "all":
        return TARGETS
    if name not in TARGETS:
        raise InputError(f"unknown target {name!r}; use one of {', '.join(TARGETS)}, all")
    return (name,)


def target_entries(target: str, quick: bool) -> list[Entry]:
    """The entries of a target on random networks; none for the trained ones."""
    region, kind = target.split("-")[1:] if target in FIGURES else ("global", target)
    return [
        Entry(Random(layers, size, sparsity, seed), region, method)
        for layers, size, sparsities, methods in (_QUICK if quick else _FULL).get(kind, ())
        for sparsity, method, seed in product(sparsities, methods, range(QUICK_SEEDS if quick else SEEDS))
    ]
