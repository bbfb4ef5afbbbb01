"""`lipcert info`: what is in a network file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from lipcert.cli.options import ReadingOptions, network_argument, options, reading_options
from lipcert.cli.show import console, grid, print_json, sizes
from lipcert.problem.maps import is_sparse
from lipcert.problem.network import Network


@click.command("info")
@network_argument
@reading_options
@options("as_json")
def info_command(network: str, reading: ReadingOptions, as_json: bool) -> None:
    """Show the layers, sizes and content hash of NETWORK."""
    net = reading.network(network)
    if as_json:
        print_json(describe(net))
        return
    out = console()
    out.print(f"[bold]{escape(Path(network).name)}[/bold]   {sizes(net)}")
    branches = [] if net.is_chain else ["reads"]
    table = grid("layer", *branches, "inputs", "outputs", "stored weights", "activation")
    for row in describe(net)["layers"]:
        kept = f"{row['stored']:,}{' (sparse)' if row['sparse'] else ''}"
        reads = [", ".join(map(str, row["reads"]))] if branches else []
        table.add_row(
            str(row["layer"]), *reads, str(row["inputs"]), str(row["outputs"]), kept, row["activation"] or "-"
        )
    out.print(table)
    out.print(f"sha256 {net.sha256}")
    for note in net.notes:
        out.print(f"note: {note}", markup=False)  # the note may have names from the file


def describe(net: Network) -> dict[str, Any]:
    """The network in plain values, for JSON."""
    layers = [
        {
            "layer": i,
            "inputs": sum(int(weight.shape[1]) for _, weight in block.terms),
            "outputs": block.width,
            "reads": [source for source, _ in block.terms],
            "stored": block.stored,
            "sparse": all(is_sparse(weight) for _, weight in block.terms),
            "activation": str(block.activation) if block is not net.scores else None,
        }
        for i, block in enumerate(net.blocks, start=1)
    ]
    return {
        "shape": list(net.shape),
        "neurons": net.neurons,
        "depth": net.depth,
        "sha256": net.sha256,
        "layers": layers,
        "notes": list(net.notes),
    }
