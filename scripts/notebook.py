"""Run the notebook in examples/ and store the outputs of its cells in it, without Jupyter.

python -m scripts.notebook
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent.parent / "examples" / "first_hour.ipynb"
_SHOWN = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}

Cell = dict[str, Any]
Outputs = list[dict[str, Any]]


def read() -> dict[str, Any]:
    """The notebook as it is stored."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def code_cells(notebook: dict[str, Any]) -> list[Cell]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def executed(notebook: dict[str, Any]) -> list[Outputs]:
    """The outputs of every code cell, run one after the other in a folder of their own."""
    names: dict[str, Any] = {"__name__": "__main__"}
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return [_outputs("".join(cell["source"]), k + 1, names) for k, cell in enumerate(code_cells(notebook))]
        finally:
            os.chdir(here)


def _outputs(source: str, count: int, names: dict[str, Any]) -> Outputs:
    """The printed text of a cell, and the value of its last line if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, where = io.StringIO(), f"cell {count}"
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    found: Outputs = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        data |= {kind: _lines(getattr(value, name)()) for kind, name in _SHOWN.items() if hasattr(value, name)}
        found.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def written(notebook: dict[str, Any]) -> str:
    """The notebook with the outputs of a run."""
    for k, (cell, outputs) in enumerate(zip(code_cells(notebook), executed(notebook), strict=True)):
        cell |= {"execution_count": k + 1, "outputs": outputs}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(read()), encoding="utf-8")
