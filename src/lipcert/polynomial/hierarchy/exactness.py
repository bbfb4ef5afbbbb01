"""Whether the terms of a relaxation are computed without any rounding: short numbers multiply exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lipcert.polynomial.hierarchy.model import Block, MomentModel, Products

DIGITS = 53  # of a float


def is_exact(model: MomentModel) -> bool:
    """Whether every coefficient of the conic program, term by term, and of the objective is exact.

    A product of whole numbers (times powers of two) of a and b digits has at most a + b digits, so it is enough to
    count. Sums are no matter: terms are not summed.
    """
    rules = [rule.coefficients for rule in model.rules.values()]
    return (
        all(_digits(values) <= 1 for values in rules)
        and all(_of_block(block) <= DIGITS for block in model.blocks)
        and all(_of_products(family) <= DIGITS for family in model.products)
    )


def _of_block(block: Block) -> int:
    of_mix = 1 if block.mix is None else _digits(block.mix)
    return _of_product([of_mix, of_mix, 1 if block.multiplier is None else _digits(block.multiplier.coefficients)])


def _of_products(family: Products) -> int:
    return _of_product([max((_digits(f.coefficients) for f in family.factors), default=1)] * family.rows.shape[1])


def _of_product(digits: Sequence[int]) -> int:
    """At most as many digits as all factors have; powers of two add none."""
    return max(1, sum(d for d in digits if d > 1))


def _digits(values: ArrayLike) -> int:
    """The most binary digits of a number, from its first to its last that is not zero; at least 1."""
    mantissa = np.frexp(np.asarray(values, dtype=np.float64).reshape(-1))[0]
    whole = np.abs(np.ldexp(mantissa, DIGITS)).astype(np.int64)
    whole = whole[whole > 0]
    trailing = np.log2((whole & -whole).astype(np.float64)) if len(whole) else np.zeros(0)
    return int(max(1.0, float((DIGITS - trailing).max(initial=1.0))))
