"""Processes on this machine as an executor: one call at a time in each, and a process that dies loses only its call.

`serve` is the far end of the pipe: a process that does one call after another.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from types import ModuleType, TracebackType
from typing import Any, ParamSpec, TypeVar

from lipcert.budget.threads import limit_threads
from lipcert.errors import PieceLost

READY = b"ready"
STOPPING = (signal.SIGINT, signal.SIGTERM)  # the parent decides what they mean; its workers go when it closes the pipe


def serve(connection: Connection, threads: int, memory: int | None) -> None:
    """The main function of a worker process; it ends when the pipe closes."""
    if os.name == "posix":
        os.setsid()  # a group of its own: Ctrl-C is the parent's, and programs the piece starts can be stopped with it
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    limit_threads(threads)
    if memory is not None:
        limit_memory(memory)
    connection.send_bytes(READY)
    while True:
        try:
            call = connection.recv_bytes()
        except (EOFError, OSError):
            return
        connection.send_bytes(_answer(call))


def limit_memory(memory: int) -> bool:
    """Whether this system keeps a process below so many bytes; Windows does not, there forecasts alone keep it."""
    try:
        import resource
    except ImportError:
        return False
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (memory if hard < 0 else min(memory, hard), hard))
    return True


def _answer(call: bytes) -> bytes:
    """The pickled pair (worked, result or exception)."""
    try:
        function, arguments, named = pickle.loads(call)
        reply: tuple[bool, Any] = (True, function(*arguments, **named))
        return pickle.dumps(reply)
    except BaseException as error:
        try:
            text = pickle.dumps((False, error))
            pickle.loads(text)  # some exceptions can be pickled but not read again
        except Exception:
            text = pickle.dumps((False, PieceLost(f"{type(error).__name__}: {error}")))
        return text


def _die_with_parent() -> None:
    """A parent that was killed cannot stop its workers, and a piece may have hours to go: nobody waits for it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        if os.name == "posix":
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


P = ParamSpec("P")
T = TypeVar("T")
_GOODBYE_SECONDS = 10.0


class WorkerDied(Exception):  # noqa: N818 - named for what it is
    """The process ended without an answer."""


class Processes(Executor):
    """`workers` spawned processes. concurrent.futures.ProcessPoolExecutor gives up every call in flight when one
    process dies, and does not say whose fault it was; here each call has its own pipe.

    Args:
        fresh: a new process for every call.
        threads: of BLAS, in each process.
        memory: bytes of address space of each process.
        seconds: of each call; the process is killed when they are over.
        retries: how often a call is repeated whose process died.
        bare: do not run the program's main module in the process, as Python does where processes are spawned: a script
            that nobody wrote for this would begin anew there. Calls of functions of that module fail then.
    """

    def __init__(
        self,
        workers: int,
        *,
        fresh: bool = False,
        threads: int = 1,
        memory: int | None = None,
        seconds: float | None = None,
        retries: int = 1,
        bare: bool = False,
    ) -> None:
        self.workers, self._bare = workers, bare
        self._fresh, self._threads, self._memory = fresh, threads, memory
        self._seconds, self._retries = seconds, retries
        self._waiters = ThreadPoolExecutor(workers)  # each thread waits for one process
        self._guard = threading.Lock()
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._closed = self._killed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._waiters.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """With `cancel_futures` the calls under way are stopped too."""
        with self._guard:
            self._closed = True
            self._killed |= cancel_futures
            doomed, self._idle = [*(self._all if cancel_futures else self._idle)], []
        for process in doomed:
            process.kill()
        self._waiters.shutdown(wait=wait, cancel_futures=cancel_futures)
        for process in doomed:
            process.join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(cancel_futures=True)  # calls that still run were given up, nobody reads their results

    def _call(self, function: Callable[..., T], arguments: Any, named: Any) -> T:
        call = pickle.dumps((function, arguments, named))
        deaths = 0
        while True:
            process = self._borrow()
            try:
                worked, result = process.call(call, self._seconds)
            except WorkerDied as died:
                deaths += 1
                if self._killed:
                    raise CancelledError from None
                if deaths > self._retries:
                    times = "" if deaths == 1 else f", {deaths} times"
                    raise PieceLost(f"{died}{times}{self._under_limit()}") from None
                continue
            finally:
                self._give_back(process)
            if worked:
                return result  # type: ignore[no-any-return]
            raise result

    def _borrow(self) -> _Process:
        with self._guard:
            if self._killed:
                raise CancelledError
            if self._idle:
                return self._idle.pop()
            with _no_main() if self._bare else nullcontext():
                process = _Process(self._threads, self._memory)
            self._all.add(process)
            return process

    def _give_back(self, process: _Process) -> None:
        with self._guard:
            if process.usable and not self._fresh and not self._closed:
                self._idle.append(process)
                return
            self._all.discard(process)
        process.kill()
        process.join()

    def _under_limit(self) -> str:
        if self._memory is None:
            return ""
        return f" under a memory limit of {self._memory / 2**30:.1f} GiB: probably out of memory"


class _Process:
    """One worker process and our end of its pipe."""

    def __init__(self, threads: int, memory: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=serve, args=(there, threads, memory), daemon=True)
        with _stopping_blocked():
            self._process.start()
        # At the end of Python multiprocessing sends SIGTERM to workers that are left, which they ignore, and waits.
        self._at_exit = Finalize(None, self.kill, exitpriority=0)
        there.close()
        self._ready = False
        self.usable = True

    def call(self, call: bytes, seconds: float | None) -> tuple[bool, Any]:
        """Send a call and wait for the answer; `seconds` count from when the process has started up."""
        self.usable = False  # until it has answered
        if not self._ready:
            if self._receive(None) != READY:
                raise WorkerDied("the worker process did not start")
            self._ready = True
        with suppress(OSError):  # a dead process: said by the next line
            self._pipe.send_bytes(call)
        answer: tuple[bool, Any] = pickle.loads(self._receive(seconds))
        self.usable = True
        return answer

    def kill(self) -> None:
        """The process and, on POSIX, whatever programs it started."""
        if os.name == "posix" and self._process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def join(self) -> None:
        self._at_exit.cancel()
        self._process.join(_GOODBYE_SECONDS)

    def _receive(self, seconds: float | None) -> bytes:
        found = wait([self._pipe, self._process.sentinel], seconds)
        if not found:
            raise PieceLost(f"out of time: stopped after {seconds:g} s")
        with suppress(EOFError, OSError):
            if self._pipe.poll():  # also when it died: the answer may have come first
                return self._pipe.recv_bytes()
        self._process.join(_GOODBYE_SECONDS)
        raise WorkerDied(f"the worker process died ({_cause(self._process.exitcode)})")


def _cause(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in {*signal.Signals} else f"signal {-code}"
    return f"{name}, as when the system runs out of memory" if name == "SIGKILL" else name


@contextmanager
def _no_main() -> Iterator[None]:
    """A process that is spawned inside does not run the main module of this program."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _stopping_blocked() -> Iterator[None]:
    """A child starts with the mask of the thread that starts it: Ctrl-C and SIGTERM, which SLURM sends to every process
    of a job, must not reach it before it can ignore them.
    """
    if os.name != "posix":
        yield
        return
    resource_tracker.ensure_running()  # started on first use otherwise, which unblocks the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
