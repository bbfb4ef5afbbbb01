"""`auto` beside every single method on a hundred questions: both ends of the bracket after 1, 3, 10, 30, 60 s.

    python -m benchmarks.turns [run] --out FOLDER [--seconds 10 | --processor 10 | --work 10] [--half A|B]
        [--names WORD ..] [--families NAME ..] [--methods auto,linear,..] [--jobs 1] [--busy 0] [--resume]
    python -m benchmarks.turns table FOLDER [--before FOLDER] [--marks 1,3,10] [--half A|B]
    python -m benchmarks.turns list
    python -m benchmarks.turns engines --out FILE [--processor 4] [--half A|B] [--names WORD ..] [--families NAME ..]
    python -m benchmarks.turns replay FILE
    python -m benchmarks.turns compact FOLDER [--to docs/results/turns.jsonl]

Each run has a process of its own with one BLAS thread and the longest time; its curve gives the bracket at the earlier
marks. A single method that is given longer may plan otherwise than one that is given less: at an early mark it may have
less than it could have had. Rows are appended to FOLDER/rows.jsonl as they are made; a folder has rows of one limit.
Every certificate is verified. `--busy N` runs N loops beside each run. `--processor` ends runs by seconds of the
processor, so that a busy machine gives the figures of a free one, `--work` by counted work; the curves are against it.
`engines` appends to FILE what each engine of `auto` does alone; `replay` lets the rule take turns with engines that do
what was recorded, with its constants as they are and with others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks._measure import ROOT
from benchmarks._rows import Row, append_rows, latest, read_rows
from benchmarks.results._run import run_cases, run_here
from benchmarks.turns._curves import all_beside, compact
from benchmarks.turns._engines import read_curves, record
from benchmarks.turns._questions import TurnsQuestion, questions
from benchmarks.turns._replay import ablation
from benchmarks.turns._run import METHODS, PROCESSOR, WORK, Clock, cases, in_a_process
from benchmarks.turns._tables import before_and_after, question_lines, summary_lines, unproved

VERBS = ("run", "table", "list", "compact", "one", "engines", "replay")


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(_with_verb(sys.argv[1:] if arguments is None else list(arguments)))
    match given.verb:
        case "run":
            return _run(given)
        case "one":
            return _one(given)
        case "list":
            for q in questions():
                print(f"{q.half}  {q.family:12s} {q.name}")
        case "table":
            _table(given)
        case "engines":
            _engines(given)
        case "replay":
            for line in ablation(read_curves(given.file)):
                print(line)
        case _:
            given.to.unlink(missing_ok=True)
            append_rows(given.to, compact(_rows_in(given.folder)))
    return 0


def _with_verb(arguments: list[str]) -> list[str]:
    """`run` where no verb is given; a call for help is left as it is."""
    return arguments if arguments and arguments[0] in (*VERBS, "-h", "--help") else ["run", *arguments]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="measure")
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--methods", default=",".join(METHODS))
    run.add_argument("--jobs", type=int, default=1, help="how many runs at once")
    run.add_argument("--busy", type=int, default=0)
    run.add_argument("--resume", action="store_true", help="leave out what the folder has for this commit")
    one = verbs.add_parser("one", help="measure one case in this process and print its rows")
    one.add_argument("case")
    one.add_argument("--commit", default="")
    table = verbs.add_parser("table", help="every question at every mark, then the worst and the mean ratios")
    table.add_argument("folder", type=Path)
    table.add_argument("--before", type=Path, metavar="FOLDER", help="compare `auto` with the rows of another folder")
    table.add_argument("--marks", default="", help="other marks, such as 2,6")
    small = verbs.add_parser("compact", help="only what the page of results needs")
    small.add_argument("folder", type=Path)
    small.add_argument("--to", type=Path, default=ROOT / "docs" / "results" / "turns.jsonl")
    verbs.add_parser("list", help="all questions")
    alone = verbs.add_parser("engines", help="record what each engine of auto does alone")
    alone.add_argument("--out", type=Path, required=True)
    again = verbs.add_parser("replay", help="the rule on recorded engines, with other constants")
    again.add_argument("file", type=Path)
    for verb in (run, alone):
        verb.add_argument("--names", nargs="+", metavar="WORD", help="questions whose names contain one of these")
        verb.add_argument("--families", nargs="+", metavar="NAME")
    for verb in (run, table, alone):
        verb.add_argument("--half", choices=["A", "B"])
    for verb in (run, one, alone):
        limit = verb.add_mutually_exclusive_group()
        limit.add_argument("--seconds", type=float, default=10.0)
        limit.add_argument("--processor", type=float, help="seconds of the processor instead, on a busy machine")
        limit.add_argument("--work", type=float, help="counted work instead of seconds")
    return parser


def _clock(given: argparse.Namespace) -> Clock:
    for unit in (WORK, PROCESSOR):
        if (limit := getattr(given, unit)) is not None:
            return Clock(limit, unit)
    return Clock(given.seconds)


def _chosen(given: argparse.Namespace) -> list[TurnsQuestion]:
    return [
        q
        for q in questions()
        if given.half in (None, q.half)
        and (not given.families or q.family in given.families)
        and (not given.names or any(word in q.name for word in given.names))
    ]


def _engines(given: argparse.Namespace) -> None:
    clock = _clock(given)
    clock.start()
    for question in _chosen(given):
        with given.out.open("a", encoding="utf-8") as file:
            file.write(record(question, clock).line + "\n")


def _run(given: argparse.Namespace) -> int:
    clock, file = _clock(given), given.out / "rows.jsonl"
    there = {row.measured.limit for row in read_rows(file) if row.counts}
    if there - {clock.words}:
        raise SystemExit(f"{file} has rows of {', '.join(sorted(there))}; give another folder")
    if file.exists() and not given.resume:
        raise SystemExit(f"{file} is there already; give --resume to go on with it, or another folder")
    found = list(cases(_chosen(given), given.methods.split(","), clock))
    measure = partial(in_a_process, clock, given.busy)
    failed = run_cases(found, file, resume=given.resume, measure=measure, jobs=given.jobs)
    return 1 if failed else 0


def _one(given: argparse.Namespace) -> int:
    name, method = given.case.removeprefix("turns/").rsplit("/", 1)
    question = next(q for q in questions() if q.name == name)
    clock = _clock(given)
    clock.start()
    (case,) = cases([question], [method], clock)
    for row in run_here(case, given.commit or None):
        print(row.line())
    return 0


def _rows_in(folder: Path, half: str | None = None) -> list[Row]:
    kept = latest(read_rows(folder / "rows.jsonl"))
    return [row for row in kept if half in (None, row.measured.facts.get("half"))]


def _table(given: argparse.Namespace) -> None:
    marks = [float(mark) for mark in given.marks.split(",") if mark]
    rows = _rows_in(given.folder, given.half)
    found = all_beside(rows, marks)
    lines = [*question_lines(found), "", *summary_lines(found)]
    if given.before is not None:
        lines = before_and_after(_rows_in(given.before, given.half), rows, marks)
    print("\n".join([*lines, *unproved(rows)]))


if __name__ == "__main__":
    sys.exit(main())
