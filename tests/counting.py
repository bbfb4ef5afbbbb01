"""For tests that would look at a clock: a clock that the test moves itself, and work counted in function calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Clock:
    """Stands in for the module `time` where a module looks at it: seconds pass when the test says so.

    Args:
        per_look: seconds that pass with every look, so that a loop that waits for a deadline ends.
    """

    def __init__(self, per_look: float = 0.0) -> None:
        self.now, self.per_look = 0.0, per_look

    def monotonic(self) -> float:
        self.now += self.per_look
        return self.now

    perf_counter = monotonic


def calls(work: Callable[[], T]) -> tuple[T, int]:
    """What it returns and how many functions were called on the way, those of C among them.

    The same on a busy machine: what loops over entries in Python instead of over arrays has as many calls as entries.
    """
    count = 0

    def note(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    return result, count
