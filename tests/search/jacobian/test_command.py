"""`lipcert jacobian`: what it prints and writes, its exit codes, and what it refuses in one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from lipcert import Box, InputError, Network, jacobian
from lipcert.chart.render import document
from lipcert.cli.app import run
from lipcert.report.heatmap import MARKS, entry_map
from tests.problems import net_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    net_of(3, 8, 6, 2, seed=8).save(tmp_path / "net.npz")
    return tmp_path


def test_all_files_and_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = str(place / "net.npz")
    files = {name: str(place / f"entries.{end}") for name, end in (("csv", "csv"), ("npz", "npz"), ("plot", "svg"))}
    files["certificate"] = str(place / "proof.npz")
    options = [word for name, file in files.items() for word in (f"--{name}", file)]
    code = run(["jacobian", net, "--radius", "0.5", "--gap", "0.01", "--work", "0.5", "--json", *options])
    answer = json.loads(capsys.readouterr().out)
    assert code == (0 if answer["good"] == 6 else 1)
    assert np.shape(answer["lower"]) == np.shape(answer["verdicts"]) == (2, 3)
    assert sum(answer["counts"].values()) == 6
    with (place / "entries.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["upper"]) for row in rows] == np.ravel(answer["upper"]).tolist()
    assert [(row["output"], row["input"]) for row in rows][:4] == [("0", "0"), ("0", "1"), ("0", "2"), ("1", "0")]
    with np.load(place / "entries.npz") as arrays:
        assert np.array_equal(arrays["lower"], answer["lower"])
        assert arrays["points"].shape[1] == 3
    assert (place / "entries.svg").read_text().startswith("<svg")
    assert run(["verify", files["certificate"], "--network", net]) == 0


def test_the_table_has_chosen_entries(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = str(place / "net.npz")
    run(["jacobian", net, "--radius", "0.2", "--outputs", "1", "--inputs", "0,2:3", "--work", "0.1"])
    out = capsys.readouterr().out
    assert "d 1 / d 0" in out
    assert "d 1 / d 2" in out
    assert "d 0 /" not in out
    assert "d 1 / d 1" not in out


def test_exit_codes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 when all is as asked for, 1 when work ended before."""
    net = str(place / "net.npz")
    assert run(["jacobian", net, "--radius", "1e-9", "--gap", "0.1"]) == 0
    assert "finished" in capsys.readouterr().out
    assert run(["jacobian", net, "--radius", "1", "--gap", "1e-6", "--work", "1e-6"]) == 1
    assert "with what is proved by then" in capsys.readouterr().out
    assert run(["jacobian", net, "--global", "--work", "0.01"]) in (0, 1)
    assert "whole input space" in capsys.readouterr().out


def test_large_ones_are_counted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net_of(30, 4, 3, seed=8).save(place / "wide.npz")
    run(["jacobian", str(place / "wide.npz"), "--radius", "0.1", "--work", "0.05"])
    out = capsys.readouterr().out
    assert "3 x 30" in out
    assert 3 <= out.count(" / d ") <= 9


BAD = {
    "an unknown output": (["--outputs", "5"], "outputs: there is no 5"),
    "an unknown input": (["--inputs", "0:9"], "inputs: there is no 3"),
    "an empty range": (["--inputs", "3:1"], "is empty"),
    "no number": (["--outputs", "one"], "give numbers and ranges"),
    "a gap of zero": (["--gap", "0"], "gap must be"),
    "a negative gap": (["--gap", "-1"], "gap must be"),
    "a gap that is no number": (["--gap", "nan"], "gap must be"),
    "no time": (["--time-limit", "0"], "--time-limit must be"),
    "no work": (["--work", "nan"], "work must be"),
    "no cells": (["--max-cells", "0"], "--max-cells must be"),
    "a plot of unknown kind": (["--plot", "entries.gif"], "--plot entries.gif: give the file the ending"),
    "a table of unknown kind": (["--csv", "entries.txt"], "--csv entries.txt: give the file the ending"),
    "a proof of unknown kind": (["--certificate", "proof.txt"], "--certificate proof.txt: give the file the ending"),
    "a folder that is missing": (["--csv", "missing/entries.csv"], "no such folder"),
    "a radius that is none": (["--radius", "nan"], "radius must be finite"),
    "the whole space and a box": (["--global"], "exclude each other"),
    "a center that does not fit": (["--center", "center.npy"], "has 2 numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_refused_in_one_line(
    name: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    np.save("center.npy", np.zeros(2))
    options, words = BAD[name]
    before = sorted(p.name for p in place.iterdir())
    written = [] if "--csv" in options else ["--csv", "written.csv"]
    assert run(["jacobian", "net.npz", "--radius", "0.1", *written, *options]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert words in said.err
    assert not said.out
    assert sorted(p.name for p in place.iterdir()) == before


def test_no_region(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["jacobian", str(place / "net.npz")]) == 2
    assert "no region" in capsys.readouterr().err


def test_results_show_themselves(tmp_path: Path) -> None:
    found = jacobian(net_of(2, 4, 1), Box(np.zeros(2), 0.5))
    assert "d 0 / d 1" in repr(found)
    assert "<table" in found._repr_html_()
    json.dumps(found.to_dict(), allow_nan=False)
    found.save(tmp_path / "entries.json")
    assert json.loads((tmp_path / "entries.json").read_text())["outputs"] == [0]
    with pytest.raises(InputError, match="saved as"):
        found.save(tmp_path / "entries.txt")
    with pytest.raises(ValueError, match="read-only"):
        found.upper[0, 0] = 0.0


def test_ends_are_shown_outward() -> None:
    found = jacobian(net_of(3, 8, 2, seed=4), Box(np.zeros(3), 0.5), max_cells=1)
    for i, j in found.shown():
        low, high = found.words(i, j).split("]")[0].strip("[").split(", ")
        assert float(low) <= found.lower[i, j]
        assert found.upper[i, j] <= float(high)
        assert float(low) == pytest.approx(found.lower[i, j], rel=1e-5)


@pytest.mark.parametrize("sizes", [(2, 4, 3), (40, 3, 2)])
def test_a_heat_map(sizes: tuple[int, ...]) -> None:
    """A square for every entry with its sign where there is room, and in words for all."""
    found = jacobian(net_of(*sizes, seed=3), Box(np.zeros(sizes[0]), 0.3), work=0.02)
    text = document(entry_map(found))
    assert text.count("d score") == found.lower.size
    for word, mark in MARKS.items():
        assert text.count(f", {word}<") == found.counts[word]
        assert mark in text


def test_an_image_of_it(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    Network.from_weights([np.ones((1, 2))]).save(tmp_path / "net.npz")
    target = tmp_path / "entries.png"
    assert run(["jacobian", str(tmp_path / "net.npz"), "--radius", "1", "--plot", str(target)]) == 0
    assert target.read_bytes().startswith(b"\x89PNG")
