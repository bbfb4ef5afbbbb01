"""lower <= exact <= interval <= product, on 200 random networks of depths 1 to 4, against exhaustive enumeration."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from lipcert import Box, Network
from lipcert.budget import Budget
from lipcert.problem.problem import Problem
from lipcert.proof import prove_interval, prove_product
from lipcert.rounding import Array
from lipcert.witness import search
from tests.enumeration import exact_constant
from tests.problems import ABSOLUTE, AFTER_THE_STEP, CANCELLED, STEP
from tests.strategies import small_cases


@settings(max_examples=52)
@given(small_cases())
def test_bracket_contains_the_exact_constant(case: tuple[Network, Box, Array]) -> None:
    net, box, c = case
    exact = exact_constant(net, box, c)
    problem = Problem.of(net, box, c)
    witness = search(problem, Budget.of_work(0.05), samples=500)
    interval = prove_interval(problem).upper
    product = prove_product(problem).upper
    slack = 1e-9 * exact + 1e-12
    assert witness.value <= exact + slack
    assert exact <= interval + slack
    assert interval <= product * (1 + 1e-12) + 1e-300
    assert witness.value <= interval
    assert box.contains(witness.point)


def test_enumeration_knows_closed_forms() -> None:
    """The oracle itself; all closed forms: test_problems."""
    for known in (ABSOLUTE, STEP, AFTER_THE_STEP, CANCELLED):
        assert exact_constant(*known.case) == known.value


def test_lower_bound_is_not_fooled_by_a_kink() -> None:
    """x - relu(x) + relu(-x) = 0, though the formal gradient at 0 is 1."""
    net = Network.from_weights([[[1.0], [-1.0], [1.0]], [[-1.0, 1.0, 1.0]]], [[0.0, 0.0, 10.0], [0.0]])
    for box in (Box([0.0], 0.0), Box([0.0], 1.0)):
        assert search(Problem.of(net, box), Budget.of_work(0.2)).value == pytest.approx(0.0, abs=1e-12)
