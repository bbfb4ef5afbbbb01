"""The far end of a pipe: a process that does what it is sent, one call after another."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

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
