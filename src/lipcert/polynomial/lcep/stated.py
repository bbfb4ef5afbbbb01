"""Proofs by the paper's estimators, kept in files: the polynomial problem is rebuilt from the network, then checked.

`Relaxed` holds a moment relaxation of LCEP (`polynomial.certificates.stored`), `Products` the multipliers of LipOpt.
Neither says anything about the network: blocks and rows refer to constraints of the problem that the network gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.errors import FileFormatError, InputError
from lipcert.files.numbers import LARGEST_WHOLE, one_whole, real, whole, word
from lipcert.polynomial.certificates import stored
from lipcert.polynomial.certificates.stored import Stored
from lipcert.polynomial.lcep.chain import gradient_polynomial
from lipcert.polynomial.lcep.literal import lift
from lipcert.polynomial.lcep.problem import Lcep, lcep
from lipcert.polynomial.lcep.products import product_family
from lipcert.problem.problem import Problem
from lipcert.proof.krivine import prove_krivine
from lipcert.proof.stated import refusal, with_error
from lipcert.rounding import Array

FORMS = ("plain", "bounds", "lifted")  # without products with pre-activation bounds (shor), with them, with s = u u'
MOST_DEGREE = 9


def formulated(problem: Problem, form: str) -> Lcep:
    """LCEP of the problem in one of FORMS."""
    found = lcep(problem, bounds=form != "plain")
    return lift(found) if form == "lifted" else found


@dataclass(frozen=True, eq=False)
class Relaxed:
    """A moment relaxation of LCEP with its Gram matrices and multipliers."""

    name: str
    form: str
    make: Callable[[], Stored]

    @cached_property
    def relaxation(self) -> Stored:
        """What a file keeps; written in terms of the problem when it is asked for."""
        return self.make()

    @property
    def method(self) -> str:
        return f"{self.name}-literal"

    def arrays(self) -> dict[str, NDArray[Any]]:
        kind = {"proof": np.array("literal", dtype="U16"), "literal_form": np.array(self.form, dtype="U16")}
        return kind | self.relaxation.arrays

    def check(self, problem: Problem) -> float:
        if refusal(problem, self.name) is not None:
            return np.inf
        found = formulated(problem, self.form)
        bound = self.relaxation.bound(found.problem)
        return with_error(bound, found.error) if np.isfinite(bound) else np.inf


@dataclass(frozen=True, eq=False)
class Krivine:
    """Multipliers of the products of LipOpt with these numbers in their family; those of the others are zero."""

    name: str
    degree: int
    index: NDArray[np.int64]
    numbers: Array

    @property
    def method(self) -> str:
        return f"{self.name}-literal"

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "proof": np.array("lipopt", dtype="U16"),
            "krivine_degree": np.array(self.degree),
            "krivine_index": self.index.astype(np.int32),
            "krivine_numbers": self.numbers,
        }

    def check(self, problem: Problem) -> float:
        if refusal(problem, self.name) is not None or problem.network.depth > 2:
            return np.inf
        f = gradient_polynomial(problem)
        family = product_family(f, self.degree)
        index, place = np.unique(self.index, return_index=True)
        if len(index) and int(index[-1]) >= family.starts[-1]:
            raise InputError(f"multipliers of more than the {family.starts[-1]} products that there are")
        return prove_krivine(family.program(f, index), self.numbers[place])


def read_stated(kind: str, arrays: Mapping[str, Any], method: str) -> Relaxed | Krivine:
    """A proof from the arrays of a file; nothing in it is believed before `check`."""
    name = method.removesuffix("-literal")
    if kind == "literal":
        form = word(arrays, "literal_form")
        if form not in FORMS:
            raise FileFormatError(f"the form of a literal proof must be one of {', '.join(FORMS)}")
        kept = stored.only(arrays)
        return Relaxed(name, form, lambda: kept)
    degree, numbers = one_whole(arrays, "krivine_degree", 1, MOST_DEGREE), real(arrays, "krivine_numbers", (None,))
    return Krivine(name, degree, whole(arrays, "krivine_index", (len(numbers),), 0, LARGEST_WHOLE), numbers)
