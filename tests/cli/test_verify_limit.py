"""Small files that take long: leaves without what they need are refused, and a check can be stopped between steps."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipcert
from lipcert import Box, Certificate, InputError
from lipcert.bounds import Split
from lipcert.budget.budget import within
from lipcert.cli.app import run
from lipcert.errors import FileFormatError
from lipcert.problem.norms import INF
from lipcert.problem.question import Question
from lipcert.proof import cost, multipliers
from lipcert.proof.leaves import BY_LINES, Empty
from lipcert.proof.multipliers import Multipliers
from lipcert.relaxation.specification import Specification
from lipcert.steps import Expired, Watch, watched
from tests.problems import net_of
from tests.trees import tree_of as in_order

NET = net_of(2, 6, 6, 1)
BARE = Multipliers(Specification("tight", "backward"), {}, {})


def tree_of(leaf: Any, levels: int) -> Certificate:
    """All leaves alike, on boxes that are halved again and again."""

    def splits(lo: float, hi: float, level: int) -> list[Split | None]:
        middle = (lo + hi) / 2
        if not level:
            return [None]
        return [Split(0, 0, middle), *splits(lo, middle, level - 1), *splits(middle, hi, level - 1)]

    own = splits(-1.0, 1.0, levels)
    question = Question(NET, (Box([0.0, 0.0], 1.0),), INF, np.ones(1))
    return Certificate(question, in_order(NET, own, (leaf,) * 2**levels), 1e6)


@pytest.mark.parametrize(
    ("leaf", "words"),
    [
        (BARE, "no multipliers"),
        (replace(BARE, multipliers={"one^2 = 1": np.zeros(1)}), "no multipliers"),
        (Empty({}), "said to be empty"),
        (Empty({"basis": np.zeros(1)}), "said to be empty"),
    ],
)
def test_a_leaf_without_what_it_needs_is_refused_before_anything_is_built(
    leaf: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multipliers, "build", lambda *_: pytest.fail("a relaxation was built"))
    path = tmp_path / "tree.npz"
    tree_of(leaf, 5).save(path)
    with pytest.raises(FileFormatError, match=words):
        lipcert.verify(path, NET)


def test_every_level_of_a_tree_is_a_step() -> None:
    """So the time between two steps does not grow with the tree."""
    steps: list[int] = []
    for levels in (2, 4):
        count = itertools.count()
        with watched(Watch(lambda *_, own=count: next(own))):
            assert lipcert.verify(tree_of(BY_LINES, levels), NET).proved
        steps.append(next(count))
    assert steps[1] >= steps[0] + 4


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A clock on which the limit is over after so many looks."""

    def over_after(looks: int) -> None:
        seconds = itertools.chain(itertools.repeat(0.0, looks + 1), itertools.repeat(1e9))
        monkeypatch.setattr(
            "lipcert.budget.budget.time", type("Clock", (), {"monotonic": staticmethod(lambda: next(seconds))})
        )

    return over_after


def test_a_check_in_python_stops_at_its_limit(clock: Callable[[int], None]) -> None:
    own = tree_of(BY_LINES, 4)
    clock(10**9)
    assert lipcert.verify(own, NET, time_limit=5.0).proved
    clock(3)
    answer = lipcert.verify(own, NET, time_limit=5.0)
    assert not answer.proved
    assert answer.upper == np.inf
    assert answer.reason == "not proved within the limit of 5 s"
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="time_limit"):
            lipcert.verify(own, NET, time_limit=bad)


def test_the_command_says_what_a_file_costs_and_stops_at_its_limit(
    clock: Callable[[int], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree_of(BY_LINES, 4).save(tmp_path / "tree.npz")
    NET.save(tmp_path / "net.npz")
    asked = ["verify", str(tmp_path / "tree.npz"), "--network", str(tmp_path / "net.npz")]
    assert run(asked) == 0
    assert capsys.readouterr().err == ""
    clock(10**9)
    assert run([*asked, "--time-limit", "5"]) == 0
    said = capsys.readouterr()
    assert said.err == "lipcert: about less than a second of work: 16 leaves, 0 of them with multipliers\n"
    assert "proved" in said.out
    clock(3)
    assert run([*asked, "--time-limit", "5"]) == 1
    assert capsys.readouterr().out == "not proved within the limit of 5 s\n"
    clock(3)
    assert run([*asked, "--time-limit", "5", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["proved"] is False
    assert told["reason"] == "not proved within the limit of 5 s"
    assert told["estimate"] > 0
    assert run([*asked, "--time-limit", "-1"]) == 2


def test_the_estimate_grows_with_what_is_to_be_done() -> None:
    few, many = (cost.seconds(NET, tree_of(BY_LINES, levels).proof) for levels in (3, 6))
    assert 6 < many / few < 10
    wide = replace(BARE, shift={"w": np.zeros(3000)})
    assert cost.seconds(NET, wide) > 1.0 > cost.seconds(NET, BARE)
    assert cost.words(tree_of(BARE, 3).proof) == "8 leaves, 8 of them with multipliers"


@pytest.mark.parametrize("kind", ["cells", "jacobian", "polynomial"])
def test_other_checks_have_steps_too(kind: str) -> None:
    """A listener that raises at once stops them."""
    if kind == "cells":
        own = lipcert.partition(NET, Box([0.0, 0.0], 1.0), cells=2, output=0).certificate
        check: Callable[[], Any] = lambda: own.verify(NET)  # noqa: E731
    elif kind == "jacobian":
        entries = lipcert.jacobian(NET, Box([0.0, 0.0], 1.0), work=0.01).certificate
        check = lambda: entries.verify(NET)  # noqa: E731
    else:
        found = lipcert.bound(net_of(2, 3, 1), Box([0.0, 0.0], 1.0), output=0, method="shor", literal=True, work=1.0)
        check = lambda: lipcert.verify(found.certificate, net_of(2, 3, 1))  # noqa: E731

    def stop(_operations: float, _kind: str) -> None:
        raise Expired("stopped")

    check()
    with pytest.raises(Expired, match="stopped"), watched(Watch(stop)):
        check()


def test_a_limit_ends_with_its_block() -> None:
    with within(None):
        assert lipcert.verify(tree_of(BY_LINES, 2), NET).proved
    assert lipcert.verify(tree_of(BY_LINES, 2), NET).proved
