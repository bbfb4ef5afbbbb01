"""Steps of long work: whoever waits for it may look on, and stop it between two steps.

Loops over layers, rows, tiles, leaves, cells and factorisations call `step`, however deep they are; a check also says
what it expects to take (`expect`). Neither knows a clock. Nobody listens unless a caller does (`watched`): a budget
that is enforced (`Budget.enforced`), or the time limit of `verify`. A listener may raise `Expired`, no more; whoever
catches it keeps what is proved by then. A proof is computed to its end or not at all: what is stopped claims nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# Kinds of work. A step and a budget count operations of one of these kinds.
DENSE = "dense"  # factorisations and products of large matrices
THIN = "thin"  # products of a large matrix with few columns, batches of points through a network
FACTOR = "factor"  # sparse factorisations with dense blocks in them, as conic solvers make; measured on Clarabel
SPARSE = "sparse"  # looks at the entries of a sparse linear program
SCALAR = "scalar"  # Python statements around small arrays: one operation is one call

# Operations of one nominal second, by kind of work. They are the scale of `--work`, and were measured once, on two
# cores of a server of 2021 with one BLAS thread.
RATES = {DENSE: 5e10, THIN: 5e9, FACTOR: 1.2e10, SPARSE: 5e8, SCALAR: 1e5}


class Expired(BaseException):
    """The work under way has no time or memory left.

    Like `KeyboardInterrupt` it is no `Exception`: code that survives a failed solver must not survive this.
    """


def _ignore(_seconds: float, _words: str) -> None:
    return None


@dataclass(frozen=True)
class Watch:
    """Two functions that hear of long work.

    `step` is called with the operations that lie ahead and their kind of work (0 and "" where nobody counts), `expect`
    with the seconds that a check may take and the reason in words.
    """

    step: Callable[[float, str], None]
    expect: Callable[[float, str], None] = _ignore


_WATCHES: ContextVar[tuple[Watch, ...]] = ContextVar("watches", default=())


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Tell this watch of all steps inside, besides those that listen already."""
    token = _WATCHES.set((*_WATCHES.get(), watch))
    try:
        yield
    finally:
        _WATCHES.reset(token)


def step(operations: float = 0.0, kind: str = "") -> None:
    """One step is done; the next one takes about so many operations, where that is known."""
    for watch in _WATCHES.get():
        watch.step(operations, kind)


def expect(seconds: float, words: str) -> None:
    """Tell all watches that a check begins, its seconds on an ordinary machine, and what makes it long."""
    for watch in _WATCHES.get():
        watch.expect(seconds, words)
