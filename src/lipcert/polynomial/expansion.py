"""Limits on the size of polynomials that are read from files.

A short line of text can ask for any degree and any number of terms. The readers run inside `limited`, and the
arithmetic of polynomials calls `charge` before it writes terms. Outside `limited` there is no limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lipcert.errors import InputError

MAX_DEGREE = 256  # of any product on the way
MAX_EXPANDED = 1 << 25  # numbers written while all of a file is expanded: terms times (1 + degree), before collecting
_LEAST = 64  # numbers that every operation is charged in addition, for its overhead

_spent: ContextVar[list[int] | None] = ContextVar("spent", default=None)


@contextmanager
def limited() -> Iterator[None]:
    """Limit the sum of all expansions in this context; a nested context shares the limit of the outer one."""
    if _spent.get() is not None:
        yield
        return
    token = _spent.set([0])
    try:
        yield
    finally:
        _spent.reset(token)


def charge(terms: int, degree: int) -> None:
    """Count terms that are about to be written, and refuse them beyond the limits of the context."""
    spent = _spent.get()
    if spent is None:
        return
    if degree > MAX_DEGREE:
        raise InputError(f"a term of degree {degree:,} is beyond the limit of {MAX_DEGREE}")
    spent[0] += _LEAST + terms * (1 + degree)
    if spent[0] > MAX_EXPANDED:
        limit = f"{MAX_EXPANDED:,} numbers (terms times degree, in all operations)"
        raise InputError(f"expanding the products and sums takes more than the limit of {limit}; write it shorter")
