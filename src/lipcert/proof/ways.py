"""Proofs that name the way in which their pre-activation bounds were made: the checker makes the same ones again.

A certificate holds no number of these bounds. In a file

bounds    the name of the way, one of `NAMED`; without it the bounds are those of linear forms
symbols   how many symbols a zonotope may have, where the way has zonotopes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lipcert.bounds.propagation import made_in
from lipcert.errors import FileFormatError
from lipcert.files import MAX_WIDTH
from lipcert.files.numbers import one_whole, word
from lipcert.problem.problem import FORMS, Problem, Way

if TYPE_CHECKING:
    from lipcert.proof.certificate import Proof

NAMES = "bounds|symbols"
TEXTS = ("bounds",)
NAMED = {"intervals": (False, False), "zonotopes": (True, False), "zonotopes and forms": (True, True)}


@dataclass(frozen=True, eq=False)
class WithBounds:
    """A proof about a problem whose pre-activation bounds are made in this way."""

    way: Way
    inner: Proof

    @property
    def method(self) -> str:
        """The name of the method that made the inner proof."""
        return self.inner.method

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a file keeps of the proof, by name."""
        own = {"bounds": np.array(name_of(self.way))}
        symbols = {"symbols": np.array(self.way.symbols)} if self.way.symbols else {}
        return self.inner.arrays() | own | symbols

    def check(self, problem: Problem) -> float:
        """The bound of the inner proof, with the pre-activation bounds made again."""
        return self.inner.check(made_in(problem, self.way))


def with_way(way: Way, proof: Proof) -> Proof:
    """The proof with the name of the way, where it needs one."""
    return proof if way == FORMS else WithBounds(way, proof)


def name_of(way: Way) -> str:
    """The name of a way in files."""
    return next(name for name, has in NAMED.items() if has == (way.symbols > 0, way.forms))


def read_way(arrays: Mapping[str, Any]) -> Way:
    """The way that a file names."""
    if "bounds" not in arrays:
        if "symbols" in arrays:
            raise FileFormatError("the certificate has a number of symbols, and bounds without any")
        return FORMS
    name = word(arrays, "bounds")
    if name not in NAMED:
        raise FileFormatError(f"the certificate names unknown bounds, {name!r}; upgrade lipcert")
    zonotopes, forms = NAMED[name]
    if zonotopes != ("symbols" in arrays):
        raise FileFormatError(f"bounds by {name} do not fit the number of symbols of the certificate")
    return Way(one_whole(arrays, "symbols", 1, 64 * MAX_WIDTH) if zonotopes else 0, forms)
