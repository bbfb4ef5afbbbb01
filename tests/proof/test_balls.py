"""Both checkers on a corpus of every kind of proof: they agree on what is proved, and on what is not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lipcert import verify
from lipcert.errors import FileFormatError
from lipcert.proof.balls import check_with_balls, what_is_checked
from tests.ball_corpus import FAMILIES, a_gradient_norm, forged

pytest.importorskip("flint", reason="python-flint is not here: pip install 'lipcert[exact]'")

STEPS = {"arithmetic": 23, "relaxed": 4, "slopes": 2, "trees": 5, "within": 3, "solved": 1}
KINDS = {
    "arithmetic": {"Arithmetic"},
    "relaxed": {"Multipliers", "Cases"},
    "slopes": {"Slopes"},
    "trees": {"Tree"},
    "within": {"Within"},
    "solved": {"Sharpened", "Within", "Tree", "Multipliers"},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_both_checkers_agree(family: str) -> None:
    """What verify proves the balls prove, by no more, and by much less only where their formulas are better."""
    seen = set()
    for entry in FAMILIES[family](STEPS[family]):
        ordinary, balls = verify(entry.certificate, entry.net), check_with_balls(entry.certificate, entry.net)
        assert ordinary.proved, entry.name
        assert balls <= ordinary.claim, entry.name
        assert balls >= (1 - entry.far) * ordinary.upper, entry.name
        assert balls >= a_gradient_norm(entry) * (1 - 1e-9), entry.name
        low = replace(entry.certificate, claim=0.99 * min(balls, ordinary.upper))
        assert not verify(low, entry.net).proved
        proof = entry.certificate.proof
        assert what_is_checked(proof)
        seen.add(type(proof).__name__)
    assert seen <= KINDS[family]
    assert seen & KINDS[family]


@pytest.mark.parametrize("family", ["relaxed", "slopes"])
def test_forged_numbers_prove_nothing_false(family: str) -> None:
    """One stored number changed: either checker may still prove something, but never less than the truth."""
    rng, refused = np.random.default_rng(7), 0
    for entry in FAMILIES[family](9):
        least = a_gradient_norm(entry) * (1 - 1e-9)
        for _ in range(3):
            try:
                false = forged(entry, rng)
            except FileFormatError:  # a number that no file may have
                refused += 1
                continue
            if false is None:
                continue
            for found in (verify(false, entry.net).upper, check_with_balls(false, entry.net)):
                assert found >= least, entry.name
                refused += math.isinf(found)
    assert refused > 0
