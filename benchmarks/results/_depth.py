"""Cases of depth: `slopes` on deep random networks, beside ECLipsE's closed form and the product of norms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from benchmarks._networks import Made
from benchmarks._random_chains import closed_form, positive_layers, product_of_norms, square_layers
from benchmarks._rows import Measured
from benchmarks.results._case import BOTH, DATA, ONLY_FULL, Case, Question, Stopwatch, bracket
from lipcert import Everywhere, Network
from lipcert.rounding import Array

SQUARE = ((16, 16, 5.0), (32, 16, 10.0), (64, 16, 30.0))  # depth, width, counted work
SQUARE_FULL = ((32, 32, 40.0), (64, 64, 300.0))
POSITIVE = ((5, 20), (20, 20), (10, 60))  # layers, width
POSITIVE_FULL = ((50, 20), (100, 20), (50, 60), (100, 60), (20, 100), (100, 100))
CLOSED = "ECLipsE-Fast (closed form)"


def whole(weights: list[Array]) -> Made:
    return Network.from_weights(weights), Everywhere(), "all", "2"


def beside(name: str, weights: list[Array], work: float) -> Iterable[Measured]:
    """Ours with counted work, the closed form timed in the same process."""
    ours = bracket(Question(name, lambda: whole(weights)), "slopes", work, lower=False)
    watch = Stopwatch()
    theirs = closed_form(weights)
    yield replace(
        ours,
        peer=CLOSED,
        peer_value=theirs,
        peer_seconds=watch.wall,
        peer_proof=False,
        facts=ours.facts | {"product": product_of_norms(weights)},
    )


def _square(depth: int, width: int, work: float) -> Iterable[Measured]:
    yield from beside(f"{depth} layers of {width}, normal", square_layers(depth, width), work)


def _positive(layers: int, width: int) -> Iterable[Measured]:
    yield from beside(f"{layers} layers of {width}, uniform", positive_layers(layers, width), 20.0)


def _trained(name: str) -> Iterable[Measured]:
    from benchmarks._measure import data_folder
    from lipcert import load

    net = load(data_folder() / "nets" / f"{name}.onnx")
    yield bracket(Question(name, lambda: (net, Everywhere(), "all", "2")), "slopes", 60.0, lower=False)


def cases() -> list[Case]:
    made = [
        Case(f"depth/{d} layers of {w}, normal", "depth", partial(_square, d, w, work), sets)
        for table, sets in ((SQUARE, BOTH), (SQUARE_FULL, ONLY_FULL))
        for d, w, work in table
    ]
    made += [
        Case(f"depth/{d} layers of {w}, uniform", "depth", partial(_positive, d, w), sets)
        for table, sets in ((POSITIVE, BOTH), (POSITIVE_FULL, ONLY_FULL))
        for d, w in table
    ]
    trained = ("eran_mnist_relu_3_50", "eran_mnist_relu_5_100")
    return made + [Case(f"depth/{n}", "depth", partial(_trained, n), ONLY_FULL, (DATA,)) for n in trained]
