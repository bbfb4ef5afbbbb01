"""A progress line on stderr for work in stages: redrawn on a terminal, one line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.status import Status

if TYPE_CHECKING:
    from lipcert.jobs import Progress

_QUIET_SECONDS = 2.0


class StageDisplay:
    """Shows the stage and how far its pieces are, for anything that takes longer than two seconds."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._line, self._start = "starting", time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> StageDisplay:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def update(self, stage: str, progress: Progress | None) -> None:
        self._line = stage if progress is None else f"{stage}: {progress}"

    def _watch(self) -> None:
        if self._stop.wait(_QUIET_SECONDS):
            return
        if not sys.stderr.isatty():
            self._console.print(self._text())
            while not self._stop.wait(10.0):
                self._console.print(self._text())
            return
        with Status(self._text(), console=self._console) as status:
            while not self._stop.wait(0.25):
                status.update(self._text())

    def _text(self) -> str:
        return f"{time.monotonic() - self._start:.0f} s   {self._line}"
