"""One way to ask whether there is time: `ask`, wherever a loop over layers, rows, columns or tiles is.

Whoever starts work says how long it may take (`Budget.enforced`). Inside, however deep, `ask` raises `Expired` as soon
as that time, or the memory, is over; whoever catches it keeps what is proved by then. A checker enforces nothing, and
then `ask` does nothing: a proof is computed to its end or not at all, so what is stopped claims nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from lipcert import policy

if TYPE_CHECKING:
    from lipcert.budget.budget import Budget


class Expired(BaseException):
    """The work under way has no time or memory left.

    Like `KeyboardInterrupt` it is no `Exception`: code that survives a failed solver must not survive this.
    """


ENFORCED: ContextVar[Budget | None] = ContextVar("the budget that work under way has to keep", default=None)


def ask(operations: float = 0.0, kind: str = policy.DENSE) -> None:
    """Raise `Expired` where the enforced budget is over, or is expected to be before so much more work is done."""
    budget = ENFORCED.get()
    if budget is not None and budget.left() <= (budget.expected(operations, kind) if operations else 0.0):
        raise Expired
