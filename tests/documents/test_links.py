"""Links and anchors of all pages lead somewhere, as GitHub shows them and as the site does."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scripts import notebook, site

import lipcert
from tests.conftest import ROOT
from tests.documents import pages

HEADING = re.compile(r"^#{1,6} (.+?)\s*#*$", re.MULTILINE)


def every_page() -> list[Path]:
    """Every Markdown file of the project, and its notebook."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=False
    )
    names = listed.stdout.decode().splitlines() if listed.returncode == 0 else []
    found = [ROOT / name for name in names] or [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    return sorted(p for p in found if p.suffix in (".md", ".ipynb") and p.exists())


def text_of(page: Path) -> str:
    """The page of the site, generated or not, without code, in which brackets are no links."""
    text = site.generated().get(_in_docs(page)) or page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return pages.without_code(text)


def _in_docs(page: Path) -> str:
    return page.relative_to(site.DOCS).as_posix() if page.is_relative_to(site.DOCS) else ""


def anchors(text: str) -> set[str]:
    """Anchors of the headings: small letters, no punctuation, hyphens for spaces, a number behind repeated ones."""
    found: set[str] = set()
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        found.add(next(s for s in _numbered(slug) if s not in found))
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def _numbered(slug: str) -> Iterator[str]:
    yield slug
    yield from (f"{slug}-{k}" for k in range(1, 1000))


def broken(page: Path, text: str) -> list[str]:
    wrong = []
    for link in pages.links(text):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        place = (page.parent / target).resolve() if target else page
        if not place.is_relative_to(ROOT) or not (place.exists() or _in_docs(place) in site.generated()):
            wrong.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(text_of(place)):
            wrong.append(f"{link}: no such heading")
    return wrong


@pytest.mark.parametrize("page", every_page(), ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_anchors(page: Path) -> None:
    assert broken(page, text_of(page)) == []
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":  # as it is in a repository browser, where there are no generated pages
        targets = [link.partition("#")[0] for link in pages.links(text)]
        assert [t for t in targets if t and "://" not in t and not (page.parent / t).resolve().exists()] == []


@pytest.mark.parametrize("name", sorted(site.generated()))
def test_links_of_generated_pages(name: str) -> None:
    assert broken(site.DOCS / name, text_of(site.DOCS / name)) == []


def test_what_is_broken_is_found() -> None:
    page = ROOT / "docs" / "index.md"
    text = "[a](nowhere.md) [b](api.md#nothing) [c](#here) [d](api.md#bound)\n\n```\n[g](h.md)\n```\n# Here\n"
    assert broken(page, text) == [
        "nowhere.md: no such file",
        "api.md#nothing: no such heading",
        "#here: no such heading",
    ]
    assert anchors("# A `b`, c\n## 3. D\n### 3. D\n") == {"a-b-c", "3-d", "3-d-1"}


def test_an_index_gets_links_that_lead_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """hatch_build.py without hatchling, which is there while a package is built."""
    stub = ModuleType("hatchling.metadata.plugin.interface")
    stub.MetadataHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, stub.__name__, stub)
    build = runpy.run_path(str(ROOT / "hatch_build.py"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for url in ("https://example.org/lipcert/blob/main/", ""):
        links = pages.links(build["for_index"](readme, url))
        assert all(link.startswith(("https://", "#")) for link in links)
        assert (len(links) > 10) == bool(url)
        assert ("The bracket against time" in build["for_index"](readme, url)) == bool(url)  # it is below a picture
    assert (
        build["for_index"]("![p](p.svg) [a](b.md) [b.md](b.md) [c](https://c)", "") == " a (`b.md`) b.md [c](https://c)"
    )


def test_the_citation_is_of_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {lipcert.__version__}\n" in text
    assert "Semialgebraic Optimization for Lipschitz Constants of ReLU Networks" in text


def test_every_page_is_in_the_site_once() -> None:
    """The navigation is read from docs/index.md, and for a folder from its own index.md."""
    listed = [page for own in site.pages().values() for page in own]
    assert sorted(listed) == sorted(
        {*site.generated(), *(str(p.relative_to(site.DOCS)) for p in site.DOCS.rglob("*.md"))}
    )


def test_links_of_the_site_stay_in_it() -> None:
    """No page goes up and out, but to the examples, which the site has beside the pages."""
    made = {name: site.in_site(text_of(site.DOCS / name)) for name in site.pages()[""]}
    made[f"{site.NOTEBOOK}.md"] = site.in_site(pages.without_code(site.notebook_page(notebook.FILE)))
    for name, text in made.items():
        for link in pages.links(text):
            target = link.partition("#")[0]
            if target and "://" not in target and target != f"{site.NOTEBOOK}.md":
                place = ROOT if target.startswith("examples/") else site.DOCS
                assert (place / target).is_file(), f"{name}: {link}"


def test_the_notebook_is_of_this_version_and_small() -> None:
    """Its cells run without Jupyter, in a folder of their own, and show what is stored, in kind and in numbers."""
    stored = notebook.read()
    assert notebook.FILE.stat().st_size < 200_000
    for cell, found in zip(notebook.code_cells(stored), notebook.executed(stored), strict=True):
        told = cell["outputs"]
        assert [(o["output_type"], sorted(o.get("data", {}))) for o in told] == [
            (o["output_type"], sorted(o.get("data", {}))) for o in found
        ]
        assert [_stable(o) for o in told] == [_stable(o) for o in found]


def _stable(output: dict[str, Any]) -> list[str]:
    """The printed lines but for times, the last digits of a closed gap, and how the search went."""
    lines = "".join(output.get("text", output.get("data", {}).get("text/plain", []))).splitlines()
    kept = [line for line in lines if not re.match(r"\s+(gap|time|note) ", line)]
    return [re.sub(r"\([a-z]+\)|0\.\d{4} away", "", line) for line in kept]
