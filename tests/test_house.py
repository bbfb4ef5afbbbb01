"""Public names, import cost, and arrows that point one way."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import lipcert

SOURCE = Path(lipcert.__file__).parent

# The order of the rooms: a module may import from its own room and from rooms above it in this list.
ROOMS = [
    {"errors", "_version", "steps"},
    {"rounding", "files", "budget"},
    {"chart"},
    {"problem", "jobs"},
    {"readers", "bounds"},
    {"relaxation"},
    {"solver", "witness", "proof"},
    {"polynomial", "search"},
    {"method"},
    {"robustness", "control"},
    {"report"},
    {"paper"},
    {"cli"},
]


def test_public_names() -> None:
    assert sorted(lipcert.__all__) == [
        "Activation",
        "Affine",
        "Ball",
        "Box",
        "Certificate",
        "Certification",
        "DataSet",
        "Everywhere",
        "FileFormatError",
        "FolderVerification",
        "InputError",
        "Jacobian",
        "LargestBox",
        "LayerNorms",
        "LipcertError",
        "METHODS",
        "MethodError",
        "Network",
        "Partition",
        "Plan",
        "Polynomial",
        "PolynomialCertificate",
        "PolynomialProblem",
        "PolynomialResult",
        "Polytope",
        "Progress",
        "Result",
        "SoundnessError",
        "Status",
        "UnionResult",
        "UnionVerification",
        "UnsupportedOperator",
        "Verification",
        "__version__",
        "bound",
        "bound_union",
        "cells",
        "certify",
        "closed_loop",
        "contraction",
        "from_torch",
        "jacobian",
        "largest_box",
        "layer_norms",
        "load",
        "loop_weights",
        "maximize",
        "minimize",
        "partition",
        "plan",
        "read_data",
        "verify",
        "verify_folder",
        "verify_polynomial",
        "verify_union",
    ]
    assert all(hasattr(lipcert, name) for name in lipcert.__all__)


def test_cells_is_partition() -> None:
    """The verb has one name on the command line and in Python; `partition` is its older name."""
    assert lipcert.cells is lipcert.partition


def test_dir_lists_each_name_once_and_no_others() -> None:
    assert lipcert.load is not None  # what was asked for is kept among the globals
    found = dir(lipcert)
    assert len(found) == len(set(found))
    assert {name for name in found if not name.startswith("__")} == {*lipcert.__all__} - {"__version__"}


def test_arrows_point_one_way() -> None:
    rank = {name: i for i, room in enumerate(ROOMS) for name in room}
    doors = {SOURCE / "__init__.py", SOURCE / "__main__.py"}  # to the house: in no room
    files = [p for p in SOURCE.rglob("*.py") if p not in doors]
    assert len(files) > 20
    for path in files:
        own = path.relative_to(SOURCE).with_suffix("").parts[0]
        for module in _imports(path):
            other = module.split(".")[1]
            assert other == own or rank[other] < rank[own], f"{path.relative_to(SOURCE)} imports {module}"


def _imports(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lipcert."):
            found.append(node.module)
        elif isinstance(node, ast.ImportFrom) and node.module == "lipcert":
            found += [f"lipcert.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.startswith("lipcert.")]
    return found


def test_import_is_light() -> None:
    """No optional or heavy package is loaded by what most programs use; nothing at all before it is used."""
    code = "import sys, lipcert; first = set(sys.modules); from lipcert import Box, bound, load, verify; print(*{})"
    names = "sorted({m.split('.')[0] for m in WHICH})"
    for which, absent in (
        ("first", {"numpy", "scipy"}),
        ("sys.modules", {"onnx", "onnxruntime", "matplotlib", "torch", "click", "rich", "pandas"}),
    ):
        command = [sys.executable, "-c", code.format(names.replace("WHICH", which))]
        loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert not absent & set(loaded)


def test_no_constant_is_defined_twice() -> None:
    """The later one would win, in silence and with another unit."""
    for path in SOURCE.rglob("*.py"):
        seen: set[str] = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for target in node.targets if isinstance(node, ast.Assign) else []:
                names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and n.id.isupper()}
                assert not names & seen, f"{path.relative_to(SOURCE)}: {names & seen}"
                seen |= names


def test_modules_that_docstrings_name_are_there() -> None:
    rooms = "|".join(sorted(name for room in ROOMS for name in room if (SOURCE / name).is_dir()))
    named = re.compile(rf"`(?:lipcert[./])?((?:{rooms})[./][a-z0-9_./]+?)(?:\.py)?`")
    for path in SOURCE.rglob("*.py"):
        for found in named.findall(path.read_text(encoding="utf-8")):
            parts = found.replace("/", ".").split(".")
            near = [SOURCE.joinpath(*parts[:k]) for k in (len(parts), len(parts) - 1)]
            assert any(p.is_dir() or p.with_suffix(".py").is_file() for p in near if p != SOURCE / parts[0]), (
                f"{path.relative_to(SOURCE)} names {found}"
            )
