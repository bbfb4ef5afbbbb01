"""How far a stranger's polynomial may grow while it is expanded: a line of text can ask for any degree and any number
of terms. Whoever computes with polynomials of his own is not limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lipcert.errors import InputError

MAX_DEGREE = 256  # of any product on the way
MAX_EXPANDED = 1 << 25  # numbers written while all of a file is expanded: terms times (1 + degree), before collecting
_LEAST = 64  # what an operation costs beside its numbers

_spent: ContextVar[list[int] | None] = ContextVar("spent", default=None)


@contextmanager
def limited() -> Iterator[None]:
    """All that is expanded inside stays within the limits together; inside another one, within those of that."""
    if _spent.get() is not None:
        yield
        return
    token = _spent.set([0])
    try:
        yield
    finally:
        _spent.reset(token)


def charge(terms: int, degree: int) -> None:
    """Refuse to write so many terms where that is too much; to be asked before."""
    spent = _spent.get()
    if spent is None:
        return
    if degree > MAX_DEGREE:
        raise InputError(f"a term of degree {degree:,} is beyond the limit of {MAX_DEGREE}")
    spent[0] += _LEAST + terms * (1 + degree)
    if spent[0] > MAX_EXPANDED:
        limit = f"{MAX_EXPANDED:,} numbers (terms times degree, in all operations)"
        raise InputError(f"expanding the products and sums takes more than the limit of {limit}; write it shorter")
