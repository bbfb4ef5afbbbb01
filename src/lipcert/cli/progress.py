"""The progress line of `bound`, `cells` and `loop`, and the table of a solver's iterations."""

from __future__ import annotations

import math

from lipcert.chart.numbers import rounded_down, rounded_up
from lipcert.cli.live import LiveLine
from lipcert.search.progress import Progress
from lipcert.solver import Progress as Iteration

_HEADER = "  it  seconds          primal            dual    gap   pinf   dinf   proved upper"


class ProgressDisplay(LiveLine):
    """Shows time, bracket and stage; when `verbose`, also the solver's iterations, a fixed-width row each."""

    def __init__(self, verbose: bool = False) -> None:
        super().__init__()
        self._verbose = verbose
        self._row = -1
        self._spoke = False  # whether a row was printed since `silent` was last asked
        self._last = Progress(0.0, None, math.inf, "starting")

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
        lower = "?" if p.lower is None else rounded_down(p.lower, 6)
        upper = "?" if math.isinf(p.upper) else rounded_up(p.upper, 6)
        gap = "?" if p.gap is None else f"{100 * p.gap:.3g} %"
        return f"{self.seconds:6.1f} s   lower {lower}   upper {upper}   gap {gap}   {p.stage}"


def _row(progress: Progress, i: Iteration) -> str:
    upper = "-" if math.isinf(progress.upper) else f"{progress.upper:.8g}"
    residuals = f"{i.gap:6.0e} {i.primal_infeasibility:6.0e} {i.dual_infeasibility:6.0e}"
    return f"{i.iteration:4d} {i.seconds:8.2f} {i.primal:15.8g} {i.dual:15.8g} {residuals} {upper:>14s}"
