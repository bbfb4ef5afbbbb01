"""A progress line on stderr for anything that takes longer than two seconds."""

from __future__ import annotations

import math
import sys
import threading
import time
from types import TracebackType

from rich.console import Console
from rich.status import Status

from lipcert.bounding import Progress

_QUIET_SECONDS = 2.0


class ProgressDisplay:
    """Shows time, bracket and stage: redrawn in place on a terminal, one line every ten seconds elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._last = Progress(0.0, None, math.inf, "starting")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._start = time.monotonic()

    def __enter__(self) -> ProgressDisplay:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def update(self, progress: Progress) -> None:
        self._last = progress

    def _watch(self) -> None:
        if self._stop.wait(_QUIET_SECONDS):
            return
        if not sys.stderr.isatty():
            self._console.print(self._line())
            while not self._stop.wait(10.0):
                self._console.print(self._line())
            return
        with Status(self._line(), console=self._console) as status:
            while not self._stop.wait(0.25):
                status.update(self._line())

    def _line(self) -> str:
        p = self._last
        lower = "?" if p.lower is None else f"{p.lower:.6g}"
        upper = "?" if math.isinf(p.upper) else f"{p.upper:.6g}"
        return f"{time.monotonic() - self._start:6.1f} s   lower {lower}   upper {upper}   {p.stage}"
