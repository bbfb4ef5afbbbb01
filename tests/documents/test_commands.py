"""Every command and every piece of Python in README and docs is run, on small files with the names they have there."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
import pytest

import lipcert
from lipcert.cli.app import cli, run
from tests.conftest import ROOT
from tests.documents import pages
from tests.documents.files import make_files

PAGES = sorted([pages.README, *pages.DOCS.glob("*.md")])

# Not run but parsed: every option and every value must be one that the command takes.
PARSED = {
    "lipcert demo": "run by tests/cli/test_app.py",
    "lipcert reproduce all --quick": "ten minutes",
    "lipcert reproduce all --out paper": "days",
    "lipcert reproduce figure-local-1 --out paper": "hours",
    "lipcert reproduce figure-local-1 --quick": "minutes; tests/paper/test_reproduction.py runs entries of it",
    "lipcert cells controller.onnx --radius 1 --output 0 --adaptive --gap 0.01 --out job": "thousands of cells",
    "lipcert cells controller.onnx --radius 1 --output 0 --cells 40 --largest 0.05 --certificate cells.npz "
    "--csv cells.csv": "64,000 cells",
    "lipcert cells vdp.onnx --radius 1 --output 0 --cells 40 --plot cells.svg --axes 0,1 --at x2=0.5": "64,000 cells",
    "lipcert verify cells.npz --network controller.onnx": "after one of those; tests/search/cells/test_certificate.py",
}
# Run with more options behind those of the page, to save time.
ADDED = {
    "lipcert certify digits_net.npz digits_images.npz": ["--method", "interval", "--refine", "0", "--first", "9"],
    "lipcert certify net.npz": ["--method", "interval"],
    "lipcert bound": ["--work", "0.5"],
}
# Python that cannot run everywhere, or is not meant to.
NOT_RUN = {
    "reproduction.md": "needs the paper's network, which is not ours to ship",
    "for-ml-engineers.md": "" if find_spec("torch") else "torch is not installed",
}


def blocks(page: Path) -> list[tuple[str, str]]:
    return pages.blocks(pages.read(page), "console", "python")


def check_command(command: str) -> None:
    arguments = shlex.split(command)[1:]
    if command in PARSED:
        named = cli.get_command(click.Context(cli), arguments[0])
        assert named is not None, command
        with named.make_context(arguments[0], arguments[1:]):
            return
    more = [option for start, options in ADDED.items() if command.startswith(start) for option in options]
    assert run([*arguments, *more]) == 0, command


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_what_a_page_shows_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    known = {"lipcert": lipcert, "net": lipcert.load("controller.onnx")}
    known |= {"np": np, "center": np.zeros(3), "points": np.zeros((2, 3)), "A": np.ones((1, 3)), "b": np.ones(1)}
    if page.name == "README.md":
        known |= {"center": np.load("image.npy")}
    shown = blocks(page)
    for k, (kind, text) in enumerate(shown):
        if kind == "console":
            for command, _ in pages.commands(text):
                check_command(command)
        elif NOT_RUN.get(page.name):
            compile(text, page.name, "exec")
        else:
            exec(compile(text, f"{page.name}, block {k}", "exec"), known)
    assert "Traceback" not in capsys.readouterr().err


def test_what_is_only_parsed_is_there() -> None:
    """The list names no command that no page has; the lines of a page that call make name targets that exist."""
    texts = [text for page in PAGES for kind, text in blocks(page) if kind == "console"]
    shown = {command for text in texts for command, _ in pages.commands(text)}
    assert set(PARSED) - shown == set()
    assert all(any(command.startswith(start) for command in shown) for start in ADDED)
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {command.split()[1] for text in texts for command, _ in pages.commands(text, "make")} <= targets


def test_the_first_screen_of_the_readme_is_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """The output below the first lines of Python, but for times, the gap's last digits and how the search went."""
    text = pages.read(pages.README)
    (_, code), (_, shown) = pages.blocks(text, "python", "")[:2]
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out

    def stable(lines: str) -> list[str]:
        kept = [line for line in lines.splitlines() if not re.match(r"  (gap|time|note) ", line)]
        return [re.sub(r"\(.*\)", "", line).rstrip() for line in kept]

    assert stable(printed) == stable(shown)
    assert "finished" in printed
    assert len(text.split()) < 1000
