"""In which order the entries are computed, and which are not.

In full there are days of work. What was published comes first, what costs little before the rest; then what was not
published, and last what takes minutes, both network by network, so that a run that is stopped has something of every
row. An entry whose program is that of another one takes its outcome. A method that ran out of time or memory twice on
networks that are no larger is not tried on larger ones: they are *not tried*, and a run with other limits asks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lipcert.jobs import Outcome, Piece
from lipcert.paper.entries import HR1, HR2, LBS, LIPOPT4, METHODS, OURS, SHOR, Entry, Random
from lipcert.paper.estimators import TIME, WITHOUT_X
from lipcert.paper.findings import MEMORY, NOT_TRIED, estimate_of
from lipcert.paper.published import TABLE1, TABLE1_SPARSITIES, random_networks

TRIES = 2
_SMALL = 10  # what takes minutes on larger networks takes seconds here
_ANYTIME = (LBS, OURS)  # they always have something to say
_Family = tuple[int, str, str]  # hidden layers, region, method


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Published before not published, cheap before dear; network by network, small before large."""
    return sorted(entries, key=_place)


def _place(entry: Entry) -> tuple[int, int, int, int, int]:
    network, method = entry.network, METHODS.index(entry.method)
    if not isinstance(network, Random):
        return (0, 0, 0, 0, method)
    known, cheap, dear = _published(entry, network), _is_cheap(entry, network), _is_dear(entry, network)
    stage = (4 if _may_be_hr1(entry) else 3) if dear else 2 if not known else 0 if cheap else 1
    return (stage, network.seed, network.sparsity, network.size, method)


def _is_cheap(entry: Entry, network: Random) -> bool:
    return entry.method in (LBS, SHOR) or (entry.method == HR2 and network.layers == 1)


def _is_dear(entry: Entry, network: Random) -> bool:
    return network.size > _SMALL and (entry.method == LIPOPT4 or (network.layers == 2 and entry.method in (HR1, HR2)))


def _published(entry: Entry, network: Random) -> bool:
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


class Settled:
    """Asked before an entry is computed: its outcome where it is that of another entry, or not worth the time."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._given_up = GivenUp(self._entries.values())

    def __call__(self, piece: Piece, outcomes: Mapping[str, Outcome]) -> Outcome | None:
        return _outcome_of_hr1(self._entries[piece.name], outcomes) or self._given_up(piece, outcomes)


def _may_be_hr1(entry: Entry) -> bool:
    """Without x, HR-2 of two hidden layers is HR-1."""
    network = entry.network
    return isinstance(network, Random) and network.layers == 2 and (entry.region, entry.method) == ("global", HR2)


def _outcome_of_hr1(entry: Entry, outcomes: Mapping[str, Outcome]) -> Outcome | None:
    first = outcomes.get(Entry(entry.network, entry.region, HR1).name) if _may_be_hr1(entry) else None
    if first is None or first.value is None or not str(first.value["note"]).endswith(WITHOUT_X):
        return None
    return Outcome(entry.name, first.value, None, first.seconds)


class GivenUp:
    """Asked before an entry is computed: its outcome where smaller ones of the same method ran out of their limits.

    An entry is given up when `TRIES` entries of the method, region and depth with no more neurons and no larger
    sparsity ran out, and none at least as large as the smallest of them ended well.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._lost: dict[_Family, dict[str, Random]] = {}
        self._won: dict[_Family, dict[str, Random]] = {}
        self._seen: set[str] = set()

    def __call__(self, piece: Piece, outcomes: Mapping[str, Outcome]) -> Outcome | None:
        entry = self._entries[piece.name]
        if not isinstance(entry.network, Random) or entry.method in _ANYTIME:
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
            if entry is None or not isinstance(entry.network, Random):
                continue
            ended = estimate_of(outcomes[name]).ended
            if ended in (TIME, MEMORY):
                self._lost.setdefault(_family(entry), {})[name] = entry.network
            elif not ended:
                self._won.setdefault(_family(entry), {})[name] = entry.network

    def _in_the_way(self, family: _Family, network: Random) -> list[Random]:
        below = [n for n in self._lost.get(family, {}).values() if _no_larger(n, network)]
        won = self._won.get(family, {}).values()
        for least in below:
            between = [n for n in below if _no_larger(least, n)]
            if len(between) >= TRIES and not any(_no_larger(least, n) for n in won):
                return between
        return []


def _family(entry: Entry) -> _Family:
    assert isinstance(entry.network, Random)
    return entry.network.layers, entry.region, entry.method


def _no_larger(one: Random, other: Random) -> bool:
    return one.size <= other.size and one.sparsity <= other.sparsity
