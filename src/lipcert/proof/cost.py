"""The expected time of a check, announced before it begins: seconds on one core, from sizes alone.

The figures are right within a factor of three for trees of networks with 16 to 200 neurons; nothing is refused because
of them.
"""

from __future__ import annotations

from itertools import pairwise

from lipcert.bounds.choice import zonotope_work
from lipcert.problem.network import Network
from lipcert.problem.problem import FORMS, Way
from lipcert.proof.cases import Cases
from lipcert.proof.certificate import Proof
from lipcert.proof.channels import Channels
from lipcert.proof.multipliers import Multipliers
from lipcert.proof.preorder import Preorder
from lipcert.proof.sharpened import Sharpened, Within
from lipcert.proof.slopes import Slopes
from lipcert.proof.tree import Tree
from lipcert.proof.ways import WithBounds
from lipcert.steps import RATES

_RATE = 5e9  # multiplications in a second
_CELL = 1e-4  # seconds for the bounds of a cell of a small network, measured on trees of 64 to 2,048 linear leaves
_BUILD = 3e-2  # seconds for the rows of a small relaxation and the factor of its matrix, measured on 8 to 128 leaves
_WIDE = 300.0  # multiplications at all frequencies for each of a convolution, measured on chains of 16 and 32 channels
_ROW = 2e-6  # seconds for every multiplier of a relaxation besides


def cell_seconds(net: Network) -> float:
    """Seconds for the linear forms of all neurons and of the gradient, on one cell."""
    entries, below, total = 0.0, 0.0, 0.0
    for block in net.blocks:
        entries += block.entries
        total += 4.0 * block.width * below
        below += block.entries
    return (total + 4.0 * entries) / _RATE + _CELL


def bounds_seconds(net: Network, way: Way) -> float:
    """Seconds for pre-activation bounds made in this way, and for one gradient."""
    if way == FORMS:
        return cell_seconds(net)
    operations, kind = zonotope_work(net, way.symbols)
    return operations / RATES[kind] + 4.0 * net.entries / _RATE + _CELL


def seconds(net: Network, proof: Proof, way: Way = FORMS) -> float:
    """Seconds for checking a proof about this network whose pre-activation bounds are made in this way."""
    cell = bounds_seconds(net, way)
    match proof:
        case WithBounds():
            return seconds(net, proof.inner, proof.way)
        case Sharpened() | Within():
            return cell + seconds(net, proof.inner, way)
        case Tree():
            return proof.cells * cell + sum(_relaxed(net, leaf) for leaf in proof.relaxed)
        case Preorder():
            return seconds(net, proof.sketch, way)
        case Multipliers():
            return cell + _relaxed(net, proof)
        case Cases():
            return cell + sum(_relaxed(net, case.proof) for case in proof.cases)
        case Channels():
            return _WIDE * net.entries / _RATE + _BUILD
        case Slopes():
            widths = net.shape
            piece = sum((a + b) ** 3 for a, b in pairwise(widths))
            return cell + len(proof.parts) * 4.0 * piece / _RATE
        case _:
            return cell


def words(proof: Proof) -> str:
    """A phrase that says what makes the check long, such as "40 leaves"."""
    match proof:
        case Sharpened() | Within() | WithBounds():
            return words(proof.inner)
        case Tree():
            if proof.method == "signs":
                return f"{proof.count:,} patterns of signs"
            return f"{proof.count:,} leaves, {len(proof.relaxed):,} of them with multipliers"
        case Preorder():
            return words(proof.sketch)
        case Cases():
            return f"{len(proof.cases):,} cases"
        case _:
            return f"a proof by {proof.method}"


def _relaxed(net: Network, proof: Multipliers) -> float:
    """Seconds for one proof by multipliers.

    The shift has one number for every row of the matrix, the multipliers one for every row of the relaxation.
    """
    order = max(sum(len(v) for v in proof.shift.values()), 1 + net.inputs + net.neurons)
    rows = sum(len(v) for v in proof.multipliers.values())
    return _BUILD + order**3 / _RATE + rows * _ROW
