"""`lipcert bound`: a network file in, a proved bracket out."""

from __future__ import annotations

import math
from pathlib import Path

import click
import numpy as np

from lipcert.bounding import METHODS, bound
from lipcert.commands.options import json_option, network_argument, normalization_option
from lipcert.commands.progress import ProgressDisplay
from lipcert.commands.show import print_json, show_result
from lipcert.errors import InputError
from lipcert.files import read_vector
from lipcert.output import OutputChoice
from lipcert.readers import load
from lipcert.readers.mat import read_center
from lipcert.region import Box, Everywhere, Region
from lipcert.rounding import Array


@click.command("bound")
@network_argument
@click.option(
    "--center",
    default=None,
    metavar="FILE|zero|VALUE",
    help="Centre of the box: an .npy file (or a .mat with x00), 'zero', or one value for all inputs. Default: zero.",
)
@click.option("--radius", type=float, default=None, metavar="R", help="Half-width of the box around the centre.")
@click.option("--global", "everywhere", is_flag=True, help="Bound over the whole input space instead of a box.")
@click.option(
    "--clip",
    type=float,
    nargs=2,
    default=None,
    metavar="LO HI",
    help="Intersect the box with [LO, HI], e.g. 0 1 for pixels.",
)
@click.option("--output", type=int, default=None, metavar="K", help="Bound score K.")
@click.option("--versus", type=int, nargs=2, default=None, metavar="I J", help="Bound score I minus score J.")
@click.option("--norm", default="inf", show_default=True, metavar="NORM", help="Norm of input changes: inf.")
@click.option(
    "--method", default="auto", show_default=True, metavar="|".join(METHODS), help="How to prove the upper bound."
)
@click.option(
    "--time-limit",
    type=float,
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds; the best proved bracket so far is printed.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the search for the lower bound."
)
@click.option("--no-lower", is_flag=True, help="Skip the lower bound.")
@normalization_option
@json_option
def bound_command(
    network: str,
    center: str | None,
    radius: float | None,
    everywhere: bool,
    clip: tuple[float, float] | None,
    output: int | None,
    versus: tuple[int, int] | None,
    norm: str,
    method: str,
    time_limit: float,
    seed: int,
    no_lower: bool,
    normalize: bool,
    as_json: bool,
) -> int:
    """Bracket the Lipschitz constant of one output of NETWORK (.npz, .mat, .nnet, .onnx).

    \b
    lipcert bound net.npz --radius 0.1 --output 3
    lipcert bound net.onnx --center image.npy --radius 0.02 --clip 0 1 --versus 7 3
    lipcert bound net.nnet --global --output 0 --json
    """
    choice = _output(output, versus)
    _check_region_options(center, radius, everywhere, clip)
    net = load(network, normalize=normalize)
    region = _region(net.inputs, center, radius, clip)
    with ProgressDisplay() as display:
        result = bound(
            net,
            region,
            output=choice,
            norm=norm,
            method=method,
            time_limit=time_limit,
            seed=seed,
            lower=not no_lower,
            on_progress=display.update,
        )
    if as_json:
        print_json(result.to_dict())
    else:
        show_result(result, net, Path(network).name)
    return 0 if result.certified else 1


def _output(output: int | None, versus: tuple[int, int] | None) -> OutputChoice:
    if output is not None and versus is not None:
        raise InputError("--output and --versus exclude each other; give one of them")
    return versus if versus is not None else output


def _check_region_options(
    center: str | None, radius: float | None, everywhere: bool, clip: tuple[float, float] | None
) -> None:
    if everywhere and (radius is not None or center is not None or clip is not None):
        other = "--radius" if radius is not None else "--center" if center is not None else "--clip"
        raise InputError(f"{other} and --global exclude each other; give a box or the whole space")
    if not everywhere and radius is None:
        raise InputError("no region: give --radius R (a box around --center) or --global")
    if radius is not None and not (math.isfinite(radius) and radius >= 0):
        raise InputError(f"--radius {radius:g}: the radius must be finite and >= 0")


def _region(inputs: int, center: str | None, radius: float | None, clip: tuple[float, float] | None) -> Region:
    if radius is None:
        return Everywhere()
    return Box(_center(center, inputs), radius, clip)


def _read_center(path: str) -> Array:
    if not path.lower().endswith(".mat"):
        return read_vector(path)
    center = read_center(path)
    if center is None:
        raise InputError(f"{path}: no center 'x00' in it; give an .npy file")
    return center


def _center(text: str | None, inputs: int) -> Array:
    if text is None or text == "zero":
        return np.zeros(inputs)
    try:
        value = float(text)
    except ValueError:
        vector = _read_center(text)
        if vector.size != inputs:
            raise InputError(f"{text}: the center has {vector.size} numbers, the network has {inputs} inputs") from None
        return vector
    if not math.isfinite(value):
        raise InputError(f"--center {text}: the center must be finite")
    return np.full(inputs, value)
