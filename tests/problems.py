"""Problems by name: network, region, output and norm, the value that is known of them, and where it comes from."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from lipcert import Activation, Box, Everywhere, Network
from lipcert.paper.entries import paper_network, paper_region
from lipcert.problem.norms import INF, Norm
from lipcert.rounding import Array
from tests.lift_tools import deep_net
from tests.one_layer_tools import random_case

ENUMERATION = "tests/enumeration.py, all digits"


@dataclass(frozen=True, eq=False)
class Known:
    """A problem whose exact constant is known."""

    name: str
    make: Callable[[], Network]
    region: Box | Everywhere
    value: float
    source: str
    output: tuple[float, ...] = (1.0,)
    norm: Norm = INF

    def __str__(self) -> str:
        return self.name

    @cached_property
    def network(self) -> Network:
        return self.make()

    @property
    def c(self) -> Array:
        return np.array(self.output)

    @property
    def pair(self) -> tuple[Network, Box]:
        """Network and box."""
        assert isinstance(self.region, Box)
        return self.network, self.region

    @property
    def case(self) -> tuple[Network, Box, Array]:
        """Network, box, and the weights of the outputs."""
        return *self.pair, self.c


def net_of(*sizes: int, kind: str = "relu", seed: int = 0) -> Network:
    """Pre-activations of about one, biases of a quarter of that."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in itertools.pairwise(sizes)]
    return Network.from_weights(weights, [rng.normal(size=len(w)) / 4 for w in weights], kind)


# --- closed forms: functions that can be read off ---------------------------------------------------------------------


def _absolute() -> Network:
    return Network.from_weights([[[1.0], [-1.0]], [[1.0, 1.0]]])


def _step() -> Network:
    return Network.from_weights([[[1.0], [1.0]], [[1.0, -1.0]]], [[0.0, -1.0], [0.0]])


def _mirrored() -> Network:
    return Network.from_weights([[[1.0], [-1.0]], [[-1.0, 1.0]]])


def _cancelled() -> Network:
    return Network.from_weights([[[1.0], [-1.0], [1.0]], [[-1.0, 1.0, 1.0]]], [[0.0, 0.0, 10.0], [0.0]])


def _affine() -> Network:
    return Network.from_weights([[[1.0, -2.0], [3.0, 4.0]]])


def _ones() -> Network:
    return Network.from_weights([np.eye(2), np.ones((1, 2))], [np.ones(2), np.zeros(1)])


def _dead() -> Network:
    return Network.from_weights([np.zeros((2, 2)), np.ones((1, 2))])


def _dead_deep() -> Network:
    weights = [np.ones((2, 3)), np.ones((2, 2)), np.ones((1, 2))]
    return Network.from_weights(weights, [[-9.0, -9.0], [0.0, 0.0], [0.0]])


ABSOLUTE = Known("|x|", _absolute, Box([0.0], 1.0), 1.0, "slope -1 or 1")
STEP = Known("step", _step, Box([0.5], 1.5), 1.0, "relu(x) - relu(x - 1): slope 1 between 0 and 1")
AFTER_THE_STEP = Known("after the step", _step, Box([2.5], 0.5), 0.0, "relu(x) - relu(x - 1) = 1 from 1 on")
MIRRORED = Known("-x", _mirrored, Box([0.0], 1.0), 1.0, "-relu(x) + relu(-x) = -x; at the kink, formally, slope 0")
CANCELLED = Known("0 = x - x", _cancelled, Box([0.0], 1.0), 0.0, "10 + x - relu(x) + relu(-x) = 10; at 0, formally, 1")
KINK = Known("0 at a kink", _cancelled, Box([0.0], 0.0), 0.0, "as above, on the one point where a formal slope is 1")
AFFINE = Known("affine", _affine, Everywhere(), 7.0, "3 x + 4 y: |3| + |4|", output=(0.0, 1.0))
AT_A_POINT = Known("at a point", _ones, Box(np.zeros(2), 0.0), 2.0, "relu(x + 1) + relu(y + 1) at 0: 1 + 1")
DEAD = Known("dead", _dead, Box(np.zeros(2), 1.0), 0.0, "no weight leads anywhere")
DEAD_DEEP = Known("dead and deep", _dead_deep, Box(np.zeros(3), 1.0), 0.0, "x + y + z <= 3 < 9 closes the first layer")
CLOSED = (ABSOLUTE, STEP, AFTER_THE_STEP, MIRRORED, CANCELLED, KINK, AFFINE, AT_A_POINT, DEAD, DEAD_DEEP)


# --- random networks, enumerated --------------------------------------------------------------------------------------


def _enumerated(name: str, make: Callable[[], Network], region: Box, value: float) -> Known:
    return Known(name, make, region, value, ENUMERATION)


def _one_layer(seed: int, inputs: int, neurons: int, radius: float, value: float) -> Known:
    """Of `random_case`: the box is not around zero."""
    net, box, _ = random_case(seed, inputs, neurons, radius)
    return _enumerated(f"({inputs},{neurons}), seed {seed}", lambda: net, box, value)


def _paper(seed: int, region: str, value: float) -> Known:
    name = f"[CLMP20] (10,10), s = 20, seed {seed}, {region}"
    return _enumerated(name, partial(paper_network, 10, 20, seed), paper_region(10, seed, region), value)


SMALL = _enumerated("(6,8), radius 0.3", partial(net_of, 6, 8, 1), Box(np.zeros(6), 0.3), 1.9948851360111208)
TINY = _enumerated("(4,5), radius 0.3", partial(net_of, 4, 5, 1), Box(np.zeros(4), 0.3), 1.4679616363434516)
ONE_LAYER = _enumerated("(6,8), radius 0.5", partial(deep_net, 6, 8, 1), Box(np.zeros(6), 0.5), 1.9948851360111208)
TWO_LAYERS = _enumerated(
    "(4,5,4), radius 0.5", partial(deep_net, 4, 5, 4, 1), Box(np.zeros(4), 0.5), 1.0891916285506906
)
LEAKY = _enumerated(
    "(3,5,4), slope 0.1 below zero",
    partial(deep_net, 3, 5, 4, 1, activation=Activation("leaky_relu", 0.1)),
    Box(np.zeros(3), 0.5),
    0.466333061491421,
)
AROUND_4 = _one_layer(4, 3, 4, 0.5, 2.9511153249935176)
AROUND_7 = _one_layer(7, 3, 4, 0.6, 1.2554015764857749)
AROUND_11 = _one_layer(11, 4, 6, 0.5, 3.2607599342746707)
PAPER = (
    _paper(0, "local", 0.6869332674016453),
    _paper(5, "local", 0.7654304673925161),
    _paper(8, "local", 0.4784359232400712),
    _paper(0, "global", 1.2882982341077476),
    _paper(5, "global", 1.087602826103303),
    _paper(8, "global", 0.8654712797239137),
)
ENUMERATED = (SMALL, TINY, ONE_LAYER, TWO_LAYERS, LEAKY, AROUND_4, AROUND_7, AROUND_11, *PAPER)


# --- cells of [CLMP20] ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One random network of the paper, and the bound that one of its methods has there: its authors' result files."""

    layers: int
    place: str
    size: int
    sparsity: int
    seed: int
    method: str
    value: float

    def __str__(self) -> str:
        return f"{self.method}-{self.place}-{self.layers}x{self.size}-{self.sparsity}-{self.seed}"

    @property
    def network(self) -> Network:
        return paper_network(self.size, self.sparsity, self.seed, self.layers)

    @property
    def box(self) -> Box:
        return paper_region(self.size, self.seed, self.place)


PUBLISHED = (
    Cell(1, "global", 10, 4, 0, "LBS", 0.334332),
    Cell(1, "global", 10, 20, 7, "LBS", 0.851914),
    Cell(1, "global", 20, 8, 1, "LBS", 0.640183),
    Cell(1, "global", 20, 40, 9, "LBS", 1.225759),
    Cell(1, "global", 80, 10, 0, "LBS", 0.736630),
    Cell(1, "global", 80, 80, 4, "LBS", 1.923636),
    Cell(2, "global", 10, 4, 0, "LBS", 0.065193),
    Cell(2, "global", 10, 12, 5, "LBS", 0.551398),
    Cell(2, "global", 20, 40, 9, "LBS", 0.788460),
    Cell(1, "global", 10, 8, 0, "LipOpt-3", 0.905938),
    Cell(1, "global", 10, 8, 0, "LipOpt-4", 0.905938),
    Cell(1, "global", 10, 4, 0, "LipOpt-3", 0.609888),
    Cell(1, "global", 10, 20, 0, "LipOpt-3", 1.288298),
    Cell(1, "global", 20, 40, 1, "LipOpt-3", 1.456591),
    Cell(1, "local", 10, 20, 0, "LipOpt-3", 0.954483),
    Cell(1, "local", 10, 20, 0, "LipOpt-4", 0.954483),
    Cell(2, "global", 10, 4, 0, "LipOpt-3", 0.114651),
    Cell(2, "global", 10, 20, 0, "LipOpt-3", 0.884722),
    Cell(1, "global", 10, 8, 0, "SHOR", 0.918992),
    Cell(1, "global", 10, 20, 0, "SHOR", 1.288408),
    Cell(1, "local", 10, 20, 0, "SHOR", 0.931715),
    Cell(1, "local", 10, 20, 0, "HR-2", 0.844951),
)


def published(*methods: str) -> list[Cell]:
    """The cells of these methods."""
    return [cell for cell in PUBLISHED if cell.method in methods]
