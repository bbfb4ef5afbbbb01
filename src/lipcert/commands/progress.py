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
from lipcert.solvers import Progress as Iteration

_QUIET_SECONDS = 2.0
_HEADER = "  it  seconds          primal            dual    gap   pinf   dinf   proved upper"


class ProgressDisplay:
    """Shows time, bracket and stage: redrawn in place on a terminal, one line every ten seconds elsewhere.

    When `verbose`, the solver's iterations are printed instead, a fixed-width row each.
    """

    def __init__(self, verbose: bool = False) -> None:
        self._verbose = verbose
        self._row = -1
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
        iteration = progress.iteration
        if self._verbose and iteration is not None and iteration.iteration != self._row:
            if self._row < 0:
                self._console.print(_HEADER, soft_wrap=True)
            self._row = iteration.iteration
            self._console.print(_row(progress, iteration), soft_wrap=True)

    def _watch(self) -> None:
        if self._verbose or self._stop.wait(_QUIET_SECONDS):
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
        gap = "?" if p.gap is None else f"{100 * p.gap:.3g} %"
        return f"{time.monotonic() - self._start:6.1f} s   lower {lower}   upper {upper}   gap {gap}   {p.stage}"


def _row(progress: Progress, i: Iteration) -> str:
    upper = "-" if math.isinf(progress.upper) else f"{progress.upper:.8g}"
    residuals = f"{i.gap:6.0e} {i.primal_infeasibility:6.0e} {i.dual_infeasibility:6.0e}"
    return f"{i.iteration:4d} {i.seconds:8.2f} {i.primal:15.8g} {i.dual:15.8g} {residuals} {upper:>14s}"
