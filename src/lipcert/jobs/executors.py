"""Executors of pieces: in this process, in processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import logging
import math
import os
import pkgutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from lipcert._version import __version__ as VERSION  # noqa: N812 - read by name from the workers of a cluster
from lipcert.errors import InputError, how_to_install
from lipcert.jobs.piece import describe
from lipcert.jobs.processes import Processes

P = ParamSpec("P")
T = TypeVar("T")
_CONNECT_SECONDS = 5.0
_COUNT_SECONDS = 5.0  # a cluster may grow; asking it takes a round trip
_PATIENCE_SECONDS = 120.0  # a cluster without workers may be about to get some


class Local(Executor):
    """Runs a piece in this process as soon as it is submitted."""

    workers = 1
    depth = 1  # submitting means doing: the outcome must be kept before the next

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Cluster(Executor):
    """A Dask client; a piece whose worker dies is repeated by the scheduler. At the end `farewell` is called."""

    def __init__(self, client: Any, farewell: Callable[[], None]) -> None:
        self._client, self._farewell = client, farewell
        self._executor = client.get_executor(pure=False)
        self._counted, self._count = -math.inf, 1
        self._last_seen = time.monotonic()

    @property
    def workers(self) -> int:
        """Threads of all workers, lately; 1 when there is none."""
        if time.monotonic() - self._counted > _COUNT_SECONDS:
            self._counted, self._count = time.monotonic(), 0
            with suppress(OSError, RuntimeError):  # no answer is no worker
                self._count = sum(self._client.nthreads().values())
            if self._count:
                self._last_seen = time.monotonic()
        return max(1, self._count)

    @property
    def lost(self) -> bool:
        """No worker for so long that nobody should wait for one; the scheduler itself would wait for ever."""
        return not self._count and time.monotonic() - self._last_seen > _PATIENCE_SECONDS

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._executor.submit(fn, *args, **kwargs)  # type: ignore[no-any-return]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._executor.shutdown(wait=wait and not cancel_futures)
        self._client.close()
        self._farewell()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(cancel_futures=True)  # as `Processes` does


def local() -> Executor:
    """One piece after another, in this process."""
    return Local()


def chosen_executor(workers: int, scheduler: str | None = None) -> Executor:
    """The executor that `workers` and `scheduler` ask for: a Dask cluster if it has an address, else this machine."""
    if scheduler is not None:
        return cluster(scheduler)
    return local() if workers == 1 else processes(workers)


def processes(workers: int) -> Executor:
    """Pieces in `workers` processes, the cores shared among them; a piece whose process dies twice has failed."""
    check_workers(workers)
    return Processes(workers, threads=_threads_each(workers))


def isolated(
    workers: int = 1, *, memory: int | None = None, seconds: float | None = None, fresh: bool = True
) -> Executor:
    """Every piece in a process with limits, alone.

    Args:
        memory: bytes of address space (RLIMIT_AS) it may have; a started process needs about 1 GiB of it.
        seconds: of a piece, after which the process is killed.
        fresh: a process for every piece. Otherwise the next piece has the same one, unless it was killed or died:
            starting Python takes longer than many a piece.
    """
    check_workers(workers)
    if memory is not None and memory <= 0:
        raise InputError(f"memory must be a positive number of bytes, not {memory}")
    if seconds is not None and not seconds > 0:
        raise InputError(f"seconds must be positive, not {seconds}")
    # No second try: a process that dies under a limit dies again, after the same hours.
    return Processes(workers, fresh=fresh, threads=_threads_each(workers), memory=memory, seconds=seconds, retries=0)


def cluster(address: str) -> Executor:
    """The workers of the Dask scheduler at "tcp://host:port". They need lipcert installed.

    BLAS threads are those of the workers' environment; Dask's own nanny starts them with one.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InputError(f"a cluster needs the package distributed: {how_to_install('cluster')}") from None
    speak = _silenced()
    try:
        client = _connected(Client, address)
        try:
            _check_workers_of(client, address)
        except InputError:
            client.close()
            raise
    except BaseException:
        speak()
        raise
    return Cluster(client, speak)


def _silenced() -> Callable[[], None]:
    """Keep the client from logging the tracebacks of connections that it loses; returns what undoes this.

    A lost scheduler is said in one line, by whoever waits for its answers.
    """
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)

    def speak() -> None:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

    return speak


def _check_workers_of(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
    except OSError:
        raise InputError(f"{address}: the scheduler has no workers; start some with `dask worker {address}`") from None
    _check_versions(client.run(pkgutil.resolve_name, f"{__name__}:VERSION", on_error="return"))


def _connected(kind: Any, address: str) -> Any:
    """A client; one that got no further than half is closed here: at the end of the process, without its loop, it would
    wait and complain.
    """
    client = kind.__new__(kind)
    try:
        client.__init__(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:  # TimeoutError is an OSError
        with suppress(AttributeError):  # it failed before there was anything to close
            client.close()
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{address}: no Dask scheduler answers there ({reason}); give that of one, tcp://host:port"
        ) from None
    return client


def _check_versions(found: Mapping[str, Any]) -> None:
    """Before any piece is sent: a Dask worker that cannot read its piece dies of it, and so does the next one."""
    for worker, version in found.items():
        if isinstance(version, BaseException):
            raise InputError(f"{worker}: this worker cannot import lipcert ({describe(version)}); install it there")
        if version != VERSION:
            raise InputError(f"{worker}: this worker has lipcert {version}, not {VERSION}; install the same there")


def worker_count(executor: Executor) -> int:
    """How many pieces it works on at once; executors of the standard library keep the number to themselves."""
    return int(getattr(executor, "workers", None) or getattr(executor, "_max_workers", None) or 1)


def queue_depth(executor: Executor) -> int:
    """How many pieces to submit at once: one for each worker and one to follow it."""
    return int(getattr(executor, "depth", 2 * worker_count(executor)))


def check_workers(workers: int) -> None:
    """Refuse what is no number of processes."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError.about("workers", f"must be a whole number >= 1, not {workers!r}")


def _threads_each(workers: int) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // workers)
