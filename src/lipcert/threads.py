"""BLAS threads: one for small matrices, the default for large ones.

Threads that share a small product wait for each other longer than they compute; on a busy machine they wait for the
scheduler, and a solve of 0.3 s was measured to take 30 s. See PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_WORTH_SHARING = 600  # the order of square matrices from which a second thread pays


@contextmanager
def threads_for(order: float) -> Iterator[None]:
    """Limit BLAS to one thread inside when matrices of about this order are multiplied there."""
    if order >= _WORTH_SHARING:
        yield
        return
    import scipy.linalg  # noqa: F401 - its BLAS must be loaded to be limited
    from threadpoolctl import threadpool_limits  # here, so that importing lipcert stays fast

    with threadpool_limits(limits=1, user_api="blas"):
        yield
