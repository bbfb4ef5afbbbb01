"""BLAS threads: one for small matrices, the default for large ones.

Threads that share a small product wait for each other longer than they compute; on a busy machine they wait for the
scheduler, and a solve of 0.3 s was measured to take 30 s. See PERFORMANCE.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_WORTH_SHARING = 600  # the order of square matrices from which a second thread pays
_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


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


def limit_threads(count: int) -> None:
    """At most `count` threads in this process from now on, fewer where the environment asks for fewer.

    By variables for libraries that are loaded later, by threadpoolctl for those that are here.
    """
    from threadpoolctl import threadpool_limits

    for variable in _VARIABLES:
        asked = os.environ.get(variable, "")
        os.environ[variable] = str(min(count, int(asked)) if asked.isdecimal() and int(asked) > 0 else count)
    threadpool_limits(limits=min(count, *(int(os.environ[v]) for v in _VARIABLES[:3])), user_api="blas")
