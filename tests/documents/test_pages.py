"""The documentation: generated parts are up to date, every page is in the index, what pages name exists."""

from __future__ import annotations

import pydoc
import re
import tomllib

from scripts import operators_table, trusted_modules
from scripts.api_reference import GROUPS, reference

import lipcert
from tests.conftest import ROOT
from tests.documents import pages


def test_the_reference_has_every_public_name() -> None:
    """With what it is: a signature, a docstring, or the members of an enumeration."""
    parts = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", reference(), re.DOTALL | re.MULTILINE))
    assert sorted(parts) == sorted(lipcert.__all__)
    assert all(len(text.split()) > 3 for text in parts.values())
    assert "bound(" in parts["bound"]
    assert "time_limit" in parts["bound"]


def test_table_of_operators_is_up_to_date() -> None:
    text = operators_table.FILE.read_text(encoding="utf-8")
    assert text == operators_table.table(), "run python -m scripts.operators_table"


def test_table_of_trusted_modules_is_up_to_date() -> None:
    text = trusted_modules.FILE.read_text(encoding="utf-8")
    assert text == trusted_modules.written(text), "run python -m scripts.trusted_modules"


def test_verify_loads_little() -> None:
    """No solver, no search, no reader of modules, no clock, and nothing of the second checker."""
    names = trusted_modules.loaded(*trusted_modules.CHECKER)
    rooms = {name.split(".")[1] for name in names if "." in name}
    assert not rooms & {"solver", "witness", "method", "budget", "jobs", "polynomial", "robustness", "cli"}
    charts = [name for name in names if name.startswith("lipcert.chart.")]
    assert charts == ["lipcert.chart.facts", "lipcert.chart.numbers"]
    assert not [
        n for n in names if n.startswith(("lipcert.readers.torch", "lipcert.readers.graph", "lipcert.proof.balls"))
    ]


def test_reference_has_every_public_name_once() -> None:
    names = [name for names in GROUPS.values() for name in names]
    assert sorted(names) == sorted(lipcert.__all__)


def test_index_links_to_every_page() -> None:
    linked = {link.partition("#")[0] for link in pages.links(pages.read("index.md"))}
    assert {p.name for p in pages.DOCS.glob("*.md")} - {"index.md"} <= linked
    assert "docs/index.md" in pages.links(pages.read(pages.README))


def test_every_method_is_explained() -> None:
    text = pages.read("methods.md")
    assert [m for m in lipcert.METHODS if f"`{m}`" not in text] == []


def test_the_extra_all_has_all_others() -> None:
    """But mosek, which needs a licence, and the tools of those who work on the package. Torch is no extra."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    [own] = extras["all"]
    assert set(re.findall(r"\w+", own)) - {"lipcert"} == set(extras) - {"all", "mosek", "docs", "dev"}


NAMED = re.compile(r"`(lipcert(?:\.\w+)+)`")


def rooms() -> set[str]:
    """Names of the rooms and of the modules beside them."""
    found = {p.stem for p in (ROOT / "src" / "lipcert").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    return found - {"__init__", "__main__", "_version"}


def test_names_in_the_architecture_exist() -> None:
    """Modules, classes and functions that the page sends a reader to, in its sentences and in its drawings."""
    text = pages.read("architecture.md")
    names = NAMED.findall(text)
    assert len(names) > 30
    dotted = re.compile(rf"(?<![\w./])(?:{'|'.join(sorted(rooms()))})(?:\.\w+)+")
    drawn = [name for _, drawing in pages.blocks(text, "") for name in dotted.findall(drawing)]
    assert len(drawn) > 30
    for name in [*names, *(f"lipcert.{name}" for name in drawn)]:
        assert pydoc.locate(name) is not None, name


PATH = re.compile(r"`((?:\w+/)+(?:\w+\.py)?)`")


def test_modules_that_the_mathematics_names_exist() -> None:
    """By their path in the package, in its room for polynomials, or in the project."""
    package = ROOT / "src" / "lipcert"
    found = {path for page in (pages.DOCS / "mathematics").glob("*.md") for path in PATH.findall(pages.read(page))}
    assert len(found) > 40
    assert [
        p for p in found if not any((place / p).exists() for place in (package, package / "polynomial", ROOT))
    ] == []


def test_the_architecture_shows_every_room() -> None:
    text = pages.read("architecture.md")
    assert {room for room in rooms() if f"`{room}`" not in text} == set()
