"""layer_norms(): proved operator norms of all layers of a network, and their product."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lipcert._version import __version__
from lipcert.bounds.operator_norms import operator_norm
from lipcert.budget import Budget
from lipcert.budget.threads import threads_for
from lipcert.chart.facts import Facts, ShownTable
from lipcert.chart.numbers import rounded_up
from lipcert.problem.convolution import Kernel
from lipcert.problem.maps import is_sparse
from lipcert.problem.network import Network
from lipcert.proof.arithmetic import product_of_norms
from lipcert.proof.verification import finite
from lipcert.readers.given import TorchModule, network_of

_NORMS = {"norm_2": "2", "norm_inf": "inf", "norm_1": "1"}


@dataclass(frozen=True)
class LayerNorm:
    """Upper bounds of the operator norms of the weight with which a layer reads a source: the input is source 0."""

    layer: int
    source: int
    kind: str
    inputs: int
    outputs: int
    norm_2: float
    norm_inf: float
    norm_1: float
    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class LayerNorms(ShownTable):
    """The answer of `layer_norms`: a row for each weight, and what their product says of the whole network.

    `product_2`, `product_inf` and `product_1` bound the Lipschitz constant of the map of all scores in these norms of
    inputs and outputs, on the whole space: norms of layers that follow each other are multiplied, with the largest
    slopes of the activations between them, and ways that meet are added.
    """

    kind: ClassVar[str] = "a table of norms"

    layers: tuple[LayerNorm, ...]
    shape: tuple[int, ...]
    seconds: float
    product_2: float
    product_inf: float
    product_1: float
    notes: tuple[str, ...] = field(default=())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The columns of the table by name, and the products."""
        columns = {name: np.array([getattr(row, name) for row in self.layers]) for name in LayerNorm.__annotations__}
        return columns | {name: np.array(getattr(self, name)) for name in ("product_2", "product_inf", "product_1")}

    def csv(self) -> str:
        """A row for every weight."""
        lines = [",".join(LayerNorm.__annotations__)]
        lines += [
            ",".join(repr(v) if isinstance(v, float) else str(v) for v in asdict(r).values()) for r in self.layers
        ]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite number is null."""
        rows = [{k: finite(v) if isinstance(v, float) else v for k, v in asdict(row).items()} for row in self.layers]
        products = {name: finite(getattr(self, name)) for name in ("product_2", "product_inf", "product_1")}
        return {
            "layers": rows,
            **products,
            "shape": list(self.shape),
            "seconds": round(self.seconds, 4),
            "notes": list(self.notes),
            "version": __version__,
        }

    def facts(self) -> Facts:
        """The table with the products below it."""
        heads = f"{'weight':22s}{'norm 2':>12s}{'norm inf':>12s}{'norm 1':>12s}{'seconds':>9s}"
        rows = [("layer", heads)]
        for row in self.layers:
            name = f"{row.layer}" if row.source == row.layer - 1 else f"{row.layer} of {row.source}"
            size = f"{row.kind} {row.outputs}x{row.inputs}"
            rows.append((name, f"{size:22s}{_columns(row.norm_2, row.norm_inf, row.norm_1)}{row.seconds:9.2f}"))
        rows.append(
            ("product", f"{'':22s}{_columns(self.product_2, self.product_inf, self.product_1)}{self.seconds:9.2f}")
        )
        return Facts("Norms of the layers, proved", [*rows, *(("note", note) for note in self.notes)])


def _columns(*norms: float) -> str:
    return "".join(f"{rounded_up(norm, 6) if norm < 1e6 else _short(norm):>12s}" for norm in norms)


def _short(norm: float) -> str:
    """A large number in five digits, rounded up."""
    return f"{norm * (1 + 1e-4):.4e}" if math.isfinite(norm) else "inf"


def layer_norms(net: Network | str | os.PathLike[str] | TorchModule) -> LayerNorms:
    """Prove upper bounds of the norms 2 to 2, inf to inf and 1 to 1 of every weight of a network, and their product.

    net: a network, the path of a file, or a torch module.

    The norms inf and 1 are exact but for rounding. The Euclidean norm is so where the Gram matrix of the weight can be
    factored; the one of a larger convolution is that of its symbol, at most 1 % above the supremum of the symbol
    (`lipcert.bounds.symbols`); that of a larger sparse matrix is the norm of the magnitudes of its entries.
    """
    network, clock = network_of(net), Budget.of_seconds(math.inf)
    begin, rows = clock.now(), []
    known: dict[tuple[int, str], float] = {}
    with threads_for(network.entries**0.5), np.errstate(over="ignore", invalid="ignore"):
        for i, block in enumerate(network.blocks, start=1):
            for source, weight in block.terms:
                start = clock.now()
                found = {name: operator_norm(weight, p, p) for name, p in _NORMS.items()}
                known |= {(id(weight), p): found[name] for name, p in _NORMS.items()}
                kind = "kernel" if isinstance(weight, Kernel) else "sparse" if is_sparse(weight) else "dense"
                outputs, inputs = weight.shape
                rows.append(LayerNorm(i, source, kind, inputs, outputs, **found, seconds=clock.now() - start))
    return LayerNorms(
        tuple(rows),
        network.shape,
        clock.now() - begin,
        product_2=product_of_norms(network, lambda weight: known[id(weight), "2"]),
        product_inf=product_of_norms(network, lambda weight: known[id(weight), "inf"]),
        product_1=product_of_norms(network, lambda weight: known[id(weight), "1"]),
        notes=network.notes,
    )
