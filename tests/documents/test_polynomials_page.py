"""docs/polynomials.md: its files are read, its commands print what it shows, its program runs, its tables are true."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from lipcert.cli.app import run
from lipcert.polynomial.hierarchy.result import PolynomialOutcome
from lipcert.polynomial.language import read_pop
from tests.documents import pages

PAGE = pages.read("polynomials.md")
FILES = pages.named_files(PAGE, "pop")
CONSOLE = [each for _, code in pages.blocks(PAGE, "console", "text") for each in pages.commands(code)]
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")
LOOSE = ("gap ", "time ", "solver ")  # rows whose numbers or words are those of a machine and a solver


@pytest.mark.parametrize(("command", "shown"), CONSOLE, ids=[c for c, _ in CONSOLE])
def test_commands_print_what_the_page_shows(
    command: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    code = run(shlex.split(command)[1:])
    printed = capsys.readouterr()
    expected = [line.rstrip() for line in shown.strip().split("\n")]
    said = (printed.out if code == 0 else printed.err).strip().split("\n")
    got = [line.rstrip() for line in said if not line.startswith("note ")]  # the page leaves remarks out
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        if other.startswith(LOOSE):
            assert one.split()[0] == other.split()[0]
            continue
        assert NUMBER.sub("#", one) == NUMBER.sub("#", other)
        numbers = [[float(n) for n in NUMBER.findall(line)] for line in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], abs=1e-4)


def test_there_is_something_to_run() -> None:
    assert len(CONSOLE) == 4
    assert len(FILES) == 3


def test_the_program_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ((_, block),) = pages.blocks(PAGE, "python")
    exec(compile(block, "polynomials.md", "exec"), {})
    assert "certified" in capsys.readouterr().out
    assert Path("disk.json").exists()


def test_every_statement_of_the_table_is_read() -> None:
    table = PAGE.split("| statement | meaning |")[1].split("\n\n")[0]
    statements = [s for row in table.split("\n")[2:] for s in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert len(statements) > 12
    for statement in statements:
        parts = ["variables x y z", "minimize x y", statement]
        if statement.split()[0] in ("variables", "minimize"):
            parts = [p for p in parts if p.split()[0] != statement.split()[0]] + [statement]
        assert read_pop("\n".join(dict.fromkeys(parts))).problem.n == 3


def test_every_outcome_is_explained() -> None:
    assert {o.name.lower() for o in PolynomialOutcome} == set(
        re.findall(r"^\| `(\w+)` \| [^|]* \| [012]", PAGE, re.MULTILINE)
    )
