"""`lipcert demo`: bounds for a network and images that ship with the package."""

from __future__ import annotations

import time
from importlib.resources import as_file, files

import click
import numpy as np

from lipcert.cli.options import options
from lipcert.cli.show import console, grid, print_json
from lipcert.method.bound import bound
from lipcert.method.result import Result
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.proof.verify import verify
from lipcert.readers import load
from lipcert.rounding import Array

RADIUS = 0.02
SHOWN = 5


def digits() -> tuple[Network, Array, Array]:
    """The shipped 64-32-10 classifier, its images with pixels in [0, 1], and their labels."""
    folder = files("lipcert") / "data"
    with as_file(folder / "digits_net.npz") as path:
        net = load(path)
    with as_file(folder / "digits_images.npz") as path, np.load(path, allow_pickle=False) as data:
        return net, data["images"] / 16.0, data["labels"].astype(np.int64)


@click.command("demo", short_help="Bound a small digit classifier around a few images.")
@options("as_json")
def demo_command(as_json: bool) -> None:
    """Bound a small digit classifier around a few images: how far can a score difference move?"""
    start = time.monotonic()
    net, images, labels = digits()
    rows = [_row(net, k, images[k], int(labels[k])) for k in range(SHOWN)]
    checked = sum(verify(result.certificate, net).proved for _, result in rows)
    if as_json:
        print_json({"radius": RADIUS, "verified": checked, "rows": [r for r, _ in rows]})
        return
    out = console()
    out.print("[bold]A 64-32-10 classifier of handwritten digits (8 x 8 pixels in [0, 1]).[/bold]")
    out.print(f"Every pixel may change by up to {RADIUS:g}. How far can its lead over the best rival fall?")
    out.print("lower and upper bracket the Lipschitz constant of the lead around the image; fall = radius * upper.\n")
    table = grid("image", "digit", "rival", "lead", "lower", "upper", "gap", "fall", "lead is")
    for row, result in rows:
        table.add_row(
            str(row["image"]),
            str(row["predicted"]) + ("" if row["predicted"] == row["digit"] else f" (a {row['digit']})"),
            str(row["rival"]),
            f"{row['lead']:.2f}",
            f"{result.lower:.1f}",
            f"{result.upper:.1f}",
            "-" if result.gap is None else f"{100 * result.gap:.1f} %",
            f"{row['fall']:.2f}",
            "kept" if row["kept"] else "open",
        )
    out.print(table)
    out.print("lower is attained at an input within the radius; upper is proved, and a file can keep the proof.")
    out.print(f"{checked} of {len(rows)} certificates verified again without any solver.")
    out.print(f"{time.monotonic() - start:.1f} s. Next: lipcert bound YOUR_MODEL.onnx --radius 0.02 --versus 7 3")


def _row(net: Network, k: int, image: Array, label: int) -> tuple[dict[str, object], Result]:
    """One image: its lead over the runner-up, and the bracket of the lead's Lipschitz constant around it."""
    scores = net.forward(image)
    second, first = (int(i) for i in np.argsort(scores)[-2:])
    result = bound(net, Box(image, RADIUS, clip=(0.0, 1.0)), output=(first, second), time_limit=10.0)
    lead, fall = float(scores[first] - scores[second]), RADIUS * result.upper
    return {
        "image": k,
        "digit": label,
        "predicted": first,
        "rival": second,
        "lead": lead,
        "lower": result.lower,
        "upper": result.upper,
        "method": result.method,
        "fall": fall,
        "kept": fall < lead,
    }, result
