"""A line on stderr about the progress: redrawn in place on a terminal, printed every ten seconds in a log."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.status import Status

if TYPE_CHECKING:
    from lipcert.jobs import Progress

_QUIET_SECONDS = 2.0  # before the line appears for the first time


class LiveLine:
    """Shows `line()` while its `with` block runs, once the block has taken two seconds."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self._start = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def line(self) -> str:
        """The text to show now."""
        raise NotImplementedError

    def silent(self) -> bool:
        """Whether to leave the line out this time, where it cannot be redrawn: other output has told enough."""
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


class StageDisplay(LiveLine):
    """Shows the time, the stage of a job and the progress of the pieces in it."""

    def __init__(self) -> None:
        super().__init__()
        self._stage = "starting"

    def update(self, stage: str, progress: Progress | None) -> None:
        self._stage = stage if progress is None else f"{stage}: {progress}"

    def line(self) -> str:
        return f"{self.seconds:6.1f} s   {self._stage}"
