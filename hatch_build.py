"""What a package index shows of the README: links that lead somewhere from there.

With LIPCERT_URL, the address under which the files of this version are shown, relative links and pictures become
absolute. Without it, what such a link would have led to is named and not linked, and pictures are left out with the
line in italics below them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?://)[^)\s]+\)\n\n\*[^*\n]+\*\n\n")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#|mailto:)([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Gives the project its readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        shown = for_index(text, os.environ.get("LIPCERT_URL", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}


def for_index(text: str, url: str) -> str:
    """The README with the links of an index."""

    def link(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if url:
            raw = "?raw=true" if picture else ""  # a forge shows a page about a file, and the file itself when asked
            return f"{picture}[{words}]({url.rstrip('/')}/{target}{raw})"
        return "" if picture else f"{words} (`{target}`)" if target not in words else words

    return _LINK.sub(link, text if url else _PICTURE.sub("", text))
