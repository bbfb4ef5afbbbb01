"""Take the files of a `lipcert reproduce` run into docs/paper, and make the tables of docs/reproduction.md from them.

    python -m benchmarks.paper [FOLDER]
    python -m benchmarks.paper --pages FOLDER
    python -m benchmarks.paper --begin FOLDER [--retry]

Without a folder the tables are made again from the files in docs/paper. Nothing in them is typed by hand: a table
stands between `<!-- paper: NAME -->` and `<!-- end of paper -->`. `--pages` writes the pages of all tables and figures,
which `make docs` shows, into a folder. `--begin` makes a job folder from docs/paper, with which
`lipcert reproduce --out FOLDER` (and the limits that docs/paper/job.json names) goes on; with `--retry` also where an
entry ran out of time or memory, or failed.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from benchmarks._measure import ROOT
from benchmarks.paper._again import begin_with
from benchmarks.paper._pages import pages, quoted, quotes
from benchmarks.paper._read import Reproduced

DOCS = ROOT / "docs"
ENDINGS = (".csv", ".json", ".svg")  # pages are made from these files


def main(arguments: list[str] | None = None, docs: Path = DOCS) -> int:
    paper, quoting = docs / "paper", docs / "reproduction.md"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="of `lipcert reproduce --out FOLDER`")
    parser.add_argument("--pages", type=Path, metavar="FOLDER", help="where to write the pages")
    parser.add_argument("--begin", type=Path, metavar="FOLDER", help="a new folder for a run that goes on")
    parser.add_argument("--retry", action="store_true", help="with --begin: what ran out is tried again")
    given = parser.parse_args(arguments)
    if given.begin is not None:
        count = begin_with(Reproduced(paper), given.begin, given.retry)
        print(f"{given.begin}: {count:,} entries; go on with lipcert reproduce --out")
        return 0
    if given.folder is not None:
        take(given.folder, paper)
    found = Reproduced(paper)
    if given.pages is not None:
        given.pages.mkdir(parents=True, exist_ok=True)
        for name, text in pages(found).items():
            (given.pages / name).write_text(text, encoding="utf-8")
        return 0
    quoting.write_text(quoted(quoting.read_text(encoding="utf-8"), quotes(found)), encoding="utf-8")
    print(f"{paper}, {quoting}: {len(found.networks):,} entries")
    return 0


def take(folder: Path, paper: Path) -> None:
    """Put the files of a run in the place of those in `paper`; the page beside them stays."""
    if not (folder / "job.json").is_file():
        raise SystemExit(f"{folder}: not the folder of a reproduction (no job.json); give the one after --out")
    paper.mkdir(parents=True, exist_ok=True)
    for path in _of_a_run(paper):
        path.unlink()
    for path in _of_a_run(folder):
        shutil.copyfile(path, paper / path.name)


def _of_a_run(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name.endswith(ENDINGS))


if __name__ == "__main__":
    raise SystemExit(main())
