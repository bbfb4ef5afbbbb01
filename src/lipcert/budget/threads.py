"""BLAS threads: one for small matrices, and for large ones as many as help at the moment.

Threads that share a small product wait for each other longer than they compute; on a busy machine they wait for the
scheduler, and a solve of 0.3 s was measured to take 30 s. Whether a second thread helps with a large product depends on
what else runs: so it is tried, for a few hundredths of a second, before work that is worth it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

WORTH_SHARING = 600  # order of square matrices from which a second BLAS thread can pay on a quiet machine
RACE_ORDER = 600  # order of the matrices whose products measure the speed of one thread and of several
RACE_SECONDS = 0.03  # duration of each of the two measurements
RACE_GAIN = 1.25  # several threads must be this many times faster than one; beside other programs they are often slower
RACE_VALID = 5.0  # seconds for which the comparison is believed

_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


@contextmanager
def threads_for(order: float) -> Iterator[None]:
    """Limit BLAS to one thread inside, unless matrices of about this order are multiplied there faster by several."""
    if order >= WORTH_SHARING and _several_help():
        yield
        return
    with one_thread():
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """One BLAS thread inside, whatever the matrices: several add up in an order that depends on how many they are."""
    with _limited():
        yield


def _limited() -> Any:
    import scipy.linalg  # noqa: F401 - its BLAS must be loaded to be limited
    from threadpoolctl import threadpool_limits  # here, so that importing lipcert stays fast

    return threadpool_limits(limits=1, user_api="blas")


@dataclass
class _Race:
    """The last trial: when it ended, and whether several threads won."""

    ended: float = -1e9
    several: bool = True


_RACE = _Race()


def _several_help() -> bool:
    """Whether a product of large matrices goes faster with all threads than with one, tried lately or now."""
    from threadpoolctl import threadpool_info

    threads = max((int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
    if threads == 1:
        return False
    if time.monotonic() - _RACE.ended > RACE_VALID:
        several = product_speed()
        with one_thread():
            _RACE.several = several > RACE_GAIN * product_speed()
        _RACE.ended = time.monotonic()
    return _RACE.several


def product_speed() -> float:
    """Operations per second of products of large matrices, now."""
    import numpy as np  # here, so that importing lipcert stays fast

    matrix = np.full((RACE_ORDER, RACE_ORDER), 0.5)
    begin, products = time.monotonic(), 0
    while time.monotonic() - begin < RACE_SECONDS:
        matrix @ matrix
        products += 1
    return products * 2.0 * RACE_ORDER**3 / (time.monotonic() - begin)


def limit_threads(count: int) -> None:
    """At most `count` threads in this process from now on, fewer where the environment asks for fewer.

    By variables for libraries that are loaded later, by threadpoolctl for those that are here.
    """
    from threadpoolctl import threadpool_limits

    for variable in _VARIABLES:
        asked = os.environ.get(variable, "")
        os.environ[variable] = str(min(count, int(asked)) if asked.isdecimal() and int(asked) > 0 else count)
    threadpool_limits(limits=min(count, *(int(os.environ[v]) for v in _VARIABLES[:3])), user_api="blas")
