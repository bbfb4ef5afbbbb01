"""No command destroys what it reads, nor a file that is something else than what it writes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click
import numpy as np
import pytest

import lipcert
from lipcert import Network
from lipcert.cli.app import COMMANDS, cli, run
from lipcert.cli.paths import InputPath, OutputFile, OutputFolder

# Text that no command takes for a path; a new parameter of text is declared as a path or named here.
WORDS = {
    *("output", "norm", "output_norm", "inputs", "outputs", "method", "solver", "scheduler", "memory", "onnx_output"),
    *("cells", "axes", "at", "label_column", "scale", "versus", "relaxation", "sparsity", "order"),
}
WORDS_OF = {"certify": {"radius"}, "reproduce": {"target"}}
BOX = ["--radius", "0.1", "--work", "0.02"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one small file of every kind that commands read."""
    monkeypatch.chdir(tmp_path)
    net = Network.from_weights([np.eye(2), [[1.0, -1.0], [0.5, 1.0]]], [[0.1, 0.2], [0.0, 0.0]])
    net.save("net.npz")
    net.save("loop.npz")
    Path("p.pop").write_text("minimize x y\nx^2 + y^2 <= 1\n")
    np.savetxt("A.csv", 0.1 * np.eye(2), delimiter=",")
    np.savetxt("data.csv", [[0.1, 0.2], [0.3, 0.1]], delimiter=",")
    np.save("data.npy", np.array([[0.1, 0.2], [0.3, 0.1]]))
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a call that is refused without any change in the folder."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert run(arguments) == 2
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_every_path_is_declared_as_an_input_or_an_output() -> None:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        kinds = {param.name: type(param.type) for param in command.params}
        for param in command.params:
            if isinstance(param.type, click.types.StringParamType) or type(param.type) is click.Path:
                assert param.name in WORDS | WORDS_OF.get(name, set()), f"{name}: {param.name} may be a path"
        assert ("overwrite" in kinds) == (OutputFile in kinds.values())


def test_the_declared_outputs_are_those_that_commands_have() -> None:
    context = click.Context(cli)
    found = {}
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        found[name] = {p.opts[0] for p in command.params if isinstance(p.type, OutputFile | OutputFolder)}
        assert any(isinstance(p.type, InputPath) for p in command.params) or name in ("demo", "doctor")
    files = {"--out", "--csv", "--npz", "--certificate", "--plot"}
    assert found == {name: set() for name in COMMANDS} | {
        "bound": {"--certificate"},
        "cells": files,
        "jacobian": files,
        "certify": {"--out"},
        "export": {"--to"},
        "loop": {"--certificate", "--save"},
        "norms": {"--out"},
        "pop": {"--certificate", "--to"},
        "report": {"--to"},
        "reproduce": {"--out"},
    }


CALLS = {
    "bound": ["bound", "net.npz", *BOX, "--output", "0", "--certificate"],
    "cells": ["cells", "net.npz", *BOX, "--output", "0", "--cells", "2", "--certificate"],
    "cells as arrays": ["cells", "net.npz", *BOX, "--output", "0", "--cells", "2", "--npz"],
    "jacobian": ["jacobian", "net.npz", *BOX, "--certificate"],
    "jacobian as arrays": ["jacobian", "net.npz", *BOX, "--npz"],
    "loop": ["loop", "net.npz", "--a", "A.csv", "--b", "A.csv", "--radius", "0.1", "--save"],
    "proof of a loop": ["loop", "net.npz", "--a", "A.csv", "--b", "A.csv", "--radius", "0.1", "--certificate"],
}


@pytest.mark.parametrize("name", CALLS)
def test_the_network_is_not_replaced(name: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.link("net.npz", "hard.npz")
    os.symlink("net.npz", "soft.npz")
    (home / "sub").mkdir()
    for place in ("net.npz", "sub/../net.npz", str(home / "net.npz"), "hard.npz", "soft.npz"):
        for extra in ([], ["--overwrite"]):
            said = refused(capsys, *CALLS[name], place, *extra)
            assert f"{place}: the same file as NETWORK net.npz, which would be lost; choose another name" in said


def test_other_inputs_are_not_replaced(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = ["cells", "net.npz", *BOX, "--output", "0", "--cells", "2", "--input-weights", "data.csv", "--csv"]
    assert "--csv data.csv: the same file as --input-weights data.csv" in refused(capsys, *cells, "data.csv")
    np.savetxt("center.csv", [0.0, 0.0])
    jacobian = ["jacobian", "net.npz", *BOX, "--center", "center.csv", "--csv", "center.csv"]
    assert "--csv center.csv: the same file as --center center.csv" in refused(capsys, *jacobian)
    assert "--to p.pop: the same file as FILE p.pop" in refused(capsys, "pop", "p.pop", "--to", "p.pop", "--overwrite")
    shutil.copy("p.pop", "p.dat-s")
    (home / "job").mkdir()
    shutil.copy("data.npy", "job/arrays.npy")
    certify = ["certify", "net.npz", "job/arrays.npy", "--radius", "0.1", "--out", "job", "--resume"]
    assert "--out job: DATA job/arrays.npy is in that folder; choose another one" in refused(capsys, *certify)


@pytest.mark.usefixtures("home")
def test_two_outputs_are_two_files(capsys: pytest.CaptureFixture[str]) -> None:
    cells = ["cells", "net.npz", *BOX, "--output", "0", "--cells", "2"]
    said = refused(capsys, *cells, "--npz", "new.npz", "--certificate", "./new.npz")
    assert "--certificate ./new.npz: the same file as --npz; give each its own name" in said
    Path("job").mkdir()
    said = refused(capsys, *cells, "--out", "job", "--npz", "job/certificate.npz")
    assert "--npz job/certificate.npz: in the folder of --out" in said


@pytest.mark.parametrize("name", CALLS)
def test_a_file_of_another_kind_is_kept_and_one_of_the_same_replaced(
    name: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("mine.npz", weights=np.arange(3.0))
    said = refused(capsys, *CALLS[name], "mine.npz")
    assert said.rstrip().endswith("choose another name, or give --overwrite")
    assert " mine.npz: exists and is not a " in said
    other = "loop.npz" if name != "loop" else "proof.npz"
    if name == "loop":
        assert run([*CALLS["bound"], other]) == 0
        capsys.readouterr()
    refused(capsys, *CALLS[name], other)
    (home / "new.npz").touch()  # as mktemp leaves it: nothing is lost
    for _ in range(2):
        assert run([*CALLS[name], "new.npz"]) in (0, 1)
    assert run([*CALLS[name], "mine.npz", "--overwrite"]) in (0, 1)
    with np.load("mine.npz") as held:
        assert "weights" not in held


@pytest.mark.parametrize(
    "arguments",
    [
        ["cells", "net.npz", *BOX, "--output", "0", "--cells", "2", "--csv", "new.csv"],
        ["cells", "net.npz", *BOX, "--output", "0", "--cells", "2", "--plot", "new.svg"],
        ["cells", "net.npz", *BOX, "--output", "0", "--cells", "2", "--plot", "new.png"],
        ["jacobian", "net.npz", *BOX, "--csv", "new.csv"],
        ["export", "net.npz", "--radius", "0.1", "--output", "0", "--to", "new.dat-s"],
        ["pop", "p.pop", "--to", "new.dat-s"],
        ["pop", "p.pop", "--to", "new.pop"],
        ["pop", "p.pop", "--certificate", "new.npz"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("home")
def test_what_a_command_wrote_it_replaces(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if arguments[-1].endswith(".png"):
        pytest.importorskip("matplotlib")
    for _ in range(2):
        assert run(arguments) in (0, 1), capsys.readouterr().err
        assert Path(arguments[-1]).stat().st_size > 0
    Path(arguments[-1]).write_text("a,b\n1,2\n")
    capsys.readouterr()
    assert "exists and is not" in refused(capsys, *arguments)


@pytest.mark.usefixtures("home")
def test_a_report_keeps_other_pages_and_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    certify = ["certify", "net.npz", "data.npy", "--radius", "0.01", "--method", "interval", "--out", "job"]
    assert run(certify) == 0
    report = ["report", "job", "--plots", "svg"]
    for _ in range(2):
        assert run(report) == 0
    capsys.readouterr()
    Path("job/certified.svg").write_text("<svg>mine</svg>")
    assert "certified.svg: exists and is not a chart" in refused(capsys, *report)
    assert run([*report, "--overwrite"]) == 0
    capsys.readouterr()
    Path("job/report.html").write_text("<html>mine</html>")
    assert "report.html: exists and is not a report" in refused(capsys, "report", "job")
    assert lipcert.verify_folder("job").proved


@pytest.mark.usefixtures("home")
def test_links_to_nowhere_and_pipes_are_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    os.symlink("nowhere.npz", "link.npz")
    os.mkfifo("pipe.npz")
    for place in ("link.npz", "pipe.npz"):
        assert run([*CALLS["bound"], place]) == 2
        assert f"{place}: exists and is not a certificate" in capsys.readouterr().err
