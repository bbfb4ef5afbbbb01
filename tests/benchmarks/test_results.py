"""Rows of measurements: kept, resumed, compared; the page is what the generator makes of the committed rows."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from benchmarks._rows import FAILED, SKIPPED, Measured, Row, Setting, append_rows, differences, done, latest, read_rows
from benchmarks.results import _run
from benchmarks.results.__main__ import main
from benchmarks.results._case import FULL, QUICK, Case
from benchmarks.results._page import PICTURES, QUOTE, SECTIONS, make_page, quoted, quoting_pages
from benchmarks.results._registry import of_set, registry
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import _rows
from tests.conftest import ROOT

SETTING = Setting("1.0", "abc", "3.11", "2.0", "1.11", "openblas 0.3", 1, 2, "a processor")
ONE = Measured("a net", "auto", "a box", "inf", 1.0, 2.0, limit="work 5", wall=0.5, cpu=0.25)


def row(case: str = "exact/a", part: int = 1, parts: int = 1, when: str = "2026-01-01", **what: object) -> Row:
    setting = replace(SETTING, commit=what.pop("commit", "abc"))  # type: ignore[arg-type]
    section = case.split("/")[0]
    return Row(case, section, part, parts, when, 0.1, 0.9, setting, replace(ONE, **what))  # type: ignore[arg-type]


numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=40)
@given(st.text(max_size=20), numbers, numbers, st.lists(st.tuples(st.floats(0, 1e3), numbers, numbers), max_size=3))
def test_rows_survive_their_file(network: str, lower: float | None, upper: float | None, curve: list[object]) -> None:
    kept = row(network=network, lower=lower, upper=upper, curve=tuple(curve), facts={"cells": 3, "by": "tight"})
    line = kept.line()
    assert "\n" not in line
    assert Row.of_line(line) == kept


def test_numbers_that_json_lacks_are_null() -> None:
    assert json.loads(row(upper=float("inf")).line())["upper"] is None


def test_a_line_that_was_cut_off_is_no_row_and_goes(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "rows.jsonl"
    append_rows(file, [row("exact/a"), row("exact/b")])
    whole = file.read_bytes()
    file.write_bytes(whole + row("exact/c").line().encode()[:40])
    assert [r.case for r in read_rows(file)] == ["exact/a", "exact/b"]
    append_rows(file, [row("exact/d")])
    assert file.read_bytes() == whole + row("exact/d").line().encode() + b"\n"


def test_a_line_that_is_no_row_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(row().line() + "\n" + json.dumps(json.loads(row().line()) | {"uper": 3.0}) + "\n")
    with pytest.raises(SystemExit, match="line 2: not a row"):
        read_rows(file)


def test_done_is_whole_of_this_commit_and_a_figure() -> None:
    rows = [
        row("exact/whole", 1, 2),
        row("exact/whole", 2, 2),
        row("exact/torn", 1, 2),
        row("exact/other", commit="def"),
        row("exact/not here", status=SKIPPED),
        row("exact/broken", status=FAILED),
    ]
    assert done(rows, "abc", "1.0") == {"exact/whole"}
    assert done(rows, None, "1.0") == set()


def test_the_latest_whole_run_counts_and_a_figure_before_an_excuse() -> None:
    rows = [
        row("exact/a", when="2026-01-01", upper=3.0),
        row("exact/a", when="2026-01-02", upper=2.5),
        row("exact/a", 1, 2, when="2026-01-03", upper=2.0),
        row("exact/a", when="2026-01-04", status=SKIPPED),
        row("exact/b", when="2026-01-01", status=SKIPPED),
    ]
    assert [(r.case, r.measured.upper, r.counts) for r in latest(rows)] == [
        ("exact/a", 2.5, True),
        ("exact/b", 2.0, False),
    ]


def test_differences_are_bit_for_bit_and_leave_clocks_alone() -> None:
    one, other = [row(), row("limits/a", limit="5 s")], [row(), row("limits/a", limit="5 s", upper=9.0)]
    assert differences(one, other) == []
    other[0] = row(upper=2.0000000000000004)
    assert [line.split(",")[0] for line in differences(one, other)] == ["exact/a"]


def test_resuming_runs_what_is_not_there(tmp_path: Path) -> None:
    ran: list[str] = []
    broken = {"b"}

    def rows_of(case: Case, commit: str | None) -> list[Row]:
        ran.append(case.name)
        status = FAILED if case.name in broken else "finished"
        return _run.as_rows(case, [replace(ONE, status=status)], commit, 0.0)

    cases, out = [Case(name, "exact", lambda: [ONE]) for name in "abc"], tmp_path / "rows.jsonl"
    told: list[str] = []
    run = partial(_run.run_cases, say=told.append, measure=rows_of)
    assert run(cases[:2], out, resume=False) == 1
    broken.clear()
    assert run(cases, out, resume=True) == 0
    assert ran == ["a", "b", "b", "c"]
    assert len(told) == 4
    assert {r.case for r in latest(read_rows(out)) if r.counts} == {"a", "b", "c"}
    assert run(cases[:1], out, resume=False) == 0
    assert [r.case for r in read_rows(out)] == ["a"]


def test_what_cannot_be_run_or_breaks_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LIPCERT_DATA", str(tmp_path / "nothing"))
    case = next(c for c in registry().values() if c.needs)
    (skipped,) = _run.rows_of(case, "abc")
    assert skipped.measured.status == SKIPPED
    assert "LIPCERT_DATA" in skipped.measured.remark
    (failed,) = _run.rows_of(Case("no such case", "exact", lambda: [ONE]), "abc")
    assert failed.measured.status == FAILED
    assert "no such case" in failed.measured.remark


def test_the_same_work_gives_the_same_bracket() -> None:
    one, other = (_run.run_here(registry()["first/tutorial"], "abc") for _ in range(2))
    assert len(one) == 5
    assert differences(one, other) == []


def test_brackets_hold_the_known_constant() -> None:
    one = _run.run_here(registry()["tightness/(10,10) local seed 1"], "abc")
    assert [r.measured.proved for r in one] == [True] * 5
    for m in (r.measured for r in one):
        assert m.known is not None
        assert m.upper is not None
        assert m.known <= m.upper * (1 + 1e-9)
        assert m.lower is None or m.lower <= m.known * (1 + 1e-9)


def test_registry() -> None:
    cases = registry()
    assert all(name == case.name for name, case in cases.items())
    own = {"turns"}  # measured by its own command
    assert {case.section for case in cases.values()} == {section.key for section in SECTIONS} - own
    assert {case.section for case in of_set(QUICK)} >= {s.key for s in SECTIONS} - {"large"} - own
    assert all(FULL in case.sets for case in cases.values())
    assert [case.name for case in of_set(QUICK) if case.needs] == []


def test_commit_of_the_code_is_asked_of_git(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"describe": "v1-2-gabc", "status": ""}
    monkeypatch.setattr(_rows, "_git", lambda verb, *_: answers[verb])
    ask = _rows.commit_of_the_code.__wrapped__
    assert ask() == "v1-2-gabc"
    answers["status"] = " M src/lipcert/steps.py"
    assert ask() == "v1-2-gabc-dirty"
    answers["describe"] = ""
    assert not ask()


COMMITTED = sorted((ROOT / "docs" / "results").glob("*.jsonl"))


def test_the_page_is_what_the_rows_say() -> None:
    assert COMMITTED
    page = make_page([r for file in COMMITTED for r in read_rows(file)])
    again = "run python -m benchmarks.results page"
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == page.text, again
    for name, picture in page.pictures.items():
        assert (ROOT / "docs" / PICTURES / name).read_text(encoding="utf-8") == picture, again
    for other in quoting_pages():
        text = other.read_text(encoding="utf-8")
        assert text == quoted(text, page.quotes), f"{other.name}: {again}"


def test_a_page_of_made_up_rows() -> None:
    rows = [
        row("exact/a", network="net a", lower=2.0, upper=2.0, proved=True, verify_seconds=0.01),
        row("exact/b", network="net b", lower=1.0, upper=1.5, proved=False, verify_seconds=0.01),
        row("anytime/c", network="net c", curve=((0.5, 1.0, 9.0), (2.0, 1.0, 4.0), (12.0, 1.0, 2.0)), wall=12.0),
        row("peers/d", network="net d", peer="CSDP", peer_value=2.5, peer_seconds=3.0),
        row("peers/f", network="net f", peer="another", remark="it was not at hand"),
        row("exact/e", network="net e", status=SKIPPED, remark="needs a thing"),
    ]
    page = make_page(rows)
    assert "| net a | `auto` | 2 | 2 | closed |" in page.text
    assert "NOT PROVED" in page.text
    assert "| net c | 1 | 9 | 4 | 4 |  |  | 2 (12 s, 1e+02 %) |\n" in page.text
    assert "| CSDP | 2.5, 3.00 s |" in page.text
    assert "\n\nanother has no value on 1 of these networks: it was not at hand.\n" in page.text
    assert "| net f |" not in page.text
    assert "- skipped: needs a thing: `exact/e`" in page.text
    assert page.pictures["results-anytime.svg"].startswith("<svg")
    assert make_page(list(reversed(rows))).quotes["exact"] != ""


def test_quotes_are_filled_and_stay() -> None:
    text = "before\n<!-- results: exact -->\nold\n<!-- end of results -->\nafter\n"
    filled = quoted(text, {"exact": "| new |"})
    assert filled == "before\n<!-- results: exact -->\n| new |\n<!-- end of results -->\nafter\n"
    assert quoted(filled, {"exact": "| new |"}) == filled
    assert "not measured yet" in quoted(text, {})


SECONDS = re.compile(r"\d\s?s\b")
MEASURED_ELSEWHERE = {"results.md", "reproduction.md"}  # generated; the paper beside our numbers


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name)
def test_tables_with_seconds_are_quoted_from_rows(page: Path) -> None:
    """A table of seconds that nobody can regenerate grows old: it belongs in a quote, or on a page of an experiment."""
    if page.name in MEASURED_ELSEWHERE:
        return
    own = QUOTE.sub("", page.read_text(encoding="utf-8"))
    lines = [line for line in own.splitlines() if line.startswith("|") and SECONDS.search(line)]
    assert lines == []


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    append_rows(one, [row(proved=True, verify_seconds=0.1)])
    append_rows(other, [row(upper=2.5)])
    assert main(["page", str(one), "--out", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == make_page(read_rows(one)).text
    assert (tmp_path / PICTURES / "bracket.svg").exists()
    assert main(["page", str(tmp_path / "nothing.jsonl")]) == 2
    assert "nothing.jsonl" in capsys.readouterr().err
    assert main(["compare", str(one), str(one)]) == 0
    assert main(["compare", str(one), str(other)]) == 1
    assert capsys.readouterr().out.startswith("exact/a, part 1: [1.0, 2.0] and [1.0, 2.5]")
    assert main(["one", "no such case"]) == 2


def test_measuring_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def rows_of(case: Case, commit: str | None) -> list[Row]:
        ran.append(case.name)
        return _run.as_rows(case, [replace(ONE, status="finished")], commit, 0.0)

    monkeypatch.setattr(_run, "rows_of", rows_of)
    out = tmp_path / "rows.jsonl"
    assert main(["quick", "--out", str(out), "--only", "reading"]) == 0
    assert main(["full", "--out", str(out), "--only", "reading", "--resume"]) == 0
    assert ran == ["reading/recipes", "reading/real"]
