"""List the benchmarks: each is a module, run as `python -m benchmarks.NAME` from the repository's root."""

from __future__ import annotations

import ast
from pathlib import Path


def main() -> None:
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if not path.name.startswith("_"):
            summary = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]
            print(f"python -m benchmarks.{path.stem:22s} {summary}")


if __name__ == "__main__":
    main()
