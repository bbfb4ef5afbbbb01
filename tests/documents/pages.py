"""Parts of a page of Markdown: blocks of code by their language, commands with what they print, links."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.conftest import ROOT

DOCS = ROOT / "docs"
README = ROOT / "README.md"
_BLOCK = re.compile(r"^(```|~~~)([^\n]*)\n(.*?)^\1", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")


def read(page: str | Path) -> str:
    """The text of a page, by its path or by its name below docs/."""
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(text: str, *languages: str) -> list[tuple[str, str]]:
    """(language, text) of the blocks of code in these languages, in their order; "" is a block that names none."""
    found = [(language.strip(), code) for _, language, code in _BLOCK.findall(text)]
    return [block for block in found if block[0] in languages]


def commands(code: str, program: str = "lipcert") -> list[tuple[str, str]]:
    """Every `$ program ...` of a block as one line without comments, and the lines that it prints."""
    parts = re.split(r"^\$ ", code.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    lines = [part.partition("\n") for part in parts]
    return [
        (" ".join(shlex.split(line, comments=True)), printed)
        for line, _, printed in lines
        if line.split()[0] == program
    ]


def named_files(text: str, language: str) -> dict[str, str]:
    """Blocks whose first line is a comment with the name of a file: name -> text."""
    return {code.split("\n")[0][2:]: code for _, code in blocks(text, language) if code.startswith("# ")}


def without_code(text: str) -> str:
    """The text without blocks of code, and without links inside of `code`."""
    return re.sub(r"`[^`\n]+`", lambda code: code[0].replace("](", "] ("), _BLOCK.sub("", text))


def links(text: str) -> list[str]:
    """The targets of all links outside of code."""
    return _LINK.findall(without_code(text))
