"""Pictures that a command writes."""

from __future__ import annotations

import os

from lipcert.chart.raster import png
from lipcert.chart.shapes import Drawing
from lipcert.chart.svg import document
from lipcert.files import write_bytes


def write_drawing(place: str | os.PathLike[str], drawing: Drawing) -> None:
    """As SVG or PNG, by the ending."""
    write_bytes(place, png(drawing) if os.fspath(place).lower().endswith(".png") else document(drawing).encode())
