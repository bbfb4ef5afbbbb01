"""The same three charts through matplotlib (extra `plot`), for papers and slides."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from lipcert.errors import InputError
from lipcert.files import write_atomically
from lipcert.report.figures import up
from lipcert.report.job import Job
from lipcert.report.shares import shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("png", "svg")


def write_plots(job: Job, folder: str | os.PathLike[str], kind: str) -> list[Path]:
    """certified, constants and radii, as files of the kind png or svg; what the job has not got yet is left out."""
    check_matplotlib()
    written = []
    for name, draw in (("certified", _certified), ("constants", _constants), ("radii", _radii)):
        data = _rendered(job, draw, kind)
        if data:
            path = Path(folder) / f"{name}.{kind}"
            write_atomically(path, partial(_put, data))
            written.append(path)
    return written


def check_matplotlib() -> None:
    """Say what to install before any work is done."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise InputError("--plots needs matplotlib; install it with: pip install 'lipcert[plot]'") from None


def _put(data: bytes, file: IO[bytes]) -> None:
    file.write(data)


def _rendered(job: Job, draw: Callable[[Job, Axes], bool], kind: str) -> bytes:
    """The bytes of one picture; no bytes when there is nothing to draw. No window system is touched."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "lipcert", "text.parse_math": False}):
        figure = Figure(figsize=(6.4, 4.8), layout="constrained")
        if not draw(job, figure.subplots()):
            return b""
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
        return buffer.getvalue()


def _certified(job: Job, axes: Axes) -> bool:
    found = shares(job)
    if found is None or job.count == 0:
        return False
    low, high = 100 * found.certified / job.count, 100 * found.possible / job.count
    axes.stairs(high, found.radii, baseline=None, color="C1", linestyle="--", label="at most (attacks)")
    axes.stairs(low, found.radii, baseline=None, color="C0", linewidth=2, label="proved robust")
    axes.stairs(high, found.radii, baseline=low, fill=True, facecolor="none", edgecolor="0.6", hatch="///", linewidth=0)
    radii = [t.radius for t in job.tallies]
    axes.plot(radii, [100 * t.certified / job.count for t in job.tallies], "o", color="C0")
    axes.plot(radii, [100 * (job.correct - t.attacked) / job.count for t in job.tallies], "^", color="C1", mfc="white")
    axes.set(xlabel=f"radius of the change, {job.norm}-norm", ylabel="share of all inputs (%)", ylim=(0, 103))
    axes.set(title=f"Proved robust, of {job.count} inputs", xlim=(0, None))
    axes.legend()
    return True


def _constants(job: Job, axes: Axes) -> bool:
    proved = [(p.i, p.j, p.upper) for p in job.pairs if p.upper is not None]
    if not proved:
        return False
    matrix = np.full((job.classes, job.classes), np.nan)
    for i, j, value in proved:
        matrix[i, j] = matrix[j, i] = value
    image = axes.imshow(matrix, cmap="Blues")
    middle = (np.nanmin(matrix) + np.nanmax(matrix)) / 2
    for i, j, value in proved if job.classes <= 12 else []:
        for row, column in ((i, j), (j, i)):
            ink = "white" if value > middle else "black"
            axes.text(column, row, up(value, 3), ha="center", va="center", fontsize=8, color=ink)
    axes.figure.colorbar(image, ax=axes, label="proved Lipschitz constant")
    axes.set(xlabel="score j", ylabel="score i", title=f"Constants of pairs of scores, {job.norm}-norm")
    if job.classes <= 20:
        axes.set(xticks=range(job.classes), yticks=range(job.classes))
    return True


def _radii(job: Job, axes: Axes) -> bool:
    if job.points is None or not np.any(job.points.correct):
        return False
    radii = job.points.certified_radius[job.points.correct]
    top = max([*job.radii, float(radii[np.isfinite(radii)].max(initial=0.0))]) or 1.0
    axes.hist(np.minimum(radii, top), bins=20, range=(0, top), color="C0", edgecolor="white")
    axes.set(xlabel=f"certified radius, {job.norm}-norm", ylabel="number of inputs")
    axes.set(title=f"Certified radii of {radii.size} correctly classified inputs")
    return True
