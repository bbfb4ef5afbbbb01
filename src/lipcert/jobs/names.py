"""File names for any text: different names give different files, on file systems that ignore case too."""

from __future__ import annotations

import hashlib
import re

from lipcert.errors import InputError

_PLAIN = re.compile(r"[a-z0-9_.-]")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)")  # devices on Windows, whatever the extension
_LONGEST = 120


def file_stem(name: str) -> str:
    """Lower-case letters, digits and _ - . stand for themselves, every other byte of UTF-8 is =xx.

    A leading dot or dash is escaped (temporary files begin with a dot). A long name ends in its hash instead: "=h" is
    no escape, so it meets no other name.
    """
    if not name:
        raise InputError("a piece needs a name that is not empty")
    stem = "".join(c if _PLAIN.fullmatch(c) else _escape(c) for c in name)
    if stem[0] in ".-" or _RESERVED.match(stem):
        stem = _escape(stem[0]) + stem[1:]
    if len(stem) <= _LONGEST:
        return stem
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return f"{stem[: _LONGEST - 42]}=h{digest}"


def _escape(character: str) -> str:
    return "".join(f"={byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
