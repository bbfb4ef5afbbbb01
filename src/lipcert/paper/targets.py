"""The targets: which entries each table and figure is made of, in which order they are computed, and which are not.

In full there are days of work. Published entries come first, and cheap ones before the rest; then the entries that were
not published, and last those that take minutes, both network by network, so that a run that is stopped has something of
every row. An entry whose program is that of another one takes its outcome. A method that ran out of time or memory
twice on networks that are no larger is not tried on larger ones: they are *not tried*, and a run with other limits asks
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from lipcert.errors import InputError
from lipcert.jobs import Outcome, Piece
from lipcert.paper.entries import HR1, HR2, LBS, LIPOPT3, LIPOPT4, METHODS, OURS, SHOR, RandomNetwork, TargetEntry
from lipcert.paper.estimators import MEMORY, NOT_TRIED, TIME, WITHOUT_X, estimate_of
from lipcert.paper.published import TABLE1, TABLE1_SPARSITIES, random_networks

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


def target_entries(target: str, quick: bool) -> list[TargetEntry]:
    """The entries of a target on random networks; none for the trained ones."""
    region, kind = target.split("-")[1:] if target in FIGURES else ("global", target)
    return [
        TargetEntry(RandomNetwork(layers, size, sparsity, seed), region, method)
        for layers, size, sparsities, methods in (_QUICK if quick else _FULL).get(kind, ())
        for sparsity, method, seed in product(sparsities, methods, range(QUICK_SEEDS if quick else SEEDS))
    ]


TRIES = 2
_SMALL = 10  # networks of at most this size take seconds where larger ones take minutes
_ANYTIME = (LBS, OURS)  # they always have something to say
_Family = tuple[int, str, str]  # hidden layers, region, method


def in_order(entries: Iterable[TargetEntry]) -> list[TargetEntry]:
    """Published before not published, cheap before dear; network by network, small before large."""
    return sorted(entries, key=_place)


def _place(entry: TargetEntry) -> tuple[int, int, int, int, int]:
    network, method = entry.network, METHODS.index(entry.method)
    if not isinstance(network, RandomNetwork):
        return (0, 0, 0, 0, method)
    known, cheap, dear = _published(entry, network), _is_cheap(entry, network), _is_dear(entry, network)
    stage = (4 if _may_be_hr1(entry) else 3) if dear else 2 if not known else 0 if cheap else 1
    return (stage, network.seed, network.sparsity, network.size, method)


def _is_cheap(entry: TargetEntry, network: RandomNetwork) -> bool:
    return entry.method in (LBS, SHOR) or (entry.method == HR2 and network.layers == 1)


def _is_dear(entry: TargetEntry, network: RandomNetwork) -> bool:
    return network.size > _SMALL and (entry.method == LIPOPT4 or (network.layers == 2 and entry.method in (HR1, HR2)))


def _published(entry: TargetEntry, network: RandomNetwork) -> bool:
    """Whether this very value was published, or a statistic that it is part of, or one that ours goes beside."""
    if entry.region == "global" and network.sparsity in TABLE1_SPARSITIES:
        for line in TABLE1:
            shown = (line.layers, line.size) == (network.layers, network.size) and entry.method in (line.method, OURS)
            if shown and (network.seed == 0 or (line.statistic == "mean" and entry.method != OURS)):
                return True
    methods = METHODS if entry.method == OURS else (entry.method,)
    keys = ((network.layers, entry.region, network.size, network.sparsity, method) for method in methods)
    values = [found for key in keys if (found := random_networks().get(key)) is not None]
    whole = entry.method != OURS and any(found.median is not None for found in values)
    return whole or any(found.of(network.seed) is not None for found in values)


class KnownOutcomes:
    """Called before an entry is computed: its outcome where another entry has the same, or it is not worth the time."""

    def __init__(self, entries: Iterable[TargetEntry]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._given_up = GivenUp(self._entries.values())

    def __call__(self, piece: Piece, outcomes: Mapping[str, Outcome]) -> Outcome | None:
        return _outcome_of_hr1(self._entries[piece.name], outcomes) or self._given_up(piece, outcomes)


def _may_be_hr1(entry: TargetEntry) -> bool:
    """Without x, HR-2 of two hidden layers is HR-1."""
    network = entry.network
    return (
        isinstance(network, RandomNetwork) and network.layers == 2 and (entry.region, entry.method) == ("global", HR2)
    )


def _outcome_of_hr1(entry: TargetEntry, outcomes: Mapping[str, Outcome]) -> Outcome | None:
    first = outcomes.get(TargetEntry(entry.network, entry.region, HR1).name) if _may_be_hr1(entry) else None
    if first is None or first.value is None or not str(first.value["note"]).endswith(WITHOUT_X):
        return None
    return Outcome(entry.name, first.value, None, first.seconds)


class GivenUp:
    """Called before an entry is computed: its outcome where smaller ones of the same method ran out of their limits.

    An entry is given up when `TRIES` entries of the method, region and depth with no more neurons and no larger
    sparsity ran out, and none at least as large as the smallest of them ended well.
    """

    def __init__(self, entries: Iterable[TargetEntry]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._lost: dict[_Family, dict[str, RandomNetwork]] = {}
        self._won: dict[_Family, dict[str, RandomNetwork]] = {}
        self._seen: set[str] = set()

    def __call__(self, piece: Piece, outcomes: Mapping[str, Outcome]) -> Outcome | None:
        entry = self._entries[piece.name]
        if not isinstance(entry.network, RandomNetwork) or entry.method in _ANYTIME:
            return None
        self._learn(outcomes)
        lost = self._in_the_way(_family(entry), entry.network)
        if not lost:
            return None
        names = sorted(network.name for network in lost)[:TRIES]
        note = f"{' and '.join(names)} ran out of time or memory"
        return Outcome(entry.name, {"ended": NOT_TRIED, "note": note}, None, 0.0)

    def _learn(self, outcomes: Mapping[str, Outcome]) -> None:
        for name in outcomes.keys() - self._seen:
            self._seen.add(name)
            entry = self._entries.get(name)
            if entry is None or not isinstance(entry.network, RandomNetwork):
                continue
            ended = estimate_of(outcomes[name]).ended
            if ended in (TIME, MEMORY):
                self._lost.setdefault(_family(entry), {})[name] = entry.network
            elif not ended:
                self._won.setdefault(_family(entry), {})[name] = entry.network

    def _in_the_way(self, family: _Family, network: RandomNetwork) -> list[RandomNetwork]:
        below = [n for n in self._lost.get(family, {}).values() if _no_larger(n, network)]
        won = self._won.get(family, {}).values()
        for least in below:
            between = [n for n in below if _no_larger(least, n)]
            if len(between) >= TRIES and not any(_no_larger(least, n) for n in won):
                return between
        return []


def _family(entry: TargetEntry) -> _Family:
    assert isinstance(entry.network, RandomNetwork)
    return entry.network.layers, entry.region, entry.method


def _no_larger(one: RandomNetwork, other: RandomNetwork) -> bool:
    return one.size <= other.size and one.sparsity <= other.sparsity
