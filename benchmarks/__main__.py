"""List the benchmarks: each is a module, run as `python -m benchmarks.NAME` from the repository's root."""

from __future__ import annotations

import ast
from pathlib import Path


def main() -> None:
    here = Path(__file__).parent
    modules = {path.stem: path for path in here.glob("*.py") if not path.name.startswith("_")}
    modules |= {path.parent.name: path for path in here.glob("*/__main__.py")}
    for name, path in sorted(modules.items()):
        summary = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]
        print(f"python -m benchmarks.{name:22s} {summary}")


if __name__ == "__main__":
    main()
