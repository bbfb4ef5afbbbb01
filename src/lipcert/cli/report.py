"""`lipcert report`: a job folder as a page that people read."""

from __future__ import annotations

from pathlib import Path

import click

from lipcert.chart.raster import check_matplotlib, png
from lipcert.chart.svg import document
from lipcert.cli.options import A_PATH, json_option
from lipcert.cli.show import console, print_json
from lipcert.errors import InputError
from lipcert.files import write_bytes
from lipcert.report.curve import certified_curve
from lipcert.report.heatmap import heat_map
from lipcert.report.histogram import certified_radii
from lipcert.report.page import notices, page
from lipcert.robustness.stored import StoredJob, read_job


@click.command("report", short_help="Write an HTML page about the certify job in DIR.")
@click.argument("folder", metavar="DIR", type=A_PATH)
@click.option("--to", "target", metavar="FILE.html", help="Where to write the page. Default: DIR/report.html.")
@click.option("--plots", type=click.Choice(("png", "svg")), help="Also write the charts as files beside the page.")
@json_option
def report_command(folder: str, target: str | None, plots: str | None, as_json: bool) -> None:
    """Write a self-contained HTML page about the job in DIR, a folder that `lipcert certify --out DIR` wrote."""
    place = Path(target) if target is not None else Path(folder) / "report.html"
    _check_place(place, given=target is not None)
    if plots == "png":
        check_matplotlib()
    job = read_job(folder)
    write_bytes(place, page(job).encode("utf-8"))
    drawn = [] if plots is None else _write_plots(job, place.parent, plots)
    if as_json:
        print_json({"report": str(place), "plots": [str(p) for p in drawn], "complete": job.result.complete})
        return
    out = console()
    for path in (place, *drawn):
        out.print(str(path), markup=False)
    for notice in notices(job):
        out.print(f"note: {notice}", markup=False)


def _write_plots(job: StoredJob, folder: Path, kind: str) -> list[Path]:
    """The charts as files of the kind png or svg; what the job has not got yet is left out."""
    radii = certified_radii(job.result)
    drawings = {
        "certified": certified_curve(job),
        "constants": heat_map(job.result),
        "radii": None if radii is None else radii.drawing(),
    }
    found = {folder / f"{name}.{kind}": drawing for name, drawing in drawings.items() if drawing is not None}
    for path, drawing in found.items():
        write_bytes(path, png(drawing) if kind == "png" else document(drawing).encode())
    return [*found]


def _check_place(place: Path, *, given: bool) -> None:
    if not given:
        return
    if place.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{place}: the page is HTML; give a name that ends in .html")
    if place.is_dir() or not place.parent.is_dir():
        raise InputError(f"{place}: no such folder to write to")
