"""One process at a time in a job folder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from lipcert.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class FolderLock:
    """A file with the owner's pid, locked as long as the owner lives.

    The kernel drops the lock when its process dies, however it dies: the file of a dead process locks nobody out, also
    when its pid belongs to somebody else by now. The file stays, empty: removing it would race with the next owner.
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # not inherited by worker processes
        try:
            if fcntl is not None:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(self._handle, 200).decode("utf-8", "replace").strip() or "another process"
            os.close(self._handle)
            raise InputError(f"{path.parent}: in use by {owner}; wait for it or choose another folder") from None
        except OSError:
            pass  # a file system without locks: better unlocked than unusable
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def release(self) -> None:
        os.ftruncate(self._handle, 0)
        os.close(self._handle)
