"""Searches on the network of the open neurons: cells of it prove the problem, and its points are witnesses of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert import Box, Network, verify
from lipcert.bounds.collapse import collapse, collapsed_before
from lipcert.bounds.propagation import made_in
from lipcert.budget import Budget
from lipcert.jobs import local
from lipcert.method import lower
from lipcert.method.bracket import Bracket
from lipcert.method.branching import CellSearch
from lipcert.method.engines import CellEngine
from lipcert.method.lower import look
from lipcert.problem.problem import Problem, Way
from lipcert.proof.file import load_certificate
from lipcert.proof.sharpened import Within, innermost
from lipcert.proof.tree import Tree
from lipcert.proof.ways import WithBounds
from lipcert.search.settings import Settings
from lipcert.witness import Witness, evaluate, search
from tests.constants import set_constant
from tests.problems import net_of


def wide(kind: str = "relu") -> Problem:
    """Few of its neurons are open."""
    return Problem.of(net_of(2, 30, 30, 1, kind=kind, seed=4), Box([0.2, -0.1], 0.3), 0)


@pytest.mark.parametrize("way", [Way(), Way(100), Way(100, forms=False)])
def test_cells_of_the_open_neurons_prove_the_problem(way: Way, tmp_path: Path) -> None:
    pytest.importorskip("flint")
    problem = wide() if way == Way() else made_in(wide(), way)
    bracket = Bracket(Settings())
    engine = CellEngine(problem, bracket, local())
    engine.advance(Budget.of_work(4.0))
    assert engine.state is not None
    assert engine.state.problem.network.neurons < problem.network.neurons
    certificate = bracket.certificate
    assert certificate is not None
    proof = certificate.proof.inner if isinstance(certificate.proof, WithBounds) else certificate.proof
    assert isinstance(proof, Within)
    assert isinstance(innermost(proof), Tree)
    certificate.save(tmp_path / "proof.npz")
    answer = verify(load_certificate(tmp_path / "proof.npz"), problem.network, exact=True)
    assert answer.proved
    assert answer.upper == certificate.upper
    whole = CellSearch(wide(), Bracket(Settings()), local())
    whole.run(Budget.of_work(4.0))
    assert whole.witness is not None
    assert engine.state.witness is not None
    assert engine.state.done
    assert certificate.upper == pytest.approx(whole.outcome().certificate.upper, rel=2e-6)
    assert engine.state.witness.value == pytest.approx(whole.witness.value, rel=1e-6)


def test_cells_pay_the_price_of_collapsing() -> None:
    """A search with a price closes cells below what it may claim with the price added."""
    problem, bracket = wide(), Bracket(Settings(gap=0.1))
    small = collapse(problem)
    assert small is not None
    search = CellSearch(small.problem, bracket, local(), original=problem, price=0.05)
    search.run(Budget.of_work(4.0))
    assert search.witness is not None
    assert search.witness.value == evaluate(problem, search.witness.point)
    assert search.threshold == pytest.approx(search.witness.value * 1.0999 - 0.05)
    assert search.outcome().closed == (search.outcome().certificate.upper + 0.05 <= 1.1 * search.witness.value)
    assert search.done
    assert search.outcome().certificate.upper <= search.threshold * (1 + 1e-9)


def test_witnesses_are_looked_for_in_the_open_neurons(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network is asked for the value of the points that may be better, and for nothing else."""
    set_constant(monkeypatch, "CHEAP_NETWORK", 10)
    set_constant(monkeypatch, "LIFTED_FROM", 1.0)
    asked: list[Network] = []
    monkeypatch.setattr(lower, "search", _recording(asked))
    problem, bracket = wide(), Bracket(Settings())
    assert collapsed_before(problem) is None
    look(problem, bracket, Budget.of_work(1.0), 1.0)
    small = collapse(problem)
    assert small is not None
    assert collapsed_before(problem) is small
    before = bracket.lower
    look(problem, bracket, Budget.of_work(1.0), 1.0, 1)
    assert asked == [problem.network, small.problem.network]
    assert bracket.lower >= before
    assert bracket.witness is not None
    assert bracket.witness.value == evaluate(problem, bracket.witness.point)
    assert np.isfinite(bracket.lower)


def _recording(asked: list[Network]) -> Callable[..., Witness]:
    """The search, which writes down the networks that it is about."""

    def recorded(problem: Problem, *args: Any, **named: Any) -> Witness:
        asked.append(problem.network)
        return search(problem, *args, **named)

    return recorded
