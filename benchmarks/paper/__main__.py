"""Take the folder of a `lipcert reproduce` run into docs/paper, and make the tables of docs/reproduction.md of it.

    python -m benchmarks.paper [FOLDER]
    python -m benchmarks.paper --begin FOLDER [--retry]

Without a folder the tables are made again of what docs/paper has. Nothing on these pages is typed by hand: a table
stands between `<!-- paper: NAME -->` and `<!-- end of paper -->`. `--begin` makes a folder of what docs/paper has, with
which `lipcert reproduce --out FOLDER` (and the limits that docs/paper/job.json names) goes on; with `--retry` also
where an entry ran out of time or memory, or failed.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from benchmarks._measure import ROOT
from benchmarks.paper._again import begin_with
from benchmarks.paper._pages import index_page, quoted, quotes
from benchmarks.paper._read import Reproduced

PAPER = ROOT / "docs" / "paper"
QUOTING = ROOT / "docs" / "reproduction.md"
ENDINGS = (".csv", ".md", ".svg", "job.json")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="of `lipcert reproduce --out FOLDER`")
    parser.add_argument("--begin", type=Path, metavar="FOLDER", help="a new folder for a run that goes on")
    parser.add_argument("--retry", action="store_true", help="with --begin: what ran out is tried again")
    given = parser.parse_args(arguments)
    if given.begin is not None:
        count = begin_with(Reproduced(PAPER), given.begin, given.retry)
        print(f"{given.begin}: {count:,} entries; go on with lipcert reproduce --out")
        return 0
    if given.folder is not None:
        take(given.folder)
    found = Reproduced(PAPER)
    (PAPER / "index.md").write_text(index_page(found), encoding="utf-8")
    QUOTING.write_text(quoted(QUOTING.read_text(encoding="utf-8"), quotes(found)), encoding="utf-8")
    print(f"{PAPER.relative_to(ROOT)}, {QUOTING.relative_to(ROOT)}: {len(found.networks):,} entries")
    return 0


def take(folder: Path) -> None:
    """The files of a run in place of what was there."""
    if not (folder / "job.json").is_file():
        raise SystemExit(f"{folder}: not the folder of a reproduction (no job.json); give the one after --out")
    shutil.rmtree(PAPER, ignore_errors=True)
    PAPER.mkdir(parents=True)
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name.endswith(ENDINGS):
            shutil.copyfile(path, PAPER / path.name)


if __name__ == "__main__":
    raise SystemExit(main())
