"""One door for files of strangers: regular files alone, and nothing opens a path beside it."""

from __future__ import annotations

import ast
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import lipcert
from lipcert.cli.app import run
from lipcert.errors import FileFormatError
from lipcert.files import contents, opened, text_of
from lipcert.files.archive import holds
from tests.problems import net_of

SOURCE = Path(lipcert.__file__).parent
READING = {"ZipFile", "open", "read_bytes", "read_text", "load", "fdopen"}
OWN = {  # what is opened here is no file of a stranger
    "files/__init__.py": "the door itself, and temporary files that are written",
    "files/archive.py": "members of an archive that came through the door",
    "budget/memory.py": "what the system says of its memory",
    "paper/published.py": "tables of the package",
    "paper/trained.py": "a file that was written just before",
    "cli/demo.py": "data of the package",
    "cli/app.py": "the null device",
    "jobs/folder.py": "a lock",
    "search/blocks.py": "bytes in memory",
    "readers/onnx/external.py": "files beside a model: as the door, but without following links",
}
WITHIN = {("robustness/data.py", "gzip"), ("readers/vnnlib.py", "gzip"), ("search/jacobian/jacobian.py", "JobFolder")}
WITHIN |= {
    ("search/cells/partition.py", "JobFolder"),
    ("paper/run.py", "JobFolder"),
    ("robustness/certify.py", "JobFolder"),
}


def test_nothing_opens_a_path_beside_the_door() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            f = node.func
            called = f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""
            owner = f.value.id if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) else ""
            if called not in READING or (called == "load" and owner != "np") or (name, owner) in WITHIN:
                continue
            if name not in OWN:
                found.append(f"{name}:{node.lineno} {owner}.{called}")
    assert found == []


@pytest.fixture
def odd(tmp_path: Path) -> dict[str, Path]:
    """Paths that are no regular files: a FIFO that nobody writes to, links to it and to an endless device."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no FIFOs")
    os.mkfifo(tmp_path / "fifo.npz")
    (tmp_path / "link.npz").symlink_to(tmp_path / "fifo.npz")
    (tmp_path / "zero.npz").symlink_to("/dev/zero")
    return {name: tmp_path / f"{name}.npz" for name in ("fifo", "link", "zero")}


@pytest.mark.parametrize("name", ["fifo", "link", "zero"])
def test_devices_and_fifos_are_refused_at_once(
    name: str, odd: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net_of(2, 3, 1).save(tmp_path / "net.npz")
    for arguments in (
        ["verify", str(odd[name])],
        ["verify", str(odd[name]), "--network", str(tmp_path / "net.npz")],
        ["verify", str(odd[name]), "--problem", str(odd[name])],
        ["verify", str(tmp_path / "net.npz"), "--network", str(odd[name])],
    ):
        assert run(arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1
    for read in (opened, contents, text_of):
        with pytest.raises(FileFormatError, match="not a file"):
            read(odd[name])


def test_a_link_to_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_bytes(b"1\r\n2\r3\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "text.csv")
    assert text_of(tmp_path / "link.csv") == "1\n2\n3\n"


def test_names_that_no_file_has_are_missing_files(tmp_path: Path) -> None:
    for name in ("missing", "nul\0byte", "x" * 5000, "net.npz/inside"):
        (tmp_path / "net.npz").write_bytes(b"x")
        with pytest.raises(FileFormatError) as caught:
            opened(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", [64, 255])
def test_an_archive_for_a_newer_zip_program_is_refused_in_one_line(
    version: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = io.BytesIO()
    np.savez(stream, certificate=np.array(2))
    data = bytearray(stream.getvalue())
    data[data.rindex(b"PK\x01\x02") + 6] = version  # the version that is needed, in the directory
    path = tmp_path / "new.npz"
    path.write_bytes(data)
    with pytest.raises(NotImplementedError):
        zipfile.ZipFile(path)
    net_of(2, 3, 1).save(tmp_path / "net.npz")
    assert not holds(path, "certificate")
    for arguments in ([], ["--network", str(tmp_path / "net.npz")], ["--problem", str(tmp_path / "net.npz")]):
        assert run(["verify", str(path), *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert run(["bound", str(path), "--radius", "1"]) == 2
    assert "newer zip program" in capsys.readouterr().err
