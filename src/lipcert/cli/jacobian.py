"""`lipcert jacobian`: a network file in, proved bounds of every entry of its Jacobian on a region out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lipcert.cli.live import LiveLine
from lipcert.cli.options import (
    REGION,
    ReadingOptions,
    TargetOptions,
    network_argument,
    options,
    reading_options,
    target_options,
)
from lipcert.cli.paths import ENTRIES, ENTRY_TABLE
from lipcert.cli.question import QuestionOptions, parse_list, question_options
from lipcert.cli.show import print_result


class _Display(LiveLine):
    """Shows how many entries are good enough, and how many cells there are."""

    last: Any = None  # a JacobianProgress

    def update(self, progress: Any) -> None:
        self.last = progress

    def line(self) -> str:
        p = self.last
        if p is None:
            return f"{self.seconds:6.1f} s   bounding the region"
        done = f"{p.good:,} of {p.entries:,} entries as asked for"
        return f"{self.seconds:6.1f} s   {done}   {p.cells:,} cells, {p.open:,} open"


@click.command("jacobian", short_help="Bounds and signs of every entry of the Jacobian on a region.")
@network_argument
@question_options(*REGION)
@click.option("--outputs", metavar="LIST", help="Rows: scores such as 0,2. Default: all.")
@options(
    *("inputs", "gap", "time_limit", "work", "max_cells", "folder", "resume"),
    inputs={"help": "Columns: inputs such as 0:3,7. Default: all."},
    gap={
        "default": None,
        "help": "Split until both ends of every enclosure are within G times the entry's largest value seen. "
        "Default: until signs are decided.",
    },
    folder={"help": "Keep the proof so far in this folder, and at the end all results."},
)
@target_options(ENTRY_TABLE, ENTRIES, "all entries", "A heat map of the entries")
@reading_options
@options("as_json")
def jacobian_command(
    network: str,
    question: QuestionOptions,
    reading: ReadingOptions,
    targets: TargetOptions,
    as_json: bool,
    **given: Any,
) -> int:
    """Prove lower and upper bounds of every entry d score / d input of the Jacobian of NETWORK on a region.

    Every entry gets a proved enclosure, the smallest and the largest value seen at points of the region, and a verdict:
    increasing (lower >= 0), decreasing (upper <= 0), zero, both (both signs are seen), or open. At the time limit, or
    on Ctrl-C, what is proved by then is printed. Exit code 0 when every sign is decided (with --gap: when every
    enclosure is within the gap), 1 when not, 2 on bad input.

    \b
    lipcert jacobian net.onnx --radius 0.1
    lipcert jacobian net.onnx --radius 0.1 --outputs 0,2 --inputs 0:3,7 --gap 0.01 --certificate jacobian.npz
    lipcert jacobian net.onnx --radius 0.1 --gap 0.001 --time-limit 3600 --out job
    lipcert jacobian net.onnx --vnnlib box.vnnlib --csv entries.csv --plot entries.svg
    lipcert verify jacobian.npz --network net.onnx
    """
    from lipcert.report.heatmap import entry_map
    from lipcert.search.jacobian.jacobian import jacobian  # here, so that other commands start fast

    for name in ("outputs", "inputs"):
        given[name] = None if given[name] is None else parse_list(f"--{name}", given[name])
    net = reading.network(network)
    region, about = question.region(net.inputs)
    with _Display() as display:
        found = jacobian(net, region, on_progress=display.update, **given)
    found = replace(found, notes=(*found.notes, *about))
    print_result(found, net, Path(network).name, as_json)
    targets.write(found, lambda: entry_map(found))
    return 0 if bool(found.good.all()) else 1
