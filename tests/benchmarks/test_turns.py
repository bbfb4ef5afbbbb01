"""`auto` beside single methods: brackets at marks, ratios, halves; and one short run of counted work."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks._rows import Measured, Point, Row, Setting, append_rows
from benchmarks.results._page import make_page
from benchmarks.turns import __main__ as command
from benchmarks.turns._curves import (
    all_beside,
    at,
    beside,
    compact,
    in_time,
    limit_of,
    marks_upto,
    summaries,
    summary,
)
from benchmarks.turns._engines import Curve, Curves, read_curves
from benchmarks.turns._questions import FAMILIES, halves, questions
from benchmarks.turns._recipes import fitted, waves
from benchmarks.turns._replay import OTHERS, ablation, behind, replay
from benchmarks.turns._run import PROCESSOR, WORK, Clock, cases, refusal
from benchmarks.turns._tables import before_and_after

CURVE: tuple[Point, ...] = ((0.1, None, 9.0), (0.5, 1.0, 9.0), (2.0, 2.0, 4.0), (10.0, 2.0, 3.0))


def measured(method: str, curve: tuple[Point, ...], name: str = "net", half: str = "A") -> Measured:
    _, lower, upper = curve[-1]
    facts: dict[str, float | str] = {"half": half}
    return Measured(
        name, method, lower=lower, upper=upper, limit="10 s", wall=10.0, proved=True, curve=curve, facts=facts
    )


def row(method: str, curve: tuple[Point, ...], name: str = "net", half: str = "A") -> Row:
    place = Setting("1.0", "abc", "3.11", "2.0", "1.11", "openblas 0.3", 1, 2, "a processor")
    case = f"turns/{name}/{method}"
    return Row(case, "turns", 1, 1, "2026-01-01", 0.1, 0.9, place, measured(method, curve, name, half))


def test_marks_and_limits() -> None:
    assert marks_upto(10.0) == [1.0, 3.0, 10.0]
    assert marks_upto(20.0) == [1.0, 3.0, 10.0, 20.0]
    assert [Clock(10.0).words, Clock(2.5, PROCESSOR).words, Clock(3.0, WORK).words] == [
        "10 s",
        "2.5 processor s",
        "work 3",
    ]
    for clock in (Clock(10.0), Clock(2.5, PROCESSOR), Clock(3.0, WORK)):
        assert limit_of(replace(measured("auto", CURVE), limit=clock.words)) == clock.limit


def test_a_bracket_at_a_mark_is_the_last_before_it() -> None:
    run = measured("auto", CURVE)
    assert [at(run, mark) for mark in (0.05, 0.2, 1.0, 3.0, 60.0)] == [
        (None, None),
        (None, 9.0),
        (1.0, 9.0),
        (2.0, 4.0),
        (2.0, 3.0),
    ]


def test_an_answer_within_the_grace_came_at_the_limit() -> None:
    curve = ((0.5, None, math.inf), (1.0, 1.0, 5.0), (1.5, 1.0, 5.0), (10.9, 1.0, 4.0))
    assert in_time(curve, 10.0) == ((1.0, 1.0, 5.0), (10.0, 1.0, 4.0))
    assert in_time([(13.0, 1.0, 4.0)], 10.0) == ((13.0, 1.0, 4.0),)


def test_auto_beside_the_best_of_the_others() -> None:
    runs = {
        "auto": measured("auto", ((0.5, 1.0, 8.0), (5.0, 3.0, 3.0))),
        "tight": measured("tight", ((2.0, None, 4.0),)),
        "linear": measured("linear", ((0.1, 2.0, 5.0),)),
    }
    first, last = beside(runs, 1.0), beside(runs, 10.0)
    assert (first.upper_by, first.upper_ratio, first.lower_by, first.lower_ratio) == ("linear", 1.6, "linear", 0.5)
    assert (last.upper_by, last.upper_ratio, last.lower_ratio) == ("tight", 0.75, 1.5)


def test_where_one_of_them_has_nothing() -> None:
    late, soon, never = ((5.0, 1.0, 2.0),), ((0.1, 1.0, 2.0),), ((0.1, None, 2.0),)
    behind = beside({"auto": measured("auto", late), "tight": measured("tight", soon)}, 1.0)
    assert (behind.upper_ratio, behind.lower_ratio) == (math.inf, 0.0)
    alone = beside({"auto": measured("auto", soon), "tight": measured("tight", never)}, 1.0)
    assert (alone.upper_ratio, alone.lower_ratio) == (1.0, None)
    zero = beside({"auto": measured("auto", ((0.1, 0.0, 0.0),)), "tight": measured("tight", ((0.1, 0.0, 0.0),))}, 1.0)
    assert (zero.upper_ratio, zero.lower_ratio) == (1.0, 1.0)


def test_worst_and_geometric_mean() -> None:
    found = summary([("a", 1.0), ("b", 4.0), ("c", None)], True)
    assert found is not None
    assert (found.count, found.worst, found.question) == (2, 4.0, "b")
    assert found.mean == pytest.approx(2.0)
    endless = summary([("a", 1.0), ("b", math.inf)], True)
    assert endless is not None
    assert (endless.mean, endless.worst) == (1.0, math.inf)
    assert summary([("c", None)], False) is None


ROWS = [
    row("auto", ((0.5, 1.0, 4.0),), "x"),
    row("tight", ((0.6, 1.0, 2.0),), "x"),
    row("slopes", ((0.6, 0.5, 8.0),), "x"),
    row("auto", ((0.5, 1.0, 2.0),), "y", "B"),
    row("exact", ((2.0, 2.0, 2.0),), "y", "B"),
    row("auto", ((0.5, 1.0, 2.0),), "alone"),
]


def test_summaries_by_half_and_mark() -> None:
    found = summaries(all_beside(ROWS))
    upper, lower = found["both", 10.0]
    assert upper is not None
    assert lower is not None
    assert (upper.count, upper.worst, upper.question) == (2, 2.0, "x")
    assert upper.mean == pytest.approx(math.sqrt(2))
    assert (lower.worst, lower.question) == (0.5, "y")
    assert found["A", 10.0][0] is not None
    assert found["B", 10.0][0] is not None
    assert found["B", 1.0][0] == found["B", 1.0][1] is None


def test_compact_rows_give_the_same_tables() -> None:
    kept = compact(ROWS)
    assert [(r.measured.network, r.measured.method) for r in kept] == [
        ("x", "auto"),
        ("x", "tight"),
        ("y", "auto"),
        ("y", "exact"),
    ]
    assert summaries(all_beside(kept)) == summaries(all_beside(ROWS))
    text = make_page(kept).text
    assert "## auto beside single methods" in text
    assert "| both | 10 s | 2 | 1.414 | 2.000 | x | 0.707 | 0.500 | y |" in text


def test_before_and_after() -> None:
    lines = before_and_after(ROWS, [row("auto", ((0.5, 2.0, 3.0),), "x")])
    assert lines[1].split() == ["x", "1", "1", "2", "2.000", "4", "3", "0.750"]
    assert lines[-1].startswith("at 10: upper after / before: mean 0.750, worst 0.750 (x), 1 better, 0 worse of 1;")


def test_halves_alternate_within_families() -> None:
    assert halves(3) == ["A", "B", "A"]
    assert halves(2, "B") == ["B", "A"]
    all_of_them = questions()
    names = [q.name for q in all_of_them]
    assert len(names) == len(set(names)) >= 80
    assert not any("/" in name for name in names)
    assert abs(Counter(q.half for q in all_of_them)["A"] - len(names) / 2) <= 1
    for family in FAMILIES:
        of_family = [q.half for q in all_of_them if q.family == family]
        assert all(one != other for one, other in zip(of_family, of_family[1:], strict=False))  # noqa: RUF007


def test_trained_networks_are_the_same_in_every_run() -> None:
    one, other = (fitted(waves(2), (8, 8), "tanh") for _ in range(2))
    assert one.sha256 == other.sha256
    x, y = waves(2)
    assert np.mean((one.forward(x) - y) ** 2) < 0.5 * np.mean(y**2)


def test_a_method_that_does_not_cover_a_question_says_so() -> None:
    deep = next(q for q in questions() if q.name == "8-10x20-1")
    assert "one hidden layer" in str(refusal(deep, "hr2"))
    assert refusal(deep, "auto") is None


def test_a_run_is_a_row_with_its_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["one", "turns/tutorial/linear", "--work", "0.5"]) == 0
    line = capsys.readouterr().out
    found = Row.of_line(line)
    assert found.measured.proved
    assert found.measured.limit == "work 0.5"
    assert found.measured.facts["half"] in ("A", "B")
    assert at(found.measured, 10.0) == (found.measured.lower, found.measured.upper)
    append_rows(tmp_path / "rows.jsonl", [found, *ROWS])
    assert command.main(["table", str(tmp_path)]) == 0
    assert "witness: mean" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="give another folder"):
        command.main(["--out", str(tmp_path), "--seconds", "5"])


def test_all_methods_that_cover_a_question_are_cases() -> None:
    small = next(q for q in questions() if q.name == "(20,20) s=10 local")
    made = list(cases([small], ["auto", "hr2", "tight"], Clock(1.0)))
    assert [case.name.rsplit("/", 1)[1] for case in made if case.missing() is None] == ["auto", "hr2", "tight"]


def made_curves() -> Curves:
    """One engine that falls by half every second, one that has a bound after two seconds, one that finds witnesses."""
    times = [0.1 * k for k in range(1, 60)]
    falls = Curve("falls", tuple((t, 100.0 * 0.5**t, 1.0) for t in times), (0.0,) * 60, False)
    late = Curve("late", tuple((t, 5.0 if t > 2 else math.inf, 1.0) for t in times), (0.0,) * 60, False)
    seen = Curve("seen", ((0.2, math.inf, 2.0),), (0.2, 0.2), True)
    return Curves("net", "A", 0.1, 1.0, 100.0, (falls, late, seen))


def test_a_replay_takes_turns_with_recorded_engines() -> None:
    found = made_curves()
    assert Curves.of_line(found.line) == found
    points = replay(found, 4.0)
    uppers, lowers = [upper for _, upper, _ in points], [lower for _, _, lower in points]
    assert uppers == sorted(uppers, reverse=True)
    assert (uppers[0], lowers[0]) == (100.0, 1.0)
    assert 100.0 * 0.5**4 <= uppers[-1] < 30.0
    assert lowers[-1] == 2.0
    for mark, upper, lower in behind(found, (1.0, 4.0)):
        assert 1.0 <= upper < 100.0, mark
        assert lower <= 1.0


def test_an_ablation_has_a_row_for_every_other_value() -> None:
    head, as_is, *rows = ablation([made_curves(), replace(made_curves(), half="B")])
    assert head.count("worst") == as_is.count("|") // 3 == 2
    assert [row.split()[0] for row in rows] == [name for name, values in OTHERS.items() for _ in values]


def test_engines_are_recorded_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "engines.jsonl"
    assert command.main(["engines", "--out", str(file), "--names", "2-40-40-1", "--work", "0.1"]) == 0
    [found] = read_curves(file)
    assert (found.question, found.half) == ("2-40-40-1", "A")
    assert {"witness", "cells", "signs"} <= {curve.engine for curve in found.engines}
    for curve in found.engines:
        assert [t for t, _, _ in curve.points] == sorted(t for t, _, _ in curve.points)
        assert len(curve.needs) == len(curve.points) + 1
