"""The pages of the reproduction: made of the files of a run, and what they refute is refuted."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.paper import __main__ as command
from benchmarks.paper._again import begin_with
from benchmarks.paper._pages import comparison_page, index_page, pages, quoted, quotes
from benchmarks.paper._read import NOT_RUN, NOT_TRIED, Reproduced

from lipcert.jobs import JobFolder
from lipcert.paper.comparison import Comparison
from lipcert.paper.entries import paper_network, paper_region
from lipcert.paper.estimators import Findings
from lipcert.paper.random_reports import figure_report
from lipcert.paper.targets import FIGURES, TARGETS, target_entries
from lipcert.problem.problem import Problem
from lipcert.witness import evaluate

DONE = Reproduced(command.DOCS / "paper")
COLUMNS = ("network", "size", "sparsity", "seed", "region", "method", "value", "upper", "lower", "floor", "word")


def write(path: Path, records: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*records[0]])
        writer.writeheader()
        writer.writerows(records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two entries of a figure, one of which was not tried."""
    question = {"time_limit": 7.0, "memory_limit": 2.0, "version": "0"}
    (tmp_path / "job.json").write_text(json.dumps({"question": question}))
    (tmp_path / "figure-global-1.md").write_text("# A figure\n")
    (tmp_path / "figure-global-1.svg").write_text("<svg/>")
    first = dict(zip(COLUMNS, ("(10,10)", 10, 8, 0, "global", "HR-2", 1.5, 1.5, "", 1.4, ""), strict=True))
    second = first | {"seed": 1, "value": "", "upper": "", "word": "not tried", "floor": ""}
    more = {"seconds": 2.0, "published": 1.5021, "fault": "", "note": ""}
    write(tmp_path / "figure-global-1-networks.csv", [first | more, second | more])
    write(
        tmp_path / "figure-global-1.csv", [{"network": "(10,10)", "verdict": "agrees"}, {"network": "", "verdict": ""}]
    )
    return tmp_path


def test_tables_are_counted_from_the_files(folder: Path) -> None:
    found = Reproduced(folder)
    page = index_page(found)
    assert "7 s and 2 GiB" in page
    assert "Of 2 entries on random networks (a network, a region, a method) 1 finished, 0 ran out" in page
    assert "1 were not tried" in page
    made = quotes(found)
    assert "| HR-2 | global | 1 | 0 | 0 | - |" in made["agreement"]
    one_by_one = comparison_page(found)
    assert "| HR-2 | (10,10) | global | 1 | 0 | 0 | 0 | 2.1e-03 | - |" in one_by_one
    assert "| (10,10) | global | HR-2 | 1 of 2 | 2.00 s | 2.0 s | 1 not tried |" in one_by_one
    assert "| (10,10) | 8 | 0 | global | 1.502100 | 1.500000 | above |" in made["optimum"]
    assert made["refuted"] == ""
    text = quoted(
        "a\n<!-- paper: optimum -->\nold\n<!-- end of paper -->\nb <!-- paper: refuted -->\n<!-- end of paper -->", made
    )
    assert "old" not in text
    assert "above" in text
    assert "not computed yet" in text


def test_a_run_is_taken_as_a_whole(folder: Path, tmp_path: Path) -> None:
    paper, page = tmp_path / "docs" / "paper", tmp_path / "docs" / "reproduction.md"
    paper.mkdir(parents=True)
    (paper / "left over.csv").touch()
    (paper / "index.md").write_text("How to make the pages.\n")
    page.write_text("<!-- paper: verdicts -->\n<!-- end of paper -->\n")
    assert command.main([str(folder)], tmp_path / "docs") == 0
    names = {p.name for p in paper.iterdir()}
    taken = {p.name for p in folder.iterdir() if p.suffix in (".csv", ".json", ".svg")}
    assert names == taken | {"index.md"}
    assert "| figure-global-1 | 1 |" in page.read_text()
    with pytest.raises(SystemExit, match="not the folder of a reproduction"):
        command.main([str(tmp_path / "docs")], tmp_path / "docs")


def test_every_target_has_a_page_made_from_its_files(tmp_path: Path) -> None:
    """A page for each table and figure, whose rows are those of the CSV file beside it."""
    assert command.main(["--pages", str(tmp_path)]) == 0
    made = {p.name: p.read_text(encoding="utf-8") for p in tmp_path.iterdir()}
    assert made == pages(DONE)
    assert set(made) == {"index.md", "comparison.md", *(f"{target}.md" for target in TARGETS)}
    columns = {
        "table1": ("seed_0", 4),
        "table2": ("value", 4),
        "table4": ("certified_percent", 2),
        "matrix": ("upper", 3),
    }
    for target in TARGETS:
        own, (column, digits) = made[f"{target}.md"], columns.get(target, ("median", 4))
        assert f"({target}.svg)" in own
        assert all(f" {float(r[column]):.{digits}f} " in own for r in DONE.read(target) if r.get(column))
    assert "| LBS | 0.3354 [0.2823, 0.4297] | 0.01 s | 0.3354 | 1.0000 | agrees |" in made["figure-global-1.md"]
    assert "| 3 | 8.28 | 7.36 | 7.63 | * | 8.879 |" in made["matrix.md"]


def test_the_quoted_tables_are_those_of_the_committed_files() -> None:
    text = (command.DOCS / "reproduction.md").read_text(encoding="utf-8")
    assert quoted(text, quotes(DONE)) == text
    assert "not computed yet" not in text


def test_a_run_goes_on_with_the_committed_files(tmp_path: Path) -> None:
    """What was computed is there again, to the last bit of its bounds; the rest is still to run."""
    count = begin_with(DONE, tmp_path / "job")
    entries = [e for target in FIGURES for e in target_entries(target, False)]
    with JobFolder.open(tmp_path / "job", "reproduce", DONE.question, resume=True) as folder:
        outcomes = {e.name: folder.load(e.name) for e in entries}
        assert not folder.notes
    kept = {name: outcome for name, outcome in outcomes.items() if outcome is not None}
    assert len(kept) == count
    found = Findings(entries, kept)
    for target in FIGURES:
        again = figure_report(target, target_entries(target, False), found).tables
        records = [{key: "" if v is None else str(v) for key, v in r.items()} for r in again[f"{target}-networks"]]
        before = DONE.read(f"{target}-networks")
        done = [(a, b) for a, b in zip(records, before, strict=True) if b["word"] not in (NOT_RUN, NOT_TRIED)]
        assert all(a == b for a, b in done)
        assert len(again.get(f"{target}-refuted", ())) == len(DONE.read(f"{target}-refuted"))


def test_what_ran_out_can_be_tried_again(tmp_path: Path) -> None:
    count = begin_with(DONE, tmp_path / "job", retry=True)
    assert count == sum(r["word"] == "" for r in DONE.networks)


def test_every_published_row_has_a_verdict() -> None:
    """A published median is compared, or it is said why not."""
    verdicts = {v.value for v in Comparison} - {""}
    published = [r for r in DONE.rows if r["published_median"]]
    assert published
    assert {r["verdict"] for r in published} <= verdicts
    assert not [r for r in published if r["verdict"] == Comparison.DIFFERS.value]


def test_refuting_points_refute() -> None:
    """Every gradient that is said to be larger than a published bound, with outward rounding, from the point alone."""
    records = [r for t in DONE.targets for r in DONE.read(f"{t}-refuted") if "network" in r]
    assert records
    for r in records:
        size, layers = int(r["network"].strip("()").split(",")[0]), r["network"].count(",")
        net = paper_network(size, int(r["sparsity"]), int(r["seed"]), layers)
        region = paper_region(size, int(r["seed"]), r["region"])
        point = np.array(r["point"].split(), dtype=np.float64)
        assert region.contains(point)
        norm = evaluate(Problem.of(net, region), point)
        assert norm > float(r["published"])
        assert norm == pytest.approx(float(r["gradient"]), rel=1e-9)
