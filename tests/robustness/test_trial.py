"""Shared constants or proofs input by input: a trial decides, and either way everything is proved again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipcert.robustness.pairs as pairs_module
from lipcert import Box, Certification, certify, verify_folder
from lipcert.jobs import Answer
from lipcert.robustness.attack import another_class_wins
from lipcert.robustness.decision import classify
from lipcert.robustness.pairs import pair_constant, pair_pieces
from lipcert.robustness.trial import TRIED, TriedInputs, hurried_pieces, tried_pieces, worth_sharing
from lipcert.search.settings import Settings
from tests.robustness.test_certify import small_net

NET = small_net(5, 6, (8, 8, 8))  # 15 pairs of classes
INPUTS = np.random.default_rng(3).uniform(0, 1, (12, 3))
QUESTION: dict[str, Any] = {"domain": (0.0, 1.0), "clip": True, "method": "product"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The pairs whose constants were asked for."""
    pairs: list[tuple[int, int]] = []

    def counted(net: Any, region: Any, pair: tuple[int, int], *rest: Any) -> Answer:
        pairs.append(pair)
        return pair_constant(net, region, pair, *rest)

    monkeypatch.setattr(pairs_module, "pair_constant", counted)
    return pairs


def holds(result: Certification) -> None:
    """No point within a certified radius has another class."""
    rng = np.random.default_rng(0)
    for k, r in enumerate(result.certified_radius):
        cloud = np.clip(INPUTS[k] + r * rng.uniform(-1, 1, (300, 3)), 0, 1)
        assert not another_class_wins(NET, cloud, np.full(300, result.labels[k])).any()


def test_constants_that_certify_nothing_are_given_up_after_two_pairs(asked: list[Any], tmp_path: Path) -> None:
    result = certify(NET, INPUTS, radius=[0.001, 0.01], **QUESTION, out=tmp_path / "job")
    assert len(asked) <= TRIED
    assert result.pairs == ()
    assert result.complete
    assert result.counts(0.001)["certified"] >= 10
    assert any("one by one" in note for note in result.notes)
    holds(result)
    answer = verify_folder(tmp_path / "job", NET, INPUTS)
    assert answer.proved, answer.failures
    again = certify(NET, INPUTS, radius=[0.001, 0.01], **QUESTION, out=tmp_path / "job", resume=True)
    assert np.array_equal(again.certified_radius, result.certified_radius)
    assert not any("done again" in note for note in again.notes)


def test_constants_that_certify_are_made_of_all_pairs(asked: list[Any]) -> None:
    easy = {**QUESTION, "method": "interval"}
    result = certify(small_net(5, 6), INPUTS, radius=1e-5, **easy)
    assert len(result.pairs) == 15
    assert len(asked) <= 15 + TRIED


def test_either_way_can_be_asked_for(asked: list[Any]) -> None:
    alone = certify(NET, INPUTS, radius=0.001, **QUESTION, per_input=True)
    assert asked == []
    assert alone.pairs == ()
    shared = certify(NET, INPUTS, radius=0.001, **QUESTION, per_input=False)
    assert len(shared.pairs) == len(asked) == 15
    assert shared.counts(0.001)["certified"] <= alone.counts(0.001)["certified"]


def test_relaxations_add_to_linear_bounds(tmp_path: Path) -> None:
    lines = certify(NET, INPUTS, radius=[0.01, 0.1], **QUESTION, per_input=True)
    both = certify(NET, INPUTS, radius=[0.01, 0.1], **QUESTION, per_input=True, refine=60.0, out=tmp_path / "job")
    assert np.all(both.certified_radius >= lines.certified_radius)
    assert both.counts(0.1)["certified"] > lines.counts(0.1)["certified"]
    holds(both)
    answer = verify_folder(tmp_path / "job", NET, INPUTS)
    assert answer.proved, answer.failures


def test_margins_of_other_inputs_prove_nothing(tmp_path: Path) -> None:
    certify(NET, INPUTS, radius=0.001, **QUESTION, per_input=True, out=tmp_path / "job")
    first, second, *_ = sorted((tmp_path / "job" / "pieces").glob("lines-*.npz"))
    shutil.copy(first, second)
    answer = verify_folder(tmp_path / "job", NET, INPUTS)
    assert not answer.proved
    assert any("another box" in line for line in answer.failures)
    again = certify(NET, INPUTS, radius=0.001, **QUESTION, per_input=True, out=tmp_path / "job", resume=True)
    assert any("is done again" in note for note in again.notes)
    assert verify_folder(tmp_path / "job", NET, INPUTS).proved


def test_constants_are_kept_where_they_certify_half_of_the_rest() -> None:
    assert worth_sharing(0.5, TriedInputs(1.0, 0.1))
    assert worth_sharing(0.1, TriedInputs(0.0, 0.1))
    assert not worth_sharing(0.4, TriedInputs(1.0, 0.1))
    assert not worth_sharing(0.0, TriedInputs(0.0, 0.1))


def limits(pieces: list[Any]) -> set[float]:
    return {piece.arguments[3].time_limit for piece in pieces}


def test_without_a_limit_constants_have_the_time_of_linear_bounds() -> None:
    net = small_net(5, 6)
    classified = classify(net, INPUTS, None)
    work = pair_pieces(net, Box(np.zeros(3), 1.0), Settings(method="interval"))
    assert limits(work) == {60.0}
    assert limits(hurried_pieces(work, classified, TriedInputs(1.0, 0.001))) == {1.0}
    assert limits(hurried_pieces(work, classified, TriedInputs(1.0, 15.0))) == {15.0 * 12 / 15}
    assert limits(hurried_pieces(work, classified, TriedInputs(1.0, 1000.0))) == {60.0}
    chosen = tried_pieces(work, classified)
    assert 1 <= len(chosen) <= TRIED
    assert {piece.name for piece in chosen} <= {piece.name for piece in work}
