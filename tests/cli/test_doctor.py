"""`lipcert doctor`: a working installation passes, and each part of the check can fail."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import lipcert.cli.doctor as doctor
from lipcert.cli.app import run
from lipcert.solver.conic.conic import ConicProblem, ConicSolution, solve_conic


def _facts(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = run(["doctor", "--json"])
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, facts


def test_a_working_installation_passes(capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = _facts(capsys)
    assert code == 0
    assert facts["passed"]
    assert facts["solvers"]["clarabel"] == facts["solvers"]["highs"] == "works"
    assert all(facts["tests"].values())
    assert len(facts["tests"]) >= 3
    assert "numpy" in facts["facts"]["core"]


def test_a_solver_that_lies_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def lies(problem: ConicProblem, name: str) -> ConicSolution:
        found = solve_conic(problem, name)
        return replace(found, x=found.x + 0.1) if name == "scs" else found

    monkeypatch.setattr(doctor, "solve_conic", lies)
    code, facts = _facts(capsys)
    assert code == 1
    assert not facts["passed"]
    assert facts["solvers"]["scs"].startswith("failed")
    assert facts["solvers"]["clarabel"] == "works"


def test_a_checker_that_accepts_everything_is_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Accepted:
        proved = True

    monkeypatch.setattr(doctor, "verify", lambda *_, **__: Accepted())
    code, facts = _facts(capsys)
    assert code == 1
    assert not facts["tests"]["a claim below the lower bound is refused"]
