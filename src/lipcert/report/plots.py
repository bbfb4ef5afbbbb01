"""The charts of a job as files, for papers and slides."""

from __future__ import annotations

import os
from pathlib import Path

from lipcert.chart.raster import png
from lipcert.chart.svg import document
from lipcert.files import write_bytes
from lipcert.report.curve import certified_curve
from lipcert.report.heatmap import heat_map
from lipcert.report.histogram import certified_radii
from lipcert.robustness.stored import StoredJob

FORMATS = ("png", "svg")


def write_plots(job: StoredJob, folder: str | os.PathLike[str], kind: str) -> list[Path]:
    """certified, constants and radii, as files of the kind png or svg; what the job has not got yet is left out."""
    radii = certified_radii(job.result)
    drawings = {
        "certified": certified_curve(job),
        "constants": heat_map(job.result),
        "radii": None if radii is None else radii.drawing(),
    }
    written = []
    for name, drawing in drawings.items():
        if drawing is not None:
            path = Path(folder) / f"{name}.{kind}"
            write_bytes(path, png(drawing) if kind == "png" else document(drawing).encode())
            written.append(path)
    return written
