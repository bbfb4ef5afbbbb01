"""Steps of a check: whoever waits for it may look on, and stop it between two steps.

A checker has no clock. It says what it expects to take (`expect`), and calls `step` between leaves, cells, blocks and
factorisations. Nobody listens unless a caller asks for it with `watched`; a listener may raise, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Watch:
    """Who is told of steps, and of the seconds that a check expects to take with the reason in words."""

    step: Callable[[], None]
    expect: Callable[[float, str], None]


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Tell this watch of all steps inside."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def step() -> None:
    """One step is done, or about to be."""
    watch = _WATCH.get()
    if watch is not None:
        watch.step()


def expect(seconds: float, words: str) -> None:
    """What lies ahead: about so many seconds on an ordinary machine, because of this."""
    watch = _WATCH.get()
    if watch is not None:
        watch.expect(seconds, words)
