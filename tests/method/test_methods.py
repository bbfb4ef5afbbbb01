"""Methods: one table that everything reads, and one more method is one file and one entry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lipcert
from lipcert import Box, Everywhere, MethodError
from lipcert.budget import Budget
from lipcert.method import table
from lipcert.method.base import Method
from lipcert.method.bracket import Bracket
from lipcert.method.planning import whole_step
from lipcert.problem.problem import Problem
from lipcert.proof import prove_product
from lipcert.relaxation.specification import build, plan_specification
from lipcert.solver.costs import solve_operations
from tests.problems import net_of

# What a contributor would write: a file with a class,
TOY = '''
from lipcert.method.base import Method
from lipcert.proof import prove_product


class Toy(Method):
    """The product of norms, twice."""

    name = "toy"
    summary = "a toy"
    prelude = ()

    def refusal(self, problem):
        return "method toy is for boxes; use product" if problem.region == lipcert.Everywhere() else None

    def cost(self, problem):
        return 0.0

    def run(self, problem, bracket, budget):
        bracket.improve(prove_product(problem))
        bracket.note("proved by a toy")
'''
# and an entry in the table.
ENTRY = """
from lipcert.method import table
from toy import Toy

table.METHODS = (*table.METHODS, Toy())
from lipcert.cli.app import main
main()
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "toy.py").write_text("import lipcert\n" + TOY)
    (tmp_path / "run.py").write_text(ENTRY)
    net_of(4, 5, 1).save(tmp_path / "net.npz")
    return tmp_path


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "run.py", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_method_is_a_file_and_an_entry(toy: Path) -> None:
    """The command line runs it, lists it, and names it in what it refuses."""
    done = command(toy, "bound", "net.npz", "--radius", "0.1", "--method", "toy", "--work", "0.05")
    assert done.returncode == 0, done.stderr
    assert "proved by a toy" in done.stdout
    assert "toy" in command(toy, "bound", "--help").stdout
    assert "toy" in command(toy, "certify", "--help").stdout
    unknown = command(toy, "bound", "net.npz", "--radius", "0.1", "--method", "magic")
    assert unknown.returncode == 2
    assert "toy" in unknown.stderr
    refused = command(toy, "bound", "net.npz", "--global", "--method", "toy")
    assert refused.returncode == 2
    assert "method toy is for boxes; use product" in refused.stderr


class Counting(Method):
    """Improves the bracket when it is run, and counts how often."""

    name = "counting"
    summary = "counts"

    def __init__(self) -> None:
        self.runs = 0

    def refusal(self, problem: Problem) -> str | None:  # noqa: ARG002
        return None

    def cost(self, problem: Problem) -> float:  # noqa: ARG002
        return 0.0

    def run(self, problem: Problem, bracket: Bracket, budget: Budget) -> None:
        assert not budget.over()
        self.runs += 1
        bracket.improve(prove_product(problem))


def test_the_prelude_and_the_witness_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    method = Counting()
    monkeypatch.setattr(table, "METHODS", (*table.METHODS, method))
    result = lipcert.bound(net_of(4, 5, 1), Box(np.zeros(4), 0.3), method="counting", work=0.1)
    assert method.runs == 1
    assert result.method in ("interval", "linear", "mixed", "product")
    assert result.lower is not None


def test_every_method_says_what_it_is() -> None:
    assert len(set(table.names())) == len(table.METHODS)
    for method in table.METHODS:
        assert 10 < len(method.summary) < 110
        assert "\n" not in method.summary
        assert all(table.named(name) is not method for name in method.prelude)
    assert table.names() == lipcert.METHODS


def test_every_method_applies_or_says_why_not_in_one_line() -> None:
    problems = [
        Problem.of(net_of(3, 4, 2), Box(np.zeros(3), 0.1), 0),
        Problem.of(net_of(3, 4, 3, 2), Everywhere(), "all", "2"),
        Problem.of(net_of(3, 4, 1, kind="tanh"), lipcert.Ball(np.zeros(3), 0.1), 0, "1"),
        Problem.of(net_of(3, 2), Box(np.zeros(3), 0.1), 1),
    ]
    for problem in problems:
        assert table.named("auto").refusal(problem) is None
        for method in table.METHODS:
            refused = method.refusal(problem)
            if refused is None:
                assert method.cost(problem) >= 0
            else:
                assert "\n" not in refused
                with pytest.raises(MethodError, match=method.name):
                    raise MethodError(refused)


@pytest.mark.parametrize(
    ("sizes", "radius", "name"),
    [
        ((80, 60, 1), 0.1, "tight"),
        ((10, 20, 20, 1), 0.5, "tight"),
        ((10, 20, 20, 1), 0.5, "backward-free"),
        ((6, *(10,) * 6, 1), 0.3, "tight"),
        ((6, *(10,) * 6, 1), 0.3, "backward-free"),
    ],
)
def test_a_relaxation_is_expected_to_take_about_what_its_solver_counts(
    sizes: tuple[int, ...], radius: float, name: str
) -> None:
    problem = Problem.of(net_of(*sizes), Box(np.zeros(sizes[0]), radius))
    counted = solve_operations(build(problem, plan_specification(problem, name)).problem)
    assert 0.5 < whole_step(problem, name).operations / counted < 2.0
