"""Options that several commands share."""

from __future__ import annotations

import click

network_argument = click.argument("network", metavar="NETWORK")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
normalization_option = click.option(
    "--normalize", is_flag=True, help="For .nnet: fold the file's input and output normalisation in."
)
