"""Who works on the pieces of a search: this process, processes beside it, or a Dask cluster."""

from __future__ import annotations

from concurrent.futures import Executor

from lipcert.errors import InputError
from lipcert.jobs import cluster, local, processes
from lipcert.method.bracket import Bracket


def check_cluster(address: str | None) -> None:
    """Refuse the address of a cluster that does not answer before any work is done."""
    if address is not None:
        with cluster(address):
            pass


def workers_of(bracket: Bracket) -> Executor:
    """As the caller wished; this process alone where the cluster is gone by now: what is proved is kept."""
    wishes = bracket.wishes
    if wishes.scheduler is not None:
        try:
            return cluster(wishes.scheduler)
        except InputError as error:
            bracket.note(f"{error}; this process worked alone")
            return local()
    return local() if wishes.workers == 1 else processes(wishes.workers)
