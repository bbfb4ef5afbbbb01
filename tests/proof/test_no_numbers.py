"""What is no number never makes a bound smaller, nor a check pass: guarded where it would hurt, whoever made it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lipcert import Box, Network
from lipcert.bounds.cell import Split
from lipcert.bounds.collapse import Collapsed
from lipcert.bounds.interval import Interval
from lipcert.problem.problem import Problem
from lipcert.proof import cases, leaves, margins, slopes, tree, verify
from lipcert.proof.cases import prove_cases
from lipcert.proof.pieces import NO_STEPS
from lipcert.proof.sharpened import narrowed
from lipcert.relaxation.model import Finish
from lipcert.rounding import best, worst
from tests.trees import signs_of, tree_of

NAN = math.nan


def problem(norm: str = "inf") -> Problem:
    rng = np.random.default_rng(3)
    net = Network.from_weights([rng.normal(size=(3, 2)), rng.normal(size=(2, 3)), rng.normal(size=(1, 2))])
    return Problem.of(net, Box([0.0, 0.0], 1.0), 0, norm)


def test_the_largest_and_the_least_of_bounds() -> None:
    for order in ((1.0, NAN, 3.0), (NAN, 1.0), (1.0, NAN), (NAN,)):
        assert worst(*order) == math.inf
    assert worst(1.0, 3.0, 2.0) == 3.0
    assert best(NAN, 2.0, 1.0) == best(1.0, NAN) == 1.0
    assert best() == best(NAN) == math.inf


@pytest.mark.parametrize("first", [True, False])
def test_a_leaf_of_a_tree(first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    two = tree_of(problem().network, (Split(0, 0, 0.25), None, None), (leaves.BY_LINES, leaves.BY_LINES))
    assert math.isfinite(two.check(problem()))
    numbers = np.array([NAN, 1.0] if first else [1.0, NAN])
    monkeypatch.setattr(tree, "check_leaves", lambda *_: numbers)
    assert two.check(problem()) == math.inf


def test_a_leaf_that_intervals_do_not_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaves, "interval_uppers", lambda *_: np.array([NAN]))
    alone = tree_of(problem().network, (None,), (leaves.BY_INTERVALS,))
    assert alone.check(problem()) == math.inf


def test_a_leaf_of_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    one = signs_of(problem().network, [(1, 0), (0, 0), (0, 0)])
    assert math.isfinite(one.check(problem()))
    monkeypatch.setattr(tree, "leaf_bounds", lambda *_: np.array([1.0, NAN]))
    assert one.check(problem()) == math.inf


def test_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = problem("1")
    table = np.array([[1.0, NAN]])
    assert prove_cases(asked, "tight", table, ()).upper == math.inf
    monkeypatch.setattr(cases, "case_table", lambda _: table.copy())
    assert cases.Cases("tight", ()).check(asked) == math.inf


def test_parts_by_slopes(monkeypatch: pytest.MonkeyPatch) -> None:
    part = slopes.Part(0, 0, np.zeros(0), np.zeros(0), NO_STEPS, NAN)
    table = np.array([[2.0, 1.0]])
    assert slopes.prove_parts(problem("1"), [part], table).upper == 2.0
    monkeypatch.setattr(slopes, "case_table", lambda _: np.array([[1.0, NAN]]))
    monkeypatch.setattr(slopes.Part, "check", lambda *_: 0.5)
    assert slopes.Slopes((part,)).check(problem("1")) == math.inf


def test_prices() -> None:
    assert Finish(0.0, NAN)(1.0) == math.inf
    assert Finish(NAN, 0.0)(1.0) == math.inf
    assert Finish(4.0, 1.0)(1.0) == pytest.approx(3.0)
    fields: dict[str, Any] = dict.fromkeys(Collapsed.__dataclass_fields__)
    assert Collapsed(**(fields | {"price": NAN})).above(1.0) == math.inf
    assert Collapsed(**(fields | {"price": 0.5})).above(NAN) == math.inf


def test_bounds_of_neurons_that_are_no_numbers_say_nothing() -> None:
    z = Interval(np.array([-1.0, -2.0]), np.array([1.0, 2.0]))
    targets = np.array([[1, 0, 1], [1, 0, -1], [1, 1, 1]])
    found = narrowed(z, targets, np.array([NAN, NAN, 0.5]))
    assert found.lo.tolist() == [-1.0, -2.0]
    assert found.hi.tolist() == [1.0, 0.5]


def test_margins_and_the_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    assert margins._unlifted(NAN, 1.0) == math.inf
    asked = problem()
    from lipcert.proof.arithmetic import prove_linear

    honest = prove_linear(asked)
    assert verify.verify(honest, asked.network).proved
    monkeypatch.setattr(type(honest.proof), "check", lambda *_: NAN)
    answer = verify.verify(honest, asked.network)
    assert (answer.proved, answer.upper) == (False, math.inf)
