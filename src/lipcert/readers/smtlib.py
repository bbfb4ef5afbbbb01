"""Text in brackets, as SMT-LIB writes it: words and forms with their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lipcert.errors import FileFormatError
from lipcert.files.boundary import quoted

_MAX_DEPTH = 32
_TOKEN = re.compile(r"[()]|[^\s();]+|;[^\n]*|\n")


class Atom(NamedTuple):
    """A word of the text, and its line."""

    text: str
    line: int


class Form(NamedTuple):
    """( ... ), and the line where it opens."""

    parts: list[Atom | Form]
    line: int

    @property
    def head(self) -> str:
        return self.parts[0].text if self.parts and isinstance(self.parts[0], Atom) else ""


def forms(text: str) -> Iterator[Form]:
    """The top-level forms, without recursion."""
    line, stack = 1, list[Form]()
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == "\n":
            line += 1
        elif token == "(":
            if len(stack) == _MAX_DEPTH:
                raise FileFormatError(f"line {line}: more than {_MAX_DEPTH} brackets inside each other")
            stack.append(Form([], line))
        elif token == ")":
            if not stack:
                raise FileFormatError(f"line {line}: a closing bracket without an opening one")
            done = stack.pop()
            if stack:
                stack[-1].parts.append(done)
            else:
                yield done
        elif token[0] != ";":
            if not stack:
                raise FileFormatError(f"line {line}: {quoted(token)} stands outside all brackets; not a VNN-LIB file?")
            stack[-1].parts.append(Atom(token, line))
    if stack:
        raise FileFormatError(
            f"line {stack[0].line}: a bracket opens here and is never closed; the file may be cut off"
        )
