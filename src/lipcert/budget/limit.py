"""A time limit for work that has no budget of its own: checks, which know steps and no clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lipcert.errors import InputError
from lipcert.steps import Expired, Watch, watched

Tell = Callable[[float, str], None]  # called with the seconds that a check expects to take, and the reason


@contextmanager
def within(seconds: float | None, tell: Tell | None = None) -> Iterator[None]:
    """Raise `Expired` at the first step after so many seconds; None is no limit."""
    limit = math.inf if seconds is None else seconds
    if not (isinstance(limit, int | float) and limit > 0):
        raise InputError.about("time_limit", f"must be a positive number of seconds, not {seconds!r}")
    end = time.monotonic() + limit

    def look(_operations: float, _kind: str) -> None:
        if time.monotonic() > end:
            raise Expired(f"not proved within the limit of {limit:g} s")

    with watched(Watch(look) if tell is None else Watch(look, tell)):
        yield
