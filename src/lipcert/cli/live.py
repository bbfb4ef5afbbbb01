"""Lines on stderr about the progress: redrawn in place on a terminal, printed every ten seconds in a log."""

from __future__ import annotations

import math
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.status import Status

from lipcert.chart.numbers import rounded_down, rounded_up

if TYPE_CHECKING:
    from lipcert.jobs import JobProgress
    from lipcert.search.progress import Progress
    from lipcert.solver import Progress as Iteration

_QUIET_SECONDS = 2.0  # before the line appears for the first time
_HEADER = "  it  seconds          primal            dual    gap   pinf   dinf   proved upper"


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

    def update(self, stage: str, progress: JobProgress | None) -> None:
        self._stage = stage if progress is None else f"{stage}: {progress}"

    def line(self) -> str:
        return f"{self.seconds:6.1f} s   {self._stage}"


class ProgressDisplay(LiveLine):
    """Shows time, bracket and stage; when `verbose`, also the solver's iterations, a fixed-width row each."""

    def __init__(self, verbose: bool = False) -> None:
        super().__init__()
        self._verbose = verbose
        self._row = -1
        self._spoke = False  # whether a row was printed since `silent` was last asked
        self._last: Progress | None = None

    def update(self, progress: Progress) -> None:
        self._last = progress
        iteration = progress.iteration
        if self._verbose and iteration is not None and iteration.iteration != self._row:
            if self._row < 0:
                self.console.print(_HEADER, soft_wrap=True)
            self._row, self._spoke = iteration.iteration, True
            self.console.print(_row(progress, iteration), soft_wrap=True)

    def silent(self) -> bool:
        spoke, self._spoke = self._spoke, False
        return spoke

    def line(self) -> str:
        p = self._last
        if p is None:
            return f"{self.seconds:6.1f} s   lower ?   upper ?   gap ?   starting"
        lower = "?" if p.lower is None else rounded_down(p.lower, 6)
        upper = "?" if math.isinf(p.upper) else rounded_up(p.upper, 6)
        gap = "?" if p.gap is None else f"{100 * p.gap:.3g} %"
        return f"{self.seconds:6.1f} s   lower {lower}   upper {upper}   gap {gap}   {p.stage}"


def _row(progress: Progress, i: Iteration) -> str:
    upper = "-" if math.isinf(progress.upper) else f"{progress.upper:.8g}"
    residuals = f"{i.gap:6.0e} {i.primal_infeasibility:6.0e} {i.dual_infeasibility:6.0e}"
    return f"{i.iteration:4d} {i.seconds:8.2f} {i.primal:15.8g} {i.dual:15.8g} {residuals} {upper:>14s}"
