"""`lipcert report`: a page for people about the folder of a certify job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from lipcert.cli.options import options, write_drawing
from lipcert.cli.paths import INPUT, PAGE, PNG, SVG, OutputFile, also_writes
from lipcert.cli.show import console, print_json
from lipcert.files import write_bytes
from lipcert.report.curves import certified_curve, certified_radii
from lipcert.report.heatmap import heat_map
from lipcert.report.page import notices, page
from lipcert.robustness.stored import StoredJob, read_job

_CHARTS = ("certified", "constants", "radii")


@click.command("report", short_help="Write an HTML page about the certify job in DIR.")
@click.argument("folder", metavar="DIR", type=INPUT)
@click.option(
    "--to",
    "target",
    type=OutputFile(PAGE, replace(PAGE, ending=".htm")),
    metavar="FILE.html",
    help="Where to write the page. Default: DIR/report.html.",
)
@click.option("--plots", type=click.Choice(("png", "svg")), help="Also write the charts as files beside the page.")
@options("as_json")
def report_command(folder: str, target: str | None, plots: str | None, as_json: bool) -> None:
    """Write a self-contained HTML page about the job in DIR, a folder that `lipcert certify --out DIR` wrote."""
    place = Path(target) if target is not None else Path(folder) / "report.html"
    job = read_job(folder)
    kind = PNG if plots == "png" else SVG
    charts = [] if plots is None else [place.parent / f"{name}{kind.ending}" for name in _CHARTS]
    also_writes({place: PAGE} | dict.fromkeys(charts, kind))
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
    """Write the charts as .png or .svg; charts for which the job has no results yet are left out."""
    radii = certified_radii(job.result)
    drawings = (certified_curve(job), heat_map(job.result), None if radii is None else radii.drawing())
    named = zip(_CHARTS, drawings, strict=True)
    found = {folder / f"{name}.{kind}": drawing for name, drawing in named if drawing is not None}
    for path, drawing in found.items():
        write_drawing(path, drawing)
    return [*found]
