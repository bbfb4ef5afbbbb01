"""A line on stderr that says how far the work is: redrawn in place on a terminal, every ten seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

_QUIET_SECONDS = 2.0


class LiveLine:
    """Shows `line()` while the block runs, for anything that takes longer than two seconds."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self._start = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def line(self) -> str:
        raise NotImplementedError

    def silent(self) -> bool:
        """Whether something else has said enough since the last time; asked where the line cannot be redrawn."""
        return False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        if self._stop.wait(_QUIET_SECONDS):
            return
        if not sys.stderr.isatty():
            self._say()
            while not self._stop.wait(10.0):
                self._say()
            return
        with Status(self.line(), console=self.console) as status:
            while not self._stop.wait(0.25):
                status.update(self.line())

    def _say(self) -> None:
        if not self.silent():
            self.console.print(self.line(), soft_wrap=True)
