"""Polynomial problems of strangers: a short text cannot ask for any degree or any number of terms."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lipcert.errors import FileFormatError
from lipcert.polynomial import monomials
from lipcert.polynomial.files import load_problem
from lipcert.polynomial.language import MAX_VARIABLES, read_pop
from lipcert.polynomial.polynomial import MAX_DEGREE, MAX_EXPANDED, Polynomial
from tests.constants import set_constant
from tests.reader_tools import refuse

DEGREE, NUMBERS = f"the limit of {MAX_DEGREE}", f"the limit of {MAX_EXPANDED:,} numbers"
TOO_MUCH = {
    "powers of powers": ("((((x^64)^64)^64)^64)^64", DEGREE),
    "products of powers": ("*".join(["x^64"] * 5), DEGREE),
    "many factors": ("*".join(["(x+y+1)"] * 400), NUMBERS),
    "a product of powers of sums": ("(x+y+1)^64 * (x+y+1)^64", NUMBERS),
}


def refused(path: Path, *words: str) -> None:
    """One line that begins with the file, and says where in it."""
    with pytest.raises(FileFormatError) as caught:
        load_problem(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert all(word in message for word in words), message


def _problem(path: Path, objective: str, constraints: list[str]) -> Path:
    if path.suffix == ".json":
        path.write_text(json.dumps({"variables": ["x", "y"], "minimize": objective, "constraints": constraints}))
    else:
        path.write_text("\n".join(["variables x y", f"minimize {objective}", *constraints]))
    return path


@pytest.mark.parametrize("ending", [".pop", ".json"])
@pytest.mark.parametrize("name", TOO_MUCH)
def test_expansion_is_limited(name: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    largest = [0]
    multiply = monomials.multiply

    def counted(left: monomials.Rows, right: monomials.Rows) -> monomials.Rows:
        largest[0] = max(largest[0], len(left) * len(right) * (left.shape[1] + right.shape[1]))
        assert largest[0] <= MAX_EXPANDED, "more was laid out than the limit"
        return multiply(left, right)

    monkeypatch.setattr("lipcert.polynomial.polynomial.multiply", counted)
    text, words = TOO_MUCH[name]
    refused(_problem(tmp_path / f"p{ending}", text, []), words)


def test_sums_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All terms of a sum are laid out as wide as the highest degree among them."""
    set_constant(monkeypatch, "MAX_CELLS", 1 << 17)
    text = "*".join(["x^64"] * 4) + "+x" * ((1 << 17) // MAX_DEGREE)
    refused(_problem(tmp_path / "p.pop", text, []), "the limit of 131,072 numbers")
    set_constant(monkeypatch, "MAX_EXPANDED", 1 << 12)
    refused(_problem(tmp_path / "p.pop", "(x+y)^2+" + "+".join(["(x+y)"] * 200), []), "the limit of 4,096 numbers")


@pytest.mark.parametrize("ending", [".pop", ".json"])
def test_all_lines_together_are_limited(ending: str, tmp_path: Path) -> None:
    lines = ["(x+y+1)^32 <= 1"] * 100
    assert len(load_problem(_problem(tmp_path / f"few{ending}", "x", lines[:5])).problem.inequalities) == 5
    refused(_problem(tmp_path / f"many{ending}", "x", lines), NUMBERS)


def test_what_is_computed_here_is_not_limited() -> None:
    power = Polynomial.variable(0) ** (MAX_DEGREE + 1)
    assert power.degree == MAX_DEGREE + 1
    load = read_pop("variables x\nminimize x^2\n")
    assert load.problem.objective.degree == 2
    assert (power * power).degree == 2 * MAX_DEGREE + 2  # nor after a file was read


def test_variables_are_counted(tmp_path: Path) -> None:
    names = " ".join(f"a{i}" for i in range(MAX_VARIABLES + 1))
    path = tmp_path / "p.pop"
    path.write_text(f"variables {names}\nminimize a0\n")
    refused(path, f"the limit of {MAX_VARIABLES:,}")
    path.write_text("\n".join(f"variables {part}" for part in (names[: len(names) // 2], "a0", "b")) + "\nminimize b\n")
    refused(path, "declared twice")


def test_numbers_of_many_digits(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"variables": ["x"], "minimize": "x", "bounds": {"x": [0, %s]}}' % ("9" * 5000))
    refuse(path, "not valid JSON", kind=FileFormatError, reader=load_problem)

    pop = tmp_path / "p.pop"
    pop.write_text("variables x\nminimize x\n" + "1" * 30000 + " < x\n")
    refused(pop, "line 3")
    pop.write_text("variables x\nminimize x\n0." + "0" * 3000 + "5 <= x\n")
    assert np.isclose(load_problem(pop).problem.inequalities[0].terms()[(0,)], 1.0)
