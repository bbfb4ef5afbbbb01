"""Write the table of docs/trust.md: the modules that `verify` loads, and those of the second checker, with their lines.

python -m scripts.trusted_modules
"""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "docs" / "trust.md"
SOURCE = FILE.parent.parent / "src"
BEGIN, END = "<!-- modules: begin -->", "<!-- modules: end -->"

# The modules that a check against a network in an .npz imports: two checkers (constants and margins) and one reader.
CHECKER = ("lipcert.proof.verify", "lipcert.proof.margins", "lipcert.readers.npz")
SECOND = "lipcert.proof.balls"
_ROUNDED = 100  # counts are rounded to this: the table is to be true, not to change with every line
WORDS = {
    "lipcert": "names, errors, limits",
    "rounding": "outward rounding, semidefiniteness by a factorisation",
    "files": "archives of strangers",
    "chart": "how a verification is printed",
    "problem": "network, activations, region, norm, output",
    "readers": "networks of `.npz` files",
    "bounds": "pre-activations, slopes, gradients, norms, the network of the open neurons",
    "relaxation": "rows of relaxations and of slope programs",
    "proof": "the proofs and what checks them",
    SECOND: "`--exact`, besides all of the above",
}


@cache
def loaded(*modules: str) -> list[str]:
    """The modules of this package that a fresh interpreter has after importing these."""
    code = f"import sys, {', '.join(modules)}; print(*sorted(m for m in sys.modules if m.split('.')[0] == 'lipcert'))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return answer.stdout.split()


def lines(module: str) -> tuple[int, int]:
    """All lines of a module's file, and those with code: no blank ones, comments or docstrings."""
    path = SOURCE.joinpath(*module.split("."))
    text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    every = text.splitlines()
    code = {k for k, line in enumerate(every, start=1) if line.strip() and not line.lstrip().startswith("#")}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            told = node.body[0]
            code -= set(range(told.lineno, (told.end_lineno or told.lineno) + 1))
    return len(every), len(code)


def table() -> str:
    """A row for each room, with its modules."""
    checker = loaded(*CHECKER)
    rooms: dict[str, list[str]] = {name: [] for name in WORDS}
    for module in checker:
        parts = module.split(".")
        rooms[parts[1] if len(parts) > 1 and parts[1] in WORDS else "lipcert"].append(module)
    rooms[SECOND] = [m for m in loaded(SECOND) if m not in checker]
    rows = ["| room | what it is about | lines | of code | modules |", "|---|---|---:|---:|---|"]
    sums = [0, 0]
    for room, modules in rooms.items():
        counts = [sum(pair) for pair in zip(*(lines(m) for m in modules), strict=True)]
        if room == SECOND:
            rows.append(f"| | **`verify`** | **{_about(sums[0])}** | **{_about(sums[1])}** | {len(checker)} modules |")
        sums = [a + b for a, b in zip(sums, counts, strict=True)]
        names = ", ".join(f"`{_short(m, room)}`" for m in modules)
        title = room.removeprefix("lipcert.").replace(".", "/")
        rows.append(f"| `{title}` | {WORDS[room]} | {_about(counts[0])} | {_about(counts[1])} | {names} |")
    return "\n".join(rows)


def _about(count: int) -> str:
    return f"{round(count / _ROUNDED) * _ROUNDED:,}"


def _short(module: str, room: str) -> str:
    prefix = room if room.startswith("lipcert") else f"lipcert.{room}"
    return module.removeprefix(f"{prefix}.").removeprefix(prefix) or "__init__"


def written(text: str) -> str:
    """The page with the table of now."""
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    FILE.write_text(written(FILE.read_text(encoding="utf-8")), encoding="utf-8")
