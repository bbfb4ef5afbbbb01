"""Who works on the pieces of a search: this process, processes beside it, or a Dask cluster."""

from __future__ import annotations

from concurrent.futures import Executor

from lipcert.jobs import cluster, local, processes
from lipcert.method.base import Wishes


def workers_of(wishes: Wishes) -> Executor:
    """As the caller wished."""
    if wishes.scheduler is not None:
        return cluster(wishes.scheduler)
    return local() if wishes.workers == 1 else processes(wishes.workers)
