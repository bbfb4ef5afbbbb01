"""`lipcert jacobian`: a network file in, proved bounds of every entry of its Jacobian on a region out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from lipcert.cli.live import LiveLine
from lipcert.cli.options import Place, Reading, json_option, network_argument, place_options, reading_options
from lipcert.cli.paths import CERTIFICATE, ENTRIES, ENTRY_TABLE, FOLDER, PNG, SVG, OutputFile
from lipcert.cli.show import console, facts, print_json, sizes
from lipcert.cli.targets import write_drawing
from lipcert.cli.weights import parse_list
from lipcert.problem.network import Network


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
@place_options
@click.option("--outputs", metavar="LIST", help="Rows: scores such as 0,2. Default: all.")
@click.option("--inputs", metavar="LIST", help="Columns: inputs such as 0:3,7. Default: all.")
@click.option(
    "--gap",
    type=float,
    metavar="G",
    help="Split until both ends of every enclosure are within G times the entry's largest value seen. "
    "Default: until signs are decided.",
)
@click.option(
    "--time-limit", type=float, default=60.0, show_default=True, metavar="S", help="Seconds to spend at most."
)
@click.option("--work", type=float, metavar="W", help="Counted work instead of seconds, as in `lipcert bound`.")
@click.option("--max-cells", type=int, default=1_000_000, show_default=True, metavar="N", help="Not more cells.")
@click.option(
    "--out", "folder", type=FOLDER, metavar="DIR", help="Keep the proof so far there, and at the end all results."
)
@click.option("--resume", is_flag=True, help="Go on with the job in --out.")
@click.option("--csv", type=OutputFile(ENTRY_TABLE), metavar="FILE.csv", help="Write all entries as a table.")
@click.option("--npz", type=OutputFile(ENTRIES), metavar="FILE.npz", help="Write all entries and points as arrays.")
@click.option(
    "--certificate",
    type=OutputFile(CERTIFICATE),
    metavar="FILE.npz",
    help="Write the proof of all entries, for `lipcert verify`.",
)
@click.option("--plot", type=OutputFile(SVG, PNG), metavar="FILE.svg", help="A heat map of the entries (.svg or .png).")
@reading_options
@json_option
def jacobian_command(
    network: str,
    place: Place,
    reading: Reading,
    outputs: str | None,
    inputs: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Prove lower and upper bounds of every entry d score / d input of the Jacobian of NETWORK on a region.

    Of every entry: a proved enclosure, the smallest and the largest value seen at points of the region, and a verdict:
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
    from lipcert.entries.door import jacobian  # here, so that other commands start fast
    from lipcert.report.jacobian import entry_map

    place.check()
    rows = None if outputs is None else parse_list("--outputs", outputs)
    columns = None if inputs is None else parse_list("--inputs", inputs)
    targets = {name: options.pop(name) for name in ("csv", "npz", "certificate", "plot")}
    net = reading.network(network)
    region, about = place.place(net.inputs)
    with _Display() as display:
        found = jacobian(net, region, outputs=rows, inputs=columns, on_progress=display.update, **options)
    if as_json:
        print_json(found.to_dict() | {"notes": [*found.notes, *about]})
    else:
        _show(found, net, Path(network).name, about)
    for name in ("csv", "npz"):
        if targets[name] is not None:
            found.save(targets[name])
    if targets["certificate"] is not None:
        found.certificate.save(targets["certificate"])
    if targets["plot"] is not None:
        write_drawing(targets["plot"], entry_map(found))
    return 0 if bool(found.good.all()) else 1


def _show(found: Any, net: Network, name: str, about: tuple[str, ...]) -> None:
    out, short = console(), found.facts()
    out.print(f"[bold]{escape(short.title)}[/bold]")
    table = facts()
    for head, value in short.rows:
        table.add_row(escape(head), escape(value))
    table.add_row("network", f"{escape(name)}   {sizes(net)}")
    for note in (*found.notes, *about):
        table.add_row("note", escape(note))
    out.print(table)
