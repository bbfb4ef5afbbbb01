"""The hooks of `mkdocs build`: the order of the pages, generated pages, the examples, the notebook as a page.

Generated pages are not in git. Where other pages link to one, docs/ has a short page of the same name that says how to
make it; the site has the generated page in its place. The pages link to ../examples and are read on their own as well;
in the site the examples lie beside them.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.paper._pages import pages as pages_of_the_paper
from benchmarks.paper._read import Reproduced

from scripts.api_reference import reference

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = "first_hour"
DOCS = ROOT / "docs"
_PAGE = re.compile(r"\]\((\w[\w./-]*\.md)(?:#[^)]*)?\)")
_ANY = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)\)")


@cache
def generated() -> dict[str, str]:
    """The pages that are not in git: path below docs/ -> Markdown."""
    paper = pages_of_the_paper(Reproduced(DOCS / "paper"))
    return {"api.md": reference(), **{f"paper/{name}": text for name, text in paper.items()}}


def text_of(page: str) -> str:
    """The Markdown of a page of the site, by its path below docs/."""
    return generated().get(page) or (DOCS / page).read_text(encoding="utf-8")


def pages() -> dict[str, list[str]]:
    """The pages in the order in which docs/index.md lists them, those of a folder in that of its own index.md."""
    found: dict[str, list[str]] = {"": ["index.md"]}
    for page in _listed("index.md"):
        folder, _, name = page.rpartition("/")
        found.setdefault(folder, [])
        found[folder] += [page, *(f"{folder}/{p}" for p in _listed(page))] if name == "index.md" else [page]
    return {folder: [*dict.fromkeys(own)] for folder, own in found.items()}


def _listed(index: str) -> list[str]:
    return _PAGE.findall(text_of(index))


def on_config(config: Any) -> Any:
    """The navigation; titles are those of the pages."""
    own, *folders = pages().items()
    config.nav = [*own[1], f"{NOTEBOOK}.md", *({folder.capitalize(): names} for folder, names in folders)]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages, the examples, and the notebook as a page."""
    from mkdocs.structure.files import File

    for name, text in generated().items():
        if (short := files.get_file_from_path(name)) is not None:
            files.remove(short)
        files.append(File.generated(config, name, content=text))

    for path in sorted((ROOT / "examples").iterdir()):
        if path.is_file():
            files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    page = notebook_page(ROOT / "examples" / f"{NOTEBOOK}.ipynb")
    files.append(File.generated(config, f"{NOTEBOOK}.md", content=page))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they are in the site."""
    return in_site(markdown, (DOCS / page.file.src_uri).parent)


def in_site(markdown: str, folder: Path = DOCS) -> str:
    """Links from docs/ to the examples, or from examples/ to docs/, as they are when both lie in one folder; folders,
    which a forge lists and a site does not, are only named."""

    def named(found: re.Match[str]) -> str:
        return found[1] if (folder / found[2]).is_dir() else found[0]

    text = _ANY.sub(named, markdown)
    text = text.replace(f"](../examples/{NOTEBOOK}.ipynb)", f"]({NOTEBOOK}.md)")
    return text.replace("](../examples/", "](examples/").replace("](../docs/", "](")


def notebook_page(path: Path) -> str:
    """The cells of a notebook with their outputs, in Markdown."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = [_cell(cell) for cell in cells]
    parts.insert(1, f"The notebook itself: [{path.name}](examples/{path.name}).")
    return "\n\n".join(parts) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *(_output(each) for each in cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return "".join(data["image/svg+xml"])
    return f"```text\n{''.join(output.get('text', data.get('text/plain', []))).rstrip()}\n```"
