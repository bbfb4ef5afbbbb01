"""`lipcert norms`: a network file in, proved operator norms of its layers out."""

from __future__ import annotations

from pathlib import Path

import click

from lipcert.cli.options import ReadingOptions, network_argument, options, reading_options
from lipcert.cli.paths import NORM_ARRAYS, NORM_SUMMARY, NORM_TABLE, OutputFile
from lipcert.cli.show import print_json, print_result


@click.command("norms", short_help="Prove the operator norms of all layers of NETWORK, and their product.")
@network_argument
@click.option(
    "--out",
    "place",
    type=OutputFile(NORM_TABLE, NORM_ARRAYS, NORM_SUMMARY),
    metavar="FILE",
    help="Write the table (.csv), its columns as arrays (.npz), or the summary (.json).",
)
@reading_options
@options("as_json")
def norms_command(network: str, place: str | None, reading: ReadingOptions, as_json: bool) -> None:
    """Prove upper bounds of the norms 2 to 2, inf to inf and 1 to 1 of every layer of NETWORK, and of their product.

    The product bounds the Lipschitz constant of the map of all scores on the whole space; `lipcert bound` is for
    better bounds.

    \b
    lipcert norms model.onnx
    lipcert norms model.onnx --out norms.csv
    lipcert norms model.onnx --json
    """
    from lipcert.method.norms import layer_norms  # here, so that other commands start fast

    net = reading.network(network)
    found = layer_norms(net)
    if as_json:
        print_json(found.to_dict())
    else:
        print_result(found, net, Path(network).name)
    if place is not None:
        found.save(place)
