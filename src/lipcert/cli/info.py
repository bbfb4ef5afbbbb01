"""`lipcert info`: what is in a network file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from scipy import sparse

from lipcert.cli.options import json_option, network_argument, normalization_option
from lipcert.cli.show import console, grid, print_json
from lipcert.problem.network import Network
from lipcert.readers import load


@click.command("info")
@network_argument
@normalization_option
@json_option
def info_command(network: str, normalize: bool, as_json: bool) -> None:
    """Show the layers, sizes and content hash of NETWORK."""
    net = load(network, normalize=normalize)
    if as_json:
        print_json(describe(net))
        return
    out = console()
    out.print(f"[bold]{Path(network).name}[/bold]   {'-'.join(map(str, net.shape))}   {net.neurons} hidden neurons")
    table = grid("layer", "inputs", "outputs", "stored weights", "activation")
    for row in describe(net)["layers"]:
        kept = f"{row['stored']:,}{' (sparse)' if row['sparse'] else ''}"
        table.add_row(str(row["layer"]), str(row["inputs"]), str(row["outputs"]), kept, row["activation"] or "-")
    out.print(table)
    out.print(f"sha256 {net.sha256}")
    for note in net.notes:
        out.print(f"note: {note}")


def describe(net: Network) -> dict[str, Any]:
    """The network in plain values."""
    names = [str(f) for f in net.activations] + [None]
    layers = [
        {
            "layer": i,
            "inputs": a.inputs,
            "outputs": a.outputs,
            "stored": a.stored,
            "sparse": bool(sparse.issparse(a.weight)),
            "activation": name,
        }
        for i, (a, name) in enumerate(zip(net.affines, names, strict=True), start=1)
    ]
    return {
        "shape": list(net.shape),
        "neurons": net.neurons,
        "depth": net.depth,
        "sha256": net.sha256,
        "layers": layers,
        "notes": list(net.notes),
    }
