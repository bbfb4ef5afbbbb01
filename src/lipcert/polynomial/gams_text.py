"""The text of a GAMS file as statements: comments are removed, directives are checked, a semicolon ends a statement.

A directive is a line with $ in its first column. Some directives only change the listing; those are skipped. $ontext,
$offtext and the end-of-line comments ($eolcom, $oneolcom, $offeolcom) are obeyed. Every other directive is refused,
because it could change the model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lipcert.errors import FileFormatError
from lipcert.files.boundary import quoted

_LISTED = ("listing", "digit", "upper", "symlist", "symxref")  # they change the listing alone
_SWITCHES = frozenset(f"{on}{what}" for on in ("on", "off") for what in _LISTED)
_WITH_TEXT = ("title", "stitle", "label", "set")  # the rest of the line is their argument
# The two conditional lines of the files of MINLPLib: a default for a macro, and a user's file that is not given.
_CONDITION = r"\$ifi?\s+(?:not\s+)?(?:set\s+\w+|(['\"])[^'\"]*\1\s*==\s*(['\"])[^'\"]*\2)\s+"
_CONDITIONAL = re.compile(
    rf"{_CONDITION}\$(?:set\s+\w+\s+\w+|include\s+(['\"]?)%gams\.u1%\3)\s*\Z", re.IGNORECASE | re.ASCII
)
QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")


def statements(text: str) -> list[tuple[int, str]]:
    """Every statement with the number of the line in which it begins."""
    found: list[tuple[int, str]] = []
    line_number = 1
    for piece in "\n".join(_Lines().kept(text)).split(";"):
        lead = len(piece) - len(piece.lstrip())
        if piece.strip():
            found.append((line_number + piece[:lead].count("\n"), piece[lead:]))
        line_number += piece.count("\n")
    return found


@dataclass
class _Lines:
    """The state of a walk through the lines of a file."""

    number: int = 0
    hidden: int = 0  # the line of the last $ontext while its $offtext has not come, else 0
    mark: str = "!!"  # the characters that begin a comment at the end of a line, where such comments are on
    marked: bool = False

    def kept(self, text: str) -> list[str]:
        """All lines; comments and directives are empty lines, so that line numbers stay."""
        lines = [self.line(line) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        if self.hidden:
            raise FileFormatError(f"line {self.hidden}: $ontext has no $offtext")
        return lines

    def line(self, line: str) -> str:
        self.number += 1
        words = line[1:].lower().split() if line.startswith("$") else []
        if self.hidden:
            self.hidden = 0 if words[:1] == ["offtext"] else self.hidden
            return ""
        if line.startswith("$"):
            self.directive(words, line)
            return ""
        if line.startswith("*"):
            return ""
        if not self.marked or self.mark not in line:
            return line
        code = line[: line.index(self.mark)]
        if re.search("['\"]", QUOTED.sub("", code)):
            raise FileFormatError(f"line {self.number}: a comment that begins inside quotes is not read")
        return code

    def directive(self, words: list[str], line: str) -> None:
        word = words[0] if words else ""
        if word == "ontext":
            self.hidden = self.number
        elif word == "eolcom" and len(words) == 2:
            self.mark, self.marked = words[1], True
        elif words in (["oneolcom"], ["offeolcom"]):
            self.marked = word == "oneolcom"
        elif not (word in _WITH_TEXT or _CONDITIONAL.match(line) or (words and _SWITCHES.issuperset(words))):
            raise FileFormatError(f"line {self.number}: the directive {quoted(line.strip())} is not read")
