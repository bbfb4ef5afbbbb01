"""Files that a command is to write: refused before the work where that is not possible, not after it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from lipcert.chart.raster import check_matplotlib, png
from lipcert.chart.shapes import Drawing
from lipcert.chart.svg import document
from lipcert.errors import InputError
from lipcert.files import write_bytes

ENDINGS = {"csv": (".csv",), "npz": (".npz",), "certificate": (".npz",), "plot": (".svg", ".png")}


def check_targets(targets: Mapping[str, str | None]) -> None:
    """Refuse places that cannot be written, and endings that nothing here writes; by the name of the option."""
    for name, place in targets.items():
        if place is None:
            continue
        if not place.lower().endswith(ENDINGS[name]):
            raise InputError(f"--{name} {place}: give the file the ending {' or '.join(ENDINGS[name])}")
        folder = Path(place).absolute().parent
        if not folder.is_dir() or Path(place).is_dir():
            raise InputError(f"--{name} {place}: no such folder to write to")
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            raise InputError(f"--{name} {place}: cannot write there; give another place") from None
        if place.lower().endswith(".png"):
            check_matplotlib()


def write_drawing(place: str, drawing: Drawing) -> None:
    """As SVG or PNG, by the ending."""
    write_bytes(place, png(drawing) if place.lower().endswith(".png") else document(drawing).encode())
