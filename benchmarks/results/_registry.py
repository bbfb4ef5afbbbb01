"""All cases of the results, by name and by set."""

from __future__ import annotations

from benchmarks.peers import _cases as peers
from benchmarks.results import _bounds, _depth, _more, _others, _published, _scale
from benchmarks.results._case import Case


def registry() -> dict[str, Case]:
    """Every case by its name; a name that is taken twice is an error."""
    cases = [
        *_others.cases(),
        *_bounds.cases(),
        *_depth.cases(),
        *_more.cases(),
        *_scale.cases(),
        *peers.cases(),
        *_published.cases(),
    ]
    named = {case.name: case for case in cases}
    if len(named) < len(cases):
        names = [case.name for case in cases]
        raise ValueError(f"case {next(n for n in names if names.count(n) > 1)!r} is there twice")
    return named


def of_set(name: str) -> list[Case]:
    """The cases of `quick` or `full`."""
    return [case for case in registry().values() if name in case.sets]
