"""Results that regenerate themselves: measure a named set of cases into rows, make the page of the rows.

    python -m benchmarks.results quick|full [--out FILE.jsonl] [--resume] [--only WORD ...]
    python -m benchmarks.results page [FILE.jsonl ...] [--out docs/results.md]
    python -m benchmarks.results list
    python -m benchmarks.results compare FILE.jsonl FILE.jsonl

`quick` needs nothing but the project, `full` takes hours and uses LIPCERT_DATA where it is there. One case after
another, each in a process of its own with one BLAS thread; a case that cannot be run leaves a row that says why.
`compare` tells which brackets of two files of rows differ: for the same code and machine none but those that a clock
ended.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks._measure import ROOT
from benchmarks._rows import differences, read_rows
from benchmarks.results._case import FULL, QUICK

ROWS = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "results.md"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in (QUICK, FULL):
        verb = verbs.add_parser(name, help=f"measure the {name} set")
        verb.add_argument("--out", type=Path, default=ROWS / f"{name}.jsonl")
        verb.add_argument("--resume", action="store_true", help="leave out what the file has for this commit")
        verb.add_argument("--only", nargs="+", metavar="WORD", help="cases whose names contain one of these")
    page = verbs.add_parser("page", help="write the page and its pictures")
    page.add_argument("rows", nargs="*", type=Path)
    page.add_argument("--out", type=Path, default=PAGE)
    verbs.add_parser("list", help="names of all cases, with their sets and what is missing here")
    compare = verbs.add_parser("compare", help="which brackets of two files differ")
    compare.add_argument("rows", nargs=2, type=Path)
    alone = verbs.add_parser("one", help="measure one case in this process and print its rows")
    alone.add_argument("case")
    alone.add_argument("--commit", default="")
    given = parser.parse_args(arguments)
    match given.verb:
        case "page":
            return _page(given.rows or sorted(ROWS.glob("*.jsonl")), given.out)
        case "list":
            return _list()
        case "compare":
            return _compare(*given.rows)
        case "one":
            return _one(given.case, given.commit or None)
        case _:
            return _measure(given)


def _measure(given: argparse.Namespace) -> int:
    from benchmarks.results._registry import of_set
    from benchmarks.results._run import run_cases

    cases = [c for c in of_set(given.verb) if not given.only or any(word in c.name for word in given.only)]
    try:
        failed = run_cases(cases, given.out, resume=given.resume)
    except KeyboardInterrupt:
        print(f"stopped; --resume goes on with what {given.out} has", file=sys.stderr)
        return 130
    if failed:
        print(f"{failed} of {len(cases)} cases failed; their rows in {given.out} say why", file=sys.stderr)
    return 1 if failed else 0


def _page(files: list[Path], out: Path) -> int:
    from benchmarks.results._page import write_page

    missing = [str(f) for f in files if not f.exists()]
    if missing or not files:
        print(f"no rows: {', '.join(missing) or ROWS}; measure them first", file=sys.stderr)
        return 2
    write_page(out, [row for file in files for row in read_rows(file)])
    return 0


def _compare(one: Path, other: Path) -> int:
    different = differences(read_rows(one), read_rows(other))
    for line in different:
        print(line)
    return 1 if different else 0


def _list() -> int:
    from benchmarks.results._registry import registry

    for case in registry().values():
        print(f"{case.name:58s} {'quick' if QUICK in case.sets else 'full':6s} {case.missing() or ''}")
    return 0


def _one(name: str, commit: str | None) -> int:
    from benchmarks.results._registry import registry
    from benchmarks.results._run import run_here

    cases = registry()
    if name not in cases:
        print(f"{name}: no such case; python -m benchmarks.results list has them", file=sys.stderr)
        return 2
    for row in run_here(cases[name], commit):
        print(row.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
